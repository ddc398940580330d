//! The three bilinear resizes of FID code, in the arithmetic of their originals: every value is computed by the same
//! operations in the same order on every machine, row by row.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::simd::{FlushDenormals, flushed, for_each_isa};
use super::tensor::Tensor;
use crate::resampling::{
    Filter, Neighbours, half_pixel_neighbours, tf1_neighbours, triangle_filters,
};
use crate::{Resize, Shape, TensorError, rules};

/// Rows of a band, which share what they read.
const BAND: usize = 16;

/// Resizes each image to `height × width`.
pub fn run(x: &Tensor, height: usize, width: usize, mode: Resize) -> Result<Tensor, TensorError> {
    let out = rules::resize(x.shape(), height, width)?;
    let mut data = Buffer::take(out.len());
    match mode {
        Resize::Tf1 => bilinear(x, &mut data, out, tf1_neighbours, &Tf1),
        Resize::HalfPixel => bilinear(x, &mut data, out, half_pixel_neighbours, &HalfPixel),
        Resize::Antialias => antialias(x, &mut data, out),
    }
    Ok(Tensor::new(out, data))
}

/// The arithmetic of a bilinear resize, a row at a time.
trait Rows: Sync {
    /// Values kept of a source row, for each value of an output row.
    const KEPT: usize;
    /// What output rows need of a source row.
    fn keep(&self, kept: &mut [f32], source: &[f32], xs: &[Neighbours], c: usize);
    /// An output row between two source rows.
    fn row(&self, to: &mut [f32], top: &[f32], bottom: &[f32], y: &Neighbours, x: &[f32]);
}

/// Resizes every image; a source row is read once for all rows of a band that lie beside it.
fn bilinear<R: Rows>(
    x: &Tensor,
    to: &mut [f32],
    out: Shape,
    neighbours: fn(usize, usize) -> Vec<Neighbours>,
    rows: &R,
) {
    let shape = x.shape();
    let (ys, xs) = (neighbours(shape.h, out.h), neighbours(shape.w, out.w));
    let (c, row) = (shape.c, out.w * shape.c);
    // The weights of both neighbours for each value of a row.
    let mut weights = Buffer::take(2 * row);
    let (low, high) = weights.split_at_mut(row);
    for (i, x) in xs.iter().enumerate() {
        low[i * c..(i + 1) * c].fill(x.low_weight);
        high[i * c..(i + 1) * c].fill(x.high_weight);
    }
    for (n, image) in to.chunks_exact_mut(out.image().max(1)).enumerate() {
        let from = x.image(n);
        image
            .par_chunks_mut(BAND * row)
            .zip(ys.par_chunks(BAND))
            .for_each(|(lines, ys)| {
                let _flush = FlushDenormals::on();
                let mut kept = Buffer::take(2 * R::KEPT * row);
                let (even, odd) = kept.split_at_mut(R::KEPT * row);
                // Neighbouring rows differ in their last bit.
                let (slots, mut held) = ([even, odd], [None; 2]);
                for (line, y) in lines.chunks_exact_mut(row).zip(ys) {
                    for source in [y.low, y.high] {
                        if held[source % 2] != Some(source) {
                            let values = &from[source * shape.w * c..][..shape.w * c];
                            rows.keep(slots[source % 2], values, &xs, c);
                            held[source % 2] = Some(source);
                        }
                    }
                    rows.row(line, slots[y.low % 2], slots[y.high % 2], y, &weights);
                }
            });
    }
}

/// Two lerps `a + (b − a)·t`, columns first.
struct Tf1;

impl Rows for Tf1 {
    const KEPT: usize = 1;

    fn keep(&self, kept: &mut [f32], source: &[f32], xs: &[Neighbours], c: usize) {
        for (to, x) in kept.chunks_exact_mut(c).zip(xs) {
            let (low, high) = (&source[x.low * c..][..c], &source[x.high * c..][..c]);
            for ((to, low), high) in to.iter_mut().zip(low).zip(high) {
                *to = low + (high - low) * x.high_weight;
            }
        }
    }

    fn row(&self, to: &mut [f32], top: &[f32], bottom: &[f32], y: &Neighbours, _: &[f32]) {
        lerp_rows(to, top, bottom, y.high_weight);
    }
}

for_each_isa! {
    fn lerp_rows(to: &mut [f32], top: &[f32], bottom: &[f32], t: f32) {
        for ((to, top), bottom) in to.iter_mut().zip(top).zip(bottom) {
            *to = top + (bottom - top) * t;
        }
    }
}

