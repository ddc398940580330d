//! A batch of originals through the chain of a method.

use std::ops::Range;
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use rayon::prelude::*;

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
    /// of the denoiser, each image's for itself. Parts of the batch go side by side, a thread for each: operations on small
    /// images leave threads idle.
    pub fn run(
        &self,
        originals: &Array,
        targets: &[usize],
        noise: &dyn Noise,
        met: &mut [Met],
        advance: &mut dyn FnMut(usize),
    ) -> Result<Array> {
        let each = targets.len().div_ceil(self.networks.side_by_side()).max(1);
        let mut parts: Vec<Option<Result<Array>>> = Vec::new();
        parts.resize_with(targets.len().div_ceil(each), || None);
        let (tell, heard) = mpsc::channel();
        rayon::in_place_scope(|scope| {
            let work = parts.iter_mut().zip(met.chunks_mut(each));
            for (k, (part, met)) in work.enumerate() {
                let tell = tell.clone();
                let own = k * each..(k * each + met.len());
                scope.spawn(move |_| {
                    let few = part_of(originals, own.clone());
                    let noise = From {
                        noise,
                        first: own.start,
                    };
                    let told = &mut |steps| {
                        let _ = tell.send(steps);
                    };
                    *part = Some(self.part(&few, &targets[own], &noise, met, told));
                });
            }
            drop(tell);
            loop {
                match heard.try_recv() {
                    Ok(steps) => advance(steps),
                    Err(TryRecvError::Disconnected) => break,
                    // A thread of the pool may be the one that has to do the work.
                    Err(TryRecvError::Empty) => match rayon::yield_now() {
                        Some(rayon::Yield::Executed) => {}
                        _ => std::thread::sleep(Duration::from_millis(1)),
                    },
                }
            }
        });
        let mut data = Vec::with_capacity(originals.len());
        for part in parts.into_iter().flatten() {
            data.extend(part?.data);
        }
        Ok(Array {
            shape: originals.shape.clone(),
            data,
        })
    }

    fn part(
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
                            if met[i].scale != Some(attempt.scale) {
                                // Losses are those of the last attempt.
                                met[i].log_probability = None;
                            }
                            met[i].scale = Some(attempt.scale);
                            met[i].unguided += usize::from(step.without[k]);
                            met[i].told(step.log_probability[k]);
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

    /// One step of so many grey images, side by side like those of a batch: what it needs of memory.
    pub fn try_step(&self, images: usize, target: usize) -> Result<()> {
        let each = images.div_ceil(self.networks.side_by_side()).max(1);
        let starts: Vec<usize> = (0..images).step_by(each).collect();
        let tried = starts.par_iter().map(|start| {
            let few = each.min(images - start);
            self.try_part(few, target)
        });
        tried.collect()
    }

    fn try_part(&self, images: usize, target: usize) -> Result<()> {
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
            sampler: self.plan.sampler,
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
                in_pixels: true,
            },
        }
    }
}

/// Images of a batch.
fn part_of(all: &Array, images: Range<usize>) -> Array {
    let len = all.len() / all.shape[0].max(1);
    Array {
        shape: [&[images.len()], &all.shape[1..]].concat(),
        data: all.data[images.start * len..images.end * len].to_vec(),
    }
}

/// The noise of a batch from one of its images on.
struct From<'a> {
    noise: &'a dyn Noise,
    first: usize,
}

impl Noise for From<'_> {
    fn fill(&self, image: usize, draw: usize, to: &mut [f32]) {
        self.noise.fill(self.first + image, draw, to);
    }
}
