//! `foil demo`: what the scores make of counterfactuals whose worth is known.

use std::path::PathBuf;

use clap::Args;

use super::print;
use super::progress::Bar;
use crate::demo::{self, CLASSIFIER, Demo, MANIFEST, ORACLES, SHEET};
use crate::report;
use crate::shell;
use crate::weights::Registry;

/// Renders glyphs, makes counterfactuals of five kinds and scores them: nothing to install, nothing to download.
#[derive(Args)]
pub struct DemoArgs {
    /// Folder for images, tables and the contact sheet.
    #[arg(long, value_name = "DIR", default_value = "foil-demo")]
    out: PathBuf,
    /// Number of originals.
    #[arg(long, value_name = "N", default_value_t = Demo::default().originals as u16, value_parser = clap::value_parser!(u16).range(2..=999))]
    n: u16,
    /// Seed of the glyphs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Replace the files of an earlier demo in --out; others are never touched.
    #[arg(long)]
    force: bool,
    /// Print scores.json on standard output instead of the tables.
    #[arg(long)]
    json: bool,
    /// No progress on standard error.
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let plan = Demo {
        originals: usize::from(args.n),
        seed: args.seed,
    };
    let registry = Registry::open()?;
    let mut bar = Bar::new(args.quiet);
    let outcome = demo::run(
        &plan,
        &registry,
        &args.out,
        args.force,
        &mut |what, done, total| bar.update(what, done, total),
    );
    bar.finish();
    let outcome = outcome?;
    if args.json {
        return print(&report::json::scores(&outcome.scores));
    }
    let out = args.out.display();
    let manifest = shell::word(&args.out.join(MANIFEST).to_string_lossy());
    let oracles = ORACLES.map(|name| format!(" --oracle {name}")).concat();
    print(&format!(
        "{}\n{}\n{out}/{SHEET} shows them, {out}/images holds them. To score them again:\n\
         foil score --manifest {manifest} --classifier {CLASSIFIER}{oracles}\n",
        report::table::verdicts(&outcome.scores),
        report::table::scores(&outcome.scores),
    ))
}
