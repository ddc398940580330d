//! Activations, sums, per-channel affine maps.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::simd::for_each_isa;
use super::tensor::Tensor;
use crate::tensor::{Activation, Shape, TensorError};

/// Applies an activation to each value.
#[inline(always)]
pub fn activate_in_place(values: &mut [f32], activation: Activation) {
    match activation {
        Activation::None => {}
        // Written so that a NaN stays a NaN and a broken network does not look healthy.
        Activation::Relu => values
            .iter_mut()
            .for_each(|v| *v = if *v < 0.0 { 0.0 } else { *v }),
        Activation::Relu6 => values.iter_mut().for_each(|v| *v = v.clamp(0.0, 6.0)),
        Activation::Silu => values.iter_mut().for_each(|v| *v /= 1.0 + (-*v).exp()),
        Activation::Gelu => values.iter_mut().for_each(|v| *v = gelu(*v)),
    }
}

/// `x · Φ(x) = x/2 · (1 + erf(x/√2))`.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function to 4·10⁻⁷: the usual rational minimax approximation `x·P(x²)/Q(x²)`, and ±1 beyond |x| = 3.8,
/// where it differs from that by less.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let whole = x.abs() > 3.8;
    let sign = 1f32.copysign(x);
    let x = x.clamp(-4.0, 4.0);
    let s = x * x;
    let mut p = -2.726_142_3e-10_f32;
    for k in [
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506_4e-5,
        -7.349_906_3e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ] {
        p = p * s + k;
    }
    let mut q = -1.456_607_2e-5_f32;
    for k in [
        -2.133_740_6e-4,
        -1.682_827e-3,
        -7.373_329e-3,
        -1.426_473_9e-2,
    ] {
        q = q * s + k;
    }
    if whole { sign } else { x * p / q }
}

for_each_isa! {
    fn activate_slice(values: &mut [f32], activation: Activation) {
        activate_in_place(values, activation);
    }
}

/// Applies an activation to each value of a tensor.
pub fn activate(x: &Tensor, activation: Activation) -> Tensor {
    let mut data = Buffer::from(x.data());
    data.par_chunks_mut(1 << 14)
        .for_each(|chunk| activate_slice(chunk, activation));
    Tensor::new(x.shape(), data)
}

/// `a + b`, with `b` repeated over pixels (`h = w = 1`) or images (`n = 1`).
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor, TensorError> {
    let (sa, sb) = (a.shape(), b.shape());
    let same_pixels = (sa.h, sa.w) == (sb.h, sb.w);
    let over_pixels = (sb.h, sb.w) == (1, 1);
    if sa.c != sb.c || !(sb.n == sa.n || sb.n == 1) || !(same_pixels || over_pixels) {
        return Err(TensorError::Shape {
            operation: "add",
            expected: format!("{sa:?} or one that repeats to it"),
            found: format!("{sb:?}"),
        });
    }
    let mut data = Buffer::from(a.data());
    if sa.image() > 0 {
        data.par_chunks_mut(sa.image())
            .enumerate()
            .for_each(|(n, image)| {
                let other = b.image(if sb.n == 1 { 0 } else { n });
                for chunk in image.chunks_mut(other.len()) {
                    for (v, o) in chunk.iter_mut().zip(other) {
                        *v += o;
                    }
                }
            });
    }
    Ok(Tensor::new(sa, data))
}

/// `x[order[c]] · scale[c] + shift[c]`.
pub fn affine(
    x: &Tensor,
    order: &[usize],
    scale: &[f32],
    shift: &[f32],
) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    let c = order.len();
    if scale.len() != c || shift.len() != c || order.iter().any(|&i| i >= shape.c) {
        return Err(TensorError::Shape {
            operation: "affine",
            expected: format!("scale, shift and order for {} channels", shape.c),
            found: format!("{} / {} / {:?}", scale.len(), shift.len(), order),
        });
    }
    let out = Shape { c, ..shape };
    let mut data = Buffer::take(out.len());
    let pixels = x.data().chunks_exact(shape.c.max(1));
    for (to, from) in data.chunks_exact_mut(c.max(1)).zip(pixels) {
        for i in 0..c {
            to[i] = from[order[i]] * scale[i] + shift[i];
        }
    }
    Ok(Tensor::new(out, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_agrees_with_known_values() {
        // Values of the error function from standard tables.
        for (x, expected) in [
            (0.0, 0.0),
            (0.1, 0.112_462_92),
            (0.5, 0.520_499_9),
            (1.0, 0.842_700_8),
            (2.0, 0.995_322_3),
            (3.5, 0.999_999_3),
        ] {
            assert!((erf(x) - expected).abs() < 2e-7, "erf({x}) = {}", erf(x));
            assert!((erf(-x) + expected).abs() < 2e-7);
        }
    }
}
