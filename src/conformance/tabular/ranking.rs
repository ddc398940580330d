//! Rank tables of the later package, and Tables 4 and 5 of the paper.

use std::collections::BTreeMap;

use crate::conformance::check::{Check, Tolerance};
use crate::conformance::folder::Folder;
use crate::conformance::json::Node;
use crate::conformance::{ConformanceError, Result};
use crate::stats::friedman::Friedman;
use crate::stats::ranks::{Better, rank_block};

const STATISTIC: Tolerance = Tolerance::both(1e-9, 1e-9);
const P_VALUE: Tolerance = Tolerance::absolute(1e-6);
const PRINTED: Tolerance = Tolerance::absolute(0.005 + 1e-9);

pub fn run(folder: &Folder, check: &mut Check) -> Result<()> {
    matrix(folder, check)?;
    published(folder, check)
}

fn table(folder: &Folder, file: &str) -> Result<Option<Vec<BTreeMap<String, String>>>> {
    let Some(bytes) = folder.bytes(file)? else {
        return Ok(None);
    };
    let wrong = |e: csv::Error| ConformanceError::Content {
        file: folder.name(file),
        place: "a line".into(),
        expected: "a CSV".into(),
        found: e.to_string(),
    };
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let rows: std::result::Result<_, _> = reader.deserialize().collect();
    rows.map(Some).map_err(wrong)
}

fn matrix(folder: &Folder, check: &mut Check) -> Result<()> {
    check.group("rank tables");
    let rows = table(folder, "ranking/results_rows.csv")?;
    let tensors = folder.tensors("ranking/results_matrix.safetensors")?;
    let algorithms = folder.json("ranking/algorithms.json")?;
    let expected = folder.json("ranking/expected_ranking.json")?;
    let (Some(rows), Some(tensors), Some(algorithms), Some(expected)) =
        (rows, tensors, algorithms, expected)
    else {
        return Ok(());
    };
    let names = algorithms.root().at("algorithms")?.strs()?;
    let k = names.len();
    let valid = tensors.f64("coverage_and_encoding_ok")?;
    let parts = ["coverage", "binary_ok", "onehot_ok"];
    let [coverage, binary, one_hot] = [0, 1, 2].map(|i| tensors.f64(parts[i]));
    let (coverage, binary, one_hot) = (coverage?, binary?, one_hot?);
    let together: Vec<f64> = (0..valid.len())
        .map(|i| coverage[i] * binary[i] * one_hot[i])
        .collect();
    check.identical("validity is coverage with sound columns", &valid, &together);
    tensors.skip("seconds");
    for (key, node) in expected.root().fields()? {
        let (group, metric) = key.split_once('|').unwrap_or((key, ""));
        let (values, better) = match metric {
            "validity" => (valid.clone(), Better::Larger),
            "sparsity" => (tensors.f64("sparsity")?, Better::Larger),
            "l2" => (tensors.f64("l2")?, Better::Smaller),
            "MAD" => (tensors.f64("madd_as_published")?, Better::Smaller),
            "MD" => (tensors.f64("md")?, Better::Smaller),
            _ => continue,
        };
        let of_group =
            |r: &usize| group == "all" || rows[*r].get("type").is_some_and(|t| t == group);
        let blocks: Vec<Vec<f64>> = (0..rows.len())
            .filter(of_group)
            .map(|r| {
                let value = |j: usize| match metric == "validity" || valid[r * k + j] == 1.0 {
                    true => values[r * k + j],
                    false => f64::NAN,
                };
                let row: Vec<f64> = (0..k).map(value).collect();
                rank_block(&row, better)
            })
            .collect();
        let Some(test) = Friedman::of_ranks(&blocks) else {
            check.absent(format!("rows of group {group}"));
            node.skip();
            continue;
        };
        let means = node.at("mean_ranks")?;
        for (name, mean) in names.iter().zip(&test.mean_ranks) {
            check.close(
                format!("{key}: mean rank of {name}"),
                means.at(name)?.f64()?,
                *mean,
                STATISTIC,
            );
        }
        statistics(key, &node, &test, check)?;
        ties(key, &node, &test, check)?;
        groups(key, &node, &names, &test, "published_best_group", check)?;
        if let Some(printed) = node.get("published_rounded") {
            for (name, value) in printed.fields()? {
                match names.iter().position(|n| *n == name) {
                    Some(j) => check.close(
                        format!("{key}: published rank of {name}"),
                        value.f64()?,
                        test.mean_ranks[j],
                        PRINTED,
                    ),
                    None => check.equal(
                        format!("{key}: published {name}"),
                        &(value.f64()? as usize),
                        &test.blocks,
                    ),
                }
            }
        }
    }
    Ok(())
}

