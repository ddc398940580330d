//! What the study measures on a batch, by its own code: 1e-5 relative; counts, bytes and classes exact.

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::pictures::pixels;
use super::super::tensors::{Tensors, rows};
use super::super::{ConformanceError, Result};
use super::classifiers::logits;
use super::networks::Networks;
use super::{close, images, numbers, per_image};
use crate::images::{Filter, Image, center_crop, resize};
use crate::metrics::Matrix;
use crate::metrics::lp::{per_image as differences, whole_batch};
use crate::metrics::published::{rescale_batch_by_min_max, wrap_to_uint8};
use crate::metrics::validity::{Judgement, Validity, validity};
use crate::tensor::Array;
use crate::tensor::candle::Differentiable;

const SCALAR: Tolerance = Tolerance::relative(1e-5);
const RESCALED: f64 = 1e-6;
/// Judged first, then asked as an oracle together with the others.
const CLASSIFIER: &str = "classifier";

pub fn run(
    networks: &Networks<'_, impl Differentiable>,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    let (Some(json), Some(stored)) = (
        folder.json("batch_metrics.json")?,
        folder.tensors("batch_metrics.safetensors")?,
    ) else {
        return Ok(());
    };
    check.group("batch measurements");
    let root = json.root();
    let originals = images(&stored, "init_images", None)?;
    let samples = images(&stored, "samples", Some(&originals))?;
    quirks(&stored, &root, &originals, &samples, check)?;
    distances(&root, &originals, &samples, check)?;
    opinions(networks, &stored, &root, &samples, check)?;
    preprocessing(folder, &stored, &root, check)
}

/// Bytes that wrap, and scaling by the extremes of a whole batch.
fn quirks(
    stored: &Tensors,
    root: &Node<'_>,
    originals: &Array,
    samples: &Array,
    check: &mut Check,
) -> Result<()> {
    let wrapped =
        |values: &[f32]| -> Vec<u8> { values.iter().map(|&v| wrap_to_uint8(v)).collect() };
    for (name, batch) in [("init", originals), ("samples", samples)] {
        let bytes = format!("{name}_uint8_wrapped");
        check.identical(&bytes, stored.u8(&bytes)?.1, &wrapped(&batch.data));
        let scaled = format!("{name}_minmax_pm1");
        let got = Array {
            shape: batch.shape.clone(),
            data: rescale_batch_by_min_max(&batch.data).of(&scaled)?,
        };
        close(check, &scaled, &stored.f32(&scaled)?, &got, RESCALED);
    }
    let cast = wrapped(&stored.f32("cast.in")?.data);
    check.identical("cast.out", stored.u8("cast.out")?.1, &cast);
    let listed: Vec<f32> = root
        .at("cast_in")?
        .f64s()?
        .iter()
        .map(|&v| v as f32)
        .collect();
    let got: Vec<usize> = wrapped(&listed).into_iter().map(usize::from).collect();
    check.equal("cast_out", &root.at("cast_out")?.usizes()?, &got);
    Ok(())
}

/// One norm over the whole batch.
fn distances(root: &Node<'_>, originals: &Array, samples: &Array, check: &mut Check) -> Result<()> {
    let sums = differences(&originals.data, &samples.data, rows(originals).1).of("lp_norm")?;
    let norms = whole_batch(&sums).norms();
    for (field, value) in root.fields()? {
        let got = match field {
            "lp_norm_1" => norms.l1,
            "lp_norm_1.5" => norms.l1_5,
            "lp_norm_2" => norms.l2,
            _ => continue,
        };
        check.close(field, value.f64()?, got, SCALAR);
    }
    Ok(())
}

