//! EN, TCV, IM1 and IM2 of all methods: means, intervals, counts, terms and single samples.

use std::collections::BTreeMap;

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::data::{Config, Set};
use super::own_models::Models;
use crate::metrics::MetricBackend;
use crate::score::samples::{
    Autoencoders, Networks, Run, Samples, Terms, aggregate, evaluate as evaluate_samples,
};
use crate::score::{Family, Protocol, Score, Selection};

/// Names of the published files and of foil's scores, with the relative tolerance.
const METRICS: [(&str, &str, f64); 4] = [
    ("TargetClassValidity", "target_class_validity", 1e-14),
    ("ElasticNet", "elastic_net", 1e-9),
    ("IM1", "im1", 1e-6),
    ("IM2", "im2", 1e-6),
];

/// What a method's samples gave.
pub struct Evaluated<'a> {
    pub samples: &'a Samples,
    pub label: &'a [i64],
    pub terms: Terms,
    pub selection: Selection,
    pub range: [f64; 2],
}

impl Evaluated<'_> {
    /// Scores over the first `n` samples.
    pub fn scores(&self, n: usize) -> Result<BTreeMap<String, Score>> {
        let run = run(&self.selection, self.range);
        aggregate(&self.samples.first(n), &self.terms.first(n), &run).of("scores")
    }

    pub fn count(&self) -> usize {
        self.samples.target.len()
    }
}

fn run(selection: &Selection, range: [f64; 2]) -> Run<'_> {
    Run {
        selection,
        range,
        protocol: Protocol::Published,
        reject_invalid: false,
        skip_bad: false,
    }
}

pub fn evaluate<'a, B: MetricBackend + 'static>(
    backend: &B,
    set: &'a Set,
    method: &str,
    config: Config,
    autoencoders: &Option<Autoencoders<B>>,
    models: &Models<B>,
) -> Result<Evaluated<'a>> {
    let what = format!("{}.{method}", config.name);
    let samples = &set.methods[method];
    let mut families = vec![Family::TargetClassValidity, Family::ElasticNet, Family::Lp];
    if autoencoders.is_some() {
        families.extend([Family::Im1, Family::Im2]);
    }
    if !models.networks.oracles.is_empty() {
        families.extend([Family::Oracle, Family::Fid]);
    }
    if !models.networks.labels.is_empty() {
        families.push(Family::LabelVariation);
    }
    let selection = Selection {
        families: families.into_iter().collect(),
        explicit: true,
        embedding: true,
    };
    let networks = Networks {
        autoencoders: autoencoders.as_ref(),
        oracles: models.networks.oracles.iter().collect(),
        labels: models.networks.labels.iter().collect(),
    };
    let terms = evaluate_samples(
        backend,
        samples,
        &networks,
        &run(&selection, config.range),
        &mut |_, _| {},
    )
    .of(&what)?;
    Ok(Evaluated {
        samples,
        label: &set.label,
        terms,
        selection,
        range: config.range,
    })
}

/// Compares `[mean, half width, n]`.
pub fn triple(
    check: &mut Check,
    what: &str,
    expected: &Node<'_>,
    score: Option<&Score>,
    tolerance: [Tolerance; 2],
) -> Result<()> {
    let expected = expected.f64s()?;
    let score = score.cloned().unwrap_or_default();
    let half = score
        .ci95
        .map_or(f64::NAN, |[low, high]| (high - low) / 2.0);
    let mean = score.value.unwrap_or(f64::NAN);
    for (part, got, tolerance) in [
        ("mean", mean, tolerance[0]),
        ("half width", half, tolerance[1]),
    ] {
        let at = usize::from(part != "mean");
        let value = expected.get(at).copied().unwrap_or(f64::NAN);
        check.close(format!("{what} {part}"), value, got, tolerance);
    }
    let n = expected.get(2).copied().unwrap_or(f64::NAN);
    check.close(
        format!("{what} n"),
        n,
        score.n as f64,
        Tolerance::absolute(0.0),
    );
    Ok(())
}

/// A half width comes from the difference of two bounds around the mean, so the mean's rounding is in it.
fn tolerances(relative: f64) -> [Tolerance; 2] {
    let interval = Tolerance::both(relative.max(1e-9), 1e-13);
    [Tolerance::relative(relative), interval]
}

