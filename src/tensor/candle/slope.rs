//! Slopes of the activations.

use rayon::prelude::*;

use crate::tensor::Activation;
use crate::tensor::cpu::elementwise::erf;
use crate::tensor::cpu::simd::for_each_isa;

/// Values per piece of parallel work.
const CHUNK: usize = 1 << 14;

/// True if the slope can be read off the result, so that the input need not be kept: the ReLUs.
pub fn shows_in_result(activation: Activation) -> bool {
    !matches!(activation, Activation::Silu | Activation::Gelu)
}

/// `gradient · f′(x)` for each value. For the ReLUs `x` may also be the result. At a kink the slope is 0, as in
/// torch.
pub fn times_slope(gradient: &[f32], x: &[f32], activation: Activation) -> Vec<f32> {
    let mut out = gradient.to_vec();
    out.par_chunks_mut(CHUNK)
        .zip(x.par_chunks(CHUNK))
        .for_each(|(g, x)| multiply(g, x, activation));
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
    }
}

/// `σ(x) · (1 + x · (1 − σ(x)))`.
#[inline(always)]
fn silu_slope(x: f32) -> f32 {
    let s = 1.0 / (1.0 + exp(-x));
    s * (1.0 + x * (1.0 - s))
}

/// `Φ(x) + x · φ(x)`.
#[inline(always)]
fn gelu_slope(x: f32) -> f32 {
    const DENSITY: f32 = 0.398_942_3;
    let whole = 0.5 * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2));
    whole + x * DENSITY * exp(-0.5 * x * x)
}

/// `eˣ` to about one unit in the last place, in steps that a compiler can vectorise: `eˣ = 2ⁿ · eʳ` with
/// `|r| ≤ ln2/2`. Below -87 it is as good as zero, above 88 as good as infinite.
#[inline(always)]
#[allow(clippy::manual_clamp)] // `clamp` keeps NaN, which costs a comparison more.
pub fn exp(x: f32) -> f32 {
    const HIGH: f32 = 0.693_359_4;
    const LOW: f32 = -2.121_944_4e-4;
    // Adding and taking away 1.5 · 2²³ rounds to the nearest whole number.
    const ROUND: f32 = 12_582_912.0;
    let x = x.max(-87.0).min(88.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = x - n * HIGH - n * LOW;
    let mut p = 1.987_569_1e-4_f32;
    for k in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = p * r + k;
    }
    let mantissa = p * r * r + r + 1.0;
    // The low bits of `rounded` are n itself: an integer without a conversion.
    let power = rounded
        .to_bits()
        .wrapping_sub(ROUND.to_bits())
        .wrapping_add(127)
        << 23;
    mantissa * f32::from_bits(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_right_to_two_units_in_the_last_place() {
        for i in -8600..8800 {
            let x = i as f32 * 0.01;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            assert!(error < 2.4e-7, "exp({x}) is off by {error:e}");
        }
    }
}
