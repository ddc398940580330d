//! One file per command; arguments become a typed plan.

mod allocator;
mod attribution;
mod conformance;
mod demo;
mod devices;
mod fakemnist;
mod generate;
mod glyphs;
mod latent;
mod metric;
mod pace;
mod progress;
mod score;
mod study;
mod tables;
mod tabular;
mod train;
pub mod weights;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::folder::FolderError;
use crate::tensor::cpu::Isa;
use crate::weights::WeightsError;

/// Evaluates counterfactual explanations: fast, exactly, with the papers' own protocols.
#[derive(Parser)]
#[command(name = "foil", version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Number of CPU threads; results do not depend on it.
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Let networks compute long sums of products on AMX tiles in three bf16 parts, where the processor has them:
    /// faster, and about 1e-5 off. Without AMX it changes nothing.
    #[arg(long, global = true)]
    fast: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Score a folder of image counterfactuals.
    Score(Box<score::ScoreArgs>),
    /// Make image counterfactuals by guided diffusion, gb, gl or gen.
    Generate(Box<generate::GenerateArgs>),
    /// Compute one metric on plain arrays.
    Metric(Box<metric::MetricArgs>),
    /// Render images of characters whose causes are all known.
    Glyphs(glyphs::GlyphsArgs),
    /// Build FakeMNIST, whose label is a dot, from MNIST's files.
    Fakemnist(fakemnist::FakeMnistArgs),
    /// Make and score counterfactuals in a latent space whose causes are known.
    Latent(latent::LatentArgs),
    /// Show on glyphs what the scores tell apart; needs nothing but this program.
    Demo(demo::DemoArgs),
    /// Print the tables of a study from its raw results or from result folders.
    Tables(tables::TablesArgs),
    /// Run a paper's whole study: make counterfactuals, score them, print its tables.
    Study(Box<study::StudyArgs>),
    /// Explain models of tables by weights of features, and judge the weights.
    Attribution(Box<attribution::AttributionArgs>),
    /// Make, score and rank counterfactuals of table rows.
    Tabular(Box<tabular::TabularArgs>),
    /// List, check, fetch and import network weights.
    Weights(weights::WeightsArgs),
    /// Train small networks on images with known attributes.
    Train(Box<train::TrainArgs>),
    /// List the devices foil can compute on.
    Devices(devices::DevicesArgs),
    /// Prove on golden data that this machine gives the right numbers.
    Conformance(conformance::ConformanceArgs),
}

/// The command line was understood but asks for something that makes no sense: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// `FOIL_CPU` must be something that this machine has, and nothing that `--fast` contradicts.
fn instruction_set(fast: bool) -> Result<(), String> {
    match crate::tensor::cpu::forced()? {
        Some(isa @ (Isa::Portable | Isa::Avx2 | Isa::Avx512)) if fast => Err(format!(
            "--fast asks for AMX, FOIL_CPU={} for exact arithmetic; leave one of them out",
            isa.key()
        )),
        _ => Ok(()),
    }
}

/// Runs a command: exit code 0 for success, 1 for failed work, 2 for wrong usage.
pub fn run(cli: &Cli) -> ExitCode {
    if let Some(threads) = cli.threads {
        // Fails only if the pool exists already, which nothing before this makes.
        let _ = rayon::ThreadPoolBuilder::new()
            .num_threads(usize::from(threads))
            .build_global();
    }
    if cli.fast {
        crate::tensor::cpu::allow_fast();
    }
    if let Err(wrong) = instruction_set(cli.fast) {
        say(&format!("error: {wrong}"));
        return ExitCode::from(2);
    }
    if let Command::Generate(_)
    | Command::Study(_)
    | Command::Train(_)
    | Command::Demo(_)
    | Command::Conformance(_) = &cli.command
    {
        allocator::keep_memory();
    }
    let done = match &cli.command {
        Command::Score(args) => score::run(args),
        Command::Generate(args) => generate::run(args).map(|()| true),
        Command::Metric(args) => metric::run(args).map(|()| true),
        Command::Glyphs(args) => glyphs::run(args).map(|()| true),
        Command::Fakemnist(args) => fakemnist::run(args).map(|()| true),
        Command::Latent(args) => latent::run(args).map(|()| true),
        Command::Demo(args) => demo::run(args).map(|()| true),
        Command::Tables(args) => tables::run(args).map(|()| true),
        Command::Study(args) => study::run(args).map(|()| true),
        Command::Attribution(args) => attribution::run(args).map(|()| true),
        Command::Tabular(args) => tabular::run(args).map(|()| true),
        Command::Weights(args) => weights::run(args).map(|()| true),
        Command::Train(args) => train::run(args).map(|()| true),
        Command::Devices(args) => devices::run(args).map(|()| true),
        Command::Conformance(args) => conformance::run(args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {}", message(&error)));
            ExitCode::from(if is_usage(&error) { 2 } else { 1 })
        }
    }
}

/// The error with its causes, leaving out what a message says already.
fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// True if the command line is at fault, not the work.
fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let unknown = cause.downcast_ref::<WeightsError>();
        let folder = cause.downcast_ref::<FolderError>();
        cause.is::<UsageError>()
            || matches!(unknown, Some(WeightsError::UnknownName { .. }))
            || matches!(folder, Some(FolderError::NotEmpty { .. }))
    })
}

/// The reader of our output went away (`foil … | head`): not a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// A line on standard error. If nobody can read it, the work goes on.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints to standard output without panicking when it is closed.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
