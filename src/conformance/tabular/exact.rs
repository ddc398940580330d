//! The smallest changes there are, found by others exhaustively.

use super::sets::{Set, Sets};
use crate::conformance::Result;
use crate::conformance::check::{Check, Tolerance};
use crate::conformance::error::Of;
use crate::conformance::folder::Folder;
use crate::conformance::json::Node;
use crate::explain::tabular::{
    Clock, Distance, Limits, Method, Problem, Space, Variant, explain, minimal_change,
};
use crate::tabular::{Network, Toward};

const OPTIMAL: Tolerance = Tolerance::absolute(1e-6);
/// Margins were computed in single precision.
const MARGIN: Tolerance = Tolerance::both(1e-5, 1e-4);

pub fn run(folder: &Folder, sets: &Sets, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("algorithms/exact_minimal_change.json")? else {
        return Ok(());
    };
    check.group("minimal changes");
    for (kind, by_set) in json.root().fields()? {
        for (name, by_class) in by_set.fields()? {
            let Some(set) = sets.get(name) else {
                check.absent(format!("data of {name}"));
                by_class.skip();
                continue;
            };
            let Some(network) = &set.network else {
                check.absent(format!("network of {name}"));
                by_class.skip();
                continue;
            };
            for (class, list) in by_class.fields()? {
                for node in list.items()? {
                    let what = format!("{name} {class}");
                    let class = usize::from(class == "class1");
                    match kind {
                        "categorical" => categorical(&what, set, network, class, &node, check)?,
                        "numerical" => numerical(&what, set, network, class, &node, check)?,
                        _ => {}
                    }
                }
            }
        }
    }
    Ok(())
}

/// Runs `with` on the problem of one factual.
fn posed<T>(
    set: &Set,
    network: &Network,
    class: usize,
    row: usize,
    with: impl FnOnce(&Problem<'_>) -> Result<T>,
) -> Result<T> {
    let train = set.split.training_rows(&set.encoding, &set.table);
    let space = Space::new(&set.encoding, &train, &Limits::default()).of(&set.name)?;
    let factual = match set.factuals[class].get(row) {
        Some(&at) => set.rows[at].clone(),
        None => vec![0.0; set.encoding.width()],
    };
    let problem = Problem {
        space: &space,
        predictor: network,
        factual: &factual,
        target: 1 - class,
        row,
        k: usize::MAX,
        seed: 0,
        clock: Clock::start(None),
    };
    with(&problem)
}

fn categorical(
    what: &str,
    set: &Set,
    network: &Network,
    class: usize,
    node: &Node<'_>,
    check: &mut Check,
) -> Result<()> {
    let row = node.at("row")?.usize()?;
    let label = format!("{what} factual {row}");
    posed(set, network, class, row, |problem| {
        let found = explain(Method::Mace, Variant::Correct, problem).of(&label)?;
        let proof = found.proof;
        let fewest = proof.and_then(|p| p.found).unwrap_or(f64::INFINITY);
        let expected = node.at("min_changed_features")?.f64()?;
        check.close(
            format!("{label}: changed features"),
            expected,
            fewest,
            OPTIMAL,
        );
        let proven = proof.is_some_and(|p| p.optimal);
        check.equal(format!("{label}: proven"), &true, &proven);
        let count = node.at("number_of_optimal_solutions")?.usize()?;
        check.equal(
            format!("{label}: optimal solutions"),
            &count,
            &found.counterfactuals.len(),
        );
        let mut toward = Toward::new(network, problem.target);
        let margins = found.counterfactuals.iter().map(|x| toward.margin(x));
        let smallest = margins.fold(f64::INFINITY, f64::min);
        let expected = node.at("smallest_positive_margin_among_them")?.f64()?;
        check.close(
            format!("{label}: smallest margin"),
            expected,
            smallest,
            MARGIN,
        );
        let given = node.at("one_solution")?.f64s()?;
        let listed = found.counterfactuals.contains(&given);
        check.equal(
            format!("{label}: the listed solution is among them"),
            &true,
            &listed,
        );
        node.skip_fields(&["largest_negative_margin_at_distance_below"]);
        Ok(())
    })
}

fn numerical(
    what: &str,
    set: &Set,
    network: &Network,
    class: usize,
    node: &Node<'_>,
    check: &mut Check,
) -> Result<()> {
    let row = node.at("row")?.usize()?;
    let label = format!("{what} factual {row}");
    posed(set, network, class, row, |problem| {
        let all: Vec<usize> = (0..set.encoding.width()).collect();
        let distances = [
            ("min_normalised_l1", Distance::MeanShift),
            ("min_normalised_linf", Distance::LargestShift),
        ];
        for (field, distance) in distances {
            let found = minimal_change(problem, distance, &all).of(&label)?;
            check.equal(format!("{label}: {field} proven"), &true, &found.certain);
            let got = found.best.map_or(f64::INFINITY, |(cost, _)| cost);
            check.close(
                format!("{label}: {field}"),
                node.at(field)?.f64()?,
                got,
                OPTIMAL,
            );
        }
        let mut toward = Toward::new(network, problem.target);
        let margin = toward.margin(&node.at("l1_solution")?.f64s()?);
        check.equal(
            format!("{label}: the listed solution reaches the class"),
            &true,
            &(margin >= -1e-6),
        );
        let found = feasible_sets(problem, all.len()).of(&label)?;
        let size = found.first().map_or(0, Vec::len);
        check.equal(
            format!("{label}: changed features"),
            &node.at("min_changed_features")?.usize()?,
            &size,
        );
        let sets = node.at("feasible_feature_sets")?.list(Node::usizes)?;
        check.equal(format!("{label}: feasible sets"), &sets, &found);
        // The search for the fewest features agrees with the exhaustive one.
        let searched = explain(Method::Mace, Variant::Correct, problem).of(&label)?;
        let fewest = searched
            .proof
            .and_then(|p| p.found)
            .unwrap_or(f64::INFINITY);
        check.close(
            format!("{label}: search over sets"),
            size as f64,
            fewest,
            OPTIMAL,
        );
        let proven = searched.proof.is_some_and(|p| p.optimal);
        check.equal(format!("{label}: proven"), &true, &proven);
        Ok(())
    })
}

/// All sets of the smallest size that reach the class.
fn feasible_sets(
    problem: &Problem<'_>,
    width: usize,
) -> std::result::Result<Vec<Vec<usize>>, crate::explain::tabular::ExplainError> {
    for size in 1..=width {
        let mut found = Vec::new();
        for set in subsets(width, size) {
            let tried = minimal_change(problem, Distance::MeanShift, &set)?;
            if tried.best.is_some() || !tried.certain {
                found.push(set);
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Subsets of `0..n` of one size, in lexical order.
fn subsets(n: usize, size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in subsets(n, size - 1) {
        let from = shorter.last().map_or(0, |l| l + 1);
        for next in from..n {
            let mut set = shorter.clone();
            set.push(next);
            all.push(set);
        }
    }
    all
}
