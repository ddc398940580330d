//! The denoising UNet of guided-diffusion (Dhariwal & Nichol 2021), `UNetModel` in the public code.
//!
//! Layout and widths are read off the names and shapes of its state dict: residual blocks and attentions by their
//! tensors; levels by where the size changes, be it in a residual block, by a convolution or without any weight;
//! scale-and-shift norms by the width of the time embedding; classes by `label_emb`.

use std::fmt::Arguments;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::NetError;
use super::layers::Scope;
use super::unet_blocks::{EPSILON, GROUPS, Heads, Layer, Loader, Resample, TimeEmbedding, grouped};
use crate::tensor::{Activation, Backend, Conv, Kept, Norm, Part, Piece, StateDict, TensorError};

/// Settings that cannot be read off the weights; defaults are those of the published 256×256 models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UnetConfig {
    /// Channels per attention head.
    pub num_head_channels: usize,
    /// Heads per attention, if `num_head_channels` is 0.
    pub num_heads: usize,
    /// Heads in the second half, if `num_head_channels` is 0; 0 for the same as in the first.
    pub num_heads_upsample: usize,
    /// `[3][heads][d]` instead of `[heads][3][d]`.
    pub use_new_attention_order: bool,
    /// Groups of channels that a norm takes together.
    pub num_groups: usize,
    /// Type that weights and activations of the blocks are kept in (`use_fp16` of the public code); time, statistics of
    /// norms and the last layers stay f32.
    #[serde(with = "super::kept_by_name::always")]
    pub torso: Kept,
}

impl Default for UnetConfig {
    fn default() -> Self {
        Self {
            num_head_channels: 64,
            num_heads: 4,
            num_heads_upsample: 0,
            use_new_attention_order: false,
            num_groups: GROUPS,
            torso: Kept::F32,
        }
    }
}

type Block<B> = Vec<Layer<B>>;

/// The denoising UNet.
pub struct Unet<B: Backend> {
    time: TimeEmbedding<B>,
    inputs: Vec<Arc<Block<B>>>,
    middle: Arc<Block<B>>,
    outputs: Vec<Arc<Block<B>>>,
    last: Arc<Last<B>>,
    torso: Kept,
    checkpointing: bool,
}

/// What makes the prediction of the last activations.
struct Last<B: Backend> {
    norm: Norm,
    groups: usize,
    conv: B::Conv,
}

/// Where the size changes.
struct Levels {
    /// Blocks from one change of size to the next; `None` for a single level.
    period: Option<usize>,
    /// The size changes inside residual blocks.
    in_residual: bool,
}

impl Levels {
    fn read(inputs: &Scope<'_>, outputs: &Scope<'_>) -> Self {
        let residual = |at: &Scope<'_>, i: usize| at.at(i).has("in_layers.2.weight");
        let exists = |i: usize| {
            let at = inputs.at(i);
            residual(&at, 0) || at.has("0.op.weight")
        };
        let doubles = |k: usize| {
            let at = outputs.at(k);
            (1..3).any(|i| residual(&at, i) || at.at(i).has("conv.weight"))
        };
        let in_residual = (0..)
            .take_while(|&k| residual(&outputs.at(k), 0))
            .any(|k| (1..3).any(|i| residual(&outputs.at(k), i)));
        // On the way down a convolution, or a block without weights; else the first block up that doubles the size.
        let down = (1usize..)
            .take_while(|&i| exists(i) || exists(i + 1))
            .find(|&i| !residual(&inputs.at(i), 0));
        let up = (0usize..)
            .take_while(|&k| residual(&outputs.at(k), 0))
            .find(|&k| doubles(k));
        Self {
            period: down.or(up.map(|k| k + 1)),
            in_residual,
        }
    }

    /// True if the size changes at the block of this index, counted from 1.
    fn changes(&self, index: usize) -> bool {
        self.period.is_some_and(|p| index.is_multiple_of(p))
    }
}

