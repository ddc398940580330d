//! `validity` of `dbvce_expected.json`: predictions with ties, accuracies, confidences and the committee.
//! Fractions exact up to the f32 in which they are printed (1e-7); confidences of an f32 softmax 1e-6.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::matrix;
use crate::metrics::committee::CommitteeValidity;
use crate::metrics::validity::{Judgement, Validity};
use crate::metrics::{Matrix, MetricBackend};

const FRACTION: Tolerance = Tolerance::relative(1e-7);
const CONFIDENCE: Tolerance = Tolerance::relative(1e-6);

pub fn run<B: MetricBackend>(backend: &B, folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("dbvce_expected.json")? else {
        return Ok(());
    };
    let Some(cases) = json.root().get("validity") else {
        return Ok(());
    };
    let file = "validity_logits.safetensors";
    let Some(stored) = folder.tensors(file)? else {
        cases.skip();
        check.absent(format!("validity: all cases ({file} is absent)"));
        return Ok(());
    };
    let classifier = stored.f32_of_rank("classifier_logits", 2)?;
    let oracles = stored.f32_of_rank("oracle_logits", 3)?;
    let (labels, targets) = (stored.i64("labels")?, stored.i64("targets")?);
    let classifier = matrix("classifier_logits", &classifier)?;
    if oracles.shape[1..] != [classifier.rows(), classifier.cols()] {
        return Err(stored.wrong(
            "oracle_logits",
            "[k, n, c] as the classifier",
            "others".into(),
        ));
    }
    let oracles: Vec<Matrix<'_>> = oracles
        .data
        .chunks((classifier.rows() * classifier.cols()).max(1))
        .map(|logits| Matrix::new("oracle", classifier.rows(), classifier.cols(), logits))
        .collect::<std::result::Result<_, _>>()
        .of("oracle_logits")?;
    let judged = backend.committee(Judgement {
        classifier,
        oracles: &oracles,
        labels: &labels,
        targets: &targets,
    });
    let got = judged.of(file)?;
    check.group("validity");
    for (field, expected) in cases.fields()? {
        match field {
            "classes" => check.equal(field, &expected.usize()?, &classifier.cols()),
            "labels" => check.equal(field, &integers(&expected)?, &labels),
            "targets" => check.equal(field, &integers(&expected)?, &targets),
            "committee" => {
                check.group("committee");
                if let Some(got) = &got.committee {
                    committee(&expected, got, check)?;
                }
                check.group("validity");
            }
            _ => compare(field, &expected, &got, check)?,
        }
    }
    Ok(())
}

fn integers(node: &Node<'_>) -> Result<Vec<i64>> {
    Ok(node.f64s()?.iter().map(|&v| v as i64).collect())
}

fn compare(field: &str, expected: &Node<'_>, got: &Validity, check: &mut Check) -> Result<()> {
    let none = f64::NAN;
    let (value, tolerance) = match field {
        "n" => (got.n as f64, FRACTION),
        "oracles" => (got.oracles.len() as f64, FRACTION),
        "target_validity_TA" => (got.target_accuracy.value, FRACTION),
        "original_validity_OA" => (got.original_accuracy.value, FRACTION),
        "neither" => (got.neither.value, FRACTION),
        "mean_OS_over_oracles" => (got.mean_oracle_score.unwrap_or(none), FRACTION),
        "mean_OS_study_including_classifier_itself" => {
            (got.mean_oracle_score_published.unwrap_or(none), FRACTION)
        }
        "target_conf_mean" => (got.target_confidence.mean, CONFIDENCE),
        "original_conf_mean" => (got.original_confidence.mean, CONFIDENCE),
        "target_conf_std_sample" => (got.target_confidence.std_sample.unwrap_or(none), CONFIDENCE),
        "original_conf_std_sample" => (
            got.original_confidence.std_sample.unwrap_or(none),
            CONFIDENCE,
        ),
        "OS_per_oracle" => {
            let scores: Vec<f64> = got.oracles.iter().map(|o| o.oracle_score.value).collect();
            check.close_all(field, &expected.f64s()?, &scores, FRACTION);
            return Ok(());
        }
        "OTA_per_oracle" => {
            let scores: Vec<f64> = got
                .oracles
                .iter()
                .map(|o| o.oracle_target_accuracy.value)
                .collect();
            check.close_all(field, &expected.f64s()?, &scores, FRACTION);
            return Ok(());
        }
        "classifier_pred" => {
            check.equal(field, &expected.usizes()?, &got.predictions);
            return Ok(());
        }
        "oracle_pred" => {
            let predictions: Vec<_> = got.oracles.iter().map(|o| o.predictions.clone()).collect();
            check.equal(field, &expected.list(Node::usizes)?, &predictions);
            return Ok(());
        }
        _ => return Ok(()),
    };
    check.close(field, expected.f64()?, value, tolerance);
    Ok(())
}

fn committee(cases: &Node<'_>, got: &CommitteeValidity, check: &mut Check) -> Result<()> {
    for (field, expected) in cases.fields()? {
        let value = match field {
            "plurality_target_accuracy" => got.target_accuracy.value,
            "plurality_original_accuracy" => got.original_accuracy.value,
            "plurality_agreement_with_classifier" => got.agreement_with_classifier.value,
            "strict_majority_target_accuracy_abstain_counts_as_wrong" => {
                got.strict_majority_target_accuracy.value
            }
            "unanimous_target" => got.unanimous_target.value,
            "any_oracle_target" => got.any_oracle_target.value,
            "mean_fraction_of_oracles_voting_target" => got.mean_fraction_of_votes_for_target,
            "plurality_smallest_index_on_tie" => {
                let votes: Vec<usize> = got.ballots.iter().map(|b| b.plurality).collect();
                check.equal(field, &expected.usizes()?, &votes);
                continue;
            }
            "vote_counts" => {
                let counts: Vec<_> = got.ballots.iter().map(|b| b.counts.clone()).collect();
                check.equal(field, &expected.list(Node::usizes)?, &counts);
                continue;
            }
            "has_strict_majority" => {
                let has: Vec<_> = got
                    .ballots
                    .iter()
                    .map(|b| b.strict_majority.is_some())
                    .collect();
                check.equal(field, &expected.list(Node::bool)?, &has);
                continue;
            }
            "plurality_tied" => {
                let tied: Vec<_> = got.ballots.iter().map(|b| b.tied).collect();
                check.equal(field, &expected.list(Node::bool)?, &tied);
                continue;
            }
            _ => continue,
        };
        check.close(field, expected.f64()?, value, FRACTION);
    }
    Ok(())
}
