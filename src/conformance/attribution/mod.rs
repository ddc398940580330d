//! The area `attribution`: data, models, explainers and metrics of \[xai-bench\], as its released code computes them and repaired.
//!
//! Closed forms agree to 1e-9 (the area that follows from a rank-deficient refit to 1e-7). What is random in the original is compared by its mean over seeds: within
//! 4 standard deviations times √(1/n + 1/n_ref), 5 where fewer than ten seeds gave the deviation.

mod datasets;
mod explanations;
mod golden;
mod l2x;
mod metrics;
mod models;
mod retrained;
mod sampled;
mod table1;
mod traces;
mod wine;

use super::Result;
use super::check::Check;
use super::folder::{Folder, Layout};

pub const LAYOUT: Layout = Layout {
    files: &[
        "datasets.json",
        "datasets.safetensors",
        "explanations.json",
        "explanations.safetensors",
        "explanations_other_sets.safetensors",
        "l2x.json",
        "l2x.safetensors",
        "metrics.json",
        "metrics.safetensors",
        "models.json",
        "models.safetensors",
        "table1_small.csv",
        "table1_small.json",
        "wine_simulation.json",
        "wine_simulation.safetensors",
        "winequality_white.csv",
    ],
    images: &[],
    // Times of the original on another machine.
    not_run: &["timings_explainers.json", "timings_metrics.json"],
};

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    datasets::run(folder, check)?;
    models::run(folder, check)?;
    explanations::run(folder, check)?;
    traces::lime(folder, check)?;
    traces::maple(folder, check)?;
    l2x::run(folder, check)?;
    metrics::run(folder, check)?;
    sampled::run(folder, check)?;
    retrained::run(folder, check)?;
    wine::run(folder, check)?;
    table1::run(folder, check)
}
