//! Tables of a study, one file per format.

pub mod csv;
pub mod json;
pub mod latex;
pub mod markdown;
pub mod text;

use crate::study::tables::settings::Better;
use crate::study::tables::{Cell, Table, TableRow, Zeros};

/// What stands in a cell without a number.
const NOTHING: &str = "-";

/// Tables with what holds for all of them.
pub struct Document {
    pub tables: Vec<Table>,
    /// Decimals.
    pub digits: usize,
    /// Abbreviations, ideal pairs and what the data lack, a line each.
    pub notes: Vec<String>,
}

/// Rounds as numpy does: times a power of ten, to the nearest whole number with ties to even, and back.
fn rounded(value: f64, digits: usize) -> f64 {
    let scale = 10f64.powi(digits as i32);
    let rounded = (value * scale).round_ties_even() / scale;
    // A negative zero is zero; numbers too large to be scaled have no decimals to lose.
    if rounded.is_finite() {
        rounded + 0.0
    } else {
        value
    }
}

fn number(value: f64, digits: usize, zeros: Zeros) -> String {
    let value = rounded(value, digits);
    match zeros {
        Zeros::Kept => format!("{value:.digits$}"),
        Zeros::Dropped => {
            let text = value.to_string();
            match text.contains('.') {
                true => text,
                false => format!("{text}.0"),
            }
        }
    }
}

/// Mean and std of a cell as printed, if it has any.
fn parts(cell: &Cell, table: &Table, digits: usize) -> Option<(String, String)> {
    let Cell::Value { mean, std, .. } = cell else {
        return None;
    };
    let shown = |value: f64| number(value, digits, table.zeros);
    Some((shown(*mean), std.map_or(NOTHING.into(), shown)))
}

/// `mean ± std`, `mean [low, high]`, or `-`.
pub fn printed(cell: &Cell, table: &Table, digits: usize) -> String {
    if let Cell::Interval { mean, ci95, .. } = cell {
        let [mean, low, high] =
            [*mean, ci95[0], ci95[1]].map(|value| number(value, digits, table.zeros));
        return format!("{mean} [{low}, {high}]");
    }
    match parts(cell, table, digits) {
        Some((mean, std)) => format!("{mean} ± {std}"),
        None => NOTHING.into(),
    }
}

/// The name of a row with the direction that is better.
fn titled(row: &TableRow) -> String {
    let arrow = match row.better {
        Better::Higher => " ↑",
        Better::Lower => " ↓",
        Better::Open => "",
    };
    format!("{}{arrow}", row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_even_and_printed_with_or_without_their_last_zeros() {
        let kept = |v| number(v, 2, Zeros::Kept);
        let dropped = |v| number(v, 2, Zeros::Dropped);
        assert_eq!(kept(0.125), "0.12");
        assert_eq!(kept(-0.001), "0.00");
        assert_eq!(kept(-0.2), "-0.20");
        assert_eq!(dropped(0.1), "0.1");
        assert_eq!(dropped(0.001), "0.0");
        assert_eq!(dropped(12.0), "12.0");
        assert_eq!(number(f64::MAX, 2, Zeros::Kept), format!("{:.2}", f64::MAX));
    }
}
