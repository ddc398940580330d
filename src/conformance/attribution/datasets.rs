//! `datasets.safetensors`, `datasets.json`: label functions, conditional moments, draws.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::tensors::Tensors;
use super::golden::{CLOSED, labels, parameter, rows};
use crate::attribute::data::{Component, Features, Labels, Multinomial, Normal, Normalisation};
use crate::attribute::subsets::{Subset, contains, ordered};
use crate::attribute::{Rows, Variant, mean_and_std, streams};
use crate::stats::random::Draws;

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(tensors) = folder.tensors("datasets.safetensors")? else {
        return Ok(());
    };
    if let Some(json) = folder.json("datasets.json")? {
        // Messages of the released code, and numbers that say how the arrays were checked.
        json.root().skip_fields(&[
            "label_check_max_abs_diff",
            "same_x_for_all_gaussian_sets",
            "sigma_arg_nonlinear",
            "mixture_as_released_unconditional",
            "mixture_as_released_conditional",
            "multinomial_all_fixed",
            "multinomial_float_x",
            "multinomial_last_one_free",
            "multinomial_has_computeexpectation",
            "params",
        ]);
    }
    check.group("label functions");
    sets(folder, &tensors, check)?;
    grid(folder, &tensors, check)?;
    others(folder, &tensors, check)?;
    check.group("conditional moments");
    let masks = masks(&tensors, check)?;
    for name in ["gauss_rho", "gauss_general"] {
        gaussian(&tensors, name, &masks, check)?;
    }
    mixture(folder, &tensors, &masks, check)?;
    multinomial(folder, &tensors, &masks, check)
}

fn of_rows(labels: &Labels, x: &Rows) -> Vec<f64> {
    let raw = labels.raw_of(x);
    Normalisation::of(&raw, Variant::AsReleased).apply(&raw)
}

/// Labels without noise exactly; noise by its size.
fn sets(folder: &Folder, tensors: &Tensors, check: &mut Check) -> Result<()> {
    let names: Vec<String> = tensors.names().map(Into::into).collect();
    for set in names.iter().filter_map(|n| n.strip_suffix(".x_train")) {
        let function = set.strip_prefix("gaussian_").unwrap_or(set);
        for part in ["train", "val"] {
            let x = rows(tensors, &format!("{set}.x_{part}"))?;
            let Some(labels) = labels(folder, function, x.columns)? else {
                check.unknown(format!("{set}: label function"));
                break;
            };
            let expected = tensors.f64(&format!("{set}.y_{part}_noisefree"))?;
            let got = of_rows(&labels, &x);
            check.close_all(format!("{set} {part}, noise-free"), &expected, &got, CLOSED);
            let noisy = tensors.f64(&format!("{set}.y_{part}"))?;
            noise(folder, &format!("{set} {part}"), &labels, &x, &noisy, check)?;
        }
    }
    if let Some(json) = folder.json("datasets.json")?
        && let Some(node) = json.root().get("label_of_single_row")
    {
        let one = Normalisation::of(&[1.5], Variant::AsReleased).apply(&[1.5]);
        check.equal(
            "label of a single row, as released",
            node.str()?,
            &one[0].to_string().to_lowercase()[..],
        );
        let own = Normalisation::of(&[1.5], Variant::Correct).apply(&[1.5]);
        check.equal("label of a single row, corrected", &0.0, &own[0]);
    }
    Ok(())
}

/// What labels differ by from a straight line of the raw ones has the deviation that was asked for.
fn noise(
    folder: &Folder,
    what: &str,
    labels: &Labels,
    x: &Rows,
    y: &[f64],
    check: &mut Check,
) -> Result<()> {
    let Some(size) = parameter(folder, "noise")? else {
        return Ok(());
    };
    let raw = labels.raw_of(x);
    let (mean_raw, std_raw) = mean_and_std(&raw, 0);
    let (mean_y, _) = mean_and_std(y, 0);
    let both: f64 = raw
        .iter()
        .zip(y)
        .map(|(r, y)| (r - mean_raw) * (y - mean_y))
        .sum();
    let slope = both / (raw.len() as f64 * std_raw * std_raw);
    let left: Vec<f64> = raw
        .iter()
        .zip(y)
        .map(|(r, y)| (y - mean_y) / slope - (r - mean_raw))
        .collect();
    let (_, found) = mean_and_std(&left, 2);
    let allowed = 5.0 * size[0] / (2.0 * raw.len() as f64).sqrt();
    check.close(
        format!("{what}: noise on raw labels"),
        size[0],
        found,
        Tolerance::absolute(allowed),
    );
    Ok(())
}

