//! Dense convolutions with long sums on AMX tiles, for the fast mode: each f32 is split into two bf16 parts, and of the four partial
//! products the three that matter are summed in f32: `hi·hi + hi·lo + lo·hi`.
//!
//! The activations of a band lie as two planes `[32 inputs][pixel][32]`, so that 16 neighbouring pixels of 32 inputs
//! are one tile, and so are the 16 pixels below any tap. Weights lie as tiles of 16 pairs of inputs × 16 outputs.
//! The tiles themselves are behind [`Tiles`]: the machine's, or the same written out in Rust.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use rayon::prelude::*;

use super::buffer::Buffer;
use super::conv::{Dense, Output};
use super::elementwise::activate_in_place;
#[cfg(target_arch = "x86_64")]
use super::simd::{FlushDenormals, Isa};
use super::units::{Unit, units};
use crate::tensor::{Conv, Padding, Shape};

/// Pixels, and outputs, of a tile.
const SIDE: usize = 16;
/// Inputs of a tile.
const DEPTH: usize = 32;
/// Outputs computed together: two tiles.
const BLOCK: usize = 2 * SIDE;
/// Half words of a tile.
const TILE: usize = SIDE * DEPTH;
/// Products of tiles in one go: their weights stay in the first cache while all pixels of a band pass.
const CHUNK: usize = 8;
/// Sums of two tiles of pixels and two of outputs.
const SUMS: usize = 4 * SIDE * SIDE;
/// Half words of the activations of a band.
const BAND: usize = 512 * 1024;

/// Eight tiles of 16 rows of 64 bytes.
pub trait Tiles {
    fn new() -> Self;
    fn zero(&mut self, tile: usize);
    /// Loads 16 rows of 32 half words, `stride` half words apart.
    ///
    /// # Safety
    /// All rows must be readable.
    unsafe fn load(&mut self, tile: usize, from: *const u16, stride: usize);
    /// Adds the products of pairs of bf16: `to[m][n] += Σ a[m][2k+i] · b[k][2n+i]`.
    fn multiply(&mut self, to: usize, a: usize, b: usize);
    /// Stores 16 rows of 16 f32, one after another.
    ///
    /// # Safety
    /// 256 values must be writable.
    unsafe fn store(&self, tile: usize, to: *mut f32);
}

#[cfg(target_arch = "x86_64")]
mod machine;
mod written;

#[cfg(target_arch = "x86_64")]
pub use machine::available;

/// Whether a convolution that Winograd's way does not suit is for the tiles: asked for, dense, of at least a tile of
/// pixels (so no fully connected layer), and a long sum. Short sums stay in f32: with all of them on tiles MobileNetV2
/// and EfficientNet-lite were up to five times over the golden tolerance, with those of 256 products and more one of
/// them still was, 1.4 times. Winograd's way is exact and as fast.
#[cfg(target_arch = "x86_64")]
pub fn applies(spec: &Conv, out: Shape) -> bool {
    const PRODUCTS: usize = 512;
    matches!(Isa::detected(), Isa::Amx | Isa::AmxWritten)
        && spec.groups == 1
        && spec.kernel[0] * spec.kernel[1] * spec.inputs >= PRODUCTS
        && spec.inputs >= DEPTH / 2
        && spec.outputs >= SIDE
        && out.h * out.w >= SIDE
        // Rows of a few strided windows would leave most of a tile empty.
        && (spec.stride == 1 || spec.kernel == [1, 1] || 4 * out.w >= 3 * SIDE)
}

/// The two bf16 parts of a number, each rounded to nearest.
#[inline(always)]
fn split(value: f32) -> [u16; 2] {
    let high = half(value);
    [high, half(value - f32::from_bits(u32::from(high) << 16))]
}

/// Rounds to bf16, to nearest, ties to even; infinities and NaN keep their kind.
#[inline(always)]
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let exact = bits >> 16 | u32::from(value.is_nan()) << 6;
    (if value.is_finite() { rounded } else { exact }) as u16
}

/// Half words in aligned memory.
struct Halves(Buffer);

impl Halves {
    fn take(len: usize) -> Self {
        Self(Buffer::take(len.div_ceil(2)))
    }

    /// Zeros that stay.
    fn lasting(len: usize) -> Self {
        Self(Buffer::lasting(len.div_ceil(2)))
    }

    fn get(&self) -> &[u16] {
        bytemuck::cast_slice(&self.0)
    }

