//! Slopes of the activations.

use rayon::prelude::*;

use crate::Activation;
use crate::cpu::functions::{LEAK, Single, erf, exp, tanh};
use crate::cpu::simd::{flushed, for_each_isa};

/// Values per piece of parallel work.
const CHUNK: usize = 1 << 14;

/// True if the slope can be read off the result, so that the input need not be kept: the ReLUs.
pub fn shows_in_result(activation: Activation) -> bool {
    !matches!(
        activation,
        Activation::Silu | Activation::Gelu | Activation::Tanh
    )
}

/// `gradient · f′(x)` for each value. For the ReLUs `x` may also be the result. At a kink the slope is that below it,
/// as in torch.
pub fn times_slope(gradient: &[f32], x: &[f32], activation: Activation) -> Vec<f32> {
    let mut out = gradient.to_vec();
    out.par_chunks_mut(CHUNK)
        .zip(x.par_chunks(CHUNK))
        .for_each(|(g, x)| flushed(|| multiply(g, x, activation)));
    out
}

for_each_isa! {
    fn multiply(gradient: &mut [f32], x: &[f32], activation: Activation) {
        multiply_in_place(gradient, x, activation);
    }
}

/// Multiplies a gradient by the slopes at `x`; to be inlined below an instruction set.
#[inline(always)]
pub fn multiply_in_place(gradient: &mut [f32], x: &[f32], activation: Activation) {
    let pairs = gradient.iter_mut().zip(x);
    match activation {
        Activation::None => {}
        Activation::Relu => pairs.for_each(|(g, x)| *g = if *x > 0.0 { *g } else { 0.0 }),
        Activation::Relu6 => pairs.for_each(|(g, x)| {
            *g = if *x > 0.0 && *x < 6.0 { *g } else { 0.0 };
        }),
        Activation::Silu => pairs.for_each(|(g, x)| *g *= silu_slope(*x)),
        Activation::Gelu => pairs.for_each(|(g, x)| *g *= gelu_slope(*x)),
        Activation::LeakyRelu => pairs.for_each(|(g, x)| {
            *g *= if *x > 0.0 { 1.0 } else { LEAK };
        }),
        Activation::Tanh => pairs.for_each(|(g, x)| *g *= tanh_slope(*x)),
    }
}

/// `σ(x) · (1 + x · (1 − σ(x)))`.
#[inline(always)]
fn silu_slope(x: f32) -> f32 {
    let s = 1.0 / (1.0 + exp(Single(-x)).0);
    s * (1.0 + x * (1.0 - s))
}

/// `1 − tanh²(x)`.
#[inline(always)]
fn tanh_slope(x: f32) -> f32 {
    let y = tanh(Single(x)).0;
    (1.0 - y) * (1.0 + y)
}

/// `Φ(x) + x · φ(x)`.
#[inline(always)]
fn gelu_slope(x: f32) -> f32 {
    const DENSITY: f32 = 0.398_942_3;
    let whole = 0.5 * (1.0 + erf(Single(x * std::f32::consts::FRAC_1_SQRT_2)).0);
    whole + x * DENSITY * exp(Single(-0.5 * x * x)).0
}
