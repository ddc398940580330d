//! Batch norms in training: `x̂ = (x − μ)/σ` with mean and variance of a channel over all pixels of the batch,
//! `y = x̂·w + b`, `dx = w/σ · (dy − mean(dy) − x̂·mean(dy·x̂))`.
//!
//! What a network keeps of them for later, the running mean and variance, is updated on the way forth.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use super::operation::{Gradient, Operation, Output};
use super::tensor::View;
use crate::TensorError;
use crate::cpu::simd::{flushed, for_each_isa};

/// Pixels per piece of parallel work.
const BAND: usize = 256;
/// Share of a new batch in the running statistics, as in torch.
const MOMENTUM: f64 = 0.1;

/// Running mean and variance of a batch norm.
#[derive(Clone, Debug)]
pub struct Running {
    pub mean: Vec<f32>,
    pub variance: Vec<f32>,
}

/// A batch norm whose scale and shift are arguments.
pub struct TrainBatchNorm {
    pub epsilon: f64,
    /// Updated by the forward pass, if there is one to update.
    pub running: Option<Arc<Mutex<Running>>>,
    /// Mean and `1/σ` of the batch, found by the forward pass.
    pub found: OnceLock<[Vec<f32>; 2]>,
}

impl TrainBatchNorm {
    pub fn new(epsilon: f64, running: Option<Arc<Mutex<Running>>>) -> Self {
        Self {
            epsilon,
            running,
            found: OnceLock::new(),
        }
    }

    fn statistics(&self, x: View<'_>) -> [Vec<f32>; 2] {
        let c = x.shape.c;
        let pixels = x.data.len() / c.max(1);
        let mean: Vec<f64> = sums(x, add).iter().map(|s| s / pixels as f64).collect();
        let centre: Vec<f32> = mean.iter().map(|&m| m as f32).collect();
        let squares = sums(x, |x, sums| add_squares(x, &centre, sums));
        // The centre is rounded: what that adds to the squares is taken off again.
        let variance: Vec<f64> = (0..c)
            .map(|i| {
                let off = mean[i] - f64::from(centre[i]);
                (squares[i] / pixels as f64 - off * off).max(0.0)
            })
            .collect();
        if let Some(running) = &self.running {
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            let unbiased = pixels as f64 / (pixels.max(2) - 1) as f64;
            let mix =
                |old: f32, new: f64| ((1.0 - MOMENTUM) * f64::from(old) + MOMENTUM * new) as f32;
            for i in 0..c {
                running.mean[i] = mix(running.mean[i], mean[i]);
                running.variance[i] = mix(running.variance[i], variance[i] * unbiased);
            }
        }
        let deviation = variance
            .iter()
            .map(|v| (1.0 / (v + self.epsilon).sqrt()) as f32);
        [centre, deviation.collect()]
    }
}

/// Sums by channel over all pixels, in an order that does not depend on threads.
fn sums(x: View<'_>, band: impl Fn(&[f32], &mut [f64]) + Sync) -> Vec<f64> {
    let c = x.shape.c.max(1);
    let parts: Vec<Vec<f64>> = x
        .data
        .par_chunks(BAND * c)
        .map(|x| {
            let mut sums = vec![0.0; c];
            flushed(|| band(x, &mut sums));
            sums
        })
        .collect();
    total(&parts, c)
}

fn total(parts: &[Vec<f64>], len: usize) -> Vec<f64> {
    let mut sums = vec![0.0; len];
    for part in parts {
        for (s, p) in sums.iter_mut().zip(part) {
            *s += p;
        }
    }
    sums
}

for_each_isa! {
    fn add(x: &[f32], sums: &mut [f64]) {
        for x in x.chunks_exact(sums.len()) {
            for (s, &x) in sums.iter_mut().zip(x) {
                *s += f64::from(x);
            }
        }
    }
}

for_each_isa! {
    fn add_squares(x: &[f32], centre: &[f32], sums: &mut [f64]) {
        for x in x.chunks_exact(sums.len()) {
            for ((s, &x), &m) in sums.iter_mut().zip(x).zip(centre) {
                let away = f64::from(x - m);
                *s += away * away;
            }
        }
    }
}

