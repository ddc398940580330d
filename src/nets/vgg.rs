//! VGG-16 as in torchvision (Simonyan & Zisserman, configuration D, no batch norm).

use super::layers::Scope;
use super::{Backbone, Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Pool, StateDict};

/// Index in `features` and output channels of each convolution, stage by stage.
const STAGES: [&[(usize, usize)]; 5] = [
    &[(0, 64), (2, 64)],
    &[(5, 128), (7, 128)],
    &[(10, 256), (12, 256), (14, 256)],
    &[(17, 512), (19, 512), (21, 512)],
    &[(24, 512), (26, 512), (28, 512)],
];

/// VGG-16; the classifier part may be missing.
pub struct Vgg16<B: Backend> {
    stages: Vec<Vec<B::Conv>>,
    head: Option<[B::Conv; 3]>,
}

impl<B: Backend> Vgg16<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let mut inputs = 3;
        let mut stages = Vec::with_capacity(STAGES.len());
        for stage in STAGES {
            let mut convs = Vec::with_capacity(stage.len());
            for &(index, outputs) in stage {
                let spec = Conv::square(inputs, outputs, 3)
                    .padding(1)
                    .activation(Activation::Relu);
                convs.push(scope.at("features").at(index).conv(backend, spec)?);
                inputs = outputs;
            }
            stages.push(convs);
        }
        let classifier = scope.at("classifier");
        let head = if classifier.has("0.weight") {
            let classes = classifier.array("6.weight")?.shape[0];
            let relu = |c: Conv| c.activation(Activation::Relu);
            Some([
                classifier
                    .at(0)
                    .conv(backend, relu(Conv::square(512, 4096, 7)))?,
                classifier
                    .at(3)
                    .conv(backend, relu(Conv::linear(4096, 4096)))?,
                classifier
                    .at(6)
                    .conv(backend, Conv::linear(4096, classes))?,
            ])
        } else {
            None
        };
        Ok(Self { stages, head })
    }
}

impl<B: Backend> Backbone<B> for Vgg16<B> {
    fn taps(&self, backend: &B, x: &B::Tensor) -> Result<Vec<B::Tensor>, NetError> {
        let mut taps: Vec<B::Tensor> = Vec::with_capacity(5);
        for stage in &self.stages {
            let mut x = match taps.last() {
                None => x.clone(),
                Some(last) => backend.pool(last, Pool::max(2, 2))?,
            };
            for conv in stage {
                x = backend.conv(&x, conv, None)?;
            }
            taps.push(x);
        }
        Ok(taps)
    }
}

impl<B: Backend> Classifier<B> for Vgg16<B> {
    fn predict(&self, backend: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let Some([first, second, last]) = &self.head else {
            return Err(NetError::MissingPart {
                network: "vgg16",
                part: "classifier layers",
            });
        };
        let taps = self.taps(backend, x)?;
        let x = backend.pool(&taps[taps.len() - 1], Pool::max(2, 2))?;
        let x = backend.adaptive_mean(&x, 7, 7)?;
        let x = backend.conv(&x, first, None)?;
        let embedding = backend.conv(&x, second, None)?;
        let logits = backend.conv(&embedding, last, None)?;
        Ok(Prediction { logits, embedding })
    }
}
