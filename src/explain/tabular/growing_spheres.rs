//! Growing Spheres (Laugel et al. 2018): the nearest point of the other class, looked for in shells that grow around the factual; then as many features as
//! possible are put back.
//!
//! `correct`: points are drawn evenly over the volume of a shell (radius^m uniform), made realistic, and kept if they are of the wished class. The first
//! ball shrinks until it holds none; shells then grow. The nearest training row of the wished class bounds the search: a ball through it holds an enemy.
//!
//! As benchmarked (2017 code): the radius of a drawn point is u^(1/m) with u uniform in the shell's own bounds, so shells are not what they are called, and the bounds double from shell to shell; step
//! 1e-8 of the distance to the nearest enemy among the training rows; columns are put back one by one; numpy's legacy generator, seed 42.

use super::{Found, Problem};
use crate::stats::legacy_numpy::LegacyNumpy;
use crate::stats::random::{Draws, Stream};
use crate::tabular::{Predictor, SinglePrecision};

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct GrowingSpheresParams {
    /// Points drawn in each shell.
    pub points: usize,
    /// Most shells (as benchmarked).
    pub shells: usize,
    /// First step as a share of the distance to the nearest enemy (as benchmarked).
    pub step: f64,
    /// Points in each shell of the `correct` variant.
    pub correct_points: usize,
    /// Shells between the ball without enemies and the nearest training row of the wished class.
    pub correct_shells: usize,
}

impl Default for GrowingSpheresParams {
    fn default() -> Self {
        Self {
            points: 10_000,
            shells: 100,
            step: 1e-8,
            correct_points: 200,
            correct_shells: 20,
        }
    }
}

/// The `correct` variant.
pub fn correct(problem: &Problem<'_>, params: GrowingSpheresParams) -> Found {
    let space = problem.space;
    let holds = |x: &[f64]| problem.accepts(x);
    let Some(bound) = space.nearest_row(problem.factual, &holds) else {
        return Found::one(None, &problem.clock);
    };
    let far = norm(&bound, problem.factual);
    let mut draws = Draws::new(problem.seed, Stream::TABULAR_SEARCH, problem.row as u64);
    let width = problem.factual.len();
    let free: Vec<usize> = (0..width).filter(|&c| space.column_mutable(c)).collect();
    let mut enemies = |low: f64, high: f64| -> Vec<Vec<f64>> {
        let m = free.len().max(1) as f64;
        let mut points = Vec::new();
        for _ in 0..params.correct_points {
            let direction: Vec<f64> = free.iter().map(|_| draws.normal()).collect();
            let length = direction
                .iter()
                .map(|v| v * v)
                .sum::<f64>()
                .sqrt()
                .max(1e-300);
            // Even over the volume between the two radii; scaled by the outer one so that powers stay in range.
            let inner = (low / high).powf(m);
            let radius = high * (inner + (1.0 - inner) * draws.uniform()).powf(1.0 / m);
            let mut x = problem.factual.to_vec();
            for (&c, v) in free.iter().zip(&direction) {
                x[c] += v / length * radius;
            }
            let x = space.realise(problem.factual, &x);
            if space.allows(problem.factual, &x) {
                points.push(x);
            }
        }
        let asked = problem.predictor.probabilities(&points.concat());
        let reached = |p: &[f64; 2]| p[problem.target] > p[1 - problem.target];
        let each = points.into_iter().zip(asked);
        each.filter(|(_, p)| reached(p)).map(|(x, _)| x).collect()
    };
    let mut outer = far;
    let mut found = vec![bound];
    // Shrink until a ball is without enemies, then grow back in shells.
    while !problem.clock.is_over() && outer > 1e-6 * far {
        let inside = enemies(0.0, outer);
        if inside.is_empty() {
            break;
        }
        found = inside;
        outer /= 2.0;
    }
    let (top, step) = (2.0 * outer, outer / params.correct_shells as f64);
    let mut low = outer;
    while low < top.min(far) && !problem.clock.is_over() {
        let inside = enemies(low, low + step);
        if !inside.is_empty() {
            found = inside;
            break;
        }
        low += step;
    }
    found.sort_by(|a, b| norm(a, problem.factual).total_cmp(&norm(b, problem.factual)));
    let mut results: Vec<Vec<f64>> = Vec::new();
    for mut point in found {
        space.put_back(problem.factual, &mut point, &holds);
        if !results.contains(&point) {
            results.push(point);
        }
        if results.len() >= problem.k.max(1) {
            break;
        }
    }
    Found::many(results, &problem.clock)
}

