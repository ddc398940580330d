//! Mean ranks of methods over factuals, with the tests of Tables 4 and 5.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use super::results::{ResultRow, Results};
use super::{Result, TabularStudyError};
use crate::report::aligned::Aligned;
use crate::stats::friedman::{Friedman, rank_intervals};
use crate::stats::interval::{Bootstrap, Interval};
use crate::stats::ranks::{Better, rank_block};

/// Which counterfactuals count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Constraint {
    /// All that change the class (Table 4).
    Any,
    /// Those that are realistic too (Table 5).
    Realistic,
}

/// Ranks of one metric over one group of data sets.
#[derive(Clone, Debug, Serialize)]
pub struct Ranking {
    /// all, numerical, categorical or mixed.
    pub group: String,
    pub constraint: Constraint,
    pub metric: String,
    pub methods: Vec<String>,
    pub test: Friedman,
    /// 95 % bootstrap intervals of the mean ranks.
    pub intervals: Vec<Interval>,
}

type Metric = (&'static str, Better, fn(&ResultRow) -> f64);

/// The metrics of the tables; a missing value is NaN.
const METRICS: [Metric; 7] = [
    ("coverage", Better::Larger, |r| {
        f64::from(u8::from(r.coverage))
    }),
    ("sparsity", Better::Larger, |r| {
        r.sparsity.unwrap_or(f64::NAN)
    }),
    ("RUC", Better::Larger, |r| f64::from(u8::from(r.ruc))),
    ("RMC", Better::Larger, |r| f64::from(u8::from(r.rmc))),
    ("L2", Better::Smaller, |r| r.l2.unwrap_or(f64::NAN)),
    ("MADD", Better::Smaller, |r| r.madd.unwrap_or(f64::NAN)),
    ("MD", Better::Smaller, |r| r.md.unwrap_or(f64::NAN)),
];

/// A factual: data set, class, row.
type Key = (String, usize, usize);

/// Ranks all metrics over all groups, for both constraints. Results must be of one edition; factuals that not every method has are left out, and their
/// number is given.
pub fn rank_all(results: &[Results], bootstrap: Bootstrap) -> Result<(Vec<Ranking>, usize)> {
    let editions: BTreeSet<&str> = results.iter().map(|r| r.edition.as_str()).collect();
    if editions.len() > 1 {
        let names = editions.into_iter().collect::<Vec<_>>().join(", ");
        let message = format!(
            "results of editions {names} cannot stand in one table; score them by one edition"
        );
        return Err(TabularStudyError::Input(message));
    }
    let label = |r: &Results| match r.variant.as_str() {
        "correct" => r.method.clone(),
        variant => format!("{} ({variant})", r.method),
    };
    let methods: Vec<String> = results
        .iter()
        .map(label)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if methods.len() < 2 {
        return Err(TabularStudyError::Input(
            "ranks need the results of at least two methods".into(),
        ));
    }
    let mut factuals: BTreeMap<Key, (&str, Vec<Option<&ResultRow>>)> = BTreeMap::new();
    for result in results {
        let place = methods
            .iter()
            .position(|m| *m == label(result))
            .unwrap_or(0);
        for row in &result.rows {
            let key = (result.dataset.clone(), row.class, row.row);
            let entry = factuals
                .entry(key)
                .or_insert_with(|| (&result.kinds, vec![None; methods.len()]));
            entry.1[place] = Some(row);
        }
    }
    let all = factuals.len();
    factuals.retain(|_, (_, rows)| rows.iter().all(Option::is_some));
    let dropped = all - factuals.len();
    let mut rankings = Vec::new();
    for constraint in [Constraint::Any, Constraint::Realistic] {
        for group in ["all", "numerical", "categorical", "mixed"] {
            for (metric, better, value) in METRICS {
                let blocks: Vec<Vec<f64>> = factuals
                    .values()
                    .filter(|(kinds, _)| group == "all" || *kinds == group)
                    .map(|(_, rows)| {
                        let each = rows
                            .iter()
                            .flatten()
                            .map(|r| counted(r, constraint, metric, value));
                        rank_block(&each.collect::<Vec<_>>(), better)
                    })
                    .collect();
                let Some(test) = Friedman::of_ranks(&blocks) else {
                    continue;
                };
                rankings.push(Ranking {
                    group: group.into(),
                    constraint,
                    metric: metric.into(),
                    methods: methods.clone(),
                    intervals: rank_intervals(&blocks, bootstrap),
                    test,
                });
            }
        }
    }
    Ok((rankings, dropped))
}

/// A value as it is ranked: what is not covered (or not realistic, where that counts) has none.
fn counted(
    row: &ResultRow,
    constraint: Constraint,
    metric: &str,
    value: fn(&ResultRow) -> f64,
) -> f64 {
    let real = constraint == Constraint::Any || (row.ruc && row.rmc);
    match (metric, row.coverage && real) {
        (_, true) => value(row),
        ("coverage" | "RUC" | "RMC", false) => 0.0,
        _ => f64::NAN,
    }
}

/// Tables 4 and 5 as text; `*` marks the statistically best.
pub fn rank_text(rankings: &[Ranking]) -> String {
    let mut text = String::new();
    for constraint in [Constraint::Any, Constraint::Realistic] {
        let of: Vec<&Ranking> = rankings
            .iter()
            .filter(|r| r.constraint == constraint)
            .collect();
        let Some(first) = of.first() else { continue };
        let title = match constraint {
            Constraint::Any => "Mean ranks, all counterfactuals (Table 4)",
            Constraint::Realistic => "Mean ranks, realistic counterfactuals only (Table 5)",
        };
        let _ = writeln!(text, "{title}");
        let mut header = vec!["group".to_string(), "metric".into()];
        header.extend(first.methods.iter().cloned());
        header.extend(["N", "CD", "Friedman χ²", "p"].map(String::from));
        let mut table = Aligned::new(&header);
        for ranking in of {
            let test = &ranking.test;
            let mut cells = vec![ranking.group.clone(), ranking.metric.clone()];
            cells.extend(test.mean_ranks.iter().enumerate().map(|(j, rank)| {
                let star = if test.rejected && test.best.contains(&j) {
                    "*"
                } else {
                    ""
                };
                format!("{rank:.2}{star}")
            }));
            let chi = test.chi_squared_ties.unwrap_or(test.chi_squared);
            cells.push(test.blocks.to_string());
            cells.push(format!("{:.3}", test.critical_difference));
            cells.push(format!("{chi:.1}"));
            cells.push(format!(
                "{:.1e}",
                test.p_chi_squared_ties.unwrap_or(test.p_chi_squared)
            ));
            table.row(&cells);
        }
        let _ = writeln!(text, "{table}");
    }
    text.push_str("* statistically best: within the critical difference (CD, Nemenyi, 5 %) of the best mean rank\n");
    text
}
