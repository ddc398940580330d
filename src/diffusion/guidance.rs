//! One step of a diffusion that a classifier's gradient bends towards a class.
//!
//! `mean' = mean + variance · strength · (scale · direction − weight · distance)`: the direction is the gradient of the
//! target's log-probability, brought to unit length and, with a robust classifier, into a cone; the distance is that to
//! the original image. The kinds of guidance differ in what the classifier looks at, by what its opinion is
//! differentiated and how strong the push is.

use candle_core::{Device, Var};
use serde::{Deserialize, Serialize};

use super::cone::{Cone, length, normalise};
use super::error::{DiffusionError, Result};
use super::guide::{Denoiser, Guide};
use super::process::{clean_weights, ddim, drawn, moments, noise_between, without_noise};
use super::schedule::Schedule;
use super::tape::{candle_error, download, gradient, rows, upload, variable};
use crate::tensor::Array;
use crate::tensor::candle::Tensor;

/// What the classifier looks at, and by what its opinion is differentiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum X0 {
    /// It looks at the predicted clean image; the gradient goes back through the UNet to the noisy one.
    #[default]
    ThroughUnet,
    /// It looks at the predicted clean image; the gradient stops there (what the public code does without
    /// "x0-prediction").
    AtX0,
    /// It looks at the noisy image itself (equation 1 of the paper).
    Off,
}

impl X0 {
    pub fn name(self) -> &'static str {
        match self {
            X0::ThroughUnet => "through-unet",
            X0::AtX0 => "at-x0",
            X0::Off => "off",
        }
    }
}

/// How long the push is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// Unit directions times the length of the mean without guidance (the evaluated method).
    Mean,
    /// Unit directions times the length of the predicted noise (DVCE).
    Noise,
    /// The gradient as it is (Dhariwal & Nichol 2021); in a cone, a direction with the length of the explained classifier's.
    Plain,
}

/// How a step draws the images one step earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampler {
    /// The ancestral chain: fresh noise in every step; guidance moves the mean.
    #[default]
    Ddpm,
    /// DDIM (Song et al. 2021), with `eta` times the noise of the ancestral chain. Guidance bends the predicted noise
    /// (Dhariwal & Nichol 2021, algorithm 2): `noise − √(1 − alpha) · strength · (scale · direction − weight · distance)`.
    Ddim { eta: f64 },
}

/// The pull towards the original image.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// Of `Σ |predicted − original|^p`.
    pub exponent: f64,
    pub weight: f64,
    /// Differentiated through the UNet, as the mean of the absolute differences, instead of at the predicted image.
    pub through_unet: bool,
}

/// A kind of guidance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guidance {
    pub x0: X0,
    pub cone: Option<Cone>,
    pub scale: f64,
    pub distance: Option<Distance>,
    pub strength: Strength,
    /// Keeps predicted clean images from −1 to 1 (not those that gradients pass).
    pub clip: bool,
}

impl Default for Guidance {
    /// The evaluated method of [diffusion-vce], with one classifier.
    fn default() -> Self {
        Self {
            x0: X0::ThroughUnet,
            cone: None,
            scale: 0.1,
            distance: Some(Distance {
                exponent: 1.0,
                weight: 0.15,
                through_unet: false,
            }),
            strength: Strength::Mean,
            clip: false,
        }
    }
}

/// Where a step starts: noisy images `[n, channels, height, width]`, one step, target and original each.
#[derive(Clone, Copy)]
pub struct Noisy<'a> {
    pub images: &'a Array,
    pub originals: &'a Array,
    pub targets: &'a [usize],
    pub indices: &'a [usize],
    /// Noise of this step; not used at index 0.
    pub fresh: &'a Array,
}

/// What a guided step found.
#[derive(Clone, Debug)]
pub struct Guided {
    /// The images one step earlier.
    pub images: Array,
    /// Clean images as the UNet predicts them; with DDIM, where guidance has bent the noise, by that noise.
    pub clean: Array,
    /// Mean with and without guidance.
    pub mean: Array,
    pub unguided_mean: Array,
    pub variance: Array,
    pub log_variance: Array,
    /// `scale · direction − weight · distance`.
    pub guidance: Array,
    /// Gradient of the target's log-probability by the explained classifier, and by the robust one.
    pub gradients: Vec<Array>,
    /// Angle between the two, in degrees.
    pub angles: Vec<Option<f64>>,
    /// Log-probability of the target at what the classifier looked at.
    pub log_probability: Vec<f64>,
    /// Images that went without guidance, because the explained classifier's gradient was zero or not a number.
    pub without: Vec<bool>,
    /// Images for which the robust classifier's gradient was, so that the explained one's was taken alone.
    pub without_robust: Vec<bool>,
}

