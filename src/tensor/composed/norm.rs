//! Norms, of sums and products.

use candle_core::{Result, Tensor};

use super::function;
use crate::Activation;

/// Scale and shift `[c]`, with the epsilon.
#[derive(Clone)]
pub struct Constants {
    pub weight: Tensor,
    pub bias: Tensor,
    pub epsilon: f64,
}

/// `(x − mean) / √(variance + ε)` over some axes.
fn normalised(x: &Tensor, axes: &[usize], epsilon: f64) -> Result<Tensor> {
    let count: usize = axes.iter().map(|&axis| x.dims()[axis]).product();
    // Axis by axis from the last: short sums of short sums.
    let mean = |x: &Tensor| -> Result<Tensor> {
        let mut sum = x.clone();
        for &axis in axes.iter().rev() {
            sum = sum.sum_keepdim(axis)?;
        }
        sum / count as f64
    };
    // Twice, because the first mean of values far from zero is rounded as they are.
    let near = x.broadcast_sub(&mean(x)?)?;
    let centred = near.broadcast_sub(&mean(&near)?)?;
    let deviation = (mean(&centred.sqr()?)? + epsilon)?.sqrt()?;
    centred.broadcast_div(&deviation)
}

/// Each pixel over its channels.
pub fn layer(x: &Tensor, norm: &Constants) -> Result<Tensor> {
    normalised(x, &[3], norm.epsilon)?
        .broadcast_mul(&norm.weight)?
        .broadcast_add(&norm.bias)
}

/// Groups of channels over all pixels; then the modulation, then the activation.
pub fn group(
    x: &Tensor,
    groups: usize,
    norm: &Constants,
    modulation: Option<&Tensor>,
    activation: Activation,
) -> Result<Tensor> {
    let (n, h, w, c) = x.dims4()?;
    let grouped = x.reshape((n, h * w, groups, c / groups))?;
    let y = normalised(&grouped, &[1, 3], norm.epsilon)?
        .reshape((n, h, w, c))?
        .broadcast_mul(&norm.weight)?
        .broadcast_add(&norm.bias)?;
    match modulation {
        Some(modulation) => function::modulate(&y, modulation, true, activation),
        None => function::activate(&y, activation),
    }
}
