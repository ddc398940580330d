//! What a committee of oracles says about a set of counterfactuals, under every way of joining votes.
//!
//! Plurality is the committee's decision elsewhere in this tool; strict majority, unanimity, any oracle, the mean share of votes and
//! the mean probability are reported beside it. The joining rules are this project's definition (see `votes`).

use serde::Serialize;

use crate::stats::interval::Fraction;

use super::error::Result;
use super::matrix::Matrix;
use super::validity::{OracleValidity, argmax, softmax};
use super::votes::{Ballot, count_votes};

/// The committee's word.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommitteeValidity {
    pub ballots: Vec<Ballot>,
    pub target_accuracy: Fraction,
    pub original_accuracy: Fraction,
    pub agreement_with_classifier: Fraction,
    /// Abstention counts as wrong.
    pub strict_majority_target_accuracy: Fraction,
    pub unanimous_target: Fraction,
    pub any_oracle_target: Fraction,
    /// Mean over images of the share of oracles that vote for the target.
    pub mean_fraction_of_votes_for_target: f64,
    /// Argmax of the mean softmax; `None` when the oracles have different classes.
    pub mean_probability_predictions: Option<Vec<usize>>,
    pub mean_probability_target_accuracy: Option<Fraction>,
}

/// Joins the votes of `reports`, one per oracle, in the order of `oracles`.
pub(crate) fn judge_committee(
    oracles: &[Matrix<'_>],
    reports: &[OracleValidity],
    predicted: &[usize],
    labels: &[usize],
    targets: &[usize],
) -> Result<CommitteeValidity> {
    let n = predicted.len();
    // Room for every target, also when all oracles have fewer classes than the classifier.
    let highest_target = targets.iter().map(|t| t + 1).max().unwrap_or(1);
    let classes = oracles
        .iter()
        .map(Matrix::cols)
        .fold(highest_target, usize::max);
    let votes: Vec<Vec<usize>> = reports.iter().map(|o| o.predictions.clone()).collect();
    let ballots = count_votes(&votes, classes)?;
    let for_target: usize = (0..n).map(|i| ballots[i].counts[targets[i]]).sum();
    let mean_probability_predictions = mean_probability(oracles);
    Ok(CommitteeValidity {
        target_accuracy: Fraction::of(n, |i| ballots[i].plurality == targets[i]),
        original_accuracy: Fraction::of(n, |i| ballots[i].plurality == labels[i]),
        agreement_with_classifier: Fraction::of(n, |i| ballots[i].plurality == predicted[i]),
        strict_majority_target_accuracy: Fraction::of(n, |i| {
            ballots[i].strict_majority == Some(targets[i])
        }),
        unanimous_target: Fraction::of(n, |i| ballots[i].unanimous == Some(targets[i])),
        any_oracle_target: Fraction::of(n, |i| ballots[i].counts[targets[i]] > 0),
        mean_fraction_of_votes_for_target: for_target as f64 / (n * oracles.len()) as f64,
        mean_probability_target_accuracy: mean_probability_predictions
            .as_ref()
            .map(|classes| Fraction::of(n, |i| classes[i] == targets[i])),
        mean_probability_predictions,
        ballots,
    })
}

fn mean_probability(oracles: &[Matrix<'_>]) -> Option<Vec<usize>> {
    let first = oracles.first()?;
    if oracles.iter().any(|o| o.cols() != first.cols()) {
        return None;
    }
    let class = |i: usize| {
        let mut sums = vec![0.0; first.cols()];
        for oracle in oracles {
            for (sum, p) in sums.iter_mut().zip(softmax(oracle.row(i))) {
                *sum += p;
            }
        }
        argmax(&sums)
    };
    Some((0..first.rows()).map(class).collect())
}
