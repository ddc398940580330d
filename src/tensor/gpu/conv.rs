//! Convolutions and linear layers: weights packed for the kernels, and which kernel a layer takes.
//!
//! One input channel per group has a kernel of its own; a 1×1 window, or one that covers the whole image, is a matrix
//! product; everything else is an implicit one. The choice depends on the layer and on the size of one image only.

use super::any_driver::{AnyBinding, AnyBuffer};
use super::kernels::{CONV_DENSE, CONV_DEPTHWISE, LINEAR};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use super::transfer::in_memory;
use super::{Gpu, code};
use crate::{Array, Conv, Padding, Shape, TensorError, rules};

/// Pixels and outputs of a tile.
const TILE: usize = 64;

/// Convolution weights on the device.
pub struct Packed {
    spec: Conv,
    bias: AnyBuffer,
    parts: Vec<Part>,
}

/// The weights of some outputs: as many as a kernel may see at once.
struct Part {
    first: usize,
    outputs: usize,
    buffer: AnyBuffer,
    bytes: usize,
}

/// Where outputs go: `channels` per pixel, of which those from `first` on are filled.
pub struct Target<'a> {
    pub tensor: &'a Tensor,
    pub channels: usize,
    pub first: usize,
}

impl<'a> Target<'a> {
    pub fn whole(tensor: &'a Tensor) -> Self {
        Self {
            tensor,
            channels: tensor.shape().c,
            first: 0,
        }
    }
}

fn is_depthwise(spec: &Conv) -> bool {
    spec.groups > 1 && spec.inputs == spec.groups
}

impl Packed {
    pub fn new(gpu: &Gpu, spec: Conv, weight: &Array, bias: &[f32]) -> Result<Self, TensorError> {
        rules::conv_weights(&spec, weight, bias)?;
        let mut biases = vec![0.0f32; spec.outputs];
        biases[..bias.len()].copy_from_slice(bias);
        let terms = spec.kernel[0] * spec.kernel[1] * (spec.inputs / spec.groups);
        let mut most = spec.outputs;
        if spec.groups == 1 {
            while !gpu.fits(terms * most.next_multiple_of(TILE)) && most > TILE {
                most = (most / 2).next_multiple_of(TILE);
            }
        }
        let precision = gpu.driver.precision();
        let mut parts = Vec::new();
        for first in (0..spec.outputs).step_by(most) {
            let outputs = most.min(spec.outputs - first);
            let values = match is_depthwise(&spec) {
                true => depthwise_weights(&spec, &weight.data),
                false => dense_weights(&spec, &weight.data, first, outputs),
            };
            if !gpu.fits(values.len()) {
                return Err(TensorError::Device(format!(
                    "the weights of {spec:?} are larger than what this device lets a kernel see; use --device cpu"
                )));
            }
            parts.push(Part {
                first,
                outputs,
                bytes: precision.bytes() * values.len(),
                buffer: gpu.driver.upload(&in_memory(precision, &values))?,
            });
        }
        Ok(Self {
            bias: gpu.driver.upload(bytemuck::cast_slice(&biases))?,
            spec,
            parts,
        })
    }

    pub fn spec(&self) -> &Conv {
        &self.spec
    }
}

/// `[group][ky][kx][input][output]` of some outputs, those of a group padded to whole tiles.
fn dense_weights(spec: &Conv, weight: &[f32], first: usize, outputs: usize) -> Vec<f32> {
    let taps = spec.kernel[0] * spec.kernel[1];
    let inputs = spec.inputs / spec.groups;
    let per_group = outputs / spec.groups;
    let width = per_group.next_multiple_of(TILE);
    let mut values = vec![0.0; spec.groups * taps * inputs * width];
    for output in 0..outputs {
        let (group, column) = (output / per_group, output % per_group);
        for input in 0..inputs {
            for tap in 0..taps {
                values[((group * taps + tap) * inputs + input) * width + column] =
                    weight[((first + output) * inputs + input) * taps + tap];
            }
        }
    }
    values
}

/// `[ky][kx][output]`, padded to whole vectors of four.
fn depthwise_weights(spec: &Conv, weight: &[f32]) -> Vec<f32> {
    let taps = spec.kernel[0] * spec.kernel[1];
    let mut values = vec![0.0; (taps * spec.outputs).next_multiple_of(4)];
    for output in 0..spec.outputs {
        for tap in 0..taps {
            values[tap * spec.outputs + output] = weight[output * taps + tap];
        }
    }
    values
}

/// The rows of the input that some rows of the output read; never none.
fn input_rows(spec: &Conv, h: usize, rows: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let first = (rows.start * spec.stride).saturating_sub(spec.padding.top);
    let end = ((rows.end - 1) * spec.stride + spec.kernel[0]).saturating_sub(spec.padding.top);
    let first = first.min(h.saturating_sub(1));
    first..end.clamp(first + 1, h.max(first + 1))
}

