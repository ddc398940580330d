//! `metrics.safetensors`, `metrics.json`: metrics on stored draws and perturbations.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::Tensors;
use super::golden::{CLOSED, EXPLAINED, model, rows};
use crate::attribute::metrics::{
    Games, Order, Steps, distances, faithfulness, faithfulness_adding,
    faithfulness_with_aliased_baseline, faithfulness_with_baseline, ground_truth, infidelity_of,
    monotonicity, monotonicity_with_aliased_baseline, monotonicity_with_baseline,
};
use crate::attribute::models::Model;
use crate::attribute::subsets::{ordered, shapley};
use crate::attribute::{Rows, Variant};

/// The released kernel regression has weights of 10⁶: it agrees to what they leave of 53 bits.
const REGRESSION: Tolerance = Tolerance::both(1e-9, 2e-9);

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(tensors), Some(json)) = (
        folder.tensors("metrics.safetensors")?,
        folder.json("metrics.json")?,
    ) else {
        return Ok(());
    };
    json.root().skip_fields(&["self_check_abs_diff"]);
    let x = rows(&tensors, "x")?;
    check.group("metrics on stored draws");
    super::datasets::masks(&tensors, check)?;
    // Labels of the points; no metric here needs them.
    tensors.skip("y");
    for kind in ["lr", "dtree", "mlp"] {
        let name = format!("{EXPLAINED}.{kind}");
        let stored = model(folder, &name, x.columns)?;
        let Some(model) = stored.filter(|_| tensors.contains(&format!("{kind}.prediction"))) else {
            continue;
        };
        let games = games(&tensors, kind, &model, &x, check)?;
        truths(&tensors, kind, &games, &x, check)?;
        for weights in weight_sets(&tensors) {
            let case = format!("{kind}.{weights}");
            let own = rows(&tensors, &format!("weights.{weights}"))?;
            check.group("metrics on stored draws");
            if let Some(node) = json
                .root()
                .get("observational_fixed_draws")
                .and_then(|n| n.get(&case))
            {
                observational(&case, &node, &games, &own, check)?;
            }
            check.group("metrics, interventional");
            if let Some(node) = json.root().get("interventional").and_then(|n| n.get(&case)) {
                interventional(&case, &node, &model, &x, &own, check)?;
            }
            check.group("gt-shapley on stored draws");
            if let Some(node) = json.root().get("gt_fixed_draws").and_then(|n| n.get(&case)) {
                to_truth(&tensors, kind, &case, &node, &own, check)?;
            }
            check.group("infidelity on stored perturbations");
            if let Some(node) = json
                .root()
                .get("infidelity_fixed_draws")
                .and_then(|n| n.get(&case))
            {
                infidelity(&tensors, &case, &node, &model, &x, &own, check)?;
            }
        }
        let zero = format!("{kind}.zero_weights");
        if let Some(node) = json
            .root()
            .get("infidelity_fixed_draws")
            .and_then(|n| n.get(&zero))
        {
            check.group("infidelity on stored perturbations");
            let nothing = |variant| infidelity_of(&[1.0, 2.0], &[0.0, 0.0], variant);
            let released = nothing(Variant::AsReleased).to_string().to_lowercase();
            check.equal(format!("{zero}, as released"), node.str()?, &released[..]);
            check.equal(
                format!("{zero}, corrected: E[Δf²]"),
                &2.5,
                &nothing(Variant::Correct),
            );
        }
    }
    Ok(())
}

pub fn weight_sets(tensors: &Tensors) -> Vec<String> {
    let names = tensors.names().filter_map(|n| n.strip_prefix("weights."));
    names.map(Into::into).collect()
}

