//! Why a study of latent explainers cannot be run or finished.

use crate::explain::latent::LatentError;
use crate::folder::FolderError;
use crate::metrics::MetricError;

#[derive(Debug, thiserror::Error)]
pub enum LatentStudyError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    #[error("{file}: {what}")]
    File { file: String, what: String },
    #[error(transparent)]
    Latent(Box<LatentError>),
    #[error(transparent)]
    Metric(#[from] MetricError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl From<LatentError> for LatentStudyError {
    fn from(error: LatentError) -> Self {
        Self::Latent(Box::new(error))
    }
}
