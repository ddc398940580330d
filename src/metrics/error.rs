//! What can be wrong with the input of a metric, said with the place and the remedy.

use crate::tensor::TensorError;

/// Result of a metric function.
pub type Result<T> = std::result::Result<T, MetricError>;

/// A metric could not be computed; the message names what, where, expected and found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// A statistic needs more rows than there are.
    #[error("{metric} needs at least {needed} {what}, found {found}")]
    TooFew {
        metric: &'static str,
        what: String,
        needed: usize,
        found: usize,
    },
    /// NaN or infinity in features, logits or pixels.
    #[error(
        "{what}: {value} at row {row}, column {column} is not a finite number; check the network and its input"
    )]
    NotFinite {
        what: String,
        row: usize,
        column: usize,
        value: f64,
    },
    /// Two inputs do not fit together, or a buffer does not have its stated size.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        what: String,
        expected: String,
        found: String,
    },
    /// A class index outside the classes of the logits.
    #[error(
        "{what}: class {label} at row {row} is out of range; there are {classes} classes (0 to {})",
        classes.saturating_sub(1)
    )]
    LabelOutOfRange {
        what: String,
        row: usize,
        label: i64,
        classes: usize,
    },
    /// A row index outside the set it selects from.
    #[error("{what}: row index {index} at position {position} is out of range for {rows} rows")]
    IndexOutOfRange {
        what: String,
        position: usize,
        index: usize,
        rows: usize,
    },
    /// A probability outside [0, 1] by more than rounding, or a row that does not sum to 1.
    #[error("{what}: {value} at row {row}, column {column} is not a probability (0 to 1)")]
    NotAProbability {
        what: String,
        row: usize,
        column: usize,
        value: f64,
    },
    /// An option has a value that makes no sense.
    #[error("{name} must be {expected}, found {found}")]
    Parameter {
        name: &'static str,
        expected: String,
        found: String,
    },
    /// Features whose products leave the range of a device's numbers; the host has to compute them.
    #[error("the features are too large or too small for the device; use --device cpu")]
    BeyondDevice,
    /// A device could not do its part.
    #[error("{what}: {source}")]
    Device { what: String, source: TensorError },
    /// A decomposition failed or a result overflowed.
    #[error("{what}: {detail}")]
    Numeric { what: String, detail: String },
}

impl MetricError {
    /// Whether the host can compute what the device cannot: too little memory there, more than a kernel may see, or numbers it
    /// does not have.
    pub fn is_for_the_host(&self) -> bool {
        match self {
            MetricError::BeyondDevice => true,
            MetricError::Device { source, .. } => matches!(
                source,
                TensorError::OutOfMemory { .. } | TensorError::TooLarge { .. }
            ),
            _ => false,
        }
    }

    /// A shape error from anything printable.
    pub(crate) fn shape(
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Shape {
            what: what.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}
