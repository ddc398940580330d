//! The printed table: metrics down, groups across, the mean ± std over groups last, as in the papers.

use std::fmt::Write;

use crate::score::{Score, Scores, Summary};

/// Most groups that get a column each; with more only the summary is printed.
const COLUMNS: usize = 5;

/// Full name and direction of each score, in the order of the paper's table.
const LEGEND: [(&str, &str, &str); 29] = [
    (
        "target_accuracy",
        "TA ↑",
        "target accuracy: the classifier says target",
    ),
    (
        "original_accuracy",
        "OA ↓",
        "original accuracy: it still says source",
    ),
    ("neither", "neither", "it says neither of the two"),
    (
        "target_confidence",
        "conf. target ↑",
        "mean probability of the target",
    ),
    (
        "original_confidence",
        "conf. source ↓",
        "mean probability of the source",
    ),
    (
        "oracle_score",
        "OS",
        "oracle score: an oracle agrees with the classifier",
    ),
    (
        "oracle_target_accuracy",
        "OTA",
        "oracle target accuracy: an oracle says target",
    ),
    (
        "committee_target_accuracy",
        "CTA",
        "committee target accuracy: the oracles together say target",
    ),
    ("l1", "D1 ↓", "mean L1 distance"),
    ("l1_5", "D1.5 ↓", "mean L1.5 distance"),
    ("l2", "D2 ↓", "mean L2 distance"),
    ("elastic_net", "EN ↓", "elastic net"),
    ("lpips", "LPIPS ↓", "perceptual distance"),
    (
        "lpips_diversity",
        "diversity ↑",
        "mean LPIPS within a set of counterfactuals",
    ),
    ("fid", "FID ↓", "Fréchet Inception distance"),
    ("kid", "KID ↓", "kernel Inception distance"),
    ("inception_score", "IS ↑", "Inception score"),
    (
        "precision",
        "precision ↑",
        "and recall, density, coverage of features",
    ),
    (
        "recall",
        "recall ↑",
        "share of real images near counterfactuals",
    ),
    (
        "density",
        "density ↑",
        "mean number of real neighbourhoods around a counterfactual, over k",
    ),
    (
        "coverage",
        "coverage ↑",
        "share of real neighbourhoods that hold a counterfactual",
    ),
    (
        "target_class_validity",
        "TCV ↑",
        "target-class validity: share of valid counterfactuals",
    ),
    (
        "im1",
        "IM1 ↓",
        "how much better the target's auto-encoder draws a counterfactual than the source's",
    ),
    (
        "im1_numerator",
        "IM1 numerator",
        "squared error of the target's auto-encoder",
    ),
    ("im1_denominator", "IM1 denominator", "that of the source's"),
    (
        "im2",
        "IM2 ↓",
        "how near the target's auto-encoder is to that of all classes, over the norm of the image",
    ),
    ("im2_numerator", "IM2 numerator", "their squared difference"),
    ("im2_denominator", "IM2 denominator", "the norm"),
    (
        "label_variation",
        "LVS",
        "label variation score: high for a label that should change, low for others",
    ),
];

