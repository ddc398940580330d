//! What the UNets of guided-diffusion (Dhariwal & Nichol 2021) are made of: residual blocks with a time embedding,
//! attention over pixels, halving and doubling of the size.

use super::NetError;
use super::layers::Scope;
use crate::tensor::{
    Activation, Array, Attention, Backend, Conv, Kept, Norm, Pool, QkvLayout, StateDict,
};

pub const EPSILON: f32 = 1e-5;
/// Groups of a norm in the public code.
pub const GROUPS: usize = 32;

/// The number of groups, if they share out the channels evenly.
pub fn grouped(groups: usize, c: usize) -> Result<usize, NetError> {
    if groups == 0 || !c.is_multiple_of(groups) {
        return Err(NetError::Config(format!(
            "{c} channels cannot be normalised in {groups} groups; check num_groups"
        )));
    }
    Ok(groups)
}

/// How channels are shared out among the heads of an attention; cannot be read off the weights.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Channels per head, or 0 to go by `heads`.
    pub channels: usize,
    pub heads: usize,
    /// `[3][heads][d]` instead of `[heads][3][d]`.
    pub new_order: bool,
}

impl Heads {
    pub fn over(&self, c: usize) -> Result<Attention, NetError> {
        let heads = match self.channels {
            0 => self.heads,
            per_head => c / per_head,
        };
        if heads == 0 || !c.is_multiple_of(heads) {
            return Err(NetError::Config(format!(
                "attention over {c} channels cannot have {heads} heads; check num_head_channels and num_heads"
            )));
        }
        let layout = if self.new_order {
            QkvLayout::Stacked
        } else {
            QkvLayout::PerHead
        };
        Ok(Attention { heads, layout })
    }
}

/// What a block does to the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resample {
    Keep,
    Halve,
    Double,
}

impl Resample {
    /// Means of 2×2 pixels, or each pixel four times.
    pub fn run<B: Backend>(self, b: &B, x: &B::Tensor) -> Result<B::Tensor, NetError> {
        Ok(match self {
            Resample::Keep => x.clone(),
            Resample::Halve => b.pool(x, Pool::mean(2, 2))?,
            Resample::Double => b.upsample(x, 2)?,
        })
    }
}

/// A residual block that hears the time.
pub struct Residual<B: Backend> {
    norm1: Norm,
    conv1: B::Conv,
    embedding: B::Conv,
    norm2: Norm,
    conv2: B::Conv,
    skip: Option<B::Conv>,
    resample: Resample,
    scale_shift: bool,
    groups: usize,
}

impl<B: Backend> Residual<B> {
    fn run(&self, b: &B, x: &B::Tensor, time: &B::Tensor) -> Result<B::Tensor, NetError> {
        let h = b.group_norm(x, self.groups, &self.norm1, None, Activation::Silu)?;
        let h = self.resample.run(b, &h)?;
        let x = self.resample.run(b, x)?;
        let h = b.conv(&h, &self.conv1, None)?;
        let embedding = b.conv(time, &self.embedding, None)?;
        let h = if self.scale_shift {
            b.group_norm(
                &h,
                self.groups,
                &self.norm2,
                Some(&embedding),
                Activation::Silu,
            )?
        } else {
            let h = b.add(&h, &embedding)?;
            b.group_norm(&h, self.groups, &self.norm2, None, Activation::Silu)?
        };
        let skip = match &self.skip {
            Some(conv) => b.conv(&x, conv, None)?,
            None => x,
        };
        Ok(b.conv(&h, &self.conv2, Some(&skip))?)
    }
}

/// Attention over all pixels, added to its input.
pub struct Attend<B: Backend> {
    norm: Norm,
    qkv: B::Conv,
    projection: B::Conv,
    attention: Attention,
    groups: usize,
}

impl<B: Backend> Attend<B> {
    fn run(&self, b: &B, x: &B::Tensor) -> Result<B::Tensor, NetError> {
        let norm = b.group_norm(x, self.groups, &self.norm, None, Activation::None)?;
        let qkv = b.conv(&norm, &self.qkv, None)?;
        let mixed = b.attention(&qkv, self.attention, None)?;
        Ok(b.conv(&mixed, &self.projection, Some(x))?)
    }
}

/// One layer of a UNet.
pub enum Layer<B: Backend> {
    Conv(B::Conv),
    Residual(Box<Residual<B>>),
    Attend(Attend<B>),
    Resample(Resample),
}

impl<B: Backend> Layer<B> {
    pub fn run(&self, b: &B, x: &B::Tensor, time: &B::Tensor) -> Result<B::Tensor, NetError> {
        match self {
            Layer::Conv(conv) => Ok(b.conv(x, conv, None)?),
            Layer::Residual(residual) => residual.run(b, x, time),
            Layer::Attend(attend) => attend.run(b, x),
            Layer::Resample(resample) => resample.run(b, x),
        }
    }
}

/// Builds layers from their scopes.
pub struct Loader<'a, B: Backend> {
    pub backend: &'a B,
    pub heads: Heads,
    /// Groups of every norm.
    pub groups: usize,
    pub time_channels: usize,
    /// Whether the time embedding scales and shifts; `None` to read it off the width of the embedding.
    pub scale_shift: Option<bool>,
    /// Type that weights of convolutions are rounded to; those of norms and of the time stay f32, as in the public code.
    pub kept: Kept,
}

