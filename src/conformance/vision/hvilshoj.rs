//! `ec_expected.json`: the evaluator published with \[quantitative-evaluations\].
//! EN 1e-5 relative, Jensen–Shannon 2e-6 absolute, counts and fractions exact.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::tensors::{Tensors, rows};
use crate::metrics::hvilshoj::{Samples, Score, predictions};
use crate::metrics::jensen_shannon::{Probabilities, Protocol, jensen_shannon, published_kl_terms};
use crate::metrics::lp;
use crate::stats::interval::{mean, std_population};
use crate::tensor::Array;

const EN: Tolerance = Tolerance::relative(1e-5);
const JS: Tolerance = Tolerance::absolute(2e-6);
const EXACT: Tolerance = Tolerance::relative(1e-14);
/// The edge cases are in f64; a divergence of 3e-13 is left by cancellation of terms of size 1e-12.
const JS_EDGE: Tolerance = Tolerance::absolute(1e-15);
const KL_EDGE: Tolerance = Tolerance::both(1e-12, 1e-16);
/// The input of `JS_1d_prob_above_one`, which the file does not hold.
const ABOVE_ONE: [&[f64]; 2] = [&[1.2, 0.5], &[0.4, 0.5]];

/// Probabilities of originals and counterfactuals, and the number of classes.
struct Pair {
    classes: usize,
    sides: [Vec<f64>; 2],
}

impl Pair {
    fn read(stored: &Tensors, name: &str) -> Result<Self> {
        let (x, x_cf) = (format!("{name}_p_x"), format!("{name}_p_xcf"));
        Ok(Self {
            classes: rows(&stored.f32(&x)?).1,
            sides: [stored.f64(&x)?, stored.f64(&x_cf)?],
        })
    }

    fn rows(&self) -> Result<[Probabilities<'_>; 2]> {
        let [p, q] = &self.sides;
        Ok([
            probabilities(self.classes, p)?,
            probabilities(self.classes, q)?,
        ])
    }
}

fn probabilities(classes: usize, values: &[f64]) -> Result<Probabilities<'_>> {
    Probabilities::new("probabilities", classes, values).of("ec_inputs.safetensors")
}

struct Inputs {
    x: Array,
    x_cf: Array,
    y_hat: Vec<i64>,
    y_hat_cf: Vec<i64>,
    y_cf_target: Vec<i64>,
    oracle: Pair,
    label2: Pair,
    binary: Pair,
    xmin: f32,
}

impl Inputs {
    fn samples(&self, n_samples: i64) -> Samples<'_> {
        Samples {
            values_per_image: rows(&self.x).1,
            x: &self.x.data,
            x_cf: &self.x_cf.data,
            y_hat: &self.y_hat,
            y_hat_cf: &self.y_hat_cf,
            y_cf_target: &self.y_cf_target,
            xmin: self.xmin,
            n_samples,
        }
    }
}

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("ec_expected.json")? else {
        return Ok(());
    };
    let root = json.root();
    let Some(stored) = folder.tensors("ec_inputs.safetensors")? else {
        root.skip();
        check.absent("ec: all cases (ec_inputs.safetensors is absent)");
        return Ok(());
    };
    let inputs = Inputs {
        x: stored.f32("x")?,
        x_cf: stored.f32("x_cf")?,
        y_hat: stored.i64("y_hat")?,
        y_hat_cf: stored.i64("y_hat_cf")?,
        y_cf_target: stored.i64("y_cf_target")?,
        oracle: Pair::read(&stored, "oracle")?,
        label2: Pair::read(&stored, "label2")?,
        binary: Pair::read(&stored, "binary")?,
        xmin: root.at("xmin")?.f64()? as f32,
    };
    if stored.contains("y") {
        stored.skip("y");
        check.unused(
            "ec_inputs.safetensors: y",
            "no published score depends on the true label",
        );
    }
    for (name, case) in root.fields()? {
        let n_samples = match name {
            "all" => Some(-1),
            _ => name.strip_prefix("n_samples_").and_then(|n| n.parse().ok()),
        };
        match n_samples {
            Some(n) => scores(name, &case, &inputs, &inputs.samples(n), check)?,
            None => other(name, &case, &root, &inputs, check)?,
        }
    }
    Ok(())
}

