//! `foil tabular`: counterfactuals of table rows, made, scored, ranked.

mod datasets;
mod explain;
mod files;
mod rank;
mod recommend;
mod score;
mod train;

use clap::{Args, Subcommand};

pub use explain::{VariantArg, duration, method};
pub use rank::usage as rank_usage;
pub use score::EditionArg;

/// Makes, scores and ranks counterfactuals of table rows.
#[derive(Args)]
pub struct TabularArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Train the benchmark's one-hidden-layer network on a table
    Train(train::TrainArgs),
    /// Make counterfactuals of rows by one of ten methods
    Explain(Box<explain::ExplainArgs>),
    /// Score counterfactuals: coverage, sparsity, L2, MADD, MD, RUC, RMC
    Score(score::ScoreArgs),
    /// Rank methods over factuals: mean ranks, Friedman, Nemenyi, critical-difference diagrams
    Rank(rank::RankArgs),
    /// Say which method suits a problem, by decision trees on results elsewhere
    Recommend(recommend::RecommendArgs),
    /// List the benchmark's data sets: where they come from, and whether a folder has them
    Datasets(datasets::DatasetsArgs),
}

pub fn run(args: &TabularArgs) -> anyhow::Result<()> {
    match &args.what {
        What::Train(args) => train::run(args),
        What::Explain(args) => explain::run(args),
        What::Score(args) => score::run(args),
        What::Rank(args) => rank::run(args),
        What::Recommend(args) => recommend::run(args),
        What::Datasets(args) => datasets::run(args),
    }
}
