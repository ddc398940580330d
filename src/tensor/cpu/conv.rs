//! Direct convolution over NHWC activations with a zero border, no im2col.
//!
//! Weights are packed once as `[group][block of 16 outputs][ky][kx][input][16]`. A tile of up to six
//! neighbouring output pixels × 16 output channels stays in registers while the kernel walks its window;
//! in a dense convolution the columns and channels of one window row are one contiguous run of memory.
//! Every output value is summed in the same order whatever the tile, band or batch it falls in.

use rayon::prelude::*;

use super::depthwise;
use super::elementwise::activate_in_place;
use super::simd::{Isa, LANES, Lanes, Plain};
use super::tensor::{Tensor, expect_shape};
use crate::tensor::{Array, Conv, Padding, Shape, TensorError};

/// Output channels computed together.
const BLOCK: usize = 2 * LANES;
/// Most neighbouring pixels computed together.
const PIXELS: usize = 6;
/// Pixels per row when a 1×1 convolution is treated as one long row.
const FLAT_ROW: usize = 48;

/// Convolution weights packed for the CPU.
pub struct Packed {
    pub spec: Conv,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Packed {
    pub fn new(spec: Conv, weight: &Array, bias: &[f32]) -> Result<Self, TensorError> {
        let [kh, kw] = spec.kernel;
        let inputs = spec.inputs / spec.groups.max(1);
        let expected = [spec.outputs, inputs, kh, kw];
        let trailing_ones = weight.shape.iter().skip(2).all(|&d| d == 1);
        let fits = weight.shape == expected
            || (kh * kw == 1 && weight.shape.get(..2) == Some(&expected[..2]) && trailing_ones);
        let divides = spec.groups > 0
            && spec.outputs > 0
            && spec.inputs.is_multiple_of(spec.groups)
            && spec.outputs.is_multiple_of(spec.groups);
        if !fits || !divides || !(bias.is_empty() || bias.len() == spec.outputs) {
            return Err(TensorError::Shape {
                operation: "convolution weights",
                expected: format!(
                    "{expected:?} with {} biases in {} groups",
                    spec.outputs, spec.groups
                ),
                found: format!("{:?} with {} biases", weight.shape, bias.len()),
            });
        }
        if depthwise::applies(&spec) {
            return Ok(Self {
                spec,
                weights: depthwise::pack(&spec, &weight.data),
                bias: padded_bias(bias, spec.outputs),
            });
        }
        let group_outputs = spec.outputs / spec.groups;
        let blocks = group_outputs.div_ceil(BLOCK);
        let taps = kh * kw * inputs;
        let mut weights = vec![0.0; spec.groups * blocks * taps * BLOCK];
        let mut biases = vec![0.0; spec.groups * blocks * BLOCK];
        for output in 0..spec.outputs {
            let (group, within) = (output / group_outputs, output % group_outputs);
            let (block, lane) = (group * blocks + within / BLOCK, within % BLOCK);
            if let Some(&b) = bias.get(output) {
                biases[block * BLOCK + lane] = b;
            }
            for input in 0..inputs {
                for tap in 0..kh * kw {
                    let at = (block * taps + tap * inputs + input) * BLOCK + lane;
                    weights[at] = weight.data[(output * inputs + input) * kh * kw + tap];
                }
            }
        }
        Ok(Self {
            spec,
            weights,
            bias: biases,
        })
    }
}

fn padded_bias(bias: &[f32], outputs: usize) -> Vec<f32> {
    if bias.is_empty() {
        vec![0.0; outputs]
    } else {
        bias.to_vec()
    }
}

/// Where the outputs go: `channels` per pixel in memory, of which this convolution fills a run from `first`.
pub struct Target<'a> {
    pub data: &'a mut [f32],
    pub channels: usize,
    pub first: usize,
}

