//! Convolution: weights packed once for this machine, and the choice between the ways to compute it.
//!
//! Dense convolutions run directly (`direct`) or, 3×3 and 5×5 with stride 1, by Winograd's minimal filtering
//! (`winograd`); one filter per channel has its own kernel (`depthwise`); in fast mode AMX tiles take the dense ones
//! with long sums that Winograd's usual tiles do not suit (`amx`). The choice depends on the layer and on the size of one image only, never on the batch:
//! an image gives the same bits in any company.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::buffer::Buffer;
#[cfg(target_arch = "x86_64")]
use super::simd::{Avx, Avx512};
use super::simd::{Isa, Lanes, Plain};
use super::tensor::Tensor;
use super::{depthwise, direct, winograd};
use crate::{Array, Conv, Shape, TensorError, rules};

/// Convolution weights packed for the CPU.
pub struct Packed {
    pub(crate) spec: Conv,
    weights: Weights,
    /// Made when the first image comes whose size they suit: for tiles of each size.
    winograd: [OnceLock<Dense>; 2],
    #[cfg(target_arch = "x86_64")]
    amx: OnceLock<amx::Weights>,
}

enum Weights {
    Dense(Dense),
    /// `[ky][kx][c]` and the biases.
    Depthwise(Buffer, Buffer),
}

/// `[group][block of outputs][ky][kx][input][block]`, and one bias per output of every block.
pub struct Dense {
    /// Output channels computed together: two registers.
    pub block: usize,
    pub values: Buffer,
    pub bias: Buffer,
}

/// Values of a register and most pixels of a tile on this machine.
fn register() -> [usize; 2] {
    const fn of<V: Lanes>() -> [usize; 2] {
        [V::COUNT, V::PIXELS]
    }
    match Isa::detected() {
        Isa::Portable => of::<Plain>(),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::AmxWritten => of::<Avx>(),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => of::<Avx512>(),
        #[cfg(not(target_arch = "x86_64"))]
        _ => of::<Plain>(),
    }
}

/// Output channels of a block on this machine.
pub fn block() -> usize {
    2 * register()[0]
}

/// Most pixels of a tile on this machine.
pub fn pixels() -> usize {
    register()[1]
}

impl Packed {
    pub fn new(spec: Conv, weight: &Array, bias: &[f32]) -> Result<Self, TensorError> {
        rules::conv_weights(&spec, weight, bias)?;
        let weights = if depthwise::applies(&spec) {
            let mut biases = Buffer::lasting(spec.outputs);
            biases[..bias.len()].copy_from_slice(bias);
            Weights::Depthwise(depthwise::pack(&spec, &weight.data), biases)
        } else {
            Weights::Dense(Dense::new(&spec, &weight.data, bias))
        };
        Ok(Self {
            spec,
            weights,
            winograd: [const { OnceLock::new() }; 2],
            #[cfg(target_arch = "x86_64")]
            amx: OnceLock::new(),
        })
    }
}

impl Dense {
    pub fn new(spec: &Conv, weight: &[f32], bias: &[f32]) -> Self {
        let block = block();
        let taps = spec.kernel[0] * spec.kernel[1];
        let inputs = spec.inputs / spec.groups;
        let group_outputs = spec.outputs / spec.groups;
        let blocks = group_outputs.div_ceil(block);
        let mut values = Buffer::lasting(spec.groups * blocks * taps * inputs * block);
        let mut biases = Buffer::lasting(spec.groups * blocks * block);
        for output in 0..spec.outputs {
            let (group, within) = (output / group_outputs, output % group_outputs);
            let (at, lane) = (group * blocks + within / block, within % block);
            if let Some(&b) = bias.get(output) {
                biases[at * block + lane] = b;
            }
            for input in 0..inputs {
                for tap in 0..taps {
                    values[((at * taps + tap) * inputs + input) * block + lane] =
                        weight[(output * inputs + input) * taps + tap];
                }
            }
        }
        Self {
            block,
            values,
            bias: biases,
        }
    }

    /// The weight of a tap between an input and an output of a convolution without groups.
    pub fn at(&self, spec: &Conv, output: usize, input: usize, tap: usize) -> f32 {
        let taps = spec.kernel[0] * spec.kernel[1];
        let (at, lane) = (output / self.block, output % self.block);
        self.values[((at * taps + tap) * spec.inputs + input) * self.block + lane]
    }
}

