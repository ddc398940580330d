//! The area `tabular`: data sets, splits, networks, metrics, rank tables, decision trees and counterfactuals of \[tabular-benchmark\].
//!
//! Tolerances are those of the README of the golden data: encoding, splits and choices exact; AUC 1e-6; probabilities 1e-5; metrics 1e-9
//! relative (MADD 1e-6); ranks and statistics 1e-9, p values 1e-6; SEDC 1e-12, CADEX and SynAS 1e-5; minimal changes 1e-6.

mod algorithms;
mod exact;
mod metrics;
mod models;
mod ranking;
mod sets;
mod trees;

use super::Result;
use super::check::Check;
use super::folder::{Folder, Layout};
use crate::metrics::MetricBackend;

pub const LAYOUT: Layout = Layout {
    files: &[
        "algorithms/balance_scale_originals.json",
        "algorithms/balance_scale_originals.safetensors",
        "algorithms/exact_minimal_change.json",
        "algorithms/runs.json",
        "algorithms/runs.safetensors",
        "datasets/schema.json",
        "decision_tree/expected_trees.json",
        "decision_tree/training_rows.safetensors",
        "factuals/ISOLET.safetensors",
        "factuals/SDD.safetensors",
        "metrics/dataset_statistics.safetensors",
        "metrics/metric_expected.json",
        "metrics/metric_inputs.safetensors",
        "models/expected_performance.json",
        "models/retraining_auc.json",
        "published/original_generation_seconds.csv",
        "published/original_process_seconds_from_logs.csv",
        "published/stability_first_two_factuals.json",
        "published/table4_table5_friedman_nemenyi.json",
        "published/table4_table5_mean_ranks_unrounded.csv",
        "ranking/algorithms.json",
        "ranking/expected_ranking.json",
        "ranking/results_matrix.safetensors",
        "ranking/results_rows.csv",
        "splits/splits.safetensors",
    ],
    images: &[],
    // Times of other machines and programs: nothing to recompute.
    not_run: &[
        "published/original_generation_seconds.csv",
        "published/original_process_seconds_from_logs.csv",
        "published/stability_first_two_factuals.json",
    ],
};

pub fn run<B: MetricBackend + 'static>(
    backend: &B,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let sets = sets::read(backend, folder, check)?;
    models::run(backend, folder, &sets, check)?;
    metrics::run(folder, &sets, check)?;
    ranking::run(folder, check)?;
    trees::run(folder, check)?;
    algorithms::run(folder, &sets, check)?;
    exact::run(folder, &sets, check)
}
