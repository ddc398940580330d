//! A small ConvNeXt with batch norms instead of layer norms: on small images it learns in a tenth of the steps, and its
//! norms fold into the convolutions.
//!
//! Stem (4×4, stride 2) → stages of blocks, each stage but the first begun by a 2×2 convolution of stride 2 → mean over
//! all pixels → linear layer. A block is x + narrow(GELU(widen(depthwise 7×7(x)))), as in Liu et al. 2022; the stem, every
//! depthwise, every narrowing and every strided convolution is followed by a batch norm.

use super::layers::Scope;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, StateDict};

const EPSILON: f64 = 1e-5;

struct Block<B: Backend> {
    depthwise: B::Conv,
    widen: B::Conv,
    narrow: B::Conv,
}

struct Stage<B: Backend> {
    /// Absent in the first stage, which follows the stem.
    down: Option<B::Conv>,
    blocks: Vec<Block<B>>,
}

/// A ConvNeXt with batch norms; stages, depths and widths are read off the weights.
pub struct ConvNextBn<B: Backend> {
    stem: B::Conv,
    stages: Vec<Stage<B>>,
    head: B::Conv,
}

impl<B: Backend> ConvNextBn<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let normed = |at: &Scope<'_>, spec: Conv| {
            at.at("conv")
                .conv_bn(&at.at("norm"), backend, spec, EPSILON)
        };
        let outputs_of = |at: &Scope<'_>| Ok::<_, NetError>(at.array("conv.weight")?.shape[0]);
        let stem = scope.at("stem");
        let mut channels = outputs_of(&stem)?;
        let stem = normed(&stem, Conv::square(3, channels, 4).stride(2).padding(1))?;
        let mut stages = Vec::new();
        while scope.has(&format!("stages.{}.0.widen.weight", stages.len())) {
            let at = scope.at("stages").at(stages.len());
            let down = if stages.is_empty() {
                None
            } else {
                let at = at.at("down");
                let outputs = outputs_of(&at)?;
                let spec = Conv::square(channels, outputs, 2).stride(2);
                channels = outputs;
                Some(normed(&at, spec)?)
            };
            let mut blocks = Vec::new();
            while at.has(&format!("{}.widen.weight", blocks.len())) {
                let at = at.at(blocks.len());
                let wide = at.array("widen.weight")?.shape[0];
                let depthwise = Conv::square(channels, channels, 7)
                    .padding(3)
                    .groups(channels);
                let widen = Conv::linear(channels, wide).activation(Activation::Gelu);
                blocks.push(Block {
                    depthwise: normed(&at.at("depthwise"), depthwise)?,
                    widen: at.at("widen").conv(backend, widen)?,
                    narrow: normed(&at.at("narrow"), Conv::linear(wide, channels))?,
                });
            }
            stages.push(Stage { down, blocks });
        }
        let head = scope.at("head");
        let outputs = head.array("weight")?.shape[0];
        Ok(Self {
            stem,
            stages,
            head: head.conv(backend, Conv::linear(channels, outputs))?,
        })
    }
}

impl<B: Backend> Classifier<B> for ConvNextBn<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let mut x = b.conv(x, &self.stem, None)?;
        for stage in &self.stages {
            if let Some(down) = &stage.down {
                x = b.conv(&x, down, None)?;
            }
            for block in &stage.blocks {
                let h = b.conv(&x, &block.depthwise, None)?;
                let h = b.conv(&h, &block.widen, None)?;
                x = b.conv(&h, &block.narrow, Some(&x))?;
            }
        }
        let embedding = b.global_mean(&x);
        let logits = b.conv(&embedding, &self.head, None)?;
        Ok(Prediction { logits, embedding })
    }
}
