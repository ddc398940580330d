//! Direct convolution over NHWC activations, no im2col: bands of rows are cut so that the input of a band stays in
//! the second cache and the weights of a chunk in the first. A band gets its border of zeros in scratch memory.
//!
//! Images with rows too short for the micro-kernel are the exception: pixels of several images are taken together, and
//! the windows of some of them at a time are laid side by side in scratch memory.

use std::ops::Range;

use rayon::prelude::*;

use super::buffer::Buffer;
use super::conv::{self, Dense, Output};
use super::simd::{FlushDenormals, for_each_lanes};
use super::tile::{self, Ahead, End, Kernels, Place, Run, Start, Tile};
use super::units::{Unit, units};
use crate::{Conv, Padding, Shape};

/// About how many tiles make a row where rows are only a way of counting pixels.
const FLAT_ROW: usize = 8;
/// Longest rows whose windows are gathered: with shorter ones the micro-kernel has too few pixels in one go.
const SHORT_ROW: usize = 8;
/// Values of the inputs of a band.
const BAND_VALUES: usize = 48 * 1024;
/// Most taps multiplied in one go, and most weights: more would push the inputs out of the first cache.
const CHUNK: usize = 256;
const CHUNK_WEIGHTS: usize = 4096;

/// Convolves `x` into `output`.
pub fn run(spec: &Conv, x: &[f32], shape: Shape, out: Shape, weights: &Dense, output: &Output<'_>) {
    let walk = Walk::new(spec, shape, out, weights.block);
    walk.units().into_par_iter().for_each(|unit| {
        let _flush = FlushDenormals::on();
        band(spec, &walk, x, weights, output, &unit);
    });
}

/// How to walk the input and the output: rows of pixels, and the runs of memory below one window.
struct Walk {
    images: usize,
    rows: usize,
    width: usize,
    /// Pixels in all rows of an image (the last row may be shorter).
    pixels: usize,
    /// Input rows below one output row and between output rows; 0 if rows are only a way of counting pixels.
    window_rows: usize,
    row_step: usize,
    /// Windows are gathered side by side.
    gathers: bool,
    padding: Padding,
    input_h: usize,
    input_w: usize,
    output_w: usize,
    channels: usize,
    input_image: usize,
    /// Distance between rows and pixels in the input or, if there is one, in the bordered band.
    input_row: usize,
    input_pixel: usize,
    output_image: usize,
    /// The inputs below a window, in chunks.
    chunks: Vec<(usize, Vec<Run>)>,
    taps: usize,
    group_inputs: usize,
    group_outputs: usize,
    blocks_per_group: usize,
    blocks: usize,
}

impl Walk {
    fn new(spec: &Conv, x: Shape, out: Shape, block: usize) -> Self {
        let [kh, kw] = spec.kernel;
        let group_inputs = spec.inputs / spec.groups;
        let group_outputs = spec.outputs / spec.groups;
        let blocks_per_group = group_outputs.div_ceil(block);
        let p = spec.padding;
        // A window that is the whole image (a linear layer after flattening) and a dense 1×1 window
        // are both one long row of pixels, over all images.
        let bare = p == Padding::default();
        let whole = bare && spec.groups == 1 && [kh, kw] == [x.h, x.w];
        let flat = whole || (bare && [kh, kw] == [1, 1] && spec.stride == 1);
        // Short rows: windows are gathered, and then are one long row of pixels as well.
        let gathers = !flat && spec.groups == 1 && out.w <= SHORT_ROW && out.h <= SHORT_ROW;
        let flat = flat || gathers;
        let bordered_row = (x.w + p.left + p.right) * x.c;
        let runs: Vec<Run> = if whole || gathers {
            vec![Run {
                at: 0,
                len: kh * kw * x.c,
            }]
        } else if spec.groups == 1 {
            let len = kw * x.c;
            (0..kh)
                .map(|y| Run {
                    at: y * bordered_row,
                    len,
                })
                .collect()
        } else {
            let taps = (0..kh).flat_map(|y| (0..kw).map(move |k| (y, k)));
            taps.map(|(y, k)| Run {
                at: y * bordered_row + k * x.c,
                len: group_inputs,
            })
            .collect()
        };
        let pixels = out.h * out.w * if flat { out.n } else { 1 };
        // Rows of whole tiles; the last one is what is left.
        let about = FLAT_ROW * conv::pixels();
        let rows = ((pixels + about / 2) / about).max(1);
        let row = match rows {
            1 => pixels.max(1),
            _ => pixels.div_ceil(rows).next_multiple_of(conv::pixels()),
        };
        let pixel = if whole || gathers { kh * kw * x.c } else { x.c };
        Self {
            images: if flat { 1 } else { out.n },
            rows: if flat { pixels.div_ceil(row) } else { out.h },
            width: if flat { row } else { out.w },
            pixels,
            window_rows: kh,
            row_step: spec.stride,
            gathers,
            padding: p,
            input_h: x.h,
            input_w: x.w,
            output_w: out.w,
            channels: x.c,
            input_image: x.image(),
            input_row: if flat {
                row * pixel
            } else {
                spec.stride * bordered_row
            },
            input_pixel: if flat { pixel } else { spec.stride * x.c },
            output_image: out.h * out.w,
            chunks: tile::chunks(runs.into_iter(), CHUNK.min(CHUNK_WEIGHTS / block)),
            taps: kh * kw * group_inputs,
            group_inputs,
            group_outputs,
            blocks_per_group,
            blocks: blocks_per_group * spec.groups,
        }
    }

