//! `foil latent samples`.

use std::path::PathBuf;

use clap::Args;

use super::{WorldArgs, check_out};
use crate::cli::print;
use crate::explain::latent::write_samples;

#[derive(Args)]
pub struct SamplesArgs {
    #[command(flatten)]
    world: WorldArgs,
    /// Samples of each of the eight levels of confidence
    #[arg(long, value_name = "N", default_value_t = 100)]
    samples: usize,
    /// The safetensors file to write (docs/latent.md says what it holds)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &SamplesArgs) -> anyhow::Result<()> {
    check_out("--out", &args.out)?;
    let device = args.world.device(false)?;
    let world = args.world.chosen(&device, args.samples)?;
    write_samples(&args.out, &world)?;
    print(&format!(
        "{} holds {n} samples; with z and counterfactuals z_cf [{n}, of each, 11] in a file of yours, foil latent score {} --latents FILE scores them\n",
        args.out.display(),
        args.world.words(),
        n = world.samples.z.len(),
    ))
}
