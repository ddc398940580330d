//! The generator of the benchmark bex ("Evaluating Visual Counterfactual Explainers"): from a latent vector to a glyph.
//!
//! A BigGAN-like decoder. A small perceptron makes a map of 4×4; each group of residual blocks doubles its size; every
//! batch norm is conditional on the latent vector: `BN(x) · scale(z) + shift(z)` with one linear layer for both. A last
//! batch norm, a ReLU and a convolution with tanh give three channels from −1 to 1.
//!
//! Names are those of the package's state dict: `char_embedding`, `font_embedding`, `decoder.mlp`,
//! `decoder.group{i}.block{k}`, `decoder.bn_out`, `decoder.conv_out`. Number and widths of groups are read off the
//! weights, so that any channel multiplier loads. The statistics of a norm are folded into the convolution before it.

use super::NetError;
use super::bex_layers::{
    ChannelNorm, hidden_layers, package_scope, run_layers, sides, spectral_conv,
};
use super::layers::Scope;
use crate::tensor::{Activation, Array, Backend, Conv, Shape, StateDict};

/// A residual block that hears the latent vector.
struct Block<B: Backend> {
    /// The first norm; the second is part of the first convolution.
    norm: ChannelNorm,
    /// From the latent vector to scales and shifts.
    conditions: [B::Conv; 2],
    convs: [B::Conv; 2],
    shortcut: Option<B::Conv>,
    doubles: bool,
}

/// The generator.
pub struct BexGenerator<B: Backend> {
    characters: Array,
    fonts: Array,
    latent: usize,
    hidden: Vec<B::Conv>,
    to_map: B::Conv,
    side: usize,
    blocks: Vec<Block<B>>,
    norm: ChannelNorm,
    last: B::Conv,
}

impl<B: Backend> BexGenerator<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = package_scope(&Scope::new(dict), "decoder.conv_out.weight");
        let decoder = scope.at("decoder");
        let mlp = decoder.at("mlp");
        let first = match mlp.has("linear0.weight") {
            true => "linear0.weight",
            false => "linear_out.weight",
        };
        let [_, latent] = sides(&mlp, first)?;
        let (hidden, width) = hidden_layers(backend, &mlp, latent)?;
        let [nodes, _] = sides(&mlp, "linear_out.weight")?;
        let side = nodes.isqrt();
        if side * side != nodes {
            return Err(NetError::Shape {
                name: "decoder.mlp.linear_out.weight".into(),
                expected: "a square number of outputs: a map of one channel".into(),
                found: vec![nodes, width],
            });
        }
        let to_map = mlp
            .at("linear_out")
            .conv(backend, Conv::linear(width, nodes))?;
        let mut blocks = Vec::new();
        let mut channels = 1;
        for group in 0.. {
            let at = decoder.at(format!("group{group}"));
            if !is_block(&at.at("block0")) {
                break;
            }
            for index in 0.. {
                let at = at.at(format!("block{index}"));
                if !is_block(&at) {
                    break;
                }
                let (block, outputs) = block(backend, &at, channels, latent, index == 0)?;
                blocks.push(block);
                channels = outputs;
            }
        }
        let [colours, _] = sides(&decoder, "conv_out.weight")?;
        let last = Conv::square(channels, colours, 3)
            .padding(1)
            .activation(Activation::Tanh);
        Ok(Self {
            characters: scope.array("char_embedding.weight")?.clone(),
            fonts: scope.array("font_embedding.weight")?.clone(),
            latent,
            hidden,
            to_map,
            side,
            blocks,
            norm: ChannelNorm::new(&decoder.at("bn_out"), channels)?,
            last: decoder.at("conv_out").conv(backend, last)?,
        })
    }

    /// Length of a latent vector: 11 in the benchmark.
    pub fn latent(&self) -> usize {
        self.latent
    }

    /// Embeddings of the characters and of the typefaces, one row each.
    pub fn embeddings(&self) -> [&Array; 2] {
        [&self.characters, &self.fonts]
    }

    /// Latent vectors `[n, latent]` of characters and typefaces, given the other attributes `[n, k]`: embedding of the
    /// character, embedding of the typeface, attributes.
    pub fn embed(
        &self,
        characters_and_fonts: &[[usize; 2]],
        attributes: &Array,
    ) -> Result<Array, NetError> {
        let n = characters_and_fonts.len();
        let tables = self.embeddings();
        let widths = tables.map(|t| t.shape.get(1).copied().unwrap_or(0));
        let rest = self.latent.saturating_sub(widths[0] + widths[1]);
        if attributes.shape != [n, rest] {
            return Err(NetError::Shape {
                name: "attributes".into(),
                expected: format!("[{n}, {rest}]"),
                found: attributes.shape.clone(),
            });
        }
        let mut data = Vec::with_capacity(n * self.latent);
        for (row, pair) in characters_and_fonts.iter().enumerate() {
            for (table, &index) in tables.iter().zip(pair) {
                if index >= table.shape[0] {
                    return Err(NetError::Config(format!(
                        "embedding {index} of {}",
                        table.shape[0]
                    )));
                }
                data.extend_from_slice(table.row(index));
            }
            data.extend_from_slice(attributes.row(row));
        }
        Ok(Array::new([n, self.latent], data)?)
    }

    /// The images of raw (not standardised) latent vectors `[n, latent]`, with values from −1 to 1.
    pub fn generate(&self, b: &B, latents: &B::Tensor) -> Result<B::Tensor, NetError> {
        let n = b.shape(latents).n;
        let x = run_layers(b, &self.hidden, latents)?;
        let x = b.conv(&x, &self.to_map, None)?;
        let mut x = b.view(&x, Shape::new(n, self.side, self.side, 1))?;
        for block in &self.blocks {
            x = block.run(b, &x, latents)?;
        }
        let x = self.norm.run(b, &x, Activation::Relu)?;
        Ok(b.conv(&x, &self.last, None)?)
    }
}