/// Values of all subsets on the stored draws.
fn games(
    tensors: &Tensors,
    kind: &str,
    model: &Model,
    x: &Rows,
    check: &mut Check,
) -> Result<Games> {
    let d = x.columns;
    let masks = ordered(d);
    let draws = tensors.f64("conditional_draws")?;
    let per_mask = match tensors.get("conditional_draws")?.shape[..] {
        [points, subsets, n, columns]
            if points == x.len() && subsets == masks.len() && columns == d =>
        {
            n
        }
        ref other => {
            let expected = format!("[{}, {}, draws, {d}]", x.len(), masks.len());
            return Err(tensors.wrong("conditional_draws", &expected, format!("{other:?}")));
        }
    };
    let predictions = model.predict(&Rows::new(draws, d));
    let means: Vec<f64> = predictions
        .chunks_exact(per_mask)
        .map(|c| c.iter().sum::<f64>() / per_mask as f64)
        .collect();
    let expected_means = tensors.f64(&format!("{kind}.draw_mean_prediction"))?;
    check.close_all(
        format!("{kind}, mean predictions of draws"),
        &expected_means,
        &means,
        CLOSED,
    );
    if expected_means.len() != means.len() {
        let found = format!("{} values", expected_means.len());
        let name = format!("{kind}.draw_mean_prediction");
        return Err(tensors.wrong(&name, &format!("{} values", means.len()), found));
    }
    let own = model.predict(x);
    let expected = tensors.f64(&format!("{kind}.prediction"))?;
    check.close_all(format!("{kind}, predictions"), &expected, &own, CLOSED);
    // The stored means, bit for bit: a tree's changes often tie, and a tie must stay one.
    let values: Vec<Vec<f64>> = expected_means
        .chunks_exact(masks.len())
        .map(|row| {
            let mut by_number = vec![0.0; row.len()];
            for (mask, value) in masks.iter().zip(row) {
                by_number[*mask as usize] = *value;
            }
            by_number
        })
        .collect();
    Ok(Games::given(d, own, &values))
}

fn truths(tensors: &Tensors, kind: &str, games: &Games, x: &Rows, check: &mut Check) -> Result<()> {
    check.group("gt-shapley on stored draws");
    let d = x.columns;
    let released = ground_truth(games, d, Variant::AsReleased, None);
    let expected = tensors.f64(&format!("{kind}.gt_shapley_fixed_draws"))?;
    check.close_all(
        format!("{kind}, as released"),
        &expected,
        &released.values,
        REGRESSION,
    );
    let right = ground_truth(games, d, Variant::Correct, None);
    let expected = tensors.f64(&format!("{kind}.shapley_of_fixed_draws"))?;
    check.close_all(
        format!("{kind}, corrected"),
        &expected,
        &right.values,
        CLOSED,
    );
    let first: Vec<f64> = (0..1u64 << d).map(|s| games.value(0, s, None)).collect();
    check.close_all(
        format!("{kind}, first point by its game"),
        right.row(0),
        &shapley(&first, d),
        CLOSED,
    );
    Ok(())
}

