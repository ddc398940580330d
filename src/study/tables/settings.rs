//! Names, columns, setups and layouts of the tables as data: the paper's ship with the program, a user's file replaces
//! any of their sections.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::class::{Class, ClassPair};
use super::error::{Result, TablesError};

/// The settings of [diffusion-vce], as text that a user can start from.
pub const SHIPPED: &str = include_str!("diffusion.toml");

/// All settings.
#[derive(Clone, Debug)]
pub struct TableSettings {
    pub columns: Columns,
    pub classifiers: Vec<Named>,
    pub oracles: Vec<Oracle>,
    pub oracle_metrics: Vec<OracleMetric>,
    pub metrics: Vec<Metric>,
    pub tables: Vec<Layout>,
    pub ideal: BTreeMap<String, IdealPairs>,
    pub classes: BTreeMap<i64, String>,
}

/// Columns of the CSV that say which group a row is about.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    pub classifier: String,
    pub cone_projection: String,
    pub xzero_prediction: String,
    pub source: String,
    pub source_name: String,
    pub target: String,
    pub target_name: String,
    /// Says by which protocol the scores of a row were computed; without it, as published.
    #[serde(default = "protocol_column")]
    pub protocol: String,
}

fn protocol_column() -> String {
    "protocol".into()
}

/// A name in the tables and the name that the data have for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub name: String,
    pub data: String,
}

/// An oracle, and where it is shown.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oracle {
    pub name: String,
    pub data: String,
    #[serde(default)]
    pub better: Better,
    /// Tables that have rows of it; all, if nothing is said.
    pub tables: Option<Vec<u32>>,
}

/// Something measured with every oracle.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OracleMetric {
    pub row: String,
    /// What stands before the oracle's name in the CSV's header.
    pub csv: String,
    pub run: String,
    pub meaning: Option<String>,
}

/// Something measured once per group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    pub row: String,
    pub csv: String,
    pub run: String,
    pub better: Better,
    pub divisor: Option<f64>,
    pub unit: Option<String>,
    pub latex: Option<String>,
    pub meaning: Option<String>,
}

/// Which way a metric gets better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    #[default]
    Higher,
    Lower,
    /// Neither way, or nobody has said which.
    Open,
}

/// Which groups a setup takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairs {
    Ideal,
    Other,
}

/// Divisor of the variance: n for the population, n − 1 for a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Std {
    Population,
    Sample,
}

/// Zeros at the end of a printed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Zeros {
    Kept,
    Dropped,
}

/// What one table shows, and how the paper printed it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    pub number: u32,
    pub title: String,
    pub rows: Vec<String>,
    pub oracle_rows: Vec<String>,
    pub pairs: Pairs,
    pub cone_projection: bool,
    pub xzero_prediction: bool,
    /// The table whose setup this one is compared with.
    pub against: Option<u32>,
    pub std: Std,
    pub zeros: Zeros,
}

/// What stands in [`Layout::rows`] for the rows of the oracles.
pub const ORACLES: &str = "oracles";

/// A set of ideal pairs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdealPairs {
    pub pairs: Vec<ClassPair>,
    pub note: Option<String>,
}

/// A settings file: every section may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    columns: Option<Columns>,
    classifier: Option<Vec<Named>>,
    oracle: Option<Vec<Oracle>>,
    oracle_metric: Option<Vec<OracleMetric>>,
    metric: Option<Vec<Metric>>,
    table: Option<Vec<Layout>>,
    ideal: Option<BTreeMap<String, IdealPairs>>,
    classes: Option<BTreeMap<String, String>>,
}

impl TableSettings {
    /// The paper's settings.
    pub fn shipped() -> Result<Self> {
        Self::merged(Path::new("diffusion.toml"), "")
    }

