//! The metrics of \[quantitative-evaluations\] over arrays of samples: original, counterfactual, the prediction on each, and the
//! target class.
//!
//! | score | of a sample |
//! |---|---|
//! | `target_class_validity` | exact: the prediction is the target; published: it changed, to whatever class |
//! | `elastic_net`, `l1`, `l2` | ‖x − c‖₁ + ‖x − c‖₂ in the range |
//! | `im1`, `im2` | see [`crate::metrics::interpretability`] |
//! | `oracle_score/NAME` | exact: the oracle agrees with the prediction; published: with the target |
//! | `oracle_target_accuracy/NAME` | the oracle names the target |
//! | `label_variation/NAME` | Jensen–Shannon divergence of a label model's probabilities on x and c |
//! | `fid` | Fréchet distance of the first oracle's embedding, inputs against counterfactuals |
//!
//! A sample whose method failed (prediction or target −1) has no counterfactual: it counts in the validity only. So does, in the
//! exact protocol, one whose prediction is not the target: "except from TCV, we report scores only on valid counterfactual
//! examples" (the paper; its code keeps them, and a caller may). The published code drops counterfactuals that are entirely black as well; the exact protocol keeps and counts them.

mod aggregate;
mod evaluate;
pub mod files;
pub mod load;
mod networks;
mod pixels;
mod report;

pub use aggregate::{Counts, aggregate, counts};
pub use evaluate::{Run, Terms, check, evaluate};
pub use networks::{Autoencoders, LabelModel, Networks, class_autoencoders};
pub use pixels::{Pixels, Scale};
pub use report::{Titles, fingerprints, notes, pairs_csv, scores};

use super::retry::Shortage;
use super::settings::Protocol;
use crate::metrics::MetricError;
use crate::nets::NetError;
use crate::tensor::TensorError;

/// Why samples cannot be scored.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// An input is at fault: a file or an option.
    #[error("{place}: expected {expected}, found {found}; {advice}")]
    Input {
        place: String,
        expected: String,
        found: String,
        advice: String,
    },
    #[error("{network}: {source}")]
    Net { network: String, source: NetError },
    #[error(
        "{network}: the network gave {value} for sample {sample}; check its weights and preprocessing"
    )]
    NotFinite {
        network: String,
        sample: usize,
        value: f32,
    },
    #[error(transparent)]
    Metric(#[from] MetricError),
    #[error(transparent)]
    Weights(Box<crate::weights::WeightsError>),
}

impl From<crate::weights::WeightsError> for SamplesError {
    fn from(error: crate::weights::WeightsError) -> Self {
        Self::Weights(Box::new(error))
    }
}

impl Shortage for SamplesError {
    fn is_shortage(&self) -> bool {
        let Self::Net { source, .. } = self else {
            return false;
        };
        matches!(source, NetError::Tensor(TensorError::OutOfMemory { .. }))
    }
}

impl SamplesError {
    fn input(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::Input {
            place: place.into(),
            expected: expected.into(),
            found: found.into(),
            advice: advice.into(),
        }
    }
}

/// What is scored, sample by sample. A class of −1 says that the method failed.
#[derive(Clone, Debug)]
pub struct Samples {
    pub originals: Pixels,
    pub counterfactuals: Pixels,
    pub original_prediction: Vec<i64>,
    pub target: Vec<i64>,
    pub prediction: Vec<i64>,
}

impl Samples {
    /// Checks that all parts belong together. `exact` also refuses targets that are the prediction on the original.
    pub fn check(&self, protocol: Protocol, skip_bad: bool) -> Result<(), SamplesError> {
        let [n, c, h, w] = self.originals.shape;
        let other = self.counterfactuals.shape;
        if other != self.originals.shape {
            let named = |[n, c, h, w]: [usize; 4]| format!("{n} images of {c} x {h} x {w}");
            return Err(SamplesError::input(
                "counterfactuals",
                format!("{} as the originals", named([n, c, h, w])),
                named(other),
                "give arrays of the same images in the same order",
            ));
        }
        if n == 0 {
            return Err(SamplesError::input(
                "originals",
                "images",
                "none",
                "give some",
            ));
        }
        for (what, classes) in [
            ("predictions on the originals", &self.original_prediction),
            ("targets", &self.target),
            ("predictions on the counterfactuals", &self.prediction),
        ] {
            if classes.len() != n {
                return Err(SamplesError::input(
                    what,
                    format!("{n} classes, one for each image"),
                    format!("{}", classes.len()),
                    "give one class for each image, in the order of the images",
                ));
            }
            if let Some(i) = classes.iter().position(|&c| c < -1) {
                return Err(SamplesError::input(
                    format!("{what}, sample {i}"),
                    "a class from 0 up, or -1 where the method failed",
                    classes[i].to_string(),
                    "correct it",
                ));
            }
        }
        if let Some(i) = self.original_prediction.iter().position(|&c| c < 0) {
            return Err(SamplesError::input(
                format!("predictions on the originals, sample {i}"),
                "a class: a classifier always predicts one",
                "-1",
                "only counterfactuals can fail",
            ));
        }
        let same = self.same_target();
        if protocol == Protocol::Exact && !skip_bad && !same.is_empty() {
            return Err(SamplesError::input(
                format!("targets, sample {}", same[0]),
                "a target other than the class that the original has already",
                format!(
                    "class {} as both ({} such samples)",
                    self.target[same[0]],
                    same.len()
                ),
                "there is nothing to change in such a sample: correct the targets, leave these samples out and count them with --skip-bad, or follow the published code with --protocol published",
            ));
        }
        Ok(())
    }

    /// Checks that a network knows all classes that samples have; `who` names it.
    pub fn check_classes(&self, who: &str, classes: usize) -> Result<(), SamplesError> {
        let all = [
            ("targets", &self.target),
            ("predictions on the originals", &self.original_prediction),
            ("predictions on the counterfactuals", &self.prediction),
        ];
        let unknown = |c: &i64| usize::try_from(*c).is_ok_and(|c| c >= classes);
        for (what, labels) in all {
            if let Some(i) = labels.iter().position(unknown) {
                return Err(SamplesError::input(
                    format!("{what}, sample {i}"),
                    format!(
                        "a class that {who} knows: 0 to {}",
                        classes.saturating_sub(1)
                    ),
                    labels[i].to_string(),
                    "correct it, or give a network of these classes",
                ));
            }
        }
        Ok(())
    }

    /// Samples whose target is the prediction on the original.
    pub fn same_target(&self) -> Vec<usize> {
        let both = self.target.iter().zip(&self.original_prediction);
        let same = both.enumerate().filter(|(_, (t, p))| t == p);
        same.map(|(i, _)| i).collect()
    }

    /// True if the method made no counterfactual.
    pub fn failed(&self, i: usize) -> bool {
        self.prediction[i] < 0 || self.target[i] < 0
    }

    /// The first `n` samples.
    pub fn first(&self, n: usize) -> Self {
        let n = n.min(self.target.len());
        Self {
            originals: self.originals.first(n),
            counterfactuals: self.counterfactuals.first(n),
            original_prediction: self.original_prediction[..n].to_vec(),
            target: self.target[..n].to_vec(),
            prediction: self.prediction[..n].to_vec(),
        }
    }
}
