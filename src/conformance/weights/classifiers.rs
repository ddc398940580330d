//! `classifier_expected_logits.safetensors` and `classifiers_top5`: real classifiers on the photographs.
//! 1e-3 absolute on logits and probabilities; classes and labels exact.

use std::rc::Rc;

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::pictures::{Album, Picture, upload};

use super::super::real_weights::full_weights;
use super::super::{Result, tensors::Tensors};
use super::{PICTURES, labels, not_installed, weights};
use crate::metrics::validity::softmax;
use crate::nets::{Architecture, UnetEncoderConfig, build};
use crate::tensor::{Backend, StateDict};

const LOGIT: Tolerance = Tolerance::absolute(1e-3);
const PROBABILITY: Tolerance = Tolerance::absolute(1e-3);

/// How a classifier takes a photograph.
enum Fit {
    /// Centre crop, no resize.
    Crop(usize),
    /// Pillow's bicubic resize.
    Bicubic(usize),
}

struct Recipe {
    architecture: Architecture,
    fit: Fit,
    order: [usize; 3],
    scale: [f32; 3],
    shift: [f32; 3],
}

/// The recipe of the README for a classifier.
fn recipe(name: &str) -> Option<Recipe> {
    let (architecture, fit) = match name {
        "squeezenet1_1_caffe_f16" => {
            return Some(Recipe {
                architecture: Architecture::SqueezeNet,
                fit: Fit::Crop(224),
                order: [2, 1, 0],
                scale: [1.0; 3],
                shift: [-104.006, -116.669, -122.679],
            });
        }
        "mobilenet_v2" => (Architecture::MobileNetV2, Fit::Crop(224)),
        "efficientnet_lite0" => (Architecture::EfficientNetLite0, Fit::Crop(224)),
        "efficientnet_lite1" => (Architecture::EfficientNetLite1, Fit::Crop(240)),
        "efficientnet_lite2" => (Architecture::EfficientNetLite2, Fit::Bicubic(260)),
        _ => return None,
    };
    let (mean, std) = ([0.485f32, 0.456, 0.406], [0.229f32, 0.224, 0.225]);
    Some(Recipe {
        architecture,
        fit,
        order: [0, 1, 2],
        scale: std.map(|s| 1.0 / 255.0 / s),
        shift: [0, 1, 2].map(|c| -mean[c] / std[c]),
    })
}

pub fn run<B: Backend + 'static>(
    backend: &B,
    folder: &Folder,
    root: &Node<'_>,
    order: &[&str],
    check: &mut Check,
) -> Result<()> {
    let stored = folder.tensors("classifier_expected_logits.safetensors")?;
    let top5 = root.get("classifiers_top5");
    let mut names: Vec<&str> = stored.iter().flat_map(|s| s.names()).collect();
    for (name, _) in top5.as_ref().map_or(Ok(Vec::new()), |t| t.fields())? {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let labels = labels(folder, check)?;
    let mut album = Album::default();
    let mut complete = true;
    for photo in order {
        complete &= album.has(photo, folder, &PICTURES[..1], check)?;
    }
    for name in names {
        let Some(recipe) = recipe(name) else {
            continue;
        };
        let cases = top5.as_ref().and_then(|t| t.get(name));
        let dict = match name {
            "squeezenet1_1_caffe_f16" => weights(folder, &format!("{name}.safetensors"), check)?,
            _ => full_weights(name)?,
        };
        let Some(dict) = dict.filter(|_| complete) else {
            skip(name, cases.as_ref(), stored.as_ref());
            let reason = match complete {
                true => not_installed(name, name),
                false => format!("{name}: all cases (a photograph is absent)"),
            };
            check.absent(reason);
            continue;
        };
        check.group(name);
        let photos: Vec<&Picture> = order.iter().filter_map(|p| album.get(p)).collect();
        let logits = logits(backend, name, &recipe, &dict, &photos)?;
        if let Some(stored) = stored.as_ref().filter(|s| s.contains(name)) {
            let wide: Vec<f64> = logits.concat().iter().map(|&v| f64::from(v)).collect();
            check.close_all(format!("{name} logits"), &stored.f64(name)?, &wide, LOGIT);
        }
        let classes = logits.first().map_or(0, Vec::len);
        check.equal(format!("{name}: number of labels"), &classes, &labels.len());
        if let Some(cases) = cases {
            for (row, photo) in logits.iter().zip(order) {
                if let Some(case) = cases.get(photo) {
                    best(&format!("{name} {photo}"), &case, row, &labels, check)?;
                }
            }
        }
    }
    Ok(())
}

fn skip(name: &str, cases: Option<&Node<'_>>, stored: Option<&Rc<Tensors>>) {
    if let Some(cases) = cases {
        cases.skip();
    }
    if let Some(stored) = stored {
        stored.skip(name);
    }
}

/// Logits of each photograph.
fn logits<B: Backend + 'static>(
    backend: &B,
    name: &str,
    recipe: &Recipe,
    dict: &StateDict,
    photos: &[&Picture],
) -> Result<Vec<Vec<f32>>> {
    let net = build(
        recipe.architecture,
        backend,
        dict,
        &UnetEncoderConfig::default(),
    )
    .of(name)?;
    let mut rows = Vec::new();
    for photo in photos {
        let x = match recipe.fit {
            Fit::Crop(side) => {
                let x = upload(backend, &[photo])?;
                let (top, left) = (
                    photo.height.saturating_sub(side) / 2,
                    photo.width.saturating_sub(side) / 2,
                );
                backend.crop(&x, top, left, side, side).of(name)?
            }
            Fit::Bicubic(side) => photo.bicubic(side, side).upload(backend)?,
        };
        let x = backend
            .affine(&x, &recipe.order, &recipe.scale, &recipe.shift)
            .of(name)?;
        let got = net.predict(backend, &x).of(name)?;
        rows.push(backend.download(&got.logits).of(name)?.data);
    }
    Ok(rows)
}

/// The most probable classes of one photograph, in order.
fn best(
    what: &str,
    case: &Node<'_>,
    logits: &[f32],
    labels: &[String],
    check: &mut Check,
) -> Result<()> {
    let probabilities = softmax(logits);
    let mut ranking: Vec<usize> = (0..logits.len()).collect();
    ranking.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    for (place, entry) in case.items()?.iter().enumerate() {
        let Some(&class) = ranking.get(place) else {
            continue;
        };
        let what = format!("{what} place {}", place + 1);
        check.equal(
            format!("{what} class"),
            &entry.at("class")?.usize()?,
            &class,
        );
        let label = labels.get(class).map_or("", String::as_str);
        check.equal(format!("{what} label"), entry.at("label")?.str()?, label);
        let expected = entry.at("prob")?.f64()?;
        check.close(
            format!("{what} probability"),
            expected,
            probabilities[class],
            PROBABILITY,
        );
    }
    Ok(())
}
