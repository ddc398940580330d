//! Convolutions whose weights are being trained: weight and bias are arguments, and gradients flow into them.

use candle_core::{DType, Var};

use super::activation::sum_rows;
use super::input_gradient::InputGradient;
use super::operation::{self, Gradient, Operation, Output};
use super::tensor::{Tensor, View};
use super::weight_gradient::weight_gradient;
use crate::cpu::{Packed, conv};
use crate::{Activation, Array, Conv, TensorError};

/// Refuses weights that do not fit the convolution.
pub fn check(spec: &Conv, weight: &Var, bias: Option<&Var>) -> Result<(), TensorError> {
    let zeros = Array::zeros(weight.dims());
    let biases = vec![0.0; bias.map_or(0, |b| b.elem_count())];
    let rank = bias.is_none_or(|b| b.rank() == 1 && b.dtype() == DType::F32);
    if weight.dtype() != DType::F32 || !rank || !weight.is_contiguous() {
        return Err(TensorError::Shape {
            operation: "weights to train",
            expected: "contiguous F32 weights and a bias of one axis".into(),
            found: format!("{:?} {:?}", weight.dtype(), bias.map(|b| b.dims())),
        });
    }
    Packed::new(*spec, &zeros, &biases).map(|_| ())
}

/// `conv(x) + bias`, without the activation.
pub fn run(
    spec: Conv,
    x: &Tensor,
    weight: &Var,
    bias: Option<&Var>,
) -> Result<Tensor, TensorError> {
    let operation = Train(spec.activation(Activation::None));
    match bias {
        None => operation::binary(operation, x.candle(), weight.as_tensor()),
        Some(bias) => {
            operation::ternary(operation, x.candle(), weight.as_tensor(), bias.as_tensor())
        }
    }
}

struct Train(Conv);

impl Train {
    fn forward(&self, x: View<'_>, weight: View<'_>, bias: &[f32]) -> Output {
        let spec = self.0;
        let [kh, kw] = spec.kernel;
        let shape = [spec.outputs, spec.inputs / spec.groups, kh, kw];
        let packed = Packed::new(spec, &Array::new(shape, weight.data.to_vec())?, bias)?;
        let shape = crate::rules::conv(x.shape, &spec)?;
        let mut values = vec![0.0; shape.len()];
        conv::run_slice(x.data, x.shape, &packed, None, &mut values)?;
        Ok((shape, values))
    }

    fn backward(
        &self,
        x: View<'_>,
        weight: View<'_>,
        g: View<'_>,
        [input, weights]: [bool; 2],
    ) -> Result<[Gradient; 2], TensorError> {
        let to_input = if input {
            let back = InputGradient::new(self.0, weight.data.to_vec());
            Gradient::Values(back.run(g, x.shape)?)
        } else {
            Gradient::Nothing
        };
        let to_weight = Gradient::when(weights, || weight_gradient(&self.0, x, g));
        Ok([to_input, to_weight])
    }
}

impl Operation<2> for Train {
    const NAME: &'static str = "convolution in training";

    fn forward(&self, [x, weight]: [View<'_>; 2]) -> Output {
        self.forward(x, weight, &[])
    }

    fn backward(
        &self,
        [x, weight]: [View<'_>; 2],
        _: View<'_>,
        g: View<'_>,
        wanted: [bool; 2],
    ) -> Result<[Gradient; 2], TensorError> {
        self.backward(x, weight, g, wanted)
    }
}

impl Operation<3> for Train {
    const NAME: &'static str = "convolution in training";

    fn forward(&self, [x, weight, bias]: [View<'_>; 3]) -> Output {
        self.forward(x, weight, bias.data)
    }

    fn backward(
        &self,
        [x, weight, _]: [View<'_>; 3],
        _: View<'_>,
        g: View<'_>,
        [input, weights, bias]: [bool; 3],
    ) -> Result<[Gradient; 3], TensorError> {
        let [dx, dw] = self.backward(x, weight, g, [input, weights])?;
        let db = Gradient::when(bias, || sum_rows(g.data, g.shape.c));
        Ok([dx, dw, db])
    }
}
