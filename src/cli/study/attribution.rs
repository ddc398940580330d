//! `foil study attribution`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::generate::shard;
use crate::cli::progress::Bar;
use crate::cli::{UsageError, print};
use crate::study::attribution::{Config, RAW, SHIPPED, StudyError, TABLES, run as run_study};

#[derive(Args)]
pub struct AttributionArgs {
    /// The configuration: a TOML file, or attribution.toml (Table 1, Figures 2 and 3) or attribution-small.toml, which the program holds
    #[arg(long, value_name = "FILE", default_value = "attribution.toml")]
    config: PathBuf,
    /// The small configuration: a minute or two
    #[arg(long, conflicts_with = "config")]
    small: bool,
    /// Print a configuration that the program holds, to start from, and stop
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    print_config: Option<String>,
    /// Folder for trials, results.csv, tables.txt and plots
    #[arg(long, value_name = "DIR", default_value = "attribution")]
    out: PathBuf,
    /// Keep the trials that an earlier call left in --out, and run the rest
    #[arg(long)]
    resume: bool,
    /// Do the i-th of n parts only; the last one to finish in a shared folder makes the tables
    #[arg(long, value_name = "I/N", value_parser = shard, default_value = "1/1")]
    shard: (usize, usize),
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &AttributionArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.print_config {
        let found = SHIPPED.iter().find(|(known, _)| known == name);
        let (_, text) = found.ok_or_else(|| {
            let known = SHIPPED.map(|(name, _)| name).join(", ");
            UsageError(format!("--print-config {name}: expected one of {known}"))
        })?;
        return print(text);
    }
    let path = match args.small {
        true => PathBuf::from("attribution-small.toml"),
        false => args.config.clone(),
    };
    let config = Config::read(&path).map_err(usage)?;
    let trials = args.out.join("trials");
    let filled = trials
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some());
    if filled && !args.resume && args.shard.1 == 1 {
        let why = format!(
            "{} holds trials: go on with --resume, or name another --out",
            trials.display()
        );
        return Err(UsageError(why).into());
    }
    let mut bar = Bar::new(args.quiet);
    let done = run_study(&config, &args.out, args.shard, &mut |done, all, name| {
        bar.update_with("trials", done, all, name);
    });
    bar.finish();
    let done = done.map_err(usage)?;
    let out = args.out.display();
    match done.text {
        Some(text) => print(&format!(
            "{text}{} trials took {:.0} s together.\n{out}/{RAW} holds all values, {out}/{TABLES} these tables, {out}/*.svg the plots\n",
            done.all, done.seconds
        )),
        None => print(&format!(
            "{} of {} trials are there; the tables come with the last of them\n",
            done.trials, done.all
        )),
    }
}

/// A configuration that makes no sense is wrong usage.
fn usage(error: StudyError) -> anyhow::Error {
    match error {
        StudyError::Config { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}
