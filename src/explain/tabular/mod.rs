//! Counterfactuals of table rows: the ten algorithms of \[tabular-benchmark\], one file each, in two variants.
//!
//! `correct` is what a method's paper means: columns of one category are one feature, numbers stay in their range, immutable features stay as they are, and
//! what is returned is a realistic row of the wished class. `as-benchmarked` is what the benchmark ran, with its mistakes; each file says which.
//! A method gets a [`Problem`] (one factual) and gives a [`Found`]; it stops with the best so far when its time is up.

mod adam;
mod cadex;
mod cfproto;
mod cfproto_numbers;
mod dice;
mod dice_published;
mod error;
mod growing_spheres;
mod line;
mod lore;
mod lore_genes;
mod mace;
mod mace_branch;
#[cfg(test)]
mod mace_tests;
mod method;
mod ml_explain;
mod problem;
mod sedc;
mod simplex;
mod space;
mod synas;

pub use cadex::CadexParams;
pub use cfproto::{CfprotoParams, Slopes};
pub use dice::DiceParams;
pub use error::ExplainError;
pub use growing_spheres::GrowingSpheresParams;
pub use lore::LoreParams;
pub use lore_genes::GenesParams;
pub use mace::{Distance, MaceParams, minimal_change};
pub use mace_branch::Cheapest;
pub use method::{Batch, Method, Variant, explain, explain_all};
pub use ml_explain::MlExplainParams;
pub use problem::{Clock, Ended, Found, Problem, Proof};
pub use sedc::SedcParams;
pub use space::{Limits, Space};
pub use synas::SynasParams;

/// Results of this room.
pub type Result<T> = std::result::Result<T, ExplainError>;