/// Shape of the output for an input of shape `x`.
pub fn output_shape(x: Shape, spec: &Conv) -> Result<Shape, TensorError> {
    if x.c != spec.inputs {
        return Err(TensorError::Shape {
            operation: "convolution",
            expected: format!("{} input channels", spec.inputs),
            found: format!("{}", x.c),
        });
    }
    let [h, w] = spec.output(x.h, x.w)?;
    Ok(Shape::new(x.n, h, w, spec.outputs))
}

/// `activation(conv(x) + bias + residual)` as a new tensor.
pub fn run(x: &Tensor, conv: &Packed, residual: Option<&Tensor>) -> Result<Tensor, TensorError> {
    let out = output_shape(x.shape(), &conv.spec)?;
    let mut data = vec![0.0; out.len()];
    run_into(
        x,
        conv,
        residual,
        Target {
            data: &mut data,
            channels: out.c,
            first: 0,
        },
    )?;
    Ok(Tensor::new(out, data))
}

/// The same over plain values of the given shape.
pub fn run_slice(
    x: &[f32],
    shape: Shape,
    conv: &Packed,
    residual: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), TensorError> {
    let output = output_shape(shape, &conv.spec)?;
    let x = Tensor::new(shape, x.to_vec());
    let residual = residual.map(|r| Tensor::new(output, r.to_vec()));
    let target = Target {
        data: out,
        channels: output.c,
        first: 0,
    };
    run_into(&x, conv, residual.as_ref(), target)
}

/// The same, written into a run of channels of a larger output.
pub fn run_into(
    x: &Tensor,
    conv: &Packed,
    residual: Option<&Tensor>,
    target: Target<'_>,
) -> Result<(), TensorError> {
    let spec = &conv.spec;
    let out = output_shape(x.shape(), spec)?;
    if let Some(residual) = residual {
        expect_shape("residual of a convolution", out, residual.shape())?;
    }
    let (input, shape) = with_border(x, spec.padding);
    if depthwise::applies(spec) {
        depthwise::run(
            spec,
            &input,
            shape,
            out,
            &conv.weights,
            &conv.bias,
            residual,
            target,
        );
        return Ok(());
    }
    let walk = Walk::new(spec, shape, out);
    let channel_blocks = conv.bias.len() / BLOCK;
    let units = walk.units(channel_blocks);
    let output = Output {
        data: target.data.as_mut_ptr(),
        channels: target.channels,
        first: target.first,
        residual: residual.map(Tensor::data),
    };
    units.into_par_iter().for_each(|unit| {
        let input: &[f32] = &input;
        match Isa::detected() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: AVX2 and FMA were detected.
            Isa::Avx2 => unsafe { unit_avx2(conv, &walk, input, &output, unit) },
            _ => unit_kernel::<Plain>(conv, &walk, input, &output, unit),
        }
    });
    Ok(())
}

/// The input with its border of zeros; without a border the input itself.
fn with_border(x: &Tensor, padding: Padding) -> (std::borrow::Cow<'_, [f32]>, Shape) {
    let shape = x.shape();
    if padding == Padding::default() {
        return (x.data().into(), shape);
    }
    let bordered = Shape {
        h: shape.h + padding.top + padding.bottom,
        w: shape.w + padding.left + padding.right,
        ..shape
    };
    let mut data = vec![0.0; bordered.len()];
    let row = shape.w * shape.c;
    data.par_chunks_mut(bordered.image().max(1))
        .enumerate()
        .for_each(|(n, image)| {
            for (y, line) in x.image(n).chunks(row.max(1)).enumerate() {
                let at = ((y + padding.top) * bordered.w + padding.left) * shape.c;
                image[at..at + row].copy_from_slice(line);
            }
        });
    (data.into(), bordered)
}

/// How to walk the input and the output: rows of pixels, and the runs of memory below one window.
struct Walk {
    images: usize,
    rows: usize,
    width: usize,
    /// Pixels in all rows of an image (the last row may be shorter).
    pixels: usize,
    input_image: usize,
    input_row: usize,
    input_pixel: usize,
    output_image: usize,
    /// Offsets of the contiguous runs below a window, and their common length.
    runs: Vec<usize>,
    run: usize,
    group_inputs: usize,
    group_outputs: usize,
    blocks_per_group: usize,
}