impl Gpu {
    /// `activation(conv(x) + bias + residual)` into a run of channels.
    pub(super) fn conv_into(
        &self,
        x: &Tensor,
        conv: &Packed,
        residual: Option<&Tensor>,
        target: &Target<'_>,
    ) -> Result<(), TensorError> {
        let (spec, from) = (&conv.spec, x.shape());
        let out = rules::conv(from, spec)?;
        if out.is_empty() {
            return Ok(());
        }
        let plain = spec.groups == 1 && spec.padding == Padding::default();
        let pointwise = spec.kernel == [1, 1] && spec.stride == 1;
        if plain && (pointwise || spec.kernel == [from.h, from.w]) {
            let rows = match pointwise {
                true => Shape::new(1, from.n * from.h * from.w, 1, from.c),
                false => Shape::new(1, from.n, 1, from.image()),
            };
            return self.linear_into(&x.view(rows)?, conv, residual, target);
        }
        let geometry = |piece: &Piece| {
            let rows = match piece.images() {
                1 => input_rows(spec, from.h, &piece.rows),
                _ => 0..from.h,
            };
            let first = (piece.images.start * from.h + rows.start) * from.w * from.c;
            let values = piece.images() * rows.len() * from.w * from.c;
            (rows.start * from.w * from.c, first..first + values)
        };
        let all = pieces("convolution", out.n, out.h, |piece| {
            let pixels = piece.images() * piece.rows() * out.w;
            self.fits(geometry(piece).1.len()) && self.fits(pixels * target.channels.max(out.c))
        })?;
        for piece in &all {
            let (back, values) = geometry(piece);
            let x = self.reads(x, values)?;
            let first = (piece.images.start * out.h + piece.rows.start) * out.w;
            let pixels = piece.images() * piece.rows() * out.w;
            let back_pixels = piece.rows.start * out.w;
            let y = self.writes(
                target.tensor,
                first * target.channels..(first + pixels) * target.channels,
            )?;
            let residual = residual
                .map(|r| self.reads(r, first * out.c..(first + pixels) * out.c))
                .transpose()?;
            let residual_at = residual.as_ref().map_or(0, |r| r.at(back_pixels * out.c));
            for part in &conv.parts {
                let outputs = part.outputs / spec.groups;
                let tiles = outputs.div_ceil(TILE);
                let count = match is_depthwise(spec) {
                    true => pixels * out.c,
                    false => pixels,
                };
                let sizes = [
                    from.h,
                    from.w,
                    from.c,
                    out.h,
                    out.w,
                    piece.rows.start,
                    piece.rows(),
                    count,
                    spec.kernel[0],
                    spec.kernel[1],
                    spec.stride,
                    spec.padding.top,
                    spec.padding.left,
                    spec.inputs / spec.groups,
                    outputs,
                    tiles,
                    target.channels,
                    target.first,
                    out.c,
                    part.first,
                ];
                let mut params = vec![x.at(back), residual_at, y.at(back_pixels * target.channels)];
                params.extend(sizes.map(|v| v as u32));
                params.extend([code(spec.activation), u32::from(residual.is_some())]);
                let bindings = [
                    x.binding.clone(),
                    part.binding(),
                    conv.bias_binding(),
                    residual
                        .as_ref()
                        .map_or_else(|| conv.bias_binding(), |r| r.binding.clone()),
                    y.binding.clone(),
                ];
                if is_depthwise(spec) {
                    self.launch_values(&CONV_DEPTHWISE, count, &params, &bindings)?;
                } else {
                    let [gx, gy] = self.grid(pixels.div_ceil(TILE));
                    let groups = [gx, gy, spec.groups * tiles];
                    self.launch(&CONV_DENSE, groups, &params, &bindings)?;
                }
            }
        }
        Ok(())
    }

    /// The same for rows `[1, rows, 1, terms]` of a matrix.
    fn linear_into(
        &self,
        x: &Tensor,
        conv: &Packed,
        residual: Option<&Tensor>,
        target: &Target<'_>,
    ) -> Result<(), TensorError> {
        let (spec, from) = (&conv.spec, x.shape());
        let (outputs, channels) = (spec.outputs, target.channels);
        let all = pieces("linear layer", 1, from.h, |piece| {
            self.fits(piece.rows() * from.c) && self.fits(piece.rows() * channels.max(outputs))
        })?;
        for Piece { rows, .. } in all {
            let x = self.reads(x, rows.start * from.c..rows.end * from.c)?;
            let y = self.writes(target.tensor, rows.start * channels..rows.end * channels)?;
            let residual = residual
                .map(|r| self.reads(r, rows.start * outputs..rows.end * outputs))
                .transpose()?;
            for part in &conv.parts {
                let tiles = part.outputs.div_ceil(TILE);
                let sizes = [
                    rows.len(),
                    from.c,
                    part.outputs,
                    outputs,
                    part.first,
                    tiles,
                    channels,
                    target.first,
                ];
                let mut params = vec![x.at(0), residual.as_ref().map_or(0, |r| r.at(0)), y.at(0)];
                params.extend(sizes.map(|v| v as u32));
                params.extend([code(spec.activation), u32::from(residual.is_some())]);
                let bindings = [
                    x.binding.clone(),
                    part.binding(),
                    conv.bias_binding(),
                    residual
                        .as_ref()
                        .map_or_else(|| conv.bias_binding(), |r| r.binding.clone()),
                    y.binding.clone(),
                ];
                let [gx, gy] = self.grid(rows.len().div_ceil(TILE));
                self.launch(&LINEAR, [gx, gy, tiles], &params, &bindings)?;
            }
        }
        Ok(())
    }
}

impl Packed {
    fn bias_binding(&self) -> AnyBinding<'_> {
        AnyBinding {
            buffer: &self.bias,
            bytes: 0..4 * self.spec.outputs,
            writes: false,
        }
    }
}

impl Part {
    fn binding(&self) -> AnyBinding<'_> {
        AnyBinding {
            buffer: &self.buffer,
            bytes: 0..self.bytes,
            writes: false,
        }
    }
}
