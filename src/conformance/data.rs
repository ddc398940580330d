//! Where golden data come from.

use std::path::{Path, PathBuf};

/// Data of one area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of the area's layout.
    Folder(PathBuf),
    /// The small set inside the program.
    Builtin,
}

/// The data used when none are named: `<area>` in `$FOIL_REFERENCE`, in `../shared/reference` or in `tests/golden`,
/// the first that exists; else the set inside the program.
pub fn default_source(area: &str) -> Source {
    let reference = std::env::var_os("FOIL_REFERENCE").map(PathBuf::from);
    let roots = [
        reference,
        Some(PathBuf::from("../shared/reference")),
        Some(PathBuf::from("tests/golden")),
    ];
    roots
        .iter()
        .flatten()
        .map(|root: &PathBuf| root.join(area))
        .find(|folder: &PathBuf| Path::is_dir(folder))
        .map_or(Source::Builtin, Source::Folder)
}
