//! Latent-CF (Balasubramanian et al. 2020): plain gradient steps on |p(own class) − p|.
//!
//! Correct: each explanation for itself, by the softmax's probability, until the other class has a probability above `tolerance`.
//! As released: one mean over the batch, by the sigmoid of the own logit, so that a step is `rate / (b n)` of an explanation's
//! gradient; the batch stops when the mean is at most `tolerance`.

use serde::{Deserialize, Serialize};

use super::explainer::released_batch;
use super::{Explained, Explainer, Latent, Noise, Pull, Result, Task, Variant, Weighed};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LatentCf {
    pub variant: Variant,
    pub rate: f64,
    /// Wanted probability of the own class.
    pub probability: f64,
    pub tolerance: f64,
    pub iterations: usize,
}

impl Default for LatentCf {
    fn default() -> Self {
        Self {
            variant: Variant::Correct,
            rate: 0.1,
            probability: 0.1,
            tolerance: 0.5,
            iterations: 50,
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl LatentCf {
    /// As released; `watch` hears the loss of each iteration.
    pub fn released(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        watch: &mut dyn FnMut(f64),
    ) -> Result<Vec<Latent>> {
        let classes = task.classes();
        let mut z: Vec<[f64; super::LATENT]> =
            task.spread().iter().map(|z| z.map(f64::from)).collect();
        let rows = z.len() as f64;
        let by = |row: usize, seen: &super::Seen<'_>, _: &mut [f32]| {
            let class = classes[row / task.n];
            let p = sigmoid(f64::from(seen.logits[class]));
            let off = p - self.probability;
            let mut by_logits = [0.0; 2];
            let sign = if off == 0.0 { 0.0 } else { off.signum() };
            by_logits[class] = (sign * p * (1.0 - p) / rows) as f32;
            Weighed {
                loss: off.abs() / rows,
                by_logits,
            }
        };
        let pull = Pull {
            images: false,
            by: &by,
        };
        for _ in 0..self.iterations {
            let pulled = world.gradient(&narrow(&z), &pull)?;
            let loss: f64 = pulled.losses.iter().sum();
            watch(loss);
            for (z, g) in z.iter_mut().zip(&pulled.gradient) {
                z.iter_mut()
                    .zip(g)
                    .for_each(|(z, g)| *z -= self.rate * f64::from(*g));
            }
            if loss <= self.tolerance {
                break;
            }
        }
        Ok(narrow(&z))
    }

    fn correct(&self, world: &Explained<'_>, task: &Task<'_>) -> Result<Vec<Latent>> {
        let classes = task.classes();
        let mut z: Vec<[f64; super::LATENT]> =
            task.spread().iter().map(|z| z.map(f64::from)).collect();
        // Explanations that have not reached the other class.
        let mut open: Vec<usize> = (0..z.len()).collect();
        for _ in 0..self.iterations {
            let by = |row: usize, seen: &super::Seen<'_>, _: &mut [f32]| {
                let class = classes[open[row] / task.n];
                let gap = f64::from(seen.logits[class]) - f64::from(seen.logits[1 - class]);
                let p = sigmoid(gap);
                let off = p - self.probability;
                let slope = if off == 0.0 {
                    0.0
                } else {
                    off.signum() * p * (1.0 - p)
                };
                let mut by_logits = [0.0; 2];
                by_logits[class] = slope as f32;
                by_logits[1 - class] = -slope as f32;
                Weighed { loss: p, by_logits }
            };
            let pull = Pull {
                images: false,
                by: &by,
            };
            let at: Vec<_> = open.iter().map(|&i| z[i]).collect();
            let pulled = world.gradient(&narrow(&at), &pull)?;
            let mut still = Vec::new();
            for ((&i, p), g) in open.iter().zip(&pulled.losses).zip(&pulled.gradient) {
                if 1.0 - p > self.tolerance {
                    continue;
                }
                z[i].iter_mut()
                    .zip(g)
                    .for_each(|(z, g)| *z -= self.rate * f64::from(*g));
                still.push(i);
            }
            open = still;
            if open.is_empty() {
                break;
            }
        }
        Ok(narrow(&z))
    }
}

pub(super) fn narrow(z: &[[f64; super::LATENT]]) -> Vec<Latent> {
    z.iter().map(|z| z.map(|v| v as f32)).collect()
}

impl Explainer for LatentCf {
    fn name(&self) -> &str {
        "latent-cf"
    }

    fn explain(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        _: &mut dyn Noise,
    ) -> Result<Vec<Latent>> {
        match self.variant {
            Variant::Correct => self.correct(world, task),
            Variant::AsReleased => self.released(world, task, &mut |_| ()),
        }
    }

    fn is_random(&self) -> bool {
        false
    }

    fn batch(&self) -> usize {
        released_batch(self.variant)
    }
}
