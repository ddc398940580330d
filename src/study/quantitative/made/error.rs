//! Why a study cannot be run.

use crate::explain::pixel::PixelError;
use crate::folder::FolderError;
use crate::glyphs::GlyphError;
use crate::nets::NetError;
use crate::score::samples::SamplesError;
use crate::study::quantitative::QuantitativeError;
use crate::tensor::TensorError;
use crate::weights::WeightsError;

/// Why a study cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MadeError {
    /// The configuration asks for something that makes no sense.
    #[error("the configuration: {what}")]
    Config { what: String },
    #[error("{path}: {what}")]
    File { path: String, what: String },
    #[error("{card}: {what}")]
    Judge { card: String, what: String },
    #[error(transparent)]
    Pixel(#[from] PixelError),
    #[error(transparent)]
    Samples(#[from] SamplesError),
    #[error(transparent)]
    Tables(#[from] QuantitativeError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Files(#[from] crate::train::TrainError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(transparent)]
    Glyph(#[from] GlyphError),
    #[error("{0}")]
    Weights(#[from] WeightsError),
    #[error("{0}")]
    Folder(#[from] FolderError),
}
