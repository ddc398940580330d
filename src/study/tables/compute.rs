//! From the scores of groups to cells: mean ± std over the groups of a setup, or their change against another setup.

use std::collections::BTreeMap;

use super::class::ClassPair;
use super::error::{Result, TablesError};
use super::settings::{Better, Layout, ORACLES, Pairs, Std, TableSettings, Zeros};
use super::study::{GroupScores, Quantity, Study, is_own};
use super::wording::{convention, list, notes};
use crate::score::Protocol;

/// What ± is in a table of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The std of one setup minus that of the other.
    Stds,
    /// The std of the changes of groups that both setups have; of source classes, if the setups have other pairs. Where they share
    /// no source class either, the std of the difference of a group of one and a group of the other, drawn apart.
    Paired,
}

/// Which of the conventions to follow.
#[derive(Clone, Debug)]
pub struct Options {
    /// The std of all tables; without it, that of the paper in each.
    pub std: Option<Std>,
    pub spread: Spread,
    /// Count groups whose target is their source.
    pub self_pairs: bool,
    /// Numbers as the paper printed them; else with all their zeros.
    pub zeros_as_published: bool,
    pub ideal: Vec<ClassPair>,
}

impl Options {
    /// The conventions of a protocol.
    pub fn new(protocol: Protocol, ideal: Vec<ClassPair>) -> Self {
        let published = protocol == Protocol::Published;
        Self {
            std: (!published).then_some(Std::Sample),
            spread: if published {
                Spread::Stds
            } else {
                Spread::Paired
            },
            self_pairs: published,
            zeros_as_published: published,
            ideal,
        }
    }
}

/// One table, unrounded.
#[derive(Clone, Debug)]
pub struct Table {
    pub number: u32,
    pub title: String,
    pub std: Std,
    /// Whether ± is the std of paired changes, not a difference of stds.
    pub paired: bool,
    /// Whether ± is the std of differences of groups drawn apart, because none can be paired.
    pub apart: bool,
    pub zeros: Zeros,
    /// The table that this one is a change against.
    pub against: Option<u32>,
    /// The classifiers.
    pub columns: Vec<String>,
    pub rows: Vec<TableRow>,
    /// What ± is.
    pub convention: String,
    pub notes: Vec<String>,
}

/// A metric of all classifiers.
#[derive(Clone, Debug)]
pub struct TableRow {
    pub name: String,
    pub latex: Option<String>,
    pub better: Better,
    pub cells: Vec<Cell>,
}

/// A classifier's cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// The oracle would judge itself.
    Own,
    /// No group has it.
    Missing,
    Value {
        mean: f64,
        /// A sample std needs two groups.
        std: Option<f64>,
        /// How many groups or changes it is over.
        groups: usize,
        /// How many groups it was compared with.
        against: Option<usize>,
    },
    /// A share with an interval that does not lie evenly around it.
    Interval {
        mean: f64,
        ci95: [f64; 2],
        samples: usize,
    },
}

/// Computes the tables of `layouts`.
pub fn compute(
    study: &Study,
    settings: &TableSettings,
    layouts: &[&Layout],
    options: &Options,
) -> Result<Vec<Table>> {
    let all = PairsOfStudy::new(study, options)?;
    Ok(layouts
        .iter()
        .map(|layout| table(study, settings, layout, options, &all))
        .collect())
}

/// Every source → target that some group has, and which of them are ideal.
pub(super) struct PairsOfStudy {
    pub ideal: BTreeMap<(String, String), ClassPair>,
    pub other: BTreeMap<(String, String), ClassPair>,
    /// Ideal pairs that no group has.
    pub absent: Vec<ClassPair>,
}

pub(super) fn key(group: &GroupScores) -> (String, String) {
    (group.source.key(), group.target.key())
}

fn is_ideal(group: &GroupScores, options: &Options) -> bool {
    let same = |(s, t): &ClassPair| s.is(&group.source) && t.is(&group.target);
    options.ideal.iter().any(same)
}

impl PairsOfStudy {
    fn new(study: &Study, options: &Options) -> Result<Self> {
        let (mut ideal, mut other) = (BTreeMap::new(), BTreeMap::new());
        for group in &study.groups {
            let into = match is_ideal(group, options) {
                true => &mut ideal,
                false => &mut other,
            };
            let pair = || (group.source.clone(), group.target.clone());
            into.entry(key(group)).or_insert_with(pair);
        }
        let met = |(s, t): &ClassPair| ideal.values().any(|(a, b): &ClassPair| a.is(s) && b.is(t));
        let absent: Vec<ClassPair> = options.ideal.iter().filter(|p| !met(p)).cloned().collect();
        if ideal.is_empty() {
            return Err(TablesError::NothingIdeal {
                ideal: list(options.ideal.iter(), usize::MAX),
                found: list(other.values(), 5),
            });
        }
        Ok(Self {
            ideal,
            other,
            absent,
        })
    }
}

