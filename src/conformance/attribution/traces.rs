//! Whole runs of LIME and MAPLE in `explanations.safetensors`: deterministic, given what they drew.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::golden::{CLOSED, EXPLAINED, model, rows, x_of};
use crate::attribute::Rows;
use crate::attribute::explainers::Lime;
use crate::attribute::explainers::lime::Bins;
use crate::attribute::explainers::maple::{Local, Neighbours, Settings, feature_scores, split};

pub fn lime(folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(tensors), Some(train)) = (
        folder.tensors("explanations.safetensors")?,
        x_of(folder, EXPLAINED, "train")?,
    ) else {
        return Ok(());
    };
    check.group("lime, traced");
    let bins: Vec<Bins> = (0..train.columns)
        .map(|j| Bins::of(&train.column(j)))
        .collect();
    for (j, own) in bins.iter().enumerate() {
        let array = |what: &str| format!("lime_bins.{j}.{what}");
        if !tensors.contains(&array("quartiles")) {
            continue;
        }
        let lists = [
            ("quartiles", &own.quartiles),
            ("mins", &own.mins),
            ("maxs", &own.maxs),
            ("means", &own.means),
            ("stds", &own.stds),
            ("frequency", &own.frequency),
        ];
        for (what, got) in lists {
            check.close_all(
                format!("feature {j}, {what}"),
                &tensors.f64(&array(what))?,
                got,
                CLOSED,
            );
        }
        let numbers: Vec<f64> = (0..own.means.len()).map(|b| b as f64).collect();
        check.identical(
            format!("feature {j}, bins"),
            &tensors.f64(&array("values"))?,
            &numbers,
        );
    }
    let x = rows(&tensors, "x")?;
    let json = folder.json("explanations.json")?;
    let info = json.as_ref().and_then(|j| j.root().get("info"));
    let lime = Lime::default();
    let mut at = 0;
    while tensors.contains(&format!("lime_trace.{at}.binary")) {
        let name = |what: &str| format!("lime_trace.{at}.{what}");
        let array = |what: &str| tensors.f64(&name(what));
        let binary = rows(&tensors, &name("binary"))?;
        let perturbed = rows(&tensors, &name("perturbed"))?;
        check.identical(format!("run {at}, first row"), x.row(at), perturbed.row(0));
        let own: Vec<f64> = perturbed
            .iter()
            .flat_map(|row| {
                let same = |j: usize| bins[j].bin(row[j]) == bins[j].bin(x.row(at)[j]);
                (0..train.columns)
                    .map(|j| f64::from(u8::from(same(j))))
                    .collect::<Vec<f64>>()
            })
            .collect();
        check.identical(format!("run {at}, zeros and ones"), &binary.values, &own);
        let response = array("response")?;
        if let Some(model) = model(folder, &format!("{EXPLAINED}.mlp"), train.columns)? {
            check.close_all(
                format!("run {at}, responses"),
                &response,
                &model.predict(&perturbed),
                CLOSED,
            );
        }
        let (distances, weights) = lime.kernel(&binary);
        check.close_all(
            format!("run {at}, distances"),
            &array("distance")?,
            &distances,
            CLOSED,
        );
        check.close_all(
            format!("run {at}, weights"),
            &array("weight")?,
            &weights,
            CLOSED,
        );
        let fit = lime.fit(&binary, &response);
        check.close_all(
            format!("run {at}, coefficients"),
            &array("coef")?,
            &fit.coefficients,
            CLOSED,
        );
        check.close_all(
            format!("run {at}, attribution"),
            &array("attribution")?,
            &fit.coefficients,
            CLOSED,
        );
        if let Some(node) = info
            .as_ref()
            .and_then(|i| i.get(&format!("lime_trace_{at}")))
        {
            node.skip_fields(&["own_ridge_maxdiff"]);
            let numbers = [
                ("intercept", fit.intercept),
                ("score", fit.score),
                ("local_pred", fit.local_prediction),
            ];
            for (key, got) in numbers {
                check.close(
                    format!("run {at}, {key}"),
                    node.at(key)?.f64()?,
                    got,
                    CLOSED,
                );
            }
        }
        at += 1;
    }
    Ok(())
}

