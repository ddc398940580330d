//! The scores of all groups of a study, whatever file they came from.

use std::collections::{BTreeMap, HashMap};

use super::class::{Class, arrow};
use super::error::{Result, TablesError};
use super::settings::{Oracle, TableSettings};
use crate::score::Protocol;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// The row of a metric.
    Metric(String),
    /// The row of a metric of oracles, and the oracle.
    Oracle { metric: String, oracle: String },
}

/// The scores of one group: a classifier in one setup, one source and one target.
#[derive(Clone, Debug)]
pub struct GroupScores {
    /// Where they were read, for messages.
    pub place: String,
    pub classifier: String,
    pub cone_projection: bool,
    pub xzero_prediction: bool,
    pub source: Class,
    pub target: Class,
    pub values: BTreeMap<Quantity, f64>,
}

/// All groups, with classifiers and oracles in the order of the tables.
#[derive(Clone, Debug)]
pub struct Study {
    pub groups: Vec<GroupScores>,
    pub classifiers: Vec<String>,
    pub oracles: Vec<Oracle>,
    /// How the scores were computed.
    pub protocol: Protocol,
    /// Whether distances carry the units of the settings.
    pub units: bool,
    pub notes: Vec<String>,
}

/// Names of classifiers as the tables have them.
pub fn classifier_name(settings: &TableSettings, data: &str) -> String {
    let known = settings
        .classifiers
        .iter()
        .find(|c| c.data == data || c.name == data);
    known.map_or(data, |c| c.name.as_str()).to_owned()
}

/// An oracle of the data, as the settings know it or as it is.
pub fn oracle(settings: &TableSettings, data: &str) -> Oracle {
    let known = settings
        .oracles
        .iter()
        .find(|o| o.data == data)
        .or_else(|| settings.oracles.iter().find(|o| o.name == data));
    known.cloned().unwrap_or_else(|| Oracle {
        name: data.to_owned(),
        data: data.to_owned(),
        better: Default::default(),
        tables: None,
    })
}

/// True if the oracle is the classifier itself: the same name but for case, signs and the word "classifier" at the end.
pub fn is_own(oracle: &str, classifier: &str) -> bool {
    let bare = |name: &str| {
        let letters: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
        let letters = letters.to_lowercase();
        letters
            .strip_suffix("classifier")
            .unwrap_or(&letters)
            .to_owned()
    };
    bare(oracle) == bare(classifier)
}

impl Study {
    /// Sorts what was read and refuses groups that were given twice.
    pub fn new(
        groups: Vec<GroupScores>,
        oracles: Vec<Oracle>,
        protocol: Protocol,
        units: bool,
        notes: Vec<String>,
        settings: &TableSettings,
    ) -> Result<Self> {
        let mut classifiers: Vec<String> = Vec::new();
        let mut seen: HashMap<_, &GroupScores> = HashMap::new();
        for group in &groups {
            if !classifiers.contains(&group.classifier) {
                classifiers.push(group.classifier.clone());
            }
            let key = (
                &group.classifier,
                group.cone_projection,
                group.xzero_prediction,
                group.source.key(),
                group.target.key(),
            );
            if let Some(first) = seen.insert(key, group) {
                return Err(TablesError::Twice {
                    what: format!(
                        "{} of {} with {}",
                        arrow(&(group.source.clone(), group.target.clone())),
                        group.classifier,
                        setup(group.cone_projection, group.xzero_prediction)
                    ),
                    first: first.place.clone(),
                    second: group.place.clone(),
                });
            }
        }
        let rank = |name: &str| {
            let at = settings.classifiers.iter().position(|c| c.name == name);
            at.unwrap_or(usize::MAX)
        };
        classifiers.sort_by_key(|name| rank(name));
        let mut ordered: Vec<Oracle> = Vec::new();
        for oracle in oracles {
            if !ordered.iter().any(|known| known.name == oracle.name) {
                ordered.push(oracle);
            }
        }
        let rank = |name: &str| {
            let at = settings.oracles.iter().position(|o| o.name == name);
            at.unwrap_or(usize::MAX)
        };
        ordered.sort_by_key(|oracle| rank(&oracle.name));
        Ok(Self {
            groups,
            classifiers,
            oracles: ordered,
            protocol,
            units,
            notes,
        })
    }
}

/// The two switches in words.
pub fn setup(cone_projection: bool, xzero_prediction: bool) -> String {
    let with = |on: bool| if on { "" } else { "no " };
    format!(
        "{}cone projection, {}x0-prediction",
        with(cone_projection),
        with(xzero_prediction)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oracle_is_the_classifiers_own_if_only_the_spelling_differs() {
        assert!(is_own("Madry", "Madry"));
        assert!(is_own("Res-Net 50", "ResNet50Classifier"));
        assert!(!is_own("AlexNet", "AlexNetRandomInitClassifier"));
    }
}
