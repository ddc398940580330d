//! The gradient of a convolution's weights: `dW[o, i, ky, kx] = Σ g[p, o] · x[p·s + (ky, kx), i]`, one matrix product
//! for each tap of the kernel.
//!
//! Input and gradient are laid out on one grid with a border, so that the pixels below a tap are one run of memory for
//! a whole batch: rows of the grid are as long as those of the bordered input, and the gradient is zero where a
//! window would stick out. A stride `s` splits the input into `s × s` such grids, one for each phase of the taps.

use rayon::prelude::*;

use super::matmul::{Matrix, product};
use super::outer;
use super::tensor::View;
use crate::cpu::simd::{FlushDenormals, flushed, for_each_isa};
use crate::{Conv, Padding, Shape};

/// Outputs per piece of parallel work.
const BLOCK: usize = 64;

/// `dW` in OIHW.
pub fn weight_gradient(spec: &Conv, x: View<'_>, g: View<'_>) -> Vec<f32> {
    let [kh, kw] = spec.kernel;
    let whole = spec.padding == Padding::default() && [kh, kw] == [x.shape.h, x.shape.w];
    if spec.groups == 1 && whole {
        // One window as large as the image: a linear layer over flattened images.
        let flat = View {
            shape: Shape::new(x.shape.n, 1, 1, x.shape.image()),
            data: x.data,
        };
        let linear = Conv::linear(flat.shape.c, spec.outputs);
        return taps_last(&taps(&linear, flat, g), spec.outputs, kh * kw, spec.inputs);
    }
    let i_group = spec.inputs / spec.groups;
    if spec.groups == spec.inputs && spec.groups == spec.outputs {
        return taps_last(&depthwise(spec, x, g), 1, kh * kw, spec.outputs);
    }
    let by_tap = taps(spec, x, g);
    let mut weight = vec![0.0; by_tap.len()];
    for (tap, matrix) in by_tap.chunks_exact(spec.outputs * i_group).enumerate() {
        for (i, value) in matrix.iter().enumerate() {
            weight[i * kh * kw + tap] = *value;
        }
    }
    weight
}

/// `[rows][taps][columns]` as `[rows][columns][taps]`.
fn taps_last(values: &[f32], rows: usize, taps: usize, columns: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    for row in values.chunks_exact((taps * columns).max(1)).take(rows) {
        for column in 0..columns {
            out.extend((0..taps).map(|tap| row[tap * columns + column]));
        }
    }
    out
}

/// Input and gradient on their common grid.
struct Grids {
    /// Columns of the grid and pixels in all of it.
    width: usize,
    pixels: usize,
    gradient: Vec<f32>,
    /// One grid for each phase of the taps.
    phases: Vec<Vec<f32>>,
    /// Phases along a row.
    across: usize,
}

impl Grids {
    fn new(spec: &Conv, x: View<'_>, g: View<'_>) -> Self {
        let [kh, kw] = spec.kernel;
        let s = spec.stride;
        let [h, w] = [g.shape.h + (kh - 1) / s, g.shape.w + (kw - 1) / s];
        let across = s.min(kw);
        let phases = (0..s.min(kh) * across)
            .into_par_iter()
            .map(|phase| {
                let grid = Shape::new(x.shape.n, h, w, x.shape.c);
                phase_of(spec, x, [phase / across, phase % across], grid)
            })
            .collect();
        Self {
            width: w,
            pixels: x.shape.n * h * w,
            gradient: spread(g, Shape::new(x.shape.n, h, w, g.shape.c)),
            phases,
            across,
        }
    }

    /// The input below a tap, and the number of pixels of the gradient that it meets.
    fn below(&self, spec: &Conv, tap: usize) -> (&[f32], usize) {
        let (ky, kx) = (tap / spec.kernel[1], tap % spec.kernel[1]);
        let s = spec.stride;
        let offset = (ky / s * self.width + kx / s).min(self.pixels);
        let phase = &self.phases[ky % s * self.across + kx % s];
        (&phase[offset * spec.inputs..], self.pixels - offset)
    }
}

