//! The result of a run: `scores.json`, schema `foil.scores/1` (see `docs/scores.md`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stats::interval::{Fraction, Interval, mean_interval};

/// Name and version of the layout of `scores.json`.
pub const SCHEMA: &str = "foil.scores/1";

/// One number with its count and 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct Score {
    /// `null` if it could not be computed; `note` says why.
    pub value: Option<f64>,
    pub n: usize,
    pub ci95: Option<[f64; 2]>,
    /// Spread over images or subsets (sample std for means and confidences).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

fn pair(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}

impl Score {
    /// A fraction with its Wilson interval.
    pub fn fraction(count: usize, n: usize) -> Self {
        if n == 0 {
            return Self::missing(0, "no pair to count".into());
        }
        let fraction = Fraction::new(count, n);
        Self {
            value: Some(fraction.value),
            n,
            ci95: fraction.interval.map(pair),
            ..Self::default()
        }
    }

    /// A mean with its normal interval and the sample std.
    pub fn mean(values: &[f64]) -> Self {
        match mean_interval(values) {
            None => Self::missing(0, "no pair to average".into()),
            Some(m) => Self {
                value: Some(m.mean),
                n: m.n,
                ci95: m.interval().map(pair),
                std: m.std_sample,
                note: None,
            },
        }
    }

    /// A number that could not be computed, and why.
    pub fn missing(n: usize, note: String) -> Self {
        Self {
            n,
            note: Some(note),
            ..Self::default()
        }
    }

    pub fn with_interval(mut self, interval: Option<Interval>) -> Self {
        self.ci95 = interval.map(pair);
        self
    }

    pub fn noted(mut self, note: Option<String>) -> Self {
        self.note = match (self.note.take(), note) {
            (Some(a), Some(b)) => Some(format!("{a}; {b}")),
            (a, b) => a.or(b),
        };
        self
    }
}

/// The scores of one group (source → target, and method if given).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub method: Option<String>,
    pub source: Option<String>,
    pub target: Option<String>,
    /// Pairs scored, and pairs skipped as unreadable.
    pub pairs: usize,
    pub skipped: usize,
    pub originals: usize,
    /// Pairs per verdict.
    pub verdicts: BTreeMap<String, usize>,
    pub scores: BTreeMap<String, Score>,
}

/// Mean and population std (ddof 0) of a score over groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub mean: f64,
    pub std: f64,
    pub groups: usize,
}

/// What a score was computed with; scores with different fingerprints must not share a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    pub metric: String,
    pub protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preprocessing: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Options that change the number: the real set, neighbours, subsets, splits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// How the networks were allowed to multiply, where not in f32 only (`bf16x3`: long sums on AMX tiles, by `--fast`
    /// or `FOIL_CPU`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<String>,
    pub reject_invalid: bool,
    pub foil: String,
}

/// Tool name and version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

/// Files that took no part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct Left {
    pub unpaired_originals: Vec<String>,
    pub unpaired_counterfactuals: Vec<String>,
    /// File and reason.
    pub skipped: Vec<SkippedFile>,
}

/// An image that could not be used (`--skip-bad`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkippedFile {
    pub name: String,
    pub reason: String,
}

/// Everything a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    pub schema: String,
    pub tool: Tool,
    pub device: String,
    pub seed: u64,
    pub protocol: String,
    pub reject_invalid: bool,
    pub classifier: Option<String>,
    pub oracles: Vec<String>,
    pub groups: Vec<Group>,
    /// Over all groups; empty if there are several methods, which must not be averaged.
    pub summary: BTreeMap<String, Summary>,
    /// Over the groups of each method, if methods are named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub summary_by_method: BTreeMap<String, BTreeMap<String, Summary>>,
    /// Divisor of `summary.*.std`: n − ddof.
    pub summary_ddof: usize,
    pub fingerprints: BTreeMap<String, Fingerprint>,
    pub left_out: Left,
    pub notes: Vec<String>,
}

impl Scores {
    /// Mean and population std over the groups that have a value; nothing if they are of several methods.
    pub fn summarise(groups: &[Group]) -> BTreeMap<String, Summary> {
        let one = groups.windows(2).all(|g| g[0].method == g[1].method);
        if one {
            Self::summarise_all(groups.iter())
        } else {
            BTreeMap::new()
        }
    }

    /// The same for each method by itself.
    pub fn summarise_methods(groups: &[Group]) -> BTreeMap<String, BTreeMap<String, Summary>> {
        let methods: Vec<&String> = groups.iter().filter_map(|g| g.method.as_ref()).collect();
        methods
            .into_iter()
            .map(|method| {
                let own = groups.iter().filter(|g| g.method.as_ref() == Some(method));
                (method.clone(), Self::summarise_all(own))
            })
            .collect()
    }

    fn summarise_all<'a>(groups: impl Iterator<Item = &'a Group>) -> BTreeMap<String, Summary> {
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for group in groups {
            for (name, score) in &group.scores {
                if let Some(value) = score.value {
                    values.entry(name).or_default().push(value);
                }
            }
        }
        values
            .into_iter()
            .map(|(name, values)| {
                let n = values.len() as f64;
                let mean = values.iter().sum::<f64>() / n;
                let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
                let summary = Summary {
                    mean,
                    std: variance.sqrt(),
                    groups: values.len(),
                };
                (name.to_string(), summary)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_mean_and_population_std_over_groups() {
        let group = |value: Option<f64>| Group {
            name: "g".into(),
            method: None,
            source: None,
            target: None,
            pairs: 1,
            skipped: 0,
            originals: 1,
            verdicts: BTreeMap::new(),
            scores: [(
                "l1".to_string(),
                Score {
                    value,
                    n: 1,
                    ..Score::default()
                },
            )]
            .into(),
        };
        let summary = Scores::summarise(&[group(Some(1.0)), group(Some(3.0)), group(None)]);
        let l1 = &summary["l1"];
        assert_eq!((l1.mean, l1.std, l1.groups), (2.0, 1.0, 2));
    }
}
