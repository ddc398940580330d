//! SynAS (Ramakrishnan et al. 2020): a short sequence of actions, each on one feature.
//!
//! `correct`: sequences grow from one action to [`SynasParams::length`]; of each feature the cheapest action that changes the class is taken (exact along a
//! number, every category otherwise), else the one that lifts the margin most; the best few sequences are extended. Cost is the space's distance.
//!
//! As benchmarked: one action. A number is shifted by Adam (rate 0.005, β₁ 0.99) on (δ·sd/(x·sd+μ))² + c·max(0, p₀ − p₁) with c doubled or divided along the way; every
//! 100 steps it ends if the last step bettered p₀ − p₁ (once the class has changed, the lowest cost) by less than 1e-4;
//! of a categorical feature one category is drawn, a binary one is set to 1, at cost 5. The cheapest feature wins.

use super::adam::Adam;
use super::line::Margin;
use super::{Found, Problem, Result};
use crate::stats::legacy_numpy::LegacyNumpy;
use crate::tabular::{Kind, Toward};

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct SynasParams {
    /// Most actions of a sequence.
    pub length: usize,
    /// Sequences that are kept for extension.
    pub kept: usize,
    pub rate: f64,
    pub steps: usize,
    /// First weight of the class.
    pub weight: f64,
}

impl Default for SynasParams {
    fn default() -> Self {
        Self {
            length: 4,
            kept: 4,
            rate: 0.005,
            steps: 10_000,
            weight: 1e5,
        }
    }
}

/// What is beyond the boundary by rounding only is not handed out.
const BEYOND: f64 = 1e-6;

