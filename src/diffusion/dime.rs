//! DiME (Jeanneret et al. 2022): every step asks the classifier about a clean image that an inner chain of its own
//! draws, so that a classifier of clean images guides without gradients through the UNet.

use serde::{Deserialize, Serialize};

use super::chain::{Noise, batch};
use super::cone::length;
use super::error::{DiffusionError, Result};
use super::guide::{Denoiser, Guide, called};
use super::process::{drawn, moments, noised};
use super::schedule::Schedule;
use super::tape::{candle_error, download, gradient, rows, upload, variable};
use crate::tensor::Array;
use crate::tensor::candle::Tensor;

/// What the classifier's gradient is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Minus the log-probability of the target among all classes.
    LogSoftmax,
    /// A classifier of two classes in one logit, the column of this index: targets are 0 and 1. Minus the logit of
    /// the target.
    Logit(usize),
    /// The same, minus the logarithm of its sigmoid.
    LogSigmoid(usize),
}

/// Settings of the method; weights are factors of the losses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DimeSettings {
    pub loss: Loss,
    /// Of the distance of the noisy image to the original, over channels in the L1 and the L2 norm.
    pub l1: f64,
    pub l2: f64,
    /// Of the squared distance of features of the clean image to those of the original.
    pub perceptual: f64,
    /// Steps of the chain.
    pub start: usize,
    /// The inner chain draws noise; else it takes the means.
    pub sampled: bool,
    /// The search asks about images as a PNG holds them, which is what others will see; else about unrounded ones, as the
    /// public code does.
    pub in_pixels: bool,
}

/// Features that a perceptual distance compares.
pub trait Features: Send + Sync {
    fn features(&self, images: &Tensor) -> Result<Tensor>;
}

/// Networks and settings.
pub struct Dime<'a> {
    pub schedule: &'a Schedule,
    pub unet: &'a dyn Denoiser,
    pub classifier: &'a dyn Guide,
    pub features: Option<&'a dyn Features>,
    pub settings: DimeSettings,
}

/// State before an outer step and what was found there.
pub struct DimeStep<'a> {
    pub noisy: &'a Array,
    pub clean: &'a Array,
    /// Gradient of the classifier's loss times the scale, and that of all distances.
    pub class_gradient: &'a Array,
    pub distance_gradient: &'a Array,
    /// Log-probability of each target at the clean image, as the classifier's loss sees it.
    pub log_probability: &'a [f64],
    /// Images that go without guidance, because the classifier's gradient is zero or not a number.
    pub without: &'a [bool],
}

/// Where a search for a scale is.
pub struct Attempt<'a> {
    pub scale: f64,
    /// Images of the batch that are in it.
    pub images: &'a [usize],
}

impl Loss {
    /// The loss of all images on the tape.
    fn of(self, logits: &Tensor, targets: &[usize]) -> Result<candle_core::Tensor> {
        let classes = logits.shape().c;
        let n = targets.len();
        let mut weights = vec![0.0f32; n * classes];
        for (row, &target) in targets.iter().enumerate() {
            let (column, weight, known) = match self {
                Loss::LogSoftmax => (target, 1.0, classes),
                Loss::Logit(c) | Loss::LogSigmoid(c) => (c, [-1.0, 1.0][target.min(1)], 2),
            };
            if column >= classes || target >= known {
                return Err(DiffusionError::Target {
                    target,
                    classes: known.min(classes),
                });
            }
            weights[row * classes + column] = weight;
        }
        let weights = rows(weights, n, logits.candle().device())?;
        let chosen = |values: &Tensor| -> candle_core::Result<candle_core::Tensor> {
            (values.candle() * weights)?.sum(3)
        };
        let loss = match self {
            Loss::LogSoftmax => chosen(&logits.log_softmax()?).and_then(|v| v.neg()),
            Loss::Logit(_) => chosen(logits).and_then(|v| v.neg()),
            // −log σ(v) = log(1 + e^−v), without overflow: max(−v, 0) + log(1 + e^−|v|).
            Loss::LogSigmoid(_) => chosen(logits).and_then(|v| {
                let soft = (v.abs()?.neg()?.exp()? + 1.0)?.log()?;
                v.neg()?.relu()? + soft
            }),
        };
        loss.and_then(|l| l.sum_all()).map_err(candle_error)
    }

