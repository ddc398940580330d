//! `foil tables`: the paper's tables, corrected variants, other studies, result folders, and faults of files.

mod faults;
mod other_studies;
mod published;
mod runs;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::folders::foil;

/// `foil tables --from PATHS` with more arguments.
fn tables(paths: &[&Path], more: &[&str]) -> Output {
    let mut command = foil(Path::new("."));
    command.arg("tables").arg("--from").args(paths).args(more);
    command.output().unwrap()
}

fn printed(paths: &[&Path], more: &[&str]) -> String {
    let output = tables(paths, more);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "");
    String::from_utf8(output.stdout).unwrap()
}

fn json(paths: &[&Path], more: &[&str]) -> Value {
    let more = [more, &["--json"]].concat();
    serde_json::from_str(&printed(paths, &more)).unwrap()
}

/// Table, row and column to what stands there.
type Cells<T> = BTreeMap<(u64, String, String), T>;

fn cells(json: &Value) -> Cells<Value> {
    let mut found = Cells::new();
    for table in json["tables"].as_array().unwrap() {
        for row in table["rows"].as_array().unwrap() {
            for (column, cell) in row["cells"].as_object().unwrap() {
                let row = row["metric"].as_str().unwrap().to_owned();
                let key = (table["table"].as_u64().unwrap(), row, column.clone());
                found.insert(key, cell.clone());
            }
        }
    }
    found
}

fn texts(json: &Value) -> Cells<String> {
    let text = |v: &Value| v["printed"].as_str().unwrap().to_owned();
    cells(json)
        .iter()
        .map(|(k, v)| (k.clone(), text(v)))
        .collect()
}

/// One cell as printed.
fn cell(json: &Value, table: u64, row: &str, column: &str) -> String {
    texts(json)[&(table, row.to_owned(), column.to_owned())].clone()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
