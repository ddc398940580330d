//! Rows of a CSV as numbers: a numerical value, the place of a category, 0 or 1; and the class of each row.

use std::path::Path;

use super::{Feature, Kind, Missing, Result, Schema, TabularError};

/// One row: the value of each feature in its own units (a category is its place among the values).
pub type Record = Vec<f64>;

/// A table that was read by a schema.
#[derive(Clone, Debug)]
pub struct Table {
    pub schema: Schema,
    pub rows: Vec<Record>,
    /// Class of each row, by place in `classes`; empty where the file has no class column.
    pub class_of: Vec<usize>,
    /// Classes as they stand in the file, in order of text.
    pub classes: Vec<String>,
    /// Which class is label 1.
    pub majority: usize,
    /// Rows left out because a cell was empty.
    pub dropped: usize,
}

/// What stands in a header, and where each feature is.
struct Header {
    features: Vec<usize>,
    class: Option<usize>,
}

impl Table {
    /// Reads a file with a class column.
    pub fn read(path: &Path, schema: &Schema) -> Result<Self> {
        let file = path.display().to_string();
        Self::from_csv(&file, &bytes(path)?, schema, true)
    }

    /// Reads a file whose class column may be absent (factuals and counterfactuals).
    pub fn read_unlabelled(path: &Path, schema: &Schema) -> Result<Self> {
        let file = path.display().to_string();
        Self::from_csv(&file, &bytes(path)?, schema, false)
    }

