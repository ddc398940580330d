//! The study on counterfactuals that it makes itself: fresh glyphs, the methods GB, GL and GEN, and their scores.
//!
//! The data are glyphs whose label is a dot, the idea of FakeMNIST: what a counterfactual must change is known, and so is what
//! it must not. Scores follow the protocol of the configuration: a failed counterfactual (prediction −1, a black image) counts in TCV and
//! in nothing else. What a method made, and its scores, are written before the next method begins.

mod config;
mod error;
mod judges;

use std::path::Path;
use std::time::Instant;

pub use config::{Config, SHIPPED};
pub use error::MadeError;

use super::{GridColumn, MethodScores, counterfactual_grid, label_variation_svg, table};
use crate::explain::pixel::{Explainer, Method};
use crate::folder::write_whole;
use crate::glyphs::dataset;
use crate::glyphs::{Atlas, Drawing, World};
use crate::images::Image;
use crate::metrics::validity::argmax;
use crate::report::study_tables::{Document, text};
use crate::score::samples::{Pixels, Samples};
use crate::stats::random::{Draws, Stream};
use crate::tensor::{Array, StateDict, WithGradients};
use crate::train::{Precision, write_weights};
use crate::weights::Registry;
use judges::Judges;

type Result<T> = std::result::Result<T, MadeError>;

/// Files of the result.
pub const TABLES: &str = "tables.txt";
pub const SCORES: &str = "scores.json";
pub const GRID: &str = "counterfactuals.png";
pub const BARS: &str = "lvs.svg";
/// Of each method, in a folder of its name: originals and counterfactuals as `foil score` reads them.
pub const MADE: &str = "counterfactuals.safetensors";

/// Images of a study: grey, with their two labels.
pub struct Originals {
    pub images: Vec<Image>,
    pub labels: Vec<usize>,
}

impl Originals {
    /// All pixels, one channel.
    fn grey(&self) -> Vec<u8> {
        let of = |image: &Image| {
            image
                .pixels
                .chunks_exact(3)
                .map(|p| p[0])
                .collect::<Vec<_>>()
        };
        self.images.iter().flat_map(of).collect()
    }

    /// Images `first..first + n` of the world of a configuration.
    fn draw(config: &Config, atlas: &Atlas, first: usize, n: usize) -> Result<Self> {
        let world = World::new(config.model(), config.seed, atlas)?;
        let drawing = Drawing {
            size: config.size,
            pixel_noise: 0.0,
        };
        let mut all = Self {
            images: Vec::with_capacity(n),
            labels: Vec::with_capacity(n),
        };
        for index in first..first + n {
            let drawn = dataset::image(atlas, &world, &drawing, index as u64);
            let (example, grey) = drawn.ok_or_else(|| MadeError::Config {
                what: "its typefaces are not those of the program".into(),
            })?;
            all.labels.push(usize::from(example.label));
            all.images.push(Image {
                width: config.size,
                height: config.size,
                pixels: grey.iter().flat_map(|&v| [v; 3]).collect(),
            });
        }
        Ok(all)
    }
}

/// Counterfactuals of one method.
pub struct Counterfactuals {
    pub method: String,
    pub samples: Samples,
    pub seconds: f64,
}

/// A study that was run.
pub struct Done {
    pub text: String,
    pub scores: Vec<MethodScores>,
}