fn norm(a: &[f64], b: &[f64]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
    squares.sum::<f64>().sqrt()
}

/// The variant of the benchmark.
pub fn as_benchmarked(problem: &Problem<'_>, params: GrowingSpheresParams) -> super::Result<Found> {
    let single = SinglePrecision(problem.network("growing-spheres")?);
    let reached = |p: &[f64; 2]| p[problem.target] > p[1 - problem.target];
    let train = &problem.space.train;
    let others = train
        .iter()
        .zip(single.probabilities(&train.concat()))
        .filter(|(_, p)| reached(p));
    let nearest = others
        .map(|(row, _)| norm(row, problem.factual))
        .reduce(f64::min);
    let Some(nearest) = nearest else {
        return Ok(Found::one(None, &problem.clock));
    };
    let mut random = LegacyNumpy::new(42);
    let m = problem.factual.len();
    let mut draw = |low: f64, high: f64| -> Vec<Vec<f64>> {
        let normals: Vec<f64> = (0..params.points * m).map(|_| random.normal()).collect();
        let radii: Vec<f64> = (0..params.points)
            .map(|_| (low + (high - low) * random.uniform()).powf(1.0 / m as f64))
            .collect();
        let points: Vec<Vec<f64>> = normals
            .chunks_exact(m)
            .zip(&radii)
            .map(|(z, radius)| {
                let length = z.iter().map(|v| v * v).sum::<f64>().sqrt();
                let each = z.iter().zip(problem.factual);
                each.map(|(v, x)| v * radius / length + x).collect()
            })
            .collect();
        let asked = single.probabilities(&points.concat());
        let each = points.into_iter().zip(asked);
        each.filter(|(_, p)| reached(p)).map(|(x, _)| x).collect()
    };
    let mut step = params.step * nearest;
    let mut layer = draw(0.0, step);
    while !layer.is_empty() && !problem.clock.is_over() {
        step /= 100.0;
        layer = draw(0.0, step);
        if step == 0.0 {
            break;
        }
    }
    // The shell that was found empty is drawn again; then bounds double, while the shells stay one step wide.
    let (mut low, mut high) = (0.0, step);
    for _ in 0..params.shells {
        if problem.clock.is_over() {
            break;
        }
        layer = draw(low, high);
        if !layer.is_empty() {
            break;
        }
        low += high;
        high = low + step;
    }
    let nearest = layer
        .into_iter()
        .min_by(|a, b| norm(a, problem.factual).total_cmp(&norm(b, problem.factual)));
    let result = nearest.map(|point| fewer_columns(problem, &single, point));
    Ok(Found::one(result, &problem.clock))
}

/// Puts columns back in the order of their moves, smallest first, while the class stays.
fn fewer_columns(problem: &Problem<'_>, single: &SinglePrecision<'_>, point: Vec<f64>) -> Vec<f64> {
    let mut moves: Vec<(f64, usize)> = point
        .iter()
        .zip(problem.factual)
        .enumerate()
        .map(|(c, (a, b))| ((a - b).abs(), c))
        .collect();
    moves.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out = point;
    for (_, c) in moves {
        let kept = out[c];
        out[c] = problem.factual[c];
        let p = single.probabilities(&out)[0];
        if p[problem.target] <= p[1 - problem.target] {
            out[c] = kept;
        }
    }
    out
}
