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

/// Which rows of an algorithm are asked to agree.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    /// All.
    Every,
    /// All, but where equal steps are told apart by float rounding another row of the wished class with as many changed features will do.
    TiesApart,
    /// This share of them: the original is not deterministic.
    Share(f64),
    /// Those whose difference from the original was recorded as small, and those that a change of the factual's last digit does not move.
    Calm,
}

/// What is expected of one algorithm's rows.
struct Expected {
    method: Method,
    tolerance: f64,
    asked: Asked,
}

/// Rows of Growing Spheres that are run: each draws a million points.
const MOST_SPHERES: usize = 4;
/// What counts as a small recorded difference.
const RECORDED: f64 = 1e-5;
/// By which share a factual is moved to see whether a row is calm, and how far its result may move.
const LAST_DIGIT: f64 = 2e-7;
const CALM: f64 = 2e-6;

/// `original`: the rows come from the original program, not from a deterministic re-implementation of it.
fn expected(algorithm: &str, kinds: Kinds, original: bool) -> Option<Expected> {
    let expect = |method: Method, tolerance: f64, asked: Asked| {
        Some(Expected {
            method,
            tolerance,
            asked,
        })
    };
    match (algorithm, kinds) {
        ("SEDC", _) => expect(Method::Sedc, 1e-12, Asked::Every),
        ("GROWINGSPHERES3", _) => expect(Method::GrowingSpheres, 1e-9, Asked::Every),
        ("CADEX", Kinds::Categorical) if original => expect(Method::Cadex, 1e-5, Asked::TiesApart),
        ("CADEX", _) => expect(Method::Cadex, 1e-5, Asked::Every),
        ("DICE", Kinds::Categorical) => expect(Method::Dice, 1e-9, Asked::Every),
        ("DICE", Kinds::Mixed) => expect(Method::Dice, 1e-5, Asked::Every),
        // Adam goes round the optimum; which step is the last one is not pinned down.
        ("DICE", Kinds::Numerical) => expect(Method::Dice, 0.2, Asked::Every),
        ("SYNAS", Kinds::Numerical) => expect(Method::Synas, 1e-5, Asked::Every),
        ("CFPROTO_NO_MOMENTUM", Kinds::Numerical) => {
            expect(Method::Cfproto, 1e-4, Asked::Share(0.5))
        }
        // Steps of fixed size 1 are chaotic; of the original's own rows nothing is recorded.
        ("MLEXPLAIN", _) if !original => expect(Method::MlExplain, 1e-5, Asked::Calm),
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
            node.skip_fields(&["mean_seconds"]);
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
    let differences = node.get("max_abs_diff_to_stored_original_run");
    let recorded = match &differences {
        // A number, null, or a word where both gave nothing.
        Some(list) => list.list(|n| Ok(n.f64().ok()))?,
        None => Vec::new(),
    };
    let original = differences.is_none();
    let Some(expected) = expected(algorithm, set.encoding.kinds(), original) else {
        return Ok(());
    };
    compare(
        key, set, network, class, &expected, &given, &wanted, &recorded, check,
    )
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
    recorded: &[Option<f64>],
    check: &mut Check,
) -> Result<()> {
    let train = set.split.training_rows(&set.encoding, &set.table);
    let space = Space::new(&set.encoding, &train, &Limits::default()).of(key)?;
    let width = set.encoding.width();
    let most = match expected.method {
        Method::GrowingSpheres => MOST_SPHERES,
        _ => usize::MAX,
    };
    let pairs: Vec<_> = given
        .chunks_exact(width)
        .zip(wanted.chunks_exact(width))
        .take(most)
        .collect();
    let answer = |row: usize, factual: &[f64]| -> Result<Option<Vec<f64>>> {
        let problem = problem(&space, network, factual, 1 - class, row);
        let found = explain(expected.method, Variant::AsBenchmarked, &problem).of(key)?;
        Ok(found.best().map(<[f64]>::to_vec))
    };
    // How far each row is from the stored one; none if it is not asked to agree.
    let run = |(row, (factual, wanted)): (usize, &(&[f64], &[f64]))| -> Result<Option<f64>> {
        let got = answer(row, factual)?;
        let missing = wanted.iter().any(|v| v.is_nan());
        let error = match (&got, missing) {
            (None, true) => 0.0,
            (Some(got), false) => away(got, wanted),
            _ => f64::INFINITY,
        };
        if error <= expected.tolerance {
            return Ok(Some(error));
        }
        match (expected.asked, &got) {
            (Asked::TiesApart, Some(got)) if !missing => {
                let problem = problem(&space, network, factual, 1 - class, row);
                let as_many =
                    space.changed(factual, got).len() == space.changed(factual, wanted).len();
                Ok(Some(match as_many && problem.accepts(got) {
                    true => 0.0,
                    false => error,
                }))
            }
            (Asked::Calm, Some(got)) => {
                let small = recorded.get(row).copied().flatten();
                if small.is_some_and(|d| d <= RECORDED) {
                    return Ok(Some(error));
                }
                for share in [1.0 - LAST_DIGIT, 1.0 + LAST_DIGIT] {
                    let moved: Vec<f64> = factual.iter().map(|v| v * share).collect();
                    let other = answer(row, &moved)?;
                    if other.is_none_or(|other| away(&other, got) > CALM) {
                        return Ok(None);
                    }
                }
                Ok(Some(error))
            }
            _ => Ok(Some(error)),
        }
    };
    let errors: Vec<Option<f64>> = pairs
        .par_iter()
        .enumerate()
        .map(run)
        .collect::<Result<_>>()?;
    let errors: Vec<f64> = errors.into_iter().flatten().collect();
    let agree = errors.iter().filter(|e| **e <= expected.tolerance).count();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let needed = match expected.asked {
        Asked::Share(share) => (share * errors.len() as f64).floor(),
        _ => errors.len() as f64,
    };
    let what = format!(
        "{key}: rows within {:e} of {} (at least {needed}), worst {worst:.1e}",
        expected.tolerance,
        errors.len()
    );
    // No row that can be asked is a failure too.
    let short = if errors.is_empty() {
        1.0
    } else {
        needed - agree as f64
    };
    check.close(what, 0.0, short.max(0.0), Tolerance::absolute(0.0));
    Ok(())
}

fn problem<'a>(
    space: &'a Space<'a>,
    network: &'a Network,
    factual: &'a [f64],
    target: usize,
    row: usize,
) -> Problem<'a> {
    Problem {
        space,
        predictor: network,
        factual,
        target,
        row,
        k: 1,
        seed: 0,
        clock: Clock::start(None),
    }
}

fn away(a: &[f64], b: &[f64]) -> f64 {
    let each = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    each.fold(0.0, f64::max)
}
