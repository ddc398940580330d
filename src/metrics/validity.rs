//! Validity of counterfactuals: what the explained classifier and independent oracles say (\[diffusion-vce\] section 3).
//!
//! target accuracy TA = share predicted as target y_t; original accuracy OA = share still predicted as the original label;
//! oracle score OS = (1/|X|) Σ 1[f(c(x)) = f_o(c(x))]; oracle target accuracy OTA = (1/|X|) Σ 1[f_o(c(x)) = y_t].
//! Predictions are the argmax of the logits, lowest index on ties. Confidences are softmax probabilities in `f64`.
//! The study's logged mean oracle score counts the classifier itself as an oracle that always agrees.

use rayon::prelude::*;
use serde::Serialize;

use crate::stats::interval::{Fraction, MeanInterval, mean_interval};

use super::committee::{CommitteeValidity, CountedCommittee, count_committee, judge_committee};
use super::error::{MetricError, Result};
use super::inception_score::{highest, log_sum_exp};
use super::matrix::Matrix;

/// What became of one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Classifier and committee (plurality) say target.
    Counterfactual,
    /// Classifier says target, the committee does not.
    Adversarial,
    /// Classifier says target, and there is no oracle to ask.
    Flipped,
    /// Classifier still says the original label.
    Unflipped,
    /// Classifier says a third class.
    Other,
}

/// Logits of the counterfactuals and what they should be.
#[derive(Debug, Clone, Copy)]
pub struct Judgement<'a> {
    /// Logits [n, classes] of the explained classifier.
    pub classifier: Matrix<'a>,
    /// Logits [n, classes] of each oracle.
    pub oracles: &'a [Matrix<'a>],
    /// Original label of each image.
    pub labels: &'a [i64],
    /// Target label of each image.
    pub targets: &'a [i64],
}

/// One oracle's word.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OracleValidity {
    pub predictions: Vec<usize>,
    pub oracle_score: Fraction,
    pub oracle_target_accuracy: Fraction,
}

/// Everything about the validity of a set of counterfactuals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validity {
    pub n: usize,
    pub predictions: Vec<usize>,
    pub target_accuracy: Fraction,
    pub original_accuracy: Fraction,
    pub neither: Fraction,
    pub target_confidence: MeanInterval,
    pub original_confidence: MeanInterval,
    pub target_confidences: Vec<f64>,
    pub original_confidences: Vec<f64>,
    pub oracles: Vec<OracleValidity>,
    pub mean_oracle_score: Option<f64>,
    /// As the study logs it: the classifier counted as an oracle with score 1.
    pub mean_oracle_score_published: Option<f64>,
    pub committee: Option<CommitteeValidity>,
    pub verdicts: Vec<Verdict>,
}

/// Class of the highest logit in each row, lowest index on ties; a NaN or infinity is an error that names its place.
pub fn predictions(what: &str, logits: Matrix<'_>) -> Result<Vec<usize>> {
    logits.check_finite(what)?;
    Ok((0..logits.rows()).map(|i| argmax(logits.row(i))).collect())
}

pub(crate) fn argmax<T: PartialOrd + Copy>(row: &[T]) -> usize {
    let mut best = 0;
    for (class, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = class;
        }
    }
    best
}

/// Softmax of one row in `f64`.
pub fn softmax(logits: &[f32]) -> Vec<f64> {
    let max = highest(logits);
    let mut shares: Vec<f64> = logits.iter().map(|&v| (f64::from(v) - max).exp()).collect();
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
    shares
}

/// What judges name, and how often that agrees.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    /// The class each judge names, the classifier first.
    pub classes: Vec<Vec<usize>>,
    /// Of each judge: images on which it agrees with the classifier, and names the target.
    pub agreement: Vec<[usize; 2]>,
    /// Images whose classifier names the label, and neither.
    pub original: usize,
    pub neither: usize,
    pub committee: Option<CountedCommittee>,
}

/// Labels and targets of a judgement as classes of the classifier; sizes are checked.
pub(crate) struct Wanted {
    pub labels: Vec<usize>,
    pub targets: Vec<usize>,
}

impl Wanted {
    pub(crate) fn of(judgement: &Judgement<'_>) -> Result<Self> {
        let classifier = judgement.classifier;
        let (n, classes) = (classifier.rows(), classifier.cols());
        classifier.check_rows("validity", "counterfactuals", 1)?;
        let labels = class_indices("original labels", judgement.labels, n, classes)?;
        let targets = class_indices("target labels", judgement.targets, n, classes)?;
        for (k, oracle) in judgement.oracles.iter().enumerate() {
            if oracle.rows() != n {
                return Err(MetricError::shape(
                    format!("logits of oracle {k}"),
                    format!("{n} rows, as the classifier has"),
                    format!("{} rows", oracle.rows()),
                ));
            }
        }
        Ok(Self { labels, targets })
    }
}

