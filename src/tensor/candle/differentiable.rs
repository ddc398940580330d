//! What a device with gradients can do besides [`Backend`].

use candle_core::{Device, Var};

use super::Tensor;
use super::tensor::from_candle;
use crate::{Array, Backend, TensorError};

/// A device whose tensors are on candle's tape.
pub trait Differentiable: Backend<Tensor = Tensor> + Clone + 'static {
    /// Where its tensors are.
    fn device(&self) -> Device;

    /// Uploads NCHW images (or `[n, c]` vectors) as a variable: gradients can be taken with respect to it.
    fn variable(&self, array: &Array) -> Result<Var, TensorError> {
        Var::from_tensor(self.upload(array)?.candle()).map_err(from_candle)
    }

    /// `log softmax` over the channels.
    fn log_softmax(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        x.log_softmax()
    }
}
