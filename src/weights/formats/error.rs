//! What can go wrong while reading or writing weights, said so that the reader knows what to do.

pub(super) use crate::tensor::shorten;

use crate::tensor::StateDictError;
use std::io;
use thiserror::Error;

/// Why a weight file was not read, converted or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The operating system refused.
    #[error("{file}: cannot {action}: {source}")]
    Io {
        file: String,
        action: &'static str,
        source: io::Error,
    },
    /// The content is none of the known formats.
    #[error("{file}: not a readable weight file: found {found}. {todo}")]
    Unknown {
        file: String,
        found: String,
        todo: String,
    },
    /// The format is known but its content contradicts itself or ends early.
    #[error("{file}: damaged, or not what it claims to be: {what}. Fetch or save the file again")]
    Damaged { file: String, what: String },
    /// A known format uses something that is deliberately not read.
    #[error("{file}: {what} cannot be read. {todo}")]
    Unsupported {
        file: String,
        what: String,
        todo: String,
    },
    /// One tensor is not what it has to be.
    #[error("{file}: tensor `{tensor}`: expected {expected}, found {found}. {todo}")]
    Tensor {
        file: String,
        tensor: String,
        expected: String,
        found: String,
        todo: String,
    },
    /// Names or numbers of the content are not what they have to be.
    #[error(transparent)]
    Content(#[from] StateDictError),
    /// The file asks for more work or memory than any honest file of its size.
    #[error(
        "{file}: refused: {what} (limit {limit}). If the file is trusted, save it again as \
         .safetensors"
    )]
    Limit {
        file: String,
        what: String,
        limit: u64,
    },
}

/// Result of everything in this module.
pub type Result<T> = std::result::Result<T, FormatError>;

/// The file under work; makes errors that name it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a>(pub &'a str);

impl Source<'_> {
    pub fn io(self, action: &'static str, source: io::Error) -> FormatError {
        FormatError::Io {
            file: self.0.into(),
            action,
            source,
        }
    }

    pub fn unknown(self, found: impl Into<String>, todo: impl Into<String>) -> FormatError {
        FormatError::Unknown {
            file: self.0.into(),
            found: found.into(),
            todo: todo.into(),
        }
    }

    pub fn damaged(self, what: impl Into<String>) -> FormatError {
        FormatError::Damaged {
            file: self.0.into(),
            what: what.into(),
        }
    }

    pub fn unsupported(self, what: impl Into<String>, todo: impl Into<String>) -> FormatError {
        FormatError::Unsupported {
            file: self.0.into(),
            what: what.into(),
            todo: todo.into(),
        }
    }

    pub fn tensor(
        self,
        tensor: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
        todo: impl Into<String>,
    ) -> FormatError {
        FormatError::Tensor {
            file: self.0.into(),
            tensor: shorten(tensor),
            expected: expected.into(),
            found: found.into(),
            todo: todo.into(),
        }
    }

    pub fn limit(self, what: impl Into<String>, limit: u64) -> FormatError {
        FormatError::Limit {
            file: self.0.into(),
            what: what.into(),
            limit,
        }
    }
}
