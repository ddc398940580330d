//! Validity of logits, and the Jensen-Shannon divergence of probabilities.

use anyhow::bail;
use serde_json::json;

use super::Found;
use crate::metrics::jensen_shannon::{self, Probabilities};
use crate::metrics::validity::Judgement;
use crate::metrics::{Matrix, MetricBackend};
use crate::score::{Protocol, Score};
use crate::stats::interval::Fraction;
use crate::tensor::TypedArrays;

fn fraction(f: &Fraction) -> Score {
    Score::fraction(f.count, f.n)
}

pub fn run<B: MetricBackend>(backend: &B, arrays: &TypedArrays) -> anyhow::Result<Found> {
    let classifier = arrays.f32_of_rank("classifier_logits", 2)?;
    let n = classifier.shape[0];
    let oracles = if arrays.contains("oracle_logits") {
        let oracles = arrays.f32_of_rank("oracle_logits", 3)?;
        if oracles.shape[1] != n {
            let expected = format!("[oracles, {n}, classes]");
            bail!(arrays.unexpected("oracle_logits", &expected, format!("{:?}", oracles.shape)));
        }
        Some(oracles)
    } else {
        None
    };
    let mut matrices = Vec::new();
    if let Some(oracles) = &oracles {
        for k in 0..oracles.shape[0] {
            let what = format!("logits of oracle {k}");
            matrices.push(Matrix::new(&what, n, oracles.shape[2], oracles.row(k))?);
        }
    }
    let (labels, targets) = (arrays.i64("labels")?, arrays.i64("targets")?);
    let found = backend.committee(Judgement {
        classifier: Matrix::new(
            "classifier_logits",
            n,
            classifier.shape[1],
            &classifier.data,
        )?,
        oracles: &matrices,
        labels: &labels,
        targets: &targets,
    })?;
    let mut out = Found::default();
    out.score("target_accuracy", &fraction(&found.target_accuracy));
    out.score("original_accuracy", &fraction(&found.original_accuracy));
    out.score("neither", &fraction(&found.neither));
    out.score("target_confidence", &Score::mean(&found.target_confidences));
    out.score(
        "original_confidence",
        &Score::mean(&found.original_confidences),
    );
    for (k, oracle) in found.oracles.iter().enumerate() {
        out.score(format!("oracle_score/{k}"), &fraction(&oracle.oracle_score));
        out.score(
            format!("oracle_target_accuracy/{k}"),
            &fraction(&oracle.oracle_target_accuracy),
        );
    }
    if let Some(committee) = &found.committee {
        let rules = [
            ("plurality", Some(&committee.target_accuracy)),
            ("majority", Some(&committee.strict_majority_target_accuracy)),
            ("unanimity", Some(&committee.unanimous_target)),
            (
                "mean_probability",
                committee.mean_probability_target_accuracy.as_ref(),
            ),
            ("any", Some(&committee.any_oracle_target)),
        ];
        for (rule, score) in rules {
            if let Some(score) = score {
                out.score(
                    format!("committee_target_accuracy/{rule}"),
                    &fraction(score),
                );
            }
        }
        out.score(
            "committee_original_accuracy/plurality",
            &fraction(&committee.original_accuracy),
        );
        out.score(
            "committee_agreement/plurality",
            &fraction(&committee.agreement_with_classifier),
        );
        out.add("committee", serde_json::to_value(&committee.ballots)?);
    }
    out.add("predictions", json!(found.predictions));
    let oracle_predictions: Vec<_> = found.oracles.iter().map(|o| &o.predictions).collect();
    out.add("oracle_predictions", json!(oracle_predictions));
    out.add("verdicts", serde_json::to_value(&found.verdicts)?);
    Ok(out)
}

pub fn jensen_shannon(arrays: &TypedArrays, protocol: Protocol) -> anyhow::Result<Found> {
    let classes = |name: &str| -> anyhow::Result<usize> {
        match arrays.get(name)?.shape[..] {
            [_] => Ok(1),
            [_, c] => Ok(c),
            ref other => bail!(arrays.unexpected(name, "[n] or [n, c]", format!("{other:?}"))),
        }
    };
    let (p, q) = (arrays.f64("p")?, arrays.f64("q")?);
    let rows = jensen_shannon::jensen_shannon(
        Probabilities::new("p", classes("p")?, &p)?,
        Probabilities::new("q", classes("q")?, &q)?,
        match protocol {
            Protocol::Exact => jensen_shannon::Protocol::Exact,
            Protocol::Published => jensen_shannon::Protocol::Published,
        },
    )?;
    let known: Vec<f64> = rows.iter().copied().flatten().collect();
    let mut found = Found::default();
    found.score("jensen_shannon", &Score::mean(&known));
    found.add("per_row", json!(rows));
    Ok(found)
}
