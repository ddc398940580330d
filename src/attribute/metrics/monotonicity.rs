//! Monotonicity ([xai-bench] eq. 3 and 4): features become known by importance; the share of steps whose changes of the expected
//! prediction come in the order of importance.
//!
//! The paper's formula has the most important feature first, where changes should shrink, but counts steps that grow; the released code
//! turns the list of changes around. It also keeps the prediction after feature j at place j, not at its step, so that
//! changes are between unrelated sets (`Steps::ByFeature`), and starts from the mean prediction of all points.

use super::ascending;
use super::faithfulness::mean_over;
use super::games::Games;
use crate::attribute::models::Model;
use crate::attribute::rows::Rows;
use crate::attribute::subsets::Subset;

/// Which features become known first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The least important ("inc").
    LeastFirst,
    /// The most important ("dec").
    MostFirst,
}

/// Where the expectation after a step is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// In the order of the steps.
    InOrder,
    /// At the place of the feature: the released code's fault.
    ByFeature,
}

/// The features in the order in which they become known, each with the subset known from then on.
pub fn walk(weights: &[f64], order: Order) -> Vec<(usize, Subset)> {
    let mut features = ascending(weights);
    if order == Order::MostFirst {
        features.reverse();
    }
    let mut known: Subset = 0;
    features
        .into_iter()
        .map(|j| {
            known |= 1 << j;
            (j, known)
        })
        .collect()
}

/// Of one point, from `start`, the expectation where nothing is known.
pub fn monotonicity(
    games: &Games,
    point: usize,
    weights: &[f64],
    (order, steps): (Order, Steps),
    start: f64,
    without: Option<usize>,
) -> f64 {
    let walk: Vec<(usize, f64)> = walk(weights, order)
        .into_iter()
        .map(|(j, known)| (j, games.value(point, known, without)))
        .collect();
    monotonicity_of_walk(&walk, (order, steps), start)
}

/// From the expectation after each feature.
pub fn monotonicity_of_walk(
    walk: &[(usize, f64)],
    (order, steps): (Order, Steps),
    start: f64,
) -> f64 {
    let mut values = vec![start; walk.len() + 1];
    for (step, (j, value)) in walk.iter().enumerate() {
        let at = match steps {
            Steps::InOrder => step,
            Steps::ByFeature => *j,
        };
        values[at + 1] = *value;
    }
    let mut changes: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    if order == Order::MostFirst {
        changes.reverse();
    }
    if changes.len() < 2 {
        return 1.0;
    }
    let holds = changes.windows(2).filter(|w| w[1] >= w[0]).count();
    holds as f64 / (changes.len() - 1) as f64
}

/// Mean over points with one baseline for unknown features; starts from the mean prediction, least important first, as the released code does.
pub fn monotonicity_with_baseline(
    model: &Model,
    points: &Rows,
    weights: &Rows,
    baseline: &[f64],
    steps: Steps,
) -> f64 {
    with_buffer(model, points, weights, steps, || baseline.to_vec())
}

/// The same as released: the baseline is overwritten, and is the point before this one.
pub fn monotonicity_with_aliased_baseline(model: &Model, points: &Rows, weights: &Rows) -> f64 {
    let start = start_of(model, points);
    let mut buffer = points.means();
    mean_over(points, |i, x| {
        let walk = rows_of_walk(model, x, weights.row(i), &mut buffer);
        monotonicity_of_walk(&walk, (Order::LeastFirst, Steps::ByFeature), start)
    })
}

fn with_buffer(
    model: &Model,
    points: &Rows,
    weights: &Rows,
    steps: Steps,
    fresh: impl Fn() -> Vec<f64>,
) -> f64 {
    let start = start_of(model, points);
    mean_over(points, |i, x| {
        let walk = rows_of_walk(model, x, weights.row(i), &mut fresh());
        monotonicity_of_walk(&walk, (Order::LeastFirst, steps), start)
    })
}

fn start_of(model: &Model, points: &Rows) -> f64 {
    model.predict(points).iter().sum::<f64>() / points.len().max(1) as f64
}

fn rows_of_walk(model: &Model, x: &[f64], weights: &[f64], row: &mut [f64]) -> Vec<(usize, f64)> {
    walk(weights, Order::LeastFirst)
        .into_iter()
        .map(|(j, _)| {
            row[j] = x[j];
            (j, model.predict_one(row))
        })
        .collect()
}
