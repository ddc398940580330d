//! The encoder of the benchmark bex ("Evaluating Visual Counterfactual Explainers"): from a glyph to what it shows.
//!
//! A residual network with norms in front of its convolutions. The first block of each group halves the size by means
//! of 2×2 pixels; a last norm and a leaky ReLU give the features whose differences the generator was trained on; their
//! mean over pixels goes through a perceptron with three heads: attributes, typeface, character.
//!
//! Names are those of the package's state dict: `encoder.group{i}.block_{k}`, `encoder.bn_out`, `encoder.mlp`. Number
//! and widths of groups are read off the weights. Dropout does nothing in evaluation.

use super::bex_layers::{ChannelNorm, EPSILON, hidden_layers, package_scope, run_layers, sides};
use super::layers::Scope;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Pool, StateDict};

/// A residual block.
struct Block<B: Backend> {
    norm: ChannelNorm,
    /// With the norm and the ReLU behind it.
    first: B::Conv,
    second: B::Conv,
    shortcut: Option<B::Conv>,
    halves: bool,
}

/// What the encoder sees in a batch.
pub struct BexEncoding<B: Backend> {
    /// The map before the mean over pixels.
    pub features: B::Tensor,
    /// `[n, 5]`: inverse colour, scale, x, y, rotation.
    pub continuous: B::Tensor,
    /// `[n, 48]` before the softmax.
    pub font: B::Tensor,
    /// `[n, 48]` before the softmax.
    pub character: B::Tensor,
    /// `[n, d]`: what the heads see.
    pub hidden: B::Tensor,
}

/// The encoder. As a [`Classifier`] it tells characters apart.
pub struct BexEncoder<B: Backend> {
    blocks: Vec<Block<B>>,
    norm: ChannelNorm,
    hidden: Vec<B::Conv>,
    /// Attributes, typeface, character.
    heads: [B::Conv; 3],
}

impl<B: Backend> BexEncoder<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = package_scope(&Scope::new(dict), "encoder.bn_out.weight").at("encoder");
        let [_, mut channels] = sides(&scope, "group0.block_0.conv0.weight")?;
        let mut blocks = Vec::new();
        for group in 0.. {
            let at = scope.at(format!("group{group}"));
            if !at.has("block_0.conv0.weight") {
                break;
            }
            for index in 0.. {
                let at = at.at(format!("block_{index}"));
                if !at.has("conv0.weight") {
                    break;
                }
                let (block, outputs) = block(backend, &at, channels, index == 0)?;
                blocks.push(block);
                channels = outputs;
            }
        }
        let mlp = scope.at("mlp");
        let (hidden, width) = hidden_layers(backend, &mlp, channels)?;
        let head = |index: usize| -> Result<B::Conv, NetError> {
            let at = mlp.at(format!("linear_out_{index}"));
            let [outputs, _] = sides(&at, "weight")?;
            at.conv(backend, Conv::linear(width, outputs))
        };
        Ok(Self {
            blocks,
            norm: ChannelNorm::new(&scope.at("bn_out"), channels)?,
            hidden,
            heads: [head(0)?, head(1)?, head(2)?],
        })
    }

    /// Runs images with values from −1 to 1.
    pub fn encode(&self, b: &B, images: &B::Tensor) -> Result<BexEncoding<B>, NetError> {
        let mut x = images.clone();
        for block in &self.blocks {
            x = block.run(b, &x)?;
        }
        let features = self.norm.run(b, &x, Activation::LeakyRelu)?;
        let hidden = run_layers(b, &self.hidden, &b.global_mean(&features))?;
        let [continuous, font, character] = &self.heads;
        let head = |conv: &B::Conv| b.conv(&hidden, conv, None);
        Ok(BexEncoding {
            continuous: head(continuous)?,
            font: head(font)?,
            character: head(character)?,
            features,
            hidden,
        })
    }
}

impl<B: Backend> Block<B> {
    fn run(&self, b: &B, x: &B::Tensor) -> Result<B::Tensor, NetError> {
        let h = self.norm.run(b, x, Activation::Relu)?;
        let h = b.conv(&h, &self.first, None)?;
        let shortcut = match &self.shortcut {
            Some(conv) => b.conv(x, conv, None)?,
            None => x.clone(),
        };
        // The mean of a sum is the sum of the means.
        let sum = b.conv(&h, &self.second, Some(&shortcut))?;
        match self.halves {
            true => Ok(b.pool(&sum, Pool::mean(2, 2))?),
            false => Ok(sum),
        }
    }
}

/// A block and its number of outputs.
fn block<B: Backend>(
    backend: &B,
    at: &Scope<'_>,
    inputs: usize,
    halves: bool,
) -> Result<(Block<B>, usize), NetError> {
    let [outputs, _] = sides(at, "conv0.weight")?;
    let three = |i: usize| Conv::square(i, outputs, 3).padding(1);
    let first = three(inputs).activation(Activation::Relu);
    let shortcut = (inputs != outputs)
        .then(|| {
            let spec = Conv::square(inputs, outputs, 1);
            at.at("conv_reduce").unbiased_conv(backend, spec)
        })
        .transpose()?;
    let block = Block {
        norm: ChannelNorm::new(&at.at("bn0"), inputs)?,
        first: at
            .at("conv0")
            .conv_bn(&at.at("bn1"), backend, first, EPSILON)?,
        second: at.at("conv1").unbiased_conv(backend, three(outputs))?,
        shortcut,
        halves,
    };
    Ok((block, outputs))
}

impl<B: Backend> Classifier<B> for BexEncoder<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let encoding = self.encode(b, x)?;
        Ok(Prediction {
            logits: encoding.character,
            embedding: encoding.hidden,
        })
    }
}