for_each_isa! {
    fn normalise(y: &mut [f32], x: &[f32], centre: &[f32], scale: &[f32], shift: &[f32]) {
        let c = centre.len();
        for (y, x) in y.chunks_exact_mut(c).zip(x.chunks_exact(c)) {
            for i in 0..c {
                y[i] = (x[i] - centre[i]) * scale[i] + shift[i];
            }
        }
    }
}

for_each_isa! {
    /// `Σ dy·x̂`, then `Σ dy`, by channel.
    fn back_sums(x: &[f32], g: &[f32], centre: &[f32], deviation: &[f32], sums: &mut [f64]) {
        let c = centre.len();
        let (products, plain) = sums.split_at_mut(c);
        for (x, g) in x.chunks_exact(c).zip(g.chunks_exact(c)) {
            for i in 0..c {
                let unit = (x[i] - centre[i]) * deviation[i];
                products[i] += f64::from(g[i] * unit);
                plain[i] += f64::from(g[i]);
            }
        }
    }
}

for_each_isa! {
    fn back(dx: &mut [f32], x: &[f32], g: &[f32], centre: &[f32], deviation: &[f32], scale: &[f32], means: &[f32]) {
        let c = centre.len();
        let (products, plain) = means.split_at(c);
        for ((dx, x), g) in dx.chunks_exact_mut(c).zip(x.chunks_exact(c)).zip(g.chunks_exact(c)) {
            for i in 0..c {
                let unit = (x[i] - centre[i]) * deviation[i];
                dx[i] = scale[i] * (g[i] - plain[i] - unit * products[i]);
            }
        }
    }
}

/// What each channel is multiplied by.
fn products(weight: &[f32], deviation: &[f32]) -> Vec<f32> {
    weight.iter().zip(deviation).map(|(w, d)| w * d).collect()
}

impl Operation<3> for TrainBatchNorm {
    const NAME: &'static str = "batch norm in training";

    fn forward(&self, [x, weight, bias]: [View<'_>; 3]) -> Output {
        let [centre, deviation] = self.found.get_or_init(|| self.statistics(x));
        let scale = products(weight.data, deviation);
        let mut y = vec![0.0; x.data.len()];
        let band = BAND * x.shape.c.max(1);
        y.par_chunks_mut(band)
            .zip(x.data.par_chunks(band))
            .for_each(|(y, x)| flushed(|| normalise(y, x, centre, &scale, bias.data)));
        Ok((x.shape, y))
    }

    fn backward(
        &self,
        [x, weight, _]: [View<'_>; 3],
        _: View<'_>,
        g: View<'_>,
        [input, ..]: [bool; 3],
    ) -> Result<[Gradient; 3], TensorError> {
        let Some([centre, deviation]) = self.found.get() else {
            return Err(TensorError::Device(
                "a batch norm ran back before forth".into(),
            ));
        };
        let c = x.shape.c.max(1);
        let (band, pixels) = (BAND * c, (x.data.len() / c) as f64);
        let parts: Vec<Vec<f64>> = x
            .data
            .par_chunks(band)
            .zip(g.data.par_chunks(band))
            .map(|(x, g)| {
                let mut sums = vec![0.0; 2 * c];
                flushed(|| back_sums(x, g, centre, deviation, &mut sums));
                sums
            })
            .collect();
        let sums = total(&parts, 2 * c);
        let dx = Gradient::when(input, || {
            let means: Vec<f32> = sums.iter().map(|s| (s / pixels) as f32).collect();
            let scale = products(weight.data, deviation);
            let mut dx = vec![0.0; x.data.len()];
            dx.par_chunks_mut(band)
                .zip(x.data.par_chunks(band).zip(g.data.par_chunks(band)))
                .for_each(|(dx, (x, g))| {
                    flushed(|| back(dx, x, g, centre, deviation, &scale, &means));
                });
            dx
        });
        let single = |v: &[f64]| v.iter().map(|&v| v as f32).collect();
        let (to_weight, to_bias) = sums.split_at(c);
        Ok([
            dx,
            Gradient::Values(single(to_weight)),
            Gradient::Values(single(to_bias)),
        ])
    }
}
