//! `foil tabular rank`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::cli::{UsageError, print, say};
use crate::stats::interval::Bootstrap;
use crate::study::tabular::{
    Constraint, Results, TabularStudyError, critical_difference_svg, rank_all, rank_text,
};

#[derive(Args)]
pub struct RankArgs {
    /// Results of `foil tabular score --out` or of `foil study tabular`: one file for each method and data set
    #[arg(value_name = "FILE", required = true)]
    results: Vec<PathBuf>,
    /// Folder for critical-difference diagrams, one SVG for each metric over all data sets
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Bootstrap replicates of the intervals of mean ranks
    #[arg(long, value_name = "N", default_value_t = 200)]
    replicates: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads results, and whole folders of them.
pub fn read_results(paths: &[PathBuf]) -> anyhow::Result<Vec<Results>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let listed = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
            for entry in listed {
                let file = entry.with_context(|| path.display().to_string())?.path();
                if file.extension().is_some_and(|e| e == "json") {
                    files.push(file);
                }
            }
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    Ok(files
        .iter()
        .map(|f| Results::read(f))
        .collect::<Result<Vec<_>, _>>()?)
}

/// Results that do not fit together are wrong usage.
pub fn usage(error: TabularStudyError) -> anyhow::Error {
    match error {
        TabularStudyError::Input(message) => UsageError(message).into(),
        other => other.into(),
    }
}

pub fn run(args: &RankArgs) -> anyhow::Result<()> {
    let results = read_results(&args.results)?;
    let plan = Bootstrap {
        replicates: args.replicates.max(20),
        seed: 0,
    };
    let (rankings, dropped) = rank_all(&results, plan).map_err(usage)?;
    if dropped > 0 {
        say(&format!(
            "{dropped} factuals are left out: not every method has results for them"
        ));
    }
    if let Some(folder) = &args.svg {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for ranking in rankings.iter().filter(|r| r.group == "all") {
            let table = if ranking.constraint == Constraint::Any {
                "any"
            } else {
                "realistic"
            };
            let file = folder.join(format!("{}_{table}.svg", ranking.metric.to_lowercase()));
            std::fs::write(&file, critical_difference_svg(ranking))
                .with_context(|| file.display().to_string())?;
        }
    }
    match args.json {
        true => print(&format!("{}\n", serde_json::to_string_pretty(&rankings)?)),
        false => print(&rank_text(&rankings)),
    }
}
