//! Convolutions of finished networks: weights are constants, only inputs have gradients.
//!
//! A gradient goes back by a convolution with the weights turned round, over the gradient with `stride − 1` zeros between
//! its pixels; its border makes up for padding, and for rows that no window reached.

use std::sync::{Arc, OnceLock};

use candle_core::{DType, Device, Result, Tensor};

use super::layout::{border, sampled, spread};
use super::taped::taped;
use crate::{Array, Conv, Padding, TensorError, rules};

/// Weights on the device, ready for both ways.
pub struct Prepared {
    spec: Conv,
    weights: Arc<Weights>,
    /// `[o]`; empty networks have none.
    bias: Option<Tensor>,
}

struct Weights {
    kind: Kind,
    kernel: [usize; 2],
    /// See [`Kind`].
    forth: Tensor,
    /// The same for the way back, made when it is first gone.
    back: OnceLock<Tensor>,
}

/// How a convolution is computed, and what its weights look like.
#[derive(Clone, Copy)]
enum Kind {
    /// A matrix product for each image: `[o, i]`.
    Pointwise,
    /// Sums of shifted images, each channel with its own weights: `[kh · kw, c]`.
    Depthwise,
    /// candle's convolution: OIHW.
    General { groups: usize },
}

/// Rows and columns of zeros around an image; negative ones are cut off.
type Border = [[isize; 2]; 2];

impl Prepared {
    pub fn new(
        spec: Conv,
        weight: &Array,
        bias: &[f32],
        device: &Device,
    ) -> std::result::Result<Self, TensorError> {
        rules::conv_weights(&spec, weight, bias)?;
        Self::uploaded(spec, weight, bias, device).map_err(super::failure)
    }

    fn uploaded(spec: Conv, weight: &Array, bias: &[f32], device: &Device) -> Result<Self> {
        let [kh, kw] = spec.kernel;
        let (inputs, outputs) = (spec.inputs / spec.groups, spec.outputs);
        let oihw = |values: &[f32]| Tensor::from_slice(values, (outputs, inputs, kh, kw), device);
        let depthwise = spec.groups > 1 && [spec.inputs, outputs] == [spec.groups; 2];
        let (kind, forth) = match (spec.groups, kh * kw) {
            (1, 1) => (
                Kind::Pointwise,
                Tensor::from_slice(&weight.data, (outputs, inputs), device)?,
            ),
            _ if depthwise => {
                let taps = Tensor::from_slice(&weight.data, (outputs, kh * kw), device)?;
                (Kind::Depthwise, taps.t()?.contiguous()?)
            }
            (groups, _) => (Kind::General { groups }, oihw(&weight.data)?),
        };
        Ok(Self {
            spec,
            weights: Arc::new(Weights {
                kind,
                kernel: spec.kernel,
                forth,
                back: OnceLock::new(),
            }),
            bias: match bias.is_empty() {
                true => None,
                false => Some(Tensor::from_slice(bias, outputs, device)?),
            },
        })
    }

    pub fn spec(&self) -> &Conv {
        &self.spec
    }

    /// `conv(x) + bias` of images that fit.
    pub fn run(&self, x: &Tensor) -> Result<Tensor> {
        let (_, h, w, _) = x.dims4()?;
        let [kh, kw] = self.spec.kernel;
        let stride = self.spec.stride;
        let Padding {
            top,
            left,
            bottom,
            right,
        } = self.spec.padding;
        let around = [[top, bottom], [left, right]].map(|side| side.map(|v| v as isize));
        let weights = &self.weights;
        let (input, kept) = (x.detach().to_dtype(DType::F32)?, x.dtype());
        let mut y = weights.run(&input, &weights.forth, stride, around)?;
        if let Some(bias) = &self.bias {
            y = y.broadcast_add(bias)?;
        }
        let weights = Arc::clone(weights);
        taped([x], y.to_dtype(kept)?, move |_, gradient| {
            let spread = spread(&gradient.to_dtype(DType::F32)?, stride)?;
            let (_, rows, columns, _) = spread.dims4()?;
            let side = |k: usize, before: usize, size: usize, now: usize| {
                let first = k as isize - 1 - before as isize;
                [first, size as isize + k as isize - 1 - first - now as isize]
            };
            let around = [side(kh, top, h, rows), side(kw, left, w, columns)];
            let back = weights.run(&spread, weights.back()?, 1, around)?;
            Ok([Some(back.to_dtype(kept)?)])
        })
    }
}

impl Weights {
    /// The weights turned round, with inputs and outputs exchanged.
    fn back(&self) -> Result<&Tensor> {
        if let Some(ready) = self.back.get() {
            return Ok(ready);
        }
        let back = match self.kind {
            Kind::Pointwise => self.forth.t()?.contiguous()?,
            Kind::Depthwise => self.forth.flip(&[0])?,
            Kind::General { groups } => {
                let (o, i, kh, kw) = self.forth.dims4()?;
                self.forth
                    .reshape((groups, o / groups, i, kh * kw))?
                    .transpose(1, 2)?
                    .contiguous()?
                    .flip(&[3])?
                    .contiguous()?
                    .reshape((groups * i, o / groups, kh, kw))?
            }
        };
        Ok(self.back.get_or_init(|| back))
    }

    /// The convolution of `x` in its border, `[n, h, w, o]`.
    fn run(&self, x: &Tensor, weight: &Tensor, stride: usize, around: Border) -> Result<Tensor> {
        let [kh, kw] = self.kernel;
        let [[top, bottom], [left, right]] = around;
        // candle's convolution makes a border of its own, if it is the same on all sides.
        let padding = match self.kind {
            Kind::General { .. } if top >= 0 && [bottom, left, right] == [top; 3] => top as usize,
            _ => 0,
        };
        let left_over = |v: isize| v - padding as isize;
        let x = border(x, 1, left_over(top), left_over(bottom))?;
        let x = border(&x, 2, left_over(left), left_over(right))?;
        let (n, h, w, c) = x.dims4()?;
        let length = |size: usize, k: usize| (size + 2 * padding - k) / stride + 1;
        let (rows, columns) = (length(h, kh), length(w, kw));
        match self.kind {
            Kind::Pointwise => {
                let x = sampled(&x, 1, 0, stride, rows)?;
                let x = sampled(&x, 2, 0, stride, columns)?;
                let outputs = weight.dim(0)?;
                // One product for each image, so that its bits are its own.
                weight
                    .broadcast_as((n, outputs, c))?
                    .matmul(&x.contiguous()?.reshape((n, rows * columns, c))?.t()?)?
                    .transpose(1, 2)?
                    .contiguous()?
                    .reshape((n, rows, columns, outputs))
            }
            Kind::Depthwise => {
                let mut sum: Option<Tensor> = None;
                for ky in 0..kh {
                    let lines = sampled(&x, 1, ky, stride, rows)?;
                    for kx in 0..kw {
                        let tap = weight.get(ky * kw + kx)?;
                        let term = sampled(&lines, 2, kx, stride, columns)?.broadcast_mul(&tap)?;
                        sum = Some(match sum {
                            None => term,
                            Some(sum) => (sum + term)?,
                        });
                    }
                }
                sum.ok_or_else(|| candle_core::Error::Msg("a window without a pixel".into()))
            }
            Kind::General { groups } => x
                .permute((0, 3, 1, 2))?
                .contiguous()?
                .conv2d(weight, padding, stride, 1, groups)?
                .permute((0, 2, 3, 1))?
                .contiguous(),
        }
    }
}