    fn get_mut(&mut self) -> &mut [u16] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

/// Weights as tiles: `[32 outputs][tap][32 inputs][high, low][2][16 pairs of inputs][16 outputs][2]`.
pub struct Weights {
    tiles: Halves,
    bias: Buffer,
}

impl Weights {
    pub fn new(spec: &Conv, dense: &Dense) -> Self {
        let taps = spec.kernel[0] * spec.kernel[1];
        let (blocks, steps) = (spec.outputs.div_ceil(BLOCK), spec.inputs.div_ceil(DEPTH));
        let mut tiles = Halves::lasting(blocks * taps * steps * 4 * TILE);
        let values = tiles.get_mut();
        for output in 0..spec.outputs {
            for tap in 0..taps {
                for input in 0..spec.inputs {
                    let parts = split(dense.at(spec, output, input, tap));
                    let step = (output / BLOCK * taps + tap) * steps + input / DEPTH;
                    let within = (input % DEPTH / 2 * SIDE + output % SIDE) * 2 + input % 2;
                    for (part, value) in parts.into_iter().enumerate() {
                        let tile = (step * 2 + part) * 2 + output % BLOCK / SIDE;
                        values[tile * TILE + within] = value;
                    }
                }
            }
        }
        let mut bias = Buffer::lasting(dense.bias.len());
        bias.copy_from_slice(&dense.bias);
        Self { tiles, bias }
    }
}

/// Convolves `x` into `output` on the tiles of the machine, or on the written ones where those are asked for.
#[cfg(target_arch = "x86_64")]
pub fn run(
    spec: &Conv,
    x: &[f32],
    shape: Shape,
    out: Shape,
    weights: &Weights,
    output: &Output<'_>,
) {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn split_on_machine(plan: &Plan, x: &[f32], image: usize, rows: &Range<usize>) -> Halves {
        planes(plan, x, image, rows)
    }
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn on_machine(plan: &Plan, x: &Halves, weights: &Weights, output: &Output<'_>, unit: &Unit) {
        band::<machine::Machine>(plan, x, weights, output, unit);
    }
    #[target_feature(enable = "avx2,fma")]
    fn split_written(plan: &Plan, x: &[f32], image: usize, rows: &Range<usize>) -> Halves {
        planes(plan, x, image, rows)
    }
    #[target_feature(enable = "avx2,fma")]
    fn written(plan: &Plan, x: &Halves, weights: &Weights, output: &Output<'_>, unit: &Unit) {
        band::<written::Written>(plan, x, weights, output, unit);
    }
    let plan = Plan::new(spec, shape, out);
    let tiles = match Isa::detected() {
        Isa::Amx => true,
        Isa::AmxWritten => false,
        other => unreachable!("{} has no tiles", other.key()),
    };
    let units = plan.units();
    // Blocks of outputs of one band share its planes.
    let bands: Vec<&[Unit]> = units
        .chunk_by(|a, b| a.image == b.image && a.rows == b.rows)
        .collect();
    bands.into_par_iter().for_each(|band| {
        let _flush = FlushDenormals::on();
        let (image, rows) = (band[0].image, &band[0].rows);
        // SAFETY: each way is only taken where its instruction set was detected.
        let planes = unsafe {
            match tiles {
                true => split_on_machine(&plan, x, image, rows),
                false => split_written(&plan, x, image, rows),
            }
        };
        band.par_iter().for_each(|unit| {
            let _flush = FlushDenormals::on();
            // SAFETY: as above.
            unsafe {
                match tiles {
                    true => on_machine(&plan, &planes, weights, output, unit),
                    false => written(&plan, &planes, weights, output, unit),
                }
            }
        });
    });
}

/// The geometry of a convolution over bordered bands.
struct Plan<'a> {
    spec: &'a Conv,
    shape: Shape,
    /// Images, rows and columns of outputs. Small images under a 1×1 window are the rows of a single one: tiles then hold
    /// pixels of several of them, and each weight that was fetched serves several.
    images: usize,
    rows: usize,
    columns: usize,
    /// Output pixels of an image and of its rows.
    image: usize,
    row: usize,
    /// A 1×1 window without a border: only the pixels below outputs are split.
    point: bool,
    /// Distance between windows in the planes.
    stride: usize,
    /// Pixels of a bordered row.
    width: usize,
    /// 32-input steps.
    steps: usize,
    blocks: usize,
}

