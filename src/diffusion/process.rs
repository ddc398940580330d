//! One step of a diffusion, forth and back, over arrays `[n, channels, height, width]`.

use rayon::prelude::*;

use super::error::{DiffusionError, Result};
use super::schedule::Schedule;
use crate::tensor::Array;

/// Clean images with the noise of one step each.
pub fn noised(schedule: &Schedule, clean: &Array, noise: &Array, indices: &[usize]) -> Array {
    let mut noisy = clean.clone();
    let len = each(clean, indices);
    let rows = noisy
        .data
        .chunks_mut(len)
        .zip(noise.data.chunks(len))
        .zip(indices);
    for ((row, noise), &t) in rows {
        let signal = schedule.alphas[t].sqrt() as f32;
        let spread = (1.0 - schedule.alphas[t]).sqrt() as f32;
        for (x, n) in row.iter_mut().zip(noise) {
            *x = signal * *x + spread * n;
        }
    }
    noisy
}

/// Values per image.
fn each(array: &Array, indices: &[usize]) -> usize {
    (array.len() / indices.len().max(1)).max(1)
}

/// What a network's output says about the images one step earlier.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    pub mean: Array,
    pub variance: Array,
    pub log_variance: Array,
    /// The clean images it predicts.
    pub clean: Array,
}

/// Reads a network's output for noisy images at one step each; `clip` keeps predicted clean images from −1 to 1.
///
/// Without learnt variances the variance is [`Schedule::fixed_large_log_variance`].
pub fn moments(
    schedule: &Schedule,
    noisy: &Array,
    output: &Array,
    indices: &[usize],
    clip: bool,
) -> Result<Moments> {
    let len = each(noisy, indices);
    let learnt = learns_variance(noisy, output)?;
    let empty = Array::zeros(noisy.shape.clone());
    let mut found = Moments {
        mean: empty.clone(),
        variance: empty.clone(),
        log_variance: empty.clone(),
        clean: empty,
    };
    let stride = output.len() / indices.len().max(1);
    let rows = found
        .mean
        .data
        .par_chunks_mut(len)
        .zip(found.variance.data.par_chunks_mut(len));
    let rows = rows.zip(found.log_variance.data.par_chunks_mut(len));
    let rows = rows
        .zip(found.clean.data.par_chunks_mut(len))
        .zip(indices)
        .enumerate();
    rows.for_each(|(i, ((((mean, variance), log_variance), clean), &t))| {
        let (x, out) = (
            &noisy.data[i * len..][..len],
            &output.data[i * stride..][..stride],
        );
        let (of_noisy, of_noise) = clean_weights(schedule, t);
        let [of_clean, of_x] = [0, 1].map(|k| schedule.posterior_mean[k][t] as f32);
        let [low, high] = log_bounds(schedule, t).map(|v| v as f32);
        let fixed = schedule.fixed_large_log_variance(t) as f32;
        for k in 0..len {
            let predicted = of_noisy * x[k] - of_noise * out[k];
            clean[k] = if clip {
                predicted.clamp(-1.0, 1.0)
            } else {
                predicted
            };
            mean[k] = of_clean * clean[k] + of_x * x[k];
            log_variance[k] = if learnt {
                let share = (out[len + k] + 1.0) / 2.0;
                share * high + (1.0 - share) * low
            } else {
                fixed
            };
            variance[k] = log_variance[k].exp();
        }
    });
    Ok(found)
}

/// The mean of the images one step earlier, given the clean and the noisy ones.
pub fn posterior_mean(
    schedule: &Schedule,
    clean: &Array,
    noisy: &Array,
    indices: &[usize],
) -> Array {
    let mut mean = clean.clone();
    let len = each(clean, indices);
    let rows = mean
        .data
        .chunks_mut(len)
        .zip(noisy.data.chunks(len))
        .zip(indices);
    for ((row, noisy), &t) in rows {
        let [of_clean, of_noisy] = [0, 1].map(|k| schedule.posterior_mean[k][t] as f32);
        for (x, n) in row.iter_mut().zip(noisy) {
            *x = of_clean * *x + of_noisy * n;
        }
    }
    mean
}

