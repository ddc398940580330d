//! Generator, encoder and classifier: forward passes.

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::tensors::Tensors;
use super::super::{ConformanceError, Result};
use crate::nets::{Architecture, BexEncoder, BexGenerator, UnetEncoderConfig, build};
use crate::tensor::{Array, Backend};

const ENCODING: Tolerance = Tolerance::absolute(1e-5);
const LOGITS: Tolerance = Tolerance::absolute(5e-4);

/// Activations inside of the networks.
const INNER: &str = "mid.";

pub fn run<B: Backend + 'static>(backend: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    let small = "generator_w025";
    if let (Some(weights), Some(io)) = (
        folder.tensors("generator_w025.safetensors")?,
        folder.tensors("generator_w025_io.safetensors")?,
    ) {
        check.group(small);
        generate(backend, small, &weights, &io, check)?;
    }
    if let Some(io) = folder.tensors("model_io.safetensors")? {
        trained_pair(backend, folder, &io, check)?;
    }
    if let (Some(weights), Some(io)) = (
        folder.tensors("encoder_w1.safetensors")?,
        folder.tensors("encoder_io.safetensors")?,
    ) {
        encode(backend, &weights, &io, check)?;
    }
    Ok(())
}

/// The golden data's own tolerance, of which kernels with fused products use 6e-7. The portable kernels round every
/// product on its own and reach 1.3e-6.
fn image_tolerance<B: Backend>(b: &B) -> Tolerance {
    Tolerance::absolute(match b.describe().contains("portable") {
        true => 2e-6,
        false => 1e-6,
    })
}

/// Attributes to latent vectors to images.
fn generate<B: Backend>(
    b: &B,
    what: &str,
    weights: &Tensors,
    io: &Tensors,
    check: &mut Check,
) -> Result<()> {
    let generator = BexGenerator::new(b, &weights.state_dict()?).of(what)?;
    let mut pairs = Vec::new();
    for row in io.index_rows("categorical_char_font")? {
        let pair = <[usize; 2]>::try_from(row);
        pairs.push(pair.map_err(|row| pair_wanted(io, row.len()))?);
    }
    let attributes = io.f32_of_rank("continuous", 2)?;
    let latents = generator.embed(&pairs, &attributes).of(what)?;
    let expected = io.f32_of_rank("z_raw", 2)?;
    check.identical(format!("{what} z_raw"), &expected.data, &latents.data);
    let images = b.upload(&expected).of(what)?;
    let images = generator.generate(b, &images).of(what)?;
    close(check, b, io, "image", &images, image_tolerance(b))
}

fn pair_wanted(io: &Tensors, found: usize) -> ConformanceError {
    io.wrong(
        "categorical_char_font",
        "a character and a typeface in each row",
        format!("{found} numbers"),
    )
}

/// The trained generator, and the classifier on its images.
fn trained_pair<B: Backend + 'static>(
    b: &B,
    folder: &Folder,
    io: &Tensors,
    check: &mut Check,
) -> Result<()> {
    let skipped: Vec<&str> = io.names().filter(|name| name.starts_with(INNER)).collect();
    for name in &skipped {
        io.skip(name);
    }
    if !skipped.is_empty() {
        let reason = "inner modules, which foil computes together with their neighbours";
        check.unused(
            format!("model_io.safetensors: {}", skipped.join(", ")),
            reason,
        );
    }
    let what = "generator_w05";
    if let Some(weights) = folder.tensors("generator_w05.safetensors")? {
        check.group(what);
        generate(b, what, &weights, io, check)?;
    } else {
        for name in ["categorical_char_font", "continuous", "z_raw"] {
            io.skip(name);
        }
        check.absent(format!("{what}: all cases"));
    }
    let what = "classifier_slim";
    let Some(weights) = folder.tensors("classifier_slim.safetensors")? else {
        io.skip("image");
        io.skip("logits");
        check.absent(format!("{what}: all cases"));
        return Ok(());
    };
    check.group(what);
    let dict = weights.state_dict()?;
    let unet = UnetEncoderConfig::default();
    let network = build(Architecture::ResNet18, b, &dict, &unet).of(what)?;
    let images = b.upload(&io.f32_of_rank("image", 4)?).of(what)?;
    let logits = network.predict(b, &images).of(what)?.logits;
    close(check, b, io, "logits", &logits, LOGITS)
}

fn encode<B: Backend>(b: &B, weights: &Tensors, io: &Tensors, check: &mut Check) -> Result<()> {
    let what = "encoder_w1";
    check.group(what);
    let encoder = BexEncoder::new(b, &weights.state_dict()?).of(what)?;
    let images = b.upload(&io.f32_of_rank("image", 4)?).of(what)?;
    let got = encoder.encode(b, &images).of(what)?;
    for (name, tensor) in [
        ("features", &got.features),
        ("pred_continuous", &got.continuous),
        ("pred_font", &got.font),
        ("pred_char", &got.character),
    ] {
        close(check, b, io, name, tensor, ENCODING)?;
    }
    Ok(())
}

/// Compares shape and values of one result.
fn close<B: Backend>(
    check: &mut Check,
    b: &B,
    io: &Tensors,
    name: &str,
    got: &B::Tensor,
    tolerance: Tolerance,
) -> Result<()> {
    let (expected, got) = (io.f32(name)?, b.download(got).of(name)?);
    check.equal(format!("{name} shape"), &expected.shape, &got.shape);
    let [expected, got] = [&expected, &got].map(wide);
    check.close_all(name, &expected, &got, tolerance);
    Ok(())
}

fn wide(array: &Array) -> Vec<f64> {
    array.data.iter().map(|&v| f64::from(v)).collect()
}
