//! What a denoising UNet learns: the noise, and by the variational bound the variance (Nichol & Dhariwal 2021).
//!
//! Steps of a batch are spread evenly over the schedule (Kingma et al. 2021), which makes the loss less noisy. The squared
//! error of a step weighs min(SNR, γ) / SNR with SNR = α / (1 − α) (Hang et al. 2023): almost clean images, whose noise is
//! hard to predict and says little about shapes, count less.

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
        let last = schedule.len().saturating_sub(1);
        let spread = schedule.len() as f64 / n.max(1) as f64;
        let indices = (0..n)
            .map(|i| (((i as f64 + draws.uniform()) * spread) as usize).min(last))
            .collect();
        let mut noise = Array::zeros(shape);
        noise
            .data
            .iter_mut()
            .for_each(|v| *v = draws.normal() as f32);
        Self { indices, noise }
    }
}

/// Weight of the squared error of a step; `cap` is γ, and infinite for equal weights.
pub fn weight(schedule: &Schedule, step: usize, cap: f64) -> f64 {
    let alpha = schedule.alphas[step];
    let ratio = alpha / (1.0 - alpha).max(f64::MIN_POSITIVE);
    ratio.min(cap) / ratio.max(f64::MIN_POSITIVE)
}

/// Weighted mean square error of the noise plus the variational bound of a thousandth of all steps, of images from −1
/// to 1.
pub fn loss(
    training: &Training,
    net: &Unet<Training>,
    schedule: &Schedule,
    clean: &Array,
    draw: &Draw,
    cap: f64,
) -> Result<Tensor> {
    let noisy = noised(schedule, clean, &draw.noise, &draw.indices);
    let output = predict(training, net, schedule, &noisy, draw)?;
    let values = training.download(&output)?;
    let (bound, slope) = variational_bound(schedule, clean, &noisy, &values, &draw.indices)?;
    let share = schedule.len() as f64 / 1000.0;
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
    let weights: Vec<f32> = draw
        .indices
        .iter()
        .map(|&t| weight(schedule, t, cap) as f32)
        .collect();
    let weights = Tensor::from_vec(weights, (draw.indices.len(), 1, 1, 1), &Device::Cpu)?;
    let square = (noise - last(&draw.noise)?)?.sqr()?;
    let square = square.broadcast_mul(&weights)?.mean_all()?;
    // A line with the bound's slope through its value.
    let line = (variance * last(&slope)?)?.sum_all()?;
    let rest = bound - f64::from(line.to_scalar::<f32>()?);
    let bound = ((line + rest)? * share)?;
    Ok((square + bound)?)
}

/// What a network says of noisy images at the steps of a draw.
fn predict<B: Backend>(
    backend: &B,
    net: &Unet<B>,
    schedule: &Schedule,
    noisy: &Array,
    draw: &Draw,
) -> Result<B::Tensor> {
    let told = draw.indices.iter().map(|&t| schedule.steps[t] as f32);
    let told: Vec<f32> = told.collect();
    Ok(net.predict(backend, &backend.upload(noisy)?, &told, None)?)
}

/// Mean square error of the noise that a finished network predicts, all steps alike.
pub fn error<B: Backend>(
    backend: &B,
    net: &Unet<B>,
    schedule: &Schedule,
    clean: &Array,
    draw: &Draw,
) -> Result<f64> {
    let noisy = noised(schedule, clean, &draw.noise, &draw.indices);
    let output = backend.download(&predict(backend, net, schedule, &noisy, draw)?)?;
    let (n, len) = (draw.indices.len(), clean.len() / draw.indices.len().max(1));
    let stride = output.len() / n.max(1);
    let squares = (0..n).flat_map(|i| {
        let predicted = &output.data[i * stride..][..len];
        let noise = &draw.noise.data[i * len..][..len];
        predicted
            .iter()
            .zip(noise)
            .map(|(p, e)| f64::from(p - e).powi(2))
    });
    Ok(squares.sum::<f64>() / clean.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diffusion::Betas;

    #[test]
    fn steps_of_a_batch_lie_evenly_and_nearly_clean_images_weigh_less() {
        let schedule = Schedule::new(Betas::Cosine, 1000).unwrap();
        let draw = Draw::new(&schedule, &[20, 1, 1, 1], 3, 4);
        for (i, &t) in draw.indices.iter().enumerate() {
            assert!((50 * i..50 * (i + 1)).contains(&t), "{i}: {t}");
        }
        assert_ne!(
            draw.indices,
            Draw::new(&schedule, &[20, 1, 1, 1], 3, 5).indices
        );
        // α of the cosine schedule is about cos²(π/2 · t/1000): the signal to noise ratio is 1 in the middle.
        assert_eq!(weight(&schedule, 500, 5.0), 1.0);
        assert!((weight(&schedule, 499, 0.5) - 0.5).abs() < 0.02);
        assert!(weight(&schedule, 10, 5.0) < 0.02);
        assert_eq!(weight(&schedule, 10, f64::INFINITY), 1.0);
    }
}