fn observational(
    case: &str,
    node: &Node<'_>,
    games: &Games,
    weights: &Rows,
    check: &mut Check,
) -> Result<()> {
    let points = games.points();
    let start = games.mean_prediction();
    let monotone = |i: usize, how| monotonicity(games, i, weights.row(i), how, start, None);
    let per_point = node.at("per_point")?;
    type Value<'a> = Box<dyn Fn(usize) -> f64 + 'a>;
    let entries: [(&str, &str, Value<'_>); 6] = [
        (
            "faithfulness_dec",
            "faithfulness_dec",
            Box::new(|i| faithfulness(games, i, weights.row(i), None)),
        ),
        (
            "faithfulness_inc",
            "faithfulness_inc",
            Box::new(|i| faithfulness_adding(games, i, weights.row(i), None)),
        ),
        (
            "monotonicity_inc_as_released",
            "monotonicity_inc_as_released",
            Box::new(|i| monotone(i, (Order::LeastFirst, Steps::ByFeature))),
        ),
        (
            "monotonicity_dec_as_released",
            "monotonicity_dec_as_released",
            Box::new(|i| monotone(i, (Order::MostFirst, Steps::ByFeature))),
        ),
        (
            "monotonicity_inc_sorted_recomputed",
            "monotonicity_inc_sorted",
            Box::new(|i| monotone(i, (Order::LeastFirst, Steps::InOrder))),
        ),
        (
            "monotonicity_dec_sorted_recomputed",
            "monotonicity_dec_sorted",
            Box::new(|i| monotone(i, (Order::MostFirst, Steps::InOrder))),
        ),
    ];
    for (key, single, value) in entries {
        let own: Vec<f64> = (0..points).map(value).collect();
        let mean = own.iter().sum::<f64>() / points as f64;
        check.close(format!("{case}, {key}"), node.at(key)?.f64()?, mean, CLOSED);
        let expected = per_point.at(single)?.f64s()?;
        check.close_all(format!("{case}, {single}, points"), &expected, &own, CLOSED);
    }
    Ok(())
}

fn interventional(
    case: &str,
    node: &Node<'_>,
    model: &Model,
    x: &Rows,
    weights: &Rows,
    check: &mut Check,
) -> Result<()> {
    let baseline = x.means();
    let repaired = |steps| monotonicity_with_baseline(model, x, weights, &baseline, steps);
    let entries = [
        (
            "faithfulness_as_released",
            faithfulness_with_aliased_baseline(model, x, weights),
        ),
        (
            "faithfulness_fresh_copy",
            faithfulness_with_baseline(model, x, weights, &baseline),
        ),
        (
            "monotonicity_as_released",
            monotonicity_with_aliased_baseline(model, x, weights),
        ),
        (
            "monotonicity_fresh_copy_index_order",
            repaired(Steps::ByFeature),
        ),
        ("monotonicity_fresh_copy_sorted", repaired(Steps::InOrder)),
    ];
    for (key, got) in entries {
        check.close(format!("{case}, {key}"), node.at(key)?.f64()?, got, CLOSED);
    }
    Ok(())
}

fn to_truth(
    tensors: &Tensors,
    kind: &str,
    case: &str,
    node: &Node<'_>,
    weights: &Rows,
    check: &mut Check,
) -> Result<()> {
    let truth = rows(tensors, &format!("{kind}.gt_shapley_fixed_draws"))?;
    let own = distances(weights, &truth);
    for (key, got) in [
        ("shapley_mse", own.mse),
        ("shapley_rmse", own.rmse_as_released),
        ("shapley_mae", own.mae),
        ("shapley_corr", own.correlation),
    ] {
        check.close(format!("{case}, {key}"), node.at(key)?.f64()?, got, CLOSED);
    }
    Ok(())
}

fn infidelity(
    tensors: &Tensors,
    case: &str,
    node: &Node<'_>,
    model: &Model,
    x: &Rows,
    weights: &Rows,
    check: &mut Check,
) -> Result<()> {
    let values = tensors.f64("infidelity_perturbation")?;
    let (points, per_point) = match tensors.get("infidelity_perturbation")?.shape[..] {
        [points, n, d] if d == x.columns && points <= x.len() => (points, n),
        ref other => {
            let expected = "[points, perturbations, features]";
            return Err(tensors.wrong("infidelity_perturbation", expected, format!("{other:?}")));
        }
    };
    let size = per_point * x.columns;
    let own: Vec<f64> = (0..points)
        .map(|i| {
            let at_point = model.predict_one(x.row(i));
            let (mut changes, mut along) = (Vec::new(), Vec::new());
            for by in values[i * size..(i + 1) * size].chunks_exact(x.columns) {
                let row: Vec<f64> = x.row(i).iter().zip(by).map(|(x, b)| x - b).collect();
                changes.push(at_point - model.predict_one(&row));
                along.push(by.iter().zip(weights.row(i)).map(|(b, w)| b * w).sum());
            }
            infidelity_of(&changes, &along, Variant::AsReleased)
        })
        .collect();
    check.close_all(case, &node.f64s()?, &own, CLOSED);
    Ok(())
}