pub fn check_all(
    folder: &Folder,
    config: Config,
    method: &str,
    evaluated: &Evaluated<'_>,
    check: &mut Check,
) -> Result<()> {
    let scores = evaluated.scores(evaluated.count())?;
    let has = |name: &str| scores.contains_key(name);
    if let Some(json) = folder.json("published_results.json")?
        && let Some(of) = json.root().get(config.name)
    {
        check.group(format!("{} published", config.name));
        for (name, score, relative) in METRICS.into_iter().filter(|m| has(m.1)) {
            if let Some(node) = of.get(name).and_then(|m| m.get(method)) {
                let what = format!("{method} {name}");
                triple(check, &what, &node, scores.get(score), tolerances(relative))?;
            }
        }
    }
    if let Some(json) = folder.json("reproduction.json")?
        && let Some(of) = json.root().get(config.name).and_then(|c| c.get(method))
    {
        check.group(format!("{} recomputed", config.name));
        reproduction(&of, method, evaluated, &scores, check)?;
    }
    super::first::per_sample(folder, config, method, evaluated, check)
}

fn reproduction(
    of: &Node<'_>,
    method: &str,
    evaluated: &Evaluated<'_>,
    scores: &BTreeMap<String, Score>,
    check: &mut Check,
) -> Result<()> {
    for (name, score, relative) in METRICS.into_iter().filter(|m| scores.contains_key(m.1)) {
        let Some(node) = of.get(name) else { continue };
        // The same as in the published results, and what the makers of the data found.
        node.skip_fields(&["published", "relative_error_mean"]);
        let what = format!("{method} {name}");
        let expected = node.at("recomputed")?;
        triple(
            check,
            &what,
            &expected,
            scores.get(score),
            tolerances(relative),
        )?;
    }
    if let Some(node) = of.get("counts") {
        let s = evaluated.samples;
        let n = evaluated.count();
        let count = |test: &dyn Fn(usize) -> bool| (0..n).filter(|&i| test(i)).count();
        for (name, got) in [
            ("total", n),
            (
                "failed_cf_prediction_minus1",
                count(&|i| s.prediction[i] == -1),
            ),
            ("all_black_cf", count(&|i| evaluated.terms.black[i])),
            ("kept", count(&|i| evaluated.terms.kept[i])),
            ("target_equals_original_prediction", s.same_target().len()),
            (
                "cf_prediction_differs_from_target",
                count(&|i| s.prediction[i] != s.target[i]),
            ),
            (
                "cf_prediction_equals_original_prediction",
                count(&|i| s.prediction[i] == s.original_prediction[i]),
            ),
        ] {
            if let Some(node) = node.get(name) {
                check.equal(format!("{method} {name}"), &node.usize()?, &got);
            }
        }
    }
    if let Some(node) = of.get("extra_means_over_kept") {
        for (name, score, relative) in [
            ("l1", "l1", 1e-9),
            ("l2", "l2", 1e-9),
            ("im1_numerator", "im1_numerator", 1e-6),
            ("im1_denominator_without_eps", "im1_denominator", 1e-6),
            ("im2_numerator", "im2_numerator", 1e-6),
            ("im2_denominator_without_eps", "im2_denominator", 1e-6),
        ] {
            if let (Some(node), Some(score)) = (node.get(name), scores.get(score)) {
                let got = score.value.unwrap_or(f64::NAN);
                let what = format!("{method} mean of {name}");
                check.close(what, node.f64()?, got, Tolerance::relative(relative));
            }
        }
    }
    for (name, node) in of.fields()? {
        let number = name
            .strip_prefix("first_")
            .and_then(|n| n.strip_suffix("_samples"));
        let Some(n) = number.and_then(|n| n.parse::<usize>().ok()) else {
            continue;
        };
        let scores = evaluated.scores(n)?;
        let kept = evaluated.terms.kept.iter().take(n).filter(|k| **k).count();
        check.equal(
            format!("{method} first {n}: kept"),
            &node.at("n_kept")?.usize()?,
            &kept,
        );
        for (name, score, relative) in METRICS.into_iter().filter(|m| scores.contains_key(m.1)) {
            if let Some(node) = node.get(name) {
                let what = format!("{method} first {n} {name}");
                triple(check, &what, &node, scores.get(score), tolerances(relative))?;
            }
        }
    }
    Ok(())
}

/// Published numbers for which the data hold no images or no networks: named, not compared.
pub fn without_data(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("published_results.json")? else {
        return Ok(());
    };
    let root = json.root();
    for (config, of) in root.fields()? {
        if config == "celeba_m05_05" {
            of.skip();
            check.absent(
                "published_results.json: celeba_m05_05 (its images are not part of this layout)",
            );
            continue;
        }
        for metric in ["FID", "Oracle", "LabelVariationScore"] {
            if let Some(node) = of.get(metric) {
                node.skip();
                let why = "the networks of the paper are not part of this layout";
                check.absent(format!("published_results.json: {config} {metric} ({why})"));
            }
        }
    }
    Ok(())
}