/// Networks and settings of a guided diffusion.
pub struct Guider<'a> {
    pub schedule: &'a Schedule,
    pub unet: &'a dyn Denoiser,
    /// The classifier that is explained.
    pub classifier: &'a dyn Guide,
    /// The one whose gradient is brought into the cone; the explained one itself if there is none.
    pub robust: Option<&'a dyn Guide>,
    pub guidance: Guidance,
    pub sampler: Sampler,
}

/// One factor per image, to be multiplied with activations.
fn factors(values: impl Iterator<Item = f32>, device: &Device) -> Result<candle_core::Tensor> {
    let values: Vec<f32> = values.collect();
    let n = values.len();
    rows(values, n, device)
}

/// Log-probabilities of the targets `[n]`, and their gradient by a variable.
pub(super) fn opinion(
    guide: &dyn Guide,
    seen: &Tensor,
    steps: &[f32],
    targets: &[usize],
    by: &Var,
) -> Result<(Vec<f64>, Array)> {
    let logits = guide.logits(seen, steps)?;
    let classes = logits.shape().c;
    let n = targets.len();
    let mut wanted = vec![0.0f32; n * classes];
    for (row, &target) in targets.iter().enumerate() {
        if target >= classes {
            return Err(DiffusionError::Target { target, classes });
        }
        wanted[row * classes + target] = 1.0;
    }
    let log = logits.log_softmax()?;
    let values = download(&log)?;
    let found = (0..n).map(|i| f64::from(values.data[i * classes + targets[i]]));
    let found = found.collect();
    let wanted = rows(wanted, n, log.candle().device())?;
    let sum = (log.candle() * wanted)
        .and_then(|of_targets| of_targets.sum_all())
        .map_err(candle_error)?;
    Ok((found, gradient(&sum, by)?))
}

