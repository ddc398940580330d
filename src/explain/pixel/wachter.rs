//! GB: the smallest change in L1 that makes another class likely, by gradient descent with a search for the weight of
//! the distance (Wachter, Mittelstadt & Russell 2018), step by step as alibi 0.5.8 to 0.6.0 does it.
//!
//! The loss is `(p_t − target)² + λ ‖c − x‖₁` with `p_t` the largest probability of another class than the original's (or that
//! of a given class). TensorFlow 1's Adam moves the pixels, which are cut to their range after each step.
//!
//! First λ falls by tens from `lambda`, each for a tenth of the iterations and from where the last one ended; those at
//! which candidates were found bound it from below, those before from above. Then λ is searched for between the bounds,
//! and the found candidate that is nearest to the original is kept.

use super::{Found, Networks, Outcome, Result, batch, best_other, check, classes, image};
use crate::tensor::Array;
use crate::tensor::candle::Differentiable;

/// Settings of GB; the defaults are alibi's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wachter {
    /// Wanted probability of the other class, and how far from it is near enough.
    pub probability: f64,
    pub tolerance: f64,
    /// Iterations for each λ.
    pub iterations: usize,
    /// Ends a λ after so many iterations in a row that all found, or all did not find.
    pub early_stop: usize,
    /// The first λ, and how many are tried in each phase.
    pub lambda: f64,
    pub lambdas: usize,
    /// Learning rate, which falls to 0 over the iterations.
    pub rate: f64,
    /// Of pixels.
    pub range: [f32; 2],
}

impl Default for Wachter {
    fn default() -> Self {
        Self {
            probability: 1.0,
            tolerance: 0.05,
            iterations: 1000,
            early_stop: 50,
            lambda: 0.1,
            lambdas: 10,
            rate: 0.1,
            range: [-0.5, 0.5],
        }
    }
}

/// Found candidates that make a λ a success.
const ENOUGH: usize = 5;
/// Beyond this there is no upper bound.
const UNBOUNDED: f64 = 1e9;
const BETAS: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

impl Wachter {
    /// Counterfactuals of images NCHW; a target for each, or any other class.
    pub fn explain<B: Differentiable>(
        &self,
        networks: &Networks<B>,
        images: &Array,
        targets: &[Option<usize>],
    ) -> Result<Vec<Outcome>> {
        let first = networks.probabilities(images)?;
        let before = classes(&first);
        let count = first.first().map_or(0, Vec::len);
        check(images, self.range, &before, targets, count)?;
        let mut searches: Vec<Search<'_>> = (0..before.len())
            .map(|i| Search::new(*self, image(images, i), before[i], targets[i]))
            .collect();
        loop {
            let mut active: Vec<&mut Search<'_>> =
                searches.iter_mut().filter(|s| !s.done).collect();
            if active.is_empty() {
                break;
            }
            let points = batch(images, active.iter().map(|s| s.point.as_slice()));
            let wanted: Vec<(usize, Option<usize>)> =
                active.iter().map(|s| (s.before, s.target)).collect();
            let weigh = |i: usize, row: &[f32]| {
                let (class, p) = aim(row, wanted[i]);
                let mut weights = vec![0.0; row.len()];
                weights[class] = 2.0 * (p - self.probability as f32);
                weights
            };
            let (probabilities, gradient) = networks.gradient(&points, &weigh, None)?;
            for (k, search) in active.iter_mut().enumerate() {
                search.advance(&probabilities[k], image(&gradient, k));
            }
        }
        Ok(searches.into_iter().map(Search::outcome).collect())
    }
}

/// The class that is wanted to be likely, and how likely it is.
fn aim(probabilities: &[f32], (own, target): (usize, Option<usize>)) -> (usize, f32) {
    match target {
        Some(target) => (target, probabilities[target]),
        None => best_other(probabilities, own),
    }
}

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Tries the λ of this number.
    Bounds { lambda: usize },
    /// Searches between the bounds.
    Bisection { step: usize },
}

