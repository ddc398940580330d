//! MobileNetV2 as in torchvision (Sandler et al. 2018).

use super::batch::one_by_one;
use super::layers::Scope;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, StateDict};

const EPSILON: f64 = 1e-5;

/// Expansion, output channels, repeats and first stride of each stage.
const STAGES: [(usize, usize, usize, usize); 7] = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

/// An inverted residual: expand, filter each channel, project.
pub(super) struct Inverted<B: Backend> {
    pub expand: Option<B::Conv>,
    pub depthwise: B::Conv,
    pub project: B::Conv,
    pub residual: bool,
}

impl<B: Backend> Inverted<B> {
    pub fn run(&self, b: &B, x: &B::Tensor) -> Result<B::Tensor, NetError> {
        let wide = match &self.expand {
            Some(expand) => b.conv(x, expand, None)?,
            None => x.clone(),
        };
        let wide = b.conv(&wide, &self.depthwise, None)?;
        Ok(b.conv(&wide, &self.project, self.residual.then_some(x))?)
    }
}

/// MobileNetV2.
pub struct MobileNetV2<B: Backend> {
    first: B::Conv,
    blocks: Vec<Inverted<B>>,
    last: B::Conv,
    head: B::Conv,
}

impl<B: Backend> MobileNetV2<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let features = Scope::new(dict).at("features");
        let relu6 = |c: Conv| c.activation(Activation::Relu6);
        let conv_bn =
            |conv: &Scope<'_>, bn: &Scope<'_>, spec: Conv| conv.conv_bn(bn, backend, spec, EPSILON);
        let pair = |scope: &Scope<'_>, spec: Conv| conv_bn(&scope.at(0), &scope.at(1), spec);
        let first = pair(
            &features.at(0),
            relu6(Conv::square(3, 32, 3).stride(2).padding(1)),
        )?;
        let mut blocks = Vec::new();
        let mut inputs = 32;
        let mut index = 1;
        for (expansion, outputs, repeats, stride) in STAGES {
            for repeat in 0..repeats {
                let conv = features.at(index).at("conv");
                let wide = inputs * expansion;
                let stride = if repeat == 0 { stride } else { 1 };
                let next = usize::from(expansion != 1);
                let depthwise = Conv::square(wide, wide, 3)
                    .padding(1)
                    .stride(stride)
                    .groups(wide);
                blocks.push(Inverted {
                    expand: (expansion != 1)
                        .then(|| pair(&conv.at(0), relu6(Conv::square(inputs, wide, 1))))
                        .transpose()?,
                    depthwise: pair(&conv.at(next), relu6(depthwise))?,
                    project: conv_bn(
                        &conv.at(next + 1),
                        &conv.at(next + 2),
                        Conv::square(wide, outputs, 1),
                    )?,
                    residual: stride == 1 && inputs == outputs,
                });
                inputs = outputs;
                index += 1;
            }
        }
        let last = pair(&features.at(index), relu6(Conv::square(inputs, 1280, 1)))?;
        let linear = Scope::new(dict).at("classifier").at(1);
        let classes = linear.array("weight")?.shape[0];
        let head = linear.conv(backend, Conv::linear(1280, classes))?;
        Ok(Self {
            first,
            blocks,
            last,
            head,
        })
    }
}

impl<B: Backend> Classifier<B> for MobileNetV2<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let x = one_by_one(b, x, |x| {
            let mut x = b.conv(x, &self.first, None)?;
            for block in &self.blocks {
                x = block.run(b, &x)?;
            }
            Ok(x)
        })?;
        let embedding = b.global_mean(&b.conv(&x, &self.last, None)?);
        let logits = b.conv(&embedding, &self.head, None)?;
        Ok(Prediction { logits, embedding })
    }
}
