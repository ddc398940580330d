//! A schema from a plain CSV: what its columns look like. Shown to the user, who corrects it.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Feature, Kind, Missing, Result, Schema, TabularError};

/// A column of numbers with more values than this is numerical.
const FEW_NUMBERS: usize = 5;

/// Reads a CSV and guesses: at most two values make a binary feature; words make a categorical feature, and so do whole numbers of at most five
/// values; the rest is numerical. The class is the column of that name, else the last one.
pub fn infer_schema(path: &Path, class: Option<&str>) -> Result<Schema> {
    let file = path.display().to_string();
    let broken = |reason: String| TabularError::Csv {
        file: file.clone(),
        reason,
    };
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_path(path)
        .map_err(|e| broken(e.to_string()))?;
    let names: Vec<String> = {
        let headers = reader.headers().map_err(|e| broken(e.to_string()))?;
        headers.iter().map(Into::into).collect()
    };
    let wanted = class.unwrap_or("class");
    let class = match (names.iter().position(|n| n == wanted), class) {
        (Some(at), _) => at,
        (None, None) if !names.is_empty() => names.len() - 1,
        _ => {
            return Err(TabularError::Columns {
                file,
                expected: format!("expected a column `{wanted}` (the class) in the header"),
                found: names.join(", "),
            });
        }
    };
    let mut values: Vec<BTreeSet<String>> = vec![BTreeSet::new(); names.len()];
    for record in reader.records() {
        let record = record.map_err(|e| broken(e.to_string()))?;
        for (seen, cell) in values.iter_mut().zip(record.iter()) {
            if !cell.is_empty() {
                seen.insert(cell.to_string());
            }
        }
    }
    let features = (0..names.len())
        .filter(|&i| i != class)
        .map(|i| guess(&names[i], &values[i]))
        .collect();
    Ok(Schema {
        features,
        class: names[class].clone(),
        majority_class: None,
        missing: Missing::Error,
        rules: Vec::new(),
    })
}

fn guess(name: &str, values: &BTreeSet<String>) -> Feature {
    let numbers: Option<Vec<f64>> = values.iter().map(|v| v.parse::<f64>().ok()).collect();
    let whole = |list: &[f64]| list.iter().all(|v| v.fract() == 0.0);
    let kind = match &numbers {
        _ if (1..=2).contains(&values.len()) => Kind::Binary,
        Some(list) if list.len() > FEW_NUMBERS || !whole(list) => Kind::Numerical,
        _ => Kind::Categorical,
    };
    let numbers = numbers.unwrap_or_default();
    let fold = |f: fn(f64, f64) -> f64| numbers.iter().copied().reduce(f);
    let range = match (kind, fold(f64::min), fold(f64::max)) {
        (Kind::Numerical, Some(min), Some(max)) => Some([min, max]),
        _ => None,
    };
    Feature {
        name: name.into(),
        kind,
        values: match kind {
            Kind::Numerical => Vec::new(),
            _ => values.iter().cloned().collect(),
        },
        range,
        immutable: false,
    }
}
