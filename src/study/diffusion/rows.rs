//! A row of results: a group of one classifier in one setup. Every row is a file of its own, written when it is done;
//! the CSV is put together from them, in the columns of the published one.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::config::Setup;
use super::error::{Result, StudyError};
use super::groups::Group;
use crate::folder::{make, write_whole};
use crate::score::Protocol;

/// Columns that say which group a row is about.
const GROUP: [&str; 8] = [
    "run_id",
    "classifier",
    "cone_projection",
    "xzero_prediction",
    "source_class",
    "source_class_name",
    "target_class",
    "target_class_name",
];

/// Columns of scores, and the names that scores of `foil score` have; `/std` is the spread of one.
const SCORES: [(&str, &str); 11] = [
    ("target_class_conf_std", "target_confidence/std"),
    ("target_class_conf_mean", "target_confidence"),
    ("original_class_conf_std", "original_confidence/std"),
    ("original_class_conf_mean", "original_confidence"),
    ("fid", "fid"),
    ("target_class_validity", "target_accuracy"),
    ("original_class_validity", "original_accuracy"),
    ("lp_norm_1", "l1"),
    ("lp_norm_1_5", "l1_5"),
    ("lp_norm_2", "l2"),
    ("lpips", "lpips"),
];

/// Columns that the published CSV does not have: images, and the share of them whose class by the classifier became the
/// target and was not before. (A network that says the same of every image has a target accuracy of 1 where that is the target.)
pub const FURTHER: [&str; 2] = ["images", "flip_rate"];

/// The last column: how the scores were computed.
const PROTOCOL: &str = "protocol";

/// Columns and names of scores of all that is measured with these oracles.
pub fn columns(oracles: &[String]) -> Vec<(String, String)> {
    let own = SCORES.map(|(column, score)| (column.to_owned(), score.to_owned()));
    let theirs = oracles.iter().flat_map(|name| {
        [
            (format!("oracle_{name}"), format!("oracle_score/{name}")),
            (
                format!("oracle_tcv_{name}"),
                format!("oracle_target_accuracy/{name}"),
            ),
        ]
    });
    own.into_iter().chain(theirs).collect()
}

/// The results of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which group it is: values of the first columns.
    pub group: Vec<String>,
    /// A checksum of everything that the values depend on: settings, originals, networks, arithmetic, version.
    pub made_from: String,
    /// By column.
    pub values: BTreeMap<String, f64>,
    /// What is to be said of each counterfactual, by the name of its original.
    pub verdicts: BTreeMap<String, String>,
    /// Why an original has no counterfactual, by its name: it is in no value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, String>,
}

impl Row {
    /// One that has no values yet.
    pub fn new(classifier: &str, setup: Setup, group: &Group<'_>, made_from: String) -> Self {
        let Setup {
            cone_projection,
            xzero_prediction,
        } = setup;
        Self {
            group: vec![
                group.run_id(),
                classifier.to_owned(),
                cone_projection.to_string(),
                xzero_prediction.to_string(),
                group.source.class.to_string(),
                group.source.name.clone(),
                group.target.class.to_string(),
                group.target.name.clone(),
            ],
            made_from,
            values: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            lost: BTreeMap::new(),
        }
    }

    /// The row of an earlier run; one of another group, or made from something else, is an error.
    pub fn read(path: &Path, expected: &Row) -> Result<Option<Row>> {
        let Ok(text) = std::fs::read(path) else {
            return Ok(None);
        };
        let row: Row = serde_json::from_slice(&text)
            .map_err(|e| StudyError::file(path, format!("not a row of foil study: {e}")))?;
        if row.group != expected.group {
            let what = "the row of another group: name another --out";
            return Err(StudyError::file(path, what));
        }
        if row.made_from != expected.made_from {
            return Err(StudyError::file(
                path,
                "it was made from other originals, networks or cards of them, on another kind of device, or by another version of foil: \
                 bring those back, or name another --out",
            ));
        }
        Ok(Some(row))
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            make(folder)?;
        }
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        Ok(write_whole(path, text.as_bytes())?)
    }
}

/// The CSV of all rows, every field quoted as in the published one.
pub fn csv(
    rows: &[Row],
    oracles: &[String],
    protocol: Protocol,
) -> std::result::Result<Vec<u8>, String> {
    let mut writer = csv::WriterBuilder::new()
        .quote_style(csv::QuoteStyle::Always)
        .from_writer(Vec::new());
    let mut names: Vec<String> = columns(oracles).into_iter().map(|c| c.0).collect();
    names.extend(FURTHER.map(str::to_owned));
    let header = GROUP.map(str::to_owned).into_iter().chain(names.clone());
    let header = header.chain([PROTOCOL.to_owned()]);
    writer.write_record(header).map_err(|e| e.to_string())?;
    for row in rows {
        let values = names.iter().map(|name| {
            let value = row.values.get(name);
            value.map_or(String::new(), f64::to_string)
        });
        let fields = row.group.iter().cloned().chain(values);
        let fields = fields.chain([protocol.name().to_owned()]);
        writer.write_record(fields).map_err(|e| e.to_string())?;
    }
    writer.into_inner().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of the published file.
    #[test]
    fn columns_are_those_of_the_published_results() {
        let oracles = ["MNR-RN50", "SwinTFL"].map(str::to_owned);
        let text = String::from_utf8(csv(&[], &oracles, Protocol::Exact).unwrap()).unwrap();
        let published = "\"run_id\",\"classifier\",\"cone_projection\",\"xzero_prediction\",\"source_class\",\
            \"source_class_name\",\"target_class\",\"target_class_name\",\"target_class_conf_std\",\
            \"target_class_conf_mean\",\"original_class_conf_std\",\"original_class_conf_mean\",\"fid\",\
            \"target_class_validity\",\"original_class_validity\",\"lp_norm_1\",\"lp_norm_1_5\",\"lp_norm_2\",\"lpips\",\
            \"oracle_MNR-RN50\",\"oracle_tcv_MNR-RN50\",\"oracle_SwinTFL\",\"oracle_tcv_SwinTFL\"";
        assert!(text.starts_with(published), "{text}");
    }
}