pub fn maple(folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(tensors), Some(train)) = (
        folder.tensors("explanations.safetensors")?,
        x_of(folder, EXPLAINED, "train")?,
    ) else {
        return Ok(());
    };
    if !tensors.contains("maple_trace.train_leaf_ids") {
        return Ok(());
    }
    check.group("maple, traced");
    let name = |what: &str| format!("maple_trace.{what}");
    let array = |what: &str| tensors.f64(&name(what));
    let settings = Settings::default();
    let (of_forest, of_validation) = split(train.len(), settings.validation);
    let x = rows(&tensors, &name("x_forest_train"))?;
    let valid = rows(&tensors, &name("x_valid"))?;
    check.identical(
        "rows of the forest",
        &x.values,
        &train.take(&of_forest).values,
    );
    check.identical(
        "rows of the validation",
        &valid.values,
        &train.take(&of_validation).values,
    );
    let (response, expected) = (array("response")?, array("valid_response")?);
    if let Some(model) = model(folder, &format!("{EXPLAINED}.mlp"), train.columns)? {
        check.close_all("responses", &response, &model.predict(&x), CLOSED);
        check.close_all(
            "responses of the validation",
            &expected,
            &model.predict(&valid),
            CLOSED,
        );
    }
    let leaf_ids = |what: &str| -> Result<Vec<Vec<usize>>> { tensors.index_rows(&name(what)) };
    let (of_train, of_valid) = (leaf_ids("train_leaf_ids")?, leaf_ids("valid_leaf_ids")?);
    let of_points = leaf_ids("point_leaf_ids")?;
    let trees = of_train.first().map_or(0, Vec::len);
    let by_tree: Vec<Vec<usize>> = (0..trees)
        .map(|t| of_train.iter().map(|row| row[t]).collect())
        .collect();
    let neighbours = Neighbours::new(&by_tree);
    let weights = |rows: &[Vec<usize>]| -> Vec<Vec<f64>> {
        rows.iter()
            .map(|row| neighbours.weights(row.iter().copied()))
            .collect()
    };
    let local_weights = weights(&of_points);
    check.close_all(
        "local weights",
        &array("local_weights")?,
        &local_weights.concat(),
        CLOSED,
    );
    let root = tensors.i64(&name("root_feature"))?;
    let impurity = array("root_impurity")?;
    let roots = root
        .iter()
        .zip(&impurity)
        .map(|(f, i)| (usize::try_from(*f).ok(), *i));
    let scores = feature_scores(train.columns, roots);
    check.close_all("feature scores", &array("feature_scores")?, &scores, CLOSED);
    let of_valid = weights(&of_valid);
    let validation = (&valid, &expected[..], &of_valid[..]);
    let local = Local::choose(x, response, &scores, settings.penalty, validation);
    let json = folder.json("explanations.json")?;
    if let Some(node) = json
        .as_ref()
        .and_then(|j| j.root().get("info")?.get("maple_trace_retain"))
    {
        check.equal("kept features", &node.usize()?, &local.kept);
    }
    let coefficients: Vec<f64> = local_weights
        .iter()
        .flat_map(|w| {
            let (intercept, rest) = local.coefficients(w);
            [vec![intercept], rest].concat()
        })
        .collect();
    check.close_all(
        "coefficients",
        &array("coefs")?,
        &coefficients,
        Tolerance::both(1e-9, 1e-9),
    );
    let means = train.means();
    check.close_all("means", &array("data_mean")?, &means, CLOSED);
    let points = rows(&tensors, "x")?;
    let table = Rows::new(coefficients, train.columns + 1);
    let attribution: Vec<f64> = table
        .iter()
        .zip(points.iter())
        .flat_map(|(c, x)| {
            let parts = c[1..].iter().zip(x.iter().zip(&means));
            parts.map(|(c, (x, m))| c * (x - m)).collect::<Vec<f64>>()
        })
        .collect();
    check.close_all("attribution", &array("attribution")?, &attribution, CLOSED);
    Ok(())
}
