//! Counterfactuals guided by prototypes (Van Looveren & Klaise 2021), in the form of alibi's `CounterFactualProto`.
//!
//! Loss c·max(0, p₀ − p₁) + ‖δ‖² + β‖δ‖₁ + θ‖x + δ − prototype‖²; the first, second and last by gradient steps of rate 0.01·√(1 − t/T), the third by shrinkage:
//! a value within β of the factual's becomes the factual's. c grows tenfold until the class changes, then halves its interval. Categories are numbers
//! (`cfproto_numbers`). The prototype is the nearest training row of the wished class.
//!
//! As benchmarked: θ = 0, so no prototype, and no momentum (the update that should carry it read the value it had just written). `cfproto-nograd` takes
//! central differences in place of gradients, and no step at t = 0.

use super::cfproto_numbers::Numbers;
use super::{Found, Problem, Result};
use crate::tabular::{Kinds, Toward};

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct CfprotoParams {
    pub beta: f64,
    /// Weight of the prototype in the `correct` variant.
    pub theta: f64,
    pub first_c: f64,
    pub c_steps: usize,
    pub iterations: usize,
    pub rate: f64,
    pub clip: f64,
    /// Step of differences.
    pub epsilon: f64,
    /// The `correct` variant's own numbers of steps.
    pub correct_c_steps: usize,
    pub correct_iterations: usize,
}

impl Default for CfprotoParams {
    fn default() -> Self {
        Self {
            beta: 0.1,
            theta: 0.1,
            first_c: 10.0,
            c_steps: 10,
            iterations: 1000,
            rate: 0.01,
            clip: 1000.0,
            epsilon: 1e-3,
            correct_c_steps: 6,
            correct_iterations: 200,
        }
    }
}

/// How the loss is differentiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slopes {
    Gradient,
    Differences,
}

struct Run<'a, 'b> {
    problem: &'a Problem<'b>,
    params: CfprotoParams,
    numbers: &'a Numbers,
    slopes: Slopes,
    momentum: bool,
    prototype: Option<Vec<f64>>,
    steps: [usize; 2],
}

/// The `correct` variant.
pub fn correct(problem: &Problem<'_>, params: CfprotoParams, slopes: Slopes) -> Result<Found> {
    let numbers = problem.space.numbers();
    let holds = |x: &[f64]| problem.accepts(x);
    let nearest = problem.space.nearest_row(problem.factual, &holds);
    let run = Run {
        prototype: nearest.as_ref().map(|row| numbers.of(row)),
        problem,
        params,
        slopes,
        momentum: true,
        steps: [params.correct_c_steps, params.correct_iterations],
        numbers,
    };
    let space = problem.space;
    let accept = |y: &[f64]| -> Option<Vec<f64>> {
        let point = space.realise(problem.factual, &run.numbers.back(y, problem.factual));
        problem.accepts(&point).then_some(point)
    };
    let mut best = run.search(&accept)?;
    // The prototype itself is a counterfactual; the search is for something nearer.
    best = best.or(nearest);
    if let Some(point) = &mut best {
        space.put_back(problem.factual, point, &holds);
    }
    Ok(Found::one(best, &problem.clock))
}

/// The variant of the benchmark.
pub fn as_benchmarked(
    problem: &Problem<'_>,
    params: CfprotoParams,
    slopes: Slopes,
) -> Result<Found> {
    let numbers = problem.space.numbers();
    let run = Run {
        prototype: None,
        problem,
        params,
        slopes,
        momentum: false,
        steps: [params.c_steps, params.iterations],
        numbers,
    };
    let accept = |y: &[f64]| -> Option<Vec<f64>> {
        let point = run.numbers.back(y, problem.factual);
        problem.reached(&point).then_some(point)
    };
    Ok(Found::one(run.search(&accept)?, &problem.clock))
}

impl Run<'_, '_> {
    /// The best point that `accept` takes, over all c.
    fn search(&self, accept: &dyn Fn(&[f64]) -> Option<Vec<f64>>) -> Result<Option<Vec<f64>>> {
        let mut toward = Toward::new(self.problem.network("cfproto")?, self.problem.target);
        let (mut lower, mut upper, mut c) = (0.0, f64::INFINITY, self.params.first_c);
        let mut best: Option<(f64, Vec<f64>)> = None;
        for _ in 0..self.steps[0] {
            if self.problem.clock.is_over() {
                break;
            }
            if self.one_weight(&mut toward, c, accept, &mut best) {
                upper = f64::min(upper, c);
                c = (lower + upper) / 2.0;
            } else {
                lower = f64::max(lower, c);
                c = if upper.is_finite() {
                    (lower + upper) / 2.0
                } else {
                    10.0 * c
                };
            }
        }
        Ok(best.map(|(_, x)| x))
    }

