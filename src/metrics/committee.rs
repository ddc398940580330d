//! What a committee of oracles says about a set of counterfactuals, under every way of joining votes.
//!
//! Plurality is the committee's decision elsewhere in this tool; strict majority, unanimity, any oracle, the mean share of votes and
//! the mean probability are reported beside it. The joining rules are this project's definition (see `votes`).

use rayon::prelude::*;
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

/// Ballots, and images for which something holds of them.
#[derive(Debug, Clone)]
pub(crate) struct CountedCommittee {
    pub ballots: Vec<Ballot>,
    /// Plurality is the target, the label, the classifier's class; strict majority is the target; all oracles name the
    /// target; any does.
    pub totals: [usize; 6],
}

/// Classes that a ballot has room for: every target too, also when all oracles have fewer classes than the classifier.
pub(crate) fn classes_of_ballots(oracles: &[Matrix<'_>], targets: &[usize]) -> usize {
    let highest_target = targets.iter().map(|t| t + 1).max().unwrap_or(1);
    oracles
        .iter()
        .map(Matrix::cols)
        .fold(highest_target, usize::max)
}

/// Joins votes; `classes` are those named by the classifier and by each oracle.
pub(crate) fn count_committee(
    oracles: &[Matrix<'_>],
    classes: &[Vec<usize>],
    labels: &[usize],
    targets: &[usize],
) -> Result<CountedCommittee> {
    let (predicted, votes) = (&classes[0], &classes[1..]);
    let ballots = count_votes(votes, classes_of_ballots(oracles, targets))?;
    let of = |holds: &dyn Fn(&Ballot, usize) -> bool| {
        let all = ballots.iter().enumerate();
        all.filter(|&(i, ballot)| holds(ballot, i)).count()
    };
    let totals = [
        of(&|b, i| b.plurality == targets[i]),
        of(&|b, i| b.plurality == labels[i]),
        of(&|b, i| b.plurality == predicted[i]),
        of(&|b, i| b.strict_majority == Some(targets[i])),
        of(&|b, i| b.unanimous == Some(targets[i])),
        of(&|b, i| b.counts[targets[i]] > 0),
    ];
    Ok(CountedCommittee { ballots, totals })
}

/// Shares of what was counted, and the mean of probabilities.
pub(crate) fn judge_committee(
    oracles: &[Matrix<'_>],
    reports: &[OracleValidity],
    targets: &[usize],
    counted: CountedCommittee,
) -> CommitteeValidity {
    let n = targets.len();
    let [target, original, classifier, majority, unanimous, any] =
        counted.totals.map(|count| Fraction::new(count, n));
    let for_target: usize = reports.iter().map(|o| o.oracle_target_accuracy.count).sum();
    let mean_probability_predictions = mean_probability(oracles);
    CommitteeValidity {
        ballots: counted.ballots,
        target_accuracy: target,
        original_accuracy: original,
        agreement_with_classifier: classifier,
        strict_majority_target_accuracy: majority,
        unanimous_target: unanimous,
        any_oracle_target: any,
        mean_fraction_of_votes_for_target: for_target as f64 / (n * oracles.len()) as f64,
        mean_probability_target_accuracy: mean_probability_predictions
            .as_ref()
            .map(|classes| Fraction::of(n, |i| classes[i] == targets[i])),
        mean_probability_predictions,
    }
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
    Some((0..first.rows()).into_par_iter().map(class).collect())
}
