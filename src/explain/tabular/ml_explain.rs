//! ML-Explain (Lucic et al.'s and Wachter's loss in the form of the benchmark's package): plain gradient steps on the probability and the distance.
//!
//! `correct`: steps down 1 − p(c) + λ‖c − x‖₂ with λ halved until the class changes; the first realistic point of the wished class, with features put back.
//! As benchmarked: 100 steps of size 1 on p(c) + 1.0·‖c − x‖₂, which minimises the probability that should grow; the last point is returned as it is.

use super::{Found, Problem, Result};
use crate::tabular::Toward;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct MlExplainParams {
    pub steps: usize,
    pub rate: f64,
    pub distance: f64,
    /// Rates of the `correct` variant, from the first down by halves.
    pub correct_rate: f64,
}

impl Default for MlExplainParams {
    fn default() -> Self {
        Self {
            steps: 100,
            rate: 1.0,
            distance: 1.0,
            correct_rate: 0.1,
        }
    }
}

/// The `correct` variant.
pub fn correct(problem: &Problem<'_>, params: MlExplainParams) -> Result<Found> {
    let space = problem.space;
    let mut toward = Toward::new(problem.network("ml-explain")?, problem.target);
    let width = problem.factual.len();
    let mut gradient = vec![0.0; width];
    let mut result = None;
    // The smaller the weight of the distance, the further a search goes.
    let mut weight = params.distance;
    'search: for _ in 0..12 {
        let mut x = problem.factual.to_vec();
        for _ in 0..params.steps {
            if problem.clock.is_over() {
                break 'search;
            }
            toward.margin(&x);
            toward.margin_gradient(&mut gradient);
            // The direction of the margin: the probability's own gradient vanishes where the network is sure.
            let length = gradient
                .iter()
                .map(|g| g * g)
                .sum::<f64>()
                .sqrt()
                .max(1e-300);
            let away = distance(&x, problem.factual).max(1e-300);
            for c in (0..width).filter(|&c| space.column_mutable(c)) {
                let pull = weight * (x[c] - problem.factual[c]) / away;
                x[c] += params.correct_rate * (gradient[c] / length - pull);
                let [low, high] = space.box_of(c, problem.factual);
                x[c] = x[c].clamp(low, high);
            }
            let point = space.realise(problem.factual, &x);
            if problem.accepts(&point) {
                result = Some(point);
                break 'search;
            }
        }
        weight /= 2.0;
    }
    if let Some(point) = &mut result {
        space.put_back(problem.factual, point, &|x| problem.accepts(x));
    }
    Ok(Found::one(result, &problem.clock))
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
    squares.sum::<f64>().sqrt()
}

/// The variant of the benchmark.
pub fn as_benchmarked(problem: &Problem<'_>, params: MlExplainParams) -> Result<Found> {
    let network = problem.network("ml-explain")?;
    let width = problem.factual.len();
    let narrow = |v: &[f64]| -> Vec<f32> { v.iter().map(|&x| x as f32).collect() };
    let (factual, mut x) = (narrow(problem.factual), narrow(problem.factual));
    let (mut pass, mut gradient) = (network.single.pass(), vec![0.0f32; width]);
    let mut direction = [-1.0f32; 2];
    direction[problem.target] = 1.0;
    for _ in 0..params.steps {
        network.single.forward(&x, &mut pass);
        let p = pass.probabilities()[problem.target];
        let scale = p * (1.0 - p);
        network
            .single
            .backward(&mut pass, direction.map(|d| d * scale), &mut gradient);
        let away = x
            .iter()
            .zip(&factual)
            .map(|(a, b)| (a - b) * (a - b))
            .sum::<f32>()
            .sqrt();
        for c in 0..width {
            let pull = if away > 0.0 {
                (x[c] - factual[c]) / away
            } else {
                0.0
            };
            x[c] -= params.rate as f32 * (gradient[c] + params.distance as f32 * pull);
        }
    }
    let result = x.iter().map(|&v| f64::from(v)).collect();
    Ok(Found::one(Some(result), &problem.clock))
}
