//! The demonstration: originals whose causes are known, counterfactuals of five kinds, and what the scores make of them.
//!
//! A metric is worth something if it tells apart what a person tells apart at once. So four kinds of counterfactuals are made
//! by construction: a true change of the character, noise that fools one network, no change at all, and blur. The fifth comes
//! from guided diffusion. Classifier and
//! oracles are networks inside the program, trained on other glyphs; nothing is downloaded.

mod counterfactuals;
mod folder;
mod guided;
mod originals;

use std::path::Path;

use image::RgbImage;

pub use counterfactuals::Kind;
pub use originals::Original;

pub use crate::folder::FolderError;

use crate::explain::diffusion::GenerateError;
use crate::glyphs::{Atlas, GlyphError};
use crate::images::{ImageError, read_manifest};
use crate::nets::{NetError, build};
use crate::report::contact_sheet::{self, Section, Triple};
use crate::score::{
    self, Inputs, JudgeSource, Labels, NamedJudge, Outcome, Place, ScoreError, Settings,
};
use crate::tensor::candle::Candle;
use crate::tensor::cpu::Cpu;
use crate::train::TrainError;
use crate::weights::{Card, Loaded, Registry, WeightsError};

/// The classifier whose decisions are explained.
pub const CLASSIFIER: &str = "glyph_resnet18";
/// The networks that judge the counterfactuals.
pub const ORACLES: [&str; 3] = [
    "glyph_oracle_resnet18",
    "glyph_oracle_cnn",
    "glyph_oracle_convnext",
];

/// Names of the files beside the images.
pub const MANIFEST: &str = "manifest.csv";
pub const SHEET: &str = "contact_sheet.png";

/// Triples of each kind on the contact sheet, and how many stand side by side.
const SHOWN: usize = 6;
const COLUMNS: usize = 3;

/// What to demonstrate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demo {
    /// Originals; each gets a counterfactual of every kind.
    pub originals: usize,
    pub seed: u64,
}

impl Default for Demo {
    fn default() -> Self {
        Self {
            originals: 48,
            seed: 0,
        }
    }
}

/// Why a demonstration failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("{0}")]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Glyph(#[from] GlyphError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Score(#[from] ScoreError),
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error("{path}: cannot write: {reason}: check the path, its permissions and the space left")]
    Write { path: String, reason: String },
    #[error(
        "the classifier {CLASSIFIER} is right about {found} of {tried} glyphs only: its weights are damaged"
    )]
    Originals { found: usize, tried: usize },
}

/// A file of weights with its card.
struct Network {
    card: Card,
    loaded: Loaded,
}

impl Network {
    fn open(registry: &Registry, name: &str) -> Result<Self, WeightsError> {
        let card = registry.card(name)?;
        let loaded = registry.load(&card)?;
        Ok(Self { card, loaded })
    }

    fn judge(self) -> NamedJudge {
        NamedJudge {
            name: self.card.name.clone(),
            source: JudgeSource::Network {
                card: Box::new(self.card),
                loaded: Box::new(self.loaded),
            },
        }
    }
}

/// Runs a demonstration into `out`; `replace` allows to replace the files of an earlier one. `progress` hears of what is
/// done, how much and of how many.
pub fn run(
    demo: &Demo,
    registry: &Registry,
    out: &Path,
    replace: bool,
    progress: score::Progress<'_>,
) -> Result<Outcome, DemoError> {
    // Everything that can be missing is opened before anything is replaced.
    let classifier = Network::open(registry, CLASSIFIER)?;
    let mut oracles = Vec::new();
    for name in ORACLES {
        oracles.push(Network::open(registry, name)?.judge());
    }
    let guides = guided::open(registry)?;
    let (layout, dict) = (classifier.card.architecture, &classifier.loaded.dict);
    let atlas = Atlas::embedded()?;
    let net = build(layout, &Cpu, dict, &classifier.card.unet)?;
    let open = build(layout, &Candle, dict, &classifier.card.unet)?;
    folder::claim(out, &file_names(demo), replace)?;
    let originals = originals::choose(demo, &atlas, net.as_ref())?;
    progress("originals", originals.len(), demo.originals);
    let networks = counterfactuals::Networks {
        classifier: net.as_ref(),
        open: open.as_ref(),
        guides: &guides,
    };
    let mut made = Vec::new();
    for kind in Kind::ALL {
        made.push(counterfactuals::make(
            kind,
            demo,
            &atlas,
            &originals,
            &networks,
            &mut *progress,
        )?);
        progress("kinds of counterfactuals", made.len(), Kind::ALL.len());
    }
    let mut manifest = String::from("original,counterfactual,source,target,method\n");
    for (i, original) in originals.iter().enumerate() {
        let from = image_name("original", i);
        save(&out.join(&from), &original.image())?;
        let [source, target] = [original.label, 1 - original.label].map(|label| {
            classifier
                .card
                .labels
                .get(label)
                .cloned()
                .unwrap_or_default()
        });
        for (kind, images) in Kind::ALL.iter().zip(&made) {
            let to = image_name(kind.folder(), i);
            save(&out.join(&to), &images[i])?;
            manifest.push_str(&format!("{from},{to},{source},{target},{}\n", kind.name()));
        }
    }
    write(&out.join(MANIFEST), manifest.as_bytes())?;

    let mut pairing = read_manifest(&out.join(MANIFEST))?;
    score::order(&mut pairing);
    let inputs = Inputs {
        pairing,
        labels: Labels::new(classifier.card.labels.clone()),
        classifier: Some(classifier.judge()),
        oracles,
        source: None,
        target: None,
        reference: None,
    };
    let settings = Settings {
        seed: demo.seed,
        ..Settings::default()
    };
    let journal = tempfile::tempdir().map_err(|e| DemoError::Write {
        path: "temporary folder".into(),
        reason: e.to_string(),
    })?;
    let place = Place {
        journal: journal.path(),
        resume: false,
        maps: None,
    };
    let outcome = score::score(&Cpu, registry, inputs, &settings, place, progress)?;
    let sheet = sheet(&atlas, &originals, &made, &outcome);
    save(&out.join(SHEET), &sheet)?;
    let rows = crate::report::csv::pairs(&outcome.pairs, &outcome.oracles, outcome.lpips_layers)?;
    write(&out.join("pairs.csv"), &rows)?;
    let scores = crate::report::json::scores(&outcome.scores);
    write(&out.join("scores.json"), scores.as_bytes())?;
    Ok(outcome)
}