impl Walk {
    fn new(spec: &Conv, x: Shape, out: Shape) -> Self {
        let [kh, kw] = spec.kernel;
        let group_inputs = spec.inputs / spec.groups;
        let group_outputs = spec.outputs / spec.groups;
        let (runs, run) = if spec.groups == 1 {
            ((0..kh).map(|y| y * x.w * x.c).collect(), kw * x.c)
        } else {
            let taps = (0..kh).flat_map(|y| (0..kw).map(move |k| (y, k)));
            (
                taps.map(|(y, k)| (y * x.w + k) * x.c).collect(),
                group_inputs,
            )
        };
        let blocks_per_group = group_outputs.div_ceil(BLOCK);
        // A window that is the whole image (a linear layer after flattening) and a dense 1×1 window
        // are both one long row of pixels, over all images.
        let whole = spec.groups == 1 && kh == x.h && kw == x.w;
        let dense = [kh, kw] == [1, 1] && spec.stride == 1;
        if whole || dense {
            let pixels = out.n * out.h * out.w;
            let pixel = if whole { x.image() } else { x.c };
            return Self {
                images: 1,
                rows: pixels.div_ceil(FLAT_ROW),
                width: FLAT_ROW,
                pixels,
                input_image: 0,
                input_row: FLAT_ROW * pixel,
                input_pixel: pixel,
                output_image: 0,
                runs: if whole { vec![0] } else { runs },
                run: if whole { x.image() } else { run },
                group_inputs,
                group_outputs,
                blocks_per_group,
            };
        }
        Self {
            images: out.n,
            rows: out.h,
            width: out.w,
            pixels: out.h * out.w,
            input_image: x.image(),
            input_row: spec.stride * x.w * x.c,
            input_pixel: spec.stride * x.c,
            output_image: out.h * out.w,
            runs,
            run,
            group_inputs,
            group_outputs,
            blocks_per_group,
        }
    }

    /// Cuts the work so that every thread has some: bands of rows, and channel blocks where rows are few.
    fn units(&self, blocks: usize) -> Vec<Unit> {
        let wanted = 4 * rayon::current_num_threads();
        let bands = wanted
            .div_ceil(self.images.max(1))
            .clamp(1, self.rows.max(1));
        let cuts = wanted
            .div_ceil((self.images * bands).max(1))
            .clamp(1, blocks);
        let (band, cut) = (self.rows.div_ceil(bands).max(1), blocks.div_ceil(cuts));
        let mut units = Vec::new();
        for image in 0..self.images {
            for row in (0..self.rows).step_by(band) {
                for block in (0..blocks).step_by(cut) {
                    units.push(Unit {
                        image,
                        rows: row..(row + band).min(self.rows),
                        blocks: block..(block + cut).min(blocks),
                    });
                }
            }
        }
        units
    }
}

struct Unit {
    image: usize,
    rows: std::ops::Range<usize>,
    blocks: std::ops::Range<usize>,
}

struct Output<'a> {
    data: *mut f32,
    channels: usize,
    first: usize,
    residual: Option<&'a [f32]>,
}

// SAFETY: units write to disjoint pixels and channels.
unsafe impl Sync for Output<'_> {}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn unit_avx2(conv: &Packed, walk: &Walk, input: &[f32], output: &Output<'_>, unit: Unit) {
    unit_kernel::<super::simd::Avx>(conv, walk, input, output, unit);
}

