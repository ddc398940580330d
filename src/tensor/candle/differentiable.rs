//! What a device with gradients can do besides [`Backend`].

use candle_core::{Device, Var};

use super::Tensor;
use super::tensor::from_candle;
use crate::tensor::{Array, Backend, TensorError};

/// A device whose tensors are on candle's tape.
pub trait Differentiable: Backend<Tensor = Tensor> + Clone + 'static {
    /// Where its tensors are.
    fn device(&self) -> Device;

    /// Uploads NCHW images (or `[n, c]` vectors) as a variable: gradients can be taken with respect to it.
    fn variable(&self, array: &Array) -> Result<Var, TensorError> {
        Var::from_tensor(self.upload(array)?.candle()).map_err(from_candle)
    }

    /// A candle tensor NCHW as an activation; gradients flow through.
    fn from_nchw(&self, images: &candle_core::Tensor) -> Result<Tensor, TensorError> {
        let nhwc = images.permute((0, 2, 3, 1)).map_err(from_candle)?;
        Tensor::new(&nhwc)
    }

    /// An activation as a candle tensor NCHW; gradients flow through.
    fn to_nchw(&self, x: &Tensor) -> Result<candle_core::Tensor, TensorError> {
        let nchw = x.sound()?.permute((0, 3, 1, 2));
        nchw.and_then(|t| t.contiguous()).map_err(from_candle)
    }

    /// `log softmax` over the channels.
    fn log_softmax(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        x.log_softmax()
    }
}
