//! Metrics in all editions, on what the original algorithms returned and on edge cases.

use super::sets::{Set, Sets};
use crate::conformance::Result;
use crate::conformance::check::{Check, Tolerance};
use crate::conformance::error::Of;
use crate::conformance::folder::Folder;
use crate::conformance::json::Node;
use crate::metrics::tabular::{Edition, Judged, RowScores, Scorer};
use crate::tabular::{DataSet, Predictor, Rule, SinglePrecision, Statistics};

const EXACT: Tolerance = Tolerance::both(1e-9, 1e-12);
/// 1e-8 in the denominator makes much of rounding.
const MADD: Tolerance = Tolerance::both(1e-6, 1e-9);
/// Single precision: points far outside of the data lose digits in sums of another order.
const PROBABILITY: Tolerance = Tolerance::absolute(1e-4);
/// An inverse of a covariance of full rank.
const INVERTED: Tolerance = Tolerance::relative(1e-6);

pub fn run(folder: &Folder, sets: &Sets, check: &mut Check) -> Result<()> {
    statistics(folder, sets, check)?;
    let inputs = folder.tensors("metrics/metric_inputs.safetensors")?;
    let (Some(json), Some(inputs)) = (folder.json("metrics/metric_expected.json")?, inputs) else {
        return Ok(());
    };
    let mut last: Option<(String, Scorer<'_>)> = None;
    for (key, node) in json.root().fields()? {
        let name = node.at("dataset")?.str()?;
        let Some(set) = sets.get(name).filter(|s| s.network.is_some()) else {
            check.absent(format!("data or network of {name}"));
            node.skip();
            inputs.skip(&format!("{key}.factual"));
            inputs.skip(&format!("{key}.counterfactuals"));
            continue;
        };
        if last.as_ref().is_none_or(|(known, _)| known != name) {
            last = Some((name.into(), scorer(set)?));
        }
        let Some((_, scorer)) = &last else { continue };
        check.group("metrics");
        let class = node.at("factual_class")?.usize()?;
        let row = node.at("dataset_row")?.usize()?;
        let place = node.at("factual_row")?.usize()?;
        let chosen = set.factuals.get(class).and_then(|f| f.get(place)).copied();
        check.equal(format!("{key}: the factual's row"), &Some(row), &chosen);
        let factual = inputs.f64(&format!("{key}.factual"))?;
        let encoded = set.rows.get(row).cloned().unwrap_or_default();
        check.close_all(
            format!("{key}: encoded factual"),
            &factual,
            &encoded,
            Tolerance::absolute(1e-12),
        );
        let flat = inputs.f64(&format!("{key}.counterfactuals"))?;
        let rows: Vec<&[f64]> = flat.chunks_exact(factual.len()).collect();
        let labels = node.at("labels")?.strs()?;
        check.equal(format!("{key}: labelled rows"), &labels.len(), &rows.len());
        cases(key, set, scorer, &node, class, &factual, &rows, check)?;
    }
    Ok(())
}

fn scorer(set: &Set) -> Result<Scorer<'_>> {
    let as_run = DataSet::named(&set.name).map_or(&[][..], |d| d.rules_as_run);
    let rules: std::result::Result<Vec<Rule>, _> = as_run.iter().map(|r| Rule::parse(r)).collect();
    let train = set.split.training_rows(&set.encoding, &set.table);
    Scorer::new(&set.encoding, &set.rows, &train, rules.of(&set.name)?).of(&set.name)
}

