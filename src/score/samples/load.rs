//! From what the user names to samples and networks.

use std::collections::BTreeMap;

use super::evaluate::BATCH;
use super::files::File;
use super::networks::{Autoencoders, LabelModel, class_autoencoders};
use super::{Pixels, Samples, SamplesError};
use crate::nets;
use crate::score::Protocol;
use crate::score::retry::in_batches;
use crate::tensor::{Backend, StateDict};
use crate::weights::{Card, Preprocessing, Registry, Role, formats};

/// Files of arrays, `FILE` or `FILE::NAME`. Classes that are not given come from the counterfactuals' file, or from a classifier.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    pub originals: String,
    pub counterfactuals: String,
    pub original_predictions: Option<String>,
    pub targets: Option<String>,
    pub predictions: Option<String>,
}

/// Samples whose predictions may be lacking.
pub struct Parts {
    pub originals: Pixels,
    pub counterfactuals: Pixels,
    pub original_prediction: Option<Vec<i64>>,
    pub target: Vec<i64>,
    pub prediction: Option<Vec<i64>>,
}

const IMAGES: [&str; 6] = ["images", "x", "x_test", "real", "originals", "cfs"];
const COUNTERFACTUALS: [&str; 4] = ["cfs", "counterfactuals", "x_cf", "images"];
const ORIGINAL: [&str; 2] = ["orig_pred", "original_prediction"];
const TARGET: [&str; 4] = ["q", "target", "targets", "target_class"];
const PREDICTION: [&str; 3] = ["cf_pred", "prediction", "counterfactual_prediction"];

/// Predictions and targets of images in a file each.
pub struct Classes {
    pub original_prediction: Option<Vec<i64>>,
    pub target: Option<Vec<i64>>,
    pub prediction: Option<Vec<i64>>,
}

/// Reads the classes that files hold, in the order of the images.
pub fn classes(
    original_predictions: Option<&str>,
    targets: Option<&str>,
    predictions: Option<&str>,
) -> Result<Classes, SamplesError> {
    let read = |option: &str, file: Option<&str>, usual: &[&str]| {
        let found = file.map(|file| File::open(option, file)?.classes(usual));
        found.transpose()
    };
    Ok(Classes {
        original_prediction: read("--original-predictions", original_predictions, &ORIGINAL)?,
        target: read("--targets", targets, &TARGET)?,
        prediction: read("--predictions", predictions, &PREDICTION)?,
    })
}

/// Reads arrays.
pub fn arrays(given: &Arrays) -> Result<Parts, SamplesError> {
    let originals = File::open("--originals", &given.originals)?;
    let counterfactuals = File::open("--counterfactuals", &given.counterfactuals)?;
    let classes = |option: &str, own: &Option<String>, usual: &[&str]| match own {
        Some(own) => File::open(option, own)?.classes(usual).map(Some),
        None => counterfactuals.beside(usual),
    };
    let target = classes("--targets", &given.targets, &TARGET)?.ok_or_else(|| {
        SamplesError::input(
            "--targets",
            "the target class of each sample",
            format!(
                "neither this option nor an array `{}` in the file of counterfactuals",
                TARGET[0]
            ),
            "give --targets FILE",
        )
    })?;
    let mut originals = originals.pixels(&IMAGES)?;
    let mut counterfactuals_of = counterfactuals.pixels(&COUNTERFACTUALS)?;
    match [originals.eight_bit, counterfactuals_of.eight_bit] {
        [true, false] => counterfactuals_of = counterfactuals_of.as_eight_bit(),
        [false, true] => originals = originals.as_eight_bit(),
        _ => {}
    }
    Ok(Parts {
        original_prediction: classes(
            "--original-predictions",
            &given.original_predictions,
            &ORIGINAL,
        )?,
        prediction: classes("--predictions", &given.predictions, &PREDICTION)?,
        target,
        originals,
        counterfactuals: counterfactuals_of,
    })
}

impl Parts {
    /// True if a classifier has to be asked.
    pub fn lacks_predictions(&self) -> bool {
        self.original_prediction.is_none() || self.prediction.is_none()
    }

    /// Refuses values that do not say themselves which of them are black and white; those of 8-bit pixels are 0 and 255.
    pub fn need_range(&self) -> Result<(), SamplesError> {
        if self.originals.eight_bit && self.counterfactuals.eight_bit {
            return Ok(());
        }
        let [[o_least, o_most], [c_least, c_most]] =
            [&self.originals, &self.counterfactuals].map(Pixels::extremes);
        Err(SamplesError::input(
            "--range",
            "the values LO,HI of black and white, by which networks see arrays that are not 8-bit pixels",
            format!(
                "nothing; the originals hold values from {o_least} to {o_most}, the counterfactuals from {c_least} to {c_most}"
            ),
            "give the range that the networks were trained on, such as --range -0.5,0.5; IM1, IM2 and what a classifier or an oracle sees depend on it",
        ))
    }

    /// Fills in predictions that are lacking by asking a classifier.
    pub fn complete<B: Backend>(
        self,
        backend: &B,
        classifier: Option<&LabelModel<B>>,
        range: [f64; 2],
        protocol: Protocol,
    ) -> Result<Samples, SamplesError> {
        let ask = |what: &str, option: &str, pixels: &Pixels| -> Result<Vec<i64>, SamplesError> {
            let Some(classifier) = classifier else {
                return Err(SamplesError::input(
                    what,
                    "what the explained classifier predicts",
                    "neither predictions nor a classifier",
                    format!("give {option} FILE, or --classifier CARD"),
                ));
            };
            predictions(backend, classifier, what, pixels, range, protocol)
        };
        let original_prediction = match self.original_prediction {
            Some(found) => found,
            None => ask(
                "predictions on the originals",
                "--original-predictions",
                &self.originals,
            )?,
        };
        let prediction = match self.prediction {
            Some(found) => found,
            None => ask(
                "predictions on the counterfactuals",
                "--predictions",
                &self.counterfactuals,
            )?,
        };
        let samples = Samples {
            originals: self.originals,
            counterfactuals: self.counterfactuals,
            original_prediction,
            target: self.target,
            prediction,
        };
        if let Some(classifier) = classifier.filter(|_| !samples.originals.is_empty()) {
            let scale = samples.originals.scale("originals", range, protocol)?;
            let said = classifier.look_at(backend, &samples.originals, &[0], scale, range)?;
            let who = format!("the classifier {}", classifier.name);
            samples.check_classes(&who, said.classes())?;
        }
        Ok(samples)
    }
}

