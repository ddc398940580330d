//! `foil study quantitative`.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::cli::generate::open_device;
use crate::cli::{UsageError, print, say};
use crate::score::samples::SamplesError;
use crate::study::quantitative::made::{self, Config, MadeError, SHIPPED};
use crate::study::quantitative::{Data, Given, QuantitativeError, run_given};
use crate::tensor::{Device, Opened, Precision};
use crate::weights::Registry;

#[derive(Args)]
pub struct QuantitativeArgs {
    /// The data: glyphs, which the program draws and explains with the networks that it holds; or counterfactuals of
    /// mnist, celeba-hq or fakemnist (Tables 1, 2 and 3) that a --config names
    #[arg(long, value_enum, default_value_t = DataArg::Glyphs)]
    data: DataArg,
    /// The configuration: a TOML file; for glyphs also glyphs.toml (the default) or glyphs-small.toml, which the program holds
    #[arg(long, value_name = "FILE", conflicts_with = "small")]
    config: Option<PathBuf>,
    /// Few images and short searches: less than a minute
    #[arg(long)]
    small: bool,
    /// Print a configuration that the program holds, to start from, and stop
    #[arg(long, value_name = "NAME")]
    print_config: Option<String>,
    /// Folder for tables.txt, scores.json, counterfactuals.png, lvs.svg and a folder for each method
    #[arg(long, value_name = "DIR", default_value = "quantitative")]
    out: PathBuf,
    /// Replace the results of an earlier call in --out
    #[arg(long)]
    force: bool,
    /// Device: auto, cpu, or a GPU of `foil devices`; glyphs, which need gradients, take cuda[:N] only, in a program built with --features cuda
    #[arg(long, value_name = "D", default_value = "auto")]
    device: Device,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataArg {
    Glyphs,
    Mnist,
    CelebaHq,
    Fakemnist,
}

pub fn run(args: &QuantitativeArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.print_config {
        let found = SHIPPED.iter().find(|(known, _)| known == name);
        let (_, text) = found.ok_or_else(|| {
            let known = SHIPPED.map(|(name, _)| name).join(", ");
            UsageError(format!("--print-config {name}: expected one of {known}"))
        })?;
        return print(text);
    }
    match args.data {
        DataArg::Glyphs => on_glyphs(args),
        DataArg::Mnist => on_given(args, Data::Mnist),
        DataArg::CelebaHq => on_given(args, Data::CelebaHq),
        DataArg::Fakemnist => on_given(args, Data::FakeMnist),
    }
}

/// Scores counterfactuals that are there.
fn on_given(args: &QuantitativeArgs, data: Data) -> anyhow::Result<()> {
    if args.small {
        let why = "--small is for glyphs; a configuration says what is scored of other data";
        return Err(UsageError(why.into()).into());
    }
    let path = args.config.as_deref().ok_or_else(|| {
        let why = "--config FILE is needed: it names originals, counterfactuals and networks (docs/quantitative.md)";
        UsageError(why.into())
    })?;
    let given = Given::read(path).map_err(|e| UsageError(e.to_string()))?;
    free_folder(
        args,
        &["tables.txt", "counterfactuals.png", "lvs.svg", "seeds.svg"],
    )?;
    let opened = args.device.open(Precision::F32);
    let (device, opened, why) = opened.map_err(|e| UsageError(e.to_string()))?;
    let mut note = |text: &str| {
        if !args.quiet {
            say(text);
        }
    };
    note(&format!("on {device} ({why})"));
    let registry = Registry::open()?;
    let done = match opened {
        Opened::Cpu(cpu) => run_given(&cpu, &registry, data, &given, &args.out, &mut note),
        Opened::Gpu(gpu) => run_given(&gpu, &registry, data, &given, &args.out, &mut note),
    };
    let done = done.map_err(|error| match error {
        QuantitativeError::Usage(_) | QuantitativeError::Samples(SamplesError::Input { .. }) => {
            UsageError(format!("{}: {error}", path.display())).into()
        }
        other => anyhow::Error::from(other),
    })?;
    print(&format!(
        "{}\n{} holds the scores of each method, {}\n",
        done.text,
        args.out.display(),
        done.files.join(", ")
    ))
}

/// Refuses to write over results, unless that is wanted.
fn free_folder(args: &QuantitativeArgs, files: &[&str]) -> anyhow::Result<()> {
    let there = files.iter().map(|f| args.out.join(f)).find(|f| f.exists());
    match there {
        Some(there) if !args.force => {
            let why = "is there: name another --out, or replace it with --force";
            Err(UsageError(format!("{} {why}", there.display())).into())
        }
        _ => Ok(()),
    }
}

fn on_glyphs(args: &QuantitativeArgs) -> anyhow::Result<()> {
    let shipped = match args.small {
        true => "glyphs-small.toml",
        false => "glyphs.toml",
    };
    let path = args.config.clone().unwrap_or_else(|| shipped.into());
    let config = Config::read(&path).map_err(usage)?;
    free_folder(args, &[made::TABLES, made::SCORES, made::GRID, made::BARS])?;
    std::fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let device = open_device(args.device, args.quiet)?;
    let registry = Registry::open()?;
    let done = made::run(&config, &registry, &device, &args.out, &mut |note| {
        if !args.quiet {
            say(note);
        }
    });
    let done = done.map_err(usage)?;
    let out = args.out.display();
    print(&format!(
        "{}\n{out}/{} shows counterfactuals, {out}/{} the label variation, {out}/{} holds all numbers\n",
        done.text,
        made::GRID,
        made::BARS,
        made::SCORES
    ))
}

/// A configuration that makes no sense is wrong usage.
fn usage(error: MadeError) -> anyhow::Error {
    match error {
        MadeError::Config { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}