/// The value of a cell, made before the cell is locked: what is made by several threads must not be waited for by
/// one of them.
pub fn once<T, E>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
    match cell.get() {
        Some(value) => Ok(value),
        None => {
            let value = make()?;
            Ok(cell.get_or_init(|| value))
        }
    }
}

/// Where the outputs go: `channels` per pixel in memory, of which this convolution fills a run from `first`.
pub struct Target<'a> {
    pub data: &'a mut [f32],
    pub channels: usize,
    pub first: usize,
}

/// The same for kernels whose threads write to disjoint pixels and channels.
pub struct Output<'a> {
    pub data: *mut f32,
    pub channels: usize,
    pub first: usize,
    pub residual: Option<&'a [f32]>,
}

// SAFETY: units of work write to disjoint pixels and channels.
unsafe impl Sync for Output<'_> {}

/// How a dense convolution is computed.
enum Way {
    Winograd(winograd::Size),
    #[cfg(target_arch = "x86_64")]
    Amx,
    Direct,
}

/// The fastest way for a layer and the size of an image. The batch must have no say in it.
fn way(spec: &Conv, out: Shape) -> Way {
    match winograd::applies(spec, out) {
        Some(winograd::Size::Usual) => Way::Winograd(winograd::Size::Usual),
        #[cfg(target_arch = "x86_64")]
        _ if amx::applies(spec, out) => Way::Amx,
        Some(size) => Way::Winograd(size),
        None => Way::Direct,
    }
}

/// `activation(conv(x) + bias + residual)` as a new tensor.
pub fn run(x: &Tensor, conv: &Packed, residual: Option<&Tensor>) -> Result<Tensor, TensorError> {
    let out = rules::conv(x.shape(), &conv.spec)?;
    if let Some(residual) = residual {
        rules::equal("residual of a convolution", out, residual.shape())?;
    }
    let mut data = Buffer::take(out.len());
    run_slice(
        x.data(),
        x.shape(),
        conv,
        residual.map(Tensor::data),
        &mut data,
    )?;
    Ok(Tensor::new(out, data))
}

/// The same over plain NHWC memory.
pub fn run_slice(
    x: &[f32],
    shape: Shape,
    conv: &Packed,
    residual: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), TensorError> {
    let target = Target {
        data: out,
        channels: conv.spec.outputs,
        first: 0,
    };
    run_into(x, shape, conv, residual, target)
}

/// The same, written into a run of channels of a larger output.
pub fn run_into(
    x: &[f32],
    shape: Shape,
    conv: &Packed,
    residual: Option<&[f32]>,
    target: Target<'_>,
) -> Result<(), TensorError> {
    let spec = &conv.spec;
    let out = rules::conv(shape, spec)?;
    let pixels = out.n * out.h * out.w;
    let fits = x.len() == shape.len()
        && target.data.len() == pixels * target.channels
        && target.first + out.c <= target.channels
        && residual.is_none_or(|r| r.len() == out.len());
    assert!(fits, "buffers of a convolution {shape:?} to {out:?}");
    if out.is_empty() {
        return Ok(());
    }
    let output = Output {
        data: target.data.as_mut_ptr(),
        channels: target.channels,
        first: target.first,
        residual,
    };
    match &conv.weights {
        Weights::Depthwise(weights, bias) => {
            depthwise::run(spec, x, shape, out, weights, bias, &output);
        }
        Weights::Dense(dense) => match way(spec, out) {
            Way::Winograd(size) => {
                let cell = &conv.winograd[size as usize];
                let transformed = once(cell, || Ok(winograd::transform(spec, dense, size)))?;
                winograd::run(spec, x, shape, out, size, transformed, &output);
            }
            #[cfg(target_arch = "x86_64")]
            Way::Amx => {
                let tiles = once(&conv.amx, || Ok(amx::Weights::new(spec, dense)))?;
                amx::run(spec, x, shape, out, tiles, &output);
            }
            Way::Direct => direct::run(spec, x, shape, out, dense, &output),
        },
    }
    Ok(())
}
