//! GL: a change guided by prototypes of other classes in the code of an auto-encoder (Van Looveren & Klaise 2021), step by
//! step as alibi 0.5.8 to 0.6.0 does it.
//!
//! FISTA: at the momentum point `s` one step of plain gradient descent on
//! `c max(0, p_own − max p_other + κ) + ‖s − x‖² + γ ‖AE(s) − s‖² + θ ‖Enc(s) − proto‖²`,
//! (alibi's hinge; where a target is given it is `max(0, max log p_rival − log p_target + κ)` over all its rivals, which alibi
//! does not have: there a target chooses the prototype and nothing else. The logarithm keeps the slope towards a target
//! whose probability is next to nothing);
//! then soft shrinkage of the change by β gives the candidate `a`, and `s = a + t/(t + 3) (a − a_before)`. Of the
//! candidates that have another class the one of least `‖d‖² + β ‖d‖₁` is kept. `c` is searched for from one run to the next.

use super::{
    Found, Networks, Outcome, PixelError, Pull, Result, batch, best_other, check, classes, image,
};
use crate::metrics::validity::argmax;
use crate::tensor::Array;
use crate::tensor::candle::Differentiable;

/// Settings of GL. The defaults are those of alibi's MNIST example: its class has γ = θ = 0, which would switch
/// auto-encoder and prototypes off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prototype {
    /// By how much the other class must be more likely.
    pub kappa: f64,
    /// Weight of the L1 distance.
    pub beta: f64,
    /// Weight of the auto-encoder's error.
    pub gamma: f64,
    /// Weight of the distance to the prototype.
    pub theta: f64,
    /// First weight of the classifier, and how many are tried.
    pub c: f64,
    pub c_steps: usize,
    /// Learning rate, which falls to 0 like a square root.
    pub rate: f64,
    pub iterations: usize,
    /// Largest entry of a gradient.
    pub clip: f64,
    /// Of pixels.
    pub range: [f32; 2],
}

impl Default for Prototype {
    fn default() -> Self {
        Self {
            kappa: 0.0,
            beta: 0.1,
            gamma: 100.0,
            theta: 100.0,
            c: 1.0,
            c_steps: 2,
            rate: 1e-2,
            iterations: 1000,
            clip: 1000.0,
            range: [-0.5, 0.5],
        }
    }
}

/// Probabilities below have the logarithm of this one; and no weight of a probability is larger than this, which f32 holds.
const LEAST: f64 = 1e-30;
const MOST: f64 = 1e36;
/// Beyond this there is no upper bound of `c`.
const UNBOUNDED: f64 = 1e9;

/// The mean code of the images that the explained network puts into each class.
#[derive(Clone, Debug, PartialEq)]
pub struct Prototypes(pub Vec<Option<Vec<f32>>>);

impl Prototypes {
    /// Of images NCHW. A class that no image is put into has none.
    pub fn new<B: Differentiable>(networks: &Networks<B>, images: &Array) -> Result<Self> {
        let probabilities = networks.probabilities(images)?;
        let codes = networks.codes(images)?;
        let count = probabilities.first().map_or(0, Vec::len);
        let len = codes.first().map_or(0, Vec::len);
        let mut sums = vec![(0usize, vec![0.0f64; len]); count];
        for (row, code) in probabilities.iter().zip(&codes) {
            let (n, sum) = &mut sums[argmax(row)];
            *n += 1;
            sum.iter_mut()
                .zip(code)
                .for_each(|(s, &v)| *s += f64::from(v));
        }
        let mean = |(n, sum): (usize, Vec<f64>)| {
            (n > 0).then(|| sum.iter().map(|s| (s / n as f64) as f32).collect())
        };
        Ok(Self(sums.into_iter().map(mean).collect()))
    }

    /// The prototype that is nearest to a code, of the target or of any class but the own one.
    fn nearest(&self, code: &[f32], own: usize, target: Option<usize>) -> Option<&[f32]> {
        let squared = |prototype: &[f32]| -> f64 {
            let pairs = prototype.iter().zip(code);
            pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum()
        };
        let allowed = |class: usize| target.map_or(class != own, |t| class == t);
        let known = { self.0.iter().enumerate() }
            .filter(|(class, _)| allowed(*class))
            .filter_map(|(_, prototype)| prototype.as_deref());
        known.min_by(|a, b| squared(a).total_cmp(&squared(b)))
    }
}