/// What the judged classifier and the oracles say of the altered images.
fn opinions(
    networks: &Networks<'_, impl Differentiable>,
    stored: &Tensors,
    root: &Node<'_>,
    samples: &Array,
    check: &mut Check,
) -> Result<()> {
    let labels = per_image(stored, "labels", samples)?;
    let targets = per_image(stored, "targets", samples)?;
    let names = stored.names().filter_map(|n| n.strip_prefix("pred."));
    let mut judges: Vec<(String, Array)> = Vec::new();
    for name in names {
        let stored_as = format!("pred.{name}");
        let Some(guide) = networks.guide(name, check)? else {
            stored.skip(&stored_as);
            check.absent(format!("batch_metrics: what {name} says"));
            continue;
        };
        let found = logits(&*guide, samples, &networks.on.device(), name)?;
        let matrix = matrix(name, &found)?;
        let got = crate::metrics::validity::predictions(name, matrix).of(name)?;
        check.equal(&stored_as, &numbers(stored, &stored_as)?, &got);
        judges.push((name.to_owned(), found));
    }
    let Some(at) = judges.iter().position(|(name, _)| name == CLASSIFIER) else {
        let own = root.fields()?;
        let own = own
            .iter()
            .filter(|(f, _)| f.contains("class_") || f.starts_with("oracle_"));
        own.for_each(|(_, node)| node.skip());
        return Ok(());
    };
    let (_, explained) = judges.remove(at);
    let oracles: Vec<Matrix<'_>> = judges
        .iter()
        .map(|(name, logits)| matrix(name, logits))
        .collect::<Result<_>>()?;
    let wide = |v: &[usize]| -> Vec<i64> { v.iter().map(|&v| v as i64).collect() };
    let (labels, targets) = (wide(&labels), wide(&targets));
    let found = validity(Judgement {
        classifier: matrix(CLASSIFIER, &explained)?,
        oracles: &oracles,
        labels: &labels,
        targets: &targets,
    });
    let found = found.of("batch_metrics")?;
    let order: Vec<&str> = judges.iter().map(|(name, _)| name.as_str()).collect();
    for (field, value) in root.fields()? {
        if let Some(got) = scalar(field, &found, &order) {
            check.close(field, value.f64()?, got, SCALAR);
        }
    }
    Ok(())
}

/// A field of the JSON file, by the name the study's code logs it under.
fn scalar(field: &str, found: &Validity, oracles: &[&str]) -> Option<f64> {
    let of = |name: &str| oracles.iter().position(|o| *o == name);
    Some(match field {
        "target_class_validity" => found.target_accuracy.value,
        "original_class_validity" => found.original_accuracy.value,
        "target_class_conf_mean" => found.target_confidence.mean,
        "original_class_conf_mean" => found.original_confidence.mean,
        "target_class_conf_std" => sample_std(&found.target_confidences),
        "original_class_conf_std" => sample_std(&found.original_confidences),
        "oracle_score_committee_mean" => found.mean_oracle_score_published?,
        _ => match field.split_once('.')? {
            ("oracle_score", CLASSIFIER) => 1.0,
            ("oracle_target_accuracy", CLASSIFIER) => found.target_accuracy.value,
            ("oracle_score", name) => found.oracles[of(name)?].oracle_score.value,
            ("oracle_target_accuracy", name) => {
                found.oracles[of(name)?].oracle_target_accuracy.value
            }
            _ => return None,
        },
    })
}

fn sample_std(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

fn matrix<'a>(name: &str, logits: &'a Array) -> Result<Matrix<'a>> {
    let (n, classes) = rows(logits);
    Matrix::new(name, n, classes, &logits.data).of(name)
}

/// Short side by Pillow's bicubic, centre crop, −1 to 1.
fn preprocessing(
    folder: &Folder,
    stored: &Tensors,
    root: &Node<'_>,
    check: &mut Check,
) -> Result<()> {
    let Some(settings) = root.get("preprocess") else {
        return Ok(());
    };
    let file = "preprocess_input.png";
    let Some(bytes) = folder.bytes(file)? else {
        settings.skip();
        stored.skip("preprocess.out_pm1");
        return Ok(());
    };
    let picture = pixels(&folder.name(file), &bytes)?;
    let (size, short) = (
        settings.at("size")?.usize()?,
        settings.at("resize_short_side")?.usize()?,
    );
    let least = picture.width.min(picture.height).max(1);
    let [width, height] = [picture.width, picture.height].map(|side| side * short / least);
    let expected = settings.at("resized_wh")?.usizes()?;
    check.equal("preprocess size", &expected, &vec![width, height]);
    let image = Image {
        width: picture.width,
        height: picture.height,
        pixels: picture.pixels,
    };
    let resized = resize(&image, width, height, Filter::Bicubic);
    let cropped = center_crop(&resized, size, size).map_err(|e| ConformanceError::Image {
        file: folder.name(file),
        reason: e.to_string(),
    })?;
    let mut got = Array::zeros([1, 3, size, size]);
    for (at, value) in got.data.iter_mut().enumerate() {
        let (channel, pixel) = (at / (size * size), at % (size * size));
        let unit = f32::from(cropped.pixels[pixel * 3 + channel]) / 255.0;
        *value = 2.0 * unit - 1.0;
    }
    let name = "preprocess.out_pm1";
    close(check, name, &stored.f32(name)?, &got, RESCALED);
    Ok(())
}