impl<'a> Plan<'a> {
    fn new(spec: &'a Conv, shape: Shape, out: Shape) -> Self {
        let steps = spec.inputs.div_ceil(DEPTH);
        let image = out.h * out.w;
        let point = spec.kernel == [1, 1] && spec.padding == Padding::default();
        let small = point && 2 * image * steps * DEPTH <= BAND;
        let [images, rows, columns] = match small {
            true => [1, out.n, image],
            false => [out.n, out.h, out.w],
        };
        Self {
            spec,
            shape,
            images,
            rows,
            columns,
            image,
            row: out.w,
            point,
            stride: if point { 1 } else { spec.stride },
            width: match point {
                true => columns,
                false => shape.w + spec.padding.left + spec.padding.right,
            },
            steps,
            blocks: spec.outputs.div_ceil(BLOCK),
        }
    }

    fn units(&self) -> Vec<Unit> {
        let row = self.stride * self.width * self.steps * DEPTH * 2;
        units(
            self.images,
            self.rows,
            self.columns,
            BAND / row,
            self.blocks,
        )
    }

    /// Bordered pixels of a band of output rows, and those that the last tiles read beyond them.
    fn pixels(&self, rows: usize) -> usize {
        let inputs = (rows - 1) * self.stride + self.spec.kernel[0];
        inputs * self.width + 2 * SIDE * self.stride
    }

    /// First input of bordered pixel `at` of a band of an image, if it is inside.
    #[inline(always)]
    fn source(&self, image: usize, rows: &Range<usize>, at: usize) -> Option<usize> {
        let Self { spec, shape, .. } = *self;
        if self.point {
            let pixel = (image * self.rows + rows.start) * self.columns + at;
            let (image, within) = (pixel / self.image, pixel % self.image);
            let [y, x] = [within / self.row, within % self.row].map(|at| at * spec.stride);
            return (image < shape.n).then_some(((image * shape.h + y) * shape.w + x) * shape.c);
        }
        let y = (rows.start * spec.stride + at / self.width).checked_sub(spec.padding.top)?;
        let x = (at % self.width).checked_sub(spec.padding.left)?;
        let inside = y < shape.h && x < shape.w;
        inside.then_some(((image * shape.h + y) * shape.w + x) * shape.c)
    }
}

/// The bordered rows of a band, split: `[high, low][step][pixel][32]`.
#[inline(always)]
fn planes(plan: &Plan<'_>, x: &[f32], image: usize, rows: &Range<usize>) -> Halves {
    let (steps, pixels) = (plan.steps, plan.pixels(rows.len()));
    let plane = steps * pixels * DEPTH;
    let mut planes = Halves::take(2 * plane);
    let (high, low) = planes.get_mut()[..2 * plane].split_at_mut(plane);
    for pixel in 0..pixels {
        let inside = match plan.source(image, rows, pixel) {
            Some(at) => &x[at..at + plan.shape.c],
            None => &[],
        };
        for step in 0..steps {
            let at = (step * pixels + pixel) * DEPTH;
            let from = inside.get(step * DEPTH..).unwrap_or_default();
            let count = from.len().min(DEPTH);
            let (high, low) = (&mut high[at..at + DEPTH], &mut low[at..at + DEPTH]);
            for i in 0..count {
                [high[i], low[i]] = split(from[i]);
            }
            high[count..].fill(0);
            low[count..].fill(0);
        }
    }
    planes
}

