//! Tables 1–3 from counterfactuals that are there already, named by a configuration:
//!
//! ```toml
//! range = [-0.5, 0.5]
//! protocol = "published"              # optional, default exact
//! originals = "mnist.npz::x"          # arrays, see `foil score`
//! autoencoders = "ae.safetensors"     # optional: IM1, IM2
//! oracle = "oracle.toml"              # optional: oracle score and FID of its embedding
//! samples = 8                         # optional: rows of the grid
//! [label_models]                      # optional: LVS
//! dot = "oracle.toml"
//! [[method]]
//! name = "GB"
//! counterfactuals = "gb.npz"          # with orig_pred, q and cf_pred; or name them:
//! targets = "labels.safetensors::GB.target_class"
//! ```
//!
//! Paths are relative to the configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{
    GridRow, MethodScores, QuantitativeError, counterfactual_grid, label_variation_svg, table,
};
use crate::metrics::MetricBackend;
use crate::report::study_tables::{Document, csv, latex, markdown, text};
use crate::score::samples::load::{self, Arrays};
use crate::score::samples::{self, Networks, Pixels, Run, Titles};
use crate::score::{Family, Protocol, Selection, write_atomically};
use crate::weights::Registry;

/// A data set of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    Mnist,
    CelebaHq,
    FakeMnist,
}

impl Data {
    fn table(self) -> (u32, &'static str) {
        match self {
            Data::Mnist => (1, "Scores on MNIST"),
            Data::CelebaHq => (2, "Scores on CelebA-HQ"),
            Data::FakeMnist => (3, "Scores on FakeMNIST"),
        }
    }
}

/// A configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    range: [f64; 2],
    #[serde(default)]
    protocol: GivenProtocol,
    originals: String,
    autoencoders: Option<String>,
    oracle: Option<String>,
    #[serde(default = "eight")]
    samples: usize,
    #[serde(default)]
    label_models: BTreeMap<String, String>,
    method: Vec<Method>,
    #[serde(skip)]
    folder: PathBuf,
}

