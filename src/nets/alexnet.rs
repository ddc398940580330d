//! AlexNet as in torchvision (Krizhevsky's "one weird trick" variant).

use super::layers::{DenseHead, Scope};
use super::{Backbone, Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Pool, StateDict};

/// AlexNet; the classifier part may be missing (LPIPS needs only the convolutions).
pub struct AlexNet<B: Backend> {
    convs: Vec<B::Conv>,
    head: Option<DenseHead<B>>,
}

impl<B: Backend> AlexNet<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let relu = |c: Conv| c.activation(Activation::Relu);
        let convs = [
            (0, Conv::square(3, 64, 11).stride(4).padding(2)),
            (3, Conv::square(64, 192, 5).padding(2)),
            (6, Conv::square(192, 384, 3).padding(1)),
            (8, Conv::square(384, 256, 3).padding(1)),
            (10, Conv::square(256, 256, 3).padding(1)),
        ]
        .into_iter()
        .map(|(i, spec)| scope.at("features").at(i).conv(backend, relu(spec)))
        .collect::<Result<_, _>>()?;
        let head = DenseHead::new(backend, &scope.at("classifier"), [1, 4, 6], 256, 6)?;
        Ok(Self { convs, head })
    }
}

impl<B: Backend> Backbone<B> for AlexNet<B> {
    fn taps(&self, backend: &B, x: &B::Tensor) -> Result<Vec<B::Tensor>, NetError> {
        let mut taps: Vec<B::Tensor> = Vec::with_capacity(5);
        for (i, conv) in self.convs.iter().enumerate() {
            let input = match taps.last() {
                None => x.clone(),
                Some(last) if i <= 2 => backend.pool(last, Pool::max(3, 2))?,
                Some(last) => last.clone(),
            };
            taps.push(backend.conv(&input, conv, None)?);
        }
        Ok(taps)
    }
}

impl<B: Backend> Classifier<B> for AlexNet<B> {
    fn predict(&self, backend: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let Some(head) = &self.head else {
            return Err(NetError::MissingPart {
                network: "alexnet",
                part: "classifier layers",
            });
        };
        let taps = self.taps(backend, x)?;
        head.predict(
            backend,
            &backend.pool(&taps[taps.len() - 1], Pool::max(3, 2))?,
        )
    }
}