/// `[tap][o][i]`.
fn taps(spec: &Conv, x: View<'_>, g: View<'_>) -> Vec<f32> {
    let grids = Grids::new(spec, x, g);
    let (i_group, o_group) = (spec.inputs / spec.groups, spec.outputs / spec.groups);
    let blocks = o_group.div_ceil(BLOCK);
    let tasks = spec.kernel[0] * spec.kernel[1] * spec.groups * blocks;
    let pieces: Vec<Vec<f32>> = (0..tasks)
        .into_par_iter()
        .map(|task| {
            let _flush = FlushDenormals::on();
            let (tap, group) = (task / (spec.groups * blocks), task / blocks % spec.groups);
            let first = task % blocks * BLOCK;
            let outputs = BLOCK.min(o_group - first);
            let (input, pixels) = grids.below(spec, tap);
            let mut out = vec![0.0; outputs * i_group];
            if pixels > 0 {
                let gradient = &grids.gradient[group * o_group + first..];
                let rows = Matrix::strided(gradient, pixels, outputs, spec.outputs);
                let columns =
                    Matrix::strided(&input[group * i_group..], pixels, i_group, spec.inputs);
                if i_group.is_multiple_of(outer::COLUMNS) {
                    outer::outer(&mut out, rows, columns);
                } else {
                    product(&mut out, i_group, false, rows.transposed(), columns, 1.0);
                }
            }
            out
        })
        .collect();
    pieces.concat()
}

/// `[tap][channel]`.
fn depthwise(spec: &Conv, x: View<'_>, g: View<'_>) -> Vec<f32> {
    let grids = Grids::new(spec, x, g);
    let pieces: Vec<Vec<f32>> = (0..spec.kernel[0] * spec.kernel[1])
        .into_par_iter()
        .map(|tap| {
            flushed(|| channel_products(&grids.gradient, grids.below(spec, tap).0, spec.inputs))
        })
        .collect();
    pieces.concat()
}

/// The gradient on the grid, zero beyond its own sides.
fn spread(g: View<'_>, grid: Shape) -> Vec<f32> {
    let mut out = vec![0.0; grid.len()];
    let row = g.shape.w * g.shape.c;
    if row * g.shape.h == 0 {
        return out;
    }
    let images = out.par_chunks_exact_mut(grid.image());
    images
        .zip(g.data.par_chunks_exact(row * g.shape.h))
        .for_each(|(out, g)| {
            for (line, out) in g
                .chunks_exact(row)
                .zip(out.chunks_exact_mut(grid.w * grid.c))
            {
                out[..row].copy_from_slice(line);
            }
        });
    out
}

/// Every s-th row and column of the bordered input from `phase` on.
fn phase_of(spec: &Conv, x: View<'_>, phase: [usize; 2], grid: Shape) -> Vec<f32> {
    let mut out = vec![0.0; grid.len()];
    let c = x.shape.c;
    // The place in the image of a place on the grid.
    let inside = |at: usize, phase: usize, before: usize, size: usize| {
        (at * spec.stride + phase)
            .checked_sub(before)
            .filter(|&i| i < size)
    };
    let images = out.par_chunks_exact_mut(grid.image().max(1)).enumerate();
    images.for_each(|(n, out)| {
        for gy in 0..grid.h {
            let Some(y) = inside(gy, phase[0], spec.padding.top, x.shape.h) else {
                continue;
            };
            if spec.stride == 1 {
                let left = spec.padding.left.min(grid.w);
                let run = x.shape.w.min(grid.w - left) * c;
                let from = (n * x.shape.h + y) * x.shape.w * c;
                let to = (gy * grid.w + left) * c;
                out[to..to + run].copy_from_slice(&x.data[from..from + run]);
                continue;
            }
            for gx in 0..grid.w {
                let Some(column) = inside(gx, phase[1], spec.padding.left, x.shape.w) else {
                    continue;
                };
                let from = ((n * x.shape.h + y) * x.shape.w + column) * c;
                let to = (gy * grid.w + gx) * c;
                out[to..to + c].copy_from_slice(&x.data[from..from + c]);
            }
        }
    });
    out
}

for_each_isa! {
    /// `Σ_p a[p, c] · b[p, c]` for each channel.
    fn channel_products(a: &[f32], b: &[f32], c: usize) -> Vec<f32> {
        let mut sums = vec![0.0f32; c];
        for (a, b) in a.chunks_exact(c).zip(b.chunks_exact(c)) {
            for ((s, a), b) in sums.iter_mut().zip(a).zip(b) {
                *s += a * b;
            }
        }
        sums
    }
}
