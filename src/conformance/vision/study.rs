//! `dbvce_expected.json`, what needs no network: D_p of the \[diffusion-vce\] study (1e-5 relative) and the uint8 quirk
//! (exact).

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::rows;
use crate::metrics::lp::{LpNorms, per_image, whole_batch};
use crate::metrics::published::wrap_to_uint8;
use crate::stats::interval::mean;
use crate::tensor::Array;

const NORM: Tolerance = Tolerance::relative(1e-5);

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("dbvce_expected.json")? else {
        return Ok(());
    };
    let root = json.root();
    check.group("study: uint8 quirk");
    if let Some(examples) = root.get("uint8_quirk_examples") {
        for example in examples.items()? {
            let value = example.at("value")?.f64()?;
            let wrapped = wrap_to_uint8(value as f32);
            check.equal(
                format!("{value}"),
                &example.at("uint8")?.usize()?,
                &wrapped.into(),
            );
        }
    }
    let Some(batch) = folder.tensors("dbvce_batch.safetensors")? else {
        root.skip_fields(&["D_p", "value_ranges"]);
        check.absent("D_p and the uint8 quirk (dbvce_batch.safetensors is absent)");
        return Ok(());
    };
    let init = batch.f32("init_images")?;
    let samples = batch.f32("samples")?;
    if let Some(quirk) = folder.tensors("dbvce_uint8_quirk.safetensors")? {
        for (images, name) in [(&init, "init_uint8"), (&samples, "samples_uint8")] {
            let got: Vec<u8> = images.data.iter().map(|&v| wrap_to_uint8(v)).collect();
            check.identical(name, quirk.u8(name)?.1, &got);
        }
    }
    if let Some(ranges) = root.get("value_ranges") {
        for (side, range) in ranges.fields()? {
            let images = match side {
                "init" => &init,
                "samples" => &samples,
                _ => continue,
            };
            let fold = |start, pick: fn(f32, f32) -> f32| {
                f64::from(images.data.iter().copied().fold(start, pick))
            };
            let got = vec![
                fold(f32::INFINITY, f32::min),
                fold(f32::NEG_INFINITY, f32::max),
            ];
            check.equal(format!("{side} range"), &range.f64s()?, &got);
        }
    }
    match root.get("D_p") {
        Some(cases) => distances(&cases, &init, &samples, check),
        None => Ok(()),
    }
}

fn distances(cases: &Node<'_>, init: &Array, samples: &Array, check: &mut Check) -> Result<()> {
    check.group("study: D_p");
    let sums = per_image(&init.data, &samples.data, rows(init).1).of("D_p")?;
    for (p, case) in cases.fields()? {
        let norm: fn(LpNorms) -> f64 = match p {
            "1" => |n| n.l1,
            "1.5" => |n| n.l1_5,
            "2" => |n| n.l2,
            _ => continue,
        };
        let images: Vec<f64> = sums.iter().map(|s| norm(s.norms())).collect();
        let whole = norm(whole_batch(&sums).norms());
        for (field, expected) in case.fields()? {
            let what = format!("D_{p} {field}");
            match field {
                "study_value_norm_of_whole_batch" | "whole_batch_float64" => {
                    check.close(what, expected.f64()?, whole, NORM);
                }
                "mean_per_image_float64" => {
                    let average = mean(&images).unwrap_or(f64::NAN);
                    check.close(what, expected.f64()?, average, NORM);
                }
                "per_image" | "per_image_float64" => {
                    check.close_all(what, &expected.f64s()?, &images, NORM);
                }
                _ => {}
            }
        }
    }
    Ok(())
}
