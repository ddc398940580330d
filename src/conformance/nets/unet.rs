//! The noise-aware encoder UNet against guided-diffusion's `EncoderUNetModel`: 2e-5 absolute on logits.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use crate::nets::{UnetEncoder, UnetEncoderConfig};
use crate::tensor::Backend;

const LOGITS: Tolerance = Tolerance::absolute(2e-5);

/// Settings that the weights tell, or that make no difference when a network is only run.
const READ_OFF_THE_WEIGHTS: [&str; 9] = [
    "image_size",
    "in_channels",
    "model_channels",
    "out_channels",
    "attention_resolutions",
    "channel_mult",
    "dropout",
    "use_fp16",
    "use_checkpoint",
];

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
    let config = config(&root.at(what)?, check)?;
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

fn config(node: &Node<'_>, check: &mut Check) -> Result<UnetEncoderConfig> {
    node.skip_fields(&READ_OFF_THE_WEIGHTS);
    let mut config = UnetEncoderConfig::default();
    for (key, value) in node.fields()? {
        match key {
            "num_res_blocks" => config.num_res_blocks = value.usize()?,
            "num_heads" => config.num_heads = value.usize()?,
            // The public code writes -1 for "use num_heads".
            "num_head_channels" => config.num_head_channels = value.f64()?.max(0.0) as usize,
            "use_scale_shift_norm" => config.use_scale_shift_norm = value.bool()?,
            "resblock_updown" => config.resblock_updown = value.bool()?,
            "use_new_attention_order" => config.use_new_attention_order = value.bool()?,
            "pool" => check.equal("pooling", "attention", value.str()?),
            _ => {}
        }
    }
    Ok(config)
}
