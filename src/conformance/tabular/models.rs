//! The original networks: AUC, accuracy, probabilities; and what training anew gives.

use super::sets::{Set, Sets};
use crate::conformance::Result;
use crate::conformance::check::{Check, Tolerance};
use crate::conformance::error::Of;
use crate::conformance::folder::Folder;
use crate::conformance::json::Node;
use crate::metrics::MetricBackend;
use crate::tabular::{
    FitSettings, Grid, Network, Predictor, Toward, accuracy, area_under_curve, probabilities_on,
};
use crate::tensor::TypedArrays;

const AUC: f64 = 1e-6;
/// Difference of two rows' logits, as a share of their size, that single precision does not decide.
const SAME_LOGIT: f64 = 2e-6;
const PROBABILITY: Tolerance = Tolerance::absolute(1e-5);
/// Published numbers have two digits.
const PRINTED: Tolerance = Tolerance::absolute(0.0051);
/// How far the AUC of one training may lie outside what five trainings with other random numbers gave.
const OTHER_SEED: f64 = 0.05;

pub fn run<B: MetricBackend + 'static>(
    backend: &B,
    folder: &Folder,
    sets: &Sets,
    check: &mut Check,
) -> Result<()> {
    if let Some(json) = folder.json("models/expected_performance.json")? {
        for (name, node) in json.root().fields()? {
            match sets.get(name).filter(|s| s.network.is_some()) {
                Some(set) => performance(set, &node, check)?,
                None => {
                    check.absent(format!("data or network of {name}"));
                    node.skip();
                }
            }
        }
    }
    if let Some(json) = folder.json("models/retraining_auc.json")? {
        check.group("training anew");
        for (name, node) in json.root().fields()? {
            match sets.get(name) {
                Some(set) => retraining(folder, set, &node, check)?,
                None => node.skip(),
            }
        }
    }
    without_rows(backend, folder, check)
}

fn scores(set: &Set, rows: &[usize]) -> (Vec<f64>, Vec<usize>) {
    let label = |&r: &usize| set.table.label(r);
    let scores = rows.iter().map(|&r| set.probabilities[r]).collect();
    (scores, rows.iter().map(label).collect())
}

/// Share of the pairs of a row with label 0 and one with label 1 whose order hangs on the rounding of single precision: an AUC can be off by that much.
fn undecided(set: &Set, rows: &[usize]) -> f64 {
    let Some(network) = &set.network else {
        return 0.0;
    };
    let mut toward = Toward::new(network, 1);
    let mut margins: [Vec<f64>; 2] = Default::default();
    for &row in rows {
        margins[set.table.label(row)].push(toward.margin(&set.rows[row]));
    }
    let [zeros, mut ones] = margins;
    ones.sort_by(f64::total_cmp);
    let close = |m: &f64| {
        let by = SAME_LOGIT * (1.0 + m.abs());
        let within = |low: f64, high: f64| {
            ones.partition_point(|v| *v <= high) - ones.partition_point(|v| *v < low)
        };
        // Equal logits come from equal rows, which are equal in any arithmetic.
        within(m - by, m + by) - within(*m, *m)
    };
    let pairs: usize = zeros.iter().map(close).sum();
    pairs as f64 / (zeros.len() * ones.len()).max(1) as f64
}

fn performance(set: &Set, node: &Node<'_>, check: &mut Check) -> Result<()> {
    check.group("networks");
    let all: Vec<usize> = (0..set.rows.len()).collect();
    let parts: [(&str, &str, &[usize]); 6] = [
        ("train", "train", &set.split.train),
        ("validation", "valid", &set.split.validation),
        ("test", "test", &set.split.test),
        ("factual0", "fac0", &set.factuals[0]),
        ("factual1", "fac1", &set.factuals[1]),
        ("", "total", &all),
    ];
    let published = node.get("published");
    for (part, printed, rows) in parts {
        let (scores, labels) = scores(set, rows);
        let auc = area_under_curve(&scores, &labels).unwrap_or(f64::NAN);
        let right = accuracy(&scores, &labels);
        let label = format!("{} {printed}", set.name);
        if let Some(expected) = node.get(part) {
            check.equal(
                format!("{label}: rows"),
                &expected.at("n")?.usize()?,
                &rows.len(),
            );
            if let Some(value) = expected.get("auc") {
                let within = Tolerance::absolute(AUC + undecided(set, rows));
                check.close(format!("{label}: AUC"), value.f64()?, auc, within);
            }
            let value = expected.at("accuracy")?.f64()?;
            let within = Tolerance::absolute(AUC);
            check.close(format!("{label}: accuracy"), value, right, within);
        }
        let Some(published) = &published else {
            continue;
        };
        let got = [
            ("Rows", rows.len() as f64),
            ("AUC", auc),
            ("Acuracy", right),
        ];
        for (word, got) in got {
            if let Some(value) = published.get(&format!("{word} ({printed})")) {
                check.close(
                    format!("{label}: published {word}"),
                    value.f64()?,
                    got,
                    PRINTED,
                );
            }
        }
    }
    if let Some(published) = &published {
        let labels = set.table.labels();
        let ones = labels.iter().sum::<usize>() as f64;
        let ratio = (labels.len() as f64 - ones) / ones;
        let hidden = set.network.as_ref().map_or(0, Network::hidden) as f64;
        let got = [
            ("Class 0/1 ratio", ratio),
            ("Columns", (set.encoding.width() + 1) as f64),
            ("Neurons", hidden),
        ];
        for (word, got) in got {
            let value = published.at(word)?.f64()?;
            check.close(
                format!("{}: published {word}", set.name),
                value,
                got,
                PRINTED,
            );
        }
        published.skip_fields(&["Dataset", "Epochs", "LR"]);
    }
    for class in 0..2 {
        let key = format!("prob_class1_of_factual{class}_first5");
        let Some(expected) = node.get(&key) else {
            continue;
        };
        let expected = expected.f64s()?;
        let rows = set.factuals[class].iter().take(expected.len());
        let got: Vec<f64> = rows.map(|&r| set.probabilities[r]).collect();
        check.close_all(format!("{}: {key}", set.name), &expected, &got, PROBABILITY);
    }
    Ok(())
}

