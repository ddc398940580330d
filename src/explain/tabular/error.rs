//! Why a row cannot be explained.

use crate::tabular::TabularError;

/// An error names the option or row, what was expected and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error(
        "{method} needs the gradient of a network; this model has none: take growing-spheres, sedc or lore, or give a network of one hidden layer"
    )]
    NeedsNetwork { method: &'static str },
    #[error("{option}: {reason}")]
    Option { option: String, reason: String },
    #[error(
        "factual {row}: the model puts it into class {class} already, which is the wished one; leave it out, or wish for class {other}"
    )]
    AlreadyThere {
        row: usize,
        class: usize,
        other: usize,
    },
    #[error(transparent)]
    Tabular(#[from] TabularError),
}