fn statistics(key: &str, node: &Node<'_>, test: &Friedman, check: &mut Check) -> Result<()> {
    check.equal(
        format!("{key}: treatments"),
        &node.at("k")?.usize()?,
        &test.mean_ranks.len(),
    );
    check.equal(
        format!("{key}: blocks"),
        &node.at("N")?.usize()?,
        &test.blocks,
    );
    let values = [
        ("chi2_no_tie_correction", test.chi_squared, STATISTIC),
        ("iman_davenport_F", test.iman_davenport, STATISTIC),
        ("p_chi2", test.p_chi_squared, P_VALUE),
        ("p_F_df_k1_k1N1", test.p_iman_davenport, P_VALUE),
        (
            "critical_F_original_dfd_N_minus_1",
            test.critical_f_as_published,
            STATISTIC,
        ),
        ("critical_F_demsar", test.critical_f, STATISTIC),
        (
            "nemenyi_cd_tabulated_q",
            test.critical_difference_printed.unwrap_or(f64::NAN),
            STATISTIC,
        ),
        ("nemenyi_cd_exact_q", test.critical_difference, STATISTIC),
    ];
    for (field, got, tolerance) in values {
        check.close(
            format!("{key}: {field}"),
            node.at(field)?.f64()?,
            got,
            tolerance,
        );
    }
    check.equal(
        format!("{key}: rejected"),
        &node.at("rejected")?.bool()?,
        &test.rejected,
    );
    check.equal(
        format!("{key}: best group"),
        &node.at("best_group_indices")?.usizes()?,
        &test.best,
    );
    Ok(())
}

/// What needs the ranks of each block.
fn ties(key: &str, node: &Node<'_>, test: &Friedman, check: &mut Check) -> Result<()> {
    let corrected = test.chi_squared_ties.unwrap_or(f64::NAN);
    check.close(
        format!("{key}: chi2_tie_corrected"),
        node.at("chi2_tie_corrected")?.f64()?,
        corrected,
        STATISTIC,
    );
    let p = test.p_chi_squared_ties.unwrap_or(f64::NAN);
    check.close(
        format!("{key}: p_tie_corrected"),
        node.at("p_tie_corrected")?.f64()?,
        p,
        P_VALUE,
    );
    let expected = node.at("nemenyi_p_matrix")?.list(Node::f64s)?.concat();
    let got = test.nemenyi().concat();
    check.close_all(
        format!("{key}: p values of pairs"),
        &expected,
        &got,
        P_VALUE,
    );
    Ok(())
}

fn groups(
    key: &str,
    node: &Node<'_>,
    names: &[&str],
    test: &Friedman,
    published: &str,
    check: &mut Check,
) -> Result<()> {
    let mut got: Vec<&str> = test.best.iter().map(|&j| names[j]).collect();
    got.sort_unstable();
    for field in ["best_group", published] {
        let mut expected = node.at(field)?.strs()?;
        expected.sort_unstable();
        check.equal(format!("{key}: {field}"), &expected, &got);
    }
    Ok(())
}

fn published(folder: &Folder, check: &mut Check) -> Result<()> {
    check.group("Tables 4 and 5");
    let rows = table(folder, "published/table4_table5_mean_ranks_unrounded.csv")?;
    let json = folder.json("published/table4_table5_friedman_nemenyi.json")?;
    let (Some(rows), Some(json)) = (rows, json) else {
        return Ok(());
    };
    let columns = header(folder, "published/table4_table5_mean_ranks_unrounded.csv")?;
    let fixed = ["group", "constraint", "metric", "N", "statistically_best"];
    let names: Vec<&str> = columns
        .iter()
        .map(String::as_str)
        .filter(|c| !fixed.contains(c))
        .collect();
    let mut left: Vec<String> = json
        .root()
        .fields()?
        .iter()
        .map(|(k, _)| k.to_string())
        .collect();
    for row in &rows {
        let text = |field: &str| row.get(field).map(String::as_str).unwrap_or_default();
        let key = format!(
            "{}|{}|{}",
            text("group"),
            text("constraint"),
            text("metric")
        );
        let number = |field: &str| text(field).parse::<f64>().unwrap_or(f64::NAN);
        let means: Vec<f64> = names.iter().map(|n| number(n)).collect();
        let Some(node) = json.root().get(&key) else {
            check.unknown(format!("published mean ranks {key}: no statistics"));
            continue;
        };
        left.retain(|k| *k != key);
        let Some(test) = Friedman::of_mean_ranks(&means, number("N") as usize) else {
            check.unknown(format!("published mean ranks {key}: too few"));
            continue;
        };
        statistics(&key, &node, &test, check)?;
        groups(&key, &node, &names, &test, "highlighted_by_original", check)?;
        let mut best: Vec<&str> = text("statistically_best").split(';').collect();
        best.sort_unstable();
        let mut got: Vec<&str> = test.best.iter().map(|&j| names[j]).collect();
        got.sort_unstable();
        check.equal(format!("{key}: statistically best"), &best, &got);
    }
    for key in left {
        check.unknown(format!("statistics of {key}: no mean ranks"));
    }
    Ok(())
}

fn header(folder: &Folder, file: &str) -> Result<Vec<String>> {
    let bytes = folder.bytes(file)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default();
    Ok(line.split(',').map(|c| c.trim().to_string()).collect())
}
