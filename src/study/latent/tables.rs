//! Tables 2 and 4 of the paper, with both readings of the scores side by side, and all rows as CSV.

use std::fmt::Write;

use super::rows::Row;
use super::scoring::Numbers;
use crate::explain::latent::{Method, NAMES, Setting};
use crate::report::table::aligned;

/// A column: its heading, which reading, which number, and whether it is a share.
type Column = (
    &'static str,
    fn(&Row) -> &Numbers,
    fn(&Numbers) -> f64,
    bool,
);

const TABLE_2: [Column; 4] = [
    ("S# exact", |r| &r.exact, |n| n.cardinality, false),
    (
        "S# as released",
        |r| &r.as_released,
        |n| n.cardinality,
        false,
    ),
    ("trivial % exact", |r| &r.exact, |n| n.trivial, true),
    (
        "trivial % as released",
        |r| &r.as_released,
        |n| n.trivial,
        true,
    ),
];

const TABLE_4: [Column; 8] = [
    ("EF % exact", |r| &r.exact, |n| n.estimator_flip, true),
    (
        "EF % as released",
        |r| &r.as_released,
        |n| n.estimator_flip,
        true,
    ),
    ("SCE % exact", |r| &r.exact, |n| n.successful, true),
    (
        "SCE % as released",
        |r| &r.as_released,
        |n| n.successful,
        true,
    ),
    ("CF % exact", |r| &r.exact, |n| n.causal_flip, true),
    (
        "CF % as released",
        |r| &r.as_released,
        |n| n.causal_flip,
        true,
    ),
    ("NCF % exact", |r| &r.exact, |n| n.non_causal_flip, true),
    (
        "NCF % as released",
        |r| &r.as_released,
        |n| n.non_causal_flip,
        true,
    ),
];

/// Rows of one explainer in one setting.
pub fn of<'a>(rows: &'a [Row], setting: Setting, explainer: &str) -> Vec<&'a Row> {
    let fits = |r: &&Row| {
        r.spurious == setting.spurious
            && (r.correlation - setting.correlation()).abs() < 1e-9
            && r.explainer == explainer
    };
    rows.iter().filter(fits).collect()
}

/// Mean, and standard deviation with divisor n − 1 (0 of one).
pub fn mean_and_std(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt())
}

/// Explainers of rows, in the paper's order.
pub fn explainers(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = NAMES
        .into_iter()
        .filter(|n| rows.iter().any(|r| r.explainer == *n))
        .collect();
    names.dedup();
    names
}

/// Both tables as text.
pub fn text(rows: &[Row], settings: &[Setting]) -> String {
    let mut all = String::new();
    for (number, title, columns) in [
        (
            2,
            "size of the orthogonal sets and share of trivial counterfactuals",
            &TABLE_2[..],
        ),
        (
            4,
            "estimator flips, successful counterfactuals, and which of these are causal and non-causal flips",
            &TABLE_4[..],
        ),
    ] {
        let _ = writeln!(all, "Table {number}: {title}");
        for setting in settings {
            let _ = writeln!(
                all,
                "\n{} tied typefaces, correlation {:.2}",
                setting.spurious,
                setting.correlation()
            );
            let mut lines = vec![vec![String::new()]];
            lines[0].extend(columns.iter().map(|(heading, ..)| (*heading).to_owned()));
            for explainer in explainers(rows) {
                let own = of(rows, *setting, explainer);
                if own.is_empty() {
                    continue;
                }
                let mut line = vec![Method::title(explainer).to_owned()];
                for (_, reading, number, share) in columns {
                    let values: Vec<f64> = own.iter().map(|r| number(reading(r))).collect();
                    let (mean, std) = mean_and_std(&values);
                    let scale = if *share { 100.0 } else { 1.0 };
                    line.push(match values.len() {
                        1 => format!("{:.2}", scale * mean),
                        _ => format!("{:.2} ± {:.2}", scale * mean, scale * std),
                    });
                }
                lines.push(line);
            }
            all.push_str(&aligned(&lines));
        }
        all.push('\n');
    }
    all.push_str(
        "mean ± standard deviation over runs; DiCE, StylEx and Latent-CF draw no random numbers and run once. exact: the paper's definitions \
         (proximity is a filter, complementary to all members, samples without success count 0). as released: the package's arithmetic \
         (docs/latent.md). CF and NCF are shares of SCE.\n",
    );
    all
}

/// All rows.
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "spurious,correlation,explainer,run,samples,explanations,seconds,accuracy,proximal,cardinality,trivial,estimator_flip,successful,\
         causal_flip,non_causal_flip,released_cardinality,released_trivial,released_estimator_flip,released_successful,released_causal_flip,\
         released_non_causal_flip\n",
    );
    for r in rows {
        let numbers = [&r.exact, &r.as_released].map(|n| {
            format!(
                "{},{},{},{},{},{}",
                n.cardinality,
                n.trivial,
                n.estimator_flip,
                n.successful,
                n.causal_flip,
                n.non_causal_flip
            )
        });
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{:.2},{},{},{}",
            r.spurious,
            r.correlation,
            r.explainer,
            r.run,
            r.samples,
            r.explanations,
            r.seconds,
            r.accuracy,
            r.proximal,
            numbers.join(",")
        );
    }
    text
}
