//! Faults of files and of the command line: what is said, and the exit code.

use super::other_studies::{HEADER, IDEAL, file, small};
use super::{cell, json, tables};
use crate::folders::{fails, foil};

/// The study as CSV with one change, and what must be said about it.
fn refused(text: &str, code: i32, more: &[&str], said: &[&str]) {
    let (_folder, path) = file(text);
    fails(&tables(&[&path], &[&IDEAL, more].concat()), code, said);
}

#[test]
fn a_wrong_cell_is_named_by_line_and_column() {
    let with = |from: &str, to: &str| small().replacen(from, to, 1);
    let cases = [
        (
            with("Net B,true", "Net B,maybe"),
            [
                "line 3, column 2 (cone_projection)",
                "true or false",
                "\"maybe\"",
            ],
        ),
        (
            with("AClassifier,true,true,1", "AClassifier,true,,1"),
            [
                "line 2, column 3 (xzero_prediction)",
                "true or false",
                "nothing",
            ],
        ),
        (
            with("c4,0.9", "c4,high"),
            [
                "line 4, column 8 (target_class_validity)",
                "a finite number",
                "\"high\"",
            ],
        ),
        (
            with("c4,0.9", "c4,NaN"),
            [
                "line 4, column 8 (target_class_validity)",
                "a finite number",
                "\"NaN\"",
            ],
        ),
        (
            with("c4,0.9", "c4,1.9"),
            [
                "line 4, column 8 (target_class_validity)",
                "a share from 0 to 1",
                "\"1.9\"",
            ],
        ),
        (
            with("c2,0.5,0,2e6", "c2,0.5,0,-2e6"),
            [
                "line 2, column 10 (lp_norm_1)",
                "a distance from 0 up",
                "\"-2e6\"",
            ],
        ),
        (
            with("0.3,1.5,1,", "0.3,1.5,-0.5,"),
            ["line 2, column 15 (", "a share from 0 to 1", "\"-0.5\""],
        ),
        (
            with("true,1,c1", "true,cat,c1"),
            [
                "line 2, column 4 (source_class)",
                "number of a class",
                "\"cat\"",
            ],
        ),
        (
            with("\nNet B,true", "\n\n,true"),
            [
                "line 4, column 1 (classifier)",
                "name of a classifier",
                "nothing",
            ],
        ),
    ];
    for (text, said) in &cases {
        refused(text, 1, &[], said);
    }
}

#[test]
fn a_malformed_file_is_refused_with_the_place() {
    let short = small().replacen(",0.5,0.5\nNet", ",0.5\nNet", 1);
    refused(
        &short,
        1,
        &[],
        &[
            "line 2, column 18 (oracle_tcv_Judge)",
            "18 values",
            "found 17",
        ],
    );
    let long = small().replacen("\nNet B", ",7\nNet B", 1);
    refused(
        &long,
        1,
        &[],
        &["line 2, column 19", "18 values", "found 19"],
    );
    let open = small().replacen("\nNet B", "\n\"Net B", 1);
    refused(&open, 1, &[], &["line 3", "quotes"]);
    let twice = small().replacen("oracle_A", "lpips", 1);
    refused(&twice, 1, &[], &["line 1, column 15 (lpips)", "column 13"]);
    let again = format!("{}{}\n", small(), small().lines().nth(2).unwrap());
    refused(&again, 1, &[], &["line 16", "line 3", "c1 → c2 of Net B"]);
    refused("", 1, &[], &["raw.csv", "empty file"]);
    refused("\n \n", 1, &[], &["raw.csv", "empty file"]);
    refused(HEADER, 1, &[], &["a header without rows"]);
    let (_folder, path) = file("");
    std::fs::write(&path, [small().as_bytes(), b"\xff\xfe"].concat()).unwrap();
    fails(&tables(&[&path], &IDEAL), 1, &["line 16", "UTF-8"]);
}

#[test]
fn missing_columns_are_listed_unless_no_table_needs_them() {
    let text = small();
    for column in [
        "classifier",
        "xzero_prediction",
        "target_class",
        "fid",
        "oracle_tcv_A",
    ] {
        let header = HEADER
            .split(',')
            .map(|c| if c == column { "other" } else { c });
        let text = text.replacen(HEADER, &header.collect::<Vec<_>>().join(","), 1);
        refused(
            &text,
            1,
            &[],
            &["line 1", &format!("lacks {column}:"), "lp_norm_1"],
        );
    }
    let renamed = text.replacen("lp_norm_1,", "x,", 1).replacen("fid", "y", 1);
    refused(&renamed, 1, &[], &["lacks lp_norm_1, fid:"]);
    let semicolons = text.replace(',', ";");
    refused(&semicolons, 1, &[], &["one column", "separated by commas"]);
    let (_folder, path) = file(&text.replacen("lp_norm_1,", "x,", 1));
    let more = [&IDEAL[..], &["--table", "3..6"]].concat();
    assert_eq!(cell(&json(&[&path], &more), 3, "TA", "Net B"), "0.25 ± 0.0");
}

#[test]
fn wrong_paths_and_wrong_usage_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.csv");
    fails(&tables(&[&none], &[]), 1, &["none.csv", "check the path"]);
    fails(
        &tables(&[folder.path()], &[]),
        1,
        &["scores.json", "foil score"],
    );
    refused(
        &small(),
        2,
        &["--table", "7"],
        &["--table", "2, 3, 4, 5, 6", "found 7"],
    );
    refused(&small(), 2, &["--table", "x"], &["2,4-6"]);
    let (_folder, path) = file(&small());
    fails(
        &tables(&[&path], &["--ideal", "some"]),
        2,
        &["published, text", "\"some\""],
    );
    let said = ["cheetah → leopard", "c1 → c2", "--ideal"];
    fails(&tables(&[&path], &[]), 1, &said);
    let both = tables(&[&path, folder.path()], &[]);
    fails(&both, 2, &["CSV files or result folders, found both"]);
    let output = foil(folder.path()).arg("tables").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn scores_of_two_protocols_do_not_share_a_table() {
    let add = |text: String, protocol: &str| {
        let text = text.replacen('\n', ",protocol\n", 1);
        let (header, rows) = text.split_once('\n').unwrap();
        let rows: String = rows.lines().map(|r| format!("{r},{protocol}\n")).collect();
        format!("{header}\n{rows}")
    };
    let exact = add(small(), "exact");
    let last = exact.rfind("exact").unwrap();
    let mixed = format!("{}published\n", &exact[..last]);
    let said = [
        "(protocol)",
        "exact, as in the rows before",
        "\"published\"",
    ];
    refused(&mixed, 1, &[], &said);
    let said = ["line 2", "exact or published", "\"own\""];
    refused(&add(small(), "own"), 1, &[], &said);
    let ((_a, plain), (_b, exact)) = (file(&small()), file(&exact));
    fails(
        &tables(&[&plain, &exact], &IDEAL),
        1,
        &["protocols published and exact"],
    );
}
