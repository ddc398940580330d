//! Result folders of `foil score` as the groups of a study: one run is one classifier in one setup.
//!
//! `scores.json` does not know how its counterfactuals were made. `run.toml` beside it says so:
//!
//! ```toml
//! cone_projection = true
//! xzero_prediction = false
//! classifier = "Madry"        # optional: its name in the tables
//!
//! [methods.dvce]              # instead of the two above, if the pairs of the run name methods
//! cone_projection = true
//! xzero_prediction = true
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::class::Class;
use super::error::{Result, TablesError};
use super::settings::{Oracle, TableSettings};
use super::study::{GroupScores, Quantity, classifier_name, oracle};
use crate::score::{Fingerprint, Group, Protocol, SCHEMA, Scores};

/// The file beside `scores.json`.
pub const RUN_FILE: &str = "run.toml";

/// How the counterfactuals of a run were made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    classifier: Option<String>,
    cone_projection: Option<bool>,
    xzero_prediction: Option<bool>,
    #[serde(default)]
    methods: BTreeMap<String, Setup>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setup {
    cone_projection: bool,
    xzero_prediction: bool,
}

impl Run {
    /// The setup of a group: that of its method, or that of the whole run.
    fn setup(&self, method: Option<&str>) -> Option<Setup> {
        let whole = || {
            Some(Setup {
                cone_projection: self.cone_projection?,
                xzero_prediction: self.xzero_prediction?,
            })
        };
        method
            .and_then(|m| self.methods.get(m).copied())
            .or_else(whole)
    }
}

/// All runs together.
pub struct Runs {
    pub groups: Vec<GroupScores>,
    pub oracles: Vec<Oracle>,
    pub protocol: Protocol,
    pub notes: Vec<String>,
}

/// Reads folders with `scores.json` in them, or such files themselves. Scores of one row must have equal fingerprints.
pub fn read(paths: &[&Path], settings: &TableSettings) -> Result<Runs> {
    let mut runs = Runs {
        groups: Vec::new(),
        oracles: Vec::new(),
        protocol: Protocol::Exact,
        notes: Vec::new(),
    };
    let mut fingerprints: BTreeMap<(String, String), (String, Fingerprint)> = BTreeMap::new();
    let mut first: Option<(String, String)> = None;
    for path in paths {
        let file = match path.is_dir() {
            true => path.join("scores.json"),
            false => path.to_path_buf(),
        };
        let scores = scores(&file)?;
        let place = file.display().to_string();
        match &first {
            Some((earlier, protocol)) if *protocol != scores.protocol => {
                return Err(TablesError::Fingerprint {
                    row: "scores".into(),
                    first: earlier.clone(),
                    second: place,
                    difference: format!("protocols {protocol} and {}", scores.protocol),
                });
            }
            Some(_) => {}
            None => first = Some((place.clone(), scores.protocol.clone())),
        }
        let run = run(&file)?;
        let classifier = run.classifier.as_ref().or(scores.classifier.as_ref());
        let classifier = classifier.ok_or_else(|| TablesError::File {
            path: file.clone(),
            expected: "scores of a classifier".into(),
            found: "a run without one".into(),
            advice: format!(
                "name it in {RUN_FILE} (classifier = \"…\"), or score with --classifier"
            ),
        })?;
        let classifier = classifier_name(settings, classifier);
        if scores.protocol == Protocol::Published.name() {
            runs.protocol = Protocol::Published;
        }
        let units = runs.protocol == Protocol::Published;
        let quantities = quantities(&scores, settings, units);
        for (name, quantity, _) in &quantities {
            let Some(fingerprint) = scores.fingerprints.get(name) else {
                continue;
            };
            // What the classifier says is its own; every other row is shared by all classifiers.
            let own = name == "target_accuracy" || name == "original_accuracy";
            let column = if own {
                classifier.clone()
            } else {
                String::new()
            };
            let known = fingerprints
                .entry((row_name(quantity), column))
                .or_insert_with(|| (place.clone(), fingerprint.clone()));
            if known.1 != *fingerprint {
                return Err(TablesError::Fingerprint {
                    row: row_name(quantity),
                    first: known.0.clone(),
                    second: place,
                    difference: difference(&known.1, fingerprint),
                });
            }
        }
        for group in &scores.groups {
            runs.groups.push(self::group(
                &file,
                group,
                &run,
                &classifier,
                &quantities,
                settings,
            )?);
        }
        let lacking: Vec<&str> = settings
            .metrics
            .iter()
            .filter(|m| !quantities.iter().any(|(name, _, _)| *name == m.run))
            .map(|m| m.row.as_str())
            .collect();
        if !lacking.is_empty() {
            runs.notes.push(format!(
                "{place} ({classifier}) lacks {}",
                lacking.join(", ")
            ));
        }
        runs.oracles
            .extend(scores.oracles.iter().map(|data| oracle(settings, data)));
    }
    Ok(runs)
}

