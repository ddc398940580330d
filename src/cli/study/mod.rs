//! `foil study`: a paper's whole protocol from one configuration.

mod attribution;
mod latent;
mod quantitative;
mod tabular;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::generate::{open_device, shard};
use super::pace::Pace;
use super::progress::Bar;
use super::{UsageError, print, say};
use crate::explain::diffusion::Progress;
use crate::study::diffusion::{
    CARDS, Config, GALLERY, Listener, RAW, SHIPPED, Study, StudyError, TABLES,
};
use crate::tensor::Device;
use crate::weights::Registry;

/// Runs a study: makes counterfactuals, scores them, prints the tables.
#[derive(Args)]
pub struct StudyArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Guided diffusion: classifiers × setups (cone projection, x0-prediction) × source and target classes
    Diffusion(DiffusionArgs),
    /// Quantitative evaluations: GB, GL and GEN, scored by EN, TCV, IM1, IM2, FID, oracle and label variation
    Quantitative(quantitative::QuantitativeArgs),
    /// Latent explainers: seven methods in four settings, scored by flips with known causes and orthogonal sets
    Latent(Box<latent::LatentStudyArgs>),
    /// Feature attribution: explainers × metrics × correlations × models on synthetic data
    Attribution(attribution::AttributionArgs),
    /// The tabular benchmark: ten methods on tables, scored, ranked
    Tabular(tabular::TabularArgs),
}

#[derive(Args)]
struct DiffusionArgs {
    /// The configuration: a TOML file, or study.toml (the paper's, on ImageNet), study-glyphs.toml (the same on glyphs) or
    /// study-small.toml (a small one), which the program holds
    #[arg(long, value_name = "FILE", required_unless_present = "print_config")]
    config: Option<PathBuf>,
    /// Print a configuration that the program holds, or a card that study.toml names (cards/NAME.toml), to start from, and stop
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    print_config: Option<String>,
    /// Folder for images, rows, raw.csv, tables.txt and gallery.png (default: the configuration's name)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep what an earlier call made in --out, and make the rest
    #[arg(long)]
    resume: bool,
    /// Do the i-th of n parts only, in a folder that all parts share, one after the other or at once; the last one to finish makes
    /// the tables
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// Device: cpu, or cuda or cuda:N in a program built with --features cuda; auto takes the GPU if it can
    #[arg(long, value_name = "D", default_value = "auto")]
    device: Device,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &StudyArgs) -> anyhow::Result<()> {
    let args = match &args.what {
        What::Diffusion(args) => args,
        What::Quantitative(args) => return quantitative::run(args),
        What::Latent(args) => return latent::run(args),
        What::Attribution(args) => return attribution::run(args),
        What::Tabular(args) => return tabular::run(args),
    };
    if let Some(name) = &args.print_config {
        let all = || SHIPPED.iter().chain(&CARDS);
        let found = all().find(|(known, _)| known == name);
        let (_, text) = found.ok_or_else(|| {
            let known: Vec<&str> = all().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            UsageError(format!("--print-config {name}: expected one of {known}"))
        })?;
        return print(text);
    }
    let path = args.config.as_deref().context("--config is needed")?;
    let config = Config::read(path).map_err(usage)?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => PathBuf::from(path.file_stem().unwrap_or_default()),
    };
    let device = open_device(args.device, args.quiet)?;
    let registry = Registry::open()?;
    let study = Study::open(&config, &registry, &device, &out, args.resume, args.shard);
    let study = study.map_err(usage)?;
    let mut screen = Screen {
        quiet: args.quiet,
        pace: Pace::new(args.quiet),
        bar: Bar::new(args.quiet),
    };
    let done = study.run(&registry, args.shard.unwrap_or((1, 1)), &mut screen);
    screen.pace.finish();
    screen.bar.finish();
    let done = done?;
    let shown = out.display();
    match &done.tables {
        Some(tables) => print(&format!(
            "{tables}\n{shown}/{RAW} holds the scores of {} groups, {shown}/{TABLES} these tables, {shown}/{GALLERY} \
             pictures\n",
            done.rows
        ))?,
        None => print(&format!(
            "{} of {} groups are there; the tables come with the last of them\n",
            done.rows, done.all_rows
        ))?,
    }
    match done.lost[..] {
        [] => Ok(()),
        _ => anyhow::bail!(
            "images have no counterfactual, all others are made; lower generation.scale or the weight of generation.distance for a \
             study with all of them:\n  {}",
            done.lost.join("\n  ")
        ),
    }
}

/// A configuration that makes no sense is wrong usage.
fn usage(error: StudyError) -> anyhow::Error {
    match error {
        StudyError::Config { .. } | StudyError::Filled { .. } => {
            UsageError(error.to_string()).into()
        }
        other => other.into(),
    }
}

struct Screen {
    quiet: bool,
    pace: Pace,
    bar: Bar,
}

impl Listener for Screen {
    fn run(&mut self, name: &str, number: usize, all: usize) {
        self.pace.finish();
        self.bar.finish();
        self.pace = Pace::new(self.quiet);
        self.note(&format!("run {number} of {all}: {name}"));
    }

    fn progress(&mut self, progress: Progress) {
        self.pace.show(progress);
    }

    fn scoring(&mut self, what: &str, done: usize, total: usize) {
        self.pace.finish();
        self.bar.update(what, done, total);
    }

    fn note(&mut self, note: &str) {
        if !self.quiet {
            say(note);
        }
    }
}
