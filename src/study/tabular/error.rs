//! Why a study or a ranking cannot be made.

use crate::explain::tabular::ExplainError;
use crate::metrics::MetricError;
use crate::tabular::TabularError;

/// An error names the file or folder, what was expected and what was found.
#[derive(Debug, thiserror::Error)]
pub enum TabularStudyError {
    #[error("{file}: {source}")]
    Io {
        file: String,
        source: std::io::Error,
    },
    #[error("{file}: not a result of `foil tabular score` or `foil study tabular`: {reason}")]
    Results { file: String, reason: String },
    #[error("{0}")]
    Input(String),
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
    #[error("{what}: {source}")]
    Metric { what: String, source: MetricError },
}
