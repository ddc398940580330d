//! What is said below a table: what ± is, and what is absent.

use std::collections::BTreeMap;

use super::class::{ClassPair, arrow};
use super::compute::{Cell, Options, PairsOfStudy, Spread, TableRow, key, select};
use super::settings::{Layout, Pairs, Std};
use super::study::{Study, setup};

/// The first of some pairs, and how many more there are.
pub fn list<'a>(pairs: impl ExactSizeIterator<Item = &'a ClassPair>, most: usize) -> String {
    let more = pairs.len().saturating_sub(most);
    let mut parts: Vec<String> = pairs.take(most).map(arrow).collect();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    parts.join(", ")
}

fn std_name(std: Std) -> &'static str {
    match std {
        Std::Population => "population std (divisor n, ddof 0)",
        Std::Sample => "sample std (divisor n − 1, ddof 1)",
    }
}

fn stds_name(std: Std) -> &'static str {
    match std {
        Std::Population => "population stds (divisor n, ddof 0)",
        Std::Sample => "sample stds (divisor n − 1, ddof 1)",
    }
}

/// Least and most of the counts of all cells, in words.
fn counted(rows: &[TableRow], what: &str, count: impl Fn(&Cell) -> Option<usize>) -> String {
    let counts = rows
        .iter()
        .flat_map(|row| row.cells.iter().filter_map(&count));
    let (least, most) = counts.fold((usize::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
    let plural = match (what, most) {
        (_, 1) => what.to_owned(),
        ("source class", _) => "source classes".to_owned(),
        _ => format!("{what}s"),
    };
    match (least, most) {
        (_, 0) => format!("no {what}"),
        (a, b) if a == b => format!("{b} {plural}"),
        (a, b) => format!("{a} to {b} {plural}"),
    }
}

/// What ± is, over how many groups, and whether the paper did the same.
pub fn convention(
    layout: &Layout,
    base: Option<&Layout>,
    options: &Options,
    std: Std,
    (by_source, apart): (bool, bool),
    rows: &[TableRow],
) -> String {
    let groups = |what: &str| {
        counted(rows, what, |cell| match cell {
            Cell::Value { groups, .. } => Some(*groups),
            _ => None,
        })
    };
    let Some(base) = base else {
        let over = groups("source → target group");
        let said = format!("± is the {} over {over}", std_name(std));
        return match std == layout.std {
            true => format!("{said}, as published."),
            false => format!("{said}; published: the {}.", std_name(layout.std)),
        };
    };
    let number = base.number;
    let there = counted(rows, "group", |cell| match cell {
        Cell::Value { against, .. } => *against,
        _ => None,
    });
    if apart {
        let here = groups("group");
        return format!(
            "Cells are mean − mean ± the std of the difference of two groups drawn apart, √(std² + std²) of {}, over {here} here \
             and {there} in the setup of Table {number}, since the two share no source class; published: differences of two {}.",
            stds_name(std),
            stds_name(layout.std)
        );
    }
    if options.spread == Spread::Stds {
        let here = groups("group");
        let said = format!(
            "Cells are mean − mean ± std − std: differences of {}, over {here} here and {there} in the setup of Table {number}",
            stds_name(std)
        );
        let said = match std == layout.std {
            true => format!("{said}, as published."),
            false => format!("{said}; published: of {}.", stds_name(layout.std)),
        };
        let base_std = options.std.unwrap_or(base.std);
        let mixed = match base_std == std {
            true => String::new(),
            false => format!(" Table {number} itself prints the {}.", std_name(base_std)),
        };
        return format!("{said} This is not the std of the change.{mixed}");
    }
    let (over, how) = match by_source {
        true => (
            groups("source class"),
            "the mean of each compared with its ideal pair",
        ),
        false => (groups("source → target group"), "each compared with itself"),
    };
    format!(
        "Cells are the mean change ± the {} of the changes over {over}, {how} in the setup of Table {number}; published: \
         differences of two {}.",
        std_name(std),
        stds_name(layout.std)
    )
}

/// What is absent, and groups whose target is their source.
pub fn notes(
    study: &Study,
    layout: &Layout,
    base: Option<&Layout>,
    options: &Options,
    all: &PairsOfStudy,
    rows: &[TableRow],
) -> Vec<String> {
    let mut notes = Vec::new();
    let setups = [Some(layout), base].into_iter().flatten();
    if !all.absent.is_empty() {
        notes.push(format!(
            "no group of the ideal {}",
            list(all.absent.iter(), usize::MAX)
        ));
    }
    for setup_of in setups {
        let (expected, kind) = match setup_of.pairs {
            Pairs::Ideal => (&all.ideal, "ideal"),
            Pairs::Other => (&all.other, "other"),
        };
        let expected: BTreeMap<_, _> = expected
            .iter()
            .filter(|(_, (s, t))| options.self_pairs || !s.is(t))
            .collect();
        for classifier in &study.classifiers {
            let found = select(study, classifier, setup_of, options);
            let has = |k: &&(String, String)| found.iter().any(|g| key(g) == **k);
            let absent: Vec<&ClassPair> = expected
                .iter()
                .filter(|(k, _)| !has(k))
                .map(|(_, pair)| *pair)
                .collect();
            if absent.is_empty() {
                continue;
            }
            let which = match found.is_empty() {
                true => String::new(),
                false => format!(", not {}", list(absent.iter().copied(), 3)),
            };
            notes.push(format!(
                "{classifier} has {} of {} {kind} groups with {}{which}",
                found.len(),
                expected.len(),
                setup(setup_of.cone_projection, setup_of.xzero_prediction)
            ));
        }
    }
    if layout.pairs == Pairs::Other {
        let own: Vec<&ClassPair> = all.other.values().filter(|(s, t)| s.is(t)).collect();
        let listed = list(own.iter().copied(), 5);
        match (own.is_empty(), options.self_pairs) {
            (true, _) => {}
            (_, true) => notes.push(format!(
                "groups whose target is their source are counted, as published: {listed} (--self-pairs leave-out)"
            )),
            (_, false) => notes.push(format!(
                "groups whose target is their source are left out: {listed}; the paper counts them"
            )),
        }
    }
    let undefined = |cell: &Cell| matches!(cell, Cell::Value { std: None, .. });
    if rows.iter().any(|row| row.cells.iter().any(undefined)) {
        notes.push("a sample std needs two groups; where there is one, \"-\" stands for it".into());
    }
    notes
}
