//! The area `bex`: the benchmark of "Evaluating Visual Counterfactual Explainers", against its public package: networks,
//! selection, batch scores, a small world, and its explainers step by step.
//!
//! Tolerances are those of the golden data: images 1e-6 (portable kernels 2e-6), encoder 1e-5, logits 5e-4 (their last layer is scaled up);
//! lists and flags exact; latents of explainers ten times the difference of the package in f32 and in f64, as the data's page allows.

mod batch;
mod networks;
mod pair;
mod released_world;
mod selection;
mod spheres;
mod traces;
mod world;

use super::Result;
use super::check::Check;
use super::folder::{Folder, Layout};
use super::tensors::Tensors;
use crate::metrics::MetricBackend;
use crate::metrics::latent::{LATENT, Latent};
use crate::tensor::candle::Differentiable;

pub const LAYOUT: Layout = Layout {
    files: &[
        "batch_metrics.json",
        "batch_metrics.safetensors",
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
        "traces.json",
        "traces.safetensors",
        "world.json",
        "world_batches.csv",
        "world_model.safetensors",
        "world_runs.safetensors",
        "world_stats.safetensors",
    ],
    images: &[],
    not_run: &[],
};

pub fn run<B: MetricBackend + 'static>(
    backend: &B,
    with_gradients: &impl Differentiable,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    networks::run(backend, folder, check)?;
    pair::run(with_gradients, folder, check)?;
    selection::run(backend, folder, check)?;
    batch::run(folder, check)?;
    let Some(world) = released_world::ReleasedWorld::open(folder)? else {
        for (file, needed) in [
            ("world_runs.safetensors", "runs"),
            ("traces.safetensors", "traces"),
        ] {
            if let Some(arrays) = folder.tensors(file)? {
                arrays.skip_all();
                check.absent(format!(
                    "all {needed}: they need world_model.safetensors and world_stats.safetensors"
                ));
            }
        }
        for file in ["world.json", "traces.json"] {
            if let Some(json) = folder.json(file)? {
                json.root().skip();
            }
        }
        return Ok(());
    };
    world::run(&world, folder, check)?;
    traces::run(&world, folder, check)
}

/// Latents in an array of any shape that ends with 11.
fn latents(arrays: &Tensors, name: &str) -> Result<Vec<Latent>> {
    let array = arrays.f32(name)?;
    if array.shape.last() != Some(&LATENT) {
        let found = format!("{:?}", array.shape);
        return Err(arrays.wrong(name, "latents of 11 numbers", found));
    }
    Ok(array.data.as_chunks().0.to_vec())
}

/// One latent.
fn latent(arrays: &Tensors, name: &str) -> Result<Latent> {
    let all = latents(arrays, name)?;
    match all[..] {
        [one] => Ok(one),
        _ => Err(arrays.wrong(name, "11 numbers", format!("{} latents", all.len()))),
    }
}

/// Pairs of logits in an array of any shape that ends with 2.
fn logits(arrays: &Tensors, name: &str) -> Result<Vec<[f32; 2]>> {
    let array = arrays.f32(name)?;
    if array.shape.last() != Some(&2) {
        let found = format!("{:?}", array.shape);
        return Err(arrays.wrong(name, "pairs of logits", found));
    }
    Ok(array.data.as_chunks().0.to_vec())
}

/// Rows of an embedding.
fn table(arrays: &Tensors, name: &str) -> Result<Vec<[f32; 3]>> {
    let array = arrays.f32_of_rank(name, 2)?;
    if array.shape[1] != 3 {
        let found = format!("{:?}", array.shape);
        return Err(arrays.wrong(name, "rows of 3 numbers", found));
    }
    Ok(array.data.as_chunks().0.to_vec())
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}
