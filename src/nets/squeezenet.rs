//! SqueezeNet 1.1 as in torchvision (Iandola et al. 2016).

use super::layers::Scope;
use super::{Backbone, Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Part, Pool, StateDict};

/// Index in `features`, input, squeeze and expand channels of each fire module.
const FIRES: [(usize, usize, usize, usize); 8] = [
    (3, 64, 16, 64),
    (4, 128, 16, 64),
    (6, 128, 32, 128),
    (7, 256, 32, 128),
    (9, 256, 48, 192),
    (10, 384, 48, 192),
    (11, 384, 64, 256),
    (12, 512, 64, 256),
];

struct Fire<B: Backend> {
    index: usize,
    squeeze: B::Conv,
    expand1: B::Conv,
    expand3: B::Conv,
}

/// SqueezeNet 1.1; the classifier part may be missing.
pub struct SqueezeNet<B: Backend> {
    first: B::Conv,
    fires: Vec<Fire<B>>,
    last: Option<B::Conv>,
}

impl<B: Backend> SqueezeNet<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let features = scope.at("features");
        let relu = |c: Conv| c.activation(Activation::Relu);
        let first = features
            .at(0)
            .conv(backend, relu(Conv::square(3, 64, 3).stride(2)))?;
        let fires = FIRES
            .iter()
            .map(|&(index, inputs, squeeze, expand)| {
                let fire = features.at(index);
                let one = |i, o| relu(Conv::square(i, o, 1));
                let three = relu(Conv::square(squeeze, expand, 3).padding(1));
                Ok(Fire {
                    index,
                    squeeze: fire.at("squeeze").conv(backend, one(inputs, squeeze))?,
                    expand1: fire.at("expand1x1").conv(backend, one(squeeze, expand))?,
                    expand3: fire.at("expand3x3").conv(backend, three)?,
                })
            })
            .collect::<Result<_, NetError>>()?;
        let classifier = scope.at("classifier").at(1);
        let last = if classifier.has("weight") {
            let classes = classifier.array("weight")?.shape[0];
            Some(classifier.conv(backend, relu(Conv::square(512, classes, 1)))?)
        } else {
            None
        };
        Ok(Self { first, fires, last })
    }
}

impl<B: Backend> Backbone<B> for SqueezeNet<B> {
    /// Seven taps: the first convolution, then fire modules 4, 7, 9, 10, 11 and 12 of `features`.
    fn taps(&self, backend: &B, x: &B::Tensor) -> Result<Vec<B::Tensor>, NetError> {
        let mut x = backend.conv(x, &self.first, None)?;
        let mut taps = vec![x.clone()];
        for fire in &self.fires {
            if matches!(fire.index, 3 | 6 | 9) {
                x = backend.pool(&x, Pool::max(3, 2).ceil())?;
            }
            let squeezed = backend.conv(&x, &fire.squeeze, None)?;
            x = backend.concat(&[
                Part::Conv(&squeezed, &fire.expand1),
                Part::Conv(&squeezed, &fire.expand3),
            ])?;
            if !matches!(fire.index, 3 | 6) {
                taps.push(x.clone());
            }
        }
        Ok(taps)
    }
}

impl<B: Backend> Classifier<B> for SqueezeNet<B> {
    /// The embedding is the spatial mean of the last fire module, `[n, 512]`.
    fn predict(&self, backend: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let Some(last) = &self.last else {
            return Err(NetError::MissingPart {
                network: "squeezenet1_1",
                part: "classifier layer",
            });
        };
        let taps = self.taps(backend, x)?;
        let x = &taps[taps.len() - 1];
        let logits = backend.global_mean(&backend.conv(x, last, None)?);
        Ok(Prediction {
            logits,
            embedding: backend.global_mean(x),
        })
    }
}