    /// What the classifier says of a target it knows, in f64.
    fn log_probability(self, logits: &[f32], target: usize) -> f64 {
        match self {
            Loss::LogSoftmax => {
                let logits = logits.iter().map(|&v| f64::from(v));
                let largest = logits.clone().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = logits.clone().map(|v| (v - largest).exp()).sum();
                let own = logits.clone().nth(target).unwrap_or(f64::NAN);
                own - largest - sum.ln()
            }
            Loss::Logit(c) | Loss::LogSigmoid(c) => {
                let towards = f64::from(logits[c]) * [-1.0, 1.0][target.min(1)];
                // log σ(v), without overflow.
                towards.min(0.0) - (-towards.abs()).exp().ln_1p()
            }
        }
    }

    /// Whether the classifier says the target.
    fn reached(self, logits: &[f32], target: usize) -> bool {
        match self {
            Loss::LogSoftmax => called(logits) == Some(target),
            Loss::Logit(c) | Loss::LogSigmoid(c) => {
                !logits[c].is_nan() && usize::from(logits[c] > 0.0) == target
            }
        }
    }
}

/// Values kept from −1 to 1; the gradient of those at the ends and beyond is zero.
fn clamped(x: &Tensor) -> Result<Tensor> {
    let values = x
        .candle()
        .flatten_all()
        .and_then(|v| v.to_vec1::<f32>())
        .map_err(candle_error)?;
    let inside: Vec<f32> = { values.iter() }
        .map(|v| f32::from(u8::from(v.abs() < 1.0)))
        .collect();
    let edge: Vec<f32> = { values.iter() }
        .map(|v| if v.abs() < 1.0 { 0.0 } else { v.signum() })
        .collect();
    let like =
        |v: Vec<f32>| candle_core::Tensor::from_vec(v, x.candle().shape(), x.candle().device());
    let clamped = like(inside)
        .and_then(|inside| x.candle() * inside)
        .and_then(|kept| kept + like(edge)?);
    Ok(Tensor::new(&clamped.map_err(candle_error)?)?)
}

/// Images from −1 to 1 by ImageNet's means and deviations.
fn standardised(x: &Tensor) -> Result<Tensor> {
    let [mean, deviation] = [[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]];
    let scale = deviation.map(|d: f32| 0.5 / d).to_vec();
    let shift = (0..3).map(|c| (0.5 - mean[c]) / deviation[c]).collect();
    let device = x.candle().device();
    let (scale, shift) = (rows(scale, 1, device)?, rows(shift, 1, device)?);
    let scaled = x.candle().broadcast_mul(&scale);
    let moved = scaled.and_then(|scaled| scaled.broadcast_add(&shift));
    Ok(Tensor::new(&moved.map_err(candle_error)?)?)
}