    /// The paper's settings with the sections of a file in their place.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| TablesError::Unreadable {
            path: path.into(),
            expected: "a settings file (TOML)",
            source,
        })?;
        Self::merged(path, &text)
    }

    fn merged(path: &Path, text: &str) -> Result<Self> {
        let wrong = |found: String| TablesError::File {
            path: path.into(),
            expected: "settings of tables (TOML)".into(),
            found,
            advice: "compare with what `foil tables --print-settings` prints".into(),
        };
        let parse = |text: &str| {
            toml::from_str::<File>(text).map_err(|e| wrong(e.to_string().trim_end().into()))
        };
        let (base, own) = (parse(SHIPPED)?, parse(text)?);
        macro_rules! section {
            ($name:ident) => {
                own.$name
                    .or(base.$name)
                    .ok_or_else(|| wrong(format!("no section {}", stringify!($name))))?
            };
        }
        let number = |(key, name): (String, String)| match key.parse() {
            Ok(number) => Ok((number, name)),
            Err(_) => Err(wrong(format!("the class number {key:?}"))),
        };
        let settings = Self {
            columns: section!(columns),
            classifiers: section!(classifier),
            oracles: section!(oracle),
            oracle_metrics: section!(oracle_metric),
            metrics: section!(metric),
            tables: section!(table),
            ideal: section!(ideal),
            classes: section!(classes)
                .into_iter()
                .map(number)
                .collect::<Result<_>>()?,
        };
        settings.check().map_err(wrong)?;
        Ok(settings)
    }

    /// Rows and tables that are named must exist.
    fn check(&self) -> std::result::Result<(), String> {
        for layout in &self.tables {
            let number = layout.number;
            for row in layout.rows.iter().filter(|row| *row != ORACLES) {
                self.metric(row)
                    .ok_or_else(|| format!("row {row:?} of table {number}, which is no metric"))?;
            }
            for row in &layout.oracle_rows {
                self.oracle_metric(row).ok_or_else(|| {
                    format!("row {row:?} of table {number}, which is no metric of oracles")
                })?;
            }
            if let Some(base) = layout.against
                && self.table(base).is_none()
            {
                return Err(format!(
                    "table {number} against table {base}, which does not exist"
                ));
            }
        }
        if let Some(m) = self
            .metrics
            .iter()
            .find(|m| m.divisor.is_some_and(|d| !d.is_finite() || d <= 0.0))
        {
            return Err(format!(
                "a divisor of {:?} that is not above zero",
                m.row.as_str()
            ));
        }
        Ok(())
    }

    pub fn metric(&self, row: &str) -> Option<&Metric> {
        self.metrics.iter().find(|m| m.row == row)
    }

    pub fn oracle_metric(&self, row: &str) -> Option<&OracleMetric> {
        self.oracle_metrics.iter().find(|m| m.row == row)
    }

    pub fn table(&self, number: u32) -> Option<&Layout> {
        self.tables.iter().find(|t| t.number == number)
    }

    /// The class with the name or number that the settings add to it.
    pub fn complete(&self, mut class: Class) -> Class {
        match (class.number, &class.name) {
            (Some(number), None) => class.name = self.classes.get(&number).cloned(),
            (None, Some(_)) => {
                let named = |name: &String| Class {
                    number: None,
                    name: Some(name.clone()),
                };
                let found = self.classes.iter().find(|(_, name)| class.is(&named(name)));
                class.number = found.map(|(number, _)| *number);
            }
            _ => {}
        }
        class
    }

    /// The pairs that `--ideal` asks for: the name of a set, or `SOURCE:TARGET,…`; and what is to be said about them.
    pub fn ideal_pairs(&self, asked: &str) -> Result<(Vec<ClassPair>, Option<String>)> {
        let complete = |(source, target): ClassPair| (self.complete(source), self.complete(target));
        if let Some(set) = self.ideal.get(asked) {
            let pairs = set.pairs.iter().cloned().map(complete).collect();
            return Ok((pairs, set.note.clone()));
        }
        let pairs = asked.split(',').map(|pair| {
            let (source, target) = pair.split_once(':')?;
            let filled = !source.trim().is_empty() && !target.trim().is_empty();
            filled.then(|| complete((Class::parse(source), Class::parse(target))))
        });
        let pairs = pairs.collect::<Option<Vec<ClassPair>>>().ok_or_else(|| {
            let sets: Vec<&str> = self.ideal.keys().map(String::as_str).collect();
            TablesError::Usage(format!(
                "--ideal: expected one of {}, or pairs SOURCE:TARGET,SOURCE:TARGET,…, found {asked:?}",
                sets.join(", ")
            ))
        })?;
        Ok((pairs, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_settings_hold_the_papers_tables_and_pairs() {
        let settings = TableSettings::shipped().unwrap();
        let numbers: Vec<u32> = settings.tables.iter().map(|t| t.number).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6]);
        for set in ["published", "text"] {
            assert_eq!(settings.ideal_pairs(set).unwrap().0.len(), 6);
        }
    }

    #[test]
    fn a_section_of_a_file_replaces_the_shipped_one_and_leaves_the_others() {
        let own = "[[classifier]]\nname = \"A\"\ndata = \"a\"\n";
        let settings = TableSettings::merged(Path::new("own.toml"), own).unwrap();
        assert_eq!(settings.classifiers.len(), 1);
        assert_eq!(settings.tables.len(), 5);
    }

    #[test]
    fn a_wrong_section_is_named() {
        for (own, said) in [
            ("[colums]\n", "colums"),
            ("[[classifier]]\nname = \"A\"\n", "data"),
            ("metric = []\n", "\"TA\" of table 2"),
            ("[classes]\nx = \"cat\"\n", "class number \"x\""),
        ] {
            let error = TableSettings::merged(Path::new("own.toml"), own).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn ideal_pairs_may_be_given_by_number_and_by_name() {
        let settings = TableSettings::shipped().unwrap();
        let (pairs, _) = settings.ideal_pairs("cheetah:288, 0:1,even:odd").unwrap();
        assert_eq!(pairs[0].0.number, Some(293));
        assert_eq!(pairs[0].1.name.as_deref(), Some("leopard"));
        assert_eq!(pairs[1].1.number, Some(1));
        assert_eq!(pairs[2].0.key(), "even");
        for wrong in ["", "nothing", "1:", "1:2,3"] {
            assert!(settings.ideal_pairs(wrong).is_err(), "{wrong:?}");
        }
    }
}
