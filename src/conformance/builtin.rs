//! The small set of golden data inside the program (made by `scripts/make-conformance-builtin` out of `tests/golden`; `hvilshoj`:
//! random images and networks, made by `scripts/make-quantitative-fixtures`; `tabular`: `scripts/make-tabular-fixtures`).

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("builtin/", $name)))),*]
    };
}

static FILES: &[(&str, &[u8])] = files![
    "attribution/datasets.json",
    "attribution/datasets.safetensors",
    "bex/generator_w025.safetensors",
    "bex/generator_w025_io.safetensors",
    "diffusion/cone_projection.safetensors",
    "diffusion/p_mean_variance.json",
    "diffusion/p_mean_variance.safetensors",
    "diffusion/schedules.json",
    "diffusion/space_timesteps.json",
    "diffusion/tiny_classifiers.safetensors",
    "diffusion/tiny_classifiers_io.safetensors",
    "hvilshoj/autoencoder_forward.safetensors",
    "hvilshoj/autoencoders_mnist_0_1.safetensors",
    "hvilshoj/autoencoders_mnist_m05_05.safetensors",
    "hvilshoj/mnist_gb_images.png",
    "hvilshoj/mnist_gen_images.png",
    "hvilshoj/mnist_images_first128.safetensors",
    "hvilshoj/mnist_labels.safetensors",
    "hvilshoj/mnist_real_images.png",
    "hvilshoj/own_model_mnist_oracle_0_1.safetensors",
    "hvilshoj/own_model_mnist_oracle_m05_05.safetensors",
    "hvilshoj/own_model_outputs_first256.safetensors",
    "hvilshoj/own_model_results.json",
    "hvilshoj/per_sample_first32.csv",
    "hvilshoj/per_sample_metrics.safetensors",
    "hvilshoj/published_results.json",
    "hvilshoj/reproduction.json",
    "nets/nets.json",
    "nets/nets.safetensors",
    "tabular/datasets/BalanceScale.csv",
    "tabular/datasets/schema.json",
    "tabular/decision_tree/expected_trees.json",
    "tabular/decision_tree/training_rows.safetensors",
    "tabular/models/BalanceScale.safetensors",
    "tabular/models/expected_performance.json",
    "tabular/ranking/algorithms.json",
    "tabular/ranking/expected_ranking.json",
    "tabular/ranking/results_matrix.safetensors",
    "tabular/ranking/results_rows.csv",
    "tabular/splits/splits.safetensors",
    "vision/dbvce_batch.safetensors",
    "vision/dbvce_expected.json",
    "vision/ec_expected.json",
    "vision/ec_inputs.safetensors",
    "vision/fid_expected.json",
    "vision/fid_resize_expected.json",
    "vision/fid_set_features.safetensors",
    "vision/fid_tap_features.safetensors",
    "vision/inception_score_logits.safetensors",
    "vision/inception_tap64.safetensors",
    "vision/kid_subsets.safetensors",
    "vision/lpips_alex.safetensors",
    "vision/lpips_alex_weights_table.json",
    "vision/lpips_expected.json",
    "vision/lpips_images/astronaut_64x64_blur.png",
    "vision/lpips_images/astronaut_64x64_colour.png",
    "vision/lpips_images/astronaut_64x64_jpeg.png",
    "vision/lpips_images/astronaut_64x64_noise.png",
    "vision/lpips_images/astronaut_64x64_ref.png",
    "vision/lpips_images/astronaut_64x64_shift.png",
    "vision/lpips_images/chelsea_64x64_noise.png",
    "vision/lpips_images/chelsea_64x64_ref.png",
    "vision/lpips_images/chelsea_70x90_blur.png",
    "vision/lpips_images/chelsea_70x90_noise.png",
    "vision/lpips_images/chelsea_70x90_ref.png",
    "vision/lpips_images/coffee_64x64_blur.png",
    "vision/lpips_images/coffee_64x64_ref.png",
    "vision/lpips_images/hubble_64x64_colour.png",
    "vision/lpips_images/hubble_64x64_ref.png",
    "vision/prdc_features.safetensors",
    "vision/validity_logits.safetensors",
    "weights/classifier_expected_logits.safetensors",
    "weights/expected.json",
    "weights/inception_expected_features.safetensors",
    "weights/photos/chelsea.png",
    "weights/photos/coffee.png",
];

/// A file of an area.
pub fn file(area: &str, name: &str) -> Option<&'static [u8]> {
    let path = format!("{area}/{name}");
    FILES
        .iter()
        .find(|(n, _)| *n == path)
        .map(|(_, bytes)| *bytes)
}

/// All files of an area.
pub fn files(area: &str) -> Vec<String> {
    let prefix = format!("{area}/");
    FILES
        .iter()
        .filter_map(|(n, _)| n.strip_prefix(&prefix))
        .map(Into::into)
        .collect()
}
