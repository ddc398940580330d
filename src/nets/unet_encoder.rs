//! The noise-aware classifier of guided-diffusion (Dhariwal & Nichol 2021): the encoder half of a UNet with
//! time embedding and attention pooling, `EncoderUNetModel` in the public code.

use serde::{Deserialize, Serialize};

use super::layers::Scope;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{
    Activation, Array, Attention, Backend, Conv, Norm, Pool, QkvLayout, Shape, StateDict,
};

const EPSILON: f32 = 1e-5;
const GROUPS: usize = 32;

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

struct Residual<B: Backend> {
    norm1: Norm,
    conv1: B::Conv,
    embedding: B::Conv,
    norm2: Norm,
    conv2: B::Conv,
    skip: Option<B::Conv>,
    down: bool,
}

struct Attend<B: Backend> {
    norm: Norm,
    qkv: B::Conv,
    projection: B::Conv,
    attention: Attention,
}

enum Layer<B: Backend> {
    Conv(B::Conv),
    Residual(Box<Residual<B>>),
    Attend(Attend<B>),
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
    time: [B::Conv; 2],
    time_width: usize,
    layers: Vec<Layer<B>>,
    pool: AttentionPool<B>,
}

fn attention_for(config: &UnetEncoderConfig, c: usize) -> Result<Attention, NetError> {
    let heads = match config.num_head_channels {
        0 => config.num_heads,
        per_head => c / per_head,
    };
    if heads == 0 || !c.is_multiple_of(heads) {
        return Err(NetError::Config(format!(
            "attention over {c} channels cannot have {heads} heads; check num_head_channels and num_heads"
        )));
    }
    let layout = if config.use_new_attention_order {
        QkvLayout::Stacked
    } else {
        QkvLayout::PerHead
    };
    Ok(Attention { heads, layout })
}

struct Loader<'a, B: Backend> {
    backend: &'a B,
    config: &'a UnetEncoderConfig,
    time_channels: usize,
}

impl<B: Backend> Loader<'_, B> {
    fn residual(&self, at: &Scope<'_>, down: bool) -> Result<(Residual<B>, usize), NetError> {
        let b = self.backend;
        let weight = at.array("in_layers.2.weight")?;
        let (outputs, inputs) = (weight.shape[0], weight.shape.get(1).copied().unwrap_or(0));
        let three = |i, o| Conv::square(i, o, 3).padding(1);
        let wide = if self.config.use_scale_shift_norm {
            2 * outputs
        } else {
            outputs
        };
        let skip = at.at("skip_connection");
        let skip = skip
            .has("weight")
            .then(|| {
                let kernel = skip.array("weight")?.shape.get(2).copied().unwrap_or(1);
                let spec = Conv::square(inputs, outputs, kernel).padding(kernel / 2);
                skip.conv(b, spec)
            })
            .transpose()?;
        let residual = Residual {
            norm1: at.at("in_layers.0").norm(inputs, EPSILON)?,
            conv1: at.at("in_layers.2").conv(b, three(inputs, outputs))?,
            embedding: at
                .at("emb_layers.1")
                .conv(b, Conv::linear(self.time_channels, wide))?,
            norm2: at.at("out_layers.0").norm(outputs, EPSILON)?,
            conv2: at.at("out_layers.3").conv(b, three(outputs, outputs))?,
            skip,
            down,
        };
        Ok((residual, outputs))
    }

    fn attend(&self, at: &Scope<'_>, c: usize) -> Result<Attend<B>, NetError> {
        Ok(Attend {
            norm: at.at("norm").norm(c, EPSILON)?,
            qkv: at.at("qkv").conv(self.backend, Conv::linear(c, 3 * c))?,
            projection: at.at("proj_out").conv(self.backend, Conv::linear(c, c))?,
            attention: attention_for(self.config, c)?,
        })
    }
}

