//! `models.safetensors`, `models.json`: predictions of stored models, and our own training beside them.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::golden::{CLOSED, model, rows, x_of};
use crate::attribute::data::{Split, Task};
use crate::attribute::models::{Kind, Model};

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let (Some(tensors), Some(data)) = (
        folder.tensors("models.safetensors")?,
        folder.tensors("datasets.safetensors")?,
    ) else {
        return Ok(());
    };
    let json = folder.json("models.json")?;
    if let Some(json) = &json {
        json.root().skip_fields(&["sklearn"]);
    }
    let names: Vec<String> = tensors.names().map(Into::into).collect();
    for name in names.iter().filter_map(|n| n.strip_suffix(".pred16")) {
        let set = name.rsplit_once('.').map_or(name, |(set, _)| set);
        let Some(x_val) = x_of(folder, set, "val")? else {
            check.absent(format!("rows of {set}"));
            tensors.skip(&format!("{name}.pred16"));
            continue;
        };
        let Some(found) = model(folder, name, x_val.columns)? else {
            continue;
        };
        check.group("model predictions");
        let expected = tensors.f64(&format!("{name}.pred16"))?;
        let got = found.predict(&x_val.head(expected.len()));
        check.close_all(name, &expected, &got, CLOSED);
        let part = |part: &str| -> Result<Split> {
            Ok(Split {
                x: rows(&data, &format!("{set}.x_{part}"))?,
                y: data.f64(&format!("{set}.y_{part}"))?,
            })
        };
        let (train, val) = (part("train")?, part("val")?);
        let Some(node) = json
            .as_ref()
            .and_then(|j| j.root().get("models")?.get(name))
        else {
            continue;
        };
        node.skip_fields(&["train_seconds", "recomputed_max_abs_diff", "params", "loss"]);
        for (key, split) in [("mse_train", &train), ("mse_val", &val)] {
            let expected = node.at(key)?.f64()?;
            check.close(
                format!("{name}, {key}"),
                expected,
                found.squared_error(split),
                CLOSED,
            );
        }
        if let Model::Tree(tree) = &found {
            let counts = [
                ("nodes", tree.left.len()),
                ("depth", tree.depth()),
                ("leaves", tree.leaves()),
            ];
            for (key, got) in counts {
                check.equal(format!("{name}, {key}"), &node.at(key)?.usize()?, &got);
            }
        }
        check.group("models trained here");
        trained(name, &found, &train, &val, check);
        if let Some(epochs) = node.get("n_iter") {
            // Ours begins with other weights; a network that hit the limit does so again, others stop nearby.
            let expected = epochs.f64()?;
            let settings = crate::attribute::models::MlpSettings::default();
            let link = crate::attribute::models::Link::Identity;
            let (_, got) = settings.train(&train.x, &train.y, link, 1);
            check.close(
                format!("{name}, epochs"),
                expected,
                got as f64,
                Tolerance::both(0.6, 0.0),
            );
        }
    }
    Ok(())
}

fn trained(name: &str, stored: &Model, train: &Split, val: &Split, check: &mut Check) {
    match stored {
        Model::Linear(expected) => {
            if let Model::Linear(got) = Kind::Linear.train(train, Task::Regression, 0) {
                let what = format!("{name}, coefficients");
                check.close_all(what, &expected.coefficients, &got.coefficients, CLOSED);
                check.close(
                    format!("{name}, intercept"),
                    expected.intercept,
                    got.intercept,
                    CLOSED,
                );
            }
        }
        Model::Tree(expected) => {
            let grown = Kind::Tree.train(train, Task::Regression, 0);
            if let Model::Tree(got) = &grown {
                check.equal(
                    format!("{name}, nodes"),
                    &expected.left.len(),
                    &got.left.len(),
                );
                let root = |t: &crate::attribute::models::Tree| (t.feature[0], t.threshold[0]);
                check.equal(format!("{name}, first split"), &root(expected), &root(got));
            }
            check.close(
                format!("{name}, error on training rows"),
                0.0,
                grown.squared_error(train),
                CLOSED,
            );
            // Splits that gain the same are chosen at random, so the trees differ below.
            let (expected, got) = (stored.squared_error(val), grown.squared_error(val));
            check.close(
                format!("{name}, error on validation rows"),
                expected,
                got,
                Tolerance::both(0.5, 1e-3),
            );
        }
        Model::Mlp(_) => {
            let own = Kind::Mlp.train(train, Task::Regression, 1);
            let (expected, got) = (stored.squared_error(val), own.squared_error(val));
            // Other first weights: errors of scikit-learn's own runs differ by half as well.
            check.close(
                format!("{name}, error on validation rows"),
                expected,
                got,
                Tolerance::both(0.6, 3e-3),
            );
        }
        Model::Forest(_) => {}
    }
}