impl Prototype {
    /// Counterfactuals of images NCHW; a target for each, or any other class. Prototypes may be left out if `theta` is 0.
    pub fn explain<B: Differentiable>(
        &self,
        networks: &Networks<B>,
        prototypes: Option<&Prototypes>,
        images: &Array,
        targets: &[Option<usize>],
    ) -> Result<Vec<Outcome>> {
        let first = networks.probabilities(images)?;
        let before = classes(&first);
        let count = first.first().map_or(0, Vec::len);
        check(images, self.range, &before, targets, count)?;
        let pulled = self.gamma != 0.0 || self.theta != 0.0;
        let codes = match pulled {
            true => networks.codes(images)?,
            false => vec![Vec::new(); before.len()],
        };
        let mut searches = Vec::with_capacity(before.len());
        for i in 0..before.len() {
            let prototype = match (self.theta != 0.0, prototypes) {
                (true, Some(prototypes)) => {
                    let nearest = prototypes.nearest(&codes[i], before[i], targets[i]);
                    nearest.ok_or_else(|| missing(targets[i]))?
                }
                (true, None) => return Err(missing(None)),
                // Weighs nothing.
                (false, _) => &codes[i],
            };
            searches.push(Search::new(
                *self,
                image(images, i),
                before[i],
                targets[i],
                prototype,
            ));
        }
        loop {
            let mut active: Vec<&mut Search<'_>> =
                searches.iter_mut().filter(|s| !s.done).collect();
            if active.is_empty() {
                break;
            }
            let points = batch(images, active.iter().map(|s| s.momentum.as_slice()));
            let of_active: Vec<&[f32]> = active.iter().map(|s| s.prototype).collect();
            let pull = Pull {
                gamma: self.gamma,
                theta: self.theta,
                prototypes: &of_active,
            };
            let aims: Vec<Aim> = active.iter().map(|s| s.aim()).collect();
            let weigh = |i: usize, row: &[f32]| self.weigh(row, aims[i]);
            let (_, gradient) = networks.gradient(&points, &weigh, pulled.then_some(&pull))?;
            for (k, search) in active.iter_mut().enumerate() {
                search.step(image(&gradient, k));
            }
            let candidates = batch(images, active.iter().map(|s| s.candidate.as_slice()));
            let probabilities = networks.probabilities(&candidates)?;
            for (search, row) in active.iter_mut().zip(&probabilities) {
                search.judge(row);
            }
        }
        Ok(searches.into_iter().map(Search::outcome).collect())
    }

    /// Weights of the probabilities in the loss: those of its hinge.
    fn weigh(&self, row: &[f32], aim: Aim) -> Vec<f32> {
        // The class that is to lose, and the one that is to win.
        let (loser, winner) = match aim.target {
            Some(target) => (best_other(row, target).0, target),
            None => (aim.own, best_other(row, aim.own).0),
        };
        let p = |class: usize| f64::from(row[class]);
        // What is compared, and its slope by the probability.
        let (ahead, slope): (f64, fn(f64) -> f64) = match aim.target {
            Some(_) => ((p(loser).max(LEAST) / p(winner).max(LEAST)).ln(), |p| {
                1.0 / p.max(LEAST)
            }),
            None => (p(loser) - p(winner), |_| 1.0),
        };
        let mut weights = vec![0.0; row.len()];
        if ahead + self.kappa > 0.0 {
            weights[loser] += (aim.c * slope(p(loser))).min(MOST) as f32;
            weights[winner] -= (aim.c * slope(p(winner))).min(MOST) as f32;
        }
        weights
    }
}

/// What the hinge of an image is about.
#[derive(Clone, Copy)]
struct Aim {
    own: usize,
    target: Option<usize>,
    /// Weight of the hinge.
    c: f64,
}

fn missing(target: Option<usize>) -> PixelError {
    let of = target.map_or("any other class".into(), |t| format!("class {t}"));
    PixelError::Setting(format!(
        "there is no prototype of {of}: the explained network puts none of the images for prototypes there; give more \
         of them, or theta 0"
    ))
}

/// The search for one image.
struct Search<'a> {
    settings: Prototype,
    original: &'a [f32],
    before: usize,
    target: Option<usize>,
    prototype: &'a [f32],
    /// `s` and `a`.
    momentum: Vec<f32>,
    candidate: Vec<f32>,
    done: bool,
    c: f64,
    bounds: [f64; 2],
    run: usize,
    iterations: usize,
    /// Whether this `c` has made another class of it.
    succeeded: bool,
    best: Option<(f64, Found)>,
    evaluations: usize,
}