fn grid(folder: &Folder, tensors: &Tensors, check: &mut Check) -> Result<()> {
    if !tensors.contains("label_grid.x") {
        return Ok(());
    }
    let x = rows(tensors, "label_grid.x")?;
    let names: Vec<String> = tensors.names().map(Into::into).collect();
    for name in names
        .iter()
        .filter_map(|n| n.strip_prefix("label_grid.raw_"))
    {
        let Some(labels) = labels(folder, name, x.columns)? else {
            check.unknown(format!("label_grid: label function {name}"));
            continue;
        };
        let raw = tensors.f64(&format!("label_grid.raw_{name}"))?;
        check.close_all(
            format!("grid, {name}, raw"),
            &raw,
            &labels.raw_of(&x),
            CLOSED,
        );
        let y = tensors.f64(&format!("label_grid.y_{name}"))?;
        check.close_all(format!("grid, {name}"), &y, &of_rows(&labels, &x), CLOSED);
        if name == "piecewise_constant" {
            // Where the released condition cannot hold, the intended value is one less.
            let right = Labels {
                variant: Variant::Correct,
                ..labels
            };
            let reached = |row: &[f64]| (-0.5..0.0).contains(&row[1]);
            let pairs = raw.iter().zip(x.iter());
            let expected: Vec<f64> = pairs
                .map(|(r, row)| r - f64::from(u8::from(reached(row))))
                .collect();
            check.close_all(
                "grid, piecewise_constant, corrected",
                &expected,
                &right.raw_of(&x),
                CLOSED,
            );
        }
    }
    Ok(())
}

fn others(folder: &Folder, tensors: &Tensors, check: &mut Check) -> Result<()> {
    if tensors.contains("gaussian_general_linear.x") {
        let x = rows(tensors, "gaussian_general_linear.x")?;
        let y = tensors.f64("gaussian_general_linear.y")?;
        if let Some(labels) = labels(folder, "linear", x.columns)? {
            noise(folder, "general covariance, linear", &labels, &x, &y, check)?;
        }
    }
    let paper = "gaussian_piecewise_linear_paper";
    if tensors.contains(&format!("{paper}.x")) {
        let x = rows(tensors, &format!("{paper}.x"))?;
        if let Some(labels) = labels(folder, "piecewise_linear", x.columns)? {
            let raw = tensors.f64(&format!("{paper}.raw"))?;
            check.close_all("piecewise linear, raw", &raw, &labels.raw_of(&x), CLOSED);
            let y = tensors.f64(&format!("{paper}.y"))?;
            check.close_all("piecewise linear", &y, &of_rows(&labels, &x), CLOSED);
        }
    }
    if tensors.contains("mixture.x") {
        let x = rows(tensors, "mixture.x")?;
        let names: Vec<String> = tensors.names().map(Into::into).collect();
        let own = names.iter().filter_map(|n| n.strip_prefix("mixture.y_"));
        for name in own.filter_map(|n| n.strip_suffix("_noisefree")) {
            let Some(labels) = labels(folder, name, x.columns)? else {
                check.unknown(format!("mixture: label function {name}"));
                continue;
            };
            let y = tensors.f64(&format!("mixture.y_{name}_noisefree"))?;
            check.close_all(
                format!("mixture, {name}"),
                &y,
                &of_rows(&labels, &x),
                CLOSED,
            );
        }
    }
    Ok(())
}

/// The order of subsets.
pub fn masks(tensors: &Tensors, check: &mut Check) -> Result<Vec<Subset>> {
    if !tensors.contains("masks") {
        return Ok(Vec::new());
    }
    let table = rows(tensors, "masks")?;
    let own = ordered(table.columns);
    let flat: Vec<f64> = own
        .iter()
        .flat_map(|s| (0..table.columns).map(|j| f64::from(u8::from(contains(*s, j)))))
        .collect();
    check.identical("order of subsets", &table.values, &flat);
    Ok(own)
}

/// Moments of each mask, and of draws.
struct Conditionals<'a> {
    tensors: &'a Tensors,
    name: String,
    features: Features,
    x: Vec<f64>,
    masks: &'a [Subset],
}