/// The noise that turns clean images into the given noisy ones.
pub fn noise_between(
    schedule: &Schedule,
    noisy: &Array,
    clean: &Array,
    indices: &[usize],
) -> Array {
    let mut noise = noisy.clone();
    let len = each(noisy, indices);
    let rows = noise
        .data
        .chunks_mut(len)
        .zip(clean.data.chunks(len))
        .zip(indices);
    for ((row, clean), &t) in rows {
        let (of_noisy, of_noise) = clean_weights(schedule, t);
        for (x, c) in row.iter_mut().zip(clean) {
            *x = (of_noisy * *x - c) / of_noise;
        }
    }
    noise
}

/// The clean images that noise of one step each hides.
pub fn without_noise(
    schedule: &Schedule,
    noisy: &Array,
    noise: &Array,
    indices: &[usize],
) -> Array {
    let mut clean = noisy.clone();
    let len = each(noisy, indices);
    let rows = clean
        .data
        .chunks_mut(len)
        .zip(noise.data.chunks(len))
        .zip(indices);
    for ((row, noise), &t) in rows {
        let (of_noisy, of_noise) = clean_weights(schedule, t);
        for (x, n) in row.iter_mut().zip(noise) {
            *x = of_noisy * *x - of_noise * n;
        }
    }
    clean
}

/// A step of DDIM (Song et al. 2021): towards the predicted clean images along the predicted noise, with `eta` times
/// the fresh noise of the ancestral chain (0: none).
pub fn ddim(
    schedule: &Schedule,
    noisy: &Array,
    clean: &Array,
    fresh: &Array,
    indices: &[usize],
    eta: f64,
) -> Array {
    let mut next = noise_between(schedule, noisy, clean, indices);
    let len = each(noisy, indices);
    let rows = next
        .data
        .chunks_mut(len)
        .zip(clean.data.chunks(len))
        .zip(fresh.data.chunks(len))
        .zip(indices);
    for (((row, clean), fresh), &t) in rows {
        // In single precision, as the public code: 1 − before loses digits in the last steps.
        let [now, before] = [schedule.alphas[t], schedule.earlier_alphas[t]].map(|v| v as f32);
        let spread =
            eta as f32 * ((1.0 - before) / (1.0 - now)).sqrt() * (1.0 - now / before).sqrt();
        let of_clean = before.sqrt();
        let of_noise = (1.0 - before - spread * spread).max(0.0).sqrt();
        let of_fresh = if t > 0 { spread } else { 0.0 };
        for ((x, c), f) in row.iter_mut().zip(clean).zip(fresh) {
            *x = of_clean * c + of_noise * *x + of_fresh * f;
        }
    }
    next
}

/// A draw of the ancestral chain: mean plus noise of the given variances; none at the last step.
pub fn drawn(mean: &Array, log_variance: &Array, fresh: &Array, indices: &[usize]) -> Array {
    let mut next = mean.clone();
    let len = each(mean, indices);
    let rows = next.data.chunks_mut(len).zip(indices).enumerate();
    for (i, (row, &t)) in rows {
        if t > 0 {
            let at = i * len;
            for (k, x) in row.iter_mut().enumerate() {
                *x += (0.5 * log_variance.data[at + k]).exp() * fresh.data[at + k];
            }
        }
    }
    next
}

/// Weights of noisy image and noise in the clean image.
pub(super) fn clean_weights(schedule: &Schedule, t: usize) -> (f32, f32) {
    let alpha = schedule.alphas[t];
    (
        (1.0 / alpha).sqrt() as f32,
        (1.0 / alpha - 1.0).sqrt() as f32,
    )
}

/// Bounds of the logarithm of the variance.
fn log_bounds(schedule: &Schedule, t: usize) -> [f64; 2] {
    [schedule.posterior_log_variance[t], schedule.betas[t].ln()]
}

fn learns_variance(noisy: &Array, output: &Array) -> Result<bool> {
    let channels = |a: &Array| a.shape.get(1).copied().unwrap_or(0);
    match (channels(noisy), channels(output)) {
        (c, found) if found == c => Ok(false),
        (c, found) if found == 2 * c => Ok(true),
        (channels, found) => Err(DiffusionError::Channels { channels, found }),
    }
}