fn predictions<B: Backend>(
    backend: &B,
    classifier: &LabelModel<B>,
    what: &str,
    pixels: &Pixels,
    range: [f64; 2],
    protocol: Protocol,
) -> Result<Vec<i64>, SamplesError> {
    let scale = pixels.scale(what, range, protocol)?;
    let all: Vec<usize> = (0..pixels.len()).collect();
    in_batches(&all, BATCH, |batch| {
        let said = classifier.look_at(backend, pixels, batch, scale, range)?;
        let class = |(at, &sample): (usize, &usize)| {
            let row = said.logits.row(at);
            if let Some(value) = row.iter().find(|v| !v.is_finite()) {
                return Err(SamplesError::NotFinite {
                    network: classifier.name.clone(),
                    sample,
                    value: *value,
                });
            }
            let class = match row.len() {
                1 => usize::from(row[0] > 0.0),
                n => (1..n).fold(0, |best, k| if row[k] > row[best] { k } else { best }),
            };
            Ok(class as i64)
        };
        batch.iter().enumerate().map(class).collect()
    })
}

/// A classifier, an oracle or a label model by its card.
pub fn label_model<B: Backend + 'static>(
    backend: &B,
    registry: &Registry,
    option: &str,
    name: Option<&str>,
    card: &str,
) -> Result<(LabelModel<B>, Card), SamplesError> {
    let card = registry.card(card)?;
    if card.role != Role::Classifier {
        return Err(SamplesError::input(
            format!("{option} {}", card.name),
            "a classifier",
            format!("a card of the role {}", card.role.name()),
            "give the card of a classifier",
        ));
    }
    let loaded = registry.load(&card)?;
    let name = name.unwrap_or(&card.name).to_owned();
    let net = nets::build(card.architecture, backend, &loaded.dict, &card.unet);
    let model = LabelModel {
        net: net.map_err(|source| SamplesError::Net {
            network: name.clone(),
            source,
        })?,
        name,
        preprocessing: Some(card.preprocessing.clone()),
        architecture: card.architecture.name().into(),
        sha256: loaded.sha256,
    };
    Ok((model, card))
}

/// The range of values that a card's preprocessing makes of pixels 0..255.
pub fn card_range(p: &Preprocessing) -> [f64; 2] {
    let at = |v: f32| f64::from((v * p.scale - p.mean[0]) / p.std[0]);
    [at(0.0), at(255.0)]
}

/// Auto-encoders from one file and from cards (`CLASS=CARD`), for values of `range`.
pub fn autoencoders<B: Backend>(
    backend: &B,
    registry: &Registry,
    file: Option<&str>,
    cards: &[(String, String)],
    range: [f64; 2],
) -> Result<Option<Autoencoders<B>>, SamplesError> {
    if file.is_none() && cards.is_empty() {
        return Ok(None);
    }
    let mut dicts: BTreeMap<String, StateDict> = BTreeMap::new();
    let mut hashes = Vec::new();
    if let Some(file) = file {
        let place = format!("--autoencoders {file}");
        let wrong = |found: String| {
            SamplesError::input(
                &place,
                "a weights file of auto-encoders",
                found,
                "check the path",
            )
        };
        let bytes = std::fs::read(file).map_err(|e| wrong(e.to_string()))?;
        let dict = formats::read_bytes(&bytes, file).map_err(|e| wrong(e.to_string()))?;
        dict.check_finite().map_err(|e| wrong(e.to_string()))?;
        dicts = class_autoencoders(&place, &dict)?;
        hashes.push(crate::weights::sha256(&bytes));
    }
    for (class, name) in cards {
        let card = registry.card(name)?;
        let place = format!("--autoencoder {class}={name}");
        if card.role != Role::Autoencoder {
            return Err(SamplesError::input(
                place,
                "an auto-encoder",
                format!("a card of the role {}", card.role.name()),
                "give the card of an auto-encoder",
            ));
        }
        let own = card_range(&card.preprocessing);
        let differs = (0..2).any(|k| (own[k] - range[k]).abs() > 1e-3);
        if differs {
            return Err(SamplesError::input(
                place,
                format!(
                    "an auto-encoder of values from {} to {}, the --range of this run",
                    range[0], range[1]
                ),
                format!("one of values from {} to {}", own[0], own[1]),
                "IM1 and IM2 depend on the normalisation (section 4.2 of the paper): give the --range of the auto-encoders",
            ));
        }
        let loaded = registry.load(&card)?;
        hashes.push(format!("{class}:{}", loaded.sha256));
        if dicts.insert(class.clone(), loaded.dict).is_some() {
            return Err(SamplesError::input(
                place,
                "one network for each class",
                "a second one",
                "leave one out",
            ));
        }
    }
    let sha256 = match &hashes[..] {
        [one] if file.is_some() => one.clone(),
        all => crate::weights::sha256(all.join("\n").as_bytes()),
    };
    Autoencoders::new(backend, &dicts, sha256).map(Some)
}