fn eight() -> usize {
    8
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GivenProtocol {
    #[default]
    Exact,
    Published,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Method {
    name: String,
    counterfactuals: String,
    original_predictions: Option<String>,
    targets: Option<String>,
    predictions: Option<String>,
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
        if given.method.is_empty() {
            return Err(wrong("expected a [[method]], found none".into()));
        }
        let plain = |c: char| c.is_alphanumeric() || "-_+ ".contains(c);
        if let Some(method) = given
            .method
            .iter()
            .find(|m| m.name.is_empty() || !m.name.chars().all(plain))
        {
            return Err(wrong(format!(
                "method name {:?}: expected letters, digits, -, _ and +, which name a folder",
                method.name
            )));
        }
        let mut names: Vec<&str> = given.method.iter().map(|m| m.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = twice[0];
            return Err(wrong(format!(
                "method {name:?} is there twice; give each a name of its own"
            )));
        }
        given.folder = path.parent().unwrap_or(Path::new("")).into();
        Ok(given)
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// A card beside the configuration, or the name of a known one.
    fn card(&self, name: &str) -> String {
        let beside = self.folder.join(name);
        match beside.is_file() {
            true => beside.display().to_string(),
            false => name.to_owned(),
        }
    }
}

/// Scores all methods, writes tables, scores, the grid and the bars to `out`, and returns the tables as text.
pub fn run_given<B: MetricBackend + 'static>(
    backend: &B,
    registry: &Registry,
    data: Data,
    given: &Given,
    out: &Path,
    note: &mut dyn FnMut(&str),
) -> Result<String, QuantitativeError> {
    let protocol = match given.protocol {
        GivenProtocol::Exact => Protocol::Exact,
        GivenProtocol::Published => Protocol::Published,
    };
    let file = given.autoencoders.as_ref().map(|f| given.path(f));
    let autoencoders = load::autoencoders(backend, registry, file.as_deref(), &[], given.range)?;
    let mut oracles = Vec::new();
    if let Some(card) = &given.oracle {
        oracles.push(load::label_model(backend, registry, "oracle", None, &given.card(card))?.0);
    }
    let mut models = Vec::new();
    for (name, card) in &given.label_models {
        let card = given.card(card);
        models.push(load::label_model(backend, registry, "label_models", Some(name), &card)?.0);
    }
    let mut families = vec![Family::TargetClassValidity, Family::ElasticNet];
    if autoencoders.is_some() {
        families.extend([Family::Im1, Family::Im2]);
    }
    if !oracles.is_empty() {
        families.extend([Family::Oracle, Family::Fid]);
    }
    if !models.is_empty() {
        families.push(Family::LabelVariation);
    }
    let selection = Selection {
        families: families.into_iter().collect(),
        explicit: true,
        embedding: true,
    };
    let networks = Networks {
        autoencoders: autoencoders.as_ref(),
        oracles: oracles.iter().collect(),
        labels: models.iter().collect(),
    };
    let run = Run {
        selection: &selection,
        range: given.range,
        protocol,
        reject_invalid: false,
        skip_bad: false,
    };
    let mut methods = Vec::new();
    let mut pictures: Vec<Pixels> = Vec::new();
    let mut documents = Vec::new();
    for method in &given.method {
        note(&format!("{}: {}", data.table().1, method.name));
        let at = |name: &Option<String>| name.as_ref().map(|n| given.path(n));
        let parts = load::arrays(&Arrays {
            originals: given.path(&given.originals),
            counterfactuals: given.path(&method.counterfactuals),
            original_predictions: at(&method.original_predictions),
            targets: at(&method.targets),
            predictions: at(&method.predictions),
        })?;
        let samples = parts.complete(backend, None, given.range, protocol)?;
        let terms = samples::evaluate(backend, &samples, &networks, &run, &mut |_, _| {})?;
        let found = samples::aggregate(&samples, &terms, &run)?;
        let fingerprints = samples::fingerprints(&found, &networks, &run, backend.arithmetic());
        let device = backend.describe();
        let titles = Titles {
            name: &method.name,
            method: Some(&method.name),
            classifier: None,
            device: &device,
            seed: 0,
        };
        let counts = samples::counts(&samples, &terms);
        let names = oracles.iter().map(|o| o.name.clone()).collect();
        let scores = samples::scores(&titles, found, fingerprints, counts, &run, names);
        methods.extend(MethodScores::of(&method.counterfactuals, &scores));
        documents.push((method.name.clone(), scores));
        if pictures.is_empty() {
            pictures.push(
                samples
                    .originals
                    .first(given.samples.min(samples.originals.len())),
            );
        }
        let n = given.samples.min(samples.counterfactuals.len());
        pictures.push(samples.counterfactuals.first(n));
    }
    let (number, title) = data.table();
    let [low, high] = given.range;
    let title = format!("{title}, values from {low} to {high}");
    let document = Document {
        tables: vec![table(number, &title, &methods)?],
        digits: 4,
        notes: Vec::new(),
    };
    let printed = text::render(&document);
    let write = |name: &str, bytes: &[u8]| -> Result<(), QuantitativeError> {
        let path = out.join(name);
        write_atomically(&path, bytes).map_err(|e| QuantitativeError::File {
            place: path.display().to_string(),
            reason: e.to_string(),
        })
    };
    std::fs::create_dir_all(out).map_err(|e| QuantitativeError::File {
        place: out.display().to_string(),
        reason: e.to_string(),
    })?;
    write("tables.txt", printed.as_bytes())?;
    write("tables.md", markdown::render(&document).as_bytes())?;
    write("tables.tex", latex::render(&document).as_bytes())?;
    let rows = csv::render(&document).map_err(|reason| QuantitativeError::File {
        place: "tables.csv".into(),
        reason,
    })?;
    write("tables.csv", &rows)?;
    for (name, scores) in &documents {
        let folder = out.join(name);
        std::fs::create_dir_all(&folder).map_err(|e| QuantitativeError::File {
            place: folder.display().to_string(),
            reason: e.to_string(),
        })?;
        write(
            &format!("{name}/scores.json"),
            crate::report::json::scores(scores).as_bytes(),
        )?;
    }
    if let Some(svg) = label_variation_svg("Label Variation Score", &methods) {
        write("lvs.svg", svg.as_bytes())?;
    }
    let columns: Vec<GridRow<'_>> = pictures
        .iter()
        .map(|pixels| GridRow {
            pixels,
            range: given.range,
        })
        .collect();
    let fewest = pictures.iter().map(Pixels::len).min().unwrap_or(0);
    let rows: Vec<usize> = (0..given.samples.min(fewest)).collect();
    write(
        "counterfactuals.png",
        &counterfactual_grid(&columns, &rows)?,
    )?;
    Ok(printed)
}
