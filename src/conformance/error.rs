//! Why an area could not be run at all (a case that misses its tolerance is no error: it is in the report).

use crate::attribute::AttributionError;
use crate::conformance::AREAS;
use crate::diffusion::DiffusionError;
use crate::explain::latent::LatentError;
use crate::explain::tabular::ExplainError;
use crate::metrics::MetricError;
use crate::nets::NetError;
use crate::score::samples::SamplesError;
use crate::study::tables::TablesError;
use crate::tabular::TabularError;
use crate::tensor::{ArrayError, TensorError};

#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    #[error("unknown area {0:?}; use {known}, or all", known = AREAS.join(", "))]
    UnknownArea(String),
    #[error("{folder} is not a folder; give one of the layout of reference/<area>")]
    NotAFolder { folder: String },
    #[error("{file}: {source}")]
    Io {
        file: String,
        source: std::io::Error,
    },
    #[error("{file}: not a JSON file: {source}")]
    Json {
        file: String,
        source: serde_json::Error,
    },
    #[error("{file}: `{place}`: expected {expected}, found {found}")]
    Content {
        file: String,
        place: String,
        expected: String,
        found: String,
    },
    #[error("{file}: not an image: {reason}")]
    Image { file: String, reason: String },
    #[error(transparent)]
    Weights(Box<crate::weights::WeightsError>),
    #[error(transparent)]
    Array(#[from] ArrayError),
    #[error("{what}: {source}")]
    Net { what: String, source: NetError },
    #[error("{what}: {source}")]
    Metric { what: String, source: MetricError },
    #[error("{what}: {source}")]
    Diffusion {
        what: String,
        source: DiffusionError,
    },
    #[error("{what}: {source}")]
    Latent {
        what: String,
        source: Box<LatentError>,
    },
    #[error(transparent)]
    Attribution(Box<AttributionError>),
    #[error(transparent)]
    Tables(Box<TablesError>),
    #[error("{what}: {source}")]
    Samples {
        what: String,
        source: Box<SamplesError>,
    },
    #[error("{what}: {source}")]
    Tabular {
        what: String,
        source: Box<TabularError>,
    },
    #[error("{what}: {source}")]
    Explain {
        what: String,
        source: Box<ExplainError>,
    },
}

impl From<AttributionError> for ConformanceError {
    fn from(error: AttributionError) -> Self {
        Self::Attribution(Box::new(error))
    }
}

/// Says of which file or case an error of a lower room is.
pub(super) trait Of<T> {
    fn of(self, what: impl Into<String>) -> Result<T, ConformanceError>;
}

impl<T> Of<T> for Result<T, NetError> {
    fn of(self, what: impl Into<String>) -> Result<T, ConformanceError> {
        self.map_err(|source| ConformanceError::Net {
            what: what.into(),
            source,
        })
    }
}

impl<T> Of<T> for Result<T, TensorError> {
    fn of(self, what: impl Into<String>) -> Result<T, ConformanceError> {
        self.map_err(NetError::from).of(what)
    }
}

impl<T> Of<T> for Result<T, MetricError> {
    fn of(self, what: impl Into<String>) -> Result<T, ConformanceError> {
        self.map_err(|source| ConformanceError::Metric {
            what: what.into(),
            source,
        })
    }
}

impl<T> Of<T> for Result<T, DiffusionError> {
    fn of(self, what: impl Into<String>) -> Result<T, ConformanceError> {
        self.map_err(|source| ConformanceError::Diffusion {
            what: what.into(),
            source,
        })
    }
}

impl<T> Of<T> for Result<T, TabularError> {
    fn of(self, what: impl Into<String>) -> Result<T, ConformanceError> {
        self.map_err(|source| ConformanceError::Tabular {
            what: what.into(),
            source: Box::new(source),
        })
    }
}

impl<T> Of<T> for Result<T, ExplainError> {
    fn of(self, what: impl Into<String>) -> Result<T, ConformanceError> {
        self.map_err(|source| ConformanceError::Explain {
            what: what.into(),
            source: Box::new(source),
        })
    }
}

impl<T> Of<T> for Result<T, SamplesError> {
    fn of(self, what: impl Into<String>) -> Result<T, ConformanceError> {
        self.map_err(|source| ConformanceError::Samples {
            what: what.into(),
            source: Box::new(source),
        })
    }
}

impl<T> Of<T> for Result<T, LatentError> {
    fn of(self, what: impl Into<String>) -> Result<T, ConformanceError> {
        self.map_err(|source| ConformanceError::Latent {
            what: what.into(),
            source: Box::new(source),
        })
    }
}
