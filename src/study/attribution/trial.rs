//! One trial: a data set, a model, all explainers, all metrics.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Result, StudyError, at};
use crate::attribute::Rows;
use crate::attribute::Variant;
use crate::attribute::data::{LabelFunction, Recipe};
use crate::attribute::explainers::Method;
use crate::attribute::metrics::{Conditional, Metric, Scoring, Settings};
use crate::attribute::models::{Kind, train};

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub labels: LabelFunction,
    pub model: Kind,
    pub rho: f64,
    pub seed: u64,
    pub variant: Variant,
    pub conditional: Conditional,
    pub train: usize,
    pub test: usize,
    pub dim: usize,
    pub explainers: Vec<Method>,
    pub metrics: Vec<Metric>,
}

/// What it found: values by metric and explainer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Of all that decides the values.
    pub fingerprint: String,
    /// Mean squared error of the model on the test rows.
    pub model_error: f64,
    pub seconds: f64,
    /// Metric, then explainer: value and Monte-Carlo error.
    pub values: BTreeMap<String, BTreeMap<String, (f64, f64)>>,
}

impl Trial {
    pub fn same_data(&self, other: &Self) -> bool {
        let key = |t: &Self| (t.labels.name(), t.model, t.rho.to_bits(), t.seed, t.variant);
        key(self) == key(other)
    }

    pub fn name(&self) -> String {
        format!(
            "{}-{}-rho{}-seed{}-{}",
            self.labels.name(),
            self.model.name(),
            self.rho,
            self.seed,
            self.variant.name()
        )
    }

    /// Names and numbers of everything that decides the values.
    pub fn fingerprint(&self) -> String {
        let metrics: Vec<&str> = self.metrics.iter().map(|m| m.name()).collect();
        let explainers: Vec<&str> = self.explainers.iter().map(|m| m.name()).collect();
        let text = format!(
            "{} {} {} {} {} {metrics:?} {explainers:?} {}",
            self.name(),
            self.train,
            self.test,
            self.dim,
            self.conditional.name(),
            env!("CARGO_PKG_VERSION")
        );
        let digest = Sha256::digest(text.as_bytes());
        digest.iter().take(12).map(|b| format!("{b:02x}")).collect()
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", self.name()))
    }

    /// What an earlier run found; an error if it was about something else.
    pub fn read(&self, folder: &Path) -> Result<Option<Found>> {
        let path = self.path(folder);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(at(&path, &format!("cannot read: {e}"))),
        };
        // A file that was cut off by an interruption is made again.
        let Ok(found) = serde_json::from_str::<Found>(&text) else {
            return Ok(None);
        };
        if found.fingerprint != self.fingerprint() {
            return Err(StudyError::Folder {
                path,
                reason: "made with other settings or another version of foil: name another --out"
                    .into(),
            });
        }
        Ok(Some(found))
    }

    pub fn write(&self, folder: &Path, found: &Found) -> Result<()> {
        let path = self.path(folder);
        let text = serde_json::to_string(found).map_err(|e| at(&path, &e.to_string()))?;
        // A whole file or none: other shards may look.
        let partial = path.with_extension("tmp");
        std::fs::write(&partial, text).map_err(|e| at(&partial, &e.to_string()))?;
        std::fs::rename(&partial, &path).map_err(|e| at(&path, &e.to_string()))
    }

    pub fn run(&self) -> Result<Found> {
        let started = std::time::Instant::now();
        let mut recipe = Recipe::gaussian(self.labels, self.dim, self.rho, self.seed)?;
        recipe.labels.variant = self.variant;
        (recipe.train, recipe.test) = (self.train, self.test);
        let data = recipe.make();
        let model = train(self.model, &data, self.seed);
        let settings = Settings {
            variant: self.variant,
            conditional: self.conditional,
            seed: self.seed,
            ..Settings::default()
        };
        let points = &data.test.x;
        let scoring = Scoring {
            data: &data,
            model: &model,
            points,
            settings,
        };
        let retrains = self.metrics.iter().any(|m| m.retrains());
        let both = match retrains {
            true => Rows::new(
                [&points.values[..], &data.train.x.values].concat(),
                self.dim,
            ),
            false => points.clone(),
        };
        let mut weights: Vec<(Rows, Rows)> = Vec::new();
        for method in &self.explainers {
            let all = method.explain(&model, &data.train.x, &both, self.variant, self.seed)?;
            let rest = Rows::new(all.values[points.values.len()..].to_vec(), self.dim);
            weights.push((all.head(points.len()), rest));
        }
        let mut values: BTreeMap<String, BTreeMap<String, (f64, f64)>> = BTreeMap::new();
        for &metric in &self.metrics {
            let estimates = match metric {
                Metric::GtShapley => {
                    let all: Vec<&Rows> = weights.iter().map(|(test, _)| test).collect();
                    scoring.gt_shapley(&all)?
                }
                _ => {
                    let mut found = Vec::new();
                    for (test, rest) in &weights {
                        found.push(match metric.retrains() {
                            true => scoring.score_retrained(metric, self.model, test, rest)?,
                            false => scoring.score(metric, test)?,
                        });
                    }
                    found
                }
            };
            let row = values.entry(metric.name().into()).or_default();
            for (method, e) in self.explainers.iter().zip(estimates) {
                row.insert(method.name().into(), (e.value, e.standard_error));
            }
        }
        Ok(Found {
            fingerprint: self.fingerprint(),
            model_error: model.squared_error(&data.test),
            seconds: started.elapsed().as_secs_f64(),
            values,
        })
    }
}
