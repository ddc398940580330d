//! The area `hvilshoj`: published counterfactuals, auto-encoders and scores of \[quantitative-evaluations\], and scores of models
//! that were trained for this data set.
//!
//! Tolerances are those of the README of the golden data: TCV exact, EN 1e-9 relative, means and intervals of IM1 and IM2 1e-6
//! relative, single samples 1e-4 relative, auto-encoder outputs 2e-6, probabilities 1e-5, embeddings 1e-4 of the largest, the
//! oracle within two samples, LVS and FID 1e-4 relative.

mod autoencoders;
mod data;
mod fake_rule;
mod first;
mod lacking;
mod own_models;
mod scores;

use super::Result;
use super::check::Check;
use super::folder::{Folder, Layout};
use crate::metrics::MetricBackend;
use data::{CONFIGS, Data};

pub const LAYOUT: Layout = Layout {
    files: &[
        "autoencoder_forward.safetensors",
        "autoencoders_celeba_m05_05.safetensors",
        "autoencoders_fakemnist_m05_05.safetensors",
        "autoencoders_mnist_0_1.safetensors",
        "autoencoders_mnist_m05_05.safetensors",
        "fakemnist_gb_images.png",
        "fakemnist_gen_images.png",
        "fakemnist_gl_images.png",
        "fakemnist_images_first128.safetensors",
        "fakemnist_labels.safetensors",
        "fakemnist_real_images.png",
        "mnist_gb_images.png",
        "mnist_gen_images.png",
        "mnist_gl_images.png",
        "mnist_images_first128.safetensors",
        "mnist_labels.safetensors",
        "mnist_real_images.png",
        "own_model_fakemnist_digit_oracle.safetensors",
        "own_model_fakemnist_dot_oracle.safetensors",
        "own_model_mnist_oracle_0_1.safetensors",
        "own_model_mnist_oracle_m05_05.safetensors",
        "own_model_outputs_first256.safetensors",
        "own_model_results.json",
        "per_sample_first32.csv",
        "per_sample_metrics.safetensors",
        "published_results.json",
        "reproduction.json",
    ],
    images: &[],
    not_run: &[],
};

pub fn run<B: MetricBackend + 'static>(
    backend: &B,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    autoencoders::run(backend, folder, check)?;
    let mut rows = first::Rows::read(folder)?;
    let mut data = Data::default();
    for config in CONFIGS {
        let Some(set) = data.of(folder, config.data, check)? else {
            continue;
        };
        let models = own_models::Models::read(backend, folder, config)?;
        models.probes(backend, folder, config, set, check)?;
        let autoencoders = autoencoders::of(backend, folder, config)?;
        for method in set.methods.keys() {
            let evaluated = scores::evaluate(backend, set, method, config, &autoencoders, &models)?;
            scores::check_all(folder, config, method, &evaluated, check)?;
            rows.check_of(folder, config, method, &evaluated, check)?;
            models.results(folder, config, method, &evaluated, check)?;
        }
    }
    rows.finish(folder, check)?;
    scores::without_data(folder, check)?;
    lacking::put_aside(folder, check)
}
