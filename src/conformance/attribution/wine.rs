//! `wine_simulation.*`: the twin of a real table, where the table is there.

use std::collections::BTreeMap;

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::golden::{CLOSED, rows};
use crate::attribute::data::{Table, nearest_neighbour};
use crate::attribute::{Rows, mean_and_std};

/// Draws of a twin move its distances by a few thousandths.
const DRAWN: Tolerance = Tolerance::absolute(0.02);

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(tensors), Some(json)) = (
        folder.tensors("wine_simulation.safetensors")?,
        folder.json("wine_simulation.json")?,
    ) else {
        return Ok(());
    };
    check.group("wine twin");
    let root = json.root();
    let Some(bytes) = folder.bytes("winequality_white.csv")? else {
        check.absent("cases of the wine twin");
        root.skip();
        let names: Vec<String> = tensors.names().map(Into::into).collect();
        names.iter().for_each(|n| tensors.skip(n));
        return Ok(());
    };
    let table = read(&String::from_utf8_lossy(&bytes));
    check.equal("rows", &root.at("rows")?.usize()?, &table.x.len());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    table
        .y
        .iter()
        .for_each(|y| *counts.entry(y.to_string()).or_default() += 1);
    for (quality, count) in root.at("quality_counts")?.fields()? {
        let got = counts.get(quality).copied().unwrap_or(0);
        check.equal(format!("rows of quality {quality}"), &count.usize()?, &got);
    }
    let columns: Vec<(f64, f64)> = (0..table.x.columns)
        .map(|j| mean_and_std(&table.x.column(j), 0))
        .collect();
    let (means, stds): (Vec<f64>, Vec<f64>) = columns.into_iter().unzip();
    check.close_all("means", &root.at("feature_mean")?.f64s()?, &means, CLOSED);
    check.close_all(
        "deviations",
        &root.at("feature_std_ddof0")?.f64s()?,
        &stds,
        CLOSED,
    );
    let real = table.standardised()?;
    let covariance = tensors.f64("white_wine.cov")?;
    check.close_all("covariance", &covariance, &real.covariance(1), CLOSED);
    let sim = rows(&tensors, "white_wine.sim_x")?;
    let labels = nearest_neighbour(&real, &table.y, &sim);
    let expected = tensors.f64("white_wine.sim_y_1nn")?;
    check.close_all("labels of the nearest rows", &expected, &labels, CLOSED);
    let own = nearest_neighbour(&real, &table.y, &real.head(500));
    let error: f64 = own.iter().zip(&table.y).map(|(a, b)| (a - b).powi(2)).sum();
    check.close(
        "nearest rows of the table itself: squared error",
        root.at("knn_train_mse")?.f64()?,
        error,
        CLOSED,
    );
    let (_, report) = table.twin(None, Some(1), 7)?;
    let distances: Vec<f64> = report.features.iter().map(|(_, v)| *v).collect();
    let expected = root.at("marginal_jsd_per_feature")?.f64s()?;
    check.close_all("distances of the marginals", &expected, &distances, DRAWN);
    check.close(
        "their mean",
        root.at("marginal_jsd_mean")?.f64()?,
        report.mean,
        DRAWN,
    );
    // The released script prints the last feature's distance as the target's.
    let last = distances.last().copied().unwrap_or(f64::NAN);
    let released = root.at("jsd_printed_as_target_but_last_feature")?.f64()?;
    check.close("distance of the target, as released", released, last, DRAWN);
    let target = root.at("target_jsd_true_quality_histogram")?.f64()?;
    check.close(
        "distance of the target, corrected",
        target,
        report.target,
        DRAWN,
    );
    root.skip_fields(&["target_jsd_note"]);
    Ok(())
}

fn read(text: &str) -> Table {
    let lines = text.lines().filter(|l| !l.trim().is_empty());
    let number = |field: &str| field.trim().parse::<f64>().unwrap_or(f64::NAN);
    let all: Vec<Vec<f64>> = lines.map(|l| l.split(',').map(number).collect()).collect();
    let d = all.first().map_or(1, Vec::len) - 1;
    Table {
        names: (0..d).map(|j| format!("column {}", j + 1)).collect(),
        y: all.iter().filter_map(|row| row.get(d)).copied().collect(),
        x: Rows::from_rows(all.iter().map(|row| row[..d].to_vec()), d),
    }
}
