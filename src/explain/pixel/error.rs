//! What can go wrong with counterfactuals of small images.

use crate::nets::NetError;
use crate::tensor::TensorError;
use crate::weights::WeightsError;

/// What can go wrong with counterfactuals of small images.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PixelError {
    #[error(
        "expected images [n, channels, height, width] and a target for each, found {found:?} and {targets} targets"
    )]
    Shape { found: Vec<usize>, targets: usize },
    #[error("the range of pixels: expected a smaller and a larger number, found {low} and {high}")]
    Range { low: f32, high: f32 },
    #[error("image {image} has values that are no finite numbers")]
    NotFinite { image: usize },
    #[error("image {image}: target {target}, and the explained network has {classes} classes")]
    NoClass {
        image: usize,
        target: usize,
        classes: usize,
    },
    #[error(
        "image {image}: the explained network puts it into its target, class {target}, already; give it another target"
    )]
    SameClass { image: usize, target: usize },
    #[error("{0}")]
    Setting(String),
    #[error("{name}: {what}")]
    Network { name: String, what: String },
    #[error("{0}")]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl From<candle_core::Error> for PixelError {
    fn from(error: candle_core::Error) -> Self {
        PixelError::Tensor(TensorError::Device(error.to_string()))
    }
}
