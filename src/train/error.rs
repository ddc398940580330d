//! What can go wrong in training.

use crate::diffusion::DiffusionError;
use crate::images::ImageError;
use crate::nets::NetError;
use crate::tensor::TensorError;

pub type Result<T> = std::result::Result<T, TrainError>;

/// What can go wrong in training.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    #[error("{path}: {what}")]
    File { path: String, what: String },
    #[error("{0}")]
    Data(String),
    #[error(
        "{path}: this checkpoint belongs to another run: {field} was {was} and is now {now}. Give the same options, or \
         start anew without --resume"
    )]
    OtherRun {
        path: String,
        field: String,
        was: String,
        now: String,
    },
    #[error("step {step}: the loss is {loss}. Lower --rate, or check the images")]
    Diverged { step: usize, loss: f32 },
    #[error(transparent)]
    Diffusion(#[from] DiffusionError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(transparent)]
    Image(#[from] ImageError),
}

impl From<candle_core::Error> for TrainError {
    fn from(error: candle_core::Error) -> Self {
        TrainError::Tensor(TensorError::Device(error.to_string()))
    }
}
