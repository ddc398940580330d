//! ConvNeXt as in torchvision (Liu et al. 2022). Layer scales are folded into the last linear layer of a block.

use super::batch::one_by_one;
use super::layers::Scope;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Norm, StateDict};

const EPSILON: f32 = 1e-6;

struct Block<B: Backend> {
    depthwise: B::Conv,
    norm: Norm,
    widen: B::Conv,
    narrow: B::Conv,
}

struct Stage<B: Backend> {
    /// Norm and strided convolution before the blocks; the stem has them the other way round.
    down: Option<(Norm, B::Conv)>,
    blocks: Vec<Block<B>>,
}

/// A ConvNeXt; stages, depths, widths and the patches of the stem are read off the weights.
pub struct ConvNext<B: Backend> {
    stem: B::Conv,
    stem_norm: Norm,
    stages: Vec<Stage<B>>,
    norm: Norm,
    head: B::Conv,
}

impl<B: Backend> ConvNext<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let features = Scope::new(dict).at("features");
        let first = &features.array("0.0.weight")?.shape;
        let (width, patch) = (first[0], first.get(2).copied().unwrap_or(4));
        let stem = features
            .at("0.0")
            .conv(backend, Conv::square(3, width, patch).stride(patch))?;
        let stem_norm = features.at("0.1").norm(width, EPSILON)?;
        let mut stages = Vec::new();
        let mut channels = width;
        let count = (1..).find(|i| !features.has(&format!("{}.1.weight", 2 * i)));
        for stage in 0..count.unwrap_or(1) {
            let down = if stage == 0 {
                None
            } else {
                let at = features.at(2 * stage);
                let outputs = at.array("1.weight")?.shape[0];
                let norm = at.at(0).norm(channels, EPSILON)?;
                let conv = Conv::square(channels, outputs, 2).stride(2);
                channels = outputs;
                Some((norm, at.at(1).conv(backend, conv)?))
            };
            let at = features.at(2 * stage + 1);
            let mut blocks = Vec::new();
            while at.has(&format!("{}.layer_scale", blocks.len())) {
                blocks.push(block(backend, &at.at(blocks.len()), channels)?);
            }
            stages.push(Stage { down, blocks });
        }
        let classifier = Scope::new(dict).at("classifier");
        let classes = classifier.array("2.weight")?.shape[0];
        Ok(Self {
            stem,
            stem_norm,
            stages,
            norm: classifier.at(0).norm(channels, EPSILON)?,
            head: classifier
                .at(2)
                .conv(backend, Conv::linear(channels, classes))?,
        })
    }
}

fn block<B: Backend>(backend: &B, at: &Scope<'_>, c: usize) -> Result<Block<B>, NetError> {
    at.shaped("layer_scale", &[c, 1, 1])?;
    let inner = at.at("block");
    let depthwise = Conv::square(c, c, 7).padding(3).groups(c);
    let widen = Conv::linear(c, 4 * c).activation(Activation::Gelu);
    Ok(Block {
        depthwise: inner.at(0).conv(backend, depthwise)?,
        norm: inner.at(2).norm(c, EPSILON)?,
        widen: inner.at(3).conv(backend, widen)?,
        narrow: inner
            .at(5)
            .scaled_conv(backend, Conv::linear(4 * c, c), (at, "layer_scale"))?,
    })
}

fn run<B: Backend>(b: &B, mut x: B::Tensor, stages: &[Stage<B>]) -> Result<B::Tensor, NetError> {
    for stage in stages {
        if let Some((norm, conv)) = &stage.down {
            x = b.conv(&b.layer_norm(&x, norm)?, conv, None)?;
        }
        for block in &stage.blocks {
            let h = b.conv(&x, &block.depthwise, None)?;
            let h = b.layer_norm(&h, &block.norm)?;
            let h = b.conv(&h, &block.widen, None)?;
            x = b.conv(&h, &block.narrow, Some(&x))?;
        }
    }
    Ok(x)
}

impl<B: Backend> Classifier<B> for ConvNext<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let (wide, narrow) = self.stages.split_at(self.stages.len().min(2));
        let x = one_by_one(b, x, |x| {
            let x = b.layer_norm(&b.conv(x, &self.stem, None)?, &self.stem_norm)?;
            run(b, x, wide)
        })?;
        let x = run(b, x, narrow)?;
        let embedding = b.layer_norm(&b.global_mean(&x), &self.norm)?;
        let logits = b.conv(&embedding, &self.head, None)?;
        Ok(Prediction { logits, embedding })
    }
}
