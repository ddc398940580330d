//! Brute-force Kernel SHAP: the kernel regression over all subsets.
//!
//! `as-released` has no intercept and a weight of 10⁶ for the empty and the full subset, so each value is the Shapley value plus
//! v(∅)/d; `correct` is the Shapley value.

use super::shap::coalition_means;
use super::{check_enumerable, each};
use crate::attribute::Variant;
use crate::attribute::error::Result;
use crate::attribute::models::Model;
use crate::attribute::rows::Rows;
use crate::attribute::subsets::{kernel_regression, shapley};

#[derive(Clone, Copy, Debug)]
pub struct BfShap {
    /// The first training rows.
    pub background: usize,
    /// Weight of the empty and the full subset.
    pub ends: f64,
    pub variant: Variant,
}

impl Default for BfShap {
    fn default() -> Self {
        Self {
            background: 1000,
            ends: 1e6,
            variant: Variant::Correct,
        }
    }
}

impl BfShap {
    pub fn explain(&self, model: &Model, train: &Rows, points: &Rows) -> Result<Rows> {
        check_enumerable("bf-shap", train.columns)?;
        let background = train.head(self.background);
        Ok(each(points, |_, x| {
            let values = coalition_means(model, x, &background);
            brute_force(&values, x.len(), self.ends, self.variant)
        }))
    }
}

/// From the value of each subset.
pub fn brute_force(values: &[f64], d: usize, ends: f64, variant: Variant) -> Vec<f64> {
    match variant {
        Variant::Correct => shapley(values, d),
        Variant::AsReleased => kernel_regression(values, d, ends, false).1,
    }
}
