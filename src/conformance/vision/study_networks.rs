//! `dbvce_expected.json`, what needs networks: the study's LPIPS (each batch rescaled as a whole; 1e-4 relative) and its
//! FID of wrapped images (1e-4 relative).

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::pictures::Picture;
use super::fid::Images;
use super::inception_taps::tap_of;
use super::lpips::LPIPS;
use super::{matrix, number_in};
use crate::metrics::fid::frechet_from_features;
use crate::metrics::lpips::Lpips;
use crate::metrics::published::{rescale_batch_by_min_max, wrap_to_uint8};
use crate::tensor::{Array, Backend, Resize};

const FID: Tolerance = Tolerance::relative(1e-4);

pub fn run<B: Backend + 'static>(
    backend: &B,
    folder: &Folder,
    alex: Option<&Lpips<B>>,
    images: &Images<'_, B>,
    check: &mut Check,
) -> Result<()> {
    let Some(json) = folder.json("dbvce_expected.json")? else {
        return Ok(());
    };
    let root = json.root();
    if let Some(case) = root.get("lpips_alex_study_recipe") {
        check.group("study: LPIPS");
        match (alex, folder.tensors("dbvce_batch.safetensors")?) {
            (Some(alex), Some(batch)) => {
                let init = batch.f32_of_rank("init_images", 4)?;
                let samples = batch.f32_of_rank("samples", 4)?;
                lpips(backend, alex, &case, &init, &samples, check)?;
            }
            _ => {
                case.skip();
                check.absent("LPIPS of the study's recipe (weights or batch are absent)");
            }
        }
    }
    // `fid64_study_recipe`: the number of features is in the name.
    for (name, case) in root.fields()? {
        if let Some(recipe) = name.strip_suffix("_study_recipe")
            && let Some(size) = number_in(recipe, "fid")
        {
            check.group("study: FID");
            fid(name, size, &case, images, check)?;
        }
    }
    Ok(())
}

fn lpips<B: Backend + 'static>(
    backend: &B,
    alex: &Lpips<B>,
    case: &Node<'_>,
    init: &Array,
    samples: &Array,
    check: &mut Check,
) -> Result<()> {
    let what = "the study's LPIPS";
    let distances = |a: &Array, b: &Array| -> Result<Vec<f64>> {
        let features = |x: &Array| {
            let x = backend.upload(x).of(what)?;
            alex.features(backend, &x, 1.0, 0.0).of(what)
        };
        let found = alex
            .distances(backend, &features(a)?, &features(b)?)
            .of(what)?;
        Ok(found.into_iter().map(|d| d.value).collect())
    };
    let rescale = |x: &Array| -> Result<Array> {
        Ok(Array {
            shape: x.shape.clone(),
            data: rescale_batch_by_min_max(&x.data).of(what)?,
        })
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let rescaled = distances(&rescale(init)?, &rescale(samples)?)?;
    for (field, expected) in case.fields()? {
        match field {
            "value" => check.close(field, expected.f64()?, mean(&rescaled), LPIPS),
            "per_image" => check.close_all(field, &expected.f64s()?, &rescaled, LPIPS),
            "without_min_max_rescaling" => {
                let plain = mean(&distances(init, samples)?);
                check.close(field, expected.f64()?, plain, LPIPS);
            }
            _ => {}
        }
    }
    Ok(())
}

fn fid<B: Backend>(
    name: &str,
    size: usize,
    case: &Node<'_>,
    images: &Images<'_, B>,
    check: &mut Check,
) -> Result<()> {
    case.skip_fields(&["versions"]);
    let input = case.at("input")?.str()?;
    let first = input
        .split_once("first ")
        .and_then(|(_, rest)| rest.split(' ').next());
    let n = first
        .and_then(|n| n.parse().ok())
        .unwrap_or(images.real.len());
    let available = n.min(images.real.len()).min(images.fake.len());
    let tap = tap_of(size);
    let wrapped = |set: &[Picture]| -> Vec<Picture> { set[..available].iter().map(wrap).collect() };
    let features = match tap {
        Some(tap) if available == n && n > 0 => (
            images.features_of(&wrapped(&images.real), tap, Resize::Tf1)?,
            images.features_of(&wrapped(&images.fake), tap, Resize::Tf1)?,
            images.features(true, n, tap, Resize::Tf1)?,
            images.features(false, n, tap, Resize::Tf1)?,
        ),
        _ => (None, None, None, None),
    };
    let (Some(wrapped_real), Some(wrapped_fake), Some(real), Some(fake)) = features else {
        case.skip();
        check.absent(format!("{name} (images or weights are absent)"));
        return Ok(());
    };
    let distance = |real: &Array, fake: &Array| -> Result<f64> {
        Ok(
            frechet_from_features(matrix(name, real)?, matrix(name, fake)?)
                .of(name)?
                .value,
        )
    };
    for (field, expected) in case.fields()? {
        let what = format!("{name} {field}");
        if field.starts_with("value_wrapped") {
            let got = distance(&wrapped_real, &wrapped_fake)?;
            check.close(what, expected.f64()?, got, FID);
        } else if field == "value_if_images_had_been_given_as_0_255" {
            check.close(what, expected.f64()?, distance(&real, &fake)?, FID);
        }
    }
    Ok(())
}

/// Mapped to [-1, 1] by `v/255·2 − 1`, then times 255 and cast to 8 bits.
fn wrap(picture: &Picture) -> Picture {
    let wrapped = |&v: &u8| wrap_to_uint8(f32::from(v) / 255.0 * 2.0 - 1.0);
    Picture {
        pixels: picture.pixels.iter().map(wrapped).collect(),
        ..*picture
    }
}