    /// The windows of some rows of pixels side by side, with zeros where they reach beyond the image.
    fn gathered(&self, spec: &Conv, x: &[f32], rows: &Range<usize>) -> Buffer {
        let [kh, kw] = spec.kernel;
        let run = kw * self.channels;
        let pixels = rows.start * self.width..(rows.end * self.width).min(self.pixels);
        let mut windows = Buffer::take(pixels.len() * self.taps);
        for (window, pixel) in windows.chunks_exact_mut(self.taps.max(1)).zip(pixels) {
            let (image, at) = (pixel / self.output_image, pixel % self.output_image);
            let x = &x[image * self.input_image..][..self.input_image];
            let (row, column) = (at / self.output_w, at % self.output_w);
            // Columns of the window inside the image.
            let left = column * self.row_step;
            let from = self.padding.left.saturating_sub(left).min(kw);
            let to = (self.input_w + self.padding.left)
                .saturating_sub(left)
                .clamp(from, kw);
            for (ky, line) in window.chunks_exact_mut(run.max(1)).enumerate() {
                let y = (row * self.row_step + ky).checked_sub(self.padding.top);
                match y {
                    Some(y) if y < self.input_h && from < to => {
                        let first =
                            (y * self.input_w + left + from - self.padding.left) * self.channels;
                        let inside = from * self.channels..to * self.channels;
                        line[..inside.start].fill(0.0);
                        line[inside.end..].fill(0.0);
                        let len = inside.len();
                        line[inside].copy_from_slice(&x[first..first + len]);
                    }
                    _ => line.fill(0.0),
                }
            }
            assert_eq!(kh * run, self.taps);
        }
        windows
    }

    fn units(&self) -> Vec<Unit> {
        let fit = BAND_VALUES / self.input_row.max(1);
        units(self.images, self.rows, self.width, fit, self.blocks)
    }

    /// The input rows of a band with their border of zeros.
    fn bordered(&self, x: &[f32], rows: &Range<usize>) -> Buffer {
        let Padding {
            top, left, right, ..
        } = self.padding;
        let row = (self.input_w + left + right) * self.channels;
        let first = rows.start * self.row_step;
        let count = (rows.len() - 1) * self.row_step + self.window_rows;
        let mut band = Buffer::take(count * row);
        let values = self.input_w * self.channels;
        for (y, line) in band.chunks_exact_mut(row.max(1)).enumerate() {
            let (before, rest) = line.split_at_mut(left * self.channels);
            let (inside, after) = rest.split_at_mut(values);
            before.fill(0.0);
            after.fill(0.0);
            match (first + y).checked_sub(top) {
                Some(y) if y < self.input_h => {
                    inside.copy_from_slice(&x[y * values..(y + 1) * values]);
                }
                _ => inside.fill(0.0),
            }
        }
        band
    }
}

