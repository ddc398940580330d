//! What one method did on one data set: a JSON file, the input of ranks and recommendations.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Result, TabularStudyError};

/// Version of the file.
const SCHEMA: &str = "foil.tabular.results/1";

/// Scores of all factuals of one data set by one method.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    pub version: String,
    pub dataset: String,
    /// numerical, categorical or mixed.
    pub kinds: String,
    pub method: String,
    pub variant: String,
    /// paper, v1 or v2.
    pub edition: String,
    pub seed: u64,
    /// Seconds that one factual may take; none: no limit.
    pub budget: Option<f64>,
    /// What the data, the network and the settings were, as a checksum.
    pub made_from: String,
    pub neurons: usize,
    pub auc_test: f64,
    pub rows_train: usize,
    pub columns_numerical: usize,
    pub columns_categorical: usize,
    pub rows: Vec<ResultRow>,
}

/// Scores of one factual.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultRow {
    /// Row number in the data.
    pub row: usize,
    pub class: usize,
    /// The network is wrong about this row.
    pub misclassified: bool,
    /// Probability of its own class.
    pub prediction: f64,
    /// Share of rows with the label of its class.
    pub share: f64,
    pub returned: bool,
    pub coverage: bool,
    pub ruc: bool,
    pub rmc: bool,
    pub sparsity: Option<f64>,
    pub l2: Option<f64>,
    pub madd: Option<f64>,
    pub md: Option<f64>,
    pub seconds: f64,
    /// The time was up.
    pub out_of_time: bool,
    /// The smallest change is proven (exact methods).
    pub proven: Option<bool>,
}

impl Results {
    /// The name of the file's version.
    pub fn schema() -> String {
        SCHEMA.into()
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| TabularStudyError::Io {
            file: file.clone(),
            source,
        })?;
        let wrong = |reason: String| TabularStudyError::Results {
            file: file.clone(),
            reason,
        };
        let found: Self = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        if found.schema != SCHEMA {
            return Err(wrong(format!(
                "schema {:?}, expected {SCHEMA:?}",
                found.schema
            )));
        }
        Ok(found)
    }

    /// Writes it beside its place and moves it there, so that a file is whole or absent.
    pub fn write(&self, path: &Path) -> Result<()> {
        let file = path.display().to_string();
        let io = |source: std::io::Error| TabularStudyError::Io {
            file: file.clone(),
            source,
        };
        let text = serde_json::to_string_pretty(self).map_err(|e| io(std::io::Error::other(e)))?;
        let beside = path.with_extension("part");
        std::fs::write(&beside, text).map_err(io)?;
        std::fs::rename(&beside, path).map_err(io)
    }

    /// Share of factuals for which `holds`.
    pub fn share(&self, holds: impl Fn(&ResultRow) -> bool) -> f64 {
        let hits = self.rows.iter().filter(|r| holds(r)).count();
        hits as f64 / self.rows.len().max(1) as f64
    }

    /// Share of factuals with a counterfactual.
    pub fn coverage(&self) -> f64 {
        self.share(|r| r.coverage)
    }

    /// Share of factuals with a realistic counterfactual.
    pub fn realistic(&self) -> f64 {
        self.share(|r| r.coverage && r.ruc && r.rmc)
    }

    /// Mean seconds of a factual.
    pub fn seconds(&self) -> f64 {
        let sum: f64 = self.rows.iter().map(|r| r.seconds).sum();
        sum / self.rows.len().max(1) as f64
    }
}
