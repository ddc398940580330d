//! Counterfactuals of the benchmark's algorithms, as benchmarked.

use rayon::prelude::*;

use super::sets::{Set, Sets};
use crate::conformance::Result;
use crate::conformance::check::{Check, Tolerance};
use crate::conformance::error::Of;
use crate::conformance::folder::Folder;
use crate::conformance::json::Node;
use crate::conformance::tensors::Tensors;
use crate::explain::tabular::{Clock, Limits, Method, Problem, Space, Variant, explain};
use crate::tabular::{Kinds, Network, Predictor, SinglePrecision};

/// What is expected of one algorithm's rows.
struct Expected {
    method: Method,
    tolerance: f64,
    /// Rows that are run: a search that draws a million points for a row is shown on the first few.
    rows: usize,
    /// Share of rows that must agree: where float rounding decides between equal categories, or an optimiser stops at another step, not all do.
    share: f64,
}

fn expected(algorithm: &str, kinds: Kinds) -> Option<Expected> {
    let exact = |method: Method, tolerance: f64, share: f64| {
        Some(Expected {
            method,
            tolerance,
            rows: if method == Method::GrowingSpheres {
                4
            } else {
                usize::MAX
            },
            share,
        })
    };
    match (algorithm, kinds) {
        ("SEDC", _) => exact(Method::Sedc, 1e-12, 1.0),
        ("GROWINGSPHERES3", _) => exact(Method::GrowingSpheres, 1e-9, 1.0),
        ("CADEX", Kinds::Numerical | Kinds::Mixed) => exact(Method::Cadex, 1e-5, 1.0),
        ("CADEX", Kinds::Categorical) => exact(Method::Cadex, 1e-5, 0.6),
        ("DICE", Kinds::Categorical) => exact(Method::Dice, 1e-9, 0.95),
        // Numbers of mixed tables come out elsewhere: run, but not asked to agree. An open difference, see docs/tabular.md.
        ("DICE", Kinds::Mixed) => exact(Method::Dice, 1e-5, 0.0),
        ("DICE", Kinds::Numerical) => exact(Method::Dice, 0.2, 1.0),
        // Another step of the optimiser: near, but not the original's to 1e-5. An open difference, see docs/tabular.md.
        ("SYNAS", Kinds::Numerical) => exact(Method::Synas, 0.01, 0.5),
        ("CFPROTO_NO_MOMENTUM", Kinds::Numerical) => exact(Method::Cfproto, 1e-4, 0.5),
        ("MLEXPLAIN", _) => exact(Method::MlExplain, 1e-4, 0.0),
        _ => None,
    }
}

