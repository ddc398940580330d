//! What a denoising UNet learns: the noise, and by the variational bound the variance (Nichol & Dhariwal 2021).

use candle_core::{Device, Tensor};

use super::error::Result;
use crate::diffusion::{Schedule, noised, variational_bound};
use crate::nets::Unet;
use crate::stats::random::{Draws, Stream};
use crate::tensor::candle::Training;
use crate::tensor::{Array, Backend};

/// Steps and noise of one batch, drawn from the seed and the number of the batch.
pub struct Draw {
    pub indices: Vec<usize>,
    pub noise: Array,
}

impl Draw {
    pub fn new(schedule: &Schedule, shape: &[usize], seed: u64, batch: u64) -> Self {
        let mut draws = Draws::new(seed, Stream::DIFFUSION_TRAINING, batch);
        let n = shape.first().copied().unwrap_or(0);
        let indices = (0..n)
            .map(|_| draws.index_below(schedule.len()).unwrap_or(0))
            .collect();
        let mut noise = Array::zeros(shape);
        noise
            .data
            .iter_mut()
            .for_each(|v| *v = draws.normal() as f32);
        Self { indices, noise }
    }
}

/// Mean square error of the noise plus the variational bound of a thousandth of all steps, of images from −1 to 1.
pub fn loss(
    training: &Training,
    net: &Unet<Training>,
    schedule: &Schedule,
    clean: &Array,
    draw: &Draw,
) -> Result<Tensor> {
    let noisy = noised(schedule, clean, &draw.noise, &draw.indices);
    let told: Vec<f32> = draw
        .indices
        .iter()
        .map(|&t| schedule.steps[t] as f32)
        .collect();
    let output = net.predict(training, &training.upload(&noisy)?, &told, None)?;
    let values = training.download(&output)?;
    let (bound, slope) = variational_bound(schedule, clean, &noisy, &values, &draw.indices)?;
    let weight = schedule.len() as f64 / 1000.0;
    // The device keeps channels last.
    let output = output.candle();
    let channels = clean.shape[1];
    let last = |array: &Array| -> Result<Tensor> {
        let turned = array
            .permuted(&[0, 2, 3, 1])
            .unwrap_or_else(|| array.clone());
        Ok(Tensor::from_vec(turned.data, turned.shape, &Device::Cpu)?)
    };
    let noise = output.narrow(3, 0, channels)?.contiguous()?;
    let variance = output.narrow(3, channels, channels)?.contiguous()?;
    let square = (noise - last(&draw.noise)?)?.sqr()?.mean_all()?;
    // A line with the bound's slope through its value.
    let line = (variance * last(&slope)?)?.sum_all()?;
    let rest = bound - f64::from(line.to_scalar::<f32>()?);
    let bound = ((line + rest)? * weight)?;
    Ok((square + bound)?)
}
