//! `explanations.safetensors`, `explanations_other_sets.safetensors`: every explainer on stored models.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::tensors::Tensors;
use super::golden::{CLOSED, EXPLAINED, Random, features, model, rows, x_of};
use crate::attribute::explainers::{
    Approach, KernelShap, Lime, Maple, Shapr, background, breakdown, brute_force, coalition_means,
    maple, shapley_of_background,
};
use crate::attribute::metrics::{Conditional, Games, Plan, Requests, ground_truth};
use crate::attribute::models::Model;
use crate::attribute::subsets::shapley;
use crate::attribute::{Rows, Variant, mean_and_std};

/// Rows of background of the entries bf_shap (the first training rows) and shap (rows that its masker takes).
const BRUTE_FORCE_ROWS: usize = 1000;
const SHAP_ROWS: usize = 100;
/// Seeds of ours.
const LIME_SEEDS: u64 = 4;
const MAPLE_SEEDS: u64 = 3;
/// Draws of ground-truth values that have no formula.
const TRUTH_DRAWS: usize = 6000;

/// A model with its points and training rows.
struct Case<'a> {
    name: String,
    model: Model,
    x: &'a Rows,
    train: &'a Rows,
}

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(train) = x_of(folder, EXPLAINED, "train")? else {
        return Ok(());
    };
    if let Some(tensors) = folder.tensors("explanations.safetensors")? {
        let x = rows(&tensors, "x")?;
        let points = x_of(folder, EXPLAINED, "val")?.map(|v| v.head(x.len()).values);
        check.group("shap");
        check.identical("explained points", &points.unwrap_or_default(), &x.values);
        shap_background(&tensors, &train, check)?;
        for kind in ["lr", "dtree", "mlp"] {
            let stored = model(folder, &format!("{EXPLAINED}.{kind}"), x.columns)?;
            let Some(model) = stored.filter(|_| tensors.contains(&format!("{kind}.bf_shap")))
            else {
                continue;
            };
            let case = Case {
                name: kind.into(),
                model,
                x: &x,
                train: &train,
            };
            deterministic(&tensors, &case, "", check)?;
            further(folder, &tensors, &case, check)?;
            ground_truths(folder, &tensors, &case, check)?;
        }
    }
    let Some(tensors) = folder.tensors("explanations_other_sets.safetensors")? else {
        return Ok(());
    };
    let names: Vec<String> = tensors.names().map(Into::into).collect();
    for prefix in names.iter().filter_map(|n| n.strip_suffix(".bf_shap")) {
        let set = prefix.rsplit_once('.').map_or(prefix, |(set, _)| set);
        let (Some(train), Some(val)) = (x_of(folder, set, "train")?, x_of(folder, set, "val")?)
        else {
            continue;
        };
        let n = rows(&tensors, &format!("{prefix}.bf_shap"))?.len();
        let x = val.head(n);
        let Some(model) = model(folder, prefix, x.columns)? else {
            continue;
        };
        let case = Case {
            name: prefix.into(),
            model,
            x: &x,
            train: &train,
        };
        deterministic(&tensors, &case, "other sets: ", check)?;
    }
    Ok(())
}

fn shap_background(tensors: &Tensors, train: &Rows, check: &mut Check) -> Result<()> {
    if tensors.contains("shap.background") {
        let expected = rows(tensors, "shap.background")?;
        let index = tensors.i64("shap.background_row_index")?;
        let own = background(train, expected.len());
        check.identical("rows of the background", &expected.values, &own.values);
        let named: Vec<usize> = index
            .iter()
            .filter_map(|&i| usize::try_from(i).ok())
            .collect();
        check.identical(
            "their numbers",
            &expected.values,
            &train.take(&named).values,
        );
    }
    Ok(())
}

fn flat(case: &Case<'_>, explain: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    case.x.iter().flat_map(explain).collect()
}

