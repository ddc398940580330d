//! What several files of this area need: parameters, rows, models, and how means over seeds are compared.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::tensors::Tensors;
use crate::attribute::data::{Features, LabelFunction, Labels, Normal, Task};
use crate::attribute::models::{Link, Model, from_arrays};
use crate::attribute::{Rows, Variant, mean_and_std};

/// Of closed forms.
pub const CLOSED: Tolerance = Tolerance::both(1e-9, 1e-9);

/// The set that explanations and metrics are about.
pub const EXPLAINED: &str = "gaussian_nonlinear_additive";

/// A table of an array.
pub fn rows(tensors: &Tensors, name: &str) -> Result<Rows> {
    let values = tensors.f64(name)?;
    let columns = match tensors.get(name)?.shape[..] {
        [_, columns] => columns,
        ref other => return Err(tensors.wrong(name, "2 dimensions", format!("{other:?}"))),
    };
    Ok(Rows::new(values, columns))
}

/// The model `NAME` (`SET.KIND`), if its arrays are there.
pub fn model(folder: &Folder, name: &str, d: usize) -> Result<Option<Model>> {
    let Some(tensors) = folder.tensors("models.safetensors")? else {
        return Ok(None);
    };
    let prefix = format!("{name}.");
    let own: Vec<String> = tensors
        .names()
        .filter(|n| n.starts_with(&prefix) && !n.ends_with(".pred16"))
        .map(Into::into)
        .collect();
    if own.is_empty() {
        return Ok(None);
    }
    own.iter().for_each(|n| tensors.skip(n));
    let found = from_arrays(tensors.arrays(), &prefix, Link::Identity)?;
    Ok(Some(found.for_data(d)?))
}

/// Training and validation rows of a set.
pub fn x_of(folder: &Folder, set: &str, part: &str) -> Result<Option<Rows>> {
    let Some(tensors) = folder.tensors("datasets.safetensors")? else {
        return Ok(None);
    };
    let name = format!("{set}.x_{part}");
    match tensors.contains(&name) {
        true => rows(&tensors, &name).map(Some),
        false => Ok(None),
    }
}

/// The distribution `cond.gauss_rho`, from which the sets were drawn.
pub fn features(folder: &Folder) -> Result<Option<Features>> {
    let Some(tensors) = folder.tensors("datasets.safetensors")? else {
        return Ok(None);
    };
    let (mu, sigma) = ("cond.gauss_rho.mu", "cond.gauss_rho.sigma");
    if !tensors.contains(mu) || !tensors.contains(sigma) {
        return Ok(None);
    }
    let normal = Normal::gaussian(tensors.f64(mu)?, tensors.f64(sigma)?)?;
    Ok(Some(Features::Normal(normal)))
}

/// Linear weights, noise and other numbers of `params` in datasets.json; the paper's where it is absent.
pub fn parameter(folder: &Folder, key: &str) -> Result<Option<Vec<f64>>> {
    let Some(json) = folder.json("datasets.json")? else {
        return Ok(None);
    };
    let Some(node) = json.root().get("params").and_then(|p| p.get(key)) else {
        return Ok(None);
    };
    match node.f64() {
        Ok(value) => Ok(Some(vec![value])),
        Err(_) => node.f64s().map(Some),
    }
}

/// A label function by the name that files give it.
pub fn labels(folder: &Folder, name: &str, d: usize) -> Result<Option<Labels>> {
    let plain = name.trim_end_matches("_paper").replace('_', "-");
    let Ok(function) = plain.parse::<LabelFunction>() else {
        return Ok(None);
    };
    let mut labels = Labels::new(function, d, Task::Regression, Variant::AsReleased)?;
    if let Some(weights) = parameter(folder, "weight")? {
        labels.weights = weights;
    }
    Ok(Some(labels))
}

/// Mean and spread of a random quantity of the original.
pub struct Random<'a> {
    pub mean: &'a [f64],
    pub std: &'a [f64],
    pub seeds: usize,
}

impl Random<'_> {
    /// Compares with ours over seeds: `ours[seed][value]`. The deviation is the larger of both, for few seeds may have come near by chance.
    pub fn check(&self, check: &mut Check, what: &str, ours: &[Vec<f64>]) {
        let n = ours.len() as f64;
        let factor = if self.seeds < 10 { 5.0 } else { 4.0 };
        let mut worst: Option<(f64, f64, f64, f64)> = None;
        for (at, (mean, std)) in self.mean.iter().zip(self.std).enumerate() {
            let values: Vec<f64> = ours.iter().filter_map(|v| v.get(at)).copied().collect();
            if values.len() != ours.len() {
                check.equal(
                    format!("{what}: number of values"),
                    &ours.len(),
                    &values.len(),
                );
                return;
            }
            let (own, own_std) = match values.len() {
                1 => (values[0], 0.0),
                _ => mean_and_std(&values, 1),
            };
            let spread = std.max(own_std);
            let allowed = factor * spread * (1.0 / n + 1.0 / self.seeds as f64).sqrt() + 1e-9;
            let share = (own - mean).abs() / allowed;
            if worst.is_none_or(|(most, ..)| share > most || share.is_nan()) {
                worst = Some((share, *mean, own, allowed));
            }
        }
        if let Some((_, expected, got, allowed)) = worst {
            let what = format!("{what} [{} means over {n} seeds, worst]", self.mean.len());
            check.close(what, expected, got, Tolerance::absolute(allowed));
        }
    }
}
