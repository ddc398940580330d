//! Faithfulness ([xai-bench] eq. 2): the correlation of weights with what losing each feature does to the prediction.
//!
//! Weights count by their size, as in the released code: the change is a size too.

use super::games::Games;
use super::{absolute, pearson};
use crate::attribute::models::Model;
use crate::attribute::rows::Rows;
use crate::attribute::subsets::all;

/// Of one point: Pearson(|w|, |f(x) − v(all but j)|).
pub fn faithfulness(games: &Games, point: usize, weights: &[f64], without: Option<usize>) -> f64 {
    let d = weights.len();
    let change = |j: usize| {
        let rest = games.value(point, all(d) ^ (1 << j), without);
        (games.prediction(point) - rest).abs()
    };
    let changes: Vec<f64> = (0..d).map(change).collect();
    pearson(&absolute(weights), &changes)
}

/// The released version "inc": Pearson(|w|, |base − v({j})|), base the mean prediction of all points.
pub fn faithfulness_adding(
    games: &Games,
    point: usize,
    weights: &[f64],
    without: Option<usize>,
) -> f64 {
    let base = games.mean_prediction();
    let change = |j: usize| (base - games.value(point, 1 << j, without)).abs();
    let changes: Vec<f64> = (0..weights.len()).map(change).collect();
    pearson(&absolute(weights), &changes)
}

/// Mean over points with one baseline for unknown features: what the released code means by interventional.
pub fn faithfulness_with_baseline(
    model: &Model,
    points: &Rows,
    weights: &Rows,
    baseline: &[f64],
) -> f64 {
    mean_over(points, |i, x| {
        let at_point = model.predict_one(x);
        let change = |j: usize| {
            let mut row = x.to_vec();
            row[j] = baseline[j];
            (at_point - model.predict_one(&row)).abs()
        };
        let changes: Vec<f64> = (0..x.len()).map(change).collect();
        pearson(&absolute(weights.row(i)), &changes)
    })
}

/// The same as released: the baseline is overwritten by every row that is made of it, so that it soon is the point itself.
pub fn faithfulness_with_aliased_baseline(model: &Model, points: &Rows, weights: &Rows) -> f64 {
    let mut baseline = points.means();
    mean_over(points, |i, x| {
        let at_point = model.predict_one(x);
        let mut changes = Vec::with_capacity(x.len());
        for j in 0..x.len() {
            for (k, value) in baseline.iter_mut().enumerate() {
                if k != j {
                    *value = x[k];
                }
            }
            changes.push((at_point - model.predict_one(&baseline)).abs());
        }
        pearson(&absolute(weights.row(i)), &changes)
    })
}

pub(super) fn mean_over(points: &Rows, mut of: impl FnMut(usize, &[f64]) -> f64) -> f64 {
    let sum: f64 = points.iter().enumerate().map(|(i, x)| of(i, x)).sum();
    sum / points.len().max(1) as f64
}
