//! The three bilinear resizes of FID code, in the arithmetic of their originals.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::tensor::Tensor;
use crate::tensor::{Resize, Shape, TensorError};

/// Resizes each image to `height × width`.
pub fn run(x: &Tensor, height: usize, width: usize, mode: Resize) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    if shape.h == 0 || shape.w == 0 || height == 0 || width == 0 {
        return Err(TensorError::Shape {
            operation: "resize",
            expected: "at least one pixel".into(),
            found: format!("{}x{} to {height}x{width}", shape.h, shape.w),
        });
    }
    let out = Shape {
        h: height,
        w: width,
        ..shape
    };
    let mut data = Buffer::take(out.len());
    data.par_chunks_mut(out.image().max(1))
        .enumerate()
        .for_each(|(n, image)| match mode {
            Resize::Tf1 => lerp_tf1(x.image(n), shape, image, out),
            Resize::HalfPixel => half_pixel(x.image(n), shape, image, out),
            Resize::Antialias => antialias(x.image(n), shape, image, out),
        });
    Ok(Tensor::new(out, data))
}

/// Two neighbours and their weights for one output coordinate.
struct Neighbours {
    low: usize,
    high: usize,
    low_weight: f32,
    high_weight: f32,
}

/// Source coordinate `i · in/out` in f32.
fn tf1_neighbours(input: usize, output: usize) -> Vec<Neighbours> {
    let scale = input as f32 / output as f32;
    (0..output)
        .map(|i| {
            let at = i as f32 * scale;
            let low = (at.floor() as usize).min(input - 1);
            let fraction = at - low as f32;
            Neighbours {
                low,
                high: (low + 1).min(input - 1),
                low_weight: 1.0 - fraction,
                high_weight: fraction,
            }
        })
        .collect()
}

/// Source coordinate `(i + ½) · in/out − ½`, not below zero, in f32.
fn half_pixel_neighbours(input: usize, output: usize) -> Vec<Neighbours> {
    let scale = input as f32 / output as f32;
    (0..output)
        .map(|i| {
            let at = scale.mul_add(i as f32 + 0.5, -0.5).max(0.0);
            let low = (at as usize).min(input - 1);
            let fraction = (at - low as f32).clamp(0.0, 1.0);
            Neighbours {
                low,
                high: (low + 1).min(input - 1),
                low_weight: 1.0 - fraction,
                high_weight: fraction,
            }
        })
        .collect()
}

/// Two lerps `a + (b − a)·t`, columns first.
fn lerp_tf1(from: &[f32], shape: Shape, to: &mut [f32], out: Shape) {
    let (ys, xs) = (
        tf1_neighbours(shape.h, out.h),
        tf1_neighbours(shape.w, out.w),
    );
    let c = shape.c;
    for (row, y) in to.chunks_exact_mut(out.w * c).zip(&ys) {
        for (pixel, x) in row.chunks_exact_mut(c).zip(&xs) {
            for (channel, value) in pixel.iter_mut().enumerate() {
                let at = |y: usize, x: usize| from[(y * shape.w + x) * c + channel];
                let line = |y: usize| at(y, x.low) + (at(y, x.high) - at(y, x.low)) * x.high_weight;
                let (top, bottom) = (line(y.low), line(y.high));
                *value = top + (bottom - top) * y.high_weight;
            }
        }
    }
}

/// A sum over the four neighbours with fused multiply-adds, as torch's CPU kernel does.
fn half_pixel(from: &[f32], shape: Shape, to: &mut [f32], out: Shape) {
    let (ys, xs) = (
        half_pixel_neighbours(shape.h, out.h),
        half_pixel_neighbours(shape.w, out.w),
    );
    let c = shape.c;
    for (row, y) in to.chunks_exact_mut(out.w * c).zip(&ys) {
        for (pixel, x) in row.chunks_exact_mut(c).zip(&xs) {
            let weights = [
                y.low_weight * x.low_weight,
                y.low_weight * x.high_weight,
                y.high_weight * x.low_weight,
                y.high_weight * x.high_weight,
            ];
            for (channel, value) in pixel.iter_mut().enumerate() {
                let at = |y: usize, x: usize| from[(y * shape.w + x) * c + channel];
                let sum = at(y.low, x.high) * weights[1];
                let sum = at(y.low, x.low).mul_add(weights[0], sum);
                let sum = at(y.high, x.low).mul_add(weights[2], sum);
                *value = at(y.high, x.high).mul_add(weights[3], sum);
            }
        }
    }
}

/// First source index and normalised triangle weights of one output coordinate.
struct Filter {
    first: usize,
    weights: Vec<f32>,
}

fn triangle_filters(input: usize, output: usize) -> Vec<Filter> {
    let scale = input as f32 / output as f32;
    let support = scale.max(1.0);
    let inverse = if scale >= 1.0 { 1.0 / scale } else { 1.0 };
    (0..output)
        .map(|i| {
            let centre = scale * (i as f32 + 0.5);
            let first = ((centre - support + 0.5) as i64).max(0) as usize;
            let end = ((centre + support + 0.5) as usize).min(input);
            let mut weights: Vec<f32> = (first..end)
                .map(|j| (1.0 - ((j as f32 - centre + 0.5) * inverse).abs()).max(0.0))
                .collect();
            let total: f32 = weights.iter().sum();
            if total != 0.0 {
                weights.iter_mut().for_each(|w| *w /= total);
            }
            Filter { first, weights }
        })
        .collect()
}

/// Separable triangle filter, columns first, with fused multiply-adds.
fn antialias(from: &[f32], shape: Shape, to: &mut [f32], out: Shape) {
    let (ys, xs) = (
        triangle_filters(shape.h, out.h),
        triangle_filters(shape.w, out.w),
    );
    let c = shape.c;
    let row = out.w * c;
    let mut wide = vec![0.0f32; shape.h * row];
    for (line, source) in wide
        .chunks_exact_mut(row)
        .zip(from.chunks_exact(shape.w * c))
    {
        for (pixel, filter) in line.chunks_exact_mut(c).zip(&xs) {
            for (channel, value) in pixel.iter_mut().enumerate() {
                *value = filtered(&filter.weights, |j| {
                    source[(filter.first + j) * c + channel]
                });
            }
        }
    }
    for (line, filter) in to.chunks_exact_mut(row).zip(&ys) {
        for (at, value) in line.iter_mut().enumerate() {
            *value = filtered(&filter.weights, |j| wide[(filter.first + j) * row + at]);
        }
    }
}

#[inline(always)]
fn filtered(weights: &[f32], sample: impl Fn(usize) -> f32) -> f32 {
    let Some((first, rest)) = weights.split_first() else {
        return 0.0;
    };
    let mut sum = sample(0) * first;
    for (j, weight) in rest.iter().enumerate() {
        sum = sample(j + 1).mul_add(*weight, sum);
    }
    sum
}
