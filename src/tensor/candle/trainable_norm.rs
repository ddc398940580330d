//! Norms whose scale and shift are being trained.

use candle_core::Var;

use super::layer_norm::TrainLayerNorm;
use super::norm::GroupNorm;
use super::operation::{binary, ternary};
use super::tensor::{Tensor, from_candle};
use crate::{Activation, TensorError};

/// A group norm in training.
#[derive(Clone, Copy)]
pub struct TrainableNorm<'a> {
    pub groups: usize,
    /// `[c]` each.
    pub weight: &'a Var,
    pub bias: &'a Var,
    pub epsilon: f32,
}

fn check(x: &Tensor, weight: &Var, bias: &Var) -> Result<(), TensorError> {
    let c = x.shape().c;
    let fits = |v: &Var| v.dims() == [c] && v.dtype() == candle_core::DType::F32;
    if fits(weight) && fits(bias) {
        return Ok(());
    }
    Err(TensorError::Shape {
        operation: "norm in training",
        expected: format!("scale and shift of {c} F32 values"),
        found: format!("{:?} and {:?}", weight.shape(), bias.shape()),
    })
}

pub fn layer_norm(
    x: &Tensor,
    weight: &Var,
    bias: &Var,
    epsilon: f32,
) -> Result<Tensor, TensorError> {
    check(x, weight, bias)?;
    let operation = TrainLayerNorm { epsilon };
    ternary(operation, x.candle(), weight.as_tensor(), bias.as_tensor())
}

pub fn group_norm(
    x: &Tensor,
    norm: TrainableNorm<'_>,
    modulation: Option<&Tensor>,
    activation: Activation,
) -> Result<Tensor, TensorError> {
    check(x, norm.weight, norm.bias)?;
    // An operation has at most three arguments, so scale and shift travel as one.
    let affine = candle_core::Tensor::cat(&[norm.weight.as_tensor(), norm.bias.as_tensor()], 0);
    let affine = affine.map_err(from_candle)?;
    let operation = GroupNorm {
        groups: norm.groups,
        epsilon: norm.epsilon,
        activation,
        norm: None,
    };
    match modulation {
        None => binary(operation, x.candle(), &affine),
        Some(m) => ternary(operation, x.candle(), &affine, m.candle()),
    }
}
