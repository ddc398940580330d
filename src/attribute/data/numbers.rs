//! Tables of numbers out of CSV files: with or without a line of names, separated by commas, semicolons or tabs.

use std::path::Path;

use crate::attribute::error::{AttributionError, Result};
use crate::attribute::rows::Rows;

const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

/// The categories of a column, in the order of their numbers 0, 1, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Categories {
    pub column: String,
    pub names: Vec<String>,
}

/// Which columns are read, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Columns that are left out.
    pub without: Vec<String>,
    /// Columns of texts.
    pub categories: Vec<Categories>,
    /// What to do about a text in another column, for messages.
    pub hint: &'static str,
}

/// Names and numbers of a CSV file. A text that is no number and no known category is an error with its place.
pub(super) fn numbers(path: &Path, reading: &Reading) -> Result<(Vec<String>, Rows)> {
    let fail = |reason: String| AttributionError::file(path, reason);
    let text = std::fs::read_to_string(path).map_err(|e| fail(format!("cannot read: {e}")))?;
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(separator(text))
        .from_reader(text.as_bytes());
    let (mut names, mut kept, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (at, record) in reader.records().enumerate() {
        let record = record.map_err(|e| fail(e.to_string()))?;
        let line = record.position().map_or(0, |p| line_of(text, p));
        let fields: Vec<&str> = record.iter().map(str::trim).collect();
        if at == 0 {
            let named = fields.iter().all(|f| f.parse::<f64>().is_err());
            names = match named {
                true => fields.iter().map(|f| (*f).to_owned()).collect(),
                false => (1..=fields.len()).map(|j| format!("column {j}")).collect(),
            };
            kept = reading.columns(&names)?;
            if named {
                continue;
            }
        }
        for column in &kept {
            let field = fields[column.at];
            values.push(column.value(field).ok_or_else(|| {
                fail(format!(
                    "line {line}, {}: {}, found {field:?}{}",
                    names[column.at],
                    column.expected(),
                    if column.categories.is_none() {
                        reading.hint
                    } else {
                        ""
                    }
                ))
            })?);
        }
    }
    if values.is_empty() {
        return Err(fail("expected rows of numbers, found none".into()));
    }
    let columns = kept.len();
    let names = kept.iter().map(|c| names[c.at].clone()).collect();
    Ok((names, Rows::new(values, columns)))
}

/// Line of a record. The position of one that follows empty lines is that of the first of these.
fn line_of(text: &str, position: &csv::Position) -> u64 {
    let rest = text.bytes().skip(position.byte() as usize);
    let empty = rest.take_while(|b| matches!(b, b'\n' | b'\r'));
    position.line() + empty.filter(|b| *b == b'\n').count() as u64
}

/// The separator that the first line has most of.
fn separator(text: &str) -> u8 {
    let first = text.lines().next().unwrap_or("");
    let count = |s: &u8| first.bytes().filter(|b| b == s).count();
    let most = SEPARATORS.iter().rev().max_by_key(|s| count(s));
    most.copied().unwrap_or(b',')
}

struct Column<'a> {
    at: usize,
    categories: Option<&'a Categories>,
}

impl Column<'_> {
    fn value(&self, field: &str) -> Option<f64> {
        match self.categories {
            None => field.parse::<f64>().ok().filter(|v| v.is_finite()),
            Some(known) => {
                let at = known.names.iter().position(|name| name == field)?;
                Some(at as f64)
            }
        }
    }

    fn expected(&self) -> String {
        match self.categories {
            None => "expected a number".into(),
            Some(known) => format!("expected one of the categories {}", known.names.join(", ")),
        }
    }
}

impl Reading {
    fn columns(&self, names: &[String]) -> Result<Vec<Column<'_>>> {
        let categorical = self.categories.iter().map(|c| ("--categories", &c.column));
        let asked = self.without.iter().map(|name| ("--without", name));
        for (option, name) in asked.chain(categorical) {
            if !names.contains(name) {
                let expected = format!("one of {}", names.join(", "));
                let found = format!("{name:?}");
                return Err(AttributionError::setting(option, expected, found));
            }
        }
        let column = |(at, name): (usize, &String)| Column {
            at,
            categories: self.categories.iter().find(|c| c.column == *name),
        };
        let kept = names.iter().enumerate();
        let kept = kept.filter(|(_, name)| !self.without.contains(name));
        Ok(kept.map(column).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, reading: &Reading) -> Result<(Vec<String>, Rows)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        numbers(&path, reading)
    }

    #[test]
    fn separators_marks_and_quotes_are_understood() {
        let wine = "\u{feff}\"fixed acidity\";\"pH, mean\";quality\n7;3.1;6\n6.3;3,\n";
        let error = read(wine, &Reading::default()).unwrap_err().to_string();
        assert!(error.contains("previous record has 3 fields"), "{error}");
        let (names, rows) = read(&wine.replace("3,\n", "3;5\n"), &Reading::default()).unwrap();
        assert_eq!(names, ["fixed acidity", "pH, mean", "quality"]);
        assert_eq!(rows.values, [7.0, 3.1, 6.0, 6.3, 3.0, 5.0]);
        let (names, rows) = read("1\t2\n3\t4\n", &Reading::default()).unwrap();
        assert_eq!(names, ["column 1", "column 2"]);
        assert_eq!(rows.column(1), [2.0, 4.0]);
    }

    #[test]
    fn categories_become_numbers_and_unknown_ones_are_refused_with_their_place() {
        let text = "day,x,note,y\nmon,1,a,2\n\nsun,3,b,4\n";
        let mut reading = Reading {
            without: vec!["note".into()],
            categories: vec![Categories {
                column: "day".into(),
                names: vec!["sun".into(), "mon".into()],
            }],
            hint: ": leave it out",
        };
        let (names, rows) = read(text, &reading).unwrap();
        assert_eq!(names, ["day", "x", "y"]);
        assert_eq!(rows.values, [1.0, 1.0, 2.0, 0.0, 3.0, 4.0]);
        let fails = |text: &str, reading: &Reading| read(text, reading).unwrap_err().to_string();
        let error = fails(&text.replace("sun", "sat"), &reading);
        assert!(
            error.contains("line 4, day") && error.contains("sun, mon, found \"sat\""),
            "{error}"
        );
        let error = fails(&text.replace('3', "nan"), &reading);
        assert!(
            error.ends_with("line 4, x: expected a number, found \"nan\": leave it out"),
            "{error}"
        );
        reading.without.push("colour".into());
        let error = fails(text, &reading);
        assert!(
            error.contains("--without") && error.contains("one of day, x"),
            "{error}"
        );
        assert!(fails("", &Reading::default()).contains("found none"));
        assert!(fails("a,b\n", &Reading::default()).contains("found none"));
    }
}