#[inline(always)]
fn unit_kernel<V: Lanes>(
    conv: &Packed,
    walk: &Walk,
    input: &[f32],
    output: &Output<'_>,
    unit: Unit,
) {
    let taps = walk.runs.len() * walk.run;
    for block in unit.blocks {
        let group = block / walk.blocks_per_group;
        let within = block % walk.blocks_per_group * BLOCK;
        let lanes = BLOCK.min(walk.group_outputs - within);
        let weights = &conv.weights[block * taps * BLOCK..(block + 1) * taps * BLOCK];
        let bias = &conv.bias[block * BLOCK..(block + 1) * BLOCK];
        let channel = group * walk.group_outputs + within;
        for row in unit.rows.clone() {
            let width = walk.width.min(walk.pixels - row * walk.width);
            let start =
                unit.image * walk.input_image + row * walk.input_row + group * walk.group_inputs;
            let first_pixel = unit.image * walk.output_image + row * walk.width;
            let tiles = width.div_ceil(PIXELS);
            let mut x = 0;
            for tile in 0..tiles {
                let pixels = (width - x).div_ceil(tiles - tile);
                let from = &input[start + x * walk.input_pixel..];
                let mut sums = [[0.0f32; BLOCK]; PIXELS];
                let job = Tile {
                    walk,
                    weights,
                    bias,
                };
                match pixels {
                    6 => job.sum::<V, 6>(from, &mut sums),
                    5 => job.sum::<V, 5>(from, &mut sums),
                    4 => job.sum::<V, 4>(from, &mut sums),
                    3 => job.sum::<V, 3>(from, &mut sums),
                    2 => job.sum::<V, 2>(from, &mut sums),
                    _ => job.sum::<V, 1>(from, &mut sums),
                }
                for (p, sums) in sums[..pixels].iter_mut().enumerate() {
                    let pixel = first_pixel + x + p;
                    let sums = &mut sums[..lanes];
                    if let Some(residual) = output.residual {
                        let at = pixel * conv.spec.outputs + channel;
                        for (s, r) in sums.iter_mut().zip(&residual[at..at + lanes]) {
                            *s += r;
                        }
                    }
                    activate_in_place(sums, conv.spec.activation);
                    // SAFETY: this unit alone writes these channels of these pixels.
                    unsafe {
                        let to = output
                            .data
                            .add(pixel * output.channels + output.first + channel);
                        std::ptr::copy_nonoverlapping(sums.as_ptr(), to, lanes);
                    }
                }
                x += pixels;
            }
        }
    }
}

struct Tile<'a> {
    walk: &'a Walk,
    weights: &'a [f32],
    bias: &'a [f32],
}

impl Tile<'_> {
    #[inline(always)]
    fn sum<V: Lanes, const P: usize>(&self, from: &[f32], sums: &mut [[f32; BLOCK]; PIXELS]) {
        let walk = self.walk;
        let last = walk.runs.last().copied().unwrap_or(0) + (P - 1) * walk.input_pixel + walk.run;
        assert!(from.len() >= last && self.weights.len() >= walk.runs.len() * walk.run * BLOCK);
        assert!(self.bias.len() >= BLOCK && P <= PIXELS);
        // SAFETY: the asserts above bound every read: pixel p of a run ends at most at `last`
        // (runs ascend), and the weights hold one block of lanes for each tap.
        unsafe {
            let b0 = V::load(self.bias.as_ptr());
            let b1 = V::load(self.bias.as_ptr().add(LANES));
            let mut acc = [[b0, b1]; P];
            let mut weights = self.weights.as_ptr();
            for &run in &walk.runs {
                let row = from.as_ptr().add(run);
                for j in 0..walk.run {
                    let w0 = V::load(weights);
                    let w1 = V::load(weights.add(LANES));
                    weights = weights.add(BLOCK);
                    for (p, acc) in acc.iter_mut().enumerate() {
                        let x = V::splat(*row.add(p * walk.input_pixel + j));
                        acc[0] = acc[0].plus_product(x, w0);
                        acc[1] = acc[1].plus_product(x, w1);
                    }
                }
            }
            for (p, acc) in acc.into_iter().enumerate() {
                acc[0].store(sums[p].as_mut_ptr());
                acc[1].store(sums[p].as_mut_ptr().add(LANES));
            }
        }
    }
}
