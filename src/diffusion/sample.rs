//! Images from noise.

use rayon::prelude::*;

use super::error::Result;
use super::process::{drawn, moments};
use super::schedule::Schedule;
use crate::nets::Unet;
use crate::stats::random::{Draws, Stream};
use crate::tensor::{Array, Backend};

/// What to sample.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    pub count: usize,
    pub channels: usize,
    pub size: usize,
    pub seed: u64,
    /// Images through the network at once.
    pub batch: usize,
}

/// Samples images by the ancestral chain over all steps of a schedule. An image depends on the seed and its index, not
/// on the batch it is in. `progress` hears of steps done and to do.
pub fn sample<B: Backend>(
    backend: &B,
    net: &Unet<B>,
    schedule: &Schedule,
    what: Sampling,
    mut progress: impl FnMut(usize, usize),
) -> Result<Array> {
    let len = what.channels * what.size * what.size;
    let shape = |n: usize| vec![n, what.channels, what.size, what.size];
    let mut all = Array::zeros(shape(what.count));
    let noise = |x: &mut [f32], image: usize, step: usize| {
        let at = (image as u64) << 20 | step as u64;
        let mut draws = Draws::new(what.seed, Stream::DIFFUSION_NOISE, at);
        x.iter_mut().for_each(|v| *v = draws.normal() as f32);
    };
    let batch = what.batch.max(1);
    let total = what.count.div_ceil(batch) * schedule.len();
    for (part, images) in all.data.chunks_mut(batch * len).enumerate() {
        let n = images.len() / len;
        let mut x = Array::zeros(shape(n));
        let index = |k: usize| part * batch + k;
        let rows = |x: &mut Array, step: usize| {
            let rows = x.data.par_chunks_mut(len).enumerate();
            rows.for_each(|(k, row)| noise(row, index(k), step));
        };
        rows(&mut x, schedule.len());
        let mut fresh = x.clone();
        for t in (0..schedule.len()).rev() {
            let told = vec![schedule.steps[t] as f32; n];
            let output = net.predict(backend, &backend.upload(&x)?, &told, None)?;
            let output = backend.download(&output)?;
            let found = moments(schedule, &x, &output, &vec![t; n], true)?;
            rows(&mut fresh, t);
            x = drawn(&found.mean, &found.log_variance, &fresh, &vec![t; n]);
            progress(part * schedule.len() + schedule.len() - t, total);
        }
        images.copy_from_slice(&x.data);
    }
    Ok(all)
}