/// The table of a run with legend and notes.
pub fn scores(scores: &Scores) -> String {
    let names = ordered_names(scores);
    let many = scores.groups.len() > COLUMNS;
    let mut header = vec![String::new()];
    if !many {
        header.extend(scores.groups.iter().map(group_title));
    }
    let summaries = summaries(scores);
    header.extend(summaries.iter().map(|(title, _)| title.clone()));
    let mut rows = vec![header];
    for name in &names {
        let mut row = vec![title(name)];
        if !many {
            let cell = |g: &crate::score::Group| g.scores.get(name).map_or(String::new(), cell);
            row.extend(scores.groups.iter().map(cell));
        }
        row.extend(summaries.iter().map(|(_, summary)| {
            summary.get(name).map_or("–".into(), |s| {
                format!("{} ± {}", number(s.mean), number(s.std))
            })
        }));
        rows.push(row);
    }
    let mut text = aligned(&rows);
    let verdicts = verdict_line(scores);
    if !verdicts.is_empty() {
        let _ = writeln!(text, "\nverdicts: {verdicts}");
    }
    let _ = write!(text, "\n{}", legend(&names, scores));
    for note in notes(scores) {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Methods down, verdicts across: how many pairs of a method got which, as a share.
pub fn verdicts(scores: &Scores) -> String {
    const VERDICTS: [&str; 5] = [
        "counterfactual",
        "adversarial",
        "flipped",
        "unflipped",
        "other",
    ];
    let mut methods: Vec<(&str, [usize; 5])> = Vec::new();
    for group in &scores.groups {
        let name = group.method.as_deref().unwrap_or(&group.name);
        let at = methods.iter().position(|(m, _)| *m == name);
        let at = at.unwrap_or_else(|| {
            methods.push((name, [0; 5]));
            methods.len() - 1
        });
        for (count, verdict) in methods[at].1.iter_mut().zip(VERDICTS) {
            *count += group.verdicts.get(verdict).copied().unwrap_or(0);
        }
    }
    let given: Vec<usize> = (0..VERDICTS.len())
        .filter(|&v| methods.iter().any(|(_, counts)| counts[v] > 0))
        .collect();
    let mut rows = vec![vec!["verdicts".to_owned()]];
    rows[0].extend(given.iter().map(|&v| VERDICTS[v].to_owned()));
    for (method, counts) in methods {
        let n: usize = counts.iter().sum();
        let share = |&v: &usize| format!("{:.3}", counts[v] as f64 / n.max(1) as f64);
        let mut row = vec![format!("{method} (n={n})")];
        row.extend(given.iter().map(share));
        rows.push(row);
    }
    aligned(&rows)
}

/// Title and values of each column of means: over all groups, or one per method.
fn summaries(scores: &Scores) -> Vec<(String, &std::collections::BTreeMap<String, Summary>)> {
    let over = |n: usize| format!("mean ± std over {n} groups");
    if scores.groups.len() < 2 {
        return Vec::new();
    }
    if scores.summary_by_method.len() < 2 {
        return vec![(over(scores.groups.len()), &scores.summary)];
    }
    let of = |method: &String| {
        let own = |g: &&crate::score::Group| g.method.as_ref() == Some(method);
        scores.groups.iter().filter(own).count()
    };
    scores
        .summary_by_method
        .iter()
        .map(|(method, summary)| (format!("{method} ({} groups)", of(method)), summary))
        .collect()
}

fn group_title(group: &crate::score::Group) -> String {
    let method = group.method.as_ref().map(|m| format!("{m}: "));
    format!(
        "{}{} (n={})",
        method.unwrap_or_default(),
        group.name,
        group.pairs
    )
}

fn base(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn ordered_names(scores: &Scores) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for group in &scores.groups {
        for name in group.scores.keys() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    let rank = |name: &str| {
        LEGEND
            .iter()
            .position(|(n, _, _)| *n == base(name))
            .unwrap_or(LEGEND.len())
    };
    names.sort_by_key(|name| (rank(name), name.clone()));
    names
}

fn title(name: &str) -> String {
    let short = LEGEND.iter().find(|(n, _, _)| *n == base(name));
    let short = short.map_or(name, |(_, short, _)| short);
    match name.split_once('/') {
        // Which is better depends on the label.
        Some(("label_variation", which)) => format!("{short} {which}"),
        Some((_, which)) => format!("{short} {which} ↑"),
        None => short.to_string(),
    }
}

fn cell(score: &Score) -> String {
    match (score.value, score.ci95) {
        (None, _) => "–".into(),
        (Some(v), None) => number(v),
        (Some(v), Some([low, high])) => {
            format!("{} [{}, {}]", number(v), number(low), number(high))
        }
    }
}

/// Four significant digits, without an exponent where people would not write one.
fn number(v: f64) -> String {
    let size = v.abs();
    if size == 0.0 {
        "0".into()
    } else if size >= 1000.0 {
        format!("{v:.0}")
    } else if size >= 1.0 {
        format!("{v:.2}")
    } else if size >= 0.001 {
        format!("{v:.4}")
    } else {
        format!("{v:.2e}")
    }
}

pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|c| {
            let cells = rows.iter().filter_map(|r| r.get(c));
            cells.map(|t| t.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = widths[c] - cell.chars().count();
            if c == 0 {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', pad));
            } else {
                line.push_str("  ");
                line.extend(std::iter::repeat_n(' ', pad));
                line.push_str(cell);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn verdict_line(scores: &Scores) -> String {
    let mut counts: std::collections::BTreeMap<&str, usize> = Default::default();
    for group in &scores.groups {
        for (verdict, n) in &group.verdicts {
            *counts.entry(verdict).or_default() += n;
        }
    }
    let parts: Vec<String> = counts.iter().map(|(v, n)| format!("{n} {v}")).collect();
    parts.join(", ")
}

fn legend(names: &[String], scores: &Scores) -> String {
    let parts: Vec<String> = LEGEND
        .iter()
        .filter(|(n, _, why)| !why.is_empty() && names.iter().any(|name| base(name) == *n))
        .map(|(_, short, why)| format!("{} = {why}", short.trim_end_matches([' ', '↑', '↓'])))
        .collect();
    let spread = match scores.groups.len() {
        0 | 1 => String::new(),
        _ => format!("; ± is the std over groups (ddof {})", scores.summary_ddof),
    };
    format!(
        "{}\nBrackets hold 95 % intervals{spread}. Protocol: {}. Device: {}.\n",
        wrapped(&parts.join("; ")),
        scores.protocol,
        scores.device
    )
}

/// Breaks lines at spaces so that none is longer than a terminal is usually wide.
pub(super) fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// Notes of the run, then those of single scores, each once.
fn notes(scores: &Scores) -> Vec<String> {
    let mut notes = scores.notes.clone();
    for group in &scores.groups {
        for (name, score) in &group.scores {
            if let Some(note) = &score.note {
                let line = format!("{name}: {note}");
                if !notes.contains(&line) {
                    notes.push(line);
                }
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_at_every_size() {
        let printed = [0.0, 1234567.8, 12.345, 0.012345, 1.2e-7].map(number);
        assert_eq!(printed, ["0", "1234568", "12.35", "0.0123", "1.20e-7"]);
    }
}