impl Guider<'_> {
    /// Runs one step for all images of a batch; an image's result does not depend on the others.
    pub fn step(&self, at: Noisy<'_>) -> Result<Guided> {
        let g = &self.guidance;
        let far = g.distance.is_some_and(|d| d.through_unet);
        let tape = g.x0 == X0::ThroughUnet || far;
        let steps: Vec<f32> = { at.indices.iter() }
            .map(|&t| self.schedule.steps[t] as f32)
            .collect();
        let device = self.unet.device();
        let noisy = variable(at.images, &device)?;
        let x = match tape {
            true => Tensor::new(noisy.as_tensor())?,
            false => upload(at.images, &device)?,
        };
        let output = self.unet.predict(&x, &steps)?;
        let values = download(&output)?;
        let found = moments(self.schedule, at.images, &values, at.indices, g.clip)?;
        let taped = match tape {
            true => Some(self.clean(&x, &output, at.indices)?),
            false => None,
        };
        // The variable, and what the classifiers look at.
        let (by, seen) = match (g.x0, &taped) {
            (X0::ThroughUnet, Some(clean)) => (noisy.clone(), clean.clone()),
            (X0::Off, _) => (noisy.clone(), Tensor::new(noisy.as_tensor())?),
            _ => {
                let clean = variable(&found.clean, &device)?;
                let seen = Tensor::new(clean.as_tensor())?;
                (clean, seen)
            }
        };
        let (log_probability, explained) =
            opinion(self.classifier, &seen, &steps, at.targets, &by)?;
        let mut gradients = vec![explained];
        if let (Some(_), Some(robust)) = (g.cone, self.robust) {
            gradients.push(opinion(robust, &seen, &steps, at.targets, &by)?.1);
        }
        let pull = match (g.distance, &taped) {
            (Some(d), Some(clean)) if d.through_unet => {
                Some(self.far_pull(clean, at.originals, &noisy)?)
            }
            (Some(d), _) => Some(pull(&found.clean, at.originals, d.exponent)),
            (None, _) => None,
        };
        let n = at.indices.len();
        let len = at.images.len() / n.max(1);
        let row = |a: &Array, i: usize| a.data[i * len..(i + 1) * len].to_vec();
        let mut guidance = Array::zeros(at.images.shape.clone());
        let mut strengths = vec![0.0f32; n];
        let mut mean = found.mean.clone();
        let (mut angles, mut without) = (vec![None; n], vec![false; n]);
        let mut without_robust = vec![false; n];
        for i in 0..n {
            let to = &mut guidance.data[i * len..(i + 1) * len];
            let own = row(&gradients[0], i);
            let direction = match (g.cone, gradients.get(1)) {
                (Some(cone), Some(robust)) => {
                    let found = match g.strength {
                        Strength::Plain => cone.project_at_length(&row(robust, i), &own),
                        _ => cone.project(&row(robust, i), &own),
                    };
                    without_robust[i] = found.as_ref().is_some_and(|p| p.alone);
                    angles[i] = found.as_ref().map(|p| p.angle).filter(|a| !a.is_nan());
                    found.map(|p| p.direction)
                }
                _ => Some(own),
            };
            let Some(mut direction) = direction else {
                without[i] = true;
                continue;
            };
            let sound = match g.strength {
                Strength::Plain => {
                    let far = length(&direction);
                    far.is_finite() && far > 0.0
                }
                _ => normalise(&mut direction),
            };
            if !sound {
                without[i] = true;
                continue;
            }
            for (to, d) in to.iter_mut().zip(&direction) {
                *to = g.scale as f32 * d;
            }
            if let (Some(distance), Some(pull)) = (g.distance, &pull) {
                let mut pull = row(pull, i);
                // An image that is its original is not pulled.
                normalise(&mut pull);
                for (to, p) in to.iter_mut().zip(&pull) {
                    *to -= distance.weight as f32 * p;
                }
            }
            let strength = match g.strength {
                Strength::Mean => length(&row(&found.mean, i)),
                Strength::Noise => {
                    let stride = values.len() / n;
                    length(&values.data[i * stride..][..len])
                }
                Strength::Plain => 1.0,
            } as f32;
            strengths[i] = strength;
            for (k, push) in to.iter().enumerate() {
                mean.data[i * len + k] += found.variance.data[i * len + k] * strength * push;
            }
        }
        let (images, clean) = match self.sampler {
            Sampler::Ddpm => (
                drawn(&mean, &found.log_variance, at.fresh, at.indices),
                found.clean,
            ),
            Sampler::Ddim { eta } => {
                let mut noise = noise_between(self.schedule, at.images, &found.clean, at.indices);
                for (k, noise) in noise.data.iter_mut().enumerate() {
                    let i = k / len;
                    let spread = (1.0 - self.schedule.alphas[at.indices[i]]).sqrt() as f32;
                    *noise -= spread * strengths[i] * guidance.data[k];
                }
                let clean = without_noise(self.schedule, at.images, &noise, at.indices);
                let images = ddim(self.schedule, at.images, &clean, at.fresh, at.indices, eta);
                (images, clean)
            }
        };
        Ok(Guided {
            images,
            clean,
            mean,
            unguided_mean: found.mean,
            variance: found.variance,
            log_variance: found.log_variance,
            guidance,
            gradients,
            angles,
            log_probability,
            without,
            without_robust,
        })
    }

    /// Clean images from noisy ones and the network's output, with gradients.
    fn clean(&self, x: &Tensor, output: &Tensor, indices: &[usize]) -> Result<Tensor> {
        let (channels, device) = (x.shape().c, x.candle().device());
        let weights = indices.iter().map(|&t| clean_weights(self.schedule, t));
        let of_noisy = factors(weights.clone().map(|w| w.0), device)?;
        let of_noise = factors(weights.map(|w| w.1), device)?;
        let clean = || -> candle_core::Result<candle_core::Tensor> {
            let noise = output.candle().narrow(3, 0, channels)?.contiguous()?;
            x.candle()
                .broadcast_mul(&of_noisy)?
                .sub(&noise.broadcast_mul(&of_noise)?)
        };
        Ok(Tensor::new(&clean().map_err(candle_error)?)?)
    }

    /// Gradient of the mean absolute difference to the originals by the noisy images, through the UNet.
    fn far_pull(&self, clean: &Tensor, originals: &Array, by: &Var) -> Result<Array> {
        let originals = upload(originals, clean.candle().device())?;
        let sum = clean
            .candle()
            .sub(originals.candle())
            .and_then(|d| d.abs()?.sum_all())
            .map_err(candle_error)?;
        gradient(&sum, by)
    }
}

/// `p |d|^(p−1) sign(d)` with `d` the difference to the originals.
pub fn pull(clean: &Array, originals: &Array, exponent: f64) -> Array {
    let mut pull = clean.clone();
    for (to, original) in pull.data.iter_mut().zip(&originals.data) {
        let d = *to - original;
        *to = match d {
            0.0 => 0.0,
            _ => (exponent * f64::from(d.abs()).powf(exponent - 1.0)) as f32 * d.signum(),
        };
    }
    pull
}
