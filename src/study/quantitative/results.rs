//! Result folders of `foil score` over samples, one method each.

use std::path::{Path, PathBuf};

use super::{MethodScores, QuantitativeError};
use crate::score::{Family, SCHEMA, Scores};

fn file_of(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join("scores.json"),
        false => path.into(),
    }
}

fn read(path: &Path) -> Option<Scores> {
    let text = std::fs::read_to_string(file_of(path)).ok()?;
    serde_json::from_str::<Scores>(&text).ok()
}

/// True if one of the paths is a result over samples.
pub fn holds_samples(paths: &[PathBuf]) -> bool {
    paths.iter().filter_map(|p| read(p)).any(|scores| {
        let mut names = scores.groups.iter().flat_map(|g| g.scores.keys());
        names.any(|name| Family::of(name).is_some_and(|f| Family::OF_SAMPLES.contains(&f)))
    })
}

/// The methods of all results, in the order given. A result without a method is named after its folder.
pub fn read_results(paths: &[PathBuf]) -> Result<Vec<MethodScores>, QuantitativeError> {
    let mut all: Vec<MethodScores> = Vec::new();
    for path in paths {
        let file = file_of(path);
        let place = file.display().to_string();
        let scores = read(path).filter(|s| s.schema == SCHEMA);
        let scores = scores.ok_or_else(|| QuantitativeError::File {
            place: place.clone(),
            reason: format!(
                "expected scores of the schema {SCHEMA}; give result folders of `foil score`"
            ),
        })?;
        for mut method in MethodScores::of(&place, &scores) {
            if scores.groups.len() == 1 && scores.groups[0].method.is_none() {
                let folder = file.parent().and_then(Path::file_name);
                if let Some(name) = folder {
                    method.method = name.to_string_lossy().into_owned();
                }
            }
            if let Some(first) = all.iter().find(|m| m.method == method.method) {
                return Err(QuantitativeError::Usage(format!(
                    "the method {} is in {} and in {place}; name methods with `foil score --method`",
                    method.method, first.place
                )));
            }
            all.push(method);
        }
    }
    Ok(all)
}
