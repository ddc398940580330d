//! Scores of samples as `scores.json` and `pairs.csv` hold them.

use std::collections::BTreeMap;

use super::Samples;
use super::aggregate::Counts;
use super::evaluate::{Run, Terms};
use super::networks::{LabelModel, Networks};
use crate::score::{Fingerprint, Group, Protocol, SCHEMA, Score, Scores, Tool};
use crate::tensor::Backend;

/// What every score was computed with. The range is part of all that depend on it.
pub fn fingerprints<B: Backend>(
    scores: &BTreeMap<String, Score>,
    networks: &Networks<'_, B>,
    run: &Run<'_>,
    arithmetic: &str,
) -> BTreeMap<String, Fingerprint> {
    let one = |name: &str| {
        let mut found = Fingerprint {
            metric: name.into(),
            protocol: run.protocol.name().into(),
            network: None,
            weights_sha256: None,
            preprocessing: None,
            range: None,
            options: None,
            arithmetic: None,
            reject_invalid: run.reject_invalid && name != "target_class_validity",
            foil: env!("CARGO_PKG_VERSION").into(),
        };
        let by = |found: &mut Fingerprint, model: Option<&LabelModel<B>>| {
            found.network = model.map(|m| m.architecture.clone());
            found.weights_sha256 = model.map(|m| m.sha256.clone());
            found.preprocessing = model
                .and_then(|m| m.preprocessing.as_ref())
                .and_then(|p| serde_json::to_string(p).ok());
        };
        let (base, model) = name.split_once('/').unwrap_or((name, ""));
        match base {
            "oracle_score" | "oracle_target_accuracy" => {
                by(
                    &mut found,
                    networks.oracles.iter().copied().find(|o| o.name == model),
                );
            }
            "label_variation" => {
                by(
                    &mut found,
                    networks.labels.iter().copied().find(|o| o.name == model),
                );
            }
            "fid" => {
                by(&mut found, networks.oracles.first().copied());
                found.options = Some("embedding, real set: originals".into());
            }
            "target_class_validity" => {}
            im if im.starts_with("im") => {
                found.network = Some("autoencoder".into());
                found.weights_sha256 = networks.autoencoders.as_ref().map(|a| a.sha256.clone());
                found.range = Some(run.range);
            }
            _ => found.range = Some(run.range),
        }
        if found.network.is_some() && arithmetic != "f32" {
            found.arithmetic = Some(arithmetic.into());
        }
        if run.protocol == Protocol::Published && base != "target_class_validity" {
            let note = "values scaled by the array's smallest and largest";
            found.options = Some(match found.options.take() {
                Some(options) => format!("{options}, {note}"),
                None => note.into(),
            });
        }
        found
    };
    scores
        .keys()
        .map(|name| (name.clone(), one(name)))
        .collect()
}

/// The document of one method.
pub struct Titles<'a> {
    pub name: &'a str,
    pub method: Option<&'a str>,
    pub classifier: Option<&'a str>,
    pub device: &'a str,
    pub seed: u64,
}

/// What became of samples that are special, in words.
pub fn notes(counts: Counts, run: &Run<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |count: usize, what: &str| {
        if count > 0 {
            notes.push(format!("{count} of {} samples: {what}", counts.samples));
        }
    };
    note(
        counts.failed,
        "the method failed; they count in the validity only",
    );
    match (run.protocol, run.reject_invalid) {
        (_, true) => note(
            counts.invalid,
            "the prediction is not the target; they count in the validity only",
        ),
        (Protocol::Exact, false) => note(
            counts.invalid,
            "the prediction is not the target; they are kept in every score",
        ),
        // As published, which asks whether the prediction changed.
        (Protocol::Published, false) => {}
    }
    let black = match (run.protocol, run.reject_invalid) {
        (Protocol::Exact, false) => {
            "the counterfactual is entirely black; they are kept in every score"
        }
        (Protocol::Exact, true) => {
            "the counterfactual is entirely black; they are kept where the prediction is the target"
        }
        (Protocol::Published, _) => {
            "the counterfactual is entirely black; left out of all but the validity, as published"
        }
    };
    note(counts.black, black);
    note(
        counts.same_target,
        "the target is the prediction on the original; left out, as bad samples were to be skipped",
    );
    notes
}

/// `scores.json`.
pub fn scores(
    titles: &Titles<'_>,
    found: BTreeMap<String, Score>,
    fingerprints: BTreeMap<String, Fingerprint>,
    counts: Counts,
    run: &Run<'_>,
    oracles: Vec<String>,
) -> Scores {
    let group = Group {
        name: titles.name.into(),
        method: titles.method.map(Into::into),
        source: None,
        target: None,
        pairs: counts.samples,
        skipped: counts.same_target,
        originals: counts.samples,
        verdicts: BTreeMap::new(),
        scores: found,
    };
    let groups = vec![group];
    Scores {
        schema: SCHEMA.into(),
        tool: Tool {
            name: "foil".into(),
            version: env!("CARGO_PKG_VERSION").into(),
        },
        device: titles.device.into(),
        seed: titles.seed,
        protocol: run.protocol.name().into(),
        reject_invalid: run.reject_invalid,
        classifier: titles.classifier.map(Into::into),
        oracles,
        summary: Scores::summarise(&groups),
        summary_by_method: Scores::summarise_methods(&groups),
        summary_ddof: 0,
        fingerprints,
        groups,
        left_out: Default::default(),
        notes: notes(counts, run),
    }
}

/// `pairs.csv`: a row for each sample with all its terms.
pub fn pairs_csv(samples: &Samples, terms: &Terms) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = [
        "index",
        "original_prediction",
        "target",
        "prediction",
        "kept",
        "l1",
        "l2",
        "elastic_net",
        "im1_numerator",
        "im1_denominator",
        "im1",
        "im2_numerator",
        "im2_denominator",
        "im2",
    ];
    let mut header: Vec<String> = fixed.map(Into::into).into();
    header.extend(
        terms
            .oracles
            .iter()
            .map(|(name, _)| format!("oracle/{name}")),
    );
    header.extend(
        terms
            .labels
            .iter()
            .map(|(name, _)| format!("label_variation/{name}")),
    );
    writer.write_record(&header)?;
    let text = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    for i in 0..samples.target.len() {
        let at = |values: &[Option<f64>]| values.get(i).copied().flatten();
        let (l1, l2) = (at(&terms.l1), at(&terms.l2));
        let mut row = vec![
            i.to_string(),
            samples.original_prediction[i].to_string(),
            samples.target[i].to_string(),
            samples.prediction[i].to_string(),
            u8::from(terms.kept[i]).to_string(),
            text(l1),
            text(l2),
            text(l1.zip(l2).map(|(a, b)| a + b)),
        ];
        for ratios in [&terms.im1, &terms.im2] {
            let ratio = ratios.get(i).copied().flatten();
            row.push(text(ratio.map(|r| r.numerator)));
            row.push(text(ratio.map(|r| r.denominator)));
            row.push(text(ratio.map(|r| r.value())));
        }
        for (_, classes) in &terms.oracles {
            row.push(classes[i].map_or(String::new(), |c| c.to_string()));
        }
        row.extend(terms.labels.iter().map(|(_, values)| text(values[i])));
        writer.write_record(&row)?;
    }
    writer
        .into_inner()
        .map_err(|e| csv::Error::from(e.into_error()))
}