fn scores(file: &Path) -> Result<Scores> {
    let text = std::fs::read_to_string(file).map_err(|source| TablesError::Unreadable {
        path: file.into(),
        expected: "the scores.json of a result folder of `foil score`, or a CSV file",
        source,
    })?;
    let wrong = |found: String| TablesError::File {
        path: file.into(),
        expected: format!("scores of the schema {SCHEMA}"),
        found,
        advice: "give a result folder of `foil score`".into(),
    };
    let scores: Scores = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    if scores.schema != SCHEMA {
        return Err(wrong(format!("the schema {}", scores.schema)));
    }
    Ok(scores)
}

fn run(scores: &Path) -> Result<Run> {
    let path: PathBuf = scores.with_file_name(RUN_FILE);
    let wrong = |found: String| {
        TablesError::File {
        path: path.clone(),
        expected: "how the counterfactuals of this run were made".into(),
        found,
        advice: "write two lines, `cone_projection = true|false` and `xzero_prediction = true|false`, or the same below \
                 [methods.NAME] for each method of the run"
            .into(),
    }
    };
    let text = std::fs::read_to_string(&path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => wrong("no such file".into()),
        _ => wrong(e.to_string()),
    })?;
    let run: Run = toml::from_str(&text).map_err(|e| wrong(e.to_string().trim_end().into()))?;
    if run.methods.is_empty() && run.setup(None).is_none() {
        return Err(wrong("only a part of it".into()));
    }
    Ok(run)
}

/// Names in `scores.json` with what they are and their divisors, as far as some group of the run has them.
fn quantities(
    scores: &Scores,
    settings: &TableSettings,
    units: bool,
) -> Vec<(String, Quantity, f64)> {
    let mut wanted = Vec::new();
    for metric in &settings.metrics {
        let divisor = metric.divisor.filter(|_| units).unwrap_or(1.0);
        let quantity = Quantity::Metric(metric.row.clone());
        wanted.push((metric.run.clone(), quantity, divisor));
    }
    for metric in &settings.oracle_metrics {
        for data in &scores.oracles {
            let quantity = Quantity::Oracle {
                metric: metric.row.clone(),
                oracle: oracle(settings, data).name,
            };
            wanted.push((format!("{}/{data}", metric.run), quantity, 1.0));
        }
    }
    wanted.retain(|(name, _, _)| {
        let has = |g: &Group| g.scores.get(name).is_some_and(|s| s.value.is_some());
        scores.groups.iter().any(has)
    });
    wanted
}

fn row_name(quantity: &Quantity) -> String {
    match quantity {
        Quantity::Metric(row) => row.clone(),
        Quantity::Oracle { metric, oracle } => format!("{metric} {oracle}"),
    }
}

fn group(
    file: &Path,
    group: &Group,
    run: &Run,
    classifier: &str,
    quantities: &[(String, Quantity, f64)],
    settings: &TableSettings,
) -> Result<GroupScores> {
    let wrong = |path: PathBuf, expected: &str, found: String, advice: &str| TablesError::File {
        path,
        expected: expected.into(),
        found,
        advice: advice.into(),
    };
    let method = group.method.as_deref();
    let setup = run.setup(method).ok_or_else(|| {
        let found = match method {
            Some(method) => format!("nothing about the method {method:?}"),
            None => format!(
                "nothing about the group {:?}, which has no method",
                group.name
            ),
        };
        let path = file.with_file_name(RUN_FILE);
        let expected = "the setup of every method of the run";
        wrong(path, expected, found, "add a section [methods.NAME] for it")
    })?;
    let (Some(source), Some(target)) = (&group.source, &group.target) else {
        return Err(wrong(
            file.into(),
            "groups of one source and one target each",
            format!("the group {:?} without them", group.name),
            "score folders named SOURCE_to_TARGET, or a manifest with columns source, target and group",
        ));
    };
    let value = |(name, quantity, divisor): &(String, Quantity, f64)| {
        let value = group.scores.get(name)?.value?;
        Some((quantity.clone(), value / divisor))
    };
    Ok(GroupScores {
        place: format!("{}, group {:?}", file.display(), group.name),
        classifier: classifier.to_owned(),
        cone_projection: setup.cone_projection,
        xzero_prediction: setup.xzero_prediction,
        source: settings.complete(Class::parse(source)),
        target: settings.complete(Class::parse(target)),
        values: quantities.iter().filter_map(value).collect(),
    })
}

/// The first field in which two fingerprints differ.
pub(crate) fn difference(a: &Fingerprint, b: &Fingerprint) -> String {
    let [a, b] = [a, b].map(|f| serde_json::to_value(f).unwrap_or_default());
    let fields = a.as_object().into_iter().chain(b.as_object());
    let mut fields = fields.flat_map(|o| o.keys());
    let field = fields.find(|key| a.get(key) != b.get(key));
    field.map_or("fingerprints differ".into(), |field| {
        let show = |v: &serde_json::Value| v.get(field).map_or("none".into(), ToString::to_string);
        format!("{field} is {} and {}", show(&a), show(&b))
    })
}
