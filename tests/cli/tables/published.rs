//! The published study, cell by cell; its CSV is read from the reference data.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Cells, cells, json, printed, read_json, texts};

/// A file of the reference data, which may not be copied; says so if it is absent.
fn reference(file: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FOIL_REFERENCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference"),
        PathBuf::from,
    );
    let path = root.join("diffusion").join(file);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: {} is absent", path.display());
    None
}

fn published() -> Option<PathBuf> {
    reference("published/raw_experimental_results.csv")
}

/// `table_printed.json`.
fn expected() -> Option<Cells<String>> {
    let json: Value = read_json(&reference("table_printed.json")?);
    let mut found = Cells::new();
    for (table, rows) in json.as_object().unwrap() {
        let number = table.strip_prefix("table").unwrap().parse().unwrap();
        for (row, cells) in rows.as_object().unwrap() {
            for (column, text) in cells.as_object().unwrap() {
                let text = text.as_str().unwrap().to_owned();
                found.insert((number, row.clone(), column.clone()), text);
            }
        }
    }
    Some(found)
}

#[test]
fn every_cell_of_tables_2_to_6_is_as_in_the_paper() {
    let (Some(raw), Some(expected)) = (published(), expected()) else {
        return;
    };
    // 133 cells of Table 2, 56 of each other.
    assert_eq!(expected.len(), 133 + 4 * 56);
    assert_eq!(texts(&json(&[&raw], &[])), expected);
}

#[test]
fn every_format_holds_the_cells_of_the_paper_in_its_order_of_columns() {
    let (Some(raw), Some(expected)) = (published(), expected()) else {
        return;
    };
    let columns = [
        "Madry",
        "AlexNet",
        "UnetE",
        "ConvNeXt",
        "SwinTFL",
        "SIMCLR",
        "RandomNet",
    ];
    for number in 2..=6u64 {
        let lines = |format| {
            let table = number.to_string();
            printed(&[&raw], &["--table", &table, "--format", format])
        };
        let [text, markdown, latex, csv] = ["text", "markdown", "latex", "csv"].map(lines);
        let rows: Vec<&String> = expected
            .keys()
            .filter(|(t, _, c)| *t == number && c == "Madry")
            .map(|(_, row, _)| row)
            .collect();
        for row in rows {
            let cells: Vec<&str> = columns
                .iter()
                .map(|c| expected[&(number, row.clone(), c.to_string())].as_str())
                .collect();
            let arrow = |line: &str| {
                ["↑", "↓"].map(|a| line.starts_with(&format!("{row} {a}"))) != [false; 2]
            };
            let line = text.lines().find(|l| arrow(l)).unwrap();
            let found: Vec<&str> = line.split("  ").filter(|c| !c.is_empty()).collect();
            let found: Vec<&str> = found[1..].iter().map(|c| c.trim()).collect();
            assert_eq!(found, cells, "{line}");
            let end = format!(" | {} |", cells.join(" | "));
            let begin = |l: &&str| l.strip_prefix("| ").is_some_and(arrow);
            assert!(markdown.lines().find(begin).unwrap().ends_with(&end));
            let fields = format!(",{row},{}", cells.join(","));
            assert!(csv.lines().any(|l| l.ends_with(&fields)), "{fields}\n{csv}");
            let maths = cells.iter().map(|c| match *c {
                "-" => " & -".to_owned(),
                c => format!(" & ${}$", c.replace('±', "\\pm")),
            });
            let end = format!("{} \\\\", maths.collect::<String>());
            assert!(latex.lines().any(|l| l.ends_with(&end)), "{end}\n{latex}");
        }
    }
}

#[test]
fn unrounded_numbers_are_those_of_the_study_to_1e_12() {
    let (Some(raw), Some(groups), Some(numeric)) = (
        published(),
        reference("table_numeric_groups.json"),
        reference("table_numeric.json"),
    ) else {
        return;
    };
    // f64 sums in another order: a few units in the last place of numbers up to 10.
    let close = |what: &str, got: &Value, expected: &Value| {
        let (got, expected) = (got.as_f64().unwrap(), expected.as_f64().unwrap());
        assert!((got - expected).abs() <= 1e-12, "{what}: {got} {expected}");
    };
    let groups = &read_json(&groups)["groups"]["ideal_cone1_x01"];
    let differences = &read_json(&numeric)["differences"];
    let mut compared = 0;
    for (ddof, std) in [("std_ddof0", "population"), ("std_ddof1", "sample")] {
        for ((table, row, column), got) in cells(&json(&[&raw], &["--std", std])) {
            let expected = match table {
                2 | 3 => &groups[&row][&column],
                _ => &differences[&format!("table{table}")][&row][&column],
            };
            assert_eq!(expected.is_null(), got["mean"].is_null());
            if !expected.is_null() {
                let what = format!("table {table}, {row}, {column}, {std}");
                close(&what, &got["mean"], &expected["mean"]);
                close(&what, &got["std"], &expected[ddof]);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 2 * (121 + 4 * 51));
}

#[test]
fn the_other_conventions_change_as_many_cells_as_the_reference_counted() {
    let Some(raw) = published() else {
        return;
    };
    let base = texts(&json(&[&raw], &[]));
    let changed = |more: &[&str], tables: &[u64], rows: &[&str]| {
        let other = texts(&json(&[&raw], more));
        let counts = |(t, row, _): &(u64, String, String)| {
            tables.contains(t) && (rows.is_empty() || rows.contains(&row.as_str()))
        };
        let differs = |(key, text): &(&_, &String)| counts(key) && *text != &other[*key];
        base.iter().filter(differs).count()
    };
    assert_eq!(changed(&["--std", "population"], &[4], &[]), 30);
    assert_eq!(changed(&["--std", "population"], &[5], &[]), 15);
    assert_eq!(changed(&["--std", "population"], &[6], &[]), 38);
    assert_eq!(changed(&["--std", "population"], &[2, 3], &[]), 0);
    let some = ["TA", "LPIPS", "FID"];
    assert_eq!(changed(&["--std", "sample"], &[2], &some), 12);
    assert_eq!(changed(&["--ideal", "text"], &[2], &some), 12);
    // Without alp → alp and burrito → burrito there are 58 groups, over which only Table 6 is.
    let more = ["--self-pairs", "leave-out"];
    assert_eq!(changed(&more, &[2, 3, 4, 5], &[]), 0);
    assert!(changed(&more, &[6], &[]) > 0);
    let cells = cells(&json(&[&raw], &more));
    assert_eq!(cells[&(6, "TA".into(), "Madry".into())]["groups"], 58);
}
