//! Tables 1–3 from counterfactuals that are there already, named by a configuration:
//!
//! ```toml
//! range = [-0.5, 0.5]
//! protocol = "published"              # optional, default exact
//! originals = "mnist.npz::x"          # arrays, see `foil score`
//! autoencoders = "ae.safetensors"     # optional: IM1, IM2
//! oracle = "oracle.toml"              # optional: oracle score and FID of its embedding
//! samples = 8                         # optional: rows of the grid
//! skip_bad = true                     # optional: leave samples out whose target is the prediction already
//! keep_invalid = true                 # optional, exact only: keep counterfactuals whose prediction is not the target
//! explained = "dot"                   # optional: the label that the counterfactuals are to change
//! [label_models]                      # optional: LVS
//! dot = "oracle.toml"
//! [[method]]
//! name = "GB"
//! counterfactuals = "gb.npz"          # with orig_pred, q and cf_pred; or name them:
//! targets = "labels.safetensors::GB.target_class"
//! [[seed]]                            # optional: further evaluation models, for their spread (Figure 6)
//! name = "1"
//! autoencoders = "ae_1.safetensors"   # and oracle, label_models, as above
//! ```
//!
//! Paths are relative to the configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::QuantitativeError;
use crate::score::Protocol;

/// A data set of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    Mnist,
    CelebaHq,
    FakeMnist,
}

impl Data {
    /// As `--data` calls it, and the channels of its images.
    pub(super) fn images(self) -> (&'static str, usize) {
        match self {
            Data::Mnist => ("mnist", 1),
            Data::CelebaHq => ("celeba-hq", 3),
            Data::FakeMnist => ("fakemnist", 1),
        }
    }

    pub(super) fn table(self) -> (u32, &'static str) {
        match self {
            Data::Mnist => (1, "Scores on MNIST"),
            Data::CelebaHq => (2, "Scores on CelebA-HQ"),
            Data::FakeMnist => (3, "Scores on FakeMNIST"),
        }
    }
}

/// Networks that judge counterfactuals.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Judges {
    /// Told apart by it; of a `[[seed]]`.
    pub name: Option<String>,
    pub autoencoders: Option<String>,
    pub oracle: Option<String>,
    #[serde(default)]
    pub label_models: BTreeMap<String, String>,
}

/// A configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    pub(super) range: [f64; 2],
    #[serde(default)]
    pub(super) protocol: Protocol,
    #[serde(default)]
    pub(super) skip_bad: bool,
    #[serde(default)]
    pub(super) keep_invalid: bool,
    pub(super) explained: Option<String>,
    pub(super) originals: String,
    autoencoders: Option<String>,
    oracle: Option<String>,
    #[serde(default = "eight")]
    pub(super) samples: usize,
    #[serde(default)]
    label_models: BTreeMap<String, String>,
    pub(super) method: Vec<Method>,
    #[serde(default)]
    pub(super) seed: Vec<Judges>,
    #[serde(skip)]
    folder: PathBuf,
}

fn eight() -> usize {
    8
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Method {
    pub name: String,
    pub counterfactuals: String,
    pub original_predictions: Option<String>,
    pub targets: Option<String>,
    pub predictions: Option<String>,
}

/// Refuses names that would lead out of the result folder, and names that are given twice.
fn distinct(what: &str, of: &str, mut names: Vec<&str>) -> Result<(), String> {
    let plain = |c: char| c.is_alphanumeric() || "-_+ ".contains(c);
    let odd = |name: &&&str| name.is_empty() || !name.chars().all(plain);
    if let Some(name) = names.iter().find(odd) {
        return Err(format!(
            "{what} name {name:?}: expected letters, digits, -, _, + and spaces, as it names {of}; choose such a name"
        ));
    }
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(format!(
            "{what} {:?} is there twice; give each a name of its own",
            twice[0]
        )),
        None => Ok(()),
    }
}

impl Given {
    pub fn read(path: &Path) -> Result<Self, QuantitativeError> {
        let wrong = |reason: String| QuantitativeError::File {
            place: path.display().to_string(),
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        let mut given: Self = toml::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let [low, high] = given.range;
        if !(low < high && low.is_finite() && high.is_finite()) {
            return Err(wrong(format!(
                "range: expected LO < HI, found {low} and {high}"
            )));
        }
        if given.keep_invalid && given.protocol == Protocol::Published {
            let why = "keep_invalid: the published protocol keeps counterfactuals of other classes already; leave it out";
            return Err(wrong(why.into()));
        }
        if given.method.is_empty() {
            return Err(wrong("expected a [[method]], found none".into()));
        }
        let names = given.method.iter().map(|m| m.name.as_str());
        distinct("method", "a folder", names.collect()).map_err(wrong)?;
        let empty = |s: &&Judges| {
            s.autoencoders.is_none() && s.oracle.is_none() && s.label_models.is_empty()
        };
        if given.seed.iter().any(|s| empty(&s)) {
            let why =
                "[[seed]]: expected autoencoders, oracle or label_models of its own, found none";
            return Err(wrong(why.into()));
        }
        if given.seed.len() == 1 {
            let why = "[[seed]]: expected two or more sets of evaluation models, whose spread is shown, found one";
            return Err(wrong(why.into()));
        }
        for (at, seed) in given.seed.iter_mut().enumerate() {
            seed.name.get_or_insert_with(|| (at + 1).to_string());
        }
        if let Some(explained) = &given.explained
            && !given.label_models.contains_key(explained)
        {
            let known: Vec<&str> = given.label_models.keys().map(String::as_str).collect();
            return Err(wrong(format!(
                "explained label {explained:?}: expected one of [label_models], which are {}",
                match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                }
            )));
        }
        let names = given.seed.iter().filter_map(|s| s.name.as_deref());
        distinct("seed", "a file", names.collect()).map_err(wrong)?;
        given.folder = path.parent().unwrap_or(Path::new("")).into();
        Ok(given)
    }

    /// The networks of the main table.
    pub(super) fn judges(&self) -> Judges {
        Judges {
            name: None,
            autoencoders: self.autoencoders.clone(),
            oracle: self.oracle.clone(),
            label_models: self.label_models.clone(),
        }
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// A card beside the configuration, or the name of a known one.
    pub(super) fn card(&self, name: &str) -> String {
        let beside = self.folder.join(name);
        match beside.is_file() {
            true => beside.display().to_string(),
            false => name.to_owned(),
        }
    }
}