for_each_lanes! {
    fn band(spec: &Conv, walk: &Walk, x: &[f32], weights: &Dense, output: &Output<'_>, unit: &Unit) => band_kernel
}

#[inline(always)]
fn band_kernel<V: Kernels>(
    spec: &Conv,
    walk: &Walk,
    x: &[f32],
    weights: &Dense,
    output: &Output<'_>,
    unit: &Unit,
) {
    let block = 2 * V::COUNT;
    assert_eq!(
        weights.block, block,
        "weights packed for another instruction set"
    );
    let image = &x[unit.image * walk.input_image..];
    let bordered;
    let (input, first_row) = if walk.gathers {
        bordered = walk.gathered(spec, x, &unit.rows);
        (&bordered[..], 0)
    } else if walk.padding == Padding::default() {
        (image, unit.rows.start)
    } else {
        bordered = walk.bordered(&image[..walk.input_image], &unit.rows);
        (&bordered[..], 0)
    };
    let tiles = walk.width.div_ceil(V::PIXELS);
    let mut partial = Buffer::take(if walk.chunks.len() > 1 {
        unit.rows.len() * tiles * V::PIXELS * block
    } else {
        0
    });
    for b in unit.blocks.clone() {
        let group = b / walk.blocks_per_group;
        let within = b % walk.blocks_per_group * block;
        let channel = group * walk.group_outputs + within;
        let channels = block.min(walk.group_outputs - within);
        let packed = &weights.values[b * walk.taps * block..(b + 1) * walk.taps * block];
        let bias = &weights.bias[b * block..(b + 1) * block];
        for (c, (before, runs)) in walk.chunks.iter().enumerate() {
            let (is_first, is_last) = (c == 0, c + 1 == walk.chunks.len());
            let len: usize = runs.iter().map(|r| r.len).sum();
            let next = packed.as_ptr().wrapping_add((before + len) * block);
            let reach = runs.iter().map(|r| r.at + r.len).max().unwrap_or(0);
            for (r, row) in unit.rows.clone().enumerate() {
                let width = walk.width.min(walk.pixels - row * walk.width);
                let tiles_here = width.div_ceil(V::PIXELS);
                let start = (first_row + r) * walk.input_row + group * walk.group_inputs;
                let first_pixel = unit.image * walk.output_image + row * walk.width;
                let last = start + (width - 1) * walk.input_pixel + reach;
                assert!(last <= input.len(), "a window reaches beyond its input");
                for t in 0..tiles_here {
                    let (first, pixels) = tile::cut(width, tiles_here, t);
                    let sums = (r * tiles + t) * V::PIXELS * block;
                    let pixel = first_pixel + first;
                    // SAFETY: reads of the input end at `last` (checked above), weights hold one block for each
                    // tap, `partial` holds all tiles of the band, and this unit alone writes these channels of
                    // these pixels.
                    unsafe {
                        let partial = partial.as_mut_ptr().add(sums);
                        let tile = Tile {
                            x: input.as_ptr().add(start + first * walk.input_pixel),
                            pixel: walk.input_pixel,
                            runs,
                            weights: packed.as_ptr().add(before * block),
                            start: if is_first {
                                Start::Bias(bias.as_ptr())
                            } else {
                                Start::Sums(partial)
                            },
                            end: if is_last {
                                End::Output(output.place(spec, pixel, channel, channels))
                            } else {
                                End::Sums(partial, block)
                            },
                            // The weights of the next chunk or block lie behind these.
                            next: Ahead::share(
                                next,
                                len * block,
                                r * tiles + t,
                                unit.rows.len() * tiles,
                            ),
                        };
                        V::run(&tile, pixels);
                    }
                }
            }
        }
    }
}

impl Output<'_> {
    /// The place of some channels at a pixel.
    ///
    /// # Safety
    /// The pixel and the channels must exist, and belong to the caller alone.
    pub unsafe fn place(
        &self,
        spec: &Conv,
        pixel: usize,
        channel: usize,
        channels: usize,
    ) -> Place {
        Place {
            // SAFETY: inside the output, by the promise of the caller.
            to: unsafe { self.data.add(pixel * self.channels + self.first + channel) },
            pixel: self.channels,
            residual: self.residual.map_or(std::ptr::null(), |r| {
                r[pixel * spec.outputs + channel..].as_ptr()
            }),
            residual_pixel: spec.outputs,
            channels,
            activation: spec.activation,
        }
    }
}
