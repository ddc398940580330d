//! What can go wrong in diffusion.

use crate::nets::NetError;
use crate::tensor::TensorError;

pub type Result<T> = std::result::Result<T, DiffusionError>;

/// What can go wrong in diffusion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffusionError {
    #[error("respacing {text:?} of {steps} steps: {why}")]
    Respacing {
        text: String,
        steps: usize,
        why: String,
    },
    #[error("a diffusion needs at least one step")]
    NoSteps,
    #[error(
        "the network gives {found} channels for images of {channels}: a diffusion needs {channels} (noise) or {} \
         (noise and variance)",
        2 * channels
    )]
    Channels { channels: usize, found: usize },
    #[error("class {target}, but the classifier knows {classes} classes, from 0")]
    Target { target: usize, classes: usize },
    #[error("a chain from step {start} of a schedule of {steps} steps")]
    Start { start: usize, steps: usize },
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
}
