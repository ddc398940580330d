//! Gradients by candle's tape, on the device that the networks are on.

use candle_core::{Device, Var};

use super::error::{DiffusionError, Result};
use crate::tensor::candle::{Candle, Tensor};
use crate::tensor::{Array, Backend, TensorError};

/// What candle says, as our error.
pub fn candle_error(error: candle_core::Error) -> DiffusionError {
    TensorError::Device(error.to_string()).into()
}

/// Images NCHW on a device of candle.
pub fn upload(images: &Array, device: &Device) -> Result<Tensor> {
    Ok(Candle.upload(images)?.on(device)?)
}

/// The same as a variable: gradients can be taken with respect to it.
pub fn variable(images: &Array, device: &Device) -> Result<Var> {
    Var::from_tensor(upload(images, device)?.candle()).map_err(candle_error)
}

/// An activation of any device, NCHW.
pub fn download(values: &Tensor) -> Result<Array> {
    Ok(Candle.download(values)?)
}

/// Values `[n, 1, 1, c]`, a row for each image, without a gradient.
pub fn rows(values: Vec<f32>, n: usize, device: &Device) -> Result<candle_core::Tensor> {
    let c = values.len() / n.max(1);
    candle_core::Tensor::from_vec(values, (n, 1, 1, c), device).map_err(candle_error)
}

/// The gradient of a sum by a variable, as an array NCHW; zeros if it does not depend on it.
pub fn gradient(sum: &candle_core::Tensor, by: &Var) -> Result<Array> {
    let all = sum.backward().map_err(candle_error)?;
    let found = match all.get(by.as_tensor()) {
        Some(found) => found.clone(),
        None => by.as_tensor().zeros_like().map_err(candle_error)?,
    };
    download(&Tensor::new(&found)?)
}