/// What has no randomness; arrays stand below the name of the case.
fn deterministic(tensors: &Tensors, case: &Case<'_>, note: &str, check: &mut Check) -> Result<()> {
    let (name, model, train) = (&case.name, &case.model, case.train);
    let array = |what: &str| tensors.f64(&format!("{name}.{what}"));
    check.group(format!("{note}shap"));
    let few = background(train, SHAP_ROWS);
    let got = flat(case, |x| shapley_of_background(model, x, &few));
    check.close_all(
        format!("{name}, by the model's own way"),
        &array("shap")?,
        &got,
        CLOSED,
    );
    let got = flat(case, |x| shapley(&coalition_means(model, x, &few), x.len()));
    check.close_all(
        format!("{name}, by all subsets"),
        &array("shap")?,
        &got,
        CLOSED,
    );
    check.group(format!("{note}bf-shap"));
    let many = train.head(BRUTE_FORCE_ROWS);
    let means: Vec<Vec<f64>> = case
        .x
        .iter()
        .map(|x| coalition_means(model, x, &many))
        .collect();
    let d = train.columns;
    let got: Vec<f64> = means
        .iter()
        .flat_map(|v| brute_force(v, d, 1e6, Variant::AsReleased))
        .collect();
    check.close_all(
        format!("{name}, as released"),
        &array("bf_shap")?,
        &got,
        Tolerance::both(1e-9, 2e-9),
    );
    // The released regression is Shapley's value plus v(∅)/d, up to its finite weights at the ends.
    let got: Vec<f64> = means
        .iter()
        .flat_map(|v| {
            let shift = v[0] / d as f64;
            let right = brute_force(v, d, 1e6, Variant::Correct);
            right.into_iter().map(move |s| s + shift)
        })
        .collect();
    check.close_all(
        format!("{name}, corrected plus v(∅)/d"),
        &array("bf_shap")?,
        &got,
        Tolerance::absolute(1e-6),
    );
    if tensors.contains(&format!("{name}.bf_expectation")) {
        let own: Vec<f64> = means.iter().map(|v| v[0]).collect();
        check.close_all(
            format!("{name}, expectation"),
            &array("bf_expectation")?,
            &own,
            CLOSED,
        );
    }
    check.group(format!("{note}shapr"));
    let shapr = Shapr::of(Variant::AsReleased);
    let found: Vec<(f64, Vec<f64>)> = case
        .x
        .iter()
        .map(|x| shapr.released(model, train, x))
        .collect();
    let weights: Vec<f64> = found.iter().flat_map(|(_, w)| w.clone()).collect();
    check.close_all(name.to_string(), &array("shapr")?, &weights, CLOSED);
    if tensors.contains(&format!("{name}.shapr_base")) {
        let base: Vec<f64> = found.iter().map(|(b, _)| *b).collect();
        check.close_all(
            format!("{name}, base"),
            &array("shapr_base")?,
            &base,
            CLOSED,
        );
    }
    check.group(format!("{note}breakdown"));
    let found: Vec<(Vec<usize>, Vec<f64>)> =
        case.x.iter().map(|x| breakdown(model, x, train)).collect();
    let released: Vec<f64> = found.iter().flat_map(|(_, w)| w.clone()).collect();
    check.close_all(
        format!("{name}, as released"),
        &array("breakdown_as_released")?,
        &released,
        CLOSED,
    );
    let fitting = crate::attribute::explainers::Breakdown {
        variant: Variant::Correct,
    };
    let by_feature = fitting.explain(model, train, case.x).values;
    check.close_all(
        format!("{name}, by feature"),
        &array("breakdown_by_feature")?,
        &by_feature,
        CLOSED,
    );
    if tensors.contains(&format!("{name}.breakdown_order")) {
        let order: Vec<i64> = found
            .iter()
            .flat_map(|(o, _)| o.iter().map(|&j| j as i64))
            .collect();
        let expected = tensors.i64(&format!("{name}.breakdown_order"))?;
        check.identical(format!("{name}, order"), &expected, &order);
    }
    Ok(())
}

