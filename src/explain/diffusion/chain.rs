//! A batch of originals through the chain of a method.

use super::files::Met;
use super::method::Method;
use super::networks::Networks;
use super::{Plan, Result};
use crate::diffusion::{
    Chained, Dime, DimeSettings, Guidance, Guider, Loss, Noise, Noisy, Schedule,
};
use crate::tensor::Array;

/// What all batches of a run share.
pub(super) struct Chain<'a> {
    pub plan: &'a Plan,
    pub networks: &'a Networks,
    pub schedule: &'a Schedule,
    pub start: usize,
}

impl Chain<'_> {
    /// Counterfactuals of originals (NCHW, −1 to 1). `met` gets what was met on the way, `advance` hears of evaluations
    /// of the denoiser, each image's for itself.
    pub fn run(
        &self,
        originals: &Array,
        targets: &[usize],
        noise: &dyn Noise,
        met: &mut [Met],
        advance: &mut dyn FnMut(usize),
    ) -> Result<Array> {
        match &self.plan.method {
            Method::Guided(guidance) => {
                let guider = self.guider(*guidance);
                let end = guider.chain(originals, targets, self.start, noise, |_, step| {
                    for (i, met) in met.iter_mut().enumerate() {
                        met.add(step, i);
                    }
                    advance(targets.len());
                })?;
                let Chained { images, clean } = end;
                Ok(match self.plan.method.shows_clean() {
                    true => clean,
                    false => images,
                })
            }
            Method::Dime(settings) => {
                let dime = self.dime(settings);
                let mut left = self.start;
                let found = dime.search_watched(
                    originals,
                    targets,
                    &settings.scales,
                    noise,
                    |attempt, step| {
                        if left == 0 {
                            left = self.start;
                        }
                        for (k, &i) in attempt.images.iter().enumerate() {
                            met[i].scale = Some(attempt.scale);
                            met[i].unguided += usize::from(step.without[k]);
                        }
                        // This step, and the chain that draws a clean image after it.
                        advance(attempt.images.len() * left);
                        left -= 1;
                    },
                )?;
                Ok(found.0)
            }
        }
    }

    /// One step of so many grey images: what a batch needs of memory.
    pub fn try_step(&self, images: usize, target: usize) -> Result<()> {
        let size = self.networks.size;
        let grey = Array::zeros([images, 3, size, size]);
        let targets = vec![target; images];
        match &self.plan.method {
            Method::Guided(guidance) => {
                self.guider(*guidance).step(Noisy {
                    images: &grey,
                    originals: &grey,
                    targets: &targets,
                    indices: &vec![self.start - 1; images],
                    fresh: &grey,
                })?;
            }
            Method::Dime(settings) => {
                let mut dime = self.dime(settings);
                dime.settings.start = 1;
                let noise = crate::diffusion::Seeded {
                    seed: 0,
                    keys: vec![0; images],
                };
                dime.search(&grey, &targets, &settings.scales[..1], &noise)?;
            }
        }
        Ok(())
    }

    fn guider(&self, guidance: Guidance) -> Guider<'_> {
        Guider {
            schedule: self.schedule,
            unet: self.networks.unet.as_ref(),
            classifier: self.networks.classifier.as_ref(),
            robust: self.networks.robust.as_deref(),
            guidance,
        }
    }

    fn dime(&self, settings: &super::method::Dime) -> Dime<'_> {
        Dime {
            schedule: self.schedule,
            unet: self.networks.unet.as_ref(),
            classifier: self.networks.classifier.as_ref(),
            features: self.networks.perceptual.as_deref(),
            settings: DimeSettings {
                loss: Loss::LogSoftmax,
                l1: settings.l1,
                l2: settings.l2,
                perceptual: settings
                    .perceptual
                    .as_ref()
                    .map_or(0.0, |(_, weight)| *weight),
                start: self.start,
                sampled: true,
            },
        }
    }
}
