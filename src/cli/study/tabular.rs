//! `foil study tabular`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use crate::cli::generate::shard;
use crate::cli::progress::Bar;
use crate::cli::tabular::{EditionArg, VariantArg, duration, method, rank_usage};
use crate::cli::{UsageError, print, say};
use crate::explain::tabular::Method;
use crate::stats::interval::Bootstrap;
use crate::study::tabular::{
    Results, Task, TaskSettings, by_data_set, find_sets, rank_all, rank_text, run_task, summary,
};

#[derive(Args)]
pub struct TabularArgs {
    /// Folder with schema.json (or datasets/schema.json), <name>.csv beside it, and models/<name>.safetensors
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Methods, or all
    #[arg(
        long,
        value_name = "M,..",
        value_delimiter = ',',
        default_value = "all"
    )]
    methods: Vec<String>,
    /// Data sets (default: all of the folder)
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    datasets: Vec<String>,
    /// Most factuals of each class
    #[arg(long, value_name = "N", default_value_t = 100)]
    factuals: usize,
    /// Time for each factual, such as 10s
    #[arg(long, value_name = "T", value_parser = duration, default_value = "10s")]
    budget: Duration,
    /// Random numbers of methods that draw
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// correct or as-benchmarked
    #[arg(long, value_enum, default_value_t = VariantArg::Correct)]
    variant: VariantArg,
    /// Formulas: paper, v1 or v2
    #[arg(long, value_enum, default_value_t = EditionArg::Paper)]
    edition: EditionArg,
    /// Folder for results/, one file for each method and data set, and tables.txt
    #[arg(long, value_name = "DIR", default_value = "tabular-study")]
    out: PathBuf,
    /// Keep the results that are there and were made from the same, and make the rest
    #[arg(long)]
    resume: bool,
    /// Do the i-th of n parts only; the call that finds all results makes the tables
    #[arg(long, value_name = "I/N", value_parser = shard, default_value = "1/1")]
    shard: (usize, usize),
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &TabularArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let methods: Vec<Method> = match args.methods.iter().any(|m| m == "all") {
        true => Method::ALL.to_vec(),
        false => args
            .methods
            .iter()
            .map(|m| method(m).map_err(|e| UsageError(format!("--methods {m}: {e}"))))
            .collect::<Result<_, _>>()?,
    };
    let (mut sets, absent) = find_sets(&args.data).map_err(rank_usage)?;
    if !absent.is_empty() && !args.quiet {
        say(&format!("without rows, left out: {}", absent.join(", ")));
    }
    for name in &args.datasets {
        if !sets.iter().any(|s| s.name == *name) {
            let known = sets
                .iter()
                .map(|s| s.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            return Err(UsageError(format!("--datasets {name}: the folder has {known}")).into());
        }
    }
    if !args.datasets.is_empty() {
        sets.retain(|s| args.datasets.contains(&s.name));
    }
    let folder = args.out.join("results");
    if !args.resume && folder.is_dir() && std::fs::read_dir(&folder)?.next().is_some() {
        let message = format!(
            "{} holds results already; add --resume, or give another --out",
            folder.display()
        );
        return Err(UsageError(message).into());
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let settings = TaskSettings {
        variant: args.variant.variant(),
        edition: args.edition.edition(),
        factuals: args.factuals,
        seed: args.seed,
        budget: Some(args.budget),
    };
    let (part, parts) = args.shard;
    let (mut number, mut kept, mut all) = (0, 0, Vec::new());
    let total = sets.len() * methods.len();
    for set in &sets {
        let mine: Vec<bool> = (0..methods.len())
            .map(|i| (number + i) % parts == part - 1)
            .collect();
        number += methods.len();
        if !mine.contains(&true) {
            continue;
        }
        let (prepared, network) = set.open()?;
        for (&method, _) in methods.iter().zip(&mine).filter(|(_, mine)| **mine) {
            let task = Task {
                dataset: &set.name,
                method,
                settings,
            };
            let file = folder.join(format!("{}.{}.json", set.name, method.name()));
            if file.is_file() {
                let there = Results::read(&file)?;
                if there.made_from == task.made_from(&prepared, &network) {
                    kept += 1;
                    continue;
                }
                let message = format!(
                    "{} was made from other data, settings or version; move it away, or give another --out",
                    file.display()
                );
                return Err(UsageError(message).into());
            }
            let bar = Mutex::new(Bar::new(args.quiet));
            let what = format!("{} {}", set.name, method.name());
            let done = |n: usize, of: usize| {
                if let Ok(mut bar) = bar.lock() {
                    bar.update(&what, n, of);
                }
            };
            let results = run_task(&task, &prepared, &network, &done)?;
            if let Ok(mut bar) = bar.lock() {
                bar.finish();
            }
            results.write(&file)?;
        }
    }
    for set in &sets {
        for method in &methods {
            let file = folder.join(format!("{}.{}.json", set.name, method.name()));
            if file.is_file() {
                all.push(Results::read(&file)?);
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    if all.len() < total {
        return print(&format!(
            "{} of {total} results are there ({seconds:.1} s, {kept} kept from before); the tables come with the last of them\n",
            all.len()
        ));
    }
    let mut text = format!("{}\n{}\n", summary(&all), by_data_set(&all));
    if methods.len() > 1 {
        let (rankings, _) = rank_all(&all, Bootstrap::default()).map_err(rank_usage)?;
        text.push_str(&rank_text(&rankings));
    }
    let file = args.out.join("tables.txt");
    std::fs::write(&file, &text).with_context(|| file.display().to_string())?;
    print(&format!(
        "{text}\n{total} results in {seconds:.1} s ({kept} kept from before); tables in {}\n",
        file.display()
    ))
}
