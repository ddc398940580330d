//! The area `diffusion`: schedules, UNets, steps and chains of four public codes of guided diffusion, and the tables of
//! their study.
//!
//! Settings stand in the JSON files beside the arrays and are read from there; tolerances are those that the golden data
//! state for single precision. Guidance needs gradients and runs on a device that has them; networks forward run on the device asked for.

mod batch;
mod chains;
mod classic;
mod classifiers;
mod cone;
mod dime;
mod dvce;
mod evaluated;
mod full_size;
mod networks;
mod probes;
mod schedules;
mod settings;
mod steps;
mod tables;

use super::Result;
use super::check::{Check, Tolerance};
use super::folder::{Folder, Layout};
use super::tensors::Tensors;
use crate::tensor::candle::Differentiable;
use crate::tensor::{Array, Backend};
use networks::Networks;

pub const LAYOUT: Layout = Layout {
    files: &[
        "batch_metrics.json",
        "batch_metrics.safetensors",
        "chain.safetensors",
        "chain_long.safetensors",
        "cone_projection.safetensors",
        "dime.safetensors",
        "dvce.safetensors",
        "dvce_dime.json",
        "dvce_distance_through_unet.safetensors",
        "full_size_shapes.json",
        "guidance.json",
        "guided_step.safetensors",
        "openai_guided_step.safetensors",
        "p_mean_variance.json",
        "p_mean_variance.safetensors",
        "preprocess_input.png",
        "published/raw_experimental_results.csv",
        "schedules.json",
        "schedules.safetensors",
        "settings.json",
        "space_timesteps.json",
        "table_check.json",
        "table_numeric.json",
        "table_numeric_groups.json",
        "table_printed.json",
        "tiny_classifiers.safetensors",
        "tiny_classifiers_io.safetensors",
        "unet.json",
        "unet_a_weights.safetensors",
        "unet_b_weights.safetensors",
        "unet_encoder_weights.safetensors",
        "unet_io.safetensors",
    ],
    images: &[],
    not_run: &[],
};

/// Networks forward on one device; what needs gradients on another.
pub fn run<B: Backend + 'static>(
    backend: &B,
    with_gradients: &impl Differentiable,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let networks = Networks::new(with_gradients, folder);
    schedules::run(folder, check)?;
    networks::run(backend, &networks, folder, check)?;
    full_size::run(folder, check)?;
    classifiers::run(backend, folder, check)?;
    steps::run(backend, folder, check)?;
    cone::run(folder, check)?;
    evaluated::run(&networks, folder, check)?;
    chains::run(&networks, folder, check)?;
    classic::run(&networks, folder, check)?;
    dvce::run(&networks, folder, check)?;
    dime::run(&networks, folder, check)?;
    batch::run(&networks, folder, check)?;
    tables::run(folder, check)
}

/// Compares shape and values; errors are absolute.
fn close(check: &mut Check, what: &str, expected: &Array, got: &Array, tolerance: f64) {
    close_within(check, what, expected, got, Tolerance::absolute(tolerance));
}

fn close_within(
    check: &mut Check,
    what: &str,
    expected: &Array,
    got: &Array,
    tolerance: Tolerance,
) {
    if expected.shape != got.shape {
        return check.equal(format!("{what} shape"), &expected.shape, &got.shape);
    }
    let [expected, got] = [expected, got].map(wide);
    check.close_all(what, &expected, &got, tolerance);
}

/// The same; errors are shares of the largest expected value.
fn close_to_peak(check: &mut Check, what: &str, expected: &Array, got: &Array, share: f64) {
    let peak = expected.data.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    close(check, what, expected, got, share * f64::from(peak));
}

fn wide(array: &Array) -> Vec<f64> {
    array.data.iter().map(|&v| f64::from(v)).collect()
}

/// Part `index` of the first axis; `None` beyond its end.
fn part(array: &Array, index: usize) -> Option<Array> {
    let (&count, rest) = array.shape.split_first()?;
    (index < count).then(|| Array {
        shape: rest.to_vec(),
        data: array.row(index).to_vec(),
    })
}

/// Whole numbers from 0 on, such as classes and steps.
fn numbers(arrays: &Tensors, name: &str) -> Result<Vec<usize>> {
    let whole = |v: i64| {
        usize::try_from(v).map_err(|_| arrays.wrong(name, "numbers from 0 on", v.to_string()))
    };
    arrays.i64(name)?.into_iter().map(whole).collect()
}

/// Images `[n, c, h, w]`, of the shape of others if such are given.
fn images(arrays: &Tensors, name: &str, like: Option<&Array>) -> Result<Array> {
    let found = arrays.f32_of_rank(name, 4)?;
    match like {
        Some(like) if like.shape != found.shape => {
            let expected = format!("shape {:?}", like.shape);
            Err(arrays.wrong(name, &expected, format!("{:?}", found.shape)))
        }
        _ => Ok(found),
    }
}

/// As many numbers as there are images.
fn per_image(arrays: &Tensors, name: &str, images: &Array) -> Result<Vec<usize>> {
    let found = numbers(arrays, name)?;
    let n = images.shape.first().copied().unwrap_or(0);
    match found.len() == n {
        true => Ok(found),
        false => Err(arrays.wrong(
            name,
            &format!("{n} numbers, one per image"),
            found.len().to_string(),
        )),
    }
}
