//! The study of [xai-bench]: Table 1, Figures 2 and 3: metrics × explainers × correlations × models, in both variants, mean ± standard deviation over seeds.
//!
//! A trial is one data set (labels, rho, seed) with one model in one variant, explained by all methods and judged by all metrics. Each leaves a
//! file, so that a study goes on where it was stopped and can be cut into shards; what the trials say is put together when all are there.

mod config;
mod figure;
mod published;
mod tables;
mod trial;

pub use config::{Config, Panel, SHIPPED};
pub use figure::{Line, figure};
pub use published::{EXPLAINERS, FAULTS, faults, published};
pub use tables::{Cell, Results};
pub use trial::{Found, Trial};

use std::path::{Path, PathBuf};

use crate::attribute::AttributionError;

/// Files of a finished study.
pub const TABLES: &str = "tables.txt";
pub const RAW: &str = "results.csv";

#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    #[error("{file}: {reason}")]
    Config { file: String, reason: String },
    #[error("{}: {reason}", path.display())]
    Folder { path: PathBuf, reason: String },
    #[error(transparent)]
    Attribution(#[from] AttributionError),
}

type Result<T> = std::result::Result<T, StudyError>;

/// How far a study is.
pub struct Done {
    pub trials: usize,
    pub all: usize,
    /// The tables, once all trials are there.
    pub text: Option<String>,
    /// What all trials took together, once they are there.
    pub seconds: f64,
}

/// Runs the i-th of n shards of the trials that are not there yet, then the tables if nothing is missing. `note` hears of each trial: done, of how many, and its name.
pub fn run(
    config: &Config,
    out: &Path,
    (shard, shards): (usize, usize),
    note: &mut dyn FnMut(usize, usize, &str),
) -> Result<Done> {
    let trials = config.trials();
    let own: Vec<&Trial> = trials
        .iter()
        .enumerate()
        .filter(|(i, _)| i % shards == shard - 1)
        .map(|(_, t)| t)
        .collect();
    let folder = out.join("trials");
    std::fs::create_dir_all(&folder).map_err(|e| at(&folder, &e.to_string()))?;
    for (done, trial) in own.iter().enumerate() {
        if trial.read(&folder)?.is_none() {
            let found = trial.run()?;
            trial.write(&folder, &found)?;
        }
        note(done + 1, own.len(), &trial.name());
    }
    let mut found = Vec::new();
    for trial in &trials {
        found.extend(trial.read(&folder)?.map(|f| (trial, f)));
    }
    let done = found.len();
    let (mut text, mut seconds) = (None, 0.0);
    if done == trials.len() {
        let results = Results::new(found);
        let shown = results.text(config);
        let write = |name: &str, content: &str| {
            let path = out.join(name);
            std::fs::write(&path, content).map_err(|e| at(&path, &e.to_string()))
        };
        write(RAW, &results.csv())?;
        for (name, svg) in results.figures(config) {
            write(&name, &svg)?;
        }
        write(TABLES, &shown)?;
        (text, seconds) = (Some(shown), results.seconds());
    }
    Ok(Done {
        trials: done,
        all: trials.len(),
        text,
        seconds,
    })
}

fn at(path: &Path, reason: &str) -> StudyError {
    StudyError::Folder {
        path: path.into(),
        reason: reason.into(),
    }
}
