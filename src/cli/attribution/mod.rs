//! `foil attribution`: data with known distributions, models, explanations, and what they are worth.

mod data;
mod explain;
mod score;
mod train;

use clap::{Args, Subcommand};

use super::UsageError;
use super::print;
use crate::attribute::AttributionError;
use crate::attribute::metrics::choice;

/// Feature attribution: synthetic data, models, explainers and metrics.
#[derive(Args)]
pub struct AttributionArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Draw a data set from a known distribution, or a twin of a real table
    Data(data::DataArgs),
    /// Train a model on a data set
    Train(train::TrainArgs),
    /// Explain a model's predictions by weights of features
    Explain(explain::ExplainArgs),
    /// Score weights: faithfulness, monotonicity, ROAR, GT-Shapley, infidelity
    Score(score::ScoreArgs),
    /// Say what the metrics measure
    Metrics(MetricsArgs),
}

#[derive(Args)]
struct MetricsArgs {
    /// Say also when to take which, and what to beware of
    #[arg(long)]
    why: bool,
}

pub fn run(args: &AttributionArgs) -> anyhow::Result<()> {
    match &args.what {
        What::Data(args) => data::run(args),
        What::Train(args) => train::run(args),
        What::Explain(args) => explain::run(args),
        What::Score(args) => score::run(args),
        What::Metrics(args) => print(&choice::guide(args.why)),
    }
}

/// Settings that make no sense are wrong usage.
fn usage(error: AttributionError) -> anyhow::Error {
    match error {
        AttributionError::Setting { .. }
        | AttributionError::NotPositiveDefinite { .. }
        | AttributionError::Unsupported { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}