fn retraining(folder: &Folder, set: &Set, node: &Node<'_>, check: &mut Check) -> Result<()> {
    node.skip_fields(&["seeds", "published", "seconds_per_training", "auc_mean"]);
    let Some(schema) = folder.json("datasets/schema.json")? else {
        return Ok(());
    };
    let training = schema.root().at(&set.name)?.at("training")?;
    let labels =
        |rows: &[usize]| -> Vec<usize> { rows.iter().map(|&r| set.table.label(r)).collect() };
    let rows =
        |rows: &[usize]| -> Vec<Vec<f64>> { rows.iter().map(|&r| set.rows[r].clone()).collect() };
    let (train, validation) = (rows(&set.split.train), rows(&set.split.validation));
    let (of_train, of_validation) = (labels(&set.split.train), labels(&set.split.validation));
    let grid = Grid {
        train: &train,
        train_labels: &of_train,
        validation: &validation,
        validation_labels: &of_validation,
    };
    let fit = grid.fit(FitSettings {
        learning_rate: training.at("learning_rate")?.f64()? as f32,
        epochs: training.at("epochs")?.usize()?,
        hidden: training.at("hidden")?.usize()?,
        seed: 0,
    });
    let (least, most) = (node.at("auc_min")?, node.at("auc_max")?);
    for (part, rows) in [
        ("train", &set.split.train),
        ("validation", &set.split.validation),
        ("test", &set.split.test),
    ] {
        let flat: Vec<f64> = rows.iter().flat_map(|&r| set.rows[r].clone()).collect();
        let given = fit.network.probabilities(&flat);
        let scores: Vec<f64> = given.iter().map(|p| p[1]).collect();
        let auc = area_under_curve(&scores, &labels(rows)).unwrap_or(f64::NAN);
        let (low, high) = (least.at(part)?.f64()?, most.at(part)?.f64()?);
        let (middle, half) = ((low + high) / 2.0, (high - low) / 2.0);
        let within = Tolerance::absolute(half + OTHER_SEED);
        check.close(
            format!("{} {part}: AUC among those of five seeds", set.name),
            middle,
            auc,
            within,
        );
    }
    Ok(())
}

/// Data sets whose rows are not there: networks on their factuals.
fn without_rows<B: MetricBackend + 'static>(
    backend: &B,
    folder: &Folder,
    check: &mut Check,
) -> Result<()> {
    check.group("networks without data");
    for name in ["ISOLET", "SDD"] {
        let model = format!("models/{name}.safetensors");
        let Some(factuals) = folder.tensors(&format!("factuals/{name}.safetensors"))? else {
            continue;
        };
        let Some(bytes) = folder.bytes(&model)? else {
            check.absent(model);
            for class in ["class0", "class1"] {
                factuals.skip(class);
                factuals.skip(&format!("{class}.prob_class1"));
            }
            continue;
        };
        let arrays = TypedArrays::from_bytes(&bytes, &folder.name(&model))?;
        let network = Network::from_arrays(&arrays).of(name)?;
        for (class, key) in ["class0", "class1"].into_iter().enumerate() {
            let rows = factuals.f32_of_rank(key, 2)?;
            let width = rows.shape[1];
            network.check_width(&model, width).of(name)?;
            let expected = factuals.f64(&format!("{key}.prob_class1"))?;
            let count = rows.shape[0];
            // Some files hold these rows column after column; what the probabilities fit is taken.
            let along = |by_column: bool| -> Result<Vec<f64>> {
                let place = |r: usize, c: usize| {
                    if by_column {
                        c * count + r
                    } else {
                        r * width + c
                    }
                };
                let value = |r: usize, c: usize| f64::from(rows.data[place(r, c)]);
                let rows: Vec<Vec<f64>> = (0..count)
                    .map(|r| (0..width).map(|c| value(r, c)).collect())
                    .collect();
                let got = probabilities_on(backend, &network, &rows).of(name)?;
                Ok(got.iter().map(|p| f64::from(p[1])).collect())
            };
            let away = |got: &[f64]| -> f64 {
                let each = got.iter().zip(&expected).map(|(a, b)| (a - b).abs());
                each.fold(0.0, f64::max)
            };
            let (by_row, by_column) = (along(false)?, along(true)?);
            let got = if away(&by_column) < away(&by_row) {
                by_column
            } else {
                by_row
            };
            check.close_all(
                format!("{name} {key}: probabilities"),
                &expected,
                &got,
                PROBABILITY,
            );
            let classes: Vec<usize> = got.iter().map(|p| usize::from(*p > 0.5)).collect();
            check.identical(
                format!("{name} {key}: classes"),
                &vec![class; classes.len()],
                &classes,
            );
        }
    }
    Ok(())
}