impl<B: Backend> Loader<'_, B> {
    /// A residual block and its number of outputs.
    pub fn residual(
        &self,
        at: &Scope<'_>,
        resample: Resample,
    ) -> Result<(Layer<B>, usize), NetError> {
        let b = self.backend;
        let weight = at.array("in_layers.2.weight")?;
        let (outputs, inputs) = (weight.shape[0], weight.shape.get(1).copied().unwrap_or(0));
        let three = |i, o| Conv::square(i, o, 3).padding(1);
        let embedded = at.array("emb_layers.1.weight")?.shape[0];
        let scale_shift = self.scale_shift.unwrap_or(embedded == 2 * outputs);
        let wide = if scale_shift { 2 * outputs } else { outputs };
        let skip = at.at("skip_connection");
        let skip = skip
            .has("weight")
            .then(|| {
                let kernel = skip.array("weight")?.shape.get(2).copied().unwrap_or(1);
                let spec = Conv::square(inputs, outputs, kernel).padding(kernel / 2);
                skip.rounded_conv(b, spec, self.kept)
            })
            .transpose()?;
        let residual = Residual {
            norm1: at.at("in_layers.0").norm(inputs, EPSILON)?,
            conv1: { at.at("in_layers.2") }.rounded_conv(b, three(inputs, outputs), self.kept)?,
            embedding: at
                .at("emb_layers.1")
                .conv(b, Conv::linear(self.time_channels, wide))?,
            norm2: at.at("out_layers.0").norm(outputs, EPSILON)?,
            conv2: { at.at("out_layers.3") }.rounded_conv(b, three(outputs, outputs), self.kept)?,
            skip,
            resample,
            scale_shift,
            groups: grouped(grouped(self.groups, inputs)?, outputs)?,
        };
        Ok((Layer::Residual(Box::new(residual)), outputs))
    }

    pub fn attend(&self, at: &Scope<'_>, c: usize) -> Result<Layer<B>, NetError> {
        let linear = |name: &str, outputs: usize| {
            let spec = Conv::linear(c, outputs);
            at.at(name).rounded_conv(self.backend, spec, self.kept)
        };
        Ok(Layer::Attend(Attend {
            norm: at.at("norm").norm(c, EPSILON)?,
            qkv: linear("qkv", 3 * c)?,
            projection: linear("proj_out", c)?,
            attention: self.heads.over(c)?,
            groups: grouped(self.groups, c)?,
        }))
    }

    /// A 3×3 convolution that keeps the number of channels.
    pub fn conv(&self, at: &Scope<'_>, c: usize, stride: usize) -> Result<Layer<B>, NetError> {
        let spec = Conv::square(c, c, 3).stride(stride).padding(1);
        let conv = at.rounded_conv(self.backend, spec, self.kept)?;
        Ok(Layer::Conv(conv))
    }

    /// Residual block, attention, residual block.
    pub fn middle(&self, at: &Scope<'_>) -> Result<(Vec<Layer<B>>, usize), NetError> {
        let (before, c) = self.residual(&at.at(0), Resample::Keep)?;
        let attend = self.attend(&at.at(1), c)?;
        let (after, c) = self.residual(&at.at(2), Resample::Keep)?;
        Ok((vec![before, attend, after], c))
    }
}

/// The time (and class) as one vector for all blocks.
pub struct TimeEmbedding<B: Backend> {
    layers: [B::Conv; 2],
    width: usize,
    /// One row per class, if the network is conditional.
    classes: Option<Array>,
}

impl<B: Backend> TimeEmbedding<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let first = scope.array("time_embed.0.weight")?;
        let (channels, width) = (first.shape[0], first.shape.get(1).copied().unwrap_or(0));
        let classes = match scope.has("label_emb.weight") {
            false => None,
            true => {
                let rows = scope.array("label_emb.weight")?.shape[0];
                Some(scope.shaped("label_emb.weight", &[rows, channels])?.clone())
            }
        };
        // Every user applies SiLU first, so it is applied once here; a class is added before that.
        let silu = |c: Conv| c.activation(Activation::Silu);
        let second = Conv::linear(channels, channels);
        let second = if classes.is_some() {
            second
        } else {
            silu(second)
        };
        let layers = [
            scope
                .at("time_embed.0")
                .conv(backend, silu(Conv::linear(width, channels)))?,
            scope.at("time_embed.2").conv(backend, second)?,
        ];
        Ok(Self {
            layers,
            width,
            classes,
        })
    }

    /// Embeds one step per image, and one class if the network is conditional.
    pub fn run(
        &self,
        b: &B,
        timesteps: &[f32],
        labels: Option<&[usize]>,
    ) -> Result<B::Tensor, NetError> {
        let time = b.upload(&sinusoidal(timesteps, self.width))?;
        let time = b.conv(&time, &self.layers[0], None)?;
        let time = b.conv(&time, &self.layers[1], None)?;
        let (classes, labels) = match (&self.classes, labels) {
            (None, None) => return Ok(time),
            (Some(classes), Some(labels)) if labels.len() == timesteps.len() => (classes, labels),
            (Some(classes), _) => {
                return Err(NetError::Config(format!(
                    "this UNet was trained with {} classes: give one label per image",
                    classes.shape[0]
                )));
            }
            (None, Some(_)) => {
                return Err(NetError::Config(
                    "labels were given, but this UNet knows no classes".into(),
                ));
            }
        };
        let mut rows = Array::zeros([labels.len(), classes.shape[1]]);
        for (row, &label) in rows.data.chunks_mut(classes.shape[1]).zip(labels) {
            if label >= classes.shape[0] {
                return Err(NetError::Config(format!(
                    "class {label} of {}",
                    classes.shape[0]
                )));
            }
            row.copy_from_slice(classes.row(label));
        }
        let sum = b.add(&time, &b.upload(&rows)?)?;
        Ok(b.activate(&sum, Activation::Silu))
    }
}

/// Cosines, then sines, of the step times frequencies from 1 down to 1/10000; an odd width ends with a zero.
pub fn sinusoidal(timesteps: &[f32], width: usize) -> Array {
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
