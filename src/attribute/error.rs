//! What can be wrong with data, models, explanations and their scores.

use std::path::PathBuf;

use crate::tensor::ArrayError;

#[derive(Debug, thiserror::Error)]
pub enum AttributionError {
    /// A covariance that no distribution has.
    #[error("{what}: expected a symmetric positive definite matrix, found {found}")]
    NotPositiveDefinite { what: String, found: String },
    /// Things that do not fit each other.
    #[error("{what}: expected {expected}, found {found}{hint}")]
    Mismatch {
        what: String,
        expected: String,
        found: String,
        /// What to do, with its own separator; may be empty.
        hint: String,
    },
    /// A setting outside its range.
    #[error("{option}: expected {expected}, found {found}")]
    Setting {
        option: String,
        expected: String,
        found: String,
    },
    /// Something that this family, model or method does not do.
    #[error("{what}: {reason}")]
    Unsupported { what: String, reason: String },
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error(transparent)]
    Array(#[from] ArrayError),
    #[error("training of L2X: {0}")]
    Candle(#[from] candle_core::Error),
}

impl AttributionError {
    pub(super) fn mismatch(
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Mismatch {
            what: what.into(),
            expected: expected.into(),
            found: found.into(),
            hint: String::new(),
        }
    }

    pub(super) fn setting(
        option: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Setting {
            option: option.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(super) fn file(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self::File {
            path: path.into(),
            reason: reason.into(),
        }
    }
}

pub type Result<T> = std::result::Result<T, AttributionError>;
