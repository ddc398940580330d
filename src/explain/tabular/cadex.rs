//! CADEX (Moore et al. 2019): a shift of the factual, trained like a weight until the class changes.
//!
//! Adam (rate 0.001, ε 1e-7) on the cross-entropy of the wished class. After each step a category whose entry has come second takes over its group.
//!
//! `correct`: numbers are kept in range, groups are those of categorical features only, immutable features have no gradient, and what is returned is
//! realistic. As benchmarked: every column that is not of a categorical feature counts as a group of one and comes out as 1 in tables that have
//! categories.

use super::adam::Adam;
use super::{Found, Problem, Result};
use crate::tabular::{Kinds, Toward};

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct CadexParams {
    pub rate: f64,
    /// Most steps, as benchmarked: the shift reaches about one standard deviation.
    pub steps: usize,
    /// Most steps of the `correct` variant.
    pub correct_steps: usize,
}

impl Default for CadexParams {
    fn default() -> Self {
        Self {
            rate: 0.001,
            steps: 1000,
            correct_steps: 5000,
        }
    }
}

/// Gradient of the cross-entropy of the wished class by the input: (p − 1) times that of the margin.
fn descend(toward: &mut Toward<'_>, x: &[f64], gradient: &mut [f64]) -> f64 {
    let p = toward.probability(x);
    toward.margin_gradient(gradient);
    gradient.iter_mut().for_each(|g| *g *= p - 1.0);
    p
}

/// The `correct` variant.
pub fn correct(problem: &Problem<'_>, params: CadexParams) -> Result<Found> {
    let space = problem.space;
    let mut toward = Toward::new(problem.network("cadex")?, problem.target);
    let width = problem.factual.len();
    let mut adam = Adam::new(width, params.rate, [0.9, 0.999], 1e-7);
    let (mut x, mut gradient) = (problem.factual.to_vec(), vec![0.0; width]);
    let free: Vec<bool> = (0..width).map(|c| space.column_mutable(c)).collect();
    let mut last = problem.factual.to_vec();
    let mut result = None;
    for _ in 0..params.correct_steps {
        if problem.clock.is_over() {
            break;
        }
        descend(&mut toward, &x, &mut gradient);
        gradient
            .iter_mut()
            .zip(&free)
            .for_each(|(g, free)| *g *= f64::from(u8::from(*free)));
        adam.step(&mut x, &gradient);
        for c in space.encoding.numerical() {
            let [low, high] = space.box_of(c, problem.factual);
            x[c] = x[c].clamp(low, high);
        }
        for group in space.encoding.groups() {
            promote_second(group, &mut x, 0.0);
        }
        let point = space.realise(problem.factual, &x);
        // Only what the rounding of categories shows can have changed, or numbers have.
        if point != last && problem.accepts(&point) {
            result = Some(point);
            break;
        }
        last = point;
    }
    if let Some(point) = &mut result {
        space.put_back(problem.factual, point, &|x| problem.accepts(x));
    }
    Ok(Found::one(result, &problem.clock))
}

/// If the second largest entry of a group is above `least` it becomes the group's category.
fn promote_second(group: &[usize], x: &mut [f64], least: f64) {
    if group.len() < 2 {
        return;
    }
    let mut order: Vec<usize> = group.to_vec();
    // Equal entries in the order of a stable ascending sort: the later one is the larger.
    order.sort_by(|&a, &b| x[a].total_cmp(&x[b]));
    let second = order[order.len() - 2];
    if x[second] > least {
        group
            .iter()
            .for_each(|&c| x[c] = f64::from(u8::from(c == second)));
    }
}

/// The variant of the benchmark.
pub fn as_benchmarked(problem: &Problem<'_>, params: CadexParams) -> Result<Found> {
    let space = problem.space;
    let mut toward = Toward::new(problem.network("cadex")?, problem.target);
    let width = problem.factual.len();
    let categorical = space.encoding.kinds() != Kinds::Numerical;
    let groups: Vec<&[usize]> = (0..space.features()).map(|f| space.columns(f)).collect();
    let mut adam = Adam::new(width, params.rate, [0.9, 0.999], 1e-7);
    let (mut x, mut gradient) = (problem.factual.to_vec(), vec![0.0; width]);
    for _ in 0..params.steps {
        if problem.clock.is_over() {
            break;
        }
        descend(&mut toward, &x, &mut gradient);
        adam.step(&mut x, &gradient);
        if categorical {
            groups
                .iter()
                .for_each(|group| promote_second(group, &mut x, 0.0));
        }
        if toward.probability(&x) <= 0.5 {
            continue;
        }
        if !categorical {
            return Ok(Found::one(Some(x), &problem.clock));
        }
        let mut clipped = x.clone();
        for group in &groups {
            let mut best = group[0];
            for &c in group.iter() {
                if x[c] > x[best] {
                    best = c;
                }
            }
            group
                .iter()
                .for_each(|&c| clipped[c] = f64::from(u8::from(c == best)));
        }
        if toward.probability(&clipped) > 0.5 {
            return Ok(Found::one(Some(clipped), &problem.clock));
        }
    }
    Ok(Found::one(None, &problem.clock))
}
