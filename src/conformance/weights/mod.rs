//! The area `weights`: real networks on real photographs, and values that third parties documented.
//!
//! Weight files that the folder lacks are taken from those shipped with foil; complete networks are used if
//! `scripts/real-weights` has installed them.

mod classifiers;
mod documented;
mod inception;
mod lpips;

use super::Result;
use super::check::Check;
use super::folder::{Folder, Layout};
use super::json::Json;
use super::real_weights::shipped;
use super::tensors::Tensors;
use crate::tensor::{Backend, StateDict};

pub const LAYOUT: Layout = Layout {
    files: &[
        "alexnet_features_f16.safetensors",
        "classifier_expected_logits.safetensors",
        "expected.json",
        "imagenet1k_labels.json",
        "inception_expected_features.safetensors",
        "inception_fid_stem.safetensors",
        "lpips_heads_v0.1.safetensors",
        "squeezenet1_1_caffe_f16.safetensors",
    ],
    images: &PICTURES,
    not_run: &[],
};

/// Where the pictures are.
const PICTURES: [&str; 2] = ["photos", "lpips_example"];

pub fn run<B: Backend + 'static>(backend: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("expected.json")? else {
        return Ok(());
    };
    let root = json.root();
    let order = root.at("photo_order")?.strs()?;
    lpips::run(backend, folder, &root, check)?;
    classifiers::run(backend, folder, &root, &order, check)?;
    inception::run(backend, folder, &order, check)?;
    documented::run(backend, folder, &root, check)
}

/// Weights of the folder, else those shipped.
fn weights(folder: &Folder, file: &str, check: &mut Check) -> Result<Option<StateDict>> {
    if let Some(stored) = folder.tensors(file)? {
        return stored.state_dict().map(Some);
    }
    let Some(bytes) = shipped(file) else {
        return Ok(None);
    };
    note_shipped(file, check);
    Tensors::parse(file, bytes)?.state_dict().map(Some)
}

/// The class names of the folder, else those shipped.
fn labels(folder: &Folder, check: &mut Check) -> Result<Vec<String>> {
    let file = "imagenet1k_labels.json";
    let read = |json: &Json| -> Result<Vec<String>> {
        Ok(json.root().strs()?.into_iter().map(Into::into).collect())
    };
    match (folder.json(file)?, shipped(file)) {
        (Some(json), _) => read(&json),
        (None, Some(bytes)) => {
            note_shipped(file, check);
            read(&Json::parse(file, bytes)?)
        }
        (None, None) => Ok(Vec::new()),
    }
}

fn note_shipped(file: &str, check: &mut Check) {
    check.used(format!("{file} (shipped with foil)"));
}

/// What to do about complete weights that are not installed.
fn not_installed(what: &str, name: &str) -> String {
    format!("{what}: weights {name} are not installed; run scripts/real-weights")
}
