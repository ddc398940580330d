//! VGG-16 as in torchvision (Simonyan & Zisserman, configuration D, no batch norm).

use super::layers::{DenseHead, Scope};
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
    head: Option<DenseHead<B>>,
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
        let head = DenseHead::new(backend, &scope.at("classifier"), [0, 3, 6], 512, 7)?;
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
        let Some(head) = &self.head else {
            return Err(NetError::MissingPart {
                network: "vgg16",
                part: "classifier layers",
            });
        };
        let taps = self.taps(backend, x)?;
        head.predict(
            backend,
            &backend.pool(&taps[taps.len() - 1], Pool::max(2, 2))?,
        )
    }
}
