//! What can go wrong with a world or an explainer.

use crate::glyphs::GlyphError;
use crate::metrics::MetricError;
use crate::nets::NetError;
use crate::tensor::{ArrayError, TensorError};
use crate::weights::WeightsError;

#[derive(Debug, thiserror::Error)]
pub enum LatentError {
    /// An option, or a setting of an explainer.
    #[error("{what}: expected {expected}, found {found}")]
    Setting {
        what: String,
        expected: String,
        found: String,
    },
    /// A file of the user's.
    #[error("{file}: {what}")]
    File { file: String, what: String },
    /// A network gave NaN or infinity.
    #[error("{what} of latent {row} is not finite; check the world's networks and statistics")]
    NotFinite { what: &'static str, row: usize },
    #[error(transparent)]
    Metric(#[from] MetricError),
    #[error(transparent)]
    Network(#[from] NetError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(transparent)]
    Glyphs(#[from] GlyphError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Folder(crate::folder::FolderError),
    #[error(transparent)]
    Arrays(#[from] ArrayError),
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
}

impl LatentError {
    pub(super) fn setting(
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> Self {
        Self::Setting {
            what: what.into(),
            expected: expected.into(),
            found: found.to_string(),
        }
    }

    pub(super) fn file(file: impl ToString, what: impl ToString) -> Self {
        Self::File {
            file: file.to_string(),
            what: what.to_string(),
        }
    }
}
