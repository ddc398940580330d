//! The noise-aware encoder UNet against guided-diffusion's `EncoderUNetModel`: 2e-5 absolute on logits.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::unet_settings;
use crate::nets::UnetEncoder;
use crate::tensor::Backend;

const LOGITS: Tolerance = Tolerance::absolute(2e-5);

pub fn run<B: Backend>(backend: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(json), Some(weights), Some(io)) = (
        folder.json("unet_encoder.json")?,
        folder.tensors("unet_encoder_weights.safetensors")?,
        folder.tensors("unet_encoder_io.safetensors")?,
    ) else {
        return Ok(());
    };
    check.group("unet_encoder");
    let what = "unet_encoder";
    let root = json.root();
    root.skip_fields(&["source", "licence"]);
    let config = unet_settings::encoder(&root.at(what)?, check)?;
    let network = UnetEncoder::new(backend, &weights.state_dict()?, config).of(what)?;
    let x = backend
        .upload(&io.f32_of_rank("unet_encoder.x", 4)?)
        .of(what)?;
    let timesteps: Vec<f32> = io.f64("timesteps")?.iter().map(|&t| t as f32).collect();
    let got = network.predict_at(backend, &x, &timesteps).of(what)?;
    let got: Vec<f64> = backend
        .download(&got.logits)
        .of(what)?
        .data
        .iter()
        .map(|&v| f64::from(v))
        .collect();
    check.close_all(
        "unet_encoder.out",
        &io.f64("unet_encoder.out")?,
        &got,
        LOGITS,
    );
    Ok(())
}
