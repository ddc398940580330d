//! A table with all that is computed from it before anything is explained.

use std::path::Path;

use super::{
    Encoding, Network, Predictor, Result, Schema, Split, Table, area_under_curve, choose_factuals,
    split,
};

/// A table, its encoding, its encoded rows and its split.
pub struct Prepared {
    pub table: Table,
    pub encoding: Encoding,
    pub rows: Vec<Vec<f64>>,
    pub split: Split,
    /// Encoded training rows.
    pub train: Vec<Vec<f64>>,
}

/// The benchmark's seed for splits.
pub const SPLIT_SEED: u32 = 42;

impl Prepared {
    /// Reads a table and prepares it.
    pub fn read(data: &Path, schema: &Schema) -> Result<Self> {
        Self::of(Table::read(data, schema)?)
    }

    /// Prepares a table.
    pub fn of(table: Table) -> Result<Self> {
        let encoding = Encoding::new(&table)?;
        let rows = encoding.encode_all(&table.rows);
        let split = split(&table, SPLIT_SEED)?;
        let train = split.train.iter().map(|&r| rows[r].clone()).collect();
        Ok(Self {
            table,
            encoding,
            rows,
            split,
            train,
        })
    }

    /// The class that a model gives each row.
    pub fn predicted(&self, model: &dyn Predictor) -> Vec<usize> {
        let asked = model.probabilities(&self.rows.concat());
        asked.iter().map(|[a, b]| usize::from(b > a)).collect()
    }

    /// The benchmark's factuals: of each class that the model gives, at most `most`.
    pub fn factuals(&self, model: &dyn Predictor, most: usize) -> [Vec<usize>; 2] {
        let predicted = self.predicted(model);
        [0, 1].map(|class| choose_factuals(&self.split, &predicted, class, most))
    }

    /// AUC of a model on some rows; NaN if a label is absent there.
    pub fn auc(&self, model: &dyn Predictor, rows: &[usize]) -> f64 {
        let flat: Vec<f64> = rows
            .iter()
            .flat_map(|&r| self.rows[r].iter().copied())
            .collect();
        let scores: Vec<f64> = model.probabilities(&flat).iter().map(|p| p[1]).collect();
        let labels: Vec<usize> = rows.iter().map(|&r| self.table.label(r)).collect();
        area_under_curve(&scores, &labels).unwrap_or(f64::NAN)
    }

    /// An error if a network does not fit these data.
    pub fn check(&self, file: &str, network: &Network) -> Result<()> {
        network.check_width(file, self.encoding.width())
    }
}
