//! Ground-truth Shapley values of the known distribution, and how near weights are to them ([xai-bench] section 3.2, GT-Shapley).

use super::games::Games;
use crate::attribute::Variant;
use crate::attribute::rows::Rows;
use crate::attribute::subsets::{Subset, all, kernel_regression, shapley};

/// Weight of the empty and the full subset in the released regression.
const ENDS: f64 = 1e6;

/// Shapley values of each point's game; `as-released` by a regression without intercept, which adds v(∅)/d to each (correlations do
/// not notice).
pub fn ground_truth(games: &Games, d: usize, variant: Variant, without: Option<usize>) -> Rows {
    let rows = (0..games.points()).map(|i| {
        let value = |s: Subset| games.value(i, s, without);
        let values: Vec<f64> = (0..=all(d)).map(value).collect();
        match variant {
            Variant::Correct => shapley(&values, d),
            Variant::AsReleased => kernel_regression(&values, d, ENDS, false).1,
        }
    });
    Rows::from_rows(rows, d)
}

/// Distances of weights from the ground truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroundTruth {
    pub mse: f64,
    /// √Σ/(points · features), which the released code calls so.
    pub rmse_as_released: f64,
    pub rmse: f64,
    pub mae: f64,
    /// Mean over points of the correlation: the GT-Shapley of the tables.
    pub correlation: f64,
}

pub fn distances(weights: &Rows, truth: &Rows) -> GroundTruth {
    let n = truth.values.len().max(1) as f64;
    let (mut squares, mut sizes) = (0.0, 0.0);
    for (w, t) in weights.values.iter().zip(&truth.values) {
        squares += (w - t).powi(2);
        sizes += (w - t).abs();
    }
    let pairs = weights.iter().zip(truth.iter());
    let correlations: f64 = pairs.map(|(w, t)| super::pearson(w, t)).sum();
    GroundTruth {
        mse: squares / n,
        rmse_as_released: squares.sqrt() / n,
        rmse: (squares / n).sqrt(),
        mae: sizes / n,
        correlation: correlations / truth.len().max(1) as f64,
    }
}
