//! Models of tables: the three of the paper, forests, and those of users (files of weights, ONNX).
//!
//! A model gives one number for a row: a prediction, or the probability of class 1.

mod files;
mod forest;
mod linear;
mod mlp;
mod mlp_training;
mod onnx;
mod tree;
mod tree_growth;

pub use files::{from_arrays, read, write};
pub use forest::{Forest, ForestSettings};
pub use linear::Linear;
pub use mlp::{Dense, Mlp};
pub use mlp_training::MlpSettings;
pub use onnx::from_onnx;
pub use tree::Tree;
pub use tree_growth::{TreeSettings, grow};

use std::str::FromStr;

use rayon::prelude::*;

use super::data::{Dataset, Split, Task};
use super::error::{AttributionError, Result};
use super::rows::Rows;
use super::subsets::Subset;

/// What stands after the last sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    #[default]
    Identity,
    /// 1/(1 + exp(−y)): the probability of class 1.
    Logistic,
}

impl Link {
    pub fn of(self, value: f64) -> f64 {
        match self {
            Self::Identity => value,
            Self::Logistic => 1.0 / (1.0 + (-value).exp()),
        }
    }
}

/// A kind of model that foil trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Linear,
    Tree,
    Mlp,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Linear, Self::Tree, Self::Mlp];

    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Tree => "tree",
            Self::Mlp => "mlp",
        }
    }

    /// Trains on rows and labels. The seed moves an MLP's first weights and order of rows, and the order in which a tree tries features.
    pub fn train(self, split: &Split, task: Task, seed: u64) -> Model {
        let link = match task {
            Task::Regression => Link::Identity,
            Task::Classification => Link::Logistic,
        };
        match self {
            Self::Linear => Model::Linear(Linear::fit(&split.x, &split.y, link)),
            // For two classes Gini's impurity is twice the variance, so the splits are the same.
            Self::Tree => Model::Tree(grow(
                &split.x,
                &split.y,
                None,
                &TreeSettings::default(),
                seed,
            )),
            Self::Mlp => Model::Mlp(
                MlpSettings::default()
                    .train(&split.x, &split.y, link, seed)
                    .0,
            ),
        }
    }
}

impl FromStr for Kind {
    type Err = AttributionError;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|k| k.name() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            AttributionError::setting("--model", format!("one of {names}"), format!("{text:?}"))
        })
    }
}

/// A trained model.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    Linear(Linear),
    Tree(Tree),
    Mlp(Mlp),
    Forest(Forest),
}

/// Rows that one task predicts.
const ROWS_OF_A_TASK: usize = 4096;

impl Model {
    /// Number of features.
    pub fn dimension(&self) -> usize {
        match self {
            Self::Linear(m) => m.coefficients.len(),
            Self::Tree(m) => m.dimension,
            Self::Mlp(m) => m.dimension(),
            Self::Forest(m) => m.dimension(),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Linear(_) => "linear",
            Self::Tree(_) => "tree",
            Self::Mlp(_) => "mlp",
            Self::Forest(_) => "forest",
        }
    }

    /// The model for rows of `d` features: a tree need not use the last of them.
    pub fn for_data(mut self, d: usize) -> Result<Self> {
        let widen = |tree: &mut Tree| tree.dimension = tree.dimension.max(d);
        match &mut self {
            Self::Tree(tree) => widen(tree),
            Self::Forest(forest) => forest.trees.iter_mut().for_each(widen),
            _ => {}
        }
        self.check_dimension(d)?;
        Ok(self)
    }

    /// Refuses data of another number of features.
    pub fn check_dimension(&self, d: usize) -> Result<()> {
        match self.dimension() == d {
            true => Ok(()),
            false => Err(AttributionError::Mismatch {
                what: "model and data".into(),
                expected: format!("{} features, as the model has", self.dimension()),
                found: format!("{d} in the data"),
                hint: ": train the model on these data, or name others".into(),
            }),
        }
    }

    /// Predictions of row-major values, on all threads.
    pub fn predict(&self, rows: &Rows) -> Vec<f64> {
        let d = self.dimension();
        let mut out = vec![0.0; rows.len()];
        out.par_chunks_mut(ROWS_OF_A_TASK)
            .zip(rows.values.par_chunks(ROWS_OF_A_TASK * d.max(1)))
            .for_each(|(out, rows)| self.predict_into(rows, out));
        out
    }

    /// Predictions of row-major values, on this thread.
    pub fn predict_into(&self, rows: &[f64], out: &mut [f64]) {
        match self {
            Self::Linear(m) => m.predict_into(rows, out),
            Self::Tree(m) => m.predict_into(rows, out),
            Self::Mlp(m) => m.predict_into(rows, out),
            Self::Forest(m) => m.predict_into(rows, out),
        }
    }

    pub fn predict_one(&self, row: &[f64]) -> f64 {
        let mut out = [0.0];
        self.predict_into(row, &mut out);
        out[0]
    }

    /// The predictions for every subset of the point's features put into the rows of a background (bit j of the subset: feature j is
    /// the point's). `visit` gets the subset, the number of the first row and the predictions from there on; it sees each pair of subset and row once.
    pub fn coalitions(
        &self,
        point: &[f64],
        background: &Rows,
        mut visit: impl FnMut(Subset, usize, &[f64]),
    ) {
        if let Self::Mlp(m) = self
            && m.coalitions(point, background, &mut visit)
        {
            return;
        }
        let (d, n) = (background.columns, background.len());
        let mut mixed = background.clone();
        let mut out = vec![0.0; n];
        self.predict_into(&mixed.values, &mut out);
        visit(0, 0, &out);
        let mut subset: Subset = 0;
        for count in 1..1u64 << d {
            let j = count.trailing_zeros() as usize;
            subset ^= 1 << j;
            let known = subset >> j & 1 == 1;
            for i in 0..n {
                mixed.row_mut(i)[j] = match known {
                    true => point[j],
                    false => background.row(i)[j],
                };
            }
            self.predict_into(&mixed.values, &mut out);
            visit(subset, 0, &out);
        }
    }

    /// Mean squared error on a part of the data.
    pub fn squared_error(&self, split: &Split) -> f64 {
        let predictions = self.predict(&split.x);
        let sum: f64 = predictions
            .iter()
            .zip(&split.y)
            .map(|(p, y)| (p - y) * (p - y))
            .sum();
        sum / split.y.len().max(1) as f64
    }
}

/// Trains a kind of model on a data set.
pub fn train(kind: Kind, data: &Dataset, seed: u64) -> Model {
    kind.train(&data.train, data.labels.task, seed)
}
