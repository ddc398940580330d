//! The manifest that `foil score` reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::usage;
use crate::explain::diffusion::Made;
use crate::folder::write_whole;
use crate::score::Labels;

const COLUMNS: [&str; 4] = ["original", "counterfactual", "source", "target"];

/// The manifest of a run, or of one of its shards.
pub fn name(shard: Option<(usize, usize)>) -> String {
    match shard {
        Some((i, n)) => format!("manifest.{i}of{n}.csv"),
        None => "manifest.csv".into(),
    }
}

/// Refuses to replace another file.
pub fn check(path: &Path) -> anyhow::Result<()> {
    match std::fs::read_to_string(path) {
        Ok(earlier) if !earlier.starts_with(&COLUMNS.join(",")) => {
            let shown = path.display();
            let why = format!("{shown} is there and not a manifest of foil generate");
            Err(usage(why))
        }
        _ => Ok(()),
    }
}

/// Lists what was made and not rejected.
pub fn write(
    path: &Path,
    out: &Path,
    made: &[Made],
    originals: &BTreeMap<String, PathBuf>,
    labels: &Labels,
) -> anyhow::Result<()> {
    Ok(write_whole(path, &listed(out, made, originals, labels)?)?)
}

/// The same where something failed: a list that is there stays, unless the new one holds more; one of nothing is not written.
pub fn write_longer(
    path: &Path,
    out: &Path,
    made: &[Made],
    originals: &BTreeMap<String, PathBuf>,
    labels: &Labels,
) -> anyhow::Result<()> {
    let new = listed(out, made, originals, labels)?;
    let rows = |bytes: &[u8]| csv::Reader::from_reader(bytes).records().count();
    let earlier = std::fs::read(path).map_or(0, |bytes| rows(&bytes));
    match rows(&new) > earlier {
        true => Ok(write_whole(path, &new)?),
        false => Ok(()),
    }
}

fn listed(
    out: &Path,
    made: &[Made],
    originals: &BTreeMap<String, PathBuf>,
    labels: &Labels,
) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for one in made.iter().filter(|one| !one.record.rejected) {
        let record = &one.record;
        let original = originals.get(&record.original).cloned().unwrap_or_default();
        let original = std::path::absolute(&original).unwrap_or(original);
        let image = one.at.image.strip_prefix(out).unwrap_or(&one.at.image);
        writer.write_record([
            original.to_string_lossy().as_ref(),
            image.to_string_lossy().as_ref(),
            &record.before.map_or(String::new(), |b| labels.name(b.0)),
            &labels.name(record.target),
        ])?;
    }
    Ok(writer.into_inner()?)
}

/// Lists what all shards made, as a single run would have; returns what is to be said of it.
pub fn whole(
    path: &Path,
    out: &Path,
    mut made: Vec<Made>,
    originals: &BTreeMap<String, PathBuf>,
    labels: &Labels,
    shards: usize,
) -> anyhow::Result<String> {
    made.sort_by(|a, b| a.at.image.cmp(&b.at.image));
    write(path, out, &made, originals, labels)?;
    Ok(format!(
        "all {shards} shards are done: {} lists what they made\n",
        path.display()
    ))
}
