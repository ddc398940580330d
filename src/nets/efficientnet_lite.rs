//! EfficientNet-lite 0–2 (Tan & Le 2019 without squeeze-and-excitation, with ReLU6), names of
//! efficientnet-lite-pytorch. Padding is TensorFlow's "same", fixed for the resolution of each variant.

use super::batch::one_by_one;
use super::layers::Scope;
use super::mobilenet::Inverted;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Padding, StateDict};

const EPSILON: f64 = 1e-3;

/// Repeats, kernel and first stride of each stage at depth 1.
const STAGES: [(usize, usize, usize); 7] = [
    (1, 3, 1),
    (2, 3, 2),
    (2, 5, 2),
    (3, 3, 2),
    (3, 5, 1),
    (4, 5, 2),
    (1, 3, 1),
];

/// EfficientNet-lite.
pub struct EfficientNetLite<B: Backend> {
    stem: B::Conv,
    blocks: Vec<Inverted<B>>,
    last: B::Conv,
    head: B::Conv,
}

/// Resolution the padding is made for and the depth factor, of variants 0, 1 and 2.
fn variant(index: usize) -> Result<(usize, f64), NetError> {
    match index {
        0 => Ok((224, 1.0)),
        1 => Ok((240, 1.1)),
        2 => Ok((260, 1.2)),
        _ => Err(NetError::Config(format!(
            "EfficientNet-lite{index} is not known; use 0, 1 or 2"
        ))),
    }
}

/// "Same" padding of an input of `size`: the odd row or column goes to the far side.
fn same(size: usize, kernel: usize, stride: usize) -> Padding {
    let output = size.div_ceil(stride);
    let total = ((output - 1) * stride + kernel).saturating_sub(size);
    Padding {
        top: total / 2,
        left: total / 2,
        bottom: total - total / 2,
        right: total - total / 2,
    }
}

impl<B: Backend> EfficientNetLite<B> {
    pub fn new(backend: &B, dict: &StateDict, index: usize) -> Result<Self, NetError> {
        let (mut size, depth) = variant(index)?;
        let scope = Scope::new(dict);
        let relu6 = |c: Conv| c.activation(Activation::Relu6);
        let conv_bn = |at: &Scope<'_>, conv: &str, bn: &str, spec: Conv| {
            at.at(conv).conv_bn(&at.at(bn), backend, spec, EPSILON)
        };
        let outputs_of = |at: &Scope<'_>, conv: &str| -> Result<usize, NetError> {
            Ok(at.array(&format!("{conv}.weight"))?.shape[0])
        };
        let width = outputs_of(&scope, "_conv_stem")?;
        let stem = Conv {
            padding: same(size, 3, 2),
            ..Conv::square(3, width, 3).stride(2)
        };
        let stem = conv_bn(&scope, "_conv_stem", "_bn0", relu6(stem))?;
        size = size.div_ceil(2);
        let mut blocks = Vec::new();
        let mut inputs = width;
        for (stage, (repeats, kernel, stride)) in STAGES.into_iter().enumerate() {
            let fixed = stage == 0 || stage + 1 == STAGES.len();
            let repeats = if fixed {
                repeats
            } else {
                (repeats as f64 * depth).ceil() as usize
            };
            for repeat in 0..repeats {
                let at = scope.at("_blocks").at(blocks.len());
                let stride = if repeat == 0 { stride } else { 1 };
                let wide = outputs_of(&at, "_depthwise_conv")?;
                let outputs = outputs_of(&at, "_project_conv")?;
                let depthwise = Conv {
                    padding: same(size, kernel, stride),
                    ..Conv::square(wide, wide, kernel).stride(stride).groups(wide)
                };
                size = size.div_ceil(stride);
                let expand = at
                    .has("_expand_conv.weight")
                    .then(|| {
                        let spec = relu6(Conv::square(inputs, wide, 1));
                        conv_bn(&at, "_expand_conv", "_bn0", spec)
                    })
                    .transpose()?;
                blocks.push(Inverted {
                    expand,
                    depthwise: conv_bn(&at, "_depthwise_conv", "_bn1", relu6(depthwise))?,
                    project: conv_bn(&at, "_project_conv", "_bn2", Conv::square(wide, outputs, 1))?,
                    residual: stride == 1 && inputs == outputs,
                });
                inputs = outputs;
            }
        }
        let channels = outputs_of(&scope, "_conv_head")?;
        let classes = outputs_of(&scope, "_fc")?;
        let last = relu6(Conv::square(inputs, channels, 1));
        Ok(Self {
            stem,
            blocks,
            last: conv_bn(&scope, "_conv_head", "_bn1", last)?,
            head: scope
                .at("_fc")
                .conv(backend, Conv::linear(channels, classes))?,
        })
    }
}

impl<B: Backend> Classifier<B> for EfficientNetLite<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let x = one_by_one(b, x, |x| {
            let mut x = b.conv(x, &self.stem, None)?;
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