/// The groups of one classifier in the setup of a table, in an order of their own.
pub(super) fn select<'a>(
    study: &'a Study,
    classifier: &str,
    layout: &Layout,
    options: &Options,
) -> Vec<&'a GroupScores> {
    let mut groups: Vec<&GroupScores> = study
        .groups
        .iter()
        .filter(|g| {
            g.classifier == classifier
                && g.cone_projection == layout.cone_projection
                && g.xzero_prediction == layout.xzero_prediction
                && is_ideal(g, options) == (layout.pairs == Pairs::Ideal)
                && (options.self_pairs || !g.source.is(&g.target))
        })
        .collect();
    groups.sort_by_cached_key(|g| key(g));
    groups
}

fn table(
    study: &Study,
    settings: &TableSettings,
    layout: &Layout,
    options: &Options,
    all: &PairsOfStudy,
) -> Table {
    let base = layout.against.and_then(|number| settings.table(number));
    let std = options.std.unwrap_or(layout.std);
    let selected: Vec<(Vec<&GroupScores>, Option<Vec<&GroupScores>>)> = study
        .classifiers
        .iter()
        .map(|classifier| {
            let of = |layout: &Layout| select(study, classifier, layout, options);
            (of(layout), base.map(of))
        })
        .collect();
    let by_source = base.is_some_and(|base| base.pairs != layout.pairs);
    let apart = by_source && options.spread == Spread::Paired && !share_sources(&selected);
    let mut rows = rows(study, settings, layout);
    for (row, quantity) in &mut rows {
        for (classifier, (groups, against)) in study.classifiers.iter().zip(&selected) {
            let own = |oracle: &String| is_own(oracle, classifier);
            let cell = match (&*quantity, against) {
                (Quantity::Oracle { oracle, .. }, _) if own(oracle) => Cell::Own,
                (_, None) => single(&values(groups, quantity), std),
                (_, Some(base)) => match options.spread {
                    Spread::Stds => change(
                        &values(groups, quantity),
                        &values(base, quantity),
                        std,
                        |a, b| a - b,
                    ),
                    Spread::Paired if apart => change(
                        &values(groups, quantity),
                        &values(base, quantity),
                        std,
                        f64::hypot,
                    ),
                    Spread::Paired => paired(groups, base, quantity, by_source, std),
                },
            };
            row.cells.push(cell);
        }
    }
    let rows: Vec<TableRow> = rows.into_iter().map(|(row, _)| row).collect();
    let convention = convention(layout, base, options, std, (by_source, apart), &rows);
    let notes = notes(study, layout, base, options, all, &rows);
    Table {
        number: layout.number,
        title: layout.title.clone(),
        std,
        paired: base.is_some() && options.spread == Spread::Paired && !apart,
        apart,
        zeros: match options.zeros_as_published {
            true => layout.zeros,
            false => Zeros::Kept,
        },
        against: layout.against,
        columns: study.classifiers.clone(),
        rows,
        convention,
        notes,
    }
}

/// The rows of a table, without cells yet.
fn rows(study: &Study, settings: &TableSettings, layout: &Layout) -> Vec<(TableRow, Quantity)> {
    let mut rows = Vec::new();
    for name in &layout.rows {
        if name == ORACLES {
            for oracle in &study.oracles {
                if oracle
                    .tables
                    .as_ref()
                    .is_some_and(|t| !t.contains(&layout.number))
                {
                    continue;
                }
                for metric in &layout.oracle_rows {
                    let row = TableRow {
                        name: format!("{metric} {}", oracle.name),
                        latex: None,
                        better: oracle.better,
                        cells: Vec::new(),
                    };
                    let quantity = Quantity::Oracle {
                        metric: metric.clone(),
                        oracle: oracle.name.clone(),
                    };
                    rows.push((row, quantity));
                }
            }
        } else if let Some(metric) = settings.metric(name) {
            let unit = metric.unit.as_ref().filter(|_| study.units());
            let with_unit = |name: &String| match unit {
                Some(unit) => format!("{name} ({unit})"),
                None => name.clone(),
            };
            let row = TableRow {
                name: with_unit(name),
                latex: metric.latex.as_ref().map(with_unit),
                better: metric.better,
                cells: Vec::new(),
            };
            rows.push((row, Quantity::Metric(name.clone())));
        }
    }
    rows
}

