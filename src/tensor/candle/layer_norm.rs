//! Layer norms, forth and back: `x̂ = (x − μ)/σ` over the channels of a pixel, `y = x̂·w + b`,
//! `dx = (dy·w − mean(dy·w) − x̂·mean(dy·w·x̂))/σ`.

use rayon::prelude::*;

use super::operation::{Gradient, Operation, Output};
use super::tensor::View;
use crate::cpu::simd::{flushed, for_each_isa};
use crate::{Backend, Norm, TensorError, cpu::Cpu};

/// Pixels per piece of parallel work.
const BAND: usize = 128;

/// A layer norm with constant scale and shift.
pub struct LayerNorm(pub Norm);

impl Operation<1> for LayerNorm {
    const NAME: &'static str = "layer norm";

    fn forward(&self, [x]: [View<'_>; 1]) -> Output {
        forward(x, &self.0)
    }

    fn backward(
        &self,
        [x]: [View<'_>; 1],
        _: View<'_>,
        g: View<'_>,
        _: [bool; 1],
    ) -> Result<[Gradient; 1], TensorError> {
        let (dx, _) = backward(x, &self.0.weight, self.0.epsilon, g);
        Ok([Gradient::Values(dx)])
    }
}

/// A layer norm in training: scale and shift are arguments.
pub struct TrainLayerNorm {
    pub epsilon: f32,
}

impl Operation<3> for TrainLayerNorm {
    const NAME: &'static str = "layer norm in training";

    fn forward(&self, [x, weight, bias]: [View<'_>; 3]) -> Output {
        let norm = Norm {
            weight: weight.data.to_vec(),
            bias: bias.data.to_vec(),
            epsilon: self.epsilon,
            ..Default::default()
        };
        forward(x, &norm)
    }

    fn backward(
        &self,
        [x, weight, _]: [View<'_>; 3],
        _: View<'_>,
        g: View<'_>,
        _: [bool; 3],
    ) -> Result<[Gradient; 3], TensorError> {
        let (dx, sums) = backward(x, weight.data, self.epsilon, g);
        let (to_weight, to_bias) = sums.split_at(x.shape.c);
        let single = |v: &[f64]| v.iter().map(|&v| v as f32).collect();
        Ok([
            Gradient::Values(dx),
            Gradient::Values(single(to_weight)),
            Gradient::Values(single(to_bias)),
        ])
    }
}

fn forward(x: View<'_>, norm: &Norm) -> Output {
    let y = Cpu.layer_norm(&x.for_engine(), norm)?;
    Ok((x.shape, y.into_data()))
}

/// The gradient of the input, and the sums `Σ dy·x̂`, `Σ dy` by channel.
fn backward(x: View<'_>, weight: &[f32], epsilon: f32, g: View<'_>) -> (Vec<f32>, Vec<f64>) {
    let c = x.shape.c.max(1);
    let mut dx = vec![0.0; x.data.len()];
    let parts: Vec<Vec<f64>> = dx
        .par_chunks_mut(BAND * c)
        .zip(x.data.par_chunks(BAND * c).zip(g.data.par_chunks(BAND * c)))
        .map(|(dx, (x, g))| {
            let mut sums = vec![0.0f64; 2 * c];
            flushed(|| pixels(dx, x, g, weight, epsilon, &mut sums));
            sums
        })
        .collect();
    let mut sums = vec![0.0f64; 2 * c];
    for part in &parts {
        for (s, p) in sums.iter_mut().zip(part) {
            *s += p;
        }
    }
    (dx, sums)
}

/// The sum of `value(i)` in eight strands, which a compiler can keep in one register.
#[inline(always)]
fn strands(c: usize, value: impl Fn(usize) -> f32) -> f32 {
    let mut sums = [0.0f32; 8];
    let whole = c - c % 8;
    let mut i = 0;
    while i < whole {
        for (l, s) in sums.iter_mut().enumerate() {
            *s += value(i + l);
        }
        i += 8;
    }
    (whole..c).map(value).sum::<f32>() + sums.iter().sum::<f32>()
}

for_each_isa! {
    fn pixels(dx: &mut [f32], x: &[f32], g: &[f32], weight: &[f32], epsilon: f32, sums: &mut [f64]) {
        let c = weight.len();
        let (to_weight, to_bias) = sums.split_at_mut(c);
        let rows = dx.chunks_exact_mut(c).zip(x.chunks_exact(c)).zip(g.chunks_exact(c));
        for ((dx, x), g) in rows {
            // Differences from the first value, so that a large common offset costs no digits.
            let away = strands(c, |i| x[i] - x[0]) / c as f32;
            let variance = strands(c, |i| {
                let d = x[i] - x[0] - away;
                d * d
            }) / c as f32;
            let inverse = 1.0 / (variance + epsilon).sqrt();
            let unit = |i: usize| (x[i] - x[0] - away) * inverse;
            let of_gradient = strands(c, |i| g[i] * weight[i]) / c as f32;
            let of_product = strands(c, |i| g[i] * weight[i] * unit(i)) / c as f32;
            for i in 0..c {
                let unit = unit(i);
                dx[i] = (g[i] * weight[i] - of_gradient - unit * of_product) * inverse;
                to_weight[i] += f64::from(g[i] * unit);
                to_bias[i] += f64::from(g[i]);
            }
        }
    }
}
