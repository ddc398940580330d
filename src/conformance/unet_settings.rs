//! Settings of guided-diffusion's networks, as its constructors take them.

use super::Result;
use super::check::Check;
use super::json::Node;
use crate::nets::{UnetConfig, UnetEncoderConfig};

/// Settings that the weights tell, or that make no difference when a network is only run.
const READ_OFF_THE_WEIGHTS: [&str; 9] = [
    "image_size",
    "in_channels",
    "model_channels",
    "out_channels",
    "attention_resolutions",
    "channel_mult",
    "dropout",
    "use_checkpoint",
    "num_classes",
];

/// The public code writes -1 for "not given".
fn or_zero(node: &Node<'_>) -> Result<usize> {
    Ok(node.f64()?.max(0.0) as usize)
}

/// Half precision on a GPU is another network; golden data are of single precision.
fn single_precision(node: &Node<'_>, check: &mut Check) -> Result<()> {
    if node.bool()? {
        let place = node.path();
        check.unknown(format!(
            "{place}: networks in half precision are not compared"
        ));
    }
    Ok(())
}

/// Settings of a denoiser.
pub fn denoiser(node: &Node<'_>, check: &mut Check) -> Result<UnetConfig> {
    node.skip_fields(&READ_OFF_THE_WEIGHTS);
    // All of these show in names and shapes of the weights.
    node.skip_fields(&[
        "num_res_blocks",
        "conv_resample",
        "use_scale_shift_norm",
        "resblock_updown",
    ]);
    let mut config = UnetConfig::default();
    for (key, value) in node.fields()? {
        match key {
            "num_heads" => config.num_heads = or_zero(&value)?,
            "num_head_channels" => config.num_head_channels = or_zero(&value)?,
            "num_heads_upsample" => config.num_heads_upsample = or_zero(&value)?,
            "use_new_attention_order" => config.use_new_attention_order = value.bool()?,
            "use_fp16" => single_precision(&value, check)?,
            _ => {}
        }
    }
    Ok(config)
}

/// Settings of the noise-aware classifier.
pub fn encoder(node: &Node<'_>, check: &mut Check) -> Result<UnetEncoderConfig> {
    node.skip_fields(&READ_OFF_THE_WEIGHTS);
    let mut config = UnetEncoderConfig::default();
    for (key, value) in node.fields()? {
        match key {
            "num_res_blocks" => config.num_res_blocks = value.usize()?,
            "num_heads" => config.num_heads = or_zero(&value)?,
            "num_head_channels" => config.num_head_channels = or_zero(&value)?,
            "use_scale_shift_norm" => config.use_scale_shift_norm = value.bool()?,
            "resblock_updown" => config.resblock_updown = value.bool()?,
            "use_new_attention_order" => config.use_new_attention_order = value.bool()?,
            "use_fp16" => single_precision(&value, check)?,
            "pool" => check.equal("pooling", "attention", value.str()?),
            _ => {}
        }
    }
    Ok(config)
}