impl Conditionals<'_> {
    fn moments(&self, mean: &str, covariance: &str, check: &mut Check) -> Result<()> {
        let array = |what: &str| self.tensors.f64(&format!("cond.{}.{what}", self.name));
        let (mut means, mut covariances) = (Vec::new(), Vec::new());
        for &mask in self.masks {
            let given = self.features.given(mask, false);
            means.extend(given.mean(&self.x));
            covariances.extend(given.covariance(&self.x));
        }
        check.close_all(
            format!("{}, means", self.name),
            &array(mean)?,
            &means,
            CLOSED,
        );
        let expected = array(covariance)?;
        check.close_all(
            format!("{}, covariances", self.name),
            &expected,
            &covariances,
            CLOSED,
        );
        Ok(())
    }

    /// Stored moments of the original's draws, and ours of as many, in standard errors of the exact ones.
    fn sampled(&self, check: &mut Check) -> Result<()> {
        let prefix = format!("cond.{}.sampled_mean_n", self.name);
        let names: Vec<String> = self.tensors.names().map(Into::into).collect();
        let Some(count) = names.iter().find_map(|n| n.strip_prefix(&prefix)) else {
            return Ok(());
        };
        let n: usize = count.parse().unwrap_or(20_000);
        let d = self.x.len();
        let index = self
            .tensors
            .i64(&format!("cond.{}.sampled_mask_index", self.name))?;
        let means = self.tensors.f64(&format!("{prefix}{count}"))?;
        let covariances = self
            .tensors
            .f64(&format!("cond.{}.sampled_cov_n{count}", self.name))?;
        for (k, &at) in index.iter().enumerate() {
            let Some(&mask) = usize::try_from(at).ok().and_then(|i| self.masks.get(i)) else {
                continue;
            };
            let given = self.features.given(mask, false);
            let exact = (given.mean(&self.x), given.covariance(&self.x));
            let mut drawn = Rows::zeros(n, d);
            let mut draws = Draws::new(7, streams::CONDITIONAL, mask);
            (0..n).for_each(|i| given.draw(&self.x, &mut draws, drawn.row_mut(i)));
            let ours = (drawn.means(), drawn.covariance(1));
            let theirs = (
                &means[k * d..(k + 1) * d],
                &covariances[k * d * d..(k + 1) * d * d],
            );
            for (who, mean, covariance) in [
                ("the original's", theirs.0, theirs.1),
                ("our", &ours.0[..], &ours.1[..]),
            ] {
                let what = format!("{}, {who} draws, mask {at}", self.name);
                errors(&what, &exact, (mean, covariance), n, check);
            }
        }
        Ok(())
    }
}

/// Largest difference in standard errors; six of hundreds may be exceeded once in a million runs.
fn errors(
    what: &str,
    (mean, covariance): &(Vec<f64>, Vec<f64>),
    (drawn_mean, drawn_covariance): (&[f64], &[f64]),
    n: usize,
    check: &mut Check,
) {
    let d = mean.len();
    let variance = |j: usize| covariance[j * d + j].max(0.0);
    let mut worst = 0.0f64;
    for i in 0..d {
        let error = (variance(i) / n as f64).sqrt();
        let off = (drawn_mean[i] - mean[i]).abs();
        worst = worst.max(if off < 1e-9 { 0.0 } else { off / error });
        for j in 0..d {
            let c = covariance[i * d + j];
            let error = ((variance(i) * variance(j) + c * c) / n as f64).sqrt();
            let off = (drawn_covariance[i * d + j] - c).abs();
            worst = worst.max(if off < 1e-9 { 0.0 } else { off / error });
        }
    }
    check.close(
        format!("{what}: worst moment, in standard errors"),
        0.0,
        worst,
        Tolerance::absolute(6.0),
    );
}

fn gaussian(tensors: &Tensors, name: &str, masks: &[Subset], check: &mut Check) -> Result<()> {
    let array = |what: &str| format!("cond.{name}.{what}");
    if !tensors.contains(&array("sigma")) {
        return Ok(());
    }
    let normal = Normal::gaussian(tensors.f64(&array("mu"))?, tensors.f64(&array("sigma"))?)?;
    let conditionals = Conditionals {
        tensors,
        name: name.into(),
        features: Features::Normal(normal),
        x: tensors.f64(&array("x"))?,
        masks,
    };
    conditionals.moments("mean", "cov", check)?;
    conditionals.sampled(check)
}