/// Everything a demonstration writes, besides the list of it.
fn file_names(demo: &Demo) -> Vec<String> {
    let folders = ["original"]
        .into_iter()
        .chain(Kind::ALL.iter().map(|k| k.folder()));
    let images = folders.flat_map(|f| (0..demo.originals).map(move |i| image_name(f, i)));
    let tables = [MANIFEST, "pairs.csv", "scores.json", SHEET].map(str::to_owned);
    images.chain(tables).collect()
}

fn image_name(folder: &str, index: usize) -> String {
    format!("images/{folder}/{index:03}.png")
}

fn save(path: &Path, image: &RgbImage) -> Result<(), DemoError> {
    image.save(path).map_err(|e| DemoError::Write {
        path: path.display().to_string(),
        reason: e.to_string(),
    })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), DemoError> {
    std::fs::write(path, bytes).map_err(|e| DemoError::Write {
        path: path.display().to_string(),
        reason: e.to_string(),
    })
}

/// The first triples of each kind with their verdicts.
fn sheet(
    atlas: &Atlas,
    originals: &[Original],
    made: &[Vec<RgbImage>],
    outcome: &Outcome,
) -> RgbImage {
    let firsts: Vec<RgbImage> = originals.iter().take(SHOWN).map(Original::image).collect();
    let verdict = |kind: Kind, index: usize| {
        let name = image_name(kind.folder(), index);
        let row = outcome
            .pairs
            .iter()
            .find(|row| Path::new(&row.counterfactual).ends_with(&name));
        row.and_then(|row| row.verdict.clone()).unwrap_or_default()
    };
    let sections: Vec<Section<'_>> = Kind::ALL
        .iter()
        .zip(made)
        .map(|(&kind, images)| Section {
            title: kind.name().to_owned(),
            triples: firsts
                .iter()
                .zip(images)
                .enumerate()
                .map(|(index, (original, counterfactual))| {
                    let caption = verdict(kind, index);
                    let colour = match caption.as_str() {
                        "counterfactual" => [25, 120, 65],
                        "adversarial" => [185, 40, 40],
                        _ => [120, 120, 125],
                    };
                    Triple {
                        original,
                        counterfactual,
                        caption,
                        colour,
                    }
                })
                .collect(),
        })
        .collect();
    contact_sheet::draw(atlas, &sections, COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_results_stay_if_a_network_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let demo = Demo {
            originals: 2,
            seed: 0,
        };
        folder::claim(root.path(), &file_names(&demo), false).unwrap();
        let scores = root.path().join("scores.json");
        std::fs::write(&scores, "earlier").unwrap();
        let oracle = ORACLES[ORACLES.len() - 1];
        for name in [CLASSIFIER, oracle] {
            let registry = Registry::open().unwrap().without(name);
            let failed = run(&demo, &registry, root.path(), true, &mut |_, _, _| {});
            assert!(matches!(failed, Err(DemoError::Weights(_))));
            assert_eq!(std::fs::read(&scores).unwrap(), b"earlier");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_with_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("nowhere/scores.json");
        let error = write(&path, b"x").unwrap_err().to_string();
        assert!(
            error.contains("scores.json") && error.contains("permissions"),
            "{error}"
        );
    }
}