impl<'a> Search<'a> {
    fn new(
        settings: Prototype,
        original: &'a [f32],
        before: usize,
        target: Option<usize>,
        prototype: &'a [f32],
    ) -> Self {
        Self {
            settings,
            original,
            before,
            target,
            prototype,
            momentum: original.to_vec(),
            candidate: original.to_vec(),
            done: settings.c_steps == 0 || settings.iterations == 0,
            c: settings.c,
            bounds: [0.0, 1e10],
            run: 0,
            iterations: 0,
            succeeded: false,
            best: None,
            evaluations: 0,
        }
    }

    fn aim(&self) -> Aim {
        Aim {
            own: self.before,
            target: self.target,
            c: self.c,
        }
    }

    /// One step of FISTA with the gradient of everything but the distance.
    fn step(&mut self, gradient: &[f32]) {
        let settings = &self.settings;
        let done = self.iterations as f64 / settings.iterations as f64;
        let rate = (settings.rate * (1.0 - done).sqrt()) as f32;
        self.iterations += 1;
        let t = self.iterations as f32;
        let (beta, clip) = (settings.beta as f32, settings.clip as f32);
        let [low, high] = settings.range;
        for (i, &x) in self.original.iter().enumerate() {
            let s = self.momentum[i];
            let slope = (gradient[i] + 2.0 * (s - x)).clamp(-clip, clip);
            let s = s - rate * slope;
            let change = s - x;
            let a = if change > beta {
                (s - beta).min(high)
            } else if change < -beta {
                (s + beta).max(low)
            } else {
                x
            };
            let ahead = a + t / (t + 3.0) * (a - self.candidate[i]);
            self.candidate[i] = a;
            self.momentum[i] = ahead.clamp(low, high);
        }
    }

    /// Takes note of what the network says of the candidate.
    fn judge(&mut self, probabilities: &[f32]) {
        self.evaluations += 2;
        let class = argmax(probabilities);
        let reached = match self.target {
            Some(target) => class == target,
            None => class != self.before,
        };
        if reached {
            self.succeeded = true;
            let changes = || self.candidate.iter().zip(self.original);
            let distance: f64 = changes()
                .map(|(a, x)| f64::from(a - x))
                .map(|d| d * d + self.settings.beta * d.abs())
                .sum();
            if self
                .best
                .as_ref()
                .is_none_or(|(least, _)| distance < *least)
            {
                let found = Found {
                    image: self.candidate.clone(),
                    class,
                    probabilities: probabilities.to_vec(),
                    weight: self.c,
                };
                self.best = Some((distance, found));
            }
        }
        if self.iterations >= self.settings.iterations {
            self.next_run();
        }
    }

    fn next_run(&mut self) {
        let [low, high] = &mut self.bounds;
        self.c = if self.succeeded {
            *high = high.min(self.c);
            match *high < UNBOUNDED {
                true => 0.5 * (*low + *high),
                false => self.c,
            }
        } else {
            *low = low.max(self.c);
            match *high < UNBOUNDED {
                true => 0.5 * (*low + *high),
                false => 10.0 * self.c,
            }
        };
        self.run += 1;
        self.done = self.run >= self.settings.c_steps;
        self.succeeded = false;
        self.iterations = 0;
        self.momentum.copy_from_slice(self.original);
        self.candidate.copy_from_slice(self.original);
    }

    fn outcome(self) -> Outcome {
        Outcome {
            before: self.before,
            found: self.best.map(|(_, found)| found),
            evaluations: self.evaluations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hinge_pulls_towards_the_target_or_towards_the_strongest_other_class() {
        let gl = Prototype::default();
        let weights = |row: &[f32], target| {
            let aim = Aim {
                own: 0,
                target,
                c: 2.0,
            };
            gl.weigh(row, aim)
        };
        let row = [0.6, 0.3, 0.1];
        assert_eq!(weights(&row, None), [2.0, -2.0, 0.0]);
        // By the logarithms, of which the slopes are 2/0.5 and 2/0.25.
        assert_eq!(weights(&[0.5, 0.25, 0.25], Some(2)), [4.0, 0.0, -8.0]);
        // The class that leads is not the target: it is pushed down, whichever it is.
        assert_eq!(weights(&[0.25, 0.5, 0.25], Some(2)), [0.0, 4.0, -8.0]);
        assert_eq!(weights(&[0.1, 0.6, 0.3], None), [0.0; 3]);
        assert_eq!(weights(&[0.1, 0.3, 0.6], Some(2)), [0.0; 3]);
    }
}
