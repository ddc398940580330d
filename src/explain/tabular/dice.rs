//! DiCE (Mothilal et al. 2020), by gradients: hinge loss of the class, weighted distance, diversity, and a pull of groups to sum 1.
//!
//! max(0, 1 − logit) + 0.5·Σ w|c − x|/m + 0.1·Σ(group sum − 1)², Adam of rate 0.05; a number weighs 1/MAD. `correct`: several counterfactuals are found one after the
//! other, each pushed away from those before (diversity), made realistic, and shortened. `dice_published` is the variant of the benchmark.

use super::adam::Adam;
use super::{Found, Problem, Result};
use crate::tabular::{Kind, Toward};

/// Settings; defaults are DiCE's.
#[derive(Clone, Copy, Debug)]
pub struct DiceParams {
    pub rate: f64,
    pub proximity: f64,
    pub diversity: f64,
    pub groups: f64,
    pub least_steps: usize,
    pub most_steps: usize,
    /// Change of the loss below which a search has converged.
    pub still: f64,
    /// Most steps of one counterfactual in the `correct` variant.
    pub correct_steps: usize,
}

impl Default for DiceParams {
    fn default() -> Self {
        Self {
            rate: 0.05,
            proximity: 0.5,
            diversity: 1.0,
            groups: 0.1,
            least_steps: 500,
            most_steps: 5000,
            still: 1e-5,
            correct_steps: 500,
        }
    }
}

/// The `correct` variant.
pub fn correct(problem: &Problem<'_>, params: DiceParams) -> Result<Found> {
    let space = problem.space;
    let mut toward = Toward::new(problem.network("dice")?, problem.target);
    let mut found: Vec<Vec<f64>> = Vec::new();
    for attempt in 0..2 * problem.k.max(1) {
        if found.len() >= problem.k.max(1) || problem.clock.is_over() {
            break;
        }
        // What distance keeps from the other class is tried again without it.
        let weaker = DiceParams {
            proximity: if found.len() < attempt {
                0.0
            } else {
                params.proximity
            },
            ..params
        };
        let Some(mut point) = one(problem, &mut toward, weaker, &found) else {
            continue;
        };
        space.put_back(problem.factual, &mut point, &|x| {
            problem.accepts(x) && !found.contains(&x.to_vec())
        });
        if !found.contains(&point) {
            found.push(point);
        }
    }
    Ok(Found::many(found, &problem.clock))
}

/// Descends to one counterfactual that is not among those found.
fn one(
    problem: &Problem<'_>,
    toward: &mut Toward<'_>,
    params: DiceParams,
    found: &[Vec<f64>],
) -> Option<Vec<f64>> {
    let space = problem.space;
    let width = problem.factual.len();
    let weights: Vec<f64> = (0..width)
        .map(|c| match space.encoding.kind(c) {
            Kind::Numerical if space.statistics.mad[c] > 0.0 => 1.0 / space.statistics.mad[c],
            _ => 1.0,
        })
        .collect();
    let mut adam = Adam::new(width, params.rate, [0.9, 0.999], 1e-8);
    let (mut x, mut gradient) = (problem.factual.to_vec(), vec![0.0; width]);
    let mut last = x.clone();
    for _ in 0..params.correct_steps {
        if problem.clock.is_over() {
            return None;
        }
        let margin = toward.margin(&x);
        toward.margin_gradient(&mut gradient);
        for c in 0..width {
            let pushes = if margin < 1.0 { -gradient[c] } else { 0.0 };
            let away = x[c] - problem.factual[c];
            let near = params.proximity * weights[c] * sign(away) / width as f64;
            let others: f64 = found.iter().map(|f| sign(x[c] - f[c])).sum();
            gradient[c] = pushes + near - params.diversity * weights[c] * others / width as f64;
        }
        for group in space.encoding.groups() {
            let excess = group.iter().map(|&c| x[c]).sum::<f64>() - 1.0;
            group
                .iter()
                .for_each(|&c| gradient[c] += 2.0 * params.groups * excess);
        }
        for c in (0..width).filter(|&c| !space.column_mutable(c)) {
            gradient[c] = 0.0;
        }
        adam.step(&mut x, &gradient);
        for (c, value) in x.iter_mut().enumerate() {
            let [low, high] = space.box_of(c, problem.factual);
            *value = value.clamp(low, high);
        }
        let point = space.realise(problem.factual, &x);
        if point != last && !found.contains(&point) && problem.accepts(&point) {
            return Some(point);
        }
        last = point;
    }
    None
}

fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}