fn mixture(folder: &Folder, tensors: &Tensors, masks: &[Subset], check: &mut Check) -> Result<()> {
    if !tensors.contains("cond.mixture.mus") {
        return Ok(());
    }
    let means = rows(tensors, "cond.mixture.mus")?;
    let d = means.columns;
    let sigmas = tensors.f64("cond.mixture.sigmas")?;
    let component = |(k, mean): (usize, &[f64])| Component {
        weight: 1.0,
        mean: mean.to_vec(),
        covariance: sigmas[k * d * d..(k + 1) * d * d].to_vec(),
    };
    let normal = Normal::mixture(means.iter().enumerate().map(component).collect())?;
    let x = tensors.f64("cond.mixture.x")?;
    let mut responsibilities = Vec::new();
    // With everything known nothing is left to draw, and the original does not compute them.
    let all = crate::attribute::subsets::all(d);
    for &mask in masks.iter().filter(|m| **m != all) {
        responsibilities.extend(normal.given(mask, false).responsibilities(&x));
    }
    let mut expected = tensors.f64("cond.mixture.responsibility")?;
    expected.truncate(responsibilities.len());
    check.close_all(
        "mixture, responsibilities",
        &expected,
        &responsibilities,
        CLOSED,
    );
    if tensors.contains("mixture.component") {
        component_of_rows(tensors, &normal, check)?;
    }
    let conditionals = Conditionals {
        tensors,
        name: "mixture".into(),
        features: Features::Normal(normal.clone()),
        x,
        masks,
    };
    conditionals.moments("mean", "cov_analytic", check)?;
    let Some(json) = folder.json("datasets.json")? else {
        return Ok(());
    };
    let mut mask = 0;
    if let Some(node) = json.root().get("mixture_sampling") {
        mask = masks
            .get(node.at("mask_index")?.usize()?)
            .copied()
            .unwrap_or(0);
        let calls = node.at("calls")?.usize()? * node.at("n_sample_per_call")?.usize()?;
        let covariance: Vec<f64> = node.at("cov")?.list(|row| row.f64s())?.concat();
        let given = conditionals.features.given(mask, false);
        let exact = (
            given.mean(&conditionals.x),
            given.covariance(&conditionals.x),
        );
        let drawn = (&node.at("mean")?.f64s()?[..], &covariance[..]);
        errors(
            "mixture, one row per call of the original",
            &exact,
            drawn,
            calls,
            check,
        );
    }
    if let Some(node) = json
        .root()
        .get("mixture_batch_means_feature0_n2000_per_call")
    {
        // As released all rows of a call come from one component, so each mean is near one of theirs. The calls know the same features as above.
        let given = normal.given(mask, false);
        let first: Vec<f64> = (0..d).map(|j| f64::from(u8::from(j == 0))).collect();
        let near = |mean: &f64, k: usize| {
            let error = (given.variance_along(k, &first) / 2000.0).sqrt();
            (mean - given.part_mean(k, &conditionals.x)[0]).abs() / error
        };
        let worst = node.f64s()?.iter().fold(0.0f64, |most, mean| {
            let nearest = (0..given.parts())
                .map(|k| near(mean, k))
                .fold(f64::INFINITY, f64::min);
            most.max(nearest)
        });
        let what =
            "mixture, as released: mean of a call beside its component's, in standard errors";
        check.close(what, 0.0, worst, Tolerance::absolute(5.0));
    }
    Ok(())
}

/// Each row's component agrees, on the whole, with how probable the row makes it.
fn component_of_rows(tensors: &Tensors, normal: &Normal, check: &mut Check) -> Result<()> {
    let x = rows(tensors, "mixture.x")?;
    let component = tensors.i64("mixture.component")?;
    let given = normal.given(crate::attribute::subsets::all(x.columns), false);
    let (mut off, mut variance) = (0.0, 0.0);
    for (row, k) in x.iter().zip(&component) {
        let first = given.responsibilities(row)[0];
        off += f64::from(u8::from(*k == 0)) - first;
        variance += first * (1.0 - first);
    }
    let what = "mixture, components of rows beside their probabilities, in standard errors";
    check.close(
        what,
        0.0,
        off.abs() / f64::sqrt(variance),
        Tolerance::absolute(5.0),
    );
    Ok(())
}

fn multinomial(
    folder: &Folder,
    tensors: &Tensors,
    masks: &[Subset],
    check: &mut Check,
) -> Result<()> {
    if !tensors.contains("cond.multinomial.p") {
        return Ok(());
    }
    let json = folder.json("datasets.json")?;
    let stored = json.as_ref().and_then(|j| j.root().get("multinomial_n"));
    let x = tensors.f64("cond.multinomial.x")?;
    let trials = match stored {
        Some(node) => node.usize()?,
        None => x.iter().sum::<f64>() as usize,
    };
    let multinomial = Multinomial::new(trials, tensors.f64("cond.multinomial.p")?)?;
    if tensors.contains("multinomial.x") {
        let counts = rows(tensors, "multinomial.x")?;
        let sound = counts
            .iter()
            .filter(|row| multinomial.check(row).is_ok())
            .count();
        check.equal("multinomial, rows of whole counts", &counts.len(), &sound);
        if let Some(labels) = labels(folder, "linear", counts.columns)? {
            let y = tensors.f64("multinomial.y_noisefree")?;
            check.close_all(
                "multinomial, linear",
                &y,
                &of_rows(&labels, &counts),
                CLOSED,
            );
            let y = tensors.f64("multinomial.y")?;
            noise(folder, "multinomial, linear", &labels, &counts, &y, check)?;
        }
    }
    let conditionals = Conditionals {
        tensors,
        name: "multinomial".into(),
        features: Features::Multinomial(multinomial),
        x,
        masks,
    };
    conditionals.moments("mean_analytic", "cov_analytic", check)?;
    conditionals.sampled(check)
}