impl<B: Backend> Unet<B> {
    pub fn new(backend: &B, dict: &StateDict, config: UnetConfig) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let first = scope.array("input_blocks.0.0.weight")?;
        let (width, channels) = (first.shape[0], first.shape.get(1).copied().unwrap_or(3));
        let heads = Heads {
            channels: config.num_head_channels,
            heads: config.num_heads,
            new_order: config.use_new_attention_order,
        };
        let loader = |heads: Heads| -> Result<Loader<'_, B>, NetError> {
            Ok(Loader {
                backend,
                heads,
                groups: config.num_groups,
                time_channels: scope.array("time_embed.0.weight")?.shape[0],
                scale_shift: None,
                kept: config.torso,
            })
        };
        let down = loader(heads)?;
        let up = loader(match config.num_heads_upsample {
            0 => heads,
            heads_up => Heads {
                heads: heads_up,
                ..heads
            },
        })?;
        let (at_inputs, at_outputs) = (scope.at("input_blocks"), scope.at("output_blocks"));
        let levels = Levels::read(&at_inputs, &at_outputs);
        let stem = Conv::square(channels, width, 3).padding(1);
        let stem = at_inputs
            .at("0.0")
            .rounded_conv(backend, stem, config.torso)?;
        let stem = Layer::Conv(stem);
        let mut inputs = vec![Arc::new(vec![stem])];
        let mut widths = vec![width];
        let mut c = width;
        for index in 1.. {
            let at = at_inputs.at(index);
            let block = if at.has("0.in_layers.2.weight") {
                let halve = levels.in_residual && levels.changes(index);
                let resample = if halve {
                    Resample::Halve
                } else {
                    Resample::Keep
                };
                let (residual, outputs) = down.residual(&at.at(0), resample)?;
                c = outputs;
                let mut block = vec![residual];
                if at.has("1.qkv.weight") {
                    block.push(down.attend(&at.at(1), c)?);
                }
                block
            } else if at.has("0.op.weight") {
                vec![down.conv(&at.at("0.op"), c, 2)?]
            } else if at_inputs.at(index + 1).has("0.in_layers.2.weight") {
                vec![Layer::Resample(Resample::Halve)]
            } else {
                break;
            };
            inputs.push(Arc::new(block));
            widths.push(c);
        }
        let (middle, mut c) = down.middle(&scope.at("middle_block"))?;
        let mut outputs = Vec::new();
        for index in 0..inputs.len() {
            let at = at_outputs.at(index);
            // The width must fit what is joined here: the block before and its partner on the way down.
            let joined = c + widths.pop().unwrap_or(0);
            at.shaped("0.in_layers.0.weight", &[joined])?;
            let (residual, outputs_here) = up.residual(&at.at(0), Resample::Keep)?;
            c = outputs_here;
            let mut block = vec![residual];
            let mut next = 1;
            if at.has("1.qkv.weight") {
                block.push(up.attend(&at.at(1), c)?);
                next = 2;
            }
            let at_next = at.at(next);
            if at_next.has("in_layers.2.weight") {
                block.push(up.residual(&at_next, Resample::Double)?.0);
            } else if at_next.has("conv.weight") {
                block.push(Layer::Resample(Resample::Double));
                block.push(up.conv(&at_next.at("conv"), c, 1)?);
            } else if levels.changes(index + 1) && index + 1 < inputs.len() {
                block.push(Layer::Resample(Resample::Double));
            }
            outputs.push(Arc::new(block));
        }
        let out = scope.at("out");
        let predicted = out.array("2.weight")?.shape[0];
        Ok(Self {
            time: TimeEmbedding::new(backend, dict)?,
            inputs,
            middle: Arc::new(middle),
            outputs,
            last: Arc::new(Last {
                norm: out.at(0).norm(c, EPSILON)?,
                groups: grouped(config.num_groups, c)?,
                conv: out
                    .at(2)
                    .conv(backend, Conv::square(c, predicted, 3).padding(1))?,
            }),
            torso: config.torso,
            checkpointing: false,
        })
    }

    /// With checkpointing the way back needs little memory, and the time of another forward pass: only what goes into
    /// each block is kept, and the block is run again. Gradients stay the same to the bit.
    pub fn with_checkpointing(mut self, checkpointing: bool) -> Self {
        self.checkpointing = checkpointing;
        self
    }

    /// Runs noisy images at the given diffusion steps (of the full schedule), one per image, with one class each if
    /// the network is conditional. The result holds the noise and, where it was learnt, the variance fraction behind it.
    pub fn predict(
        &self,
        b: &B,
        x: &B::Tensor,
        timesteps: &[f32],
        labels: Option<&[usize]>,
    ) -> Result<B::Tensor, NetError> {
        self.run(b, x, timesteps, labels, &mut |_, _| {})
    }

    /// The same, for a network without classes; `watch` sees what each block gives, by its name in the public code, and
    /// `time_embed.silu`.
    pub fn watched(
        &self,
        b: &B,
        x: &B::Tensor,
        timesteps: &[f32],
        mut watch: impl FnMut(&str, &B::Tensor),
    ) -> Result<B::Tensor, NetError> {
        let mut seen = |name: Arguments<'_>, x: &B::Tensor| watch(&name.to_string(), x);
        self.run(b, x, timesteps, None, &mut seen)
    }

    fn run(
        &self,
        b: &B,
        x: &B::Tensor,
        timesteps: &[f32],
        labels: Option<&[usize]>,
        watch: &mut dyn FnMut(Arguments<'_>, &B::Tensor),
    ) -> Result<B::Tensor, NetError> {
        let n = b.shape(x).n;
        if timesteps.len() != n {
            return Err(NetError::Config(format!(
                "{n} images, but {} time steps",
                timesteps.len()
            )));
        }
        let time = self.time.run(b, timesteps, labels)?;
        watch(format_args!("time_embed.silu"), &time);
        let run = |inputs: &[B::Tensor], block: &Arc<Block<B>>| {
            b.piece(inputs, self.checkpointing, piece(block.clone(), &time))
        };
        let h = b.torso(x, self.torso, |mut h| -> Result<B::Tensor, NetError> {
            let mut skips = Vec::with_capacity(self.inputs.len());
            for (i, block) in self.inputs.iter().enumerate() {
                h = run(&[h], block)?;
                watch(format_args!("input_blocks.{i}"), &h);
                skips.push(h.clone());
            }
            h = run(&[h], &self.middle)?;
            watch(format_args!("middle_block"), &h);
            for (i, block) in self.outputs.iter().enumerate() {
                h = match skips.pop() {
                    Some(skip) => run(&[h, skip], block)?,
                    None => run(&[h], block)?,
                };
                watch(format_args!("output_blocks.{i}"), &h);
            }
            Ok(h)
        })?;
        let last = self.last.clone();
        let last: Piece<B> = Arc::new(move |b: &B, inputs: &[B::Tensor]| {
            let h = &inputs[0];
            let h = b.group_norm(h, last.groups, &last.norm, None, Activation::Silu)?;
            b.conv(&h, &last.conv, None)
        });
        Ok(b.piece(&[h], self.checkpointing, last)?)
    }
}

/// A block: joins what goes into it, and runs its layers.
fn piece<B: Backend>(block: Arc<Block<B>>, time: &B::Tensor) -> Piece<B> {
    let time = time.clone();
    Arc::new(move |b: &B, inputs: &[B::Tensor]| {
        let mut h = match inputs {
            [one] => one.clone(),
            many => {
                let parts: Vec<Part<'_, B>> = many.iter().map(Part::Tensor).collect();
                b.concat(&parts)?
            }
        };
        for layer in block.iter() {
            h = layer.run(b, &h, &time).map_err(|error| match error {
                NetError::Tensor(error) => error,
                other => TensorError::Device(other.to_string()),
            })?;
        }
        Ok(h)
    })
}