/// The term of the variational bound of each image's step, in bits per value and as a mean over all values, with its
/// derivative by the network's variance channels; the mean counts as given (Nichol & Dhariwal 2021).
pub fn variational_bound(
    schedule: &Schedule,
    clean: &Array,
    noisy: &Array,
    output: &Array,
    indices: &[usize],
) -> Result<(f64, Array)> {
    let found = moments(schedule, noisy, output, indices, false)?;
    if !learns_variance(noisy, output)? {
        let channels = clean.shape.get(1).copied().unwrap_or(0);
        return Err(DiffusionError::Channels {
            channels,
            found: channels,
        });
    }
    let len = each(clean, indices);
    let weight = 1.0 / (clean.len() as f64 * std::f64::consts::LN_2);
    let mut slope = Array::zeros(clean.shape.clone());
    let sums: Vec<f64> = slope
        .data
        .par_chunks_mut(len)
        .zip(indices)
        .enumerate()
        .map(|(i, (slope, &t))| {
            let at = i * len;
            let [low, high] = log_bounds(schedule, t);
            let [of_clean, of_x] = [0, 1].map(|k| schedule.posterior_mean[k][t]);
            let mut sum = 0.0;
            for (k, slope) in slope.iter_mut().enumerate() {
                let value = |a: &Array| f64::from(a.data[at + k]);
                let (mean, log_variance) = (value(&found.mean), value(&found.log_variance));
                let (term, by_log) = if t == 0 {
                    discretised(value(clean), mean, log_variance)
                } else {
                    let true_mean = of_clean * value(clean) + of_x * value(noisy);
                    divergence(true_mean - mean, low, log_variance)
                };
                sum += term;
                *slope = (by_log * (high - low) / 2.0 * weight) as f32;
            }
            sum
        })
        .collect();
    Ok((sums.iter().sum::<f64>() * weight, slope))
}

/// Kullback–Leibler divergence of two normal distributions whose means are `off` apart, and its derivative by the
/// second's logarithmic variance.
fn divergence(off: f64, log_variance: f64, second: f64) -> (f64, f64) {
    let (ratio, distance) = ((log_variance - second).exp(), off * off * (-second).exp());
    let value = 0.5 * (-1.0 + second - log_variance + ratio + distance);
    (value, 0.5 * (1.0 - ratio - distance))
}

/// Minus the logarithm of the probability that a normal distribution gives to the 1/255 around a pixel from −1 to 1,
/// and its derivative by the logarithmic variance. The distribution function is the usual approximation by a tanh.
fn discretised(pixel: f64, mean: f64, log_variance: f64) -> (f64, f64) {
    const LEAST: f64 = 1e-12;
    let inverse = (-0.5 * log_variance).exp();
    let scale = (2.0 / std::f64::consts::PI).sqrt();
    // The shares below and above an edge, which keep their digits where they are small, and the derivative of the first
    // by the logarithmic variance.
    let at = |edge: f64| {
        let z = inverse * (edge - mean);
        let twice = 2.0 * scale * (z + 0.044715 * z * z * z);
        let [below, above] = [-twice, twice].map(|u| 1.0 / (1.0 + u.exp()));
        let slope = 2.0 * below * above * scale * (1.0 + 3.0 * 0.044715 * z * z);
        (below, above, slope * (-0.5 * z))
    };
    let (high, low) = (at(pixel + 1.0 / 255.0), at(pixel - 1.0 / 255.0));
    let (share, slope) = if pixel < -0.999 {
        (high.0, high.2)
    } else if pixel > 0.999 {
        (low.1, -low.2)
    } else if pixel > mean {
        (low.1 - high.1, high.2 - low.2)
    } else {
        (high.0 - low.0, high.2 - low.2)
    };
    if share <= LEAST {
        return (-LEAST.ln(), 0.0);
    }
    (-share.ln(), -slope / share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_terms() {
        let step = 1e-6;
        for log_variance in [-6.0, -2.5, 0.5] {
            for (pixel, mean) in [(-1.0, -0.8), (1.0, 0.7), (0.2, 0.21), (0.2, 0.05)] {
                let by = |f: &dyn Fn(f64) -> (f64, f64)| {
                    let numeric =
                        (f(log_variance + step).0 - f(log_variance - step).0) / (2.0 * step);
                    let exact = f(log_variance).1;
                    assert!(
                        (numeric - exact).abs() < 1e-5 * exact.abs().max(1.0),
                        "{exact} {numeric}"
                    );
                };
                by(&|v| discretised(pixel, mean, v));
                by(&|v| divergence(pixel - mean, -3.0, v));
            }
        }
    }
}
