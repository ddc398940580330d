//! Activations, sums, per-channel affine maps: one pass each, in pieces of a size that stays in the first cache.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::functions::activated;
use super::simd::{FlushDenormals, Lanes, flushed, for_each_isa, for_each_lanes};
use super::tensor::Tensor;
use crate::{Activation, TensorError, rules};

/// Values of a piece of work.
const PIECE: usize = 1 << 13;

for_each_lanes! {
    fn activate_piece(to: &mut [f32], from: &[f32], activation: Activation) => activate_kernel
}

#[inline(always)]
fn activate_kernel<V: Lanes>(to: &mut [f32], from: &[f32], activation: Activation) {
    match activation {
        Activation::None => to.copy_from_slice(from),
        Activation::Relu => each::<V>(to, from, Activation::Relu),
        Activation::Relu6 => each::<V>(to, from, Activation::Relu6),
        Activation::Silu => each::<V>(to, from, Activation::Silu),
        Activation::Gelu => each::<V>(to, from, Activation::Gelu),
        Activation::LeakyRelu => each::<V>(to, from, Activation::LeakyRelu),
        Activation::Tanh => each::<V>(to, from, Activation::Tanh),
    }
}

/// The activation of each value, register by register; the last values go through a register of their own.
#[inline(always)]
fn each<V: Lanes>(to: &mut [f32], from: &[f32], activation: Activation) {
    let n = V::COUNT;
    let (mut to, mut from) = (to.chunks_exact_mut(n), from.chunks_exact(n));
    for (to, from) in (&mut to).zip(&mut from) {
        // SAFETY: both chunks have `COUNT` values.
        unsafe { activated(V::load(from.as_ptr()), activation).store(to.as_mut_ptr()) };
    }
    let (to, from) = (to.into_remainder(), from.remainder());
    if !to.is_empty() {
        let mut spare = [0.0f32; 16];
        spare[..from.len()].copy_from_slice(from);
        // SAFETY: no register has more values than `spare`.
        unsafe { activated(V::load(spare.as_ptr()), activation).store(spare.as_mut_ptr()) };
        to.copy_from_slice(&spare[..to.len()]);
    }
}

/// Applies an activation to each value of a tensor.
pub fn activate(x: &Tensor, activation: Activation) -> Tensor {
    let mut data = Buffer::take(x.data().len());
    data.par_chunks_mut(PIECE)
        .zip(x.data().par_chunks(PIECE))
        .for_each(|(to, from)| {
            let _flush = FlushDenormals::on();
            activate_piece(to, from, activation);
        });
    Tensor::new(x.shape(), data)
}

/// `a + b`, with `b` repeated over pixels (`h = w = 1`) or images (`n = 1`).
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor, TensorError> {
    let (sa, sb) = (a.shape(), b.shape());
    let same_pixels = (sa.h, sa.w) == (sb.h, sb.w);
    rules::add(sa, sb)?;
    let mut data = Buffer::take(sa.len());
    // Whole pixels, so that a piece begins where what is added begins again.
    let piece = sa.c * (PIECE / sa.c.max(1)).max(1);
    let run = if sa == sb { sa.len() } else { sa.image() }.max(1);
    let runs = data.chunks_exact_mut(run).zip(a.data().chunks_exact(run));
    for (n, (to, from)) in runs.enumerate() {
        let other = if sa == sb || sb.n == 1 {
            b.data()
        } else {
            b.image(n)
        };
        to.par_chunks_mut(piece)
            .zip(from.par_chunks(piece))
            .enumerate()
            .for_each(|(i, (to, from))| {
                let _flush = FlushDenormals::on();
                let other = if same_pixels {
                    &other[i * piece..][..to.len()]
                } else {
                    other
                };
                add_piece(to, from, other);
            });
    }
    Ok(Tensor::new(sa, data))
}

for_each_isa! {
    fn add_piece(to: &mut [f32], from: &[f32], other: &[f32]) {
        let parts = to.chunks_mut(other.len()).zip(from.chunks(other.len()));
        for (to, from) in parts {
            for ((to, from), other) in to.iter_mut().zip(from).zip(other) {
                *to = from + other;
            }
        }
    }
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
    let out = rules::affine(shape, order, scale, shift)?;
    let mut data = Buffer::take(out.len());
    let pixels = (PIECE / c.max(1)).max(1);
    data.par_chunks_mut(pixels * c.max(1))
        .zip(x.data().par_chunks(pixels * shape.c.max(1)))
        .for_each(|(to, from)| {
            flushed(|| match shape.c {
                3 if c == 3 => affine_rgb(to, from, order, scale, shift),
                _ => affine_piece(to, from, shape.c, order, scale, shift),
            });
        });
    Ok(Tensor::new(out, data))
}

/// `table[x]`, with values cut to 0..255.
pub fn look_up(x: &Tensor, table: &[f32; 256]) -> Tensor {
    let mut data = Buffer::take(x.shape().len());
    data.par_chunks_mut(PIECE)
        .zip(x.data().par_chunks(PIECE))
        .for_each(|(to, from)| {
            for (to, from) in to.iter_mut().zip(from) {
                *to = table[*from as u8 as usize];
            }
        });
    Tensor::new(x.shape(), data)
}

for_each_isa! {
    /// Three channels, with everything but the pixels in registers.
    fn affine_rgb(to: &mut [f32], from: &[f32], order: &[usize], scale: &[f32], shift: &[f32]) {
        let channels: [_; 3] = std::array::from_fn(|i| (order[i].min(2), scale[i], shift[i]));
        for (to, from) in to.as_chunks_mut::<3>().0.iter_mut().zip(from.as_chunks::<3>().0) {
            for (to, (order, scale, shift)) in to.iter_mut().zip(channels) {
                *to = from[order] * scale + shift;
            }
        }
    }
}

fn affine_piece(
    to: &mut [f32],
    from: &[f32],
    channels: usize,
    order: &[usize],
    scale: &[f32],
    shift: &[f32],
) {
    let pixels = from.chunks_exact(channels);
    for (to, from) in to.chunks_exact_mut(order.len()).zip(pixels) {
        let channels = order.iter().zip(scale).zip(shift);
        for (to, ((&order, scale), shift)) in to.iter_mut().zip(channels) {
            *to = from[order] * scale + shift;
        }
    }
}
