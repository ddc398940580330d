//! Results on disk: one file for each piece of a study, which says what it was made from.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::scoring::{Numbers, Scored};
use super::{LatentStudyError, Unit};
use crate::explain::latent::{LatentFile, Level, level_distance, read_latents, write_latents};
use crate::folder::{make, write_whole};
use crate::metrics::latent::profile::ATTRIBUTES;
use crate::weights::sha256;

/// Scores of one explainer in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub schema: String,
    pub spurious: usize,
    pub correlation: f64,
    pub explainer: String,
    pub run: usize,
    /// Checksum of settings, world, samples and version.
    pub made_from: String,
    pub samples: usize,
    pub explanations: usize,
    pub seconds: f64,
    pub accuracy: f64,
    pub proximal: f64,
    pub exact: Numbers,
    pub as_released: Numbers,
    /// Mean change of each attribute in standard deviations.
    pub profile: Vec<f64>,
    /// How many samples there are of each level of confidence.
    pub levels: Vec<Level>,
}

impl Row {
    /// Mean distance of the samples' confidence to their levels.
    pub fn level_distance(&self) -> f64 {
        level_distance(&self.levels)
    }
}

const SCHEMA: &str = "foil.latent-row/2";

/// What a file of latents tells of its piece.
pub const MADE_FROM: &str = "made_from";

/// What a piece's result is made from.
pub fn made_from(world: &serde_json::Value, unit: &Unit, about: &serde_json::Value) -> String {
    let all = serde_json::json!({
        "world": world, "method": unit.method, "run": unit.run, "about": about, "foil": env!("CARGO_PKG_VERSION"),
    });
    sha256(all.to_string().as_bytes())
}

pub fn row_path(out: &Path, unit: &Unit) -> PathBuf {
    out.join("rows").join(format!("{}.json", unit.name()))
}

pub fn latents_path(out: &Path, unit: &Unit) -> PathBuf {
    out.join("latents")
        .join(format!("{}.safetensors", unit.name()))
}

/// The result of a piece, if it is there.
pub fn read(out: &Path, unit: &Unit) -> Result<Option<Row>, LatentStudyError> {
    let path = row_path(out, unit);
    let wrong = |what: String| LatentStudyError::File {
        file: path.display().to_string(),
        what,
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(wrong(format!("cannot read: {e}"))),
    };
    let row: Row = serde_json::from_str(&text).map_err(|e| {
        wrong(format!(
            "not a result of this study ({e}): remove it, or name another --out"
        ))
    })?;
    if row.schema != SCHEMA || row.profile.len() != ATTRIBUTES.len() {
        return Err(wrong(format!("expected {SCHEMA}, found {}", row.schema)));
    }
    Ok(Some(row))
}

/// What a row says besides its scores.
pub struct About<'a> {
    pub unit: &'a Unit,
    pub made_from: String,
    pub seconds: f64,
    pub accuracy: f64,
    pub levels: &'a [Level],
}

/// Whether the latents of a piece are there.
pub fn has_latents(out: &Path, unit: &Unit, made_from: &str) -> bool {
    read_latents(&latents_path(out, unit)).is_ok_and(|file| file.about[MADE_FROM] == made_from)
}

/// Writes latents, then the row: a row that is there is whole.
pub fn write(
    out: &Path,
    about: About<'_>,
    scored: &Scored,
    latents: &LatentFile,
) -> Result<Row, LatentStudyError> {
    make(&out.join("rows"))?;
    make(&out.join("latents"))?;
    let unit = about.unit;
    write_latents(&latents_path(out, unit), latents)?;
    let row = Row {
        schema: SCHEMA.into(),
        spurious: unit.setting.spurious,
        correlation: unit.setting.correlation(),
        explainer: unit.method.name().into(),
        run: unit.run,
        made_from: about.made_from,
        samples: scored.exact.samples,
        explanations: scored.exact.explanations,
        seconds: about.seconds,
        accuracy: about.accuracy,
        proximal: scored.exact.proximal,
        exact: (&scored.exact).into(),
        as_released: (&scored.as_released).into(),
        profile: scored.profile.iter().map(|c| c.change).collect(),
        levels: about.levels.to_vec(),
    };
    let text = serde_json::to_string_pretty(&row).unwrap_or_default() + "\n";
    write_whole(&row_path(out, unit), text.as_bytes())?;
    Ok(row)
}