fn scores(
    name: &str,
    cases: &Node<'_>,
    inputs: &Inputs,
    samples: &Samples<'_>,
    check: &mut Check,
) -> Result<()> {
    check.group("ec: EN, TCV, Oracle, LVS");
    for (metric, expected) in cases.fields()? {
        let what = format!("{name} {metric}");
        match metric {
            "EN" => score(&what, &expected, samples.elastic_net().of(name)?, EN, check)?,
            "TCV" => {
                let got = samples.target_class_validity().of(name)?;
                score(&what, &expected, got, EXACT, check)?;
            }
            "Oracle" => {
                let [_, q] = inputs.oracle.rows()?;
                let got = samples.oracle(&predictions(q)).of(name)?;
                score(&what, &expected, got, EXACT, check)?;
            }
            "LVS" => {
                for (labels, expected) in expected.fields()? {
                    let pair = match labels {
                        "FakeMNIST" => &inputs.oracle,
                        "MNIST" => &inputs.label2,
                        _ => continue,
                    };
                    let [p, q] = pair.rows()?;
                    let got = samples.label_variation(p, q).of(name)?;
                    score(&format!("{what} {labels}"), &expected, got, JS, check)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn score(
    what: &str,
    expected: &Node<'_>,
    got: Score,
    tolerance: Tolerance,
    check: &mut Check,
) -> Result<()> {
    check.close(
        format!("{what} mean"),
        expected.at("mean")?.f64()?,
        got.mean,
        tolerance,
    );
    check.close(
        format!("{what} ci95"),
        expected.at("ci95")?.f64()?,
        got.ci95,
        tolerance,
    );
    check.equal(format!("{what} n"), &expected.at("n")?.usize()?, &got.n);
    Ok(())
}

fn other(
    name: &str,
    case: &Node<'_>,
    root: &Node<'_>,
    inputs: &Inputs,
    check: &mut Check,
) -> Result<()> {
    check.group(if name.starts_with("EN") {
        "ec: EN per sample"
    } else {
        "ec: JS"
    });
    match name {
        "EN_per_sample" => {
            let got = inputs.samples(-1).elastic_net_per_sample().of(name)?;
            check.close_all(name, &case.f64s()?, &got, EN);
        }
        "EN_variant_with_squared_l2_per_sample" => {
            let columns = rows(&inputs.x).1;
            let sums = lp::per_image(&inputs.x.data, &inputs.x_cf.data, columns).of(name)?;
            let got: Vec<f64> = sums.iter().map(|s| s.elastic_net()).collect();
            check.close_all(name, &case.f64s()?, &got, EN);
        }
        "JS_2d" => divergence(name, case, inputs.oracle.rows()?, JS, check)?,
        "JS_1d_binary" => divergence(name, case, inputs.binary.rows()?, JS, check)?,
        "JS_edge_float64" => {
            let (p, q) = (
                case.at("P")?.list(Node::f64s)?,
                case.at("Q")?.list(Node::f64s)?,
            );
            let classes = p.first().map_or(0, Vec::len);
            let (p, q) = (p.concat(), q.concat());
            let sides = [probabilities(classes, &p)?, probabilities(classes, &q)?];
            divergence(name, case, sides, JS_EDGE, check)?;
        }
        "JS_1d_prob_above_one" => {
            let [p, q] = ABOVE_ONE;
            let sides = (probabilities(1, p)?, probabilities(1, q)?);
            let got = jensen_shannon(sides.0, sides.1, Protocol::Published).of(name)?;
            check.equal(name, &case.list(Node::f64_or_null)?, &got);
        }
        "KL_elementwise_edge" => {
            let edge = root.at("JS_edge_float64")?;
            let (p, q) = (
                edge.at("P")?.list(Node::f64s)?,
                edge.at("Q")?.list(Node::f64s)?,
            );
            let got: Vec<f64> = p
                .iter()
                .zip(&q)
                .flat_map(|(p, q)| published_kl_terms(p, q))
                .collect();
            check.close_all(name, &case.list(Node::f64s)?.concat(), &got, KL_EDGE);
        }
        _ => {}
    }
    Ok(())
}

fn divergence(
    name: &str,
    case: &Node<'_>,
    [p, q]: [Probabilities<'_>; 2],
    tolerance: Tolerance,
    check: &mut Check,
) -> Result<()> {
    let got = jensen_shannon(p, q, Protocol::Published).of(name)?;
    let values: Vec<f64> = got.iter().map(|v| v.unwrap_or(f64::NAN)).collect();
    for (field, expected) in case.fields()? {
        let what = format!("{name} {field}");
        match field {
            "per_sample" => check.close_all(what, &expected.f64s()?, &values, tolerance),
            "mean" => {
                let average = mean(&values).unwrap_or(f64::NAN);
                check.close(what, expected.f64()?, average, tolerance);
            }
            "std_population" => {
                let std = std_population(&values).unwrap_or(f64::NAN);
                check.close(what, expected.f64()?, std, tolerance);
            }
            "n" => check.equal(what, &expected.usize()?, &values.len()),
            _ => {}
        }
    }
    Ok(())
}
