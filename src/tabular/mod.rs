//! Tables: rows of numbers and categories, their encoding, the split, and the small networks of \[tabular-benchmark\].
//!
//! `schema` says what a column is; `table` reads a CSV by it, with line and column in every error; `encoding` turns rows into the vectors
//! a network sees; `split` and `factuals` choose rows as the benchmark did; `network` is the one-hidden-layer network and `fit` trains it;
//! `formula` holds rules over several features; `rules_of_play` makes the two data sets that follow from their rules; `catalog` knows the rest.

mod batch;
mod catalog;
mod encoding;
mod error;
mod factuals;
mod fit;
mod formula;
mod infer;
mod network;
mod performance;
mod predictor;
mod prepared;
mod rules_of_play;
mod schema;
mod split;
mod statistics;
mod table;

pub use batch::probabilities_on;
pub use catalog::{CATALOG, DataSet, Source};
pub use encoding::{Column, Encoding, Kinds};
pub use error::TabularError;
pub use factuals::{MOST_FACTUALS, choose_factuals};
pub use fit::{Fit, FitSettings, Grid, GridPoint};
pub use formula::{Formula, Rule};
pub use infer::infer_schema;
pub use network::{Network, Toward};
pub use performance::{accuracy, area_under_curve};
pub use predictor::{Lookup, Predictor, SinglePrecision};
pub use prepared::{Prepared, SPLIT_SEED};
pub use rules_of_play::{balance_scale, tic_tac_toe};
pub use schema::{Feature, Kind, Missing, Schema};
pub use split::{Split, split};
pub use statistics::{Statistics, median, median_absolute_deviation};
pub use table::{Record, Table};

/// Results of this room.
pub type Result<T> = std::result::Result<T, TabularError>;
