//! The games that metrics look at: v(S) = E\[f(X) | X_S = x_S\] of each point for the subsets that are asked for.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use super::{Conditional, GROUPS};
use crate::attribute::data::Features;
use crate::attribute::expectation::Expectation;
use crate::attribute::models::Model;
use crate::attribute::rows::Rows;
use crate::attribute::subsets::{Subset, all};

/// The points for which each subset is needed.
#[derive(Clone, Debug, Default)]
pub struct Requests(BTreeMap<Subset, Vec<usize>>);

impl Requests {
    pub fn add(&mut self, point: usize, subset: Subset) {
        let points = self.0.entry(subset).or_default();
        if points.last() != Some(&point) {
            points.push(point);
        }
    }

    /// Every subset for every point.
    pub fn everything(points: usize, d: usize) -> Self {
        let subsets = (0..=all(d)).map(|s| (s, (0..points).collect()));
        Self(subsets.collect())
    }
}

/// Point and subset, with the mean of each group of draws, or one exact value.
type Entry = ((usize, Subset), Vec<f64>);

/// How values are found.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    pub model: &'a Model,
    pub features: &'a Features,
    pub conditional: Conditional,
    /// By draws even where there is a formula, and each point with draws of its own: what the released code does.
    pub always_draw: bool,
    pub seed: u64,
}

/// Values of the games.
pub struct Games {
    predictions: Vec<f64>,
    full: Subset,
    /// Sums over the draws of each group, or one exact value.
    values: HashMap<(usize, Subset), Vec<f64>>,
    /// Draws of each expectation; 0 if all are exact.
    pub draws: usize,
}

impl Games {
    /// `draws` is rounded up to whole groups. Subsets run on all threads.
    pub fn new(plan: Plan<'_>, points: &Rows, requests: &Requests, draws: usize) -> Self {
        let per_group = draws.div_ceil(GROUPS).max(1);
        let full = all(points.columns);
        let needed: Vec<(&Subset, &Vec<usize>)> =
            requests.0.iter().filter(|(s, _)| **s != full).collect();
        let found: Vec<Vec<Entry>> = needed
            .par_iter()
            .map(|(subset, numbers)| {
                let independent = plan.conditional == Conditional::Interventional;
                let given = plan.features.given(**subset, independent);
                let expectation = Expectation::new(plan.model, given);
                let rows: Vec<(usize, &[f64])> =
                    numbers.iter().map(|&i| (i, points.row(i))).collect();
                let exact: Option<Vec<f64>> = match plan.always_draw {
                    true => None,
                    false => rows.iter().map(|(_, x)| expectation.exact(x)).collect(),
                };
                let key = |i: &usize| (*i, **subset);
                if let Some(values) = exact {
                    let pairs = numbers.iter().zip(values);
                    return pairs.map(|(i, v)| (key(i), vec![v])).collect();
                }
                let mut sums = vec![vec![0.0; GROUPS]; rows.len()];
                let range = 0..per_group * GROUPS;
                let keys = (plan.seed, **subset);
                expectation.add_draws(keys, &rows, plan.always_draw, range, &mut sums);
                let mean = |sums: Vec<f64>| sums.iter().map(|s| s / per_group as f64).collect();
                let pairs = numbers.iter().zip(sums);
                pairs.map(|(i, s)| (key(i), mean(s))).collect()
            })
            .collect();
        let values: HashMap<_, _> = found.into_iter().flatten().collect();
        let drawn = values.values().any(|v: &Vec<f64>| v.len() > 1);
        Self {
            predictions: plan.model.predict(points),
            full,
            draws: if drawn { per_group * GROUPS } else { 0 },
            values,
        }
    }

    /// From values that are known: `values[point][subset number]`.
    pub fn given(d: usize, predictions: Vec<f64>, values: &[Vec<f64>]) -> Self {
        let of_point = |(i, row): (usize, &Vec<f64>)| -> Vec<_> {
            let entry = |(s, v): (usize, &f64)| ((i, s as Subset), vec![*v]);
            row.iter().enumerate().map(entry).collect()
        };
        Self {
            predictions,
            full: all(d),
            values: values.iter().enumerate().flat_map(of_point).collect(),
            draws: 0,
        }
    }

    pub fn points(&self) -> usize {
        self.predictions.len()
    }

    pub fn prediction(&self, point: usize) -> f64 {
        self.predictions[point]
    }

    /// Mean prediction of all points.
    pub fn mean_prediction(&self) -> f64 {
        self.predictions.iter().sum::<f64>() / self.predictions.len().max(1) as f64
    }

    /// v(S) of a point, optionally without one group of draws. The full subset is the prediction, unless given otherwise. NaN if it was not asked for.
    pub fn value(&self, point: usize, subset: Subset, without: Option<usize>) -> f64 {
        let Some(groups) = self.values.get(&(point, subset)) else {
            return match subset == self.full {
                true => self.predictions[point],
                false => f64::NAN,
            };
        };
        match (without, groups.len()) {
            (Some(left_out), 2..) => {
                let sum: f64 = groups.iter().sum();
                (sum - groups[left_out]) / (groups.len() - 1) as f64
            }
            _ => groups.iter().sum::<f64>() / groups.len() as f64,
        }
    }
}
