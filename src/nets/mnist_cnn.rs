//! The classifier of \[quantitative-evaluations\] for small grey images (there of Van Looveren & Klaise): two 2×2
//! convolutions, each followed by a max-pool, then two dense layers.
//!
//! Keras' "same" padding of an even window stands at the bottom and at the right only. The map is flattened in (row,
//! column, channel) order. The embedding is the first dense layer before its ReLU: the features of FID_256.

use super::layers::Scope;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{Activation, Backend, Conv, Padding, Pool, Shape, StateDict};

/// The network; widths are read off the weights `conv1`, `conv2`, `dense1`, `dense2`.
pub struct MnistCnn<B: Backend> {
    convs: [B::Conv; 2],
    dense: [B::Conv; 2],
    /// Values of the flattened map, and its channels.
    flat: usize,
    channels: usize,
}

impl<B: Backend> MnistCnn<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let sizes = |name: &str, rank: usize| -> Result<[usize; 2], NetError> {
            let shape = &scope.at(name).array("weight")?.shape;
            match shape[..] {
                [outputs, inputs, ..] if shape.len() == rank => Ok([outputs, inputs]),
                _ => Err(NetError::Shape {
                    name: format!("{name}.weight"),
                    expected: format!("{rank} dimensions"),
                    found: shape.clone(),
                }),
            }
        };
        let conv = |name: &str| -> Result<B::Conv, NetError> {
            let [outputs, inputs] = sizes(name, 4)?;
            let below = Padding {
                bottom: 1,
                right: 1,
                ..Padding::default()
            };
            let spec = Conv {
                padding: below,
                ..Conv::square(inputs, outputs, 2).activation(Activation::Relu)
            };
            scope.at(name).conv(backend, spec)
        };
        let dense = |name: &str| -> Result<B::Conv, NetError> {
            let [outputs, inputs] = sizes(name, 2)?;
            scope.at(name).conv(backend, Conv::linear(inputs, outputs))
        };
        Ok(Self {
            convs: [conv("conv1")?, conv("conv2")?],
            dense: [dense("dense1")?, dense("dense2")?],
            flat: sizes("dense1", 2)?[1],
            channels: sizes("conv2", 4)?[0],
        })
    }
}

impl<B: Backend> Classifier<B> for MnistCnn<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let given = b.shape(x);
        let [first, second] = &self.convs;
        let half = b.pool(&b.conv(x, first, None)?, Pool::max(2, 2))?;
        let map = b.pool(&b.conv(&half, second, None)?, Pool::max(2, 2))?;
        let shape = b.shape(&map);
        if shape.image() != self.flat {
            return Err(NetError::Config(format!(
                "mnist_cnn: the dense layer of these weights takes {} values ({} pixels of {} channels), but images of {}x{} pixels leave {}x{}; give images of the size that the network was trained on",
                self.flat,
                self.flat / self.channels.max(1),
                self.channels,
                given.w,
                given.h,
                shape.w,
                shape.h
            )));
        }
        let flat = b.view(&map, Shape::new(shape.n, 1, 1, self.flat))?;
        let embedding = b.conv(&flat, &self.dense[0], None)?;
        let hidden = b.activate(&embedding, Activation::Relu);
        let logits = b.conv(&hidden, &self.dense[1], None)?;
        Ok(Prediction { logits, embedding })
    }
}
