//! What can be wrong with the results of a study. Every message says where, what was expected, what was found, and what to do.

use std::path::PathBuf;

/// Why tables cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    #[error("{}: expected {expected}, found: {source}: check the path and its permissions", path.display())]
    Unreadable {
        path: PathBuf,
        expected: &'static str,
        source: std::io::Error,
    },
    /// A fault of a file as a whole.
    #[error("{}: expected {expected}, found {found}: {advice}", path.display())]
    File {
        path: PathBuf,
        expected: String,
        found: String,
        advice: String,
    },
    /// A fault at one place of a CSV file.
    #[error("{}, line {line}{}: expected {expected}, found {found}: {advice}", path.display(), column.as_ref().map_or(String::new(), |c| format!(", {c}")))]
    Cell {
        path: PathBuf,
        line: u64,
        /// Number and name of the column, if it is one column's fault.
        column: Option<String>,
        expected: String,
        found: String,
        advice: &'static str,
    },
    #[error(
        "{}, line 1: the header lacks {}: expected the columns of the study, found {found}: add what is missing, name the \
         columns in a file for --settings, or ask for tables that do not need them with --table",
        path.display(), missing.join(", ")
    )]
    MissingColumns {
        path: PathBuf,
        missing: Vec<String>,
        found: String,
    },
    #[error("{second}: {what} was given before, by {first}: leave one of them out")]
    Twice {
        what: String,
        first: String,
        second: String,
    },
    #[error(
        "{row} of {first} and of {second} must not share a row: {difference}: score them with the same networks and options"
    )]
    Fingerprint {
        row: String,
        first: String,
        second: String,
        difference: String,
    },
    #[error(
        "expected groups of the ideal pairs ({ideal}), found none of them among {found}: name the ideal pairs of this study \
         with --ideal SOURCE:TARGET,…"
    )]
    NothingIdeal { ideal: String, found: String },
    /// The command line asks for something that does not exist.
    #[error("{0}")]
    Usage(String),
}

pub type Result<T> = std::result::Result<T, TablesError>;