/// The `correct` variant.
pub fn correct(problem: &Problem<'_>, params: SynasParams) -> Result<Found> {
    let space = problem.space;
    let margin = Margin::new(problem.network("synas")?, problem.target);
    let mut sequences = vec![problem.factual.to_vec()];
    let mut found: Vec<(f64, Vec<f64>)> = Vec::new();
    for _ in 0..params.length {
        let mut next: Vec<(f64, Vec<f64>)> = Vec::new();
        for x in &sequences {
            for feature in (0..space.features()).filter(|&f| space.mutable[f]) {
                if space.differs(feature, x, problem.factual) || problem.clock.is_over() {
                    continue;
                }
                for point in actions(problem, &margin, x, feature) {
                    let point = space.realise(problem.factual, &point);
                    let cost = space.distance(problem.factual, &point);
                    if problem.accepts(&point) {
                        found.push((cost, point));
                    } else if space.allows(problem.factual, &point) {
                        // Margin for its price decides which sequences go on.
                        next.push((-margin.at(&point) + cost, point));
                    }
                }
            }
        }
        if found.len() >= problem.k.max(1) || problem.clock.is_over() {
            break;
        }
        next.sort_by(|a, b| a.0.total_cmp(&b.0));
        next.dedup_by(|a, b| a.1 == b.1);
        sequences = next.into_iter().take(params.kept).map(|(_, x)| x).collect();
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.dedup_by(|a, b| a.1 == b.1);
    let points = found
        .into_iter()
        .take(problem.k.max(1))
        .map(|(_, x)| x)
        .collect();
    Ok(Found::many(points, &problem.clock))
}

/// Points that one action on a feature leads to.
fn actions(problem: &Problem<'_>, margin: &Margin, x: &[f64], feature: usize) -> Vec<Vec<f64>> {
    let space = problem.space;
    let columns = space.columns(feature);
    let with = |c: usize, value: f64| {
        let mut point = x.to_vec();
        point[c] = value;
        point
    };
    match space.kind(feature) {
        Kind::Binary => vec![with(columns[0], 1.0 - x[columns[0]])],
        Kind::Categorical => {
            let other = (0..columns.len()).filter(|&i| x[columns[i]] != 1.0);
            let set = |i: usize| {
                let mut point = x.to_vec();
                space.set_category(feature, i, &mut point);
                point
            };
            other.map(set).collect()
        }
        Kind::Numerical => {
            let c = columns[0];
            let hidden = margin.hidden(x);
            let [low, high] = space.box_of(c, problem.factual);
            match margin.nearest_move(&hidden, c, low - x[c], high - x[c], BEYOND) {
                Some(by) => vec![with(c, (x[c] + by).clamp(low, high))],
                None => vec![with(c, low), with(c, high)],
            }
        }
    }
}

/// The variant of the benchmark.
pub fn as_benchmarked(problem: &Problem<'_>, params: SynasParams) -> Result<Found> {
    let space = problem.space;
    let mut toward = Toward::new(problem.network("synas")?, problem.target);
    let mut random = LegacyNumpy::new(42);
    let mut best: Option<(f64, Vec<f64>)> = None;
    let keep = |cost: f64, x: Vec<f64>, best: &mut Option<(f64, Vec<f64>)>| {
        if best.as_ref().is_none_or(|(known, _)| cost < *known) {
            *best = Some((cost, x));
        }
    };
    for feature in 0..space.features() {
        let columns = space.columns(feature);
        let mut x = problem.factual.to_vec();
        match space.kind(feature) {
            Kind::Numerical => {
                let c = columns[0];
                if let Some((cost, shift)) = shifted(problem, &mut toward, c, params) {
                    x[c] += shift;
                    keep(cost, x, &mut best);
                }
                continue;
            }
            Kind::Binary => x[columns[0]] = 1.0,
            Kind::Categorical => {
                let drawn = random.below(columns.len() as u32) as usize;
                space.set_category(feature, drawn, &mut x);
            }
        }
        if toward.margin(&x) >= 0.0 {
            keep(5.0, x, &mut best);
        }
    }
    Ok(Found::one(best.map(|(_, x)| x), &problem.clock))
}

/// Cost and shift of one number, if it changes the class.
fn shifted(
    problem: &Problem<'_>,
    toward: &mut Toward<'_>,
    c: usize,
    params: SynasParams,
) -> Option<(f64, f64)> {
    let column: Vec<f64> = problem.space.train.iter().map(|r| r[c]).collect();
    let n = column.len() as f64;
    let mu = column.iter().sum::<f64>() / n;
    let sd = (column.iter().map(|v| (v - mu).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let scale = sd / (problem.factual[c] * sd + mu);
    let mut x = problem.factual.to_vec();
    let mut gradient = vec![0.0; x.len()];
    let mut adam = Adam::new(1, params.rate, [0.99, 0.999], 1e-8);
    let mut delta = [0.0f64];
    let (mut weight, mut check) = (params.weight, 100usize);
    let mut best: Option<(f64, f64)> = None;
    let (mut reached_before, mut last_f) = (false, f64::NAN);
    // What the step before came to: the class while it has not changed, the lowest cost afterwards.
    let mut before: Option<f64> = None;
    for step in 0..params.steps {
        if problem.clock.is_over() {
            break;
        }
        x[c] = problem.factual[c] + delta[0];
        let p = toward.probability(&x);
        let f = (1.0 - 2.0 * p).max(0.0);
        let cost = (delta[0] * scale).powi(2);
        let mut slope = 2.0 * delta[0] * scale * scale;
        if f > 0.0 {
            toward.margin_gradient(&mut gradient);
            slope -= weight * 2.0 * p * (1.0 - p) * gradient[c];
        } else if best.is_none_or(|(known, _)| cost < known) {
            if best.is_none() {
                before = None;
            }
            best = Some((cost, delta[0]));
        }
        if step % check == 0 {
            if f == 0.0 {
                weight = (weight / 10.0).max(1e-5);
                check = (2 * check).max(10_000);
                reached_before = true;
            } else if reached_before {
                weight *= 2.0;
                check = (check / 2).max(10);
            } else if f == last_f {
                weight = 1.0;
            } else {
                weight *= 2.0;
            }
            last_f = f;
        }
        let value = best.map_or(f, |(cost, _)| cost);
        if step % 100 == 0 && before.is_some_and(|before| before - value < 1e-4) {
            break;
        }
        before = Some(value);
        adam.step(&mut delta, &[slope]);
    }
    best
}
