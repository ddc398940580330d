//! Convolutions: `activation(conv(x) + bias + residual)`.
//!
//! The weights of a finished network are constants: they are no argument of the operation, so nothing is computed
//! for them on the way back. Weights in training (`trainable_conv.rs`) are arguments.

use std::sync::Arc;

use candle_core::Var;

use super::input_gradient::InputGradient;
use super::operation::{Gradient, Operation, Output};
use super::slope::{shows_in_result, times_slope};
use super::tensor::{Tensor, View};
use super::{activation, operation, trainable_conv};
use crate::cpu::{Packed, conv};
use crate::{Activation, Array, Conv, TensorError};

/// A convolution ready to run on candle.
pub struct Prepared {
    spec: Conv,
    weights: Weights,
}

enum Weights {
    Constant(Arc<Constant>),
    Trainable { weight: Var, bias: Option<Var> },
}

/// Packed weights for both directions.
struct Constant {
    forward: Packed,
    backward: InputGradient,
}

impl Prepared {
    pub fn constant(spec: Conv, weight: &Array, bias: &[f32]) -> Result<Self, TensorError> {
        // SiLU and GELU need their input on the way back, so they become an operation of their own.
        let fused = if shows_in_result(spec.activation) {
            spec
        } else {
            spec.activation(Activation::None)
        };
        let forward = Packed::new(fused, weight, bias)?;
        let backward = InputGradient::new(spec, weight.data.clone());
        Ok(Self {
            spec,
            weights: Weights::Constant(Arc::new(Constant { forward, backward })),
        })
    }

    /// Weights that are being trained: OIHW (or `[o, i]`) and `[o]`.
    pub fn trainable(spec: Conv, weight: &Var, bias: Option<&Var>) -> Result<Self, TensorError> {
        trainable_conv::check(&spec, weight, bias)?;
        Ok(Self {
            spec,
            weights: Weights::Trainable {
                weight: weight.clone(),
                bias: bias.cloned(),
            },
        })
    }

    pub fn run(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor, TensorError> {
        let activation = self.spec.activation;
        let y = match &self.weights {
            Weights::Constant(constant) => {
                let constant = Arc::clone(constant);
                match residual {
                    None => operation::unary(Convolve(constant), x)?,
                    Some(r) => operation::binary(Convolve(constant), x.candle(), r.candle())?,
                }
            }
            Weights::Trainable { weight, bias } => {
                let y = trainable_conv::run(self.spec, x, weight, bias.as_ref())?;
                match residual {
                    None => y,
                    Some(r) => {
                        let expected = y.shape();
                        crate::rules::equal("residual", expected, r.shape())?;
                        operation::binary(activation::Add, y.candle(), r.candle())?
                    }
                }
            }
        };
        let fused = matches!(self.weights, Weights::Constant(_)) && shows_in_result(activation);
        if fused || activation == Activation::None {
            return Ok(y);
        }
        operation::unary(activation::Activate(activation), &y)
    }
}

/// One convolution with constant weights.
struct Convolve(Arc<Constant>);

impl Convolve {
    fn forward(&self, x: View<'_>, residual: Option<View<'_>>) -> Output {
        let packed = &self.0.forward;
        let shape = crate::rules::conv(x.shape, &packed.spec)?;
        if let Some(r) = residual {
            crate::rules::equal("residual of a convolution", shape, r.shape)?;
        }
        let mut values = vec![0.0; shape.len()];
        let residual = residual.map(|r| r.data);
        conv::run_slice(x.data, x.shape, packed, residual, &mut values)?;
        Ok((shape, values))
    }

    /// The gradients of the input and of the sum before the activation.
    fn backward(
        &self,
        x: View<'_>,
        y: View<'_>,
        g: View<'_>,
        wanted: bool,
    ) -> Result<[Gradient; 2], TensorError> {
        let activation = self.0.forward.spec.activation;
        let sum = match activation {
            Activation::None => Gradient::Same,
            _ => Gradient::Values(times_slope(g.data, y.data, activation)),
        };
        let before = match &sum {
            Gradient::Values(values) => View {
                data: values,
                shape: g.shape,
            },
            _ => g,
        };
        let input = if wanted {
            Gradient::Values(self.0.backward.run(before, x.shape)?)
        } else {
            Gradient::Nothing
        };
        Ok([input, sum])
    }
}

impl Operation<1> for Convolve {
    const NAME: &'static str = "convolution";

    fn forward(&self, [x]: [View<'_>; 1]) -> Output {
        self.forward(x, None)
    }

    fn backward(
        &self,
        [x]: [View<'_>; 1],
        y: View<'_>,
        g: View<'_>,
        [wanted]: [bool; 1],
    ) -> Result<[Gradient; 1], TensorError> {
        let [input, _] = self.backward(x, y, g, wanted)?;
        Ok([input])
    }
}

impl Operation<2> for Convolve {
    const NAME: &'static str = "convolution with a residual";

    fn forward(&self, [x, residual]: [View<'_>; 2]) -> Output {
        self.forward(x, Some(residual))
    }

    fn backward(
        &self,
        [x, _]: [View<'_>; 2],
        y: View<'_>,
        g: View<'_>,
        [wanted, _]: [bool; 2],
    ) -> Result<[Gradient; 2], TensorError> {
        self.backward(x, y, g, wanted)
    }
}