    /// Reads from memory; `file` stands for the source in messages.
    pub fn from_csv(file: &str, text: &[u8], schema: &Schema, labelled: bool) -> Result<Self> {
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .flexible(true)
            .from_reader(text);
        let names = reader.headers().map_err(|e| unreadable(file, &e))?.clone();
        let header = Header::find(file, &names, schema, labelled)?;
        let (mut rows, mut words, mut dropped) = (Vec::new(), Vec::new(), 0);
        let mut record = csv::StringRecord::new();
        while reader
            .read_record(&mut record)
            .map_err(|e| unreadable(file, &e))?
        {
            let line = record.position().map_or(0, csv::Position::line);
            if record.len() != names.len() {
                return Err(TabularError::Columns {
                    file: format!("{file}, line {line}"),
                    expected: format!("expected {} cells, as the header has", names.len()),
                    found: record.len().to_string(),
                });
            }
            let empty = |&at: &usize| record[at].is_empty();
            let missing = header
                .features
                .iter()
                .chain(&header.class)
                .find(|at| empty(at));
            if missing.is_some() && schema.missing == Missing::DropRow {
                dropped += 1;
                continue;
            }
            let mut row = Vec::with_capacity(schema.features.len());
            for (feature, &at) in schema.features.iter().zip(&header.features) {
                row.push(
                    cell(feature, &record[at]).map_err(|expected| TabularError::Cell {
                        file: file.into(),
                        line,
                        column: at + 1,
                        name: feature.name.clone(),
                        expected,
                        found: record[at].into(),
                    })?,
                );
            }
            if let Some(at) = header.class {
                if record[at].is_empty() {
                    return Err(TabularError::Cell {
                        file: file.into(),
                        line,
                        column: at + 1,
                        name: schema.class.clone(),
                        expected: "a class".into(),
                        found: String::new(),
                    });
                }
                words.push(record[at].to_string());
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return Err(TabularError::Columns {
                file: file.into(),
                expected: "expected rows below the header".into(),
                found: "none".into(),
            });
        }
        let (classes, class_of) = number_classes(&words);
        let majority = majority(file, schema, &classes, &class_of)?;
        Ok(Self {
            schema: schema.clone(),
            rows,
            class_of,
            classes,
            majority,
            dropped,
        })
    }

    /// Label of a row: 1 for the majority class, 0 for all others.
    pub fn label(&self, row: usize) -> usize {
        usize::from(self.class_of[row] == self.majority)
    }

    /// Labels of all rows.
    pub fn labels(&self) -> Vec<usize> {
        (0..self.class_of.len())
            .map(|row| self.label(row))
            .collect()
    }

    /// The values of one feature over all rows.
    pub fn column(&self, feature: usize) -> Vec<f64> {
        self.rows.iter().map(|row| row[feature]).collect()
    }

    /// A value as it stands in a CSV.
    pub fn shown(feature: &Feature, value: f64) -> String {
        match feature.kind {
            Kind::Numerical => value.to_string(),
            _ => match feature.values.get(value as usize) {
                Some(word) if value.fract() == 0.0 && value >= 0.0 => word.clone(),
                _ => value.to_string(),
            },
        }
    }
}

impl Header {
    fn find(
        file: &str,
        names: &csv::StringRecord,
        schema: &Schema,
        labelled: bool,
    ) -> Result<Self> {
        let place = |name: &str| names.iter().position(|n| n == name);
        let lacking = |what: String| TabularError::Columns {
            file: file.into(),
            expected: format!("expected a column {what} in the header"),
            found: names.iter().collect::<Vec<_>>().join(", "),
        };
        let mut features = Vec::with_capacity(schema.features.len());
        for feature in &schema.features {
            let at = place(&feature.name);
            features.push(at.ok_or_else(|| lacking(format!("`{}`", feature.name)))?);
        }
        let class = place(&schema.class);
        if class.is_none() && labelled {
            return Err(lacking(format!("`{}` (the class)", schema.class)));
        }
        Ok(Self { features, class })
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| TabularError::Io {
        file: path.display().to_string(),
        source,
    })
}

fn unreadable(file: &str, error: &csv::Error) -> TabularError {
    TabularError::Csv {
        file: file.into(),
        reason: error.to_string(),
    }
}

/// A cell as a number, or what was expected there.
fn cell(feature: &Feature, text: &str) -> std::result::Result<f64, String> {
    if text.is_empty() {
        return Err("a value (or \"missing\": \"drop-row\" in the schema)".into());
    }
    if feature.kind == Kind::Numerical {
        let number = text.parse::<f64>().ok().filter(|v| v.is_finite());
        return number.ok_or_else(|| "a finite number".into());
    }
    if let Some(at) = feature.values.iter().position(|v| v == text) {
        return Ok(at as f64);
    }
    // 1.0 stands for 1 where a program wrote whole numbers as fractions.
    let same = |known: &String| match (known.parse::<f64>(), text.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    match feature.values.iter().position(same) {
        Some(at) => Ok(at as f64),
        None => {
            let mut known = feature
                .values
                .iter()
                .take(12)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            if feature.values.len() > 12 {
                known.push_str(", …");
            }
            Err(format!("one of {known}"))
        }
    }
}

fn number_classes(words: &[String]) -> (Vec<String>, Vec<usize>) {
    let mut classes: Vec<String> = words.to_vec();
    classes.sort();
    classes.dedup();
    let place = |word: &String| classes.binary_search(word).unwrap_or(0);
    let class_of = words.iter().map(place).collect();
    (classes, class_of)
}

fn majority(file: &str, schema: &Schema, classes: &[String], of: &[usize]) -> Result<usize> {
    if classes.is_empty() {
        return Ok(0);
    }
    if let Some(name) = &schema.majority_class {
        return classes
            .iter()
            .position(|c| c == name)
            .ok_or_else(|| TabularError::Columns {
                file: file.into(),
                expected: format!("expected rows of the schema's majority_class {name:?}"),
                found: format!("classes {}", classes.join(", ")),
            });
    }
    let count = |class: usize| of.iter().filter(|&&c| c == class).count();
    // Of equally frequent classes the last, as in most of the benchmark's ties.
    Ok((0..classes.len())
        .max_by_key(|&c| (count(c), c))
        .unwrap_or(0))
}