/// The search for one image: gets the network's opinion of its point, and moves on.
pub struct Search<'a> {
    settings: Wachter,
    original: &'a [f32],
    before: usize,
    target: Option<usize>,
    /// What the network is to be asked about next.
    point: Vec<f32>,
    done: bool,
    phase: Phase,
    lambda: f64,
    bounds: [f64; 2],
    /// λ of the first phase with how many candidates were found at each.
    tried: Vec<(f64, usize)>,
    adam: Adam,
    /// Iterations at this λ; found among them; the latest found, or not found, in a row.
    iterations: usize,
    found: usize,
    in_a_row: [usize; 2],
    best: Option<(f64, Found)>,
    evaluations: usize,
}

/// TensorFlow 1's Adam.
struct Adam {
    first: Vec<f32>,
    second: Vec<f32>,
}

impl Adam {
    fn new(len: usize) -> Self {
        Self {
            first: vec![0.0; len],
            second: vec![0.0; len],
        }
    }

    /// Moves `point` by step number `step` (from 1) at a learning rate.
    fn step(
        &mut self,
        point: &mut [f32],
        gradient: impl Fn(usize, f32) -> f32,
        step: usize,
        rate: f64,
    ) {
        let [b1, b2] = BETAS;
        let t = step as i32;
        let rate = (rate * (1.0 - b2.powi(t)).sqrt() / (1.0 - b1.powi(t))) as f32;
        let (b1, b2) = (b1 as f32, b2 as f32);
        for (i, value) in point.iter_mut().enumerate() {
            let g = gradient(i, *value);
            let (m, v) = (&mut self.first[i], &mut self.second[i]);
            *m = b1 * *m + (1.0 - b1) * g;
            *v = b2 * *v + (1.0 - b2) * g * g;
            *value -= rate * *m / (v.sqrt() + EPSILON as f32);
        }
    }
}

impl<'a> Search<'a> {
    fn new(settings: Wachter, original: &'a [f32], before: usize, target: Option<usize>) -> Self {
        Self {
            settings,
            original,
            before,
            target,
            point: original.to_vec(),
            done: settings.lambdas == 0 || settings.iterations == 0,
            phase: Phase::Bounds { lambda: 0 },
            lambda: settings.lambda,
            bounds: [0.0, 1e10],
            tried: Vec::new(),
            adam: Adam::new(original.len()),
            iterations: 0,
            found: 0,
            in_a_row: [0; 2],
            best: None,
            evaluations: 0,
        }
    }

    /// Takes note of what the network says of the point, and moves it against the gradient of `(p_t − target)²`.
    fn advance(&mut self, probabilities: &[f32], gradient: &[f32]) {
        self.evaluations += 1;
        if self.iterations > 0 {
            self.judge(probabilities);
            if self.over() && self.next_lambda() {
                // The next λ begins at another point, or there is none.
                return;
            }
        }
        self.step(gradient);
    }

    fn judge(&mut self, probabilities: &[f32]) {
        let (_, p) = aim(probabilities, (self.before, self.target));
        let off = (f64::from(p) - self.settings.probability).abs();
        let found = off <= self.settings.tolerance;
        self.found += usize::from(found);
        let [yes, no] = &mut self.in_a_row;
        (*yes, *no) = if found { (*yes + 1, 0) } else { (0, *no + 1) };
        if !found || matches!(self.phase, Phase::Bounds { .. }) {
            return;
        }
        let pairs = self.point.iter().zip(self.original);
        let distance: f64 = pairs.map(|(a, b)| f64::from((a - b).abs())).sum();
        if self
            .best
            .as_ref()
            .is_none_or(|(least, _)| distance < *least)
        {
            let found = Found {
                image: self.point.clone(),
                class: crate::metrics::validity::argmax(probabilities),
                probabilities: probabilities.to_vec(),
                weight: self.lambda,
            };
            self.best = Some((distance, found));
        }
    }

    /// Whether this λ has had its iterations.
    fn over(&self) -> bool {
        let settings = &self.settings;
        match self.phase {
            Phase::Bounds { .. } => self.iterations >= (settings.iterations / 10).max(1),
            Phase::Bisection { .. } => {
                let stop = self.in_a_row.iter().any(|&n| n >= settings.early_stop);
                stop || self.iterations >= settings.iterations
            }
        }
    }

