//! ResNet-18 and ResNet-50 as in torchvision (He et al. 2016, stride in the 3×3 layer).

use super::batch::one_by_one;
use super::layers::Scope;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Pool, StateDict};

const EPSILON: f64 = 1e-5;

struct Block<B: Backend> {
    /// Two (basic) or three (bottleneck) convolutions; the last adds the shortcut before its ReLU.
    convs: Vec<B::Conv>,
    shortcut: Option<B::Conv>,
}

/// A ResNet; depth and widths are read off the weights.
pub struct ResNet<B: Backend> {
    first: B::Conv,
    blocks: Vec<Block<B>>,
    /// Blocks of the first two stages, whose activations are larger than their weights.
    wide: usize,
    head: B::Conv,
}

impl<B: Backend> ResNet<B> {
    pub fn new(backend: &B, dict: &StateDict, depths: [usize; 4]) -> Result<Self, NetError> {
        let mut scope = Scope::new(dict);
        // The classifiers of bex hold their network below this name.
        if scope.has("feat_extract.conv1.weight") {
            scope = scope.at("feat_extract");
        }
        let conv_bn = |at: &Scope<'_>, conv: &str, bn: &str, spec: Conv| {
            let spec = spec.activation(Activation::Relu);
            at.at(conv).conv_bn(&at.at(bn), backend, spec, EPSILON)
        };
        let width = scope.array("conv1.weight")?.shape[0];
        let first = Conv::square(3, width, 7).stride(2).padding(3);
        let first = conv_bn(&scope, "conv1", "bn1", first)?;
        let mut blocks = Vec::new();
        let mut inputs = width;
        for (stage, depth) in depths.into_iter().enumerate() {
            for index in 0..depth {
                let at = scope.at(format!("layer{}", stage + 1)).at(index);
                let stride = if stage > 0 && index == 0 { 2 } else { 1 };
                let bottleneck = at.has("conv3.weight");
                let middle = at.array("conv1.weight")?.shape[0];
                let outputs = if bottleneck {
                    at.array("conv3.weight")?.shape[0]
                } else {
                    middle
                };
                let three = |i: usize, o: usize| Conv::square(i, o, 3).padding(1);
                let convs = if bottleneck {
                    vec![
                        conv_bn(&at, "conv1", "bn1", Conv::square(inputs, middle, 1))?,
                        conv_bn(&at, "conv2", "bn2", three(middle, middle).stride(stride))?,
                        conv_bn(&at, "conv3", "bn3", Conv::square(middle, outputs, 1))?,
                    ]
                } else {
                    vec![
                        conv_bn(&at, "conv1", "bn1", three(inputs, middle).stride(stride))?,
                        conv_bn(&at, "conv2", "bn2", three(middle, outputs))?,
                    ]
                };
                let down = at.at("downsample");
                let shortcut = down
                    .has("0.weight")
                    .then(|| {
                        let spec = Conv::square(inputs, outputs, 1).stride(stride);
                        down.at(0).conv_bn(&down.at(1), backend, spec, EPSILON)
                    })
                    .transpose()?;
                blocks.push(Block { convs, shortcut });
                inputs = outputs;
            }
        }
        let fc = scope.at("fc");
        let classes = fc.array("weight")?.shape[0];
        let head = fc.conv(backend, Conv::linear(inputs, classes))?;
        Ok(Self {
            first,
            blocks,
            wide: depths[0] + depths[1],
            head,
        })
    }
}

fn run<B: Backend>(b: &B, mut x: B::Tensor, blocks: &[Block<B>]) -> Result<B::Tensor, NetError> {
    for block in blocks {
        let shortcut = match &block.shortcut {
            Some(conv) => b.conv(&x, conv, None)?,
            None => x.clone(),
        };
        for (i, conv) in block.convs.iter().enumerate() {
            let last = i + 1 == block.convs.len();
            x = b.conv(&x, conv, last.then_some(&shortcut))?;
        }
    }
    Ok(x)
}

impl<B: Backend> Classifier<B> for ResNet<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let (wide, narrow) = self.blocks.split_at(self.wide);
        let x = one_by_one(b, x, |x| {
            let x = b.conv(x, &self.first, None)?;
            run(b, b.pool(&x, Pool::max(3, 2).padding(1))?, wide)
        })?;
        let x = run(b, x, narrow)?;
        let embedding = b.global_mean(&x);
        let logits = b.conv(&embedding, &self.head, None)?;
        Ok(Prediction { logits, embedding })
    }
}
