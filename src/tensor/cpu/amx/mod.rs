//! Dense convolutions with long sums on AMX tiles, for the fast mode: each f32 is split into two bf16 parts, and of the four partial
//! products the three that matter are summed in f32: `hi·hi + hi·lo + lo·hi`.
//!
//! The activations of a band lie as two planes `[32 inputs][pixel][32]`, so that 16 neighbouring pixels of 32 inputs
//! are one tile, and so are the 16 pixels below any tap: under strided windows the pixels of each phase of the stride lie
//! together. Weights lie as tiles of 16 pairs of inputs × 16 outputs.
//! The tiles themselves are behind [`Tiles`]: the machine's, or the same written out in Rust.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use rayon::prelude::*;

use super::buffer::Buffer;
use super::conv::{Dense, Output};
use super::simd::Lanes;
#[cfg(target_arch = "x86_64")]
use super::simd::{Avx, Avx512, FlushDenormals, Isa};
use super::tile::Ahead;
use super::units::{Unit, units};
use crate::{Conv, Padding, Shape};

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
/// Most output pixels of an image that goes together with others under a larger window.
const FEW: usize = 4 * SIDE;

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

/// Whether a convolution that Winograd's usual tiles do not suit is for AMX (before F(2×2, 3×3)): asked for, dense, of at least a tile of
/// pixels (so no fully connected layer), and a long sum. Short sums stay in f32: with all of them on tiles MobileNetV2
/// and EfficientNet-lite were up to five times over the golden tolerance, with those of 256 products and more one of
/// them still was, 1.4 times. Winograd's way is exact and as fast; it has the 3×3 layers of bex's encoder, which left
/// their tolerance on tiles.
#[cfg(target_arch = "x86_64")]
pub fn applies(spec: &Conv, out: Shape) -> bool {
    const PRODUCTS: usize = 512;
    matches!(Isa::detected(), Isa::Amx | Isa::AmxWritten)
        && spec.groups == 1
        && spec.kernel[0] * spec.kernel[1] * spec.inputs >= PRODUCTS
        && spec.inputs >= DEPTH / 2
        && spec.outputs >= SIDE
        && out.h * out.w >= SIDE
}

/// The largest bf16.
const LARGEST: u16 = 0x7f7f;