/// Runs a study and writes tables, scores and figures into `out`. `note` hears what is being done.
pub fn run(
    config: &Config,
    registry: &Registry,
    device: &WithGradients,
    out: &Path,
    note: &mut dyn FnMut(&str),
) -> Result<Done> {
    config.check()?;
    let started = Instant::now();
    let atlas = Atlas::embedded()?;
    let judges = Judges::open(registry, config)?;
    let originals = Originals::draw(config, &atlas, 0, config.images)?;
    let mut all = Vec::new();
    let mut scores = Vec::new();
    let mut lines = Vec::new();
    for method in config.methods() {
        note(&format!("{}: {} images", method.name(), config.images));
        let made = make(config, registry, device, &atlas, &method, &originals)?;
        let files = files(&made, &originals, config)?;
        let folder = out.join(&made.method);
        std::fs::create_dir_all(&folder).map_err(|error| MadeError::File {
            path: folder.display().to_string(),
            what: format!("cannot make this folder: {error}"),
        })?;
        write_weights(&folder.join(MADE), &files, Precision::Single)?;
        let found = judges.score(&made)?;
        let text = crate::report::json::scores(&found);
        write_whole(&folder.join(SCORES), text.as_bytes())?;
        scores.extend(MethodScores::of("this study", &found));
        lines.push(line(&made, &originals));
        all.push(made);
    }
    let title = "glyphs whose label is a dot in the first column";
    let mut notes = lines;
    notes.push(format!("{:.1} s in all", started.elapsed().as_secs_f64()));
    let document = Document {
        tables: vec![table(
            3,
            title,
            &scores,
            Some(EXPLAINED).filter(|label| config.labels.contains_key(*label)),
        )?],
        digits: 4,
        notes,
    };
    let printed = text::render(&document);
    write_whole(&out.join(TABLES), printed.as_bytes())?;
    write_whole(&out.join(SCORES), json(config, &scores, &all).as_bytes())?;
    let originals = Pixels::grey(config.size, config.size, &originals.grey());
    let range = config.range.map(f64::from);
    let of = |name, pixels| GridColumn {
        name,
        pixels,
        range,
    };
    let columns: Vec<GridColumn<'_>> = [of("original", &originals)]
        .into_iter()
        .chain(
            all.iter()
                .map(|made| of(&made.method, &made.samples.counterfactuals)),
        )
        .collect();
    let shown: Vec<usize> = (0..config.images.min(SHOWN)).collect();
    let grid = counterfactual_grid(&columns, &shown)?;
    write_whole(&out.join(GRID), &grid)?;
    if let Some(bars) = label_variation_svg(title, &scores) {
        write_whole(&out.join(BARS), bars.as_bytes())?;
    }
    Ok(Done {
        text: printed,
        scores,
    })
}

/// Originals, counterfactuals and classes of a method under the names that `foil score` looks for.
fn files(made: &Counterfactuals, originals: &Originals, config: &Config) -> Result<StateDict> {
    let samples = &made.samples;
    let (n, side) = (samples.target.len(), config.size);
    let images = |values: Vec<f32>| Array::new([n, 1, side, side], values);
    let classes = |of: &[i64]| Array::new([n], of.iter().map(|&c| c as f32).collect());
    let grey = originals.grey().into_iter().map(f32::from).collect();
    let mut dict = StateDict::new();
    dict.insert("originals", images(grey)?);
    dict.insert("cfs", images(samples.counterfactuals.values.clone())?);
    dict.insert("orig_pred", classes(&samples.original_prediction)?);
    dict.insert("q", classes(&samples.target)?);
    dict.insert("cf_pred", classes(&samples.prediction)?);
    Ok(dict)
}

/// The label that the explained networks learnt.
const EXPLAINED: &str = "dot";

/// Originals in the grid.
const SHOWN: usize = 8;

/// What became of a method's originals, in words.
fn line(made: &Counterfactuals, originals: &Originals) -> String {
    let samples = &made.samples;
    let found = samples
        .prediction
        .iter()
        .filter(|&&class| class >= 0)
        .count();
    let right = originals.labels.iter().zip(&samples.original_prediction);
    let right = right.filter(|(label, class)| **label as i64 == **class);
    let mut said = format!(
        "{}: found {found} of {} in {:.1} s; the explained network is right about {} originals",
        made.method,
        samples.prediction.len(),
        made.seconds,
        right.count()
    );
    let diverged = diverged(samples);
    if diverged > 0 {
        said.push_str(&format!(
            "; {diverged} of those found are noise: the search diverged (docs/quantitative.md)"
        ));
    }
    said
}

/// Found counterfactuals whose change is more than a quarter of the largest one that there is: no digit and no letter
/// covers so much of its image.
fn diverged(samples: &Samples) -> usize {
    let size = samples.originals.size();
    let far = |i: &usize| {
        let pairs = samples.originals.image(*i).iter();
        let pairs = pairs.zip(samples.counterfactuals.image(*i));
        let change: f32 = pairs.map(|(a, b)| (a - b).abs()).sum();
        change > 0.25 * 255.0 * size as f32
    };
    let found = (0..samples.prediction.len()).filter(|&i| samples.prediction[i] >= 0);
    found.filter(far).count()
}