    /// Goes on to the next λ; whether the network's opinion of the point is of no use for it.
    fn next_lambda(&mut self) -> bool {
        let mut elsewhere = false;
        match self.phase {
            Phase::Bounds { lambda } => {
                self.tried.push((self.lambda, self.found));
                if lambda + 1 < self.settings.lambdas {
                    self.phase = Phase::Bounds { lambda: lambda + 1 };
                    self.lambda = self.settings.lambda * 0.1f64.powi(lambda as i32 + 1);
                } else {
                    let Some(bounds) = bounds(&self.tried) else {
                        self.done = true;
                        return true;
                    };
                    self.bounds = bounds;
                    self.lambda = 0.5 * (bounds[0] + bounds[1]);
                    self.phase = Phase::Bisection { step: 0 };
                    self.point.copy_from_slice(self.original);
                    elsewhere = true;
                }
            }
            Phase::Bisection { step } => {
                let [low, high] = &mut self.bounds;
                self.lambda = if self.found >= ENOUGH {
                    *low = low.max(self.lambda);
                    match *high < UNBOUNDED {
                        true => 0.5 * (*low + *high),
                        false => self.lambda * 10.0,
                    }
                } else {
                    *high = high.min(self.lambda);
                    match *low > 0.0 {
                        true => 0.5 * (*low + *high),
                        false => self.lambda / 10.0,
                    }
                };
                if step + 1 >= self.settings.lambdas {
                    self.done = true;
                    return true;
                }
                self.phase = Phase::Bisection { step: step + 1 };
            }
        }
        self.adam = Adam::new(self.original.len());
        (self.iterations, self.found, self.in_a_row) = (0, 0, [0; 2]);
        elsewhere
    }

    fn step(&mut self, gradient: &[f32]) {
        let done = self.iterations as f64 / self.settings.iterations as f64;
        let rate = self.settings.rate * (1.0 - done);
        let (lambda, original) = (self.lambda as f32, self.original);
        let sloped = |i: usize, value: f32| {
            let away = value - original[i];
            let sign = if away == 0.0 { 0.0 } else { away.signum() };
            gradient[i] + lambda * sign
        };
        self.iterations += 1;
        self.adam
            .step(&mut self.point, sloped, self.iterations, rate);
        let [low, high] = self.settings.range;
        self.point.iter_mut().for_each(|v| *v = v.clamp(low, high));
    }

    fn outcome(self) -> Outcome {
        Outcome {
            before: self.before,
            found: self.best.map(|(_, found)| found),
            evaluations: self.evaluations,
        }
    }
}

/// Bounds of λ from those that were tried in falling order: below, the second at which anything was found; above, the last at
/// which nothing was, or the first of all. `None` if there are not two.
fn bounds(tried: &[(f64, usize)]) -> Option<[f64; 2]> {
    let low = { tried.iter() }.filter(|(_, found)| *found > 0).nth(1)?.0;
    let without = { tried.iter().rev() }.find(|(_, found)| *found == 0);
    let high = without.or(tried.first())?.0;
    Some([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_the_second_success_and_the_last_failure() {
        let tried = |counts: &[usize]| -> Vec<(f64, usize)> {
            { counts.iter().enumerate() }
                .map(|(i, &n)| (0.1f64.powi(i as i32), n))
                .collect()
        };
        let near = |a: Option<[f64; 2]>, b: [f64; 2]| {
            let a = a.unwrap();
            assert!((a[0] - b[0]).abs() < 1e-12 && (a[1] - b[1]).abs() < 1e-12);
        };
        near(bounds(&tried(&[0, 0, 3, 9, 9])), [1e-3, 0.1]);
        near(bounds(&tried(&[2, 3, 4])), [0.1, 1.0]);
        // A later failure is the upper bound even if it is below the lower one, as in alibi.
        near(bounds(&tried(&[1, 1, 0])), [0.1, 0.01]);
        assert_eq!(bounds(&tried(&[0, 0, 7])), None);
        assert_eq!(bounds(&[]), None);
    }
}
