//! Why a table, a schema or a network cannot be used.

use crate::tensor::{ArrayError, TensorError};

/// An error names the file, the place in it, what was expected, what was found and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TabularError {
    #[error("{file}: {source}")]
    Io {
        file: String,
        source: std::io::Error,
    },
    #[error("{file}: not a readable CSV: {reason}")]
    Csv { file: String, reason: String },
    #[error(
        "{file}, line {line}, column {column} (`{name}`): expected {expected}, found {found:?}"
    )]
    Cell {
        file: String,
        line: u64,
        column: usize,
        name: String,
        expected: String,
        found: String,
    },
    #[error("{file}: {expected}; found {found}")]
    Columns {
        file: String,
        expected: String,
        found: String,
    },
    #[error("{file}: {place}: expected {expected}, found {found}")]
    Schema {
        file: String,
        place: String,
        expected: String,
        found: String,
    },
    #[error("formula `{text}`, character {at}: {reason}")]
    Formula {
        text: String,
        at: usize,
        reason: String,
    },
    #[error(
        "{file}: a network of {found}, but the data encode to {expected}; train one on these data or give their schema"
    )]
    Width {
        file: String,
        expected: String,
        found: String,
    },
    #[error(
        "{file}: not a network of one hidden layer: {reason}; expected tensors w1 [inputs, hidden], b1 [hidden], w2 [hidden, 2], b2 [2]"
    )]
    Network { file: String, reason: String },
    #[error("{what}: {reason}")]
    Rows { what: String, reason: String },
    #[error(transparent)]
    Array(#[from] ArrayError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
}
