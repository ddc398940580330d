//! Winograd's minimal filtering with tiles of 6×6 inputs: F(4×4, 3×3), 36 products for 16 outputs instead of 144, and
//! F(2×2, 5×5), 36 for 4 outputs instead of 100. Small images with many channels have tiles of 4×4 inputs: F(2×2, 3×3),
//! 16 products for 4 outputs instead of 36, with weights that are 1.8 times as large and not four times.
//!
//! Tiles (of all images of the batch, one after another) are transformed, multiplied with transformed weights as 36 (or
//! 16) matrix products on the micro-kernel of `tile`, and transformed back to outputs. Weights are transformed in f64 and
//! rounded once. The interpolation points are 0, ±1/√2, ±√2 and ∞: with the usual 0, ±1, ±2, ∞ errors are twice as
//! large, and the largest ones four times. Small tiles have 0, ±1 and ∞.

use std::mem::MaybeUninit;
use std::ops::Range;

use rayon::prelude::*;

use super::buffer::Buffer;
use super::conv::{Dense, Output};
use super::simd::{FlushDenormals, Lanes, for_each_isa, for_each_lanes};
use super::tile::{self, Ahead, End, Kernels, Run, Start, Tile};
use crate::{Conv, Shape};

/// Inputs of a tile along one side: of the usual tiles, and of those for small images.
const REACH: usize = 6;
const SMALL_REACH: usize = 4;
/// Tiles transformed together; of the small ones more.
const TILES: usize = 48;
/// Output channels whose products are held at once.
const CHANNELS: usize = 64;
/// Input channels multiplied in one go.
const CHUNK: usize = 256;
/// Distance that keeps the matrices of all points out of each other's cache sets.
const SKEW: usize = 16;

/// The interpolation points, besides 0 and ∞, are `±A` and `±B`.
const A: f64 = std::f64::consts::FRAC_1_SQRT_2;
const B: f64 = std::f64::consts::SQRT_2;

/// The transform of a line of weights: powers of each point over its distances from all others.
fn weight_matrix(size: Size, taps: usize) -> Vec<[f64; REACH]> {
    let points: &[f64] = match size {
        Size::Usual => &[0.0, A, -A, B, -B],
        Size::Small => &[0.0, 1.0, -1.0],
    };
    let line = |k: usize| {
        let mut line = [0.0; REACH];
        for (i, &p) in points.iter().enumerate() {
            let others = points.iter().enumerate().filter(|&(j, _)| j != i);
            let distances: f64 = others.map(|(_, q)| p - q).product();
            line[i] = p.powi(k as i32) / distances;
        }
        line[points.len()] = if k + 1 == taps { 1.0 } else { 0.0 };
        line
    };
    (0..taps).map(line).collect()
}

/// The size of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// 6×6 inputs.
    Usual,
    /// 4×4 inputs.
    Small,
}

impl Size {
    /// Inputs of a tile along one side.
    fn reach(self) -> usize {
        match self {
            Size::Usual => REACH,
            Size::Small => SMALL_REACH,
        }
    }

    /// Outputs of a tile along one side.
    fn side(self, spec: &Conv) -> usize {
        self.reach() + 1 - spec.kernel[0]
    }

    /// Tiles of an image.
    fn tiles(self, spec: &Conv, out: Shape) -> usize {
        out.h.div_ceil(self.side(spec)) * out.w.div_ceil(self.side(spec))
    }
}

/// The tiles with which this is the faster way, if it is. Depends on the layer and the size of an image, not on the
/// batch.
pub fn applies(spec: &Conv, out: Shape) -> Option<Size> {
    let shape = matches!(spec.kernel, [3, 3] | [5, 5]) && spec.stride == 1 && spec.groups == 1;
    if !shape || !spec.inputs.is_multiple_of(16) || spec.outputs < 16 {
        return None;
    }
    // Sums this short gain little by it, and lose digits: the auto-encoders of the quantitative evaluations left their
    // golden tolerance.
    if spec.inputs.max(spec.outputs) < 32 {
        return None;
    }
    // With few tiles the larger weights are read for too little work.
    let tiles = Size::Usual.tiles(spec, out);
    if tiles >= 9 || (tiles >= 4 && spec.inputs * spec.outputs <= 256 * 256) {
        return Some(Size::Usual);
    }
    let small = spec.kernel == [3, 3] && Size::Small.tiles(spec, out) >= 16;
    small.then_some(Size::Small)
}

