//! The area `vision`: image metrics on synthetic networks, against the public Python packages.
//!
//! Tolerances are those of the README of the golden data, stated beside each group of cases.

mod fid;
mod hvilshoj;
mod inception_score;
mod inception_taps;
mod kid;
mod lpips;
mod lpips_features;
mod lpips_parts;
mod prdc;
mod resize;
mod study;
mod study_networks;
mod unit_length;
mod validity;

pub(super) use lpips_features::{Features, Range, heads};

use super::Result;
use super::check::Check;
use super::folder::{Folder, Layout};
use super::pictures::Album;
use crate::metrics::{Matrix, MetricBackend};
use crate::tensor::Array;

pub const LAYOUT: Layout = Layout {
    files: &[
        "dbvce_batch.safetensors",
        "dbvce_expected.json",
        "dbvce_uint8_quirk.safetensors",
        "ec_expected.json",
        "ec_inputs.safetensors",
        "fid_expected.json",
        "fid_image_sets.safetensors",
        "fid_resize_crops.safetensors",
        "fid_resize_expected.json",
        "fid_set_features.safetensors",
        "fid_statistics.safetensors",
        "fid_tap_features.safetensors",
        "inception_bn_stats.safetensors",
        "inception_score_logits.safetensors",
        "inception_tap64.safetensors",
        "inception_weights_table.json",
        "kid_subsets.safetensors",
        "lpips_alex.safetensors",
        "lpips_alex_weights_table.json",
        "lpips_expected.json",
        "lpips_spatial.safetensors",
        "lpips_squeeze.safetensors",
        "lpips_squeeze_weights_table.json",
        "lpips_vgg_heads.safetensors",
        "lpips_vgg_weights_table.json",
        "prdc_features.safetensors",
        "validity_logits.safetensors",
    ],
    images: &[IMAGES],
    not_run: &[],
};

/// Where the pictures are.
const IMAGES: &str = "lpips_images";

pub fn run<B: MetricBackend + 'static>(
    backend: &B,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let mut album = Album::default();
    let alex = lpips::run(backend, folder, &mut album, check)?;
    resize::run(backend, folder, &mut album, check)?;
    let network = inception_taps::Network::read(folder, check)?;
    inception_taps::run(backend, folder, network.as_ref(), &mut album, check)?;
    let images = fid::images(backend, folder, network.as_ref(), check)?;
    fid::run(folder, &images, check)?;
    kid::run(folder, check)?;
    inception_score::run(folder, check)?;
    prdc::run(folder, check)?;
    study::run(folder, check)?;
    study_networks::run(backend, folder, alex.as_ref(), &images, check)?;
    validity::run(backend, folder, check)?;
    hvilshoj::run(folder, check)
}

/// An array as a matrix of rows.
fn matrix<'a>(what: &str, array: &'a Array) -> Result<Matrix<'a>> {
    use super::error::Of;
    let (rows, columns) = super::tensors::rows(array);
    Matrix::new(what, rows, columns, &array.data).of(what)
}

/// The number that follows `prefix` in a name made of parts joined by `_` or `.`: 64 for `d` in `kid_d64_x`.
fn number_in(name: &str, prefix: &str) -> Option<usize> {
    name.split(['_', '.'])
        .filter_map(|part| part.strip_prefix(prefix))
        .find_map(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_out_of_names() {
        assert_eq!(number_in("d64_degree2", "d"), Some(64));
        assert_eq!(
            number_in("end_to_end_images_first50_d64", "first"),
            Some(50)
        );
        assert_eq!(number_in("real.first7.mu", "first"), Some(7));
        assert_eq!(number_in("dims", "d"), None);
    }
}
