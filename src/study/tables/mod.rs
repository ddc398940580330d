//! Tables 2–6 of [diffusion-vce]: means ± standard deviations over source → target groups, and what ablations change.
//!
//! The scores of the groups come from a CSV of the study's layout ([`raw_csv`]) or from result folders of `foil score`
//! ([`runs`]); names, columns, setups and the paper's conventions are data ([`settings`]).
//!
//! As published, Tables 2 and 3 print the population std (n), Tables 4–6 the difference of two *sample* stds (n − 1), which is
//! not the std of the change, and Table 6 counts two groups whose target is their source. The exact protocol prints sample
//! stds everywhere, pairs the groups of the two setups and takes the std of their changes, and leaves those two out.

pub mod class;
mod compute;
mod error;
pub mod raw_csv;
pub mod runs;
pub mod settings;
pub mod study;
mod wording;

use std::path::{Path, PathBuf};

pub use compute::{Cell, Options, Spread, Table, TableRow, compute};
pub use error::TablesError;
pub use settings::{SHIPPED, Std, TableSettings, Zeros};
pub use study::Study;

use crate::score::Protocol;
use error::Result;
use settings::Layout;

/// Reads a study from CSV files, or from result folders of `foil score`; not from both.
pub fn read(paths: &[PathBuf], settings: &TableSettings, layouts: &[&Layout]) -> Result<Study> {
    let is_run = |path: &&PathBuf| path.is_dir() || path.extension().is_some_and(|e| e == "json");
    let (runs, files): (Vec<&PathBuf>, Vec<&PathBuf>) = paths.iter().partition(is_run);
    if let (Some(run), Some(file)) = (runs.first(), files.first()) {
        return Err(TablesError::Usage(format!(
            "--from: expected CSV files or result folders, found both ({} and {}): nobody knows whether their scores were \
             computed alike",
            file.display(),
            run.display()
        )));
    }
    if !runs.is_empty() {
        let runs: Vec<&Path> = runs.into_iter().map(PathBuf::as_path).collect();
        let found = self::runs::read(&runs, settings)?;
        let units = found.protocol == Protocol::Published;
        return Study::new(
            found.groups,
            found.oracles,
            found.protocol,
            units,
            found.notes,
            settings,
        );
    }
    let (mut groups, mut oracles) = (Vec::new(), Vec::new());
    for file in files {
        let (more, named) = raw_csv::read(file, settings, layouts)?;
        groups.extend(more);
        oracles.extend(named);
    }
    Study::new(
        groups,
        oracles,
        Protocol::Published,
        true,
        Vec::new(),
        settings,
    )
}