/// The entries of the main set only.
fn further(folder: &Folder, tensors: &Tensors, case: &Case<'_>, check: &mut Check) -> Result<()> {
    let (name, model, train) = (&case.name, &case.model, case.train);
    let array = |what: &str| tensors.f64(&format!("{name}.{what}"));
    check.group("shap");
    let few = background(train, SHAP_ROWS);
    let base: Vec<f64> = case
        .x
        .iter()
        .map(|x| coalition_means(model, x, &few)[0])
        .collect();
    check.close_all(format!("{name}, base"), &array("shap_base")?, &base, CLOSED);
    let exact = array("interventional_shapley_exact_bg1000")?;
    let got = flat(case, |x| shapley_of_background(model, x, train));
    check.close_all(format!("{name}, all training rows"), &exact, &got, CLOSED);
    check.group("kernel-shap");
    let got = KernelShap::default().explain(model, train, case.x, 0)?;
    check.close_all(
        name.to_string(),
        &array("kernelshap_bg1000")?,
        &got.values,
        CLOSED,
    );
    check.group("random");
    // Only the distribution counts: mean and variance of the stored numbers and of ours.
    let stored = array("random")?;
    let own = crate::attribute::explainers::Method::Random.explain(
        model,
        train,
        train,
        Variant::Correct,
        0,
    )?;
    for (who, values) in [("stored", &stored), ("ours", &own.values)] {
        let (mean, std) = mean_and_std(values, 1);
        let n = values.len() as f64;
        let allowed = Tolerance::absolute(4.5 / n.sqrt());
        check.close(format!("{name}, mean of {who}"), 0.0, mean, allowed);
        check.close(
            format!("{name}, deviation of {who}"),
            1.0,
            std,
            Tolerance::absolute(4.5 / (2.0 * n).sqrt()),
        );
    }
    let json = folder.json("explanations.json")?;
    let info = json.as_ref().and_then(|j| j.root().get("info"));
    check.group("lime, end to end");
    let lime = Lime::default();
    let run = |lime: &Lime| -> Vec<Vec<f64>> {
        (0..LIME_SEEDS)
            .map(|s| lime.explain(model, train, case.x, s).values)
            .collect()
    };
    let ours = run(&lime);
    let seeds = match info.as_ref().and_then(|i| i.get("lime_seeds")) {
        Some(node) => node.usize()?,
        None => 10,
    };
    let (mean, std) = (array("lime_mean")?, array("lime_std")?);
    let random = Random {
        mean: &mean,
        std: &std,
        seeds,
    };
    random.check(check, &format!("{name}, width 0.5√d"), &ours);
    if tensors.contains(&format!("{name}.lime_kw075_seed0")) {
        let wide = run(&Lime {
            relative_width: 0.75,
            ..lime
        });
        let random = Random {
            mean: &array("lime_kw075_seed0")?,
            std: &std,
            seeds: 1,
        };
        random.check(check, &format!("{name}, width 0.75√d"), &wide);
    }
    check.group("maple, end to end");
    let settings = maple::Settings::default();
    let fitted = (0..MAPLE_SEEDS).map(|seed| Maple::fit(&settings, model, train, seed));
    let ours: Vec<Vec<f64>> = fitted.map(|m| m.explain(case.x).values).collect();
    let retained = match info
        .as_ref()
        .and_then(|i| i.get(&format!("{name}.maple_retain")))
    {
        Some(node) => node.usizes()?,
        None => vec![0; 5],
    };
    let (mean, std) = (array("maple_mean")?, array("maple_std")?);
    let random = Random {
        mean: &mean,
        std: &std,
        seeds: retained.len(),
    };
    random.check(check, name, &ours);
    Ok(())
}

