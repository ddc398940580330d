//! Logits the user computed elsewhere: one row per pair.

use std::collections::HashMap;
use std::path::Path;

use crate::images::Pair;
use crate::tensor::Array;
use crate::weights::formats;

/// Reads logits and brings them to the order of the pairs.
///
/// `.safetensors` (tensor `logits`, or the only one), `.npy` and `.npz` hold `[n, classes]` in the order of
/// `pairs.csv` (sorted by group, original, counterfactual). A CSV may instead name the counterfactual of each row in
/// a first column called `counterfactual`, `name` or `path`.
pub fn read(path: &Path, pairs: &[Pair]) -> Result<Array, String> {
    let file = path.display();
    let is_csv = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("csv"));
    let array = if is_csv {
        read_csv(path, pairs)?
    } else {
        let dict = formats::read(path).map_err(|e| e.to_string())?;
        let array = match dict.get("logits") {
            Some(array) => array.clone(),
            None => {
                let mut two: Vec<_> = dict.iter().filter(|(_, a)| a.shape.len() == 2).collect();
                match (two.pop(), two.is_empty()) {
                    (Some((_, array)), true) => array.clone(),
                    _ => {
                        return Err(format!(
                            "{file}: expected a tensor `logits` [n, classes], found {}",
                            dict.iter().map(|(n, _)| n).collect::<Vec<_>>().join(", ")
                        ));
                    }
                }
            }
        };
        if array.shape.len() != 2 {
            return Err(format!(
                "{file}: expected logits of shape [n, classes], found {:?}",
                array.shape
            ));
        }
        array
    };
    if array.shape[0] != pairs.len() {
        return Err(format!(
            "{file}: expected one row of logits per pair ({}), found {}; rows follow the order of pairs.csv (see --dry-run)",
            pairs.len(),
            array.shape[0]
        ));
    }
    let classes = array.shape[1];
    if classes == 0 {
        return Err(format!("{file}: the logits have no classes"));
    }
    if let Some(at) = array.data.iter().position(|v| !v.is_finite()) {
        return Err(format!(
            "{file}: logits of row {}, class {} are {}; every logit must be finite",
            at / classes,
            at % classes,
            array.data[at]
        ));
    }
    Ok(array)
}

fn read_csv(path: &Path, pairs: &[Pair]) -> Result<Array, String> {
    let file = path.display();
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .trim(csv::Trim::All)
        .from_path(path)
        .map_err(|e| format!("{file}: cannot read: {e}"))?;
    let mut rows: Vec<(usize, csv::StringRecord)> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| format!("{file}: {e}"))?;
        let line = record.position().map_or(0, |p| p.line() as usize);
        rows.push((line, record));
    }
    let first = rows.first().ok_or(format!("{file}: the file is empty"))?;
    let keyed = matches!(
        first.1.get(0).map(str::to_lowercase).as_deref(),
        Some("counterfactual" | "name" | "path")
    );
    let header = keyed || first.1.iter().any(|f| f.parse::<f32>().is_err());
    let skip = usize::from(keyed);
    let classes = first.1.len() - skip;
    let parse = |line: usize, record: &csv::StringRecord| -> Result<Vec<f32>, String> {
        record
            .iter()
            .skip(skip)
            .enumerate()
            .map(|(class, field)| {
                field.parse::<f32>().map_err(|_| {
                    format!(
                        "{file}: line {line}, column {}: expected a number, found {field:?}",
                        class + skip + 1
                    )
                })
            })
            .collect()
    };
    let body = &rows[usize::from(header)..];
    let mut data = Vec::with_capacity(body.len() * classes);
    if !keyed {
        for (line, record) in body {
            data.extend(parse(*line, record)?);
        }
        return Array::new([body.len(), classes], data).map_err(|e| format!("{file}: {e}"));
    }
    let mut by_name: HashMap<String, &(usize, csv::StringRecord)> = HashMap::new();
    for row in body {
        let key = row.1.get(0).unwrap_or_default();
        if by_name.insert(stem(key), row).is_some() {
            return Err(format!("{file}: line {}: {key:?} occurs twice", row.0));
        }
    }
    let mut used = std::collections::HashSet::new();
    for pair in pairs {
        let row = by_name
            .get(&pair.name)
            .or_else(|| by_name.get(&stem(&pair.counterfactual.to_string_lossy())))
            .ok_or_else(|| format!("{file}: no row for the counterfactual {:?}", pair.name))?;
        used.insert(row.0);
        data.extend(parse(row.0, &row.1)?);
    }
    if let Some(extra) = body.iter().find(|row| !used.contains(&row.0)) {
        return Err(format!(
            "{file}: line {}: no pair has the counterfactual {:?}; remove the row, or add the image",
            extra.0,
            extra.1.get(0).unwrap_or_default()
        ));
    }
    Array::new([pairs.len(), classes], data).map_err(|e| format!("{file}: {e}"))
}

/// A path without its extension, with `/` between folders.
fn stem(path: &str) -> String {
    let path = path.replace('\\', "/");
    let path = path.strip_prefix("./").unwrap_or(&path);
    match (path.rfind('.'), path.rfind('/')) {
        (Some(dot), slash) if slash.is_none_or(|s| s < dot) => path[..dot].to_string(),
        _ => path.to_string(),
    }
}
