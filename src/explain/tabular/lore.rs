//! LORE (Guidotti et al. 2018): a neighbourhood grown by a genetic algorithm, a decision tree on it, and the leaf of the other outcome that breaks the fewest
//! conditions.
//!
//! 500 individuals that keep the factual's outcome and 500 that change it, from copies of the factual, over 10 generations (`lore_genes`). The tree is CART where the original
//! calls a C4.5 program. A leaf's conditions are met one by one: a number goes just beyond the threshold, a category becomes the required one.
//!
//! `correct`: outcomes are the model's classes; a leaf's point is asked for; if no leaf gives a counterfactual the nearest individual of the wished outcome does. As
//! benchmarked: an outcome is int(p), 1 only where p is exactly 1 in single precision, and the first leaf's point is returned unasked.

use super::lore_genes::{GenesParams, neighbourhood};
use super::{Found, Problem, Result};
use crate::stats::decision_tree::{Tree, TreeParams};
use crate::tabular::{Kind, Predictor, SinglePrecision};

/// Settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoreParams {
    pub genes: GenesParams,
}

/// How far beyond a threshold a number goes, in standard deviations.
const BEYOND: f64 = 1e-6;

/// The `correct` variant.
pub fn correct(problem: &Problem<'_>, params: LoreParams) -> Found {
    let outcome = |rows: &[Vec<f64>]| -> Vec<bool> {
        let asked = problem.predictor.probabilities(&rows.concat());
        asked
            .iter()
            .map(|p| p[problem.target] > p[1 - problem.target])
            .collect()
    };
    let rows = neighbourhood(problem, &params.genes, &outcome, true);
    let hits = outcome(&rows);
    let points = leaves(problem, &rows, &hits);
    let mut found: Vec<Vec<f64>> = Vec::new();
    for point in points {
        let mut point = problem.space.realise(problem.factual, &point);
        if problem.accepts(&point) {
            problem
                .space
                .put_back(problem.factual, &mut point, &|x| problem.accepts(x));
            if !found.contains(&point) {
                found.push(point);
            }
        }
        if found.len() >= problem.k.max(1) {
            break;
        }
    }
    if found.is_empty() {
        let mut near: Vec<(f64, &Vec<f64>)> = rows
            .iter()
            .zip(&hits)
            .filter(|(row, hit)| **hit && problem.accepts(row))
            .map(|(row, _)| (problem.space.distance(problem.factual, row), row))
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, row)) = near.first() {
            let mut point = (*row).clone();
            problem
                .space
                .put_back(problem.factual, &mut point, &|x| problem.accepts(x));
            found.push(point);
        }
    }
    Found::many(found, &problem.clock)
}

/// The variant of the benchmark.
pub fn as_benchmarked(problem: &Problem<'_>, params: LoreParams) -> Result<Found> {
    let single = SinglePrecision(problem.network("lore")?);
    let outcome = |rows: &[Vec<f64>]| -> Vec<bool> {
        let asked = single.probabilities(&rows.concat());
        asked.iter().map(|p| p[problem.target] >= 1.0).collect()
    };
    let rows = neighbourhood(problem, &params.genes, &outcome, false);
    let hits = outcome(&rows);
    let first = leaves(problem, &rows, &hits).into_iter().next();
    Ok(Found::one(first, &problem.clock))
}

/// For every leaf of the other outcome the point that meets its conditions, the fewest broken ones first.
fn leaves(problem: &Problem<'_>, rows: &[Vec<f64>], hits: &[bool]) -> Vec<Vec<f64>> {
    let classes: Vec<usize> = hits.iter().map(|h| usize::from(*h)).collect();
    let params = TreeParams {
        max_depth: 12,
        min_leaf: 2,
    };
    let Some(tree) = Tree::grow(rows, &classes, 2, params) else {
        return Vec::new();
    };
    let mut points: Vec<(usize, f64, Vec<f64>)> = Vec::new();
    let mut open = vec![(0, problem.factual.to_vec(), 0usize)];
    while let Some((at, x, broken)) = open.pop() {
        let node = &tree.nodes[at];
        let Some(split) = node.split else {
            if node.shares[1] > 0.5 && broken > 0 {
                let away = problem.space.distance(problem.factual, &x);
                points.push((broken, away, x));
            }
            continue;
        };
        let value = x[split.feature];
        for (next, low) in [(split.left, true), (split.right, false)] {
            let met = (value <= split.threshold) == low;
            let mut moved = x.clone();
            if !met && !meet(problem, &mut moved, split.feature, split.threshold, low) {
                continue;
            }
            open.push((next, moved, broken + usize::from(!met)));
        }
    }
    points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.into_iter().map(|(_, _, x)| x).collect()
}

/// Moves one column to the other side of a threshold; false if that cannot be.
fn meet(problem: &Problem<'_>, x: &mut [f64], column: usize, threshold: f64, low: bool) -> bool {
    let space = problem.space;
    let feature = space.encoding.columns[column].feature;
    if !space.mutable[feature] {
        return false;
    }
    match space.kind(feature) {
        Kind::Numerical => {
            x[column] = if low {
                threshold - BEYOND
            } else {
                threshold + BEYOND
            };
            true
        }
        Kind::Binary => {
            x[column] = f64::from(u8::from(!low));
            true
        }
        Kind::Categorical if low => {
            // Away from this category: to the most frequent other one.
            let columns = space.columns(feature);
            let others = columns.iter().copied().filter(|&c| c != column);
            let mean = |c: &usize| space.statistics.mean[*c];
            let Some(best) = others.max_by(|a, b| mean(a).total_cmp(&mean(b))) else {
                return false;
            };
            columns
                .iter()
                .for_each(|&c| x[c] = f64::from(u8::from(c == best)));
            true
        }
        Kind::Categorical => {
            space
                .columns(feature)
                .iter()
                .for_each(|&c| x[c] = f64::from(u8::from(c == column)));
            true
        }
    }
}