    /// Descends with one weight of the class; true if it changed.
    fn one_weight(
        &self,
        toward: &mut Toward<'_>,
        c: f64,
        accept: &dyn Fn(&[f64]) -> Option<Vec<f64>>,
        best: &mut Option<(f64, Vec<f64>)>,
    ) -> bool {
        let params = &self.params;
        let start = self.numbers.of(self.problem.factual);
        let [low, high] = self.numbers.bounds(self.problem);
        let (mut point, mut look) = (start.clone(), start.clone());
        let mut slope = vec![0.0; start.len()];
        let total = self.steps[1] as f64;
        let mut changed = false;
        let mut last: Option<(Vec<f64>, bool)> = None;
        for t in 0..self.steps[1] {
            if self.problem.clock.is_over() {
                break;
            }
            self.slope(toward, &look, &start, c, t, &mut slope);
            let rate = params.rate * (1.0 - t as f64 / total).max(0.0).sqrt();
            let before = point.clone();
            for i in 0..start.len() {
                let y = look[i] - rate * slope[i].clamp(-params.clip, params.clip);
                let d = y - start[i];
                point[i] = if !self.numbers.mutable[i] || d.abs() <= params.beta {
                    start[i]
                } else if d > 0.0 {
                    (y - params.beta).min(high[i])
                } else {
                    (y + params.beta).max(low[i])
                };
            }
            match self.momentum {
                true => {
                    let share = t as f64 / (t as f64 + 3.0);
                    for i in 0..start.len() {
                        look[i] = point[i] + share * (point[i] - before[i]);
                    }
                }
                false => look.clone_from(&point),
            }
            if point == start {
                continue;
            }
            let away = |y: &[f64]| -> f64 {
                let each = y.iter().zip(&start).map(|(a, b)| a - b);
                each.map(|d| d * d + params.beta * d.abs()).sum()
            };
            // Points that stand still are asked once.
            if last.as_ref().is_some_and(|(known, _)| *known == point) {
                changed |= last.as_ref().is_some_and(|(_, hit)| *hit);
                continue;
            }
            let hit = accept(&point);
            last = Some((point.clone(), hit.is_some()));
            if let Some(found) = hit {
                changed = true;
                let cost = away(&point);
                if best.as_ref().is_none_or(|(known, _)| cost < *known) {
                    *best = Some((cost, found));
                }
            }
        }
        changed
    }

    /// Gradient of c·max(0, p₀ − p₁) + ‖δ‖² + θ‖y − prototype‖².
    fn slope(
        &self,
        toward: &mut Toward<'_>,
        y: &[f64],
        start: &[f64],
        c: f64,
        t: usize,
        out: &mut [f64],
    ) {
        let theta = self.params.theta;
        for i in 0..y.len() {
            out[i] = 2.0 * (y[i] - start[i]);
            if let Some(prototype) = &self.prototype {
                out[i] += 2.0 * theta * (y[i] - prototype[i]);
            }
        }
        let x = self.numbers.back(y, self.problem.factual);
        let p = toward.probability(&x);
        if 1.0 - 2.0 * p <= 0.0 {
            return;
        }
        let plain = self.problem.space.encoding.kinds() == Kinds::Numerical;
        if self.slopes == Slopes::Gradient && plain {
            let mut gradient = vec![0.0; x.len()];
            toward.margin_gradient(&mut gradient);
            for (out, g) in out.iter_mut().zip(&gradient) {
                *out -= c * 2.0 * p * (1.0 - p) * g;
            }
            return;
        }
        if self.slopes == Slopes::Differences && t == 0 && !self.momentum {
            return;
        }
        for i in (0..y.len()).filter(|&i| self.numbers.mutable[i]) {
            let step = self.numbers.step(i, y[i], self.params.epsilon);
            let mut asked = |by: f64| {
                let moves = self.numbers.moves(i, y[i], y[i] + by);
                1.0 - 2.0 * toward.moved_probability(&moves)
            };
            let (up, down) = (asked(step[1]), asked(-step[0]));
            out[i] += c * (up - down) / (step[0] + step[1]);
        }
    }
}
