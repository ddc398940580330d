//! The `roar` cases of `metrics.json`.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::Tensors;
use super::golden::{CLOSED, Random, features, rows};
use crate::attribute::data::{Features, Split, Task};
use crate::attribute::metrics::{Conditional, Removal, Retraining};
use crate::attribute::models::Kind;
use crate::attribute::{Rows, Variant};

/// A refit on collinear rows leaves fewer digits.
const REFIT: Tolerance = Tolerance::both(1e-7, 1e-7);
const SEEDS: u64 = 3;

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(tensors), Some(json), Some(features)) = (
        folder.tensors("metrics.safetensors")?,
        folder.json("metrics.json")?,
        features(folder)?,
    ) else {
        return Ok(());
    };
    let Some(cases) = json.root().get("roar") else {
        return Ok(());
    };
    check.group("roar");
    let part = |part: &str| -> Result<Split> {
        Ok(Split {
            x: rows(&tensors, &format!("roar.x_{part}"))?,
            y: tensors.f64(&format!("roar.y_{part}"))?,
        })
    };
    let (train, test) = (part("train")?, part("test")?);
    for (case, node) in cases.fields()? {
        let parts: Vec<&str> = case.split('.').collect();
        let (&[kind, weights, what], true) = (&parts[..], node.is_object()) else {
            check.unknown(format!("metrics.json: roar.{case}"));
            continue;
        };
        let kind = match kind {
            "lr" => Kind::Linear,
            "dtree" => Kind::Tree,
            "mlp" => Kind::Mlp,
            _ => {
                check.unknown(format!("metrics.json: roar.{case}"));
                continue;
            }
        };
        let of = |part: &str| weights_of(&tensors, part, weights);
        let (train_weights, test_weights) = (of("train")?, of("test")?);
        let retraining = |seed| Retraining {
            kind,
            task: Task::Regression,
            train: &train,
            test: &test,
            train_weights: &train_weights,
            test_weights: &test_weights,
            seed,
        };
        let means = Removal::Mean(&features, Conditional::Observational);
        let baseline = test.x.means();
        match what {
            "observational" => fixed(case, &node, &retraining(0), means, means, check)?,
            "interventional" => {
                let removal = Removal::Baseline(&baseline);
                fixed(case, &node, &retraining(0), removal, means, check)?;
            }
            "sampled" => {
                let seeds: Vec<Retraining<'_>> = (0..SEEDS).map(retraining).collect();
                sampled(case, &node, &seeds, &features, check)?;
            }
            _ => check.unknown(format!("metrics.json: roar.{case}")),
        }
    }
    Ok(())
}

fn weights_of(tensors: &Tensors, part: &str, weights: &str) -> Result<Rows> {
    rows(tensors, &format!("roar.weights_{part}.{weights}"))
}

fn fixed(
    case: &str,
    node: &Node<'_>,
    retraining: &Retraining<'_>,
    removal: Removal<'_>,
    nothing: Removal<'_>,
    check: &mut Check,
) -> Result<()> {
    let found = retraining.roar(removal, Variant::AsReleased);
    let losses = node.at("losses_recomputed")?.f64s()?;
    check.close_all(format!("{case}, losses"), &losses, &found.losses, CLOSED);
    for key in ["roar", "roar_conditional_mean"] {
        if let Some(area) = node.get(key) {
            check.close(format!("{case}, {key}"), area.f64()?, found.area, REFIT);
        }
    }
    let entries = [
        (
            "roar_faithfulness_dec",
            retraining.faithfulness(removal, Variant::AsReleased),
        ),
        (
            "roar_monotonicity_inc",
            retraining.monotonicity(removal, nothing, false),
        ),
        (
            "roar_monotonicity_dec",
            retraining.monotonicity(removal, nothing, true),
        ),
    ];
    for (key, got) in entries {
        check.close(format!("{case}, {key}"), node.at(key)?.f64()?, got, REFIT);
    }
    Ok(())
}

fn sampled(
    case: &str,
    node: &Node<'_>,
    seeds: &[Retraining<'_>],
    features: &Features,
    check: &mut Check,
) -> Result<()> {
    let means = Removal::Mean(features, Conditional::Observational);
    for (key, entry) in node.fields()? {
        let value = |r: &Retraining<'_>| match key {
            "roar" => Some(
                r.roar(Removal::Draw(features, r.seed), Variant::AsReleased)
                    .area,
            ),
            "roar_faithfulness" => Some(r.faithfulness(means, Variant::AsReleased)),
            "roar_monotonicity" => Some(r.monotonicity(means, means, false)),
            _ => None,
        };
        let ours: Option<Vec<Vec<f64>>> = seeds.iter().map(|r| value(r).map(|v| vec![v])).collect();
        let Some(ours) = ours else {
            continue;
        };
        let (mean, std) = ([entry.at("mean")?.f64()?], [entry.at("std")?.f64()?]);
        let random = Random {
            mean: &mean,
            std: &std,
            seeds: entry.at("seeds")?.usize()?,
        };
        random.check(check, &format!("{case}, {key}"), &ours);
    }
    Ok(())
}
