//! Feature attribution: synthetic data with known distributions, models, explainers, and the metrics that judge them.
//!
//! The benchmark of \[xai-bench\] (Liu, Khandagale, White & Neiswanger 2021). A feature attribution gives each feature of a point a weight for a model's
//! prediction. Data come from distributions whose conditionals are exact ([`data`]), so that metrics ([`metrics`]) need no guess of them. [`models`] are those of the paper, or the user's
//! own; [`explainers`] are its eight methods. Everything is f64. Where the released code differs from what the paper means, [`Variant`] chooses.

pub mod data;
mod error;
pub mod expectation;
pub mod explainers;
pub mod metrics;
pub mod models;
pub mod normal_curve;
mod rows;
pub mod small_matrix;
pub mod subsets;

pub use error::AttributionError;
pub use rows::{Rows, mean_and_std};

use serde::{Deserialize, Serialize};

/// What the paper means, or what its released code does.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    #[default]
    Correct,
    AsReleased,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::AsReleased => "as-released",
        }
    }
}

/// Streams of random numbers of this room.
pub mod streams {
    use crate::stats::random::Stream;

    /// Features of data sets.
    pub const FEATURES: Stream = Stream(100);
    /// Noise on labels.
    pub const NOISE: Stream = Stream(101);
    /// First weights of an MLP.
    pub const MLP_WEIGHTS: Stream = Stream(102);
    /// Order of rows in an epoch of an MLP.
    pub const MLP_ORDER: Stream = Stream(103);
    /// Order of features in a tree.
    pub const TREE: Stream = Stream(104);
    /// Bootstrap rows and features of a forest.
    pub const FOREST: Stream = Stream(105);
    /// Weights of the explainer `random`.
    pub const RANDOM_WEIGHTS: Stream = Stream(106);
    /// Perturbations of LIME.
    pub const LIME: Stream = Stream(107);
    /// Coalitions of Kernel SHAP.
    pub const KERNEL_SHAP: Stream = Stream(108);
    /// Conditional draws of metrics.
    pub const CONDITIONAL: Stream = Stream(109);
    /// Perturbations of infidelity.
    pub const INFIDELITY: Stream = Stream(110);
    /// Draws that replace removed features in ROAR.
    pub const ROAR: Stream = Stream(111);
    /// Weights and samples of L2X.
    pub const L2X: Stream = Stream(112);
    /// Draws of SHAPR's parametric approaches.
    pub const SHAPR: Stream = Stream(113);
}