/// The two bf16 parts of a number, each rounded to nearest. What would round up to infinity keeps the largest bf16 as its
/// first part; infinities and NaN have nothing in the second.
#[inline(always)]
fn split(value: f32) -> [u16; 2] {
    let rounded = half(value);
    let overflows = rounded & 0x7fff == 0x7f80 && value.is_finite();
    let high = if overflows {
        rounded & 0x8000 | LARGEST
    } else {
        rounded
    };
    let low = half(value - f32::from_bits(u32::from(high) << 16));
    [high, if value.is_finite() { low } else { 0 }]
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
        let mut bias = Buffer::lasting(blocks * BLOCK);
        bias[..spec.outputs].copy_from_slice(&dense.bias[..spec.outputs]);
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
        band::<machine::Machine, Avx512>(plan, x, weights, output, unit);
    }
    #[target_feature(enable = "avx2,fma")]
    fn split_written(plan: &Plan, x: &[f32], image: usize, rows: &Range<usize>) -> Halves {
        planes(plan, x, image, rows)
    }
    #[target_feature(enable = "avx2,fma")]
    fn written(plan: &Plan, x: &Halves, weights: &Weights, output: &Output<'_>, unit: &Unit) {
        band::<written::Written, Avx>(plan, x, weights, output, unit);
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
        let (image, rows) = (band[0].image, &band[0].rows);
        let planes = {
            // Not beyond this: the thread may take other work while it waits below.
            let _flush = FlushDenormals::on();
            // SAFETY: each way is only taken where its instruction set was detected.
            unsafe {
                match tiles {
                    true => split_on_machine(&plan, x, image, rows),
                    false => split_written(&plan, x, image, rows),
                }
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
    out: Shape,
    /// Images, rows and columns of outputs. Small images are the rows of a single one: each weight that was fetched then
    /// serves several of them.
    images: usize,
    rows: usize,
    columns: usize,
    /// A 1×1 window without a border: only the pixels below outputs are split, and tiles hold pixels of several images.
    point: bool,
    /// Under a larger window the rows of a band are whole images.
    whole: bool,
    /// Distance between windows.
    stride: usize,
    /// Phases of the stride that a window has, down and across.
    phases: [usize; 2],
    /// Columns of outputs, and pixels of a bordered row in each phase.
    row: usize,
    width: usize,
    /// 32-input steps.
    steps: usize,
    blocks: usize,
}

/// A run of bordered pixels below output rows of one image, in all phases.
#[derive(Clone, Copy)]
struct Line {
    /// Output rows.
    height: usize,
    /// Pixels of a phase, and of all.
    phase: usize,
    pixels: usize,
}

impl<'a> Plan<'a> {
    fn new(spec: &'a Conv, shape: Shape, out: Shape) -> Self {
        let steps = spec.inputs.div_ceil(DEPTH);
        let image = out.h * out.w;
        let point = spec.kernel == [1, 1] && spec.padding == Padding::default();
        let whole = !point && image <= FEW;
        let small = whole || (point && 2 * image * steps * DEPTH <= BAND);
        let [images, rows, columns] = match small {
            true => [1, out.n, image],
            false => [out.n, out.h, out.w],
        };
        let stride = if point { 1 } else { spec.stride };
        let bordered = shape.w + spec.padding.left + spec.padding.right;
        Self {
            spec,
            shape,
            out,
            images,
            rows,
            columns,
            point,
            whole,
            stride,
            phases: spec.kernel.map(|side| side.min(stride)),
            row: if point { columns } else { out.w },
            width: match point {
                true => columns,
                false => bordered.div_ceil(stride),
            },
            steps,
            blocks: spec.outputs.div_ceil(BLOCK),
        }
    }

    fn units(&self) -> Vec<Unit> {
        let pixels = match self.whole {
            true => self.line(1).pixels,
            false => self.phases[0] * self.phases[1] * self.width,
        };
        let fit = BAND / (pixels * self.steps * DEPTH * 2);
        units(self.images, self.rows, self.columns, fit, self.blocks)
    }

    /// The lines of a band of some rows, all alike.
    fn line(&self, rows: usize) -> Line {
        let height = if self.whole { self.out.h } else { rows };
        let phase = (height + (self.spec.kernel[0] - 1) / self.stride) * self.width;
        Line {
            height,
            phase,
            pixels: self.phases[0] * self.phases[1] * phase,
        }
    }

    /// How many lines that are.
    fn lines(&self, rows: usize) -> usize {
        if self.whole { rows } else { 1 }
    }

    /// Bordered pixels of a band of output rows, and those that the last tiles read beyond them.
    fn pixels(&self, rows: usize) -> usize {
        self.lines(rows) * self.line(rows).pixels + 2 * SIDE
    }

    /// First input of bordered pixel `at` of a band of an image, if it is inside.
    #[inline(always)]
    fn source(&self, image: usize, rows: &Range<usize>, at: usize) -> Option<usize> {
        let Self {
            spec, shape, out, ..
        } = *self;
        let [image, y, x] = if self.point {
            let pixel = (image * self.rows + rows.start) * self.columns + at;
            let (image, within) = (pixel / (out.h * out.w), pixel % (out.h * out.w));
            [
                image,
                within / out.w * spec.stride,
                within % out.w * spec.stride,
            ]
        } else {
            let line = self.line(rows.len());
            let (phase, within) = (at % line.pixels / line.phase, at % line.phase);
            let (image, first) = match self.whole {
                true => (rows.start + at / line.pixels, 0),
                false => (image, rows.start),
            };
            let y = (first + within / self.width) * self.stride + phase / self.phases[1];
            let x = within % self.width * self.stride + phase % self.phases[1];
            [
                image,
                y.checked_sub(spec.padding.top)?,
                x.checked_sub(spec.padding.left)?,
            ]
        };
        let inside = image < shape.n && y < shape.h && x < shape.w;
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
fn band<T: Tiles, V: Lanes>(
    plan: &Plan<'_>,
    planes: &Halves,
    weights: &Weights,
    output: &Output<'_>,
    unit: &Unit,
) {
    let Plan {
        spec,
        stride,
        width,
        steps,
        ..
    } = *plan;
    let [kh, kw] = spec.kernel;
    let (lines, line) = (plan.lines(unit.rows.len()), plan.line(unit.rows.len()));
    let pixels = plan.pixels(unit.rows.len());
    let (planes, plane) = (planes.get(), steps * pixels * DEPTH);
    let products = kh * kw * steps;
    let mut tiles = T::new();
    // The rows of a line are one long row of bordered pixels, of which a few are thrown away.
    let length = (line.height - 1) * width + plan.row;
    let groups = length.div_ceil(2 * SIDE);
    let mut sums = Buffer::take(lines * groups * SUMS);
    for block in unit.blocks.clone() {
        let packed = &weights.tiles.get()[block * products * 4 * TILE..][..products * 4 * TILE];
        for chunk in (0..products).step_by(CHUNK) {
            let end = (chunk + CHUNK).min(products);
            // The weights of the next chunk or block lie behind these.
            let next = packed.as_ptr().wrapping_add(end * 4 * TILE);
            for (group, sums) in sums.chunks_exact_mut(SUMS).enumerate() {
                for (tile, sums) in sums.chunks_exact(SIDE * SIDE).enumerate() {
                    match chunk {
                        0 => tiles.zero(tile),
                        // SAFETY: 16 rows of 16 values, as wide as 32 half words.
                        _ => unsafe { tiles.load(tile, sums.as_ptr().cast(), DEPTH) },
                    }
                }
                let corner = group / groups * line.pixels + group % groups * 2 * SIDE;
                for product in chunk..end {
                    let share = group * (end - chunk) + product - chunk;
                    let shares = lines * groups * (end - chunk);
                    Ahead::share(next.cast(), CHUNK * 2 * TILE, share, shares).fetch();
                    let (tap, step) = (product / steps, product % steps);
                    let (y, x) = (tap / kw, tap % kw);
                    let phase = y % stride * plan.phases[1] + x % stride;
                    let pixel = corner + phase * line.phase + y / stride * width + x / stride;
                    let at = (step * pixels + pixel) * DEPTH;
                    assert!(at + 2 * TILE <= plane);
                    let b = &packed[product * 4 * TILE..][..4 * TILE];
                    // SAFETY: the last pixel of both tiles is inside the plane (checked above), and the four
                    // weight tiles inside `b`.
                    unsafe {
                        let (high, low) = (planes.as_ptr(), planes.as_ptr().add(plane));
                        let weights = |tile: usize| b.as_ptr().add(tile * TILE);
                        // high · high
                        tiles.load(4, high.add(at), DEPTH);
                        tiles.load(5, high.add(at + TILE), DEPTH);
                        tiles.load(6, weights(0), DEPTH);
                        tiles.load(7, weights(1), DEPTH);
                        quad(&mut tiles);
                        // high · low
                        tiles.load(6, weights(2), DEPTH);
                        tiles.load(7, weights(3), DEPTH);
                        quad(&mut tiles);
                        // low · high
                        tiles.load(4, low.add(at), DEPTH);
                        tiles.load(5, low.add(at + TILE), DEPTH);
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
        let first = (unit.image * plan.rows + unit.rows.start) * plan.columns;
        for (group, sums) in sums.chunks_exact(SUMS).enumerate() {
            let start = group % groups * 2 * SIDE;
            let first = first + group / groups * plan.columns;
            for pixel in 0..(2 * SIDE).min(length - start) {
                let (row, column) = ((start + pixel) / width, (start + pixel) % width);
                if column < plan.row {
                    let from = &sums[pixel / SIDE * 2 * SIDE * SIDE..][..2 * SIDE * SIDE];
                    let at = first + row * plan.row + column;
                    finish::<V>(spec, weights, output, from, pixel % SIDE, at, block);
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
fn finish<V: Lanes>(
    spec: &Conv,
    weights: &Weights,
    output: &Output<'_>,
    from: &[f32],
    row: usize,
    pixel: usize,
    block: usize,
) {
    let (n, first) = (V::COUNT, block * BLOCK);
    assert!(from.len() == 2 * SIDE * SIDE && row < SIDE);
    let bias = &weights.bias[first..first + BLOCK];
    let biased = |c: usize| {
        let at = c / SIDE * SIDE * SIDE + row * SIDE + c % SIDE;
        // SAFETY: a register from a multiple of its length, which divides 16, on: inside the row, and the block.
        unsafe { V::load(from.as_ptr().add(at)).plus(V::load(bias.as_ptr().add(c))) }
    };
    for c in (0..BLOCK.min(spec.outputs - first)).step_by(2 * n) {
        let channels = (2 * n).min(spec.outputs - first - c);
        // SAFETY: this unit alone writes these channels of this pixel, which exist.
        unsafe {
            let place = output.place(spec, pixel, first + c, channels);
            place.write::<V>(0, [biased(c), biased(c + n)]);
        }
    }
}

#[cfg(test)]
mod tests;
