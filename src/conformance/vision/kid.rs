//! The KID cases of `fid_expected.json`: given subsets, and the whole set as one block. 1e-4 relative.

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::{Result, tensors::Tensors};
use super::fid::stored_features;
use super::{matrix, number_in};
use crate::metrics::kernel_matrices::Subset;
use crate::metrics::kernel_sums::PolynomialKernel;
use crate::metrics::kid::{kid_full, kid_subsets};

const KID: Tolerance = Tolerance::relative(1e-4);

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("fid_expected.json")? else {
        return Ok(());
    };
    let Some(cases) = json.root().get("kid") else {
        return Ok(());
    };
    check.group("KID");
    let features = folder.tensors("fid_set_features.safetensors")?;
    let subsets = folder.tensors("kid_subsets.safetensors")?;
    for (name, case) in cases.fields()? {
        let Some(dims) = number_in(name, "d") else {
            continue;
        };
        match (&features, &subsets) {
            (Some(features), _) if !case.is_object() => {
                whole_set(name, dims, &case, features, check)?;
            }
            (Some(features), Some(subsets)) => {
                by_subsets(name, dims, &case, features, subsets, check)?;
            }
            _ => {
                case.skip();
                check.absent(format!("KID {name} (features or subsets are absent)"));
            }
        }
    }
    if let (None, Some(subsets)) = (&features, &subsets) {
        subsets.names().for_each(|name| subsets.skip(name));
    }
    Ok(())
}

fn whole_set(
    name: &str,
    dims: usize,
    case: &Node<'_>,
    features: &Tensors,
    check: &mut Check,
) -> Result<()> {
    let real = stored_features(features, "real", dims)?;
    let fake = stored_features(features, "fake", dims)?;
    let kernel = PolynomialKernel::default();
    let got = kid_full(matrix(name, &real)?, matrix(name, &fake)?, &kernel).of(name)?;
    check.close(name, case.f64()?, got.mean, KID);
    Ok(())
}

fn by_subsets(
    name: &str,
    dims: usize,
    case: &Node<'_>,
    features: &Tensors,
    subsets: &Tensors,
    check: &mut Check,
) -> Result<()> {
    let real = stored_features(features, "real", dims)?;
    let fake = stored_features(features, "fake", dims)?;
    let settings = case.at("settings")?;
    let kernel = PolynomialKernel {
        degree: settings.at("degree")?.usize()? as u32,
        gamma: settings.at("gamma")?.f64_or_null()?,
        coef: settings.at("coef")?.f64()?,
    };
    let real_rows = subsets.index_rows(&format!("{name}.real_indices"))?;
    let fake_rows = subsets.index_rows(&format!("{name}.fake_indices"))?;
    let drawn: Vec<Subset> = real_rows
        .into_iter()
        .zip(fake_rows)
        .map(|(real, fake)| Subset { real, fake })
        .collect();
    let size = drawn.first().map_or(0, |s| s.real.len());
    let got = kid_subsets(matrix(name, &real)?, matrix(name, &fake)?, &kernel, &drawn).of(name)?;
    for (field, expected) in case.fields()? {
        let what = format!("{name} {field}");
        match field {
            "subsets" => check.equal(what, &expected.usize()?, &drawn.len()),
            "subset_size" => check.equal(what, &expected.usize()?, &size),
            "mean" | "mean_float64" => check.close(what, expected.f64()?, got.mean, KID),
            "std_population" | "std_population_float64" => {
                check.close(what, expected.f64()?, got.std_population, KID);
            }
            "per_subset_float32" | "per_subset_float64" => {
                check.close_all(what, &expected.f64s()?, &got.per_subset, KID);
            }
            _ => {}
        }
    }
    Ok(())
}