impl<B: Backend> Block<B> {
    fn run(&self, b: &B, x: &B::Tensor, latents: &B::Tensor) -> Result<B::Tensor, NetError> {
        let resize = |x: B::Tensor| -> Result<B::Tensor, NetError> {
            match self.doubles {
                true => Ok(b.upsample(&x, 2)?),
                false => Ok(x),
            }
        };
        let [first, second] = &self.conditions;
        let h = self.norm.run(b, x, Activation::None)?;
        let h = b.modulate(&h, &b.conv(latents, first, None)?, Activation::Relu)?;
        let h = b.conv(&resize(h)?, &self.convs[0], None)?;
        let h = b.modulate(&h, &b.conv(latents, second, None)?, Activation::Relu)?;
        // A 1×1 convolution of repeated pixels is the repetition of the convolution.
        let shortcut = match &self.shortcut {
            Some(conv) => b.conv(x, conv, None)?,
            None => x.clone(),
        };
        Ok(b.conv(&h, &self.convs[1], Some(&resize(shortcut)?))?)
    }
}

/// True if a residual block lies here.
fn is_block(at: &Scope<'_>) -> bool {
    at.has("conv0.weight_orig") || at.has("conv0.weight")
}

/// A block and its number of outputs.
fn block<B: Backend>(
    backend: &B,
    at: &Scope<'_>,
    inputs: usize,
    latent: usize,
    doubles: bool,
) -> Result<(Block<B>, usize), NetError> {
    let original = match at.has("conv0.weight_orig") {
        true => "conv0.weight_orig",
        false => "conv0.weight",
    };
    let [outputs, _] = sides(at, original)?;
    let three = |i: usize| Conv::square(i, outputs, 3).padding(1);
    let short = at.at("conv_short");
    let shortcut = (inputs != outputs)
        .then(|| spectral_conv(backend, &short, None, Conv::square(inputs, outputs, 1)))
        .transpose()?;
    let condition = |name: &str, channels: usize| -> Result<B::Conv, NetError> {
        let linear = at.at(name).at("condition");
        linear.shaped("bias", &[2 * channels])?;
        linear.conv(backend, Conv::linear(latent, 2 * channels))
    };
    let second = at.at("bn1.bn");
    let block = Block {
        norm: ChannelNorm::plain(&at.at("bn0.bn"), inputs)?,
        conditions: [condition("bn0", inputs)?, condition("bn1", outputs)?],
        convs: [
            spectral_conv(backend, &at.at("conv0"), Some(&second), three(inputs))?,
            spectral_conv(backend, &at.at("conv1"), None, three(outputs))?,
        ],
        shortcut,
        doubles,
    };
    Ok((block, outputs))
}
