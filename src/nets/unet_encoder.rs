//! The noise-aware classifier of guided-diffusion (Dhariwal & Nichol 2021): the encoder half of a UNet with
//! time embedding and attention pooling, `EncoderUNetModel` in the public code.

use serde::{Deserialize, Serialize};

use super::layers::Scope;
use super::unet_blocks::{EPSILON, GROUPS, Heads, Layer, Loader, Resample, TimeEmbedding};
use super::{Classifier, NetError, Prediction};
use crate::tensor::{
    Activation, Array, Attention, Backend, Conv, Kept, Norm, QkvLayout, Shape, StateDict,
};

/// Settings that cannot be read off the weights; defaults are those of the published 256×256 classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UnetEncoderConfig {
    /// Residual blocks per level; the block after them halves the size.
    pub num_res_blocks: usize,
    /// Channels per attention head.
    pub num_head_channels: usize,
    /// Heads per attention, if `num_head_channels` is 0.
    pub num_heads: usize,
    pub use_scale_shift_norm: bool,
    /// Blocks that halve the size do so inside a residual block.
    pub resblock_updown: bool,
    /// `[3][heads][d]` instead of `[heads][3][d]`.
    pub use_new_attention_order: bool,
    /// Diffusion step the images are said to be at; clean images are at 0.
    pub timestep: f32,
}

impl Default for UnetEncoderConfig {
    fn default() -> Self {
        Self {
            num_res_blocks: 2,
            num_head_channels: 64,
            num_heads: 1,
            use_scale_shift_norm: true,
            resblock_updown: true,
            use_new_attention_order: false,
            timestep: 0.0,
        }
    }
}

/// Attention pooling: the mean of all pixels asks them what to keep.
struct AttentionPool<B: Backend> {
    norm: Norm,
    positions: B::Tensor,
    qkv: B::Conv,
    projection: B::Conv,
    attention: Attention,
}

/// The encoder UNet classifier; layout and widths are read off the weights.
pub struct UnetEncoder<B: Backend> {
    config: UnetEncoderConfig,
    time: TimeEmbedding<B>,
    layers: Vec<Layer<B>>,
    pool: AttentionPool<B>,
}

impl UnetEncoderConfig {
    fn heads(&self) -> Heads {
        Heads {
            channels: self.num_head_channels,
            heads: self.num_heads,
            new_order: self.use_new_attention_order,
        }
    }
}

impl<B: Backend> UnetEncoder<B> {
    pub fn new(backend: &B, dict: &StateDict, config: UnetEncoderConfig) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let first = scope.array("input_blocks.0.0.weight")?;
        let (width, inputs) = (first.shape[0], first.shape.get(1).copied().unwrap_or(3));
        let loader = Loader {
            backend,
            heads: config.heads(),
            groups: GROUPS,
            time_channels: scope.array("time_embed.0.weight")?.shape[0],
            scale_shift: Some(config.use_scale_shift_norm),
            kept: Kept::F32,
        };
        let mut layers = vec![Layer::Conv(
            scope
                .at("input_blocks.0.0")
                .conv(backend, Conv::square(inputs, width, 3).padding(1))?,
        )];
        let mut c = width;
        let mut index: usize = 1;
        loop {
            let at = scope.at("input_blocks").at(index);
            if at.has("0.op.weight") {
                layers.push(loader.conv(&at.at("0.op"), c, 2)?);
            } else if at.has("0.in_layers.2.weight") {
                let halve =
                    config.resblock_updown && index.is_multiple_of(config.num_res_blocks + 1);
                let resample = if halve {
                    Resample::Halve
                } else {
                    Resample::Keep
                };
                let (residual, outputs) = loader.residual(&at.at(0), resample)?;
                layers.push(residual);
                c = outputs;
                if at.has("1.qkv.weight") {
                    layers.push(loader.attend(&at.at(1), c)?);
                }
            } else {
                break;
            }
            index += 1;
        }
        let (middle, c) = loader.middle(&scope.at("middle_block"))?;
        layers.extend(middle);
        let pool = attention_pool(backend, &scope.at("out"), &config, c)?;
        Ok(Self {
            time: TimeEmbedding::new(backend, dict)?,
            config,
            layers,
            pool,
        })
    }

    /// Runs a batch in [-1, 1] at the given diffusion steps, one per image.
    pub fn predict_at(
        &self,
        b: &B,
        x: &B::Tensor,
        timesteps: &[f32],
    ) -> Result<Prediction<B>, NetError> {
        let time = self.time.run(b, timesteps, None)?;
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.run(b, &x, &time)?;
        }
        self.pool.run(b, &x)
    }
}

fn attention_pool<B: Backend>(
    backend: &B,
    out: &Scope<'_>,
    config: &UnetEncoderConfig,
    c: usize,
) -> Result<AttentionPool<B>, NetError> {
    if !out.has("2.positional_embedding") {
        return Err(NetError::Config(
            "only encoder UNets with attention pooling (`out.2.positional_embedding`) are supported".into(),
        ));
    }
    let pool = out.at(2);
    let embedding = pool.array("positional_embedding")?;
    let tokens = embedding.shape.get(1).copied().unwrap_or(0);
    let embedding = pool.shaped("positional_embedding", &[c, tokens])?;
    let mut positions = Array::zeros([1, tokens * c]);
    for token in 0..tokens {
        for channel in 0..c {
            positions.data[token * c + channel] = embedding.data[channel * tokens + token];
        }
    }
    let classes = pool.array("c_proj.weight")?.shape[0];
    let heads = config.heads().over(c)?.heads;
    Ok(AttentionPool {
        norm: out.at(0).norm(c, EPSILON)?,
        positions: backend.view(&backend.upload(&positions)?, Shape::new(1, 1, tokens, c))?,
        qkv: pool.at("qkv_proj").conv(backend, Conv::linear(c, 3 * c))?,
        projection: pool.at("c_proj").conv(backend, Conv::linear(c, classes))?,
        attention: Attention {
            heads,
            layout: QkvLayout::Stacked,
        },
    })
}

impl<B: Backend> AttentionPool<B> {
    fn run(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let Shape { n, h, w, c } = b.shape(x);
        let tokens = b.shape(&self.positions).w;
        if h * w + 1 != tokens {
            return Err(NetError::Config(format!(
                "this encoder UNet pools {} positions, but the image gives {h}x{w}; resize the images to the size it was trained on",
                tokens - 1
            )));
        }
        let x = b.group_norm(x, GROUPS, &self.norm, None, Activation::Silu)?;
        let mean = b.global_mean(&x);
        let flat = b.view(&x, Shape::new(n, 1, 1, h * w * c))?;
        let joined = b.concat(&[
            crate::tensor::Part::Tensor(&mean),
            crate::tensor::Part::Tensor(&flat),
        ])?;
        let joined = b.view(&joined, Shape::new(n, 1, tokens, c))?;
        let joined = b.add(&joined, &self.positions)?;
        let qkv = b.conv(&joined, &self.qkv, None)?;
        let mixed = b.attention(&qkv, self.attention, None)?;
        let mixed = b.view(&mixed, Shape::new(n, 1, 1, tokens * c))?;
        let first: Vec<usize> = (0..c).collect();
        let embedding = b.affine(&mixed, &first, &vec![1.0; c], &vec![0.0; c])?;
        let logits = b.conv(&embedding, &self.projection, None)?;
        Ok(Prediction { logits, embedding })
    }
}

impl<B: Backend> Classifier<B> for UnetEncoder<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let n = b.shape(x).n;
        self.predict_at(b, x, &vec![self.config.timestep; n])
    }
}
