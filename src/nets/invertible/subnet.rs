//! The networks inside couplings, which need no inverse.

use candle_core::Tensor as Values;

use super::{Parameters, Result};
use crate::nets::layers::Scope;
use crate::tensor::candle::Tensor;
use crate::tensor::{Activation, Conv};

const EPSILON: f64 = 1e-4;

/// ReLU, 3×3 convolution, norm, ReLU, 3×3 convolution, norm, ReLU, 1×1 convolution.
pub struct ConvSubnet<B: Parameters> {
    layers: [B::Conv; 3],
}

impl<B: Parameters> ConvSubnet<B> {
    /// The first convolution has the `stride`.
    pub fn new(
        backend: &B,
        at: &Scope<'_>,
        inputs: usize,
        outputs: usize,
        stride: usize,
    ) -> Result<Self> {
        let width = { at.array("conv1.weight")?.shape.first() }
            .copied()
            .unwrap_or(0);
        let normed = |k: usize, inputs: usize, stride: usize| {
            let spec = Conv::square(inputs, width, 3).padding(1).stride(stride);
            let spec = spec.activation(Activation::Relu);
            let norm = at.at(format!("norm{k}"));
            at.at(format!("conv{k}"))
                .conv_bn(&norm, backend, spec, EPSILON)
        };
        Ok(Self {
            layers: [
                normed(1, inputs, stride)?,
                normed(2, width, 1)?,
                at.at("conv3").conv(backend, Conv::linear(width, outputs))?,
            ],
        })
    }

    pub fn run(&self, b: &B, x: &Values) -> Result<Values> {
        let mut x = b.activate(&Tensor::new(x)?, Activation::Relu);
        for layer in &self.layers {
            x = b.conv(&x, layer, None)?;
        }
        Ok(x.candle().clone())
    }
}

/// Two linear layers with a ReLU between them.
pub struct DenseSubnet<B: Parameters> {
    layers: [B::Conv; 2],
}

impl<B: Parameters> DenseSubnet<B> {
    pub fn new(backend: &B, at: &Scope<'_>, inputs: usize, outputs: usize) -> Result<Self> {
        let width = { at.array("linear1.weight")?.shape.first() }
            .copied()
            .unwrap_or(0);
        let first = Conv::linear(inputs, width).activation(Activation::Relu);
        Ok(Self {
            layers: [
                at.at("linear1").conv(backend, first)?,
                at.at("linear2")
                    .conv(backend, Conv::linear(width, outputs))?,
            ],
        })
    }

    /// `[n, inputs]` to `[n, outputs]`.
    pub fn run(&self, b: &B, x: &Values) -> Result<Values> {
        let mut x = Tensor::new(x)?;
        for layer in &self.layers {
            x = b.conv(&x, layer, None)?;
        }
        super::candle(x.candle().flatten_from(1))
    }
}
