//! A random forest of regression trees, for MAPLE and for ensembles of users.

use rayon::prelude::*;

use super::tree::Tree;
use super::tree_growth::{TreeSettings, columns_of, grow_sorted, sorted_orders};
use crate::attribute::rows::Rows;
use crate::attribute::streams;
use crate::stats::random::Draws;

/// The value of a row is `base` plus `scale` times the sum over the trees.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    pub trees: Vec<Tree>,
    pub base: f64,
    pub scale: f64,
}

/// How a forest is grown; the default is MAPLE's.
#[derive(Clone, Copy, Debug)]
pub struct ForestSettings {
    pub trees: usize,
    pub least_leaf: usize,
    /// Share of the features tried at a node.
    pub features: f64,
}

impl Default for ForestSettings {
    fn default() -> Self {
        Self {
            trees: 200,
            least_leaf: 10,
            features: 0.5,
        }
    }
}

impl ForestSettings {
    /// Grows each tree on rows drawn with replacement.
    pub fn grow(&self, x: &Rows, y: &[f64], seed: u64) -> Forest {
        let columns = columns_of(x);
        let sorted = sorted_orders(&columns);
        let features = ((self.features * x.columns as f64) as usize).max(1);
        let trees = (0..self.trees)
            .into_par_iter()
            .map(|t| {
                let index = t as u64;
                let counts = Draws::new(seed, streams::FOREST, 2 * index).resample_counts(y.len());
                let settings = TreeSettings {
                    least_leaf: self.least_leaf,
                    features: Some(features),
                    stream: streams::FOREST,
                    index: 2 * index + 1,
                };
                grow_sorted(&columns, &sorted, y, Some(&counts), &settings, seed)
            })
            .collect();
        Forest {
            trees,
            base: 0.0,
            scale: 1.0 / self.trees.max(1) as f64,
        }
    }
}

impl Forest {
    pub fn dimension(&self) -> usize {
        self.trees.first().map_or(0, |t| t.dimension)
    }

    pub fn predict_into(&self, rows: &[f64], out: &mut [f64]) {
        let mut one = vec![0.0; out.len()];
        out.fill(0.0);
        for tree in &self.trees {
            tree.predict_into(rows, &mut one);
            out.iter_mut().zip(&one).for_each(|(o, v)| *o += v);
        }
        out.iter_mut()
            .for_each(|o| *o = self.base + self.scale * *o);
    }
}
