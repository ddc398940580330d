//! Batch scores of the package: its step towards the sample, flags, sets and rates.

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::Tensors;
use super::super::{ConformanceError, Result};
use super::{latent, latents, logits, table, wide};
use crate::metrics::latent::released::{
    Order, ReleasedScores, bounded, flags, one_hot, run_average, score_batch, sets, transformed,
};
use crate::metrics::latent::space::Space;
use crate::metrics::latent::{Explanations, LATENT, Latent};

const RATE: Tolerance = Tolerance::absolute(1e-6);
const BOUNDED: Tolerance = Tolerance::both(2e-7, 1e-6);

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(arrays), Some(json)) = (
        folder.tensors("batch_metrics.safetensors")?,
        folder.json("batch_metrics.json")?,
    ) else {
        for arrays in folder.tensors("batch_metrics.safetensors")?.iter() {
            arrays.skip_all();
            check.absent("batch_metrics: all cases, without batch_metrics.json");
        }
        if let Some(json) = folder.json("batch_metrics.json")? {
            json.root().skip();
            check.absent("batch_metrics: all cases, without batch_metrics.safetensors");
        }
        return Ok(());
    };
    check.group("batch_metrics");
    let root = json.root();
    check.close("tau", root.at("tau")?.f64()?, 0.15, RATE);
    check.close(
        "softmax_scale",
        root.at("softmax_scale")?.f64()?,
        -3.0,
        RATE,
    );
    let mut scored = Vec::new();
    for case in root.at("cases")?.items()? {
        let number = case.at("case")?.usize()?;
        scored.push((number, run_case(&arrays, number, &case, check)?));
    }
    let Some(averages) = root.get("run_averages") else {
        return Ok(());
    };
    for (i, run) in averages.items()?.iter().enumerate() {
        let mut batches = Vec::new();
        for number in run.at("cases")?.usizes()? {
            let found = scored.iter().find(|(n, _)| *n == number);
            let found = found.ok_or_else(|| run.wrong("numbers of cases"))?;
            batches.push(found.1);
        }
        let mean = run_average(&batches);
        rates(check, &format!("run {i}"), run, &mean, true)?;
    }
    Ok(())
}

fn rates(
    check: &mut Check,
    what: &str,
    node: &Node<'_>,
    got: &ReleasedScores,
    with_sets: bool,
) -> Result<()> {
    let mut all = vec![
        ("sce", got.successful),
        ("non_causal_flip", got.non_causal_flip),
        ("causal_flip", got.causal_flip),
        ("trivial", got.trivial),
    ];
    if with_sets {
        all.push(("cardinality_released", got.cardinality));
    }
    for (name, got) in all {
        check.close(format!("{what} {name}"), node.at(name)?.f64()?, got, RATE);
    }
    Ok(())
}

