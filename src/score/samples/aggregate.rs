//! Terms → scores, by the rules of a protocol.

use std::collections::BTreeMap;

use super::evaluate::{Run, Terms};
use super::{Samples, SamplesError};
use crate::metrics::Matrix;
use crate::metrics::fid::frechet_from_features;
use crate::metrics::interpretability::Ratio;
use crate::score::{Family, Protocol, Score};
use crate::stats::interval::{Z_95_PRINTED, mean, std_population};

/// Samples that are special, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub samples: usize,
    pub kept: usize,
    /// The method made no counterfactual.
    pub failed: usize,
    /// The prediction is not the target; neither failed nor left out for its target.
    pub invalid: usize,
    /// Entirely black, but neither failed nor left out for its target.
    pub black: usize,
    /// Left out: the target is the prediction on the original.
    pub same_target: usize,
}

pub fn counts(samples: &Samples, terms: &Terms) -> Counts {
    let n = samples.target.len();
    let count = |test: &dyn Fn(usize) -> bool| (0..n).filter(|&i| test(i)).count();
    Counts {
        samples: n,
        kept: count(&|i| terms.kept[i]),
        failed: count(&|i| samples.failed(i)),
        invalid: count(&|i| {
            let other = samples.prediction[i] != samples.target[i];
            other && !samples.failed(i) && !terms.same_target[i]
        }),
        black: count(&|i| terms.black[i] && !samples.failed(i) && !terms.same_target[i]),
        same_target: count(&|i| terms.same_target[i]),
    }
}

/// A mean with the interval of the protocol: 1.96 · std / √n with divisor n as published, n − 1 else.
fn mean_score(values: &[f64], protocol: Protocol) -> Score {
    if protocol == Protocol::Exact {
        return Score::mean(values);
    }
    let (Some(mean), Some(std)) = (mean(values), std_population(values)) else {
        return Score::missing(0, "no counterfactual is left".into());
    };
    let half = Z_95_PRINTED * std / (values.len() as f64).sqrt();
    Score {
        value: Some(mean),
        n: values.len(),
        ci95: Some([mean - half, mean + half]),
        std: Some(std),
        note: None,
    }
}

/// A share; Wilson's interval, or as published that of a mean.
fn share(holds: &[bool], protocol: Protocol) -> Score {
    if protocol == Protocol::Exact {
        return Score::fraction(holds.iter().filter(|h| **h).count(), holds.len());
    }
    let values: Vec<f64> = holds.iter().map(|&h| f64::from(u8::from(h))).collect();
    mean_score(&values, protocol)
}

/// The scores that were asked for, by name.
pub fn aggregate(
    samples: &Samples,
    terms: &Terms,
    run: &Run<'_>,
) -> Result<BTreeMap<String, Score>, SamplesError> {
    let protocol = run.protocol;
    let n = samples.target.len();
    let mut scores = BTreeMap::new();
    let mut put = |name: &str, score: Score| drop(scores.insert(name.to_owned(), score));
    let wants = |family| run.selection.has(family);
    if wants(Family::TargetClassValidity) {
        let holds: Vec<bool> = (0..n)
            .filter(|&i| !terms.same_target[i])
            .map(|i| {
                let hit = match protocol {
                    Protocol::Exact => samples.prediction[i] == samples.target[i],
                    Protocol::Published => samples.prediction[i] != samples.original_prediction[i],
                };
                hit && samples.prediction[i] >= 0
            })
            .collect();
        put("target_class_validity", share(&holds, protocol));
    }
    let (l1, l2) = (present(&terms.l1), present(&terms.l2));
    if wants(Family::Lp) {
        put("l1", mean_score(&l1, protocol));
        put("l2", mean_score(&l2, protocol));
    }
    if wants(Family::ElasticNet) {
        let sums: Vec<f64> = l1.iter().zip(&l2).map(|(a, b)| a + b).collect();
        put("elastic_net", mean_score(&sums, protocol));
    }
    for (family, name, ratios) in [
        (Family::Im1, "im1", &terms.im1),
        (Family::Im2, "im2", &terms.im2),
    ] {
        if !wants(family) {
            continue;
        }
        let ratios = present(ratios);
        let of = |pick: fn(&Ratio) -> f64| {
            let values: Vec<f64> = ratios.iter().map(pick).collect();
            mean_score(&values, protocol)
        };
        put(name, of(Ratio::value));
        put(&format!("{name}_numerator"), of(|r| r.numerator));
        put(&format!("{name}_denominator"), of(|r| r.denominator));
    }
    if wants(Family::Oracle) {
        for (name, classes) in &terms.oracles {
            let agree = |with: &[i64]| -> Vec<bool> {
                let said = classes.iter().enumerate();
                said.filter_map(|(i, c)| c.map(|c| i64::try_from(c) == Ok(with[i])))
                    .collect()
            };
            let target = share(&agree(&samples.target), protocol);
            let with = match protocol {
                Protocol::Exact => share(&agree(&samples.prediction), protocol),
                Protocol::Published => target.clone(),
            };
            put(&format!("oracle_score/{name}"), with);
            put(&format!("oracle_target_accuracy/{name}"), target);
        }
    }
    if wants(Family::LabelVariation) {
        for (name, divergences) in &terms.labels {
            let score = mean_score(&present(divergences), protocol);
            put(&format!("label_variation/{name}"), score);
        }
    }
    if let Some((width, real, made)) = terms.embeddings.as_ref().filter(|_| wants(Family::Fid)) {
        let rows = terms.kept.iter().filter(|k| **k).count();
        let score = if rows < 2 {
            Score::missing(rows, format!("2 counterfactuals are needed, found {rows}"))
        } else {
            let [real, made] =
                [real, made].map(|data| Matrix::new("embeddings", rows, *width, data));
            let found = frechet_from_features(real?, made?)?;
            Score {
                value: Some(found.value),
                n: rows,
                note: found.rank_note,
                ..Score::default()
            }
        };
        put("fid", score);
    }
    Ok(scores)
}

fn present<T: Copy>(values: &[Option<T>]) -> Vec<T> {
    values.iter().copied().flatten().collect()
}
