//! Figure 6: how much scores depend on the evaluation models. Each set of models (auto-encoders, oracle, label models of another
//! seed) scores all methods; shown are the means over the sets with 95 % intervals, by Student's t: sets are few.

use std::fmt::Write;

use super::MethodScores;
use super::bars::{COLOURS, escaped};
use super::tables::ROWS;
use crate::stats::interval::student_interval;
use crate::study::tables::settings::Better;
use crate::study::tables::{Cell, Std, Table, TableRow, Zeros};

/// Scores that depend on the evaluation models.
const OF_MODELS: [&str; 5] = ["im1", "im2", "fid", "oracle_score", "label_variation"];

/// The mean of each score over the sets of models (`seeds`, each with all methods in one order).
pub fn seeds_table(seeds: &[Vec<MethodScores>]) -> Table {
    let names: Vec<String> = seeds.first().map_or(Vec::new(), |methods| {
        methods.iter().map(|m| m.method.clone()).collect()
    });
    let mut rows = Vec::new();
    for (score, title, better, factor) in ROWS.into_iter().filter(|r| OF_MODELS.contains(&r.0)) {
        // Oracles of several sets may have names of their own, labels have those of the configuration.
        let mut labels: Vec<Option<String>> = { seeds.iter().flatten() }
            .flat_map(|m| m.scores.keys())
            .filter_map(|name| match name.split_once('/') {
                Some((base, label)) if base == score => {
                    Some((score == "label_variation").then(|| label.to_owned()))
                }
                None if name == score => Some(None),
                _ => None,
            })
            .collect();
        labels.sort();
        labels.dedup();
        for label in labels {
            let value = |method: &MethodScores| {
                let mut own = method.scores.iter();
                let (_, found) = own.find(|(name, _)| match (&label, name.split_once('/')) {
                    (Some(label), Some((base, own))) => base == score && own == label,
                    (None, Some((base, _))) => base == score,
                    (None, None) => *name == score,
                    _ => false,
                })?;
                found.value
            };
            let cells = (0..names.len()).map(|m| {
                let of = seeds.iter().filter_map(|methods| methods.get(m));
                let values: Vec<f64> = of.filter_map(value).map(|v| factor * v).collect();
                match student_interval(&values) {
                    Some(found) => Cell::Value {
                        mean: found.mean,
                        std: found.half_width,
                        groups: values.len(),
                        against: None,
                    },
                    None => Cell::Missing,
                }
            });
            rows.push(TableRow {
                name: match &label {
                    Some(label) => format!("{title} ({label})"),
                    None => title.to_owned(),
                },
                latex: None,
                better: if label.is_some() {
                    Better::Open
                } else {
                    better
                },
                cells: cells.collect(),
            });
        }
    }
    Table {
        number: 6,
        title: format!(
            "Scores over {} sets of evaluation models (Figure 6)",
            seeds.len()
        ),
        std: Std::Sample,
        paired: false,
        apart: false,
        zeros: Zeros::Kept,
        against: None,
        columns: names,
        rows,
        convention: "mean ± half of the 95 % interval (Student's t) over sets of evaluation models"
            .into(),
        notes: vec![
            "methods differ by more than the models do where the intervals are apart".into(),
        ],
    }
}

const HEIGHT: f64 = 160.0;
const BAR: f64 = 24.0;
const TOP: f64 = 46.0;

/// The table as bars: a panel for each score with a scale of its own, a bar for each method.
pub fn seeds_svg(table: &Table) -> String {
    let panel = BAR * (table.columns.len() as f64 + 2.0);
    let width = 40.0 + panel.max(90.0) * table.rows.len() as f64 + 110.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"20\" y=\"20\" font-size=\"14\">{}</text>\n",
        TOP + HEIGHT + 40.0,
        escaped(&table.title)
    );
    for (r, row) in table.rows.iter().enumerate() {
        let left = 20.0 + panel.max(90.0) * r as f64;
        let values = row.cells.iter().map(|cell| match cell {
            Cell::Value { mean, std, .. } => Some((*mean, std.unwrap_or(0.0))),
            _ => None,
        });
        let values: Vec<Option<(f64, f64)>> = values.collect();
        let ends = values.iter().flatten().map(|(mean, half)| mean + half);
        let most = ends.fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let y = |value: f64| TOP + HEIGHT * (1.0 - value.clamp(0.0, most) / most);
        for (m, value) in values.iter().enumerate() {
            let Some((mean, half)) = value else { continue };
            let (x, top) = (left + BAR * m as f64, y(*mean));
            let middle = x + (BAR - 4.0) / 2.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{} {}: {mean:.4} ± {half:.4}</title></rect><line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"black\"/>",
                BAR - 4.0,
                TOP + HEIGHT - top,
                COLOURS[m % COLOURS.len()],
                escaped(table.columns.get(m).map_or("", String::as_str)),
                escaped(&row.name),
                y(mean - half),
                y(mean + half)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{left:.1}\" y=\"{:.1}\">{}</text><text x=\"{left:.1}\" y=\"{:.1}\" fill=\"#777777\">{most:.3}</text>",
            TOP + HEIGHT + 16.0,
            escaped(&row.name),
            TOP - 6.0
        );
    }
    for (m, name) in table.columns.iter().enumerate() {
        let at = TOP + 18.0 * m as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{at:.1}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            width - 100.0,
            COLOURS[m % COLOURS.len()],
            width - 82.0,
            at + 11.0,
            escaped(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Score;

    #[test]
    fn a_spread_over_models_is_the_interval_of_their_means() {
        let method = |value: f64, oracle: &str| MethodScores {
            method: "GB".into(),
            place: String::new(),
            scores: [
                ("im2".to_owned(), value),
                ("im2_numerator".to_owned(), 7.0),
                (format!("oracle_score/{oracle}"), value),
                ("label_variation/dot".to_owned(), value),
            ]
            .map(|(name, value)| {
                let score = Score {
                    value: Some(value),
                    n: 5,
                    ..Score::default()
                };
                (name, score)
            })
            .into(),
            fingerprints: Default::default(),
            notes: Vec::new(),
        };
        let table = seeds_table(&[vec![method(0.1, "a")], vec![method(0.3, "b")]]);
        let names: Vec<&str> = table.rows.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["100 IM2", "Oracle", "LVS (dot)"]);
        let Cell::Value {
            mean, std, groups, ..
        } = table.rows[1].cells[0]
        else {
            panic!("no value");
        };
        // Sample std of 0.1 and 0.3 is 0.1414; times 12.706 / sqrt 2, Student's t with one degree of freedom.
        assert!((mean - 0.2).abs() < 1e-12 && (std.unwrap() - 1.270_620_474).abs() < 1e-8);
        assert_eq!(groups, 2);
        let svg = seeds_svg(&table);
        assert_eq!(svg.matches("<title>").count(), 3, "{svg}");
    }
}