/// Observational Shapley values of the known distribution.
fn ground_truths(
    folder: &Folder,
    tensors: &Tensors,
    case: &Case<'_>,
    check: &mut Check,
) -> Result<()> {
    let Some(features) = features(folder)? else {
        return Ok(());
    };
    check.group("gt-shapley");
    let (name, d) = (&case.name, case.x.columns);
    let plan = Plan {
        model: &case.model,
        features: &features,
        conditional: Conditional::Observational,
        always_draw: false,
        seed: 1,
    };
    let requests = Requests::everything(case.x.len(), d);
    let games = Games::new(plan, case.x, &requests, TRUTH_DRAWS);
    let truth = ground_truth(&games, d, Variant::Correct, None);
    if tensors.contains(&format!("{name}.observational_shapley_analytic")) {
        let expected = tensors.f64(&format!("{name}.observational_shapley_analytic"))?;
        check.close_all(
            format!("{name}, closed form"),
            &expected,
            &truth.values,
            CLOSED,
        );
        let own: Vec<f64> = (0..case.x.len()).map(|i| games.value(i, 0, None)).collect();
        let expected = tensors.f64(&format!("{name}.v_empty"))?;
        check.close_all(format!("{name}, v(∅)"), &expected, &own, CLOSED);
    }
    let mean = tensors.f64(&format!("{name}.gt_shapley_mean"))?;
    let std = tensors.f64(&format!("{name}.gt_shapley_std"))?;
    let json = folder.json("explanations.json")?;
    let info = json.as_ref().and_then(|j| j.root().get("info"));
    let seeds = match info.as_ref().and_then(|i| i.get("gt_seeds")) {
        Some(node) => node.usize()?,
        None => 10,
    };
    if let Some(info) = &info {
        skip_notes(info);
    }
    // The released regression has no intercept.
    let own: Vec<f64> = (0..case.x.len())
        .flat_map(|i| {
            let shift = games.value(i, 0, None) / d as f64;
            truth
                .row(i)
                .iter()
                .map(move |v| v + shift)
                .collect::<Vec<f64>>()
        })
        .collect();
    // One run of draws has the deviation of 20,000 draws times √(20,000/ours); several runs of it stand for that.
    let factor = match games.draws {
        0 => 0.0,
        n => (20_000.0 / n as f64).sqrt(),
    };
    let spread = (1.0 / seeds as f64 + factor * factor).sqrt() / (1.0 + 1.0 / seeds as f64).sqrt();
    // A deviation of ten seeds may be small by chance: at least that of all values together.
    let typical = (std.iter().map(|s| s * s).sum::<f64>() / std.len().max(1) as f64).sqrt();
    let widened: Vec<f64> = std.iter().map(|s| s.max(typical) * spread).collect();
    let random = Random {
        mean: &mean,
        std: &widened,
        seeds,
    };
    random.check(check, &format!("{name}, plus v(∅)/d"), &[own]);
    check.group("shapr");
    // Other approaches have no golden numbers: the Gaussian one, fitted to the training rows, is near the truth of Gaussian data.
    let gaussian = Shapr {
        approach: Approach::Gaussian,
        ..Shapr::of(Variant::Correct)
    };
    let fitted = gaussian.explain(&case.model, case.train, case.x, 1)?;
    let near = crate::attribute::metrics::distances(&fitted, &truth).correlation;
    check.close(
        format!("{name}, gaussian approach: correlation with the truth"),
        1.0,
        near,
        Tolerance::absolute(0.1),
    );
    Ok(())
}

/// Versions, and numbers that say how the arrays were checked.
fn skip_notes(info: &super::super::json::Node<'_>) {
    info.skip_fields(&["versions", "lime_kernel_width_used"]);
    let Ok(fields) = info.fields() else {
        return;
    };
    for (key, node) in fields {
        if key.ends_with("_maxdiff") || key.starts_with("shap_algorithm") {
            node.skip();
        }
    }
}