fn values(groups: &[&GroupScores], quantity: &Quantity) -> Vec<f64> {
    let of = |g: &&GroupScores| g.values.get(quantity).copied();
    groups.iter().filter_map(of).collect()
}

fn single(values: &[f64], std: Std) -> Cell {
    match mean_std(values, std) {
        None => Cell::Missing,
        Some((mean, std)) => Cell::Value {
            mean,
            std,
            groups: values.len(),
            against: None,
        },
    }
}

/// The change of the mean, with what `spread` makes of the two stds.
fn change(values: &[f64], base: &[f64], std: Std, spread: impl Fn(f64, f64) -> f64) -> Cell {
    match (mean_std(values, std), mean_std(base, std)) {
        (Some((mean, std)), Some((base_mean, base_std))) => Cell::Value {
            mean: mean - base_mean,
            std: std.zip(base_std).map(|(a, b)| spread(a, b)),
            groups: values.len(),
            against: Some(base.len()),
        },
        _ => Cell::Missing,
    }
}

/// Whether some classifier has a source class in both setups.
fn share_sources(selected: &[(Vec<&GroupScores>, Option<Vec<&GroupScores>>)]) -> bool {
    selected.iter().any(|(groups, base)| {
        let mut base = base.iter().flatten();
        base.any(|b| groups.iter().any(|g| key(g).0 == key(b).0))
    })
}

fn paired(
    groups: &[&GroupScores],
    base: &[&GroupScores],
    quantity: &Quantity,
    by_source: bool,
    std: Std,
) -> Cell {
    let sorted = |groups: &[&GroupScores]| {
        let mut sorted: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
        for group in groups {
            if let Some(value) = group.values.get(quantity) {
                let (source, target) = key(group);
                let target = if by_source { String::new() } else { target };
                sorted.entry((source, target)).or_default().push(*value);
            }
        }
        sorted
    };
    let (here, there) = (sorted(groups), sorted(base));
    let changes: Vec<f64> = here
        .iter()
        .filter_map(|(key, values)| Some(mean(values)? - mean(there.get(key)?)?))
        .collect();
    match single(&changes, std) {
        Cell::Value {
            mean, std, groups, ..
        } => Cell::Value {
            mean,
            std,
            groups,
            against: Some(groups),
        },
        other => other,
    }
}

/// Sum with Neumaier's correction, so that the order of rows does not show.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for value in values {
        let next = sum + value;
        lost += match sum.abs() >= value.abs() {
            true => (sum - next) + value,
            false => (value - next) + sum,
        };
        sum = next;
    }
    sum + lost
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| sum(values.iter().copied()) / values.len() as f64)
}

/// Mean, and the std if there are values enough for it.
fn mean_std(values: &[f64], std: Std) -> Option<(f64, Option<f64>)> {
    let mean = mean(values)?;
    let freedom = match std {
        Std::Population => values.len(),
        Std::Sample => values.len() - 1,
    };
    let squares = sum(values.iter().map(|v| (v - mean).powi(2)));
    let std = (freedom > 0).then(|| (squares / freedom as f64).sqrt());
    Some((mean, std))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_stds_have_their_own_divisor_and_a_sample_needs_two() {
        assert_eq!(mean_std(&[], Std::Sample), None);
        assert_eq!(mean_std(&[2.0], Std::Sample), Some((2.0, None)));
        assert_eq!(mean_std(&[2.0], Std::Population), Some((2.0, Some(0.0))));
        assert_eq!(
            mean_std(&[1.0, 3.0], Std::Population),
            Some((2.0, Some(1.0)))
        );
        let (_, std) = mean_std(&[1.0, 3.0], Std::Sample).unwrap();
        assert_eq!(std, Some(2f64.sqrt()));
    }

    /// The difference of two stds may be negative, that of two groups drawn apart has a std.
    #[test]
    fn a_spread_of_groups_drawn_apart_is_never_negative() {
        let (calm, wild) = ([1.0, 1.0], [0.0, 4.0]);
        let found = |spread: fn(f64, f64) -> f64| match change(&calm, &wild, Std::Sample, spread) {
            Cell::Value { mean, std, .. } => (mean, std.unwrap()),
            other => panic!("{other:?}"),
        };
        assert_eq!(found(|a, b| a - b), (-1.0, -(8f64.sqrt())));
        assert_eq!(found(f64::hypot), (-1.0, 8f64.sqrt()));
    }

    #[test]
    fn a_sum_does_not_depend_on_the_order_of_its_parts() {
        let mut values: Vec<f64> = (0..60).map(|k| 1e6 / f64::from(k * k + 1) + 1e-7).collect();
        let forward = sum(values.iter().copied());
        values.reverse();
        assert_eq!(sum(values.into_iter()), forward);
    }
}