impl Dime<'_> {
    /// Random draws of one attempt besides the start.
    pub fn draws(&self) -> usize {
        let start = self.settings.start;
        match self.settings.sampled {
            true => start + start * (start - 1) / 2,
            false => start,
        }
    }

    /// The noisy images every attempt begins with: one step more than it takes back, as in the public code.
    pub fn begin(&self, originals: &Array, noise: &dyn Noise) -> Result<Array> {
        let start = self.settings.start;
        if start == 0 || start >= self.schedule.len() {
            return Err(DiffusionError::Start {
                start,
                steps: self.schedule.len(),
            });
        }
        let n = originals.shape[0];
        let first = batch(noise, 0, &originals.shape);
        Ok(noised(self.schedule, originals, &first, &vec![start; n]))
    }

    /// One attempt with one scale from noisy images; its draws are those from `first` on. `watch` sees every step.
    pub fn attempt(
        &self,
        originals: &Array,
        targets: &[usize],
        noisy: &Array,
        scale: f64,
        (noise, first): (&dyn Noise, usize),
        mut watch: impl FnMut(DimeStep<'_>),
    ) -> Result<Array> {
        let n = targets.len();
        let (mut noisy, mut clean) = (noisy.clone(), originals.clone());
        let mut draw = first;
        let mut next = |shape: &[usize]| {
            draw += 1;
            batch(noise, draw - 1, shape)
        };
        for t in (0..self.settings.start).rev() {
            let at = vec![t; n];
            let found = self.moments(&noisy, &at)?;
            let signal = self.schedule.alphas[t].sqrt() as f32;
            let (class, log_probability) = self.class_gradient(&clean, t, targets, scale)?;
            let distance = self.distance_gradient(&noisy, &clean, originals, signal)?;
            let lost = |i: usize| {
                let far = length(class.row(i));
                // A scale of zero asks for no push of the classifier.
                !far.is_finite() || (far == 0.0 && scale != 0.0)
            };
            let without: Vec<bool> = (0..n).map(lost).collect();
            watch(DimeStep {
                noisy: &noisy,
                clean: &clean,
                class_gradient: &class,
                distance_gradient: &distance,
                log_probability: &log_probability,
                without: &without,
            });
            let mut mean = found.mean;
            let len = mean.len() / n.max(1);
            for (i, _) in without.iter().enumerate().filter(|(_, lost)| !**lost) {
                for k in i * len..(i + 1) * len {
                    let push = class.data[k] / signal + distance.data[k];
                    mean.data[k] -= found.variance.data[k] * push;
                }
            }
            let fresh = next(&originals.shape);
            noisy = drawn(&mean, &found.log_variance, &fresh, &at);
            clean = noisy.clone();
            for inner in (0..t).rev() {
                let at = vec![inner; n];
                let found = self.moments(&clean, &at)?;
                clean = match self.settings.sampled {
                    true => drawn(
                        &found.mean,
                        &found.log_variance,
                        &next(&originals.shape),
                        &at,
                    ),
                    false => found.mean,
                };
            }
        }
        Ok(noisy)
    }

    /// Tries scales in order; images that reached their target stay, the rest begins again from the same noisy image.
    /// Returns the last attempt of each image, and the scale that reached its target.
    pub fn search(
        &self,
        originals: &Array,
        targets: &[usize],
        scales: &[f64],
        noise: &dyn Noise,
    ) -> Result<(Array, Vec<Option<f64>>)> {
        self.search_watched(originals, targets, scales, noise, |_, _| {})
    }

    /// The same; `watch` sees every step of every attempt.
    pub fn search_watched(
        &self,
        originals: &Array,
        targets: &[usize],
        scales: &[f64],
        noise: &dyn Noise,
        mut watch: impl FnMut(&Attempt<'_>, DimeStep<'_>),
    ) -> Result<(Array, Vec<Option<f64>>)> {
        let begin = self.begin(originals, noise)?;
        let mut images = originals.clone();
        let mut reached: Vec<Option<f64>> = vec![None; targets.len()];
        let len = originals.len() / targets.len().max(1);
        for (attempt, &scale) in scales.iter().enumerate() {
            let left: Vec<usize> = (0..targets.len())
                .filter(|&i| reached[i].is_none())
                .collect();
            if left.is_empty() {
                break;
            }
            let some = |all: &Array| Array {
                shape: [&[left.len()], &all.shape[1..]].concat(),
                data: { left.iter() }.flat_map(|&i| all.row(i).to_vec()).collect(),
            };
            let wanted: Vec<usize> = left.iter().map(|&i| targets[i]).collect();
            let theirs = Of {
                noise,
                images: &left,
            };
            let first = 1 + attempt * self.draws();
            let now = Attempt {
                scale,
                images: &left,
            };
            let found = self.attempt(
                &some(originals),
                &wanted,
                &some(&begin),
                scale,
                (&theirs, first),
                |step| watch(&now, step),
            )?;
            let judged = match self.settings.in_pixels {
                true => in_pixels(&found),
                false => found.clone(),
            };
            let seen = upload(&judged, &self.unet.device())?;
            let logits = self.classifier.logits(&seen, &vec![0.0; left.len()])?;
            let logits = download(&logits)?;
            for (k, &i) in left.iter().enumerate() {
                images.data[i * len..(i + 1) * len].copy_from_slice(found.row(k));
                if self.settings.loss.reached(logits.row(k), targets[i]) {
                    reached[i] = Some(scale);
                }
            }
        }
        Ok((images, reached))
    }

    fn moments(&self, noisy: &Array, at: &[usize]) -> Result<super::process::Moments> {
        let steps: Vec<f32> = { at.iter() }
            .map(|&t| self.schedule.steps[t] as f32)
            .collect();
        let seen = upload(noisy, &self.unet.device())?;
        let output = self.unet.predict(&seen, &steps)?;
        moments(self.schedule, noisy, &download(&output)?, at, true)
    }

    fn class_gradient(
        &self,
        clean: &Array,
        t: usize,
        targets: &[usize],
        scale: f64,
    ) -> Result<(Array, Vec<f64>)> {
        let by = variable(clean, &self.unet.device())?;
        let steps = vec![self.schedule.steps[t] as f32; targets.len()];
        let logits = self
            .classifier
            .logits(&Tensor::new(by.as_tensor())?, &steps)?;
        let loss = self.settings.loss.of(&logits, targets)?;
        let told = download(&logits)?;
        let told = { targets.iter().enumerate() }
            .map(|(i, &target)| self.settings.loss.log_probability(told.row(i), target));
        let told = told.collect();
        Ok((gradient(&(loss * scale).map_err(candle_error)?, &by)?, told))
    }

    fn distance_gradient(
        &self,
        noisy: &Array,
        clean: &Array,
        originals: &Array,
        signal: f32,
    ) -> Result<Array> {
        let mut all = near(noisy, originals, self.settings.l1, self.settings.l2);
        let Some(features) = self.features.filter(|_| self.settings.perceptual != 0.0) else {
            return Ok(all);
        };
        let look = |x: &Tensor| features.features(&standardised(&clamped(x)?)?);
        let by = variable(clean, &self.unet.device())?;
        let [a, b] = [
            look(&Tensor::new(by.as_tensor())?)?,
            look(&upload(originals, &self.unet.device())?)?,
        ];
        let values = a.shape().image().max(1) as f64;
        let sum = a
            .candle()
            .sub(b.candle())
            .and_then(|d| d.sqr()?.sum_all()? * (self.settings.perceptual / values))
            .map_err(candle_error)?;
        let far = gradient(&sum, &by)?;
        for (all, far) in all.data.iter_mut().zip(&far.data) {
            *all += far / signal;
        }
        Ok(all)
    }
}