/// Judges a set of counterfactuals.
pub fn validity(judgement: Judgement<'_>) -> Result<Validity> {
    let wanted = Wanted::of(&judgement)?;
    let counted = counted(&judgement, &wanted)?;
    judged(&judgement, &wanted, counted)
}

/// Names of judges for their errors, with their logits, the classifier first.
pub(crate) fn judges<'a>(judgement: &Judgement<'a>) -> Vec<(String, Matrix<'a>)> {
    let classifier = ("logits of the classifier".to_owned(), judgement.classifier);
    let oracles = judgement.oracles.iter().enumerate();
    let oracles = oracles.map(|(k, &logits)| (format!("logits of oracle {k}"), logits));
    std::iter::once(classifier).chain(oracles).collect()
}

fn counted(judgement: &Judgement<'_>, wanted: &Wanted) -> Result<Counted> {
    let Wanted { labels, targets } = wanted;
    let classes = judges(judgement)
        .iter()
        .map(|(what, logits)| predictions(what, *logits))
        .collect::<Result<Vec<_>>>()?;
    let of = |holds: &dyn Fn(usize) -> bool| (0..labels.len()).filter(|&i| holds(i)).count();
    let predicted = &classes[0];
    Ok(Counted {
        agreement: classes
            .iter()
            .map(|c| [of(&|i| c[i] == predicted[i]), of(&|i| c[i] == targets[i])])
            .collect(),
        original: of(&|i| predicted[i] == labels[i]),
        neither: of(&|i| predicted[i] != targets[i] && predicted[i] != labels[i]),
        committee: match judgement.oracles.is_empty() {
            true => None,
            false => Some(count_committee(
                judgement.oracles,
                &classes,
                labels,
                targets,
            )?),
        },
        classes,
    })
}

/// Everything else, once the judges' classes are known.
pub(crate) fn judged(
    judgement: &Judgement<'_>,
    wanted: &Wanted,
    counted: Counted,
) -> Result<Validity> {
    let Wanted { labels, targets } = wanted;
    let (classifier, n) = (judgement.classifier, labels.len());
    let confidences = |i: usize| {
        let row = classifier.row(i);
        let shift = log_sum_exp(row);
        let confidence = |class: usize| (f64::from(row[class]) - shift).exp();
        (confidence(targets[i]), confidence(labels[i]))
    };
    let (target_confidences, original_confidences): (Vec<f64>, Vec<f64>) =
        (0..n).into_par_iter().map(confidences).unzip();
    let no_images = || MetricError::TooFew {
        metric: "validity",
        what: "counterfactuals".to_owned(),
        needed: 1,
        found: n,
    };
    let mut classes = counted.classes.into_iter();
    let predicted = classes.next().ok_or_else(no_images)?;
    let target_accuracy = Fraction::new(counted.agreement[0][1], n);
    let oracles: Vec<OracleValidity> = classes
        .zip(&counted.agreement[1..])
        .map(|(predictions, [classifier, target])| OracleValidity {
            predictions,
            oracle_score: Fraction::new(*classifier, n),
            oracle_target_accuracy: Fraction::new(*target, n),
        })
        .collect();
    let scores: Vec<f64> = oracles.iter().map(|o| o.oracle_score.value).collect();
    let sum: f64 = scores.iter().sum();
    let committee = counted
        .committee
        .map(|counted| judge_committee(judgement.oracles, &oracles, targets, counted));
    let verdicts = (0..n)
        .map(|i| {
            let committee = committee.as_ref().map(|c| c.ballots[i].plurality);
            verdict(predicted[i], committee, labels[i], targets[i])
        })
        .collect();
    Ok(Validity {
        n,
        target_accuracy,
        original_accuracy: Fraction::new(counted.original, n),
        neither: Fraction::new(counted.neither, n),
        target_confidence: mean_interval(&target_confidences).ok_or_else(no_images)?,
        original_confidence: mean_interval(&original_confidences).ok_or_else(no_images)?,
        target_confidences,
        original_confidences,
        mean_oracle_score: (!scores.is_empty()).then(|| sum / scores.len() as f64),
        mean_oracle_score_published: (!scores.is_empty())
            .then(|| (sum + 1.0) / (scores.len() + 1) as f64),
        oracles,
        committee,
        verdicts,
        predictions: predicted,
    })
}

