//! `l2x.safetensors`: the choosing networks forward, and the released training by its mean over seeds.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::tensors::Tensors;
use super::golden::{EXPLAINED, Random, model, rows, x_of};
use crate::attribute::Variant;
use crate::attribute::explainers::L2x;
use crate::attribute::explainers::l2x::{Chooser, shares, top};

const SEEDS: u64 = 3;

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(tensors) = folder.tensors("l2x.safetensors")? else {
        return Ok(());
    };
    check.group("l2x");
    let x = rows(&tensors, "x")?;
    let mut chosen = Vec::new();
    for k in 1..=x.columns {
        let name = |what: &str| format!("selector.k{k}.{what}");
        if !tensors.contains(&name("w0")) {
            break;
        }
        let layer = |at: usize| -> Result<(Vec<f32>, Vec<f32>)> {
            let of = |what: String| tensors.f32_or_nan(&name(&what));
            Ok((of(format!("w{at}"))?, of(format!("b{at}"))?))
        };
        let chooser = Chooser {
            layers: [layer(0)?, layer(1)?, layer(2)?],
        };
        let logits: Vec<Vec<f32>> = x.iter().map(|x| chooser.logits(x)).collect();
        let expected = tensors.f32_or_nan(&name("logits"))?;
        check.close_to_peak(
            format!("k = {k}, logits"),
            &expected,
            &logits.concat(),
            1e-5,
        );
        let output: Vec<Vec<f64>> = logits.iter().map(|l| top(l, k)).collect();
        let expected = tensors.f64(&name("output"))?;
        check.identical(
            format!("k = {k}, chosen features"),
            &expected,
            &output.concat(),
        );
        chosen.push(output);
    }
    if tensors.contains("seed0.attribution") {
        let expected = tensors.f64("seed0.attribution")?;
        let got = shares(&chosen, x.columns).values;
        check.close_all(
            "weights of the stored networks",
            &expected,
            &got,
            Tolerance::absolute(1e-6),
        );
    }
    trained(folder, &tensors, &x, check)
}

fn trained(
    folder: &Folder,
    tensors: &Tensors,
    x: &crate::attribute::Rows,
    check: &mut Check,
) -> Result<()> {
    let json = folder.json("l2x.json")?;
    let mut seeds = 10;
    if let Some(json) = &json {
        let root = json.root();
        root.skip_fields(&[
            "tensorflow",
            "weights_type",
            "full_net_layers",
            "fit_wall_cpu_seconds",
        ]);
        for (key, node) in root.fields()? {
            if key.starts_with("own_topk") {
                node.skip();
            }
        }
        if let Some(node) = root.get("seeds") {
            seeds = node.usize()?;
        }
        if let Some(node) = root.get("optimizer_iterations") {
            let released = L2x::of(Variant::AsReleased);
            let rows = x_of(folder, EXPLAINED, "train")?.map_or(0, |r| r.len());
            let steps = released.epochs * rows.div_ceil(released.batch).max(1);
            check.equal("steps of training, as released", &node.usize()?, &steps);
        }
    }
    let (Some(train), Some(model)) = (
        x_of(folder, EXPLAINED, "train")?,
        model(folder, &format!("{EXPLAINED}.mlp"), x.columns)?,
    ) else {
        return Ok(());
    };
    if !tensors.contains("attribution_mean") {
        return Ok(());
    }
    let mut ours = Vec::new();
    for seed in 0..SEEDS {
        ours.push(
            L2x::of(Variant::AsReleased)
                .explain(&model, &train, x, seed)?
                .values,
        );
    }
    let (mean, std) = (
        tensors.f64("attribution_mean")?,
        tensors.f64("attribution_std")?,
    );
    let random = Random {
        mean: &mean,
        std: &std,
        seeds,
    };
    random.check(check, "trained here, as released", &ours);
    if let Some(node) = json
        .as_ref()
        .and_then(|j| j.root().get("unique_values_times_15"))
    {
        let known = node.f64s()?;
        let total = (x.columns * (x.columns + 1) / 2) as f64;
        let strange = ours
            .concat()
            .iter()
            .filter(|w| !known.iter().any(|k| (*w * total - k).abs() < 1e-6))
            .count();
        check.equal("weights that are no such share", &0, &strange);
    }
    Ok(())
}
