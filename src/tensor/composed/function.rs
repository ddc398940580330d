//! Activations, sums, affine maps over channels.

use candle_core::{Result, Tensor};

use crate::Activation;

/// `f(x)`. Comparisons are put so that NaN stays NaN and kinks have torch's slopes.
pub fn activate(x: &Tensor, activation: Activation) -> Result<Tensor> {
    match activation {
        Activation::None => Ok(x.clone()),
        Activation::Relu => relu(x),
        Activation::Relu6 => {
            let low = relu(x)?;
            low.ge(6.0)?.where_cond(&(low.ones_like()? * 6.0)?, &low)
        }
        Activation::Silu => x.silu(),
        Activation::Gelu => {
            let both = (x * std::f64::consts::FRAC_1_SQRT_2)?.erf()?;
            (x * 0.5)?.mul(&(both + 1.0)?)
        }
        Activation::LeakyRelu => x.le(0.0)?.where_cond(&(x * 0.2)?, x),
        Activation::Tanh => x.tanh(),
    }
}

fn relu(x: &Tensor) -> Result<Tensor> {
    x.le(0.0)?.where_cond(&x.zeros_like()?, x)
}

/// `x[order[c]] · scale[c] + shift[c]`.
pub fn affine(x: &Tensor, order: &Tensor, scale: &Tensor, shift: &Tensor) -> Result<Tensor> {
    x.index_select(order, 3)?
        .broadcast_mul(scale)?
        .broadcast_add(shift)
}

/// `activation(x · scale + shift)` with a modulation `[n, 1, 1, 2c]` of scales and shifts, or of `scale − 1` where scales
/// are told as differences from one.
pub fn modulate(
    x: &Tensor,
    modulation: &Tensor,
    from_one: bool,
    activation: Activation,
) -> Result<Tensor> {
    let c = x.dim(3)?;
    let scale = modulation.narrow(3, 0, c)?.contiguous()?;
    let shift = modulation.narrow(3, c, c)?.contiguous()?;
    let scale = if from_one { (scale + 1.0)? } else { scale };
    let y = x.broadcast_mul(&scale)?.broadcast_add(&shift)?;
    activate(&y, activation)
}
