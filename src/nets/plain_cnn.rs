//! A plain convolutional network for small images: pairs of 3×3 convolutions with batch norms, each pair followed by
//! a max-pool, then the mean over all pixels and a linear layer.

use super::layers::Scope;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Pool, StateDict};

const EPSILON: f64 = 1e-5;

/// A plain CNN; depth and widths are read off the weights.
pub struct PlainCnn<B: Backend> {
    convs: Vec<B::Conv>,
    head: B::Conv,
}

impl<B: Backend> PlainCnn<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let mut convs = Vec::new();
        let mut inputs = 3;
        while convs.is_empty() || scope.has(&format!("features.{}.conv.weight", convs.len())) {
            let at = scope.at("features").at(convs.len());
            let outputs = at.array("conv.weight")?.shape[0];
            let spec = Conv::square(inputs, outputs, 3)
                .padding(1)
                .activation(Activation::Relu);
            let conv = at
                .at("conv")
                .conv_bn(&at.at("norm"), backend, spec, EPSILON)?;
            convs.push(conv);
            inputs = outputs;
        }
        let head = scope.at("head");
        let outputs = head.array("weight")?.shape[0];
        Ok(Self {
            convs,
            head: head.conv(backend, Conv::linear(inputs, outputs))?,
        })
    }
}

impl<B: Backend> Classifier<B> for PlainCnn<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let mut x = x.clone();
        for (i, conv) in self.convs.iter().enumerate() {
            x = b.conv(&x, conv, None)?;
            if i % 2 == 1 {
                x = b.pool(&x, Pool::max(2, 2))?;
            }
        }
        let embedding = b.global_mean(&x);
        let logits = b.conv(&embedding, &self.head, None)?;
        Ok(Prediction { logits, embedding })
    }
}