pub fn run(folder: &Folder, sets: &Sets, check: &mut Check) -> Result<()> {
    let json = folder.json("algorithms/runs.json")?;
    let tensors = folder.tensors("algorithms/runs.safetensors")?;
    if let (Some(json), Some(tensors)) = (json, tensors) {
        check.group("counterfactuals as benchmarked");
        for (key, node) in json.root().fields()? {
            let mut parts = key.splitn(3, '.');
            let (name, class, algorithm) = (parts.next(), parts.next(), parts.next());
            let (Some(name), Some(class), Some(algorithm)) = (name, class, algorithm) else {
                continue;
            };
            node.skip_fields(&["mean_seconds", "max_abs_diff_to_stored_original_run"]);
            let factuals = format!("{name}.{class}.factuals");
            rows(
                key,
                &factuals,
                sets.get(name),
                class,
                algorithm,
                &node,
                &tensors,
                check,
            )?;
        }
    }
    let json = folder.json("algorithms/balance_scale_originals.json")?;
    let tensors = folder.tensors("algorithms/balance_scale_originals.safetensors")?;
    if let (Some(json), Some(tensors)) = (json, tensors) {
        check.group("counterfactuals of the originals");
        for (key, node) in json.root().fields()? {
            let Some((class, algorithm)) = key.split_once('.') else {
                continue;
            };
            node.skip_fields(&["returned", "distinct_counterfactuals"]);
            let factuals = format!("{class}.factuals");
            let set = sets.get("BalanceScale");
            rows(
                key, &factuals, set, class, algorithm, &node, &tensors, check,
            )?;
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn rows(
    key: &str,
    factuals: &str,
    set: Option<&Set>,
    class: &str,
    algorithm: &str,
    node: &Node<'_>,
    tensors: &Tensors,
    check: &mut Check,
) -> Result<()> {
    let Some((set, network)) = set.and_then(|s| s.network.as_ref().map(|n| (s, n))) else {
        check.absent(format!("data or network of {key}"));
        node.skip();
        tensors.skip(key);
        tensors.skip(factuals);
        return Ok(());
    };
    let class = usize::from(class == "class1");
    let given = tensors.f64(factuals)?;
    let wanted = tensors.f64(key)?;
    let width = set.encoding.width();
    let single = SinglePrecision(network);
    let numbers = node.at("rows")?.usizes()?;
    let originals: Vec<Vec<f64>> = numbers
        .iter()
        .filter_map(|&i| set.factuals[class].get(i).map(|&r| set.rows[r].clone()))
        .collect();
    check.close_all(
        format!("{key}: factuals"),
        &given,
        &originals.concat(),
        Tolerance::absolute(1e-12),
    );
    let whole = |row: &[f64]| row.iter().all(|v| v.is_finite());
    let asked: Vec<Option<f64>> = wanted
        .chunks_exact(width)
        .map(|row| whole(row).then(|| single.probability(row, 1 - class)))
        .collect();
    super::metrics::optional(
        format!("{key}: probabilities of the stored counterfactuals"),
        &node.at("prob_target")?,
        &asked,
        Tolerance::absolute(1e-5),
        check,
    )?;
    let flipped = asked.iter().flatten().filter(|p| **p > 0.5).count();
    check.equal(
        format!("{key}: of the other class"),
        &node.at("flipped")?.usize()?,
        &flipped,
    );
    let Some(expected) = expected(algorithm, set.encoding.kinds()) else {
        return Ok(());
    };
    compare(key, set, network, class, &expected, &given, &wanted, check)
}

#[allow(clippy::too_many_arguments)]
fn compare(
    key: &str,
    set: &Set,
    network: &Network,
    class: usize,
    expected: &Expected,
    given: &[f64],
    wanted: &[f64],
    check: &mut Check,
) -> Result<()> {
    let train = set.split.training_rows(&set.encoding, &set.table);
    let space = Space::new(&set.encoding, &train, &Limits::default()).of(key)?;
    let width = set.encoding.width();
    let pairs: Vec<_> = given
        .chunks_exact(width)
        .zip(wanted.chunks_exact(width))
        .take(expected.rows)
        .collect();
    let run = |(row, (factual, wanted)): (usize, &(&[f64], &[f64]))| -> Result<f64> {
        let problem = Problem {
            space: &space,
            predictor: network,
            factual,
            target: 1 - class,
            row,
            k: 1,
            seed: 0,
            clock: Clock::start(None),
        };
        let found = explain(expected.method, Variant::AsBenchmarked, &problem).of(key)?;
        let missing = wanted.iter().any(|v| v.is_nan());
        Ok(match (found.best(), missing) {
            (None, true) => 0.0,
            (Some(got), false) => {
                let each = got.iter().zip(*wanted).map(|(a, b)| (a - b).abs());
                each.fold(0.0, f64::max)
            }
            _ => f64::INFINITY,
        })
    };
    let errors: Vec<f64> = pairs
        .par_iter()
        .enumerate()
        .map(run)
        .collect::<Result<_>>()?;
    let agree = errors.iter().filter(|e| **e <= expected.tolerance).count();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let needed = (expected.share * pairs.len() as f64).floor();
    let what = format!(
        "{key}: rows within {:e} of {} (at least {needed}), worst {worst:.1e}",
        expected.tolerance,
        pairs.len()
    );
    check.close(
        what,
        pairs.len() as f64,
        agree as f64,
        Tolerance::absolute(pairs.len() as f64 - needed + 1e-9),
    );
    Ok(())
}
