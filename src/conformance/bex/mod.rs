//! The area `bex`: networks and selection of the benchmark of "Evaluating Visual Counterfactual Explainers", against
//! its public package.
//!
//! Tolerances are those of the golden data: images 1e-6 (portable kernels 2e-6), encoder 1e-5, logits 5e-4 (their last layer is scaled up);
//! lists exact.

mod networks;
mod selection;

use super::Result;
use super::check::Check;
use super::folder::{Folder, Layout};
use crate::metrics::MetricBackend;

pub const LAYOUT: Layout = Layout {
    files: &[
        "classifier_slim.safetensors",
        "encoder_io.safetensors",
        "encoder_w1.safetensors",
        "generator_w025.safetensors",
        "generator_w025_io.safetensors",
        "generator_w05.safetensors",
        "model_io.json",
        "model_io.safetensors",
        "ortho_listing.json",
        "ortho_listing.safetensors",
    ],
    images: &[],
    not_run: &[
        "batch_metrics.json",
        "batch_metrics.safetensors",
        "traces.json",
        "traces.safetensors",
        "world.json",
        "world_batches.csv",
        "world_model.safetensors",
        "world_runs.safetensors",
        "world_stats.safetensors",
    ],
};

pub fn run<B: MetricBackend + 'static>(
    backend: &B,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    networks::run(backend, folder, check)?;
    selection::run(backend, folder, check)
}