/// Images as a reader of their PNGs sees them: cut to the range, in 256 levels.
pub fn in_pixels(images: &Array) -> Array {
    let mut seen = images.clone();
    for v in &mut seen.data {
        *v = ((v.clamp(-1.0, 1.0) + 1.0) * 127.5).round() / 127.5 - 1.0;
    }
    seen
}

/// Gradient of `l1 · Σ |d| + l2 · Σ ‖d‖` with `d` the differences, the norm over the channels of a pixel.
fn near(noisy: &Array, originals: &Array, l1: f64, l2: f64) -> Array {
    let mut all = noisy.clone();
    let (channels, area) = (noisy.shape[1], noisy.shape[2] * noisy.shape[3]);
    let images = all.data.chunks_mut(channels * area);
    for (image, original) in images.zip(originals.data.chunks(channels * area)) {
        for pixel in 0..area {
            let at = |c: usize| c * area + pixel;
            let difference = |image: &[f32], c: usize| f64::from(image[at(c)] - original[at(c)]);
            let norm = (0..channels)
                .map(|c| difference(image, c).powi(2))
                .sum::<f64>()
                .sqrt();
            for c in 0..channels {
                let d = difference(image, c);
                let sign = if d == 0.0 { 0.0 } else { d.signum() };
                let unit = if norm == 0.0 { 0.0 } else { d / norm };
                image[at(c)] = (l1 * sign + l2 * unit) as f32;
            }
        }
    }
    all
}

/// The noise of some images of a batch.
struct Of<'a> {
    noise: &'a dyn Noise,
    images: &'a [usize],
}

impl Noise for Of<'_> {
    fn fill(&self, image: usize, draw: usize, to: &mut [f32]) {
        self.noise.fill(self.images[image], draw, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_probabilities_are_those_of_the_losses_without_overflow() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12 * b.abs().max(1.0), "{a} {b}");
        let third = Loss::LogSoftmax.log_probability(&[2.0, 2.0, 2.0], 1);
        near(third, -(3.0f64.ln()));
        near(Loss::LogSoftmax.log_probability(&[900.0, 0.0], 1), -900.0);
        near(
            Loss::LogSigmoid(0).log_probability(&[0.0], 1),
            -(2.0f64.ln()),
        );
        near(Loss::Logit(0).log_probability(&[800.0], 0), -800.0);
        near(Loss::Logit(0).log_probability(&[800.0], 1), 0.0);
    }

    /// As records say it: the first of equal logits, and nothing where there are no numbers.
    #[test]
    fn a_target_is_reached_as_records_say_it() {
        let reached = |logits: &[f32], target| Loss::LogSoftmax.reached(logits, target);
        assert!(reached(&[2.0, 2.0], 0) && !reached(&[2.0, 2.0], 1));
        for target in [0, 1] {
            assert!(!reached(&[0.0, f32::NAN], target) && !reached(&[f32::NAN; 2], target));
            assert!(!Loss::Logit(0).reached(&[f32::NAN], target));
        }
        assert!(Loss::Logit(0).reached(&[-1.0], 0) && Loss::Logit(0).reached(&[1.0], 1));
    }

    #[test]
    fn images_in_pixels_have_256_levels() {
        let images = Array {
            shape: vec![1, 1, 1, 4],
            data: vec![-3.0, 0.001, 0.5, 1.2],
        };
        let seen = in_pixels(&images).data;
        assert_eq!([seen[0], seen[3]], [-1.0, 1.0]);
        for v in seen {
            let level = (v + 1.0) * 127.5;
            assert!((level - level.round()).abs() < 1e-4, "{v}");
        }
    }
}
