//! Why weights could not be found, trusted or used.

use std::{io, path::Path};

use super::formats::FormatError;
use crate::nets::NetError;
use crate::tensor::StateDictError;

/// Why weights could not be found, trusted or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    #[error(
        "no network is named {name:?}{near}. Known: {known}. Or give the path of a model card (.toml)"
    )]
    UnknownName {
        name: String,
        near: String,
        known: String,
    },
    #[error("{file}: not a usable model card: {reason}")]
    Card { file: String, reason: String },
    #[error("{file}: cannot {action}: {source}")]
    Io {
        file: String,
        action: &'static str,
        source: io::Error,
    },
    #[error("{name}: its weights are not on this machine.\n{help}")]
    Missing { name: String, help: String },
    #[error("{file}: expected sha256 {expected}, found {found}. {todo}")]
    Checksum {
        file: String,
        expected: String,
        found: String,
        todo: String,
    },
    #[error("{file}: {reason}. Import the weights again: foil weights import FILE --as {name}")]
    Record {
        file: String,
        name: String,
        reason: String,
    },
    #[error("{address}: download failed: {reason}. {todo}")]
    Hub {
        address: String,
        reason: String,
        todo: String,
    },
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Content(#[from] StateDictError),
    #[error("{file}: does not fit {name} ({architecture}): {source}")]
    Net {
        file: String,
        name: String,
        architecture: String,
        source: Box<NetError>,
    },
    #[error("{file}: does not fit {name}: expected {expected}, found {found}")]
    Misfit {
        file: String,
        name: String,
        expected: String,
        found: String,
    },
    #[error("{what} {given:?} is not known; use {known}")]
    Choice {
        what: &'static str,
        given: String,
        known: String,
    },
}

impl WeightsError {
    pub(super) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Io {
            file: path.display().to_string(),
            action,
            source,
        }
    }
}

/// Result of everything in this room.
pub(super) type Result<T> = std::result::Result<T, WeightsError>;
