//! Depthwise convolution: one filter per channel, a few pixels of a register of channels at a time.

use std::ops::Range;

use rayon::prelude::*;

use super::buffer::Buffer;
use super::conv::Output;
use super::simd::{FlushDenormals, Lanes, for_each_lanes};
use crate::{Conv, Shape};

/// Neighbouring pixels computed together.
const PIXELS: usize = 6;

/// True for one filter per channel.
pub fn applies(spec: &Conv) -> bool {
    spec.groups > 1 && spec.groups == spec.inputs && spec.inputs == spec.outputs
}

/// `[c][ky][kx]` → `[ky][kx][c]`.
pub fn pack(spec: &Conv, weight: &[f32]) -> Buffer {
    let (c, taps) = (spec.outputs, spec.kernel[0] * spec.kernel[1]);
    let mut packed = Buffer::lasting(weight.len());
    for channel in 0..c {
        for tap in 0..taps {
            packed[tap * c + channel] = weight[channel * taps + tap];
        }
    }
    packed
}

/// Convolves `x` into `output`.
pub fn run(
    spec: &Conv,
    x: &[f32],
    shape: Shape,
    out: Shape,
    weights: &[f32],
    bias: &[f32],
    output: &Output<'_>,
) {
    let taps = spec.kernel[0] * spec.kernel[1];
    assert!(weights.len() == taps * out.c && bias.len() == out.c && out.c == shape.c);
    let job = Job {
        spec,
        shape,
        out,
        weights,
        bias,
    };
    (0..out.n * out.h).into_par_iter().for_each(|row| {
        let _flush = FlushDenormals::on();
        let (n, y) = (row / out.h, row % out.h);
        let image = &x[n * shape.image()..(n + 1) * shape.image()];
        line(&job, image, y, row * out.w, output);
    });
}

struct Job<'a> {
    spec: &'a Conv,
    shape: Shape,
    out: Shape,
    weights: &'a [f32],
    bias: &'a [f32],
}

for_each_lanes! {
    fn line(job: &Job<'_>, image: &[f32], y: usize, first_pixel: usize, output: &Output<'_>) => line_kernel
}

/// One row of output pixels.
#[inline(always)]
fn line_kernel<V: Lanes>(
    job: &Job<'_>,
    image: &[f32],
    y: usize,
    first_pixel: usize,
    output: &Output<'_>,
) {
    let Job {
        spec, shape, out, ..
    } = *job;
    let (stride, p) = (spec.stride, spec.padding);
    let rows = within(y * stride, p.top, spec.kernel[0], shape.h);
    // Pixels whose windows lie inside the image from left to right.
    let inner = p.left.div_ceil(stride)
        ..out.w.min(
            (shape.w + p.left)
                .checked_sub(spec.kernel[1])
                .map_or(0, |last| last / stride + 1),
        );
    let mut x = 0;
    while x < out.w {
        let pixels = if inner.contains(&x) {
            PIXELS.min(inner.end - x)
        } else {
            1
        };
        let columns = within(x * stride, p.left, spec.kernel[1], shape.w);
        let window = Window {
            rows: rows.clone(),
            columns,
            y: y * stride,
            x: x * stride,
        };
        match pixels {
            6 => window_kernel::<V, 6>(job, image, &window, first_pixel + x, output),
            5 => window_kernel::<V, 5>(job, image, &window, first_pixel + x, output),
            4 => window_kernel::<V, 4>(job, image, &window, first_pixel + x, output),
            3 => window_kernel::<V, 3>(job, image, &window, first_pixel + x, output),
            2 => window_kernel::<V, 2>(job, image, &window, first_pixel + x, output),
            _ => window_kernel::<V, 1>(job, image, &window, first_pixel + x, output),
        }
        x += pixels;
    }
}

/// The taps of a window that fall inside the image.
fn within(start: usize, before: usize, kernel: usize, size: usize) -> Range<usize> {
    let first = before.saturating_sub(start).min(kernel);
    let end = kernel.min((size + before).saturating_sub(start));
    first..end.max(first)
}

struct Window {
    rows: Range<usize>,
    columns: Range<usize>,
    /// Place of the first pixel's window in the bordered image.
    y: usize,
    x: usize,
}

#[inline(always)]
fn window_kernel<V: Lanes, const P: usize>(
    job: &Job<'_>,
    image: &[f32],
    window: &Window,
    pixel: usize,
    output: &Output<'_>,
) {
    let Job { spec, shape, .. } = *job;
    let c = shape.c;
    let at = |ky: usize, kx: usize| {
        let (y, x) = (
            window.y + ky - spec.padding.top,
            window.x + kx - spec.padding.left,
        );
        (y * shape.w + x) * c
    };
    let step = spec.stride * c;
    if let (Some(ky), Some(kx)) = (window.rows.clone().last(), window.columns.clone().last()) {
        assert!(at(ky, kx) + (P - 1) * step + c <= image.len());
    }
    let two = 2 * V::COUNT;
    let mut done = 0;
    while done < c {
        // The last registers overlap the ones before them; too few channels for two registers go one by one.
        let first = if c >= two { done.min(c - two) } else { done };
        // SAFETY: all windows end inside the image (checked above); weights and bias have `c` values per tap; this
        // call alone writes these pixels.
        unsafe {
            let place = output.place(spec, pixel, first, if c >= two { two } else { 1 });
            if c >= two {
                let bias = job.bias.as_ptr().add(first);
                let mut acc = [[V::load(bias), V::load(bias.add(V::COUNT))]; P];
                for ky in window.rows.clone() {
                    for kx in window.columns.clone() {
                        let tap = (ky * spec.kernel[1] + kx) * c + first;
                        let w = job.weights.as_ptr().add(tap);
                        let (w0, w1) = (V::load(w), V::load(w.add(V::COUNT)));
                        let x = image.as_ptr().add(at(ky, kx) + first);
                        for (p, acc) in acc.iter_mut().enumerate() {
                            let x = x.add(p * step);
                            acc[0] = acc[0].plus_product(V::load(x), w0);
                            acc[1] = acc[1].plus_product(V::load(x.add(V::COUNT)), w1);
                        }
                    }
                }
                for (p, acc) in acc.iter().enumerate() {
                    place.write(p, *acc);
                }
                done = first + two;
            } else {
                for p in 0..P {
                    let mut sum = job.bias[first];
                    for ky in window.rows.clone() {
                        for kx in window.columns.clone() {
                            sum += image[at(ky, kx) + p * step + first]
                                * job.weights[(ky * spec.kernel[1] + kx) * c + first];
                        }
                    }
                    place.write(p, [V::splat(sum); 2]);
                }
                done += 1;
            }
        }
    }
}
