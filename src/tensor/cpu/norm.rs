//! Layer and group norms: statistics in f64, vectorised over channels.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::functions::activated;
use super::simd::{FlushDenormals, Lanes, for_each_isa, for_each_lanes};
use super::tensor::Tensor;
use crate::{Activation, Norm, TensorError, rules};

/// Values of a piece of work.
const PIECE: usize = 1 << 14;
/// Partial sums of a pixel: two AVX-512 registers.
const SUMS: usize = 16;

/// Whole pixels of about one piece of work, in values.
fn piece(channels: usize) -> usize {
    channels.max(1) * (PIECE / channels.max(1)).max(1)
}

/// Normalises each pixel over its channels: `(x − μ)/√(σ² + ε) · weight + bias`.
pub fn layer(x: &Tensor, norm: &Norm) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    rules::norm("layer norm", shape, norm, 1)?;
    let mut data = Buffer::take(shape.len());
    let piece = piece(shape.c);
    data.par_chunks_mut(piece)
        .zip(x.data().par_chunks(piece))
        .for_each(|(to, from)| {
            let _flush = FlushDenormals::on();
            layer_pixels(to, from, norm);
        });
    Ok(Tensor::new(shape, data))
}

for_each_isa! {
    fn layer_pixels(to: &mut [f32], from: &[f32], norm: &Norm) {
        let c = norm.weight.len();
        let (weight, bias) = (&norm.weight[..c], &norm.bias[..c]);
        for (to, from) in to.chunks_exact_mut(c).zip(from.chunks_exact(c)) {
            let mean = sum(from, |v| v) / c as f64;
            let variance = sum(from, |v| (v - mean) * (v - mean)) / c as f64;
            let scale = (1.0 / (variance + f64::from(norm.epsilon)).sqrt()) as f32;
            let mean = mean as f32;
            let to = &mut to[..c];
            for i in 0..c {
                to[i] = (from[i] - mean) * scale * weight[i] + bias[i];
            }
        }
    }
}

/// `Σ f(x)` in f64, in one fixed order.
#[inline(always)]
fn sum(x: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0f64; SUMS];
    let (chunks, rest) = x.as_chunks::<SUMS>();
    for chunk in chunks {
        for (s, &v) in sums.iter_mut().zip(chunk) {
            *s += f(f64::from(v));
        }
    }
    for (s, &v) in sums.iter_mut().zip(rest) {
        *s += f(f64::from(v));
    }
    sums.iter().sum()
}

/// Normalises each group of channels over all pixels of an image; modulation and activation follow.
pub fn group(
    x: &Tensor,
    groups: usize,
    norm: &Norm,
    modulation: Option<&Tensor>,
    activation: Activation,
) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    rules::norm("group norm", shape, norm, groups)?;
    if let Some(m) = modulation {
        rules::modulation("modulation of a group norm", shape, m.shape())?;
    }
    let mut data = Buffer::take(shape.len());
    if shape.is_empty() {
        return Ok(Tensor::new(shape, data));
    }
    let (c, piece) = (shape.c, piece(shape.c));
    let pieces = shape.image().div_ceil(piece);

    // For each piece of each image the sums of each channel and of its squares; two f32 hold one f64.
    let mut partial = Buffer::take(shape.n * pieces * 4 * c);
    let sums: &mut [f64] = bytemuck::cast_slice_mut(&mut partial);
    sums.par_chunks_mut(2 * c)
        .enumerate()
        .for_each(|(i, sums)| {
            let _flush = FlushDenormals::on();
            let image = x.image(i / pieces);
            let part = image.chunks(piece).nth(i % pieces).unwrap_or_default();
            channel_sums(sums, part, &image[..c]);
        });

    // For each image the scales, then the shifts.
    let mut maps = Buffer::take(shape.n * 2 * c);
    let images = maps.chunks_exact_mut(2 * c);
    for (n, (map, sums)) in images
        .zip(sums.chunks_exact_mut(pieces * 2 * c))
        .enumerate()
    {
        let (total, others) = sums.split_at_mut(2 * c);
        for other in others.chunks_exact(2 * c) {
            for (t, o) in total.iter_mut().zip(other) {
                *t += o;
            }
        }
        let pixels = shape.h * shape.w;
        let statistics = Channels::new(total, &x.image(n)[..c], pixels);
        let (scale, shift) = map.split_at_mut(c);
        affine_map(&statistics, groups, norm, scale, shift);
        if let Some(m) = modulation.map(|m| m.image(n)) {
            for i in 0..c {
                scale[i] *= 1.0 + m[i];
                shift[i] = shift[i] * (1.0 + m[i]) + m[c + i];
            }
        }
    }

    apply_maps(&mut data, x, &maps, activation);
    Ok(Tensor::new(shape, data))
}

/// `activation(x · scale + shift)` with the scales, then the shifts, of each image in `modulation`.
pub fn modulate(
    x: &Tensor,
    modulation: &Tensor,
    activation: Activation,
) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    rules::modulation("modulation", shape, modulation.shape())?;
    let mut data = Buffer::take(shape.len());
    if !shape.is_empty() {
        apply_maps(&mut data, x, modulation.data(), activation);
    }
    Ok(Tensor::new(shape, data))
}

