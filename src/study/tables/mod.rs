//! Tables 2–6 of [diffusion-vce]: means ± standard deviations over source → target groups, and what ablations change.
//!
//! The scores of the groups come from a CSV of the study's layout ([`raw_csv`]), by itself or as `raw.csv` in the folder of a
//! study, or from result folders of `foil score` ([`runs`]); names, columns, setups and the paper's conventions are data ([`settings`]).
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

/// The CSV in the folder of a study.
pub const STUDY_FILE: &str = "raw.csv";

/// How to read the CSV in the folder of a study, beside it.
pub const SETTINGS_FILE: &str = "tables.toml";

/// The settings in the folders of studies, if all that are given have the same ones.
pub fn own_settings(paths: &[PathBuf]) -> Result<Option<PathBuf>> {
    let mut found: Option<(PathBuf, Vec<u8>)> = None;
    for path in paths {
        let own = path.join(SETTINGS_FILE);
        if path.join("scores.json").exists() || !path.join(STUDY_FILE).exists() || !own.exists() {
            return Ok(None);
        }
        let text = std::fs::read(&own).map_err(|source| TablesError::Unreadable {
            path: own.clone(),
            expected: "a settings file (TOML)",
            source,
        })?;
        match &found {
            Some((first, earlier)) if *earlier != text => {
                return Err(TablesError::Usage(format!(
                    "--from: {} and {} differ: say with --settings which of them holds for all",
                    first.display(),
                    own.display()
                )));
            }
            Some(_) => {}
            None => found = Some((own, text)),
        }
    }
    Ok(found.map(|(path, _)| path))
}

/// Reads a study from CSV files or folders of studies, or from result folders of `foil score`; not from both.
pub fn read(paths: &[PathBuf], settings: &TableSettings, layouts: &[&Layout]) -> Result<Study> {
    let (mut runs, mut files): (Vec<&Path>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    for path in paths {
        let study = path.join(STUDY_FILE);
        let scored = path.join("scores.json").exists();
        if path.is_dir() && !scored && study.exists() {
            files.push(study);
        } else if path.is_dir() || path.extension().is_some_and(|e| e == "json") {
            runs.push(path);
        } else {
            files.push(path.clone());
        }
    }
    if let (Some(run), Some(file)) = (runs.first(), files.first()) {
        return Err(TablesError::Usage(format!(
            "--from: expected CSV files or result folders, found both ({} and {}): nobody knows whether their scores were \
             computed alike",
            file.display(),
            run.display()
        )));
    }
    if runs.is_empty() {
        return from_csv(&files, settings, layouts);
    }
    let found = self::runs::read(&runs, settings)?;
    Study::new(
        found.groups,
        found.oracles,
        found.protocol,
        found.notes,
        settings,
    )
}

/// All files as one study, if their scores were computed alike.
fn from_csv(files: &[PathBuf], settings: &TableSettings, layouts: &[&Layout]) -> Result<Study> {
    let (mut groups, mut oracles) = (Vec::new(), Vec::new());
    let mut first: Option<(&PathBuf, Protocol)> = None;
    for file in files {
        let found = raw_csv::read(file, settings, layouts)?;
        let (earlier, protocol) = *first.get_or_insert((file, found.protocol));
        if protocol != found.protocol {
            return Err(TablesError::Fingerprint {
                row: "scores".into(),
                first: earlier.display().to_string(),
                second: file.display().to_string(),
                difference: format!(
                    "protocols {} and {}",
                    protocol.name(),
                    found.protocol.name()
                ),
            });
        }
        groups.extend(found.groups);
        oracles.extend(found.oracles);
    }
    let protocol = first.map_or(Protocol::Published, |(_, protocol)| protocol);
    Study::new(groups, oracles, protocol, Vec::new(), settings)
}