/// `G w Gᵀ` for every input and output: `[block][point][input][block]`.
pub fn transform(spec: &Conv, dense: &Dense, size: Size) -> Dense {
    let (block, inputs) = (dense.block, spec.inputs);
    let blocks = spec.outputs.div_ceil(block);
    let matrix = weight_matrix(size, spec.kernel[0]);
    let reach = size.reach();
    let mut values = Buffer::lasting(blocks * reach * reach * inputs * block);
    values
        .par_chunks_mut(reach * reach * inputs * block)
        .zip(
            dense
                .values
                .par_chunks(matrix.len() * matrix.len() * inputs * block),
        )
        .for_each(|(to, from)| transform_block(to, from, &matrix, reach, inputs, block));
    let mut bias = Buffer::lasting(dense.bias.len());
    bias.copy_from_slice(&dense.bias);
    Dense {
        block,
        values,
        bias,
    }
}

for_each_isa! {
    /// One block of outputs, `[taps²][input][block]` to `[reach²][input][block]`.
    fn transform_block(to: &mut [f32], from: &[f32], matrix: &[[f64; REACH]], reach: usize, inputs: usize, block: usize) {
        let taps = matrix.len();
        for input in 0..inputs {
            for lane in 0..block {
                // Columns first: `[x][i]`.
                let mut half = [[0.0f64; REACH]; REACH];
                for (y, line) in matrix.iter().enumerate() {
                    for (x, half) in half.iter_mut().enumerate().take(taps) {
                        let w = f64::from(from[((taps * y + x) * inputs + input) * block + lane]);
                        for i in 0..REACH {
                            half[i] += line[i] * w;
                        }
                    }
                }
                for i in 0..reach {
                    let mut whole = [0.0f64; REACH];
                    for (line, half) in matrix.iter().zip(&half) {
                        for j in 0..REACH {
                            whole[j] += line[j] * half[i];
                        }
                    }
                    for (j, value) in whole.iter().enumerate().take(reach) {
                        to[((i * reach + j) * inputs + input) * block + lane] = *value as f32;
                    }
                }
            }
        }
    }
}

/// Convolves `x` into `output` with weights transformed for tiles of this size.
pub fn run(
    spec: &Conv,
    x: &[f32],
    shape: Shape,
    out: Shape,
    size: Size,
    weights: &Dense,
    output: &Output<'_>,
) {
    let side = size.side(spec);
    let plan = Plan {
        shape,
        out,
        size,
        side,
        rows: out.h.div_ceil(side),
        columns: out.w.div_ceil(side),
        zeros: Buffer::zeroed(shape.c),
        chunks: tile::chunks(
            std::iter::once(Run {
                at: 0,
                len: shape.c,
            }),
            CHUNK,
        ),
    };
    let tiles = out.n * plan.rows * plan.columns;
    let threads = rayon::current_num_threads();
    let blocks = spec.outputs.div_ceil(weights.block);
    // As many pieces for every thread; few tiles are not cut at all, since each piece reads all weights.
    let together = match size {
        Size::Usual => TILES,
        Size::Small => 2 * TILES,
    };
    let pieces = match tiles.div_ceil(together) {
        1 => (tiles / (together / 2)).clamp(1, threads),
        many => many.next_multiple_of(threads).min(tiles / (together / 4)),
    };
    let each = tiles.div_ceil(pieces);
    // Fewer pieces than threads are cut by outputs instead; their inputs are then transformed more than once.
    let cuts = if pieces >= threads {
        1
    } else {
        (2 * threads / pieces).clamp(1, blocks.div_ceil(CHANNELS / weights.block.min(CHANNELS)))
    };
    let cut = blocks.div_ceil(cuts);
    let mut units = Vec::new();
    for first in (0..tiles).step_by(each) {
        for block in (0..blocks).step_by(cut) {
            units.push(Unit {
                tiles: first..(first + each).min(tiles),
                blocks: block..(block + cut).min(blocks),
            });
        }
    }
    units.into_par_iter().for_each(|unit| {
        let _flush = FlushDenormals::on();
        some_tiles(spec, &plan, x, weights, output, &unit);
    });
}