/// A sum over the four neighbours with fused multiply-adds, as torch's CPU kernel does.
struct HalfPixel;

impl Rows for HalfPixel {
    /// The left neighbours of all pixels, then the right ones.
    const KEPT: usize = 2;

    fn keep(&self, kept: &mut [f32], source: &[f32], xs: &[Neighbours], c: usize) {
        let (low, high) = kept.split_at_mut(xs.len() * c);
        let pixels = low.chunks_exact_mut(c).zip(high.chunks_exact_mut(c));
        for ((low, high), x) in pixels.zip(xs) {
            low.copy_from_slice(&source[x.low * c..][..c]);
            high.copy_from_slice(&source[x.high * c..][..c]);
        }
    }

    fn row(&self, to: &mut [f32], top: &[f32], bottom: &[f32], y: &Neighbours, x: &[f32]) {
        four_neighbours(to, top, bottom, y, x);
    }
}

for_each_isa! {
    fn four_neighbours(to: &mut [f32], top: &[f32], bottom: &[f32], y: &Neighbours, x: &[f32]) {
        let row = to.len();
        let (x_low, x_high) = (&x[..row], &x[row..2 * row]);
        let (top_low, top_high) = (&top[..row], &top[row..2 * row]);
        let (bottom_low, bottom_high) = (&bottom[..row], &bottom[row..2 * row]);
        for i in 0..row {
            let sum = top_high[i] * (y.low_weight * x_high[i]);
            let sum = top_low[i].mul_add(y.low_weight * x_low[i], sum);
            let sum = bottom_low[i].mul_add(y.high_weight * x_low[i], sum);
            to[i] = bottom_high[i].mul_add(y.high_weight * x_high[i], sum);
        }
    }
}

/// Separable triangle filter, columns first, with fused multiply-adds.
fn antialias(x: &Tensor, to: &mut [f32], out: Shape) {
    let shape = x.shape();
    let (ys, xs) = (
        triangle_filters(shape.h, out.h),
        triangle_filters(shape.w, out.w),
    );
    let (c, row) = (shape.c, out.w * shape.c);
    let mut wide = Buffer::take(shape.h * row);
    for (n, image) in to.chunks_exact_mut(out.image().max(1)).enumerate() {
        wide.par_chunks_mut(row)
            .zip(x.image(n).par_chunks(shape.w * c))
            .for_each(|(line, source)| {
                flushed(|| match c {
                    3 => filter_rgb(line, source, &xs),
                    _ => filter_columns(line, source, c, &xs),
                });
            });
        image
            .par_chunks_mut(row)
            .zip(&ys)
            .for_each(|(line, filter)| flushed(|| filter_rows(line, &wide, filter)));
    }
}

for_each_isa! {
    /// One row of pixels of three channels.
    fn filter_rgb(line: &mut [f32], source: &[f32], xs: &[Filter]) {
        let (pixels, source) = (line.as_chunks_mut::<3>().0, source.as_chunks::<3>().0);
        for (pixel, filter) in pixels.iter_mut().zip(xs) {
            let mut sums = [0.0f32; 3];
            let taps = source[filter.first..].iter().zip(&filter.weights);
            for (j, (values, weight)) in taps.enumerate() {
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = match j {
                        0 => value * weight,
                        _ => value.mul_add(*weight, *sum),
                    };
                }
            }
            *pixel = sums;
        }
    }
}

for_each_isa! {
    /// One row of pixels.
    fn filter_columns(line: &mut [f32], source: &[f32], c: usize, xs: &[Filter]) {
        for (pixel, filter) in line.chunks_exact_mut(c).zip(xs) {
            weigh(pixel, &source[filter.first * c..], c, &filter.weights);
        }
    }
}

for_each_isa! {
    /// One row between rows.
    fn filter_rows(line: &mut [f32], wide: &[f32], filter: &Filter) {
        let row = line.len();
        weigh(line, &wide[filter.first * row..], row, &filter.weights);
    }
}

/// `Σ weightⱼ · valuesⱼ` of rows that lie `step` apart.
#[inline(always)]
fn weigh(to: &mut [f32], values: &[f32], step: usize, weights: &[f32]) {
    let Some((first, rest)) = weights.split_first() else {
        to.fill(0.0);
        return;
    };
    for (to, value) in to.iter_mut().zip(values) {
        *to = value * first;
    }
    for (j, weight) in rest.iter().enumerate() {
        for (to, value) in to.iter_mut().zip(&values[(j + 1) * step..]) {
            *to = value.mul_add(*weight, *to);
        }
    }
}