impl<B: Backend> UnetEncoder<B> {
    pub fn new(backend: &B, dict: &StateDict, config: UnetEncoderConfig) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let first = scope.array("input_blocks.0.0.weight")?;
        let (width, inputs) = (first.shape[0], first.shape.get(1).copied().unwrap_or(3));
        let time_channels = scope.array("time_embed.0.weight")?.shape[0];
        let silu = |c: Conv| c.activation(Activation::Silu);
        // Every user of the time embedding applies SiLU to it first, so it is applied once here.
        let time = [
            scope
                .at("time_embed.0")
                .conv(backend, silu(Conv::linear(width, time_channels)))?,
            scope
                .at("time_embed.2")
                .conv(backend, silu(Conv::linear(time_channels, time_channels)))?,
        ];
        let loader = Loader {
            backend,
            config: &config,
            time_channels,
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
                let spec = Conv::square(c, c, 3).stride(2).padding(1);
                layers.push(Layer::Conv(at.at("0.op").conv(backend, spec)?));
            } else if at.has("0.in_layers.2.weight") {
                let down =
                    config.resblock_updown && index.is_multiple_of(config.num_res_blocks + 1);
                let (residual, outputs) = loader.residual(&at.at(0), down)?;
                layers.push(Layer::Residual(Box::new(residual)));
                c = outputs;
                if at.has("1.qkv.weight") {
                    layers.push(Layer::Attend(loader.attend(&at.at(1), c)?));
                }
            } else {
                break;
            }
            index += 1;
        }
        let middle = scope.at("middle_block");
        let (before, _) = loader.residual(&middle.at(0), false)?;
        let (after, _) = loader.residual(&middle.at(2), false)?;
        layers.push(Layer::Residual(Box::new(before)));
        layers.push(Layer::Attend(loader.attend(&middle.at(1), c)?));
        layers.push(Layer::Residual(Box::new(after)));
        let pool = attention_pool(backend, &scope.at("out"), &config, c)?;
        Ok(Self {
            config,
            time,
            time_width: width,
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
        let embedded = sinusoidal(timesteps, self.time_width);
        let time = b.conv(&b.upload(&embedded)?, &self.time[0], None)?;
        let time = b.conv(&time, &self.time[1], None)?;
        let mut x = x.clone();
        for layer in &self.layers {
            x = match layer {
                Layer::Conv(conv) => b.conv(&x, conv, None)?,
                Layer::Residual(residual) => self.residual(b, &x, residual, &time)?,
                Layer::Attend(attend) => {
                    let norm = b.group_norm(&x, GROUPS, &attend.norm, None, Activation::None)?;
                    let qkv = b.conv(&norm, &attend.qkv, None)?;
                    let mixed = b.attention(&qkv, attend.attention, None)?;
                    b.conv(&mixed, &attend.projection, Some(&x))?
                }
            };
        }
        self.pool.run(b, &x)
    }

    fn residual(
        &self,
        b: &B,
        x: &B::Tensor,
        r: &Residual<B>,
        time: &B::Tensor,
    ) -> Result<B::Tensor, NetError> {
        let halve = |t: &B::Tensor| b.pool(t, Pool::mean(2, 2));
        let mut h = b.group_norm(x, GROUPS, &r.norm1, None, Activation::Silu)?;
        let mut x = x.clone();
        if r.down {
            h = halve(&h)?;
            x = halve(&x)?;
        }
        let h = b.conv(&h, &r.conv1, None)?;
        let embedding = b.conv(time, &r.embedding, None)?;
        let h = if self.config.use_scale_shift_norm {
            b.group_norm(&h, GROUPS, &r.norm2, Some(&embedding), Activation::Silu)?
        } else {
            let h = b.add(&h, &embedding)?;
            b.group_norm(&h, GROUPS, &r.norm2, None, Activation::Silu)?
        };
        let skip = match &r.skip {
            Some(conv) => b.conv(&x, conv, None)?,
            None => x,
        };
        Ok(b.conv(&h, &r.conv2, Some(&skip))?)
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
    let heads = attention_for(config, c)?.heads;
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

/// Cosines, then sines, of the step times frequencies from 1 down to 1/10000; an odd width ends with a zero.
pub(super) fn sinusoidal(timesteps: &[f32], width: usize) -> Array {
    let half = width / 2;
    let mut array = Array::zeros([timesteps.len(), width]);
    for (row, t) in array.data.chunks_mut(width.max(1)).zip(timesteps) {
        for i in 0..half {
            let frequency = (-(10000.0f32.ln()) * i as f32 / half as f32).exp();
            let angle = t * frequency;
            row[i] = angle.cos();
            row[half + i] = angle.sin();
        }
    }
    array
}

impl<B: Backend> Classifier<B> for UnetEncoder<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let n = b.shape(x).n;
        self.predict_at(b, x, &vec![self.config.timestep; n])
    }
}