/// The content of `scores.json`.
fn json(config: &Config, scores: &[MethodScores], all: &[Counterfactuals]) -> String {
    let methods: Vec<serde_json::Value> = { scores.iter().zip(all) }
        .map(|(scores, made)| {
            serde_json::json!({
                "method": scores.method,
                "seconds": made.seconds,
                "scores": scores.scores,
                "fingerprints": scores.fingerprints,
                "original_prediction": made.samples.original_prediction,
                "target": made.samples.target,
                "prediction": made.samples.prediction,
            })
        })
        .collect();
    let all = serde_json::json!({
        "schema": "foil.quantitative/1",
        "foil": env!("CARGO_PKG_VERSION"),
        "config": config,
        "methods": methods,
    });
    serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
}

/// Counterfactuals by a method.
fn make(
    config: &Config,
    registry: &Registry,
    device: &WithGradients,
    atlas: &Atlas,
    method: &Method,
    originals: &Originals,
) -> Result<Counterfactuals> {
    let explained = match method {
        Method::Gen(_) => &config.networks.invertible,
        _ => &config.networks.classifier,
    };
    let autoencoder = Some(config.networks.prototypes.as_str());
    let mut explainer = Explainer::open(registry, method, explained, autoencoder, device)?;
    let format = &explainer.format;
    if format.size != [config.size; 2] {
        let [h, w] = format.size;
        let what = format!("size = {}: {explained} takes {w}x{h} pixels", config.size);
        return Err(MadeError::Config { what });
    }
    if let Method::Gl(_) = method {
        // Other images than the originals.
        let others = Originals::draw(config, atlas, config.images, config.prototype_images)?;
        explainer.learn_prototypes(&explainer.format.values(others.images.iter()))?;
    }
    let format = explainer.format.clone();
    let values = format.values(originals.images.iter());
    let probabilities = explainer.probabilities(&values)?;
    let classes = probabilities.first().map_or(0, Vec::len);
    let targets: Vec<Option<usize>> = { probabilities.iter().enumerate() }
        .map(|(i, row)| match explainer.takes_any_target() {
            true => None,
            false => Some(drawn_target(config.seed, i, argmax(row), classes)),
        })
        .collect();
    let started = Instant::now();
    let outcomes = explainer.explain(&values, &targets)?;
    let seconds = started.elapsed().as_secs_f64();
    let area = config.size * config.size;
    let mut pixels = Vec::with_capacity(outcomes.len() * area);
    let (mut before, mut after, mut target) = (vec![], vec![], vec![]);
    for (outcome, wanted) in outcomes.iter().zip(&targets) {
        before.push(outcome.before as i64);
        match &outcome.found {
            Some(found) => {
                after.push(found.class as i64);
                target.push(wanted.unwrap_or(found.class) as i64);
                pixels.extend(format.pixels(&found.image).chunks_exact(3).map(|p| p[0]));
            }
            None => {
                after.push(-1);
                target.push(-1);
                pixels.extend(vec![0; area]);
            }
        }
    }
    Ok(Counterfactuals {
        method: method.name().to_uppercase(),
        samples: Samples {
            originals: Pixels::grey(config.size, config.size, &originals.grey()),
            counterfactuals: Pixels::grey(config.size, config.size, &pixels),
            original_prediction: before,
            target,
            prediction: after,
        },
        seconds,
    })
}

/// One of the other classes, each as likely.
fn drawn_target(seed: u64, image: usize, own: usize, classes: usize) -> usize {
    let mut draws = Draws::new(seed, Stream::STUDY_TARGETS, image as u64);
    let other = draws.index_below(classes.saturating_sub(1)).unwrap_or(0);
    other + usize::from(other >= own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counterfactuals_that_are_noise_are_counted() {
        let grey = |values: &[u8]| Pixels::grey(2, 2, values);
        let samples = Samples {
            originals: grey(&[0; 12]),
            // A small change, noise, and a failure that is no counterfactual.
            counterfactuals: grey(&[255, 0, 0, 0, 255, 0, 255, 0, 255, 255, 255, 255]),
            original_prediction: vec![0; 3],
            target: vec![1, 1, -1],
            prediction: vec![1, 1, -1],
        };
        assert_eq!(diverged(&samples), 1);
    }

    #[test]
    fn drawn_targets_are_all_other_classes_evenly() {
        let mut counts = [0; 10];
        for image in 0..9000 {
            counts[drawn_target(3, image, 4, 10)] += 1;
        }
        assert_eq!(counts[4], 0);
        // Binomial with standard deviation 30.
        let even = |n: &i32| (850..1150).contains(n);
        assert!(
            counts[..4].iter().chain(&counts[5..]).all(even),
            "{counts:?}"
        );
    }
}