fn run_case(
    arrays: &Tensors,
    number: usize,
    case: &Node<'_>,
    check: &mut Check,
) -> Result<ReleasedScores> {
    let what = format!("c{number:03}");
    let name = |field: &str| format!("{what}.{field}");
    let kind = case.at("kind")?.str()?;
    let mask = case.at("success_mask")?.str()?;
    // What a case is like, for people.
    case.skip_fields(&[
        "l1_ties",
        "unstable_sort_gives_same_lists",
        "cardinality_with_unstable_sort",
        "min_distance_to_threshold",
        "min_l1_gap",
    ]);
    let tables = [
        table(arrays, &name("char_weight"))?,
        table(arrays, &name("font_weight"))?,
    ];
    let moments = (
        latent(arrays, &name("latent_mean"))?,
        latent(arrays, &name("latent_std"))?,
    );
    let open = ([f32::MIN; LATENT], [f32::MAX; LATENT]);
    let space = Space::new([&tables[0], &tables[1]], moments, open).of(&what)?;
    let z = latents(arrays, &name("z"))?;
    let raw = latents(arrays, &name("z_cf_raw"))?;
    let expected = latents(arrays, &name("z_cf_bounded"))?;
    let (before, after) = (
        logits(arrays, &name("logits"))?,
        logits(arrays, &name("logits_cf"))?,
    );
    let given = Explanations {
        z: &z,
        logits: &before,
        z_cf: &expected,
        logits_cf: &after,
    };
    let n = given.per_sample().of(&what)?;
    check.equal(format!("{what} b"), &case.at("b")?.usize()?, &z.len());
    let wanted = case.at("n_explanations")?.usize()?;
    check.equal(format!("{what} n_explanations"), &wanted, &n);
    let successes = case.at("n_success_from_logits")?.usize()?;
    let step = |(i, z_cf): (usize, &Latent)| bounded(&space, &z[i / n], z_cf);
    let stepped: Vec<Latent> = raw.iter().enumerate().map(step).collect();
    // Of mixed cases without success the data's page says that they hold the sample itself.
    let back = expected.iter().enumerate().all(|(i, e)| *e == z[i / n]);
    if !(kind == "mixed" && successes == 0 && back) {
        check.close_all(
            name("z_cf_bounded"),
            &wide(expected.as_flattened()),
            &wide(stepped.as_flattened()),
            BOUNDED,
        );
    }
    for (field, of) in [
        (
            "z_cf_transformed",
            transformed as fn(&Space, &Latent) -> Vec<f64>,
        ),
        ("z_onehot", one_hot),
    ] {
        if arrays.contains(&name(field)) {
            let values = arrays.f32(&name(field))?;
            let rows = if field == "z_onehot" { &z } else { &expected };
            let got: Vec<f64> = rows.iter().flat_map(|z| of(&space, z)).collect();
            check.close_all(name(field), &wide(&values.data), &got, RATE);
        }
    }
    let of_logits = flags(&space, &given).of(&what)?;
    let of_logits: Vec<bool> = of_logits.iter().map(|f| f.successful()).collect();
    let count = of_logits.iter().filter(|s| **s).count();
    check.equal(format!("{what} n_success_from_logits"), &successes, &count);
    let successful: Vec<bool> = { arrays.i64(&name("successful"))?.into_iter() }
        .map(|s| s != 0)
        .collect();
    match mask {
        "from logits" => check.equal(name("successful"), &successful, &of_logits),
        forced if forced.starts_with("forced:") => {}
        _ => {
            return Err(case
                .at("success_mask")?
                .wrong("`from logits` or `forced:…`"));
        }
    }
    let mut scores = score_batch(&space, &given).of(&what)?;
    rates(check, &what, case, &scores, false)?;
    check.close(
        format!("{what} estimator_flip"),
        case.at("estimator_flip")?.f64()?,
        scores.estimator_flip,
        RATE,
    );
    if successful.len() != given.z_cf.len() {
        let found = successful.len().to_string();
        return Err(arrays.wrong(&name("successful"), "a flag of each counterfactual", found));
    }
    for (order, word) in [(Order::Released, "released"), (Order::Intended, "intended")] {
        let found = sets(&space, &given, &successful, order).of(&what)?;
        let field = format!("selected_{word}");
        let expected = lists(arrays, &name(&field), n)?;
        check.equal(name(&field), &expected, &found);
        let sizes: Vec<usize> = found.iter().map(Vec::len).collect();
        let wanted = case.at(&format!("set_sizes_{word}"))?.usizes()?;
        check.equal(format!("{what} set_sizes_{word}"), &wanted, &sizes);
        let some: Vec<usize> = sizes.into_iter().filter(|s| *s > 0).collect();
        let mean = some.iter().sum::<usize>() as f64 / some.len().max(1) as f64;
        let field = format!("cardinality_{word}");
        check.close(
            format!("{what} {field}"),
            case.at(&field)?.f64()?,
            mean,
            RATE,
        );
        if order == Order::Released {
            scores.cardinality = mean;
        }
    }
    Ok(scores)
}

/// Lists padded with −1.
fn lists(arrays: &Tensors, name: &str, n: usize) -> Result<Vec<Vec<usize>>> {
    let values = arrays.i64(name)?;
    let index = |v: &i64| -> Option<std::result::Result<usize, ConformanceError>> {
        match *v {
            -1 => None,
            v => Some(
                usize::try_from(v).map_err(|_| arrays.wrong(name, "numbers or -1", v.to_string())),
            ),
        }
    };
    values
        .chunks(n.max(1))
        .map(|row| row.iter().filter_map(index).collect())
        .collect()
}
