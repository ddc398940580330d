//! From an original image to its counterfactual: noise it half way, then denoise it under guidance.

use sha2::{Digest, Sha256};

use super::error::{DiffusionError, Result};
use super::guidance::{Guided, Guider, Noisy};
use super::process::noised;
use crate::stats::random::{Draws, Stream};
use crate::tensor::Array;

/// Where the noise of a chain comes from.
pub trait Noise: Sync {
    /// Fills `to` with the noise of an image of the batch: draw 0 is that of the start, draw `k` that of the k-th step.
    fn fill(&self, image: usize, draw: usize, to: &mut [f32]);
}

/// Random noise of a seed. An image's noise depends on its key, not on its place in a batch.
pub struct Seeded {
    pub seed: u64,
    /// One per image of the batch: spread over all 64 bits, as [`Seeded::key`] makes them.
    pub keys: Vec<u64>,
}

impl Seeded {
    /// The key of a sample of an image by what the image is called: others that come or go do not change it.
    pub fn key(name: &str, sample: usize) -> u64 {
        let mut hash = Sha256::new();
        hash.update((sample as u64).to_le_bytes());
        hash.update(name.as_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        digest
            .iter()
            .take(8)
            .fold(0, |key, &b| key << 8 | u64::from(b))
    }
}

impl Noise for Seeded {
    fn fill(&self, image: usize, draw: usize, to: &mut [f32]) {
        let own = self.seed ^ self.keys[image];
        let mut draws = Draws::new(own, Stream::COUNTERFACTUAL_NOISE, draw as u64);
        to.iter_mut().for_each(|v| *v = draws.normal() as f32);
    }
}

/// Given noise `[draws, images, …]`.
pub struct Given<'a>(pub &'a Array);

impl Noise for Given<'_> {
    fn fill(&self, image: usize, draw: usize, to: &mut [f32]) {
        let at = (draw * self.0.shape[1] + image) * to.len();
        to.copy_from_slice(&self.0.data[at..at + to.len()]);
    }
}

/// Noise of all images of a batch for one draw.
pub(super) fn batch(noise: &dyn Noise, draw: usize, shape: &[usize]) -> Array {
    let mut all = Array::zeros(shape);
    let len = all.len() / shape.first().copied().unwrap_or(1).max(1);
    for (image, row) in all.data.chunks_mut(len.max(1)).enumerate() {
        noise.fill(image, draw, row);
    }
    all
}

/// What a chain ends with.
#[derive(Clone, Debug)]
pub struct Chained {
    /// The last images: they may leave the range from −1 to 1.
    pub images: Array,
    /// The last clean images that were predicted.
    pub clean: Array,
}

impl Guider<'_> {
    /// Noises originals (NCHW, −1 to 1) up to `start` steps and takes them back step by step. `watch` sees every step
    /// with its index.
    pub fn chain(
        &self,
        originals: &Array,
        targets: &[usize],
        start: usize,
        noise: &dyn Noise,
        mut watch: impl FnMut(usize, &Guided),
    ) -> Result<Chained> {
        if start == 0 || start > self.schedule.len() {
            return Err(DiffusionError::Start {
                start,
                steps: self.schedule.len(),
            });
        }
        let n = targets.len();
        let first = batch(noise, 0, &originals.shape);
        let mut images = noised(self.schedule, originals, &first, &vec![start - 1; n]);
        let mut clean = originals.clone();
        for (step, t) in (0..start).rev().enumerate() {
            let fresh = batch(noise, step + 1, &originals.shape);
            let found = self.step(Noisy {
                images: &images,
                originals,
                targets,
                indices: &vec![t; n],
                fresh: &fresh,
            })?;
            watch(t, &found);
            images = found.images;
            clean = found.clean;
        }
        Ok(Chained { images, clean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_belongs_to_the_name_the_sample_the_step_and_the_seed() {
        let drawn = |seed: u64, name: &str, sample: usize, draw: usize| {
            let noise = Seeded {
                seed,
                keys: vec![7, Seeded::key(name, sample)],
            };
            let mut to = [0.0f32; 4];
            noise.fill(1, draw, &mut to);
            to
        };
        let base = drawn(1, "a/b.png", 0, 0);
        assert_eq!(base, drawn(1, "a/b.png", 0, 0));
        for other in [
            drawn(2, "a/b.png", 0, 0),
            drawn(1, "a/c.png", 0, 0),
            drawn(1, "a/b.png", 1, 0),
            drawn(1, "a/b.png", 0, 1),
        ] {
            assert_ne!(base, other);
        }
    }
}