/// The verdict on one pair; `committee` is the plurality class. A target equal to the label counts as reached when predicted.
pub fn verdict(predicted: usize, committee: Option<usize>, label: usize, target: usize) -> Verdict {
    if predicted == target {
        return match committee {
            None => Verdict::Flipped,
            Some(class) if class == target => Verdict::Counterfactual,
            Some(_) => Verdict::Adversarial,
        };
    }
    if predicted == label {
        Verdict::Unflipped
    } else {
        Verdict::Other
    }
}

fn class_indices(what: &str, given: &[i64], n: usize, classes: usize) -> Result<Vec<usize>> {
    if given.len() != n {
        return Err(MetricError::shape(
            what,
            format!("{n} labels, one per counterfactual"),
            format!("{} labels", given.len()),
        ));
    }
    given
        .iter()
        .enumerate()
        .map(|(row, &label)| {
            usize::try_from(label)
                .ok()
                .filter(|&class| class < classes)
                .ok_or_else(|| MetricError::LabelOutOfRange {
                    what: what.to_owned(),
                    row,
                    label,
                    classes,
                })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(data: &[f32], cols: usize) -> Matrix<'_> {
        Matrix::new("test", data.len() / cols, cols, data).unwrap()
    }

    #[test]
    fn verdicts_follow_classifier_and_committee() {
        use Verdict::*;
        assert_eq!(verdict(1, Some(1), 0, 1), Counterfactual);
        assert_eq!(verdict(1, Some(0), 0, 1), Adversarial);
        assert_eq!(verdict(1, None, 0, 1), Flipped);
        assert_eq!(verdict(0, Some(1), 0, 1), Unflipped);
        assert_eq!(verdict(2, Some(1), 0, 1), Other);
        assert_eq!(verdict(1, Some(1), 1, 1), Counterfactual);
    }

    #[test]
    fn without_oracles_there_is_no_committee_and_one_image_has_no_spread() {
        let logits = [0.0, 1.0, 0.5];
        let got = validity(Judgement {
            classifier: matrix(&logits, 3),
            oracles: &[],
            labels: &[0],
            targets: &[1],
        })
        .unwrap();
        assert_eq!(got.verdicts, [Verdict::Flipped]);
        assert_eq!(got.target_accuracy.value, 1.0);
        assert_eq!(got.target_confidence.std_sample, None);
        assert!(got.committee.is_none() && got.mean_oracle_score.is_none());
    }

    #[test]
    fn mean_probability_can_overrule_the_plurality() {
        let classifier = [0.0, 1.0];
        let (sure, unsure) = ([0.0, 9.0], [0.1, 0.0]);
        let oracles = [matrix(&sure, 2), matrix(&unsure, 2), matrix(&unsure, 2)];
        let got = validity(Judgement {
            classifier: matrix(&classifier, 2),
            oracles: &oracles,
            labels: &[0],
            targets: &[1],
        })
        .unwrap();
        let committee = got.committee.unwrap();
        assert_eq!(committee.ballots[0].plurality, 0);
        assert_eq!(committee.mean_probability_predictions, Some(vec![1]));
        assert_eq!(got.verdicts, [Verdict::Adversarial]);
    }

    #[test]
    fn bad_logits_and_labels_are_errors_that_name_the_row() {
        let logits = [0.0, 1.0, 0.0, 1.0];
        let judge = |logits: &[f32], labels: &[i64]| {
            validity(Judgement {
                classifier: matrix(logits, 2),
                oracles: &[],
                labels,
                targets: &[1, 1],
            })
            .map_err(|e| e.to_string())
        };
        let error = judge(&logits, &[0, 2]).unwrap_err();
        assert!(error.contains("class 2 at row 1"), "{error}");
        let error = judge(&logits, &[0, -1]).unwrap_err();
        assert!(error.contains("class -1 at row 1"), "{error}");
        assert!(judge(&logits, &[0]).is_err());
        let error = judge(&[0.0, 1.0, f32::INFINITY, 1.0], &[0, 0]).unwrap_err();
        assert!(error.contains("row 1, column 0"), "{error}");
    }

    #[test]
    fn oracles_with_fewer_classes_never_vote_for_a_class_they_lack() {
        let classifier = [0.0, 0.0, 0.0, 5.0];
        let narrow = [1.0, 0.0];
        let got = validity(Judgement {
            classifier: matrix(&classifier, 4),
            oracles: &[matrix(&narrow, 2)],
            labels: &[0],
            targets: &[3],
        })
        .unwrap();
        assert_eq!(got.verdicts, [Verdict::Adversarial]);
    }
}
