//! Precision, recall, density, coverage: cases `<set>.k<k>` of `fid_expected.json`, for both rules about points on the
//! rim of a ball. Exact, up to the f32 in which torch-fidelity prints.

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::{Result, tensors::Tensors};
use super::fid::stored_features;
use super::matrix;
use crate::metrics::prdc::{Rim, prdc};
use crate::tensor::Array;

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("fid_expected.json")? else {
        return Ok(());
    };
    let Some(cases) = json.root().get("prdc") else {
        return Ok(());
    };
    check.group("precision, recall, density, coverage");
    let own = folder.tensors("prdc_features.safetensors")?;
    let sets = folder.tensors("fid_set_features.safetensors")?;
    for (name, case) in cases.fields()? {
        let Some((set, Ok(k))) = name.rsplit_once(".k").map(|(set, k)| (set, k.parse())) else {
            continue;
        };
        let Some((real, fake)) = features(set, own.as_deref(), sets.as_deref())? else {
            case.skip();
            check.absent(format!("PRDC {name} (its features are absent)"));
            continue;
        };
        for (package, scores) in case.fields()? {
            let (rim, printing) = match package {
                "prdc_package" => (Rim::Strict, Tolerance::relative(1e-15)),
                "torch_fidelity" => (Rim::Inclusive, Tolerance::relative(1e-7)),
                _ => continue,
            };
            let got = prdc(matrix(name, &real)?, matrix(name, &fake)?, k, rim).of(name)?;
            for (score, expected) in scores.fields()? {
                let value = match score {
                    "precision" => got.precision,
                    "recall" => got.recall,
                    "density" => got.density,
                    "coverage" => got.coverage,
                    _ => continue,
                };
                check.close(
                    format!("{name} {package} {score}"),
                    expected.f64()?,
                    value,
                    printing,
                );
            }
        }
    }
    Ok(())
}

/// `<set>.real` and `<set>.fake`; a set `incept64` is the 64 Inception features of the image sets.
fn features(
    set: &str,
    own: Option<&Tensors>,
    sets: Option<&Tensors>,
) -> Result<Option<(Array, Array)>> {
    let dims = set.strip_prefix("incept").and_then(|d| d.parse().ok());
    Ok(match (dims, own, sets) {
        (Some(dims), _, Some(sets)) => Some((
            stored_features(sets, "real", dims)?,
            stored_features(sets, "fake", dims)?,
        )),
        (None, Some(own), _) => Some((
            own.f32_of_rank(&format!("{set}.real"), 2)?,
            own.f32_of_rank(&format!("{set}.fake"), 2)?,
        )),
        _ => None,
    })
}
