//! `foil latent`: counterfactuals in a latent space whose causes are known, made and scored.

mod explain;
mod score;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::UsageError;
use super::generate::open_device;
use crate::explain::latent::{LatentError, Variant, World, builtin, folder};
use crate::study::latent::setting;
use crate::tensor::candle::Candle;
use crate::tensor::{Device, WithGradients};
use crate::weights::Registry;

/// Makes and scores counterfactual latents (the benchmark bex).
#[derive(Args)]
pub struct LatentArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Explain samples of a world by one of seven methods
    Explain(Box<explain::ExplainArgs>),
    /// Score counterfactual latents, by whatever program they were made
    Score(score::ScoreArgs),
}

pub fn run(args: &LatentArgs) -> anyhow::Result<()> {
    match &args.what {
        What::Explain(args) => explain::run(args),
        What::Score(args) => score::run(args),
    }
}

/// Which world.
#[derive(Args)]
pub struct WorldArgs {
    /// builtin (glyphs, with classifiers inside the program), or a folder with a world.toml (docs/latent.md)
    #[arg(long, value_name = "DIR|builtin", default_value = "builtin")]
    world: String,
    /// Typefaces tied to a class in the builtin world: 6 or 10
    #[arg(long, value_name = "N", default_value_t = 10)]
    spurious: usize,
    /// How often a typeface is one of those tied to the label: 0.5 or 0.95
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    correlation: f64,
    /// Latents of the builtin world that samples are chosen from
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    validation: u32,
    /// Rules of world and explainers: correct (the papers') or as-released (those of the package bex 0.5.2)
    #[arg(long, value_enum, default_value_t = VariantArg::Correct)]
    variant: VariantArg,
    /// Device: auto, cpu, cuda[:N] in a program built with --features cuda; for scoring also wgpu (sets are selected there)
    #[arg(long, value_name = "D", default_value = "auto")]
    device: Device,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VariantArg {
    Correct,
    AsReleased,
}

impl From<VariantArg> for Variant {
    fn from(variant: VariantArg) -> Self {
        match variant {
            VariantArg::Correct => Variant::Correct,
            VariantArg::AsReleased => Variant::AsReleased,
        }
    }
}

impl WorldArgs {
    fn variant(&self) -> Variant {
        self.variant.into()
    }

    /// The world on a device with gradients.
    fn open(&self, device: &WithGradients) -> anyhow::Result<World> {
        let registry = Registry::open()?;
        if self.world == "builtin" {
            let setting = setting(self.spurious, self.correlation);
            let setting = setting.map_err(|e| UsageError(e.to_string()))?;
            let validation = self.validation as usize;
            let world = builtin(&registry, device, setting, validation, self.variant());
            return world.map_err(usage);
        }
        let root = PathBuf::from(&self.world);
        if !root.is_dir() {
            let why = format!(
                "--world {}: expected builtin or a folder with a world.toml (docs/latent.md), found no folder",
                self.world
            );
            return Err(UsageError(why).into());
        }
        folder(&registry, device, &root, self.variant()).map_err(usage)
    }

    /// The device for networks. wgpu has no gradients: there the CPU runs them.
    fn device(&self, gradients: bool) -> anyhow::Result<WithGradients> {
        match self.device {
            Device::Wgpu(_) if !gradients => Ok(WithGradients::Engine(Candle)),
            device => open_device(device, self.quiet),
        }
    }
}

/// Settings that make no sense are wrong usage.
fn usage(error: LatentError) -> anyhow::Error {
    match error {
        LatentError::Setting { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}
