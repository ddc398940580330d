//! Which method for a problem: a decision tree on what won elsewhere (Figure 9).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::results::{ResultRow, Results};
use super::{Result, TabularStudyError};
use crate::stats::decision_tree::{Tree, TreeParams};

/// What the tree asks about a factual's problem.
pub const TREE_FEATURES: [&str; 8] = [
    "neurons",
    "auc_test",
    "rows_train",
    "columns_numerical",
    "columns_categorical",
    "misclassified",
    "factual_prediction",
    "factual_share",
];

/// The tree's answer for one metric.
#[derive(Clone, Debug, Serialize)]
pub struct Recommendation {
    pub metric: String,
    pub method: String,
    /// Share of the training factuals in the same leaf that this method won.
    pub share: f64,
    /// The questions and answers on the way.
    pub because: Vec<String>,
    /// Share of the training factuals that the tree gets right.
    pub accuracy: f64,
    pub factuals: usize,
}

/// The eight features of a row of results.
pub fn features(results: &Results, row: &ResultRow) -> Vec<f64> {
    vec![
        results.neurons as f64,
        results.auc_test,
        results.rows_train as f64,
        results.columns_numerical as f64,
        results.columns_categorical as f64,
        f64::from(u8::from(row.misclassified)),
        row.prediction,
        row.share,
    ]
}

/// Grows a tree on results (realistic counterfactuals only if `realistic`) and asks it about a problem. Factuals that no method covers are left out; ties give one
/// row for each winner.
pub fn recommend(
    results: &[Results],
    metric: &str,
    realistic: bool,
    problem: &[f64],
) -> Result<Recommendation> {
    let value = |row: &ResultRow| -> Option<f64> {
        if !row.coverage || (realistic && !(row.ruc && row.rmc)) {
            return None;
        }
        match metric {
            "sparsity" => row.sparsity.map(|s| -s),
            "l2" => row.l2,
            "madd" => row.madd,
            "md" => row.md,
            "time" => Some(row.seconds),
            _ => None,
        }
    };
    let methods: Vec<&str> = results
        .iter()
        .map(|r| r.method.as_str())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    type Entry<'a> = (Vec<f64>, Vec<(usize, f64)>);
    let mut factuals: BTreeMap<(&str, usize, usize), Entry<'_>> = BTreeMap::new();
    for result in results {
        let place = methods
            .iter()
            .position(|m| *m == result.method)
            .unwrap_or(0);
        for row in &result.rows {
            let key = (result.dataset.as_str(), row.class, row.row);
            let entry = factuals
                .entry(key)
                .or_insert_with(|| (features(result, row), Vec::new()));
            entry.1.extend(value(row).map(|v| (place, v)));
        }
    }
    let (mut rows, mut winners) = (Vec::new(), Vec::new());
    for (features, values) in factuals.values() {
        let best = values.iter().map(|(_, v)| *v).fold(f64::INFINITY, f64::min);
        for (method, _) in values.iter().filter(|(_, v)| *v == best) {
            rows.push(features.clone());
            winners.push(*method);
        }
    }
    let Some(tree) = Tree::grow(&rows, &winners, methods.len(), TreeParams::default()) else {
        return Err(TabularStudyError::Input(format!(
            "{metric}: none of the results covers a factual; give results of `foil study tabular`"
        )));
    };
    let path = tree.path(problem);
    let because = path
        .iter()
        .filter_map(|&at| tree.nodes[at].split)
        .map(|split| {
            let name = TREE_FEATURES[split.feature];
            let value = problem[split.feature];
            let sign = if value <= split.threshold { "≤" } else { ">" };
            format!("{name} {value:.4} {sign} {:.4}", split.threshold)
        })
        .collect();
    let class = tree.class(problem);
    let leaf = &tree.nodes[tree.leaf(problem)];
    Ok(Recommendation {
        metric: metric.into(),
        method: methods[class].into(),
        share: leaf.shares[class],
        because,
        accuracy: tree.accuracy(&rows, &winners),
        factuals: factuals.len(),
    })
}