/// Medians, means and covariances.
fn statistics(folder: &Folder, sets: &Sets, check: &mut Check) -> Result<()> {
    let Some(tensors) = folder.tensors("metrics/dataset_statistics.safetensors")? else {
        return Ok(());
    };
    check.group("statistics of data sets");
    let names: Vec<String> = tensors.names().map(Into::into).collect();
    let mut known: Option<(String, Statistics, Statistics)> = None;
    for full in names {
        let Some((name, what)) = full.rsplit_once('.') else {
            continue;
        };
        let Some(set) = sets.get(name) else {
            tensors.skip(&full);
            continue;
        };
        if known.as_ref().is_none_or(|(n, _, _)| n != name) {
            let train = set.split.training_rows(&set.encoding, &set.table);
            known = Some((
                name.into(),
                Statistics::of(&set.rows),
                Statistics::of(&train),
            ));
        }
        let Some((_, all, train)) = &known else {
            continue;
        };
        let got = match what {
            "mad_full" => &all.mad,
            "mad_train" => &train.mad,
            "train_mean" => &train.mean,
            "cov_full" => &all.covariance,
            _ => continue,
        };
        check.close_all(
            full.clone(),
            &tensors.f64(&full)?,
            got,
            Tolerance::both(1e-10, 1e-12),
        );
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn cases(
    key: &str,
    set: &Set,
    scorer: &Scorer<'_>,
    node: &Node<'_>,
    class: usize,
    factual: &[f64],
    rows: &[&[f64]],
    check: &mut Check,
) -> Result<()> {
    let Some(network) = &set.network else {
        return Ok(());
    };
    let asked = SinglePrecision(network);
    let whole = |row: &&[f64]| row.iter().all(|v| v.is_finite());
    let p: Vec<Option<f64>> = rows
        .iter()
        .map(|r| whole(r).then(|| asked.probability(r, 1)))
        .collect();
    optional(
        format!("{key}: probabilities"),
        &node.at("prob_class1")?,
        &p,
        PROBABILITY,
        check,
    )?;
    let own = node.at("prob_class1_factual")?.f64()?;
    check.close(
        format!("{key}: factual's probability"),
        own,
        asked.probability(factual, 1),
        PROBABILITY,
    );
    let score = |edition: Edition| -> Vec<RowScores> {
        let each = rows.iter().zip(&p).map(|(row, p)| {
            let judged = Judged {
                factual,
                class,
                counterfactual: Some(row),
                probability: p.unwrap_or(f64::NAN),
            };
            scorer.score(&judged, edition)
        });
        each.collect()
    };
    first(key, &node.at("v1")?, &score(Edition::V1), check)?;
    second(key, &node.at("v2")?, &score(Edition::V2), check)?;
    paper(
        key,
        scorer,
        &node.at("paper_formula")?,
        &score(Edition::Paper),
        check,
    )
}

fn first(key: &str, node: &Node<'_>, got: &[RowScores], check: &mut Check) -> Result<()> {
    let label = |what: &str| format!("{key} v1 {what}");
    flags(
        label("coverage"),
        &node.at("coverage")?,
        got,
        |s| s.coverage,
        check,
    )?;
    numbers(key, "v1", node, got, "md_covariance_not_inverted", check)?;
    let misaligned = Scorer::madd_misaligned(got);
    let expected = node.at("madd_misaligned_as_published")?;
    optional(
        label("MADD on wrong rows"),
        &expected,
        &misaligned,
        MADD,
        check,
    )?;
    ranged(label("RUC"), &node.at("ruc")?, got, |s| s.ruc, check)?;
    flags(label("RMC"), &node.at("rmc")?, got, |s| s.rmc, check)?;
    let (ruc, rmc) = (node.at("ruc_parts")?, node.at("rmc_parts")?);
    type Part = fn(&RowScores) -> Option<bool>;
    let parts: [(&Node<'_>, &str, Part); 4] = [
        (&ruc, "binary", |s| s.realism.binary),
        (&ruc, "range", |s| s.realism.range),
        (&rmc, "onehot", |s| s.realism.one_hot),
        (&rmc, "second_order", |s| s.realism.second_order),
    ];
    for (parent, part, of) in parts {
        let expected = parent.at(part)?;
        if expected.items().is_err() {
            expected.skip();
            // Rules replace the check of groups, where there are any.
            let checked = got
                .iter()
                .any(|s| of(s).is_some() && s.realism.second_order.is_none());
            check.equal(label(&format!("{part} is checked")), &false, &checked);
            continue;
        }
        let holds = |s: &RowScores| s.coverage && of(s).unwrap_or(false);
        ranged(label(part), &expected, got, holds, check)?;
    }
    Ok(())
}

fn second(key: &str, node: &Node<'_>, got: &[RowScores], check: &mut Check) -> Result<()> {
    let label = |what: &str| format!("{key} v2 {what}");
    flags(
        label("coverage"),
        &node.at("coverage_flip")?,
        got,
        |s| s.coverage,
        check,
    )?;
    flags(
        label("0/1 columns"),
        &node.at("binary_ok")?,
        got,
        |s| s.ruc,
        check,
    )?;
    flags(
        label("groups"),
        &node.at("onehot_ok")?,
        got,
        |s| s.rmc,
        check,
    )?;
    flags(
        label("validity"),
        &node.at("coverage")?,
        got,
        |s| s.validity,
        check,
    )?;
    numbers(key, "v2", node, got, "md", check)
}

fn numbers(
    key: &str,
    edition: &str,
    node: &Node<'_>,
    got: &[RowScores],
    md: &str,
    check: &mut Check,
) -> Result<()> {
    type Part = fn(&RowScores) -> Option<f64>;
    let parts: [(&str, Part, Tolerance); 4] = [
        ("sparsity", |s| s.sparsity, EXACT),
        ("l2", |s| s.l2, EXACT),
        ("madd", |s| s.madd, MADD),
        (md, |s| s.md, EXACT),
    ];
    for (part, of, tolerance) in parts {
        let values: Vec<Option<f64>> = got.iter().map(of).collect();
        optional(
            format!("{key} {edition} {part}"),
            &node.at(part)?,
            &values,
            tolerance,
            check,
        )?;
    }
    Ok(())
}

/// The inverse of a singular covariance is what numpy's rounding makes of it: such values are not comparable and are left out.
fn paper(
    key: &str,
    scorer: &Scorer<'_>,
    node: &Node<'_>,
    got: &[RowScores],
    check: &mut Check,
) -> Result<()> {
    let rank = node.at("covariance_rank")?.usize()?;
    let singular = scorer.mahalanobis().is_singular();
    if singular {
        node.skip_fields(&["md_to_factual_pinv", "md_to_dataset_mean_pinv"]);
        let at_least = rank >= scorer.mahalanobis().rank;
        check.equal(
            format!("{key}: rank of a singular covariance, at most numpy's"),
            &true,
            &at_least,
        );
        return Ok(());
    }
    check.equal(
        format!("{key}: rank of the covariance"),
        &rank,
        &scorer.mahalanobis().rank,
    );
    let values: Vec<Option<f64>> = got.iter().map(|s| s.md_to_factual).collect();
    let expected = node.at("md_to_factual_pinv")?;
    optional(
        format!("{key} MD to the factual"),
        &expected,
        &values,
        INVERTED,
        check,
    )?;
    let values: Vec<Option<f64>> = got.iter().map(|s| s.md).collect();
    let expected = node.at("md_to_dataset_mean_pinv")?;
    optional(
        format!("{key} MD to the mean"),
        &expected,
        &values,
        INVERTED,
        check,
    )
}

/// The same without the rows that rounding puts inside or outside of a range.
fn ranged(
    what: String,
    expected: &Node<'_>,
    got: &[RowScores],
    of: impl Fn(&RowScores) -> bool,
    check: &mut Check,
) -> Result<()> {
    let wanted = expected.list(flag)?;
    let keep = |i: &usize| !got[*i].realism.at_an_end || wanted.get(*i) == Some(&of(&got[*i]));
    let kept: Vec<usize> = (0..got.len()).filter(keep).collect();
    let wanted: Vec<bool> = kept
        .iter()
        .filter_map(|&i| wanted.get(i).copied())
        .collect();
    let got: Vec<bool> = kept.iter().map(|&i| of(&got[i])).collect();
    check.identical(what, &wanted, &got);
    Ok(())
}

fn flag(item: &Node<'_>) -> Result<bool> {
    match item.bool() {
        Ok(flag) => Ok(flag),
        Err(_) => item.f64().map(|v| v == 1.0),
    }
}

/// A list of true and false, or of 1 and 0.
fn flags(
    what: String,
    expected: &Node<'_>,
    got: &[RowScores],
    of: impl Fn(&RowScores) -> bool,
    check: &mut Check,
) -> Result<()> {
    let got: Vec<bool> = got.iter().map(of).collect();
    check.identical(what, &expected.list(flag)?, &got);
    Ok(())
}

/// A list in which null stands for no value.
pub fn optional(
    what: String,
    expected: &Node<'_>,
    got: &[Option<f64>],
    tolerance: Tolerance,
    check: &mut Check,
) -> Result<()> {
    let expected = expected.list(Node::f64_or_null)?;
    let absent = |list: &[Option<f64>]| -> Vec<bool> { list.iter().map(Option::is_none).collect() };
    if absent(&expected) != absent(got) {
        check.identical(
            format!("{what}: which rows have a value"),
            &absent(&expected),
            &absent(got),
        );
        return Ok(());
    }
    let expected: Vec<f64> = expected.into_iter().flatten().collect();
    let got: Vec<f64> = got.iter().flatten().copied().collect();
    check.close_all(what, &expected, &got, tolerance);
    Ok(())
}
