//! `foil latent`: counterfactuals in a latent space whose causes are known, made and scored.

mod explain;
mod samples;
mod score;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};

use super::UsageError;
use super::generate::open_device;
use crate::explain::latent::{BUILTIN, LatentError, Variant, World, builtin, folder};
use crate::shell;
use crate::study::latent::setting;
use crate::tensor::candle::Candle;
use crate::tensor::{Device, WithGradients};
use crate::train;
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
    /// Write the samples of a world, for programs of your own: latents, images, what the classifier says, the space
    Samples(samples::SamplesArgs),
    /// Score counterfactual latents, by whatever program they were made
    Score(score::ScoreArgs),
}

pub fn run(args: &LatentArgs) -> anyhow::Result<()> {
    match &args.what {
        What::Explain(args) => explain::run(args),
        What::Samples(args) => samples::run(args),
        What::Score(args) => score::run(args),
    }
}

/// Latents of the builtin world that samples are chosen from. Of so many the classifiers get enough wrong for the levels below 0.
pub const VALIDATION: u32 = 20_000;

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
    #[arg(long, value_name = "N", default_value_t = VALIDATION, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
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

    /// The options that name this world on a command line.
    fn words(&self) -> String {
        let mut words = match self.world == BUILTIN {
            true => format!(
                "--spurious {} --correlation {}",
                self.spurious, self.correlation
            ),
            false => format!("--world {}", shell::word(&self.world)),
        };
        if self.world == BUILTIN && self.validation != VALIDATION {
            words.push_str(&format!(" --validation {}", self.validation));
        }
        if self.variant == VariantArg::AsReleased {
            words.push_str(" --variant as-released");
        }
        words
    }

    /// The world with its samples chosen; says where there are too few.
    fn chosen(&self, device: &WithGradients, samples: usize) -> anyhow::Result<World> {
        let mut world = self.open(device)?;
        world.choose(samples, self.variant()).map_err(usage)?;
        if let (Some(note), false) = (world.shortage(samples), self.quiet) {
            super::say(&note);
        }
        Ok(world)
    }

    /// The world on a device with gradients.
    fn open(&self, device: &WithGradients) -> anyhow::Result<World> {
        let registry = Registry::open()?;
        if self.world == BUILTIN {
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

/// What is found out before the work, not after it: whether a file can be written.
fn check_out(option: &str, out: &Path) -> anyhow::Result<()> {
    let wrong = |found: &str| {
        let out = out.display();
        Err(UsageError(format!(
            "{option} {out}: expected a file in a folder that exists, found {found}"
        ))
        .into())
    };
    if out.is_dir() {
        return wrong("a folder");
    }
    match out.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(folder) if !folder.is_dir() => wrong(&format!("no folder {}", folder.display())),
        _ => train::writable(out).with_context(|| option.to_owned()),
    }
}

/// Settings that make no sense are wrong usage.
fn usage(error: LatentError) -> anyhow::Error {
    match error {
        LatentError::Setting { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}
