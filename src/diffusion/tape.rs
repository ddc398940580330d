//! Gradients by candle's tape.

use candle_core::Var;

use super::error::{DiffusionError, Result};
use crate::tensor::candle::{Candle, Tensor};
use crate::tensor::{Array, Backend, TensorError};

/// What candle says, as our error.
pub fn candle_error(error: candle_core::Error) -> DiffusionError {
    TensorError::Device(error.to_string()).into()
}

/// The gradient of a sum by a variable, as an array NCHW; zeros if it does not depend on it.
pub fn gradient(sum: &candle_core::Tensor, by: &Var) -> Result<Array> {
    let all = sum.backward().map_err(candle_error)?;
    let found = match all.get(by.as_tensor()) {
        Some(found) => found.clone(),
        None => by.as_tensor().zeros_like().map_err(candle_error)?,
    };
    Ok(Candle.download(&Tensor::new(&found)?)?)
}
