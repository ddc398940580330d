//! What `metrics.json` says of the original with its own random numbers, beside ours, as means over seeds.

use super::super::Result;
use super::super::check::Check;
use super::super::folder::Folder;
use super::super::json::Node;
use super::golden::{EXPLAINED, Random, features, model, rows};
use super::metrics::weight_sets;
use crate::attribute::data::{
    Dataset, Features, LabelFunction, Labels, Normalisation, Split, Task,
};
use crate::attribute::metrics::{
    Conditional, Games, Metric, Order, Plan, Requests, Scoring, Settings, Steps, faithfulness,
    monotonicity, walk,
};
use crate::attribute::models::Model;
use crate::attribute::subsets::all;
use crate::attribute::{Rows, Variant};

const SEEDS: u64 = 5;

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(tensors), Some(json), Some(features)) = (
        folder.tensors("metrics.safetensors")?,
        folder.json("metrics.json")?,
        features(folder)?,
    ) else {
        return Ok(());
    };
    let x = rows(&tensors, "x")?;
    for kind in ["lr", "dtree", "mlp"] {
        let Some(model) = model(folder, &format!("{EXPLAINED}.{kind}"), x.columns)? else {
            continue;
        };
        for weights in weight_sets(&tensors) {
            let own = rows(&tensors, &format!("weights.{weights}"))?;
            let case = format!("{kind}.{weights}");
            let node = |group: &str| json.root().get(group).and_then(|n| n.get(&case));
            check.group("metrics with draws of their own");
            if let Some(node) = node("observational_sampled") {
                observational(&case, &node, &model, &features, &x, &own, check)?;
            }
            check.group("infidelity with perturbations of its own");
            if let Some(node) = node("infidelity_sampled") {
                let data = bare(&features, &x)?;
                let ours: Vec<Vec<f64>> = (0..SEEDS)
                    .map(|seed| {
                        let settings = Settings {
                            variant: Variant::AsReleased,
                            seed,
                            ..Settings::default()
                        };
                        let scoring = Scoring {
                            data: &data,
                            model: &model,
                            points: &x,
                            settings,
                        };
                        Ok(vec![scoring.score(Metric::Infidelity, &own)?.value])
                    })
                    .collect::<Result<_>>()?;
                compare(&case, &node, &ours, check)?;
            }
        }
    }
    Ok(())
}

fn compare(what: &str, node: &Node<'_>, ours: &[Vec<f64>], check: &mut Check) -> Result<()> {
    let (mean, std) = ([node.at("mean")?.f64()?], [node.at("std")?.f64()?]);
    let seeds = node.at("seeds")?.usize()?;
    let random = Random {
        mean: &mean,
        std: &std,
        seeds,
    };
    random.check(check, what, ours);
    Ok(())
}

/// A data set of which only the distribution counts.
pub fn bare(features: &Features, x: &Rows) -> Result<Dataset> {
    let split = Split {
        x: x.clone(),
        y: vec![0.0; x.len()],
    };
    Ok(Dataset {
        features: features.clone(),
        labels: Labels::new(
            LabelFunction::Linear,
            x.columns,
            Task::Regression,
            Variant::Correct,
        )?,
        normalisation: Normalisation {
            mean: 0.0,
            std: 1.0,
        },
        noise: 0.0,
        seed: 0,
        train: split.clone(),
        test: split,
    })
}

/// The released default has the least important feature first.
fn observational(
    case: &str,
    node: &Node<'_>,
    model: &Model,
    features: &Features,
    x: &Rows,
    weights: &Rows,
    check: &mut Check,
) -> Result<()> {
    let draws = node.at("n_sample")?.usize()?;
    let d = x.columns;
    let how = (Order::LeastFirst, Steps::ByFeature);
    let mut requests = Requests::default();
    for i in 0..x.len() {
        (0..d).for_each(|j| requests.add(i, all(d) ^ (1 << j)));
    }
    for i in 0..x.len() {
        walk(weights.row(i), how.0)
            .iter()
            .for_each(|(_, known)| requests.add(i, *known));
    }
    let n = x.len() as f64;
    let (mut faithful, mut monotone) = (Vec::new(), Vec::new());
    for seed in 0..SEEDS {
        let plan = Plan {
            model,
            features,
            conditional: Conditional::Observational,
            always_draw: true,
            seed,
        };
        let games = Games::new(plan, x, &requests, draws);
        let start = games.mean_prediction();
        let mean = |of: &dyn Fn(usize) -> f64| vec![(0..x.len()).map(of).sum::<f64>() / n];
        faithful.push(mean(&|i| faithfulness(&games, i, weights.row(i), None)));
        monotone.push(mean(&|i| {
            monotonicity(&games, i, weights.row(i), how, start, None)
        }));
    }
    compare(
        &format!("{case}, faithfulness"),
        &node.at("faithfulness")?,
        &faithful,
        check,
    )?;
    let what = format!("{case}, monotonicity as released");
    compare(
        &what,
        &node.at("monotonicity_as_released")?,
        &monotone,
        check,
    )
}
