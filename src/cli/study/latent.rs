//! `foil study latent`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use crate::cli::generate::{open_device, shard};
use crate::cli::latent::{VALIDATION, VariantArg};
use crate::cli::progress::Bar;
use crate::cli::{UsageError, print};
use crate::study::latent::{self, LatentStudyError, Plan, Work};
use crate::tensor::candle::Candle;
use crate::tensor::{Device, Opened, Precision, WithGradients};
use crate::weights::Registry;

#[derive(Args)]
pub struct LatentStudyArgs {
    /// Numbers of typefaces tied to a class: 6, 10 or both
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "6,10"
    )]
    spurious: Vec<usize>,
    /// How often a typeface is one of those tied to the label: 0.5, 0.95 or both
    #[arg(
        long,
        value_name = "P,…",
        value_delimiter = ',',
        default_value = "0.5,0.95"
    )]
    correlation: Vec<f64>,
    /// Explainers: is, dice, dive, gs, stylex, latent-cf, xgem, or all
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "all"
    )]
    explainers: Vec<String>,
    /// Runs of explainers that draw random numbers
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,
    /// Counterfactuals of each sample
    #[arg(long, value_name = "N", default_value_t = 10)]
    n: usize,
    /// Samples of each of the eight levels of confidence
    #[arg(long, value_name = "N", default_value_t = 100)]
    samples: usize,
    /// Latents that samples are chosen from
    #[arg(long, value_name = "N", default_value_t = VALIDATION as usize)]
    validation: usize,
    /// Iterations of dice, dive, latent-cf and xgem (default: the paper's 50)
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
    /// Rules of explainers and worlds: correct (the papers') or as-released (those of the package bex 0.5.2); scores are printed by both
    #[arg(long, value_enum, default_value_t = VariantArg::Correct)]
    variant: VariantArg,
    /// Folder for rows, latents, tables.txt, results.csv, profile.svg, sensitivity.svg and counterfactuals.png
    #[arg(long, value_name = "DIR", default_value = "latent-study")]
    out: PathBuf,
    /// Keep what an earlier call made in --out, and make the rest
    #[arg(long)]
    resume: bool,
    /// Do the i-th of n parts only; the last one to finish in a shared folder makes the tables
    #[arg(long, value_name = "I/N", value_parser = shard, default_value = "1/1")]
    shard: (usize, usize),
    /// Device: auto, cpu, cuda[:N] in a program built with --features cuda; with wgpu sets are selected there and the CPU does the rest
    #[arg(long, value_name = "D", default_value = "auto")]
    device: Device,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &LatentStudyArgs) -> anyhow::Result<()> {
    let variant = args.variant.into();
    let plan = Plan {
        settings: Plan::settings(&args.spurious, &args.correlation).map_err(usage)?,
        methods: Plan::methods(&args.explainers, variant, args.iterations).map_err(usage)?,
        runs: args.runs,
        n: args.n,
        samples: args.samples,
        validation: args.validation,
        variant,
    };
    plan.check().map_err(usage)?;
    let opened = args.device.open(Precision::F32);
    let (_, opened, _) = opened.map_err(|e| UsageError(e.to_string()))?;
    let device = match args.device {
        Device::Wgpu(_) => WithGradients::Engine(Candle),
        device => open_device(device, args.quiet)?,
    };
    let registry = Registry::open()?;
    let work = Work {
        out: &args.out,
        resume: args.resume,
        shard: args.shard,
    };
    let mut bar = Bar::new(args.quiet);
    let mut progress = |what: &str, done: usize, all: usize| bar.update(what, done, all);
    let started = Instant::now();
    let done = match opened {
        Opened::Cpu(cpu) => latent::run(&plan, &work, &registry, &device, &cpu, &mut progress),
        Opened::Gpu(gpu) => latent::run(&plan, &work, &registry, &device, &gpu, &mut progress),
    };
    bar.finish();
    let done = done.map_err(usage)?;
    let out = args.out.display();
    match done.tables {
        Some(tables) => print(&format!(
            "{tables}{:.0} s for this call\n{out}/{} holds all rows, {out}/{} the changes of attributes, {out}/{} the curves, {out}/{} pictures\n",
            started.elapsed().as_secs_f64(),
            latent::CSV,
            latent::PROFILE,
            latent::SENSITIVITY,
            latent::PICTURES
        )),
        None => print(&format!(
            "{} of {} pieces are there; the tables come with the last of them\n",
            done.rows, done.all
        )),
    }
}

/// What makes no sense is wrong usage.
fn usage(error: LatentStudyError) -> anyhow::Error {
    match error {
        LatentStudyError::Usage(why) => UsageError(why).into(),
        other => other.into(),
    }
}
