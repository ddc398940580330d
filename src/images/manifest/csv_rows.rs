//! Rows of a CSV manifest.

use super::{COLUMNS, Manifest, Row};
use crate::images::ImageError;

/// Reads all rows below the header.
pub fn read(manifest: &Manifest, text: &str) -> Result<Vec<Row>, ImageError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let header = reader
        .headers()
        .map_err(|error| wrong(manifest, &error))?
        .clone();
    let columns = header
        .iter()
        .map(|name| manifest.column(1, &name.to_ascii_lowercase()));
    let columns = columns.collect::<Result<Vec<usize>, _>>()?;
    for (i, name) in COLUMNS.iter().enumerate() {
        let count = columns.iter().filter(|&&column| column == i).count();
        if count > 1 {
            let found = format!("{count} columns {name:?}");
            return Err(manifest.error(1, None, "every column once", found, "remove one"));
        }
        if count == 0 && i < 2 {
            let found = format!("the header {}", header.iter().collect::<Vec<_>>().join(","));
            let advice = "start the file with a header that names both";
            return Err(manifest.error(
                1,
                None,
                "columns original and counterfactual",
                found,
                advice,
            ));
        }
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| wrong(manifest, &error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let mut row = Row {
            line,
            ..Row::default()
        };
        for (&column, value) in columns.iter().zip(&record) {
            row.values[column] = (!value.is_empty()).then(|| value.to_owned());
        }
        rows.push(row);
    }
    Ok(rows)
}

fn wrong(manifest: &Manifest, error: &csv::Error) -> ImageError {
    let line = error.position().map(csv::Position::line);
    if let csv::ErrorKind::UnequalLengths {
        expected_len, len, ..
    } = error.kind()
    {
        let (expected, found) = (format!("{expected_len} values"), format!("{len}"));
        let advice =
            "give every column a value, if only an empty one, and quote values that hold commas";
        return manifest.error(line, None, expected, found, advice);
    }
    manifest.error(line, None, "CSV", error.to_string(), "correct the row")
}
