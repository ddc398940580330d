//! What can be wrong with scores that are to share a table.

/// Why a table or a figure cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum QuantitativeError {
    #[error(
        "{score} of {first} and of {second} must not share a row: {difference}{explanation}; score them with the same networks and options"
    )]
    Fingerprint {
        score: String,
        first: String,
        second: String,
        difference: String,
        explanation: String,
    },
    #[error(
        "{score} of {method} ({place}): expected a fingerprint, which says with which networks and options it was computed, found none; score it again with `foil score`"
    )]
    NoFingerprint {
        score: String,
        method: String,
        place: String,
    },
    #[error("{0}")]
    Usage(String),
    #[error("{place}: {reason}")]
    File { place: String, reason: String },
    #[error(transparent)]
    Samples(#[from] crate::score::samples::SamplesError),
}