#[inline(always)]
fn band<T: Tiles>(
    plan: &Plan<'_>,
    planes: &Halves,
    weights: &Weights,
    output: &Output<'_>,
    unit: &Unit,
) {
    let Plan {
        spec,
        columns,
        stride,
        width,
        steps,
        ..
    } = *plan;
    let [kh, kw] = spec.kernel;
    let pixels = plan.pixels(unit.rows.len());
    let (planes, plane) = (planes.get(), steps * pixels * DEPTH);
    let tap_tiles = steps * 4 * TILE;
    let mut tiles = T::new();
    // With stride 1 the rows of a band are one long row of bordered pixels, of which a few are thrown away.
    let (lines, length) = if stride == 1 {
        (1, (unit.rows.len() - 1) * width + columns)
    } else {
        (unit.rows.len(), columns)
    };
    let products = kh * kw * steps;
    let groups = length.div_ceil(2 * SIDE);
    let mut sums = Buffer::take(lines * groups * SUMS);
    for block in unit.blocks.clone() {
        let packed =
            &weights.tiles.get()[block * kh * kw * tap_tiles..(block + 1) * kh * kw * tap_tiles];
        for chunk in (0..products).step_by(CHUNK) {
            for (group, sums) in sums.chunks_exact_mut(SUMS).enumerate() {
                let (line, first) = (group / groups, group % groups * 2 * SIDE);
                for (tile, sums) in sums.chunks_exact(SIDE * SIDE).enumerate() {
                    match chunk {
                        0 => tiles.zero(tile),
                        // SAFETY: 16 rows of 16 values, as wide as 32 half words.
                        _ => unsafe { tiles.load(tile, sums.as_ptr().cast(), DEPTH) },
                    }
                }
                let corner = (line * width + first) * stride;
                for product in chunk..(chunk + CHUNK).min(products) {
                    let (tap, step) = (product / steps, product % steps);
                    let pixel = corner + tap / kw * width + tap % kw;
                    let at = (step * pixels + pixel) * DEPTH;
                    let next = at + SIDE * stride * DEPTH;
                    assert!(next + SIDE * stride * DEPTH - (stride - 1) * DEPTH <= plane);
                    let b = &packed[product * 4 * TILE..][..4 * TILE];
                    // SAFETY: the last pixel of both tiles is inside the plane (checked above), and the four
                    // weight tiles inside `b`.
                    unsafe {
                        let (high, low) = (planes.as_ptr(), planes.as_ptr().add(plane));
                        let weights = |tile: usize| b.as_ptr().add(tile * TILE);
                        let stride = stride * DEPTH;
                        // high · high
                        tiles.load(4, high.add(at), stride);
                        tiles.load(5, high.add(next), stride);
                        tiles.load(6, weights(0), DEPTH);
                        tiles.load(7, weights(1), DEPTH);
                        quad(&mut tiles);
                        // high · low
                        tiles.load(6, weights(2), DEPTH);
                        tiles.load(7, weights(3), DEPTH);
                        quad(&mut tiles);
                        // low · high
                        tiles.load(4, low.add(at), stride);
                        tiles.load(5, low.add(next), stride);
                        tiles.load(6, weights(0), DEPTH);
                        tiles.load(7, weights(1), DEPTH);
                        quad(&mut tiles);
                    }
                }
                for (tile, sums) in sums.chunks_exact_mut(SIDE * SIDE).enumerate() {
                    // SAFETY: 256 values.
                    unsafe { tiles.store(tile, sums.as_mut_ptr()) };
                }
            }
        }
        for (group, sums) in sums.chunks_exact(SUMS).enumerate() {
            let (line, first) = (group / groups, group % groups * 2 * SIDE);
            for pixel in 0..(2 * SIDE).min(length - first) {
                let (row, column) = if stride == 1 {
                    ((first + pixel) / width, (first + pixel) % width)
                } else {
                    (line, first + pixel)
                };
                if column < columns {
                    let row = unit.image * plan.rows + unit.rows.start + row;
                    let from = &sums[pixel / SIDE * 2 * SIDE * SIDE..][..2 * SIDE * SIDE];
                    finish(
                        plan,
                        weights,
                        output,
                        from,
                        pixel % SIDE,
                        row * columns + column,
                        block,
                    );
                }
            }
        }
    }
}

/// Multiplies two tiles of pixels with two tiles of outputs.
#[inline(always)]
fn quad(tiles: &mut impl Tiles) {
    tiles.multiply(0, 4, 6);
    tiles.multiply(1, 4, 7);
    tiles.multiply(2, 5, 6);
    tiles.multiply(3, 5, 7);
}

/// Bias, residual and activation of one pixel.
#[inline(always)]
fn finish(
    plan: &Plan<'_>,
    weights: &Weights,
    output: &Output<'_>,
    from: &[f32],
    row: usize,
    pixel: usize,
    block: usize,
) {
    let outputs = plan.spec.outputs;
    for (half, from) in from.chunks_exact(SIDE * SIDE).enumerate() {
        let channel = block * BLOCK + half * SIDE;
        let Some(left) = outputs.checked_sub(channel).filter(|&left| left > 0) else {
            return;
        };
        let count = left.min(SIDE);
        let mut values = [0.0f32; SIDE];
        let bias = &weights.bias[channel..channel + count];
        for ((v, s), b) in values.iter_mut().zip(&from[row * SIDE..]).zip(bias) {
            *v = s + b;
        }
        if let Some(residual) = output.residual {
            for (v, r) in values
                .iter_mut()
                .zip(&residual[pixel * outputs + channel..][..count])
            {
                *v += r;
            }
        }
        activate_in_place(&mut values, plan.spec.activation);
        // SAFETY: this unit alone writes these channels of this pixel, which exist.
        unsafe {
            let to = output
                .data
                .add(pixel * output.channels + output.first + channel);
            std::ptr::copy_nonoverlapping(values.as_ptr(), to, count);
        }
    }
}

#[cfg(test)]
mod tests;