struct Plan {
    shape: Shape,
    out: Shape,
    size: Size,
    /// Outputs of a tile along one side.
    side: usize,
    /// Tiles of an image.
    rows: usize,
    columns: usize,
    /// What lies outside of an image.
    zeros: Buffer,
    chunks: Vec<(usize, Vec<Run>)>,
}

struct Unit {
    tiles: Range<usize>,
    blocks: Range<usize>,
}

/// Image, first row and first column of a tile.
fn corner(plan: &Plan, tile: usize) -> [usize; 3] {
    let per_image = plan.rows * plan.columns;
    let within = tile % per_image;
    [
        tile / per_image,
        within / plan.columns * plan.side,
        within % plan.columns * plan.side,
    ]
}

for_each_lanes! {
    fn some_tiles(spec: &Conv, plan: &Plan, x: &[f32], weights: &Dense, output: &Output<'_>, unit: &Unit)
        => tiles_kernel
}

#[inline(always)]
fn tiles_kernel<V: Kernels>(
    spec: &Conv,
    plan: &Plan,
    x: &[f32],
    weights: &Dense,
    output: &Output<'_>,
    unit: &Unit,
) {
    match (plan.size, plan.side) {
        (Size::Usual, 4) => tiles_of::<V, REACH, 4>(spec, plan, x, weights, output, unit),
        (Size::Usual, _) => tiles_of::<V, REACH, 2>(spec, plan, x, weights, output, unit),
        (Size::Small, _) => tiles_of::<V, SMALL_REACH, 2>(spec, plan, x, weights, output, unit),
    }
}

/// Tiles of `R`×`R` inputs and `SIDE`×`SIDE` outputs.
#[inline(always)]
fn tiles_of<V: Kernels, const R: usize, const SIDE: usize>(
    spec: &Conv,
    plan: &Plan,
    x: &[f32],
    weights: &Dense,
    output: &Output<'_>,
    unit: &Unit,
) {
    let points = R * R;
    let (block, inputs, tiles) = (weights.block, plan.shape.c, unit.tiles.len());
    assert!(block == 2 * V::COUNT && inputs.is_multiple_of(V::COUNT));
    let held = (CHANNELS / block).max(1);
    let in_point = tiles * inputs + SKEW;
    let out_point = tiles * block + SKEW;
    let mut transformed = Buffer::take(points * in_point);
    let mut products = Buffer::take(held * points * out_point);
    for (t, tile) in unit.tiles.clone().enumerate() {
        // SAFETY: tile `t` of every matrix is inside `transformed`.
        unsafe {
            let to = transformed.as_mut_ptr().add(t * inputs);
            input_tile::<V, R>(spec, plan, x, corner(plan, tile), to, in_point);
        }
    }
    let groups = tiles.div_ceil(V::PIXELS);
    for first in unit.blocks.clone().step_by(held) {
        let some = first..(first + held).min(unit.blocks.end);
        for point in 0..points {
            for (h, b) in some.clone().enumerate() {
                let at = |b: usize, point: usize| (b * points + point) * inputs * block;
                let packed = &weights.values[at(b, point)..][..inputs * block];
                let next = if b + 1 < some.end {
                    at(b + 1, point)
                } else if point + 1 < points {
                    at(some.start, point + 1)
                } else {
                    at(some.end, 0)
                };
                let next = weights.values.as_ptr().wrapping_add(next);
                for (c, (before, runs)) in plan.chunks.iter().enumerate() {
                    for g in 0..groups {
                        let (t, pixels) = tile::cut(tiles, groups, g);
                        // SAFETY: the matrices hold `tiles` rows each, the weights `inputs` blocks.
                        unsafe {
                            let sums = products
                                .as_mut_ptr()
                                .add((h * points + point) * out_point + t * block);
                            let tile = Tile {
                                x: transformed.as_ptr().add(point * in_point + t * inputs),
                                pixel: inputs,
                                runs,
                                weights: packed.as_ptr().add(before * block),
                                start: if c == 0 {
                                    Start::Zero
                                } else {
                                    Start::Sums(sums)
                                },
                                end: End::Sums(sums, block),
                                next: Ahead::share(
                                    next,
                                    inputs * block,
                                    c * groups + g,
                                    plan.chunks.len() * groups,
                                ),
                            };
                            V::run(&tile, pixels);
                        }
                    }
                }
            }
        }
        for (h, b) in some.enumerate() {
            for (t, tile) in unit.tiles.clone().enumerate() {
                // SAFETY: tile `t` of every product of block `h` is inside `products`; this unit alone writes these
                // channels of this tile.
                unsafe {
                    let from = products.as_ptr().add(h * points * out_point + t * block);
                    let bias = weights.bias[b * block..(b + 1) * block].as_ptr();
                    let at = corner(plan, tile);
                    output_tile::<V, R, SIDE>(spec, plan, at, from, out_point, bias, output, b);
                }
            }
        }
    }
}

/// `Bᵀ d B` of one tile, written to the matrices of all points at distance `point`.
#[inline(always)]
unsafe fn input_tile<V: Lanes, const R: usize>(
    spec: &Conv,
    plan: &Plan,
    x: &[f32],
    [image, row, column]: [usize; 3],
    to: *mut f32,
    point: usize,
) {
    let shape = plan.shape;
    let image = &x[image * shape.image()..(image + 1) * shape.image()];
    let inside =
        |at: usize, before: usize, size: usize| at.checked_sub(before).filter(|&at| at < size);
    let sources: [[*const f32; R]; R] = std::array::from_fn(|i| {
        let y = inside(row + i, spec.padding.top, shape.h);
        std::array::from_fn(
            |j| match (y, inside(column + j, spec.padding.left, shape.w)) {
                (Some(y), Some(x)) => image[(y * shape.w + x) * shape.c..].as_ptr(),
                _ => plan.zeros.as_ptr(),
            },
        )
    });
    // SAFETY: every source has `c` readable values, a multiple of the lanes; `to` by the promise of the caller.
    unsafe {
        for c in (0..shape.c).step_by(V::COUNT) {
            let mut half = [[V::splat(0.0); R]; R];
            for j in 0..R {
                let mut column = [V::splat(0.0); R];
                for (value, sources) in column.iter_mut().zip(&sources) {
                    *value = V::load(sources[j].add(c));
                }
                let column = input_line(column);
                for i in 0..R {
                    half[i][j] = column[i];
                }
            }
            for (i, line) in half.iter().enumerate() {
                let line = input_line(*line);
                for (j, value) in line.iter().enumerate() {
                    value.store(to.add((i * R + j) * point + c));
                }
            }
        }
    }
}

/// `Bᵀ d` of the values of a line.
#[inline(always)]
fn input_line<V: Lanes, const R: usize>(d: [V; R]) -> [V; R] {
    let mut line = d;
    if R == SMALL_REACH {
        line[0] = d[2].minus(d[0]);
        line[1] = d[2].plus(d[1]);
        line[2] = d[2].minus(d[1]);
        line[3] = d[3].minus(d[1]);
        return line;
    }
    let [less_two, less_half, less_both] = [V::splat(-2.0), V::splat(-0.5), V::splat(-2.5)];
    let near = d[4].plus_product(d[2], less_two);
    let near_step = d[3].plus_product(d[1], less_two);
    let far = d[4].plus_product(d[2], less_half);
    let far_step = d[3].plus_product(d[1], less_half);
    line[0] = d[4].plus(d[0]).plus_product(d[2], less_both);
    line[1] = near.plus_product(near_step, V::splat(A as f32));
    line[2] = near.plus_product(near_step, V::splat(-A as f32));
    line[3] = far.plus_product(far_step, V::splat(B as f32));
    line[4] = far.plus_product(far_step, V::splat(-B as f32));
    line[5] = d[5].plus(d[1]).plus_product(d[3], less_both);
    line
}

/// `Aᵀ m A` of one tile, finished and written to the output.
#[inline(always)]
// The indices are those of the matrices.
#[allow(clippy::too_many_arguments, clippy::needless_range_loop)]
unsafe fn output_tile<V: Kernels, const R: usize, const SIDE: usize>(
    spec: &Conv,
    plan: &Plan,
    [image, row, column]: [usize; 3],
    from: *const f32,
    point: usize,
    bias: *const f32,
    output: &Output<'_>,
    b: usize,
) {
    let (n, out) = (V::COUNT, plan.out);
    let (rows, columns) = (SIDE.min(out.h - row), SIDE.min(out.w - column));
    let (channel, channels) = (b * 2 * n, (2 * n).min(spec.outputs - b * 2 * n));
    // SAFETY: by the promise of the caller; pixels outside of the image are left out.
    unsafe {
        let mut done = MaybeUninit::<[[[f32; tile::WIDEST]; SIDE]; SIDE]>::uninit();
        let done = done.as_mut_ptr().cast::<f32>();
        for half in 0..2 {
            let bias = V::load(bias.add(half * n));
            let mut lines = [[V::splat(0.0); R]; SIDE];
            for j in 0..R {
                let mut column = [V::splat(0.0); R];
                for (i, value) in column.iter_mut().enumerate() {
                    *value = V::load(from.add((i * R + j) * point + half * n));
                }
                let column = output_line::<V, R, SIDE>(column);
                for i in 0..SIDE {
                    lines[i][j] = column[i];
                }
            }
            for (i, line) in lines.iter().enumerate() {
                let line = output_line::<V, R, SIDE>(*line);
                for j in 0..SIDE {
                    let to = done.add(((i * SIDE + j) * 2 + half) * n);
                    line[j].plus(bias).store(to);
                }
            }
        }
        for i in 0..rows {
            let pixel = (image * out.h + row + i) * out.w + column;
            let place = output.place(spec, pixel, channel, channels);
            V::finish(&place, done.add(i * SIDE * 2 * n), columns);
        }
    }
}

/// `Aᵀ m` of the values of a line.
#[inline(always)]
fn output_line<V: Lanes, const R: usize, const SIDE: usize>(m: [V; R]) -> [V; SIDE] {
    if R == SMALL_REACH {
        let mut line = [m[0].plus(m[1]).plus(m[2]); SIDE];
        line[1] = m[3].plus(m[1].minus(m[2]));
        return line;
    }
    let (near, far) = (m[1].plus(m[2]), m[3].plus(m[4]));
    let (near_step, far_step) = (m[1].minus(m[2]), m[3].minus(m[4]));
    let [a, b] = [V::splat(A as f32), V::splat(B as f32)];
    let zero = V::splat(0.0);
    let mut line = [zero; SIDE];
    line[0] = m[0].plus(near).plus(far);
    // The point at infinity belongs to the last output.
    if SIDE == 2 {
        line[1] = m[5].plus_product(near_step, a).plus_product(far_step, b);
        return line;
    }
    let [a3, b3] = [V::splat((A * A * A) as f32), V::splat((B * B * B) as f32)];
    line[1] = zero.plus_product(near_step, a).plus_product(far_step, b);
    line[2] = zero
        .plus_product(near, V::splat(0.5))
        .plus_product(far, V::splat(2.0));
    line[3] = m[5].plus_product(near_step, a3).plus_product(far_step, b3);
    line
}