/// Scales, shifts and activates every image by its own map.
fn apply_maps(data: &mut [f32], x: &Tensor, maps: &[f32], activation: Activation) {
    let (c, piece) = (x.shape().c, piece(x.shape().c));
    let images = data.chunks_exact_mut(x.shape().image());
    for (n, (to, map)) in images.zip(maps.chunks_exact(2 * c)).enumerate() {
        to.par_chunks_mut(piece)
            .zip(x.image(n).par_chunks(piece))
            .for_each(|(to, from)| {
                let _flush = FlushDenormals::on();
                let (scale, shift) = map.split_at(c);
                apply(to, from, scale, shift, activation);
            });
    }
}

for_each_isa! {
    /// Sums of each channel and of its squares, counted from the image's first pixel: a large offset costs no digits.
    fn channel_sums(sums: &mut [f64], pixels: &[f32], origin: &[f32]) {
        let c = origin.len();
        sums.fill(0.0);
        let (sums, squares) = sums.split_at_mut(c);
        let squares = &mut squares[..c];
        for pixel in pixels.chunks_exact(c) {
            for i in 0..c {
                let v = f64::from(pixel[i]) - f64::from(origin[i]);
                sums[i] += v;
                squares[i] += v * v;
            }
        }
    }
}

/// Sums over the pixels of an image, channel by channel.
struct Channels<'a> {
    sums: &'a [f64],
    squares: &'a [f64],
    origin: &'a [f32],
    pixels: f64,
}

impl<'a> Channels<'a> {
    fn new(sums: &'a [f64], origin: &'a [f32], pixels: usize) -> Self {
        let (sums, squares) = sums.split_at(origin.len());
        Self {
            sums,
            squares,
            origin,
            pixels: pixels as f64,
        }
    }

    fn mean(&self, channel: usize) -> f64 {
        f64::from(self.origin[channel]) + self.sums[channel] / self.pixels
    }

    /// Mean and variance over a group of channels.
    fn statistics(&self, channels: std::ops::Range<usize>) -> (f64, f64) {
        let count = channels.len() as f64;
        let mean = channels.clone().map(|c| self.mean(c)).sum::<f64>() / count;
        let scatter: f64 = channels
            .map(|c| {
                let within = self.squares[c] - self.sums[c] * self.sums[c] / self.pixels;
                // Rounding may take it below zero; a NaN stays.
                let within = if within < 0.0 { 0.0 } else { within };
                within + self.pixels * (self.mean(c) - mean).powi(2)
            })
            .sum();
        (mean, scatter / (count * self.pixels))
    }
}

/// The norm of an image as `x · scale + shift` for each channel.
fn affine_map(
    channels: &Channels<'_>,
    groups: usize,
    norm: &Norm,
    scale: &mut [f32],
    shift: &mut [f32],
) {
    let per_group = scale.len() / groups;
    for g in 0..groups {
        let group = g * per_group..(g + 1) * per_group;
        let (mean, variance) = channels.statistics(group.clone());
        let inverse = (1.0 / (variance + f64::from(norm.epsilon)).sqrt()) as f32;
        for c in group {
            scale[c] = inverse * norm.weight[c];
            shift[c] = (f64::from(norm.bias[c]) - mean * f64::from(scale[c])) as f32;
        }
    }
}

for_each_lanes! {
    fn apply(to: &mut [f32], from: &[f32], scale: &[f32], shift: &[f32], activation: Activation) => apply_kernel
}

#[inline(always)]
fn apply_kernel<V: Lanes>(
    to: &mut [f32],
    from: &[f32],
    scale: &[f32],
    shift: &[f32],
    activation: Activation,
) {
    match activation {
        Activation::Silu => map_pixels::<V>(to, from, scale, shift, Activation::Silu),
        Activation::None => map_pixels::<V>(to, from, scale, shift, Activation::None),
        other => map_pixels::<V>(to, from, scale, shift, other),
    }
}

/// `activation(x · scale + shift)` for whole pixels.
#[inline(always)]
fn map_pixels<V: Lanes>(
    to: &mut [f32],
    from: &[f32],
    scale: &[f32],
    shift: &[f32],
    activation: Activation,
) {
    let c = scale.len();
    assert_eq!(shift.len(), c, "a shift for each scale");
    let whole = c - c % V::COUNT;
    for (to, from) in to.chunks_exact_mut(c).zip(from.chunks_exact(c)) {
        for at in (0..whole).step_by(V::COUNT) {
            // SAFETY: all four have `c` values, and `at` stays `COUNT` below that.
            unsafe {
                let v = V::load(shift.as_ptr().add(at)).plus_product(
                    V::load(from.as_ptr().add(at)),
                    V::load(scale.as_ptr().add(at)),
                );
                activated(v, activation).store(to.as_mut_ptr().add(at));
            }
        }
        if whole < c {
            let mut spare = [0.0f32; 16];
            for (i, spare) in spare[..c - whole].iter_mut().enumerate() {
                let at = whole + i;
                *spare = from[at] * scale[at] + shift[at];
            }
            // SAFETY: no register has more values than `spare`.
            unsafe { activated(V::load(spare.as_ptr()), activation).store(spare.as_mut_ptr()) };
            to[whole..].copy_from_slice(&spare[..c - whole]);
        }
    }
}
