//! CSVs of the study's layout with other classifiers, oracles, pairs and conventions.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::{cell, json, printed, tables, texts};
use crate::folders::{fails, foil};

pub(super) const HEADER: &str = "classifier,cone_projection,xzero_prediction,source_class,source_class_name,target_class,\
    target_class_name,target_class_validity,original_class_validity,lp_norm_1,lp_norm_1_5,lp_norm_2,lpips,fid,\
    oracle_A,oracle_tcv_A,oracle_Judge,oracle_tcv_Judge";

/// Cone, x0, source, target and the target accuracy of `AClassifier`.
const GROUPS: [(bool, bool, u32, u32, &str); 7] = [
    (true, true, 1, 2, "0.5"),
    (true, true, 3, 4, "0.9"),
    (false, true, 1, 2, "0.4"),
    (false, true, 3, 4, "0.6"),
    (true, true, 1, 4, "0.2"),
    (true, true, 3, 2, "0.4"),
    (true, true, 1, 1, "0.9"),
];

pub(super) const IDEAL: [&str; 2] = ["--ideal", "1:2,3:4"];

pub(super) fn small() -> String {
    let mut text = format!("{HEADER}\n");
    for (cone, x0, source, target, accuracy) in GROUPS {
        for (classifier, accuracy) in [("AClassifier", accuracy), ("Net B", "0.25")] {
            text += &format!(
                "{classifier},{cone},{x0},{source},c{source},{target},c{target},{accuracy},0,2e6,3000,500,0.3,1.5,1,0.5,\
                 0.5,{accuracy}\n"
            );
        }
    }
    text
}

pub(super) fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raw.csv");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn small_json(text: &str, more: &[&str]) -> Value {
    let (_folder, path) = file(text);
    json(&[&path], &[&IDEAL, more].concat())
}

#[test]
fn other_classifiers_oracles_and_pairs_keep_the_names_of_the_data() {
    let json = small_json(&small(), &[]);
    assert_eq!(cell(&json, 2, "TA", "AClassifier"), "0.7 ± 0.2");
    assert_eq!(cell(&json, 2, "TA", "Net B"), "0.25 ± 0.0");
    assert_eq!(cell(&json, 2, "D1 (m)", "Net B"), "2.0 ± 0.0");
    assert_eq!(cell(&json, 2, "OTA Judge", "AClassifier"), "0.7 ± 0.2");
    // The oracle of its own name does not judge a classifier.
    assert_eq!(cell(&json, 2, "OS A", "AClassifier"), "-");
    assert_eq!(cell(&json, 2, "OS A", "Net B"), "1.0 ± 0.0");
}

#[test]
fn changes_are_differences_of_sample_stds_as_published_and_stds_of_changes_by_the_exact_protocol() {
    let published = small_json(&small(), &[]);
    let exact = small_json(&small(), &["--protocol", "exact"]);
    let ta = |json: &Value, table| cell(json, table, "TA", "AClassifier");
    // 0.4, 0.6 against 0.5, 0.9.
    assert_eq!(ta(&published, 4), "-0.20 ± -0.14");
    assert_eq!(ta(&exact, 4), "-0.20 ± 0.14");
    // 0.2, 0.4, 0.9 against 0.5, 0.9; by source without 1 → 1: 0.2 against 0.5 and 0.4 against 0.9.
    assert_eq!(ta(&published, 6), "-0.20 ± 0.08");
    assert_eq!(ta(&exact, 6), "-0.40 ± 0.14");
    assert_eq!(ta(&exact, 2), "0.70 ± 0.28");
    let mixed = small_json(&small(), &["--spread", "paired", "--std", "population"]);
    assert_eq!(ta(&mixed, 4), "-0.20 ± 0.10");
    let more = ["--self-pairs", "leave-out", "--digits", "3"];
    assert_eq!(ta(&small_json(&small(), &more), 6), "-0.400 ± -0.141");
}

#[test]
fn every_table_states_its_std_below() {
    let (_folder, path) = file(&small());
    let text = printed(&[&path], &IDEAL);
    let said = |number: &str| {
        let at = text.find(&format!("Table {number}: ")).unwrap();
        let block = text[at..].split("\n\n").next().unwrap().to_owned();
        block.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for number in ["2", "3"] {
        let said = said(number);
        assert!(
            said.contains("± is the population std (divisor n, ddof 0) over 2"),
            "{said}"
        );
        assert!(said.contains("as published"), "{said}");
    }
    for number in ["4", "6"] {
        let said = said(number);
        assert!(
            said.contains("differences of sample stds (divisor n − 1, ddof 1)"),
            "{said}"
        );
        assert!(said.contains("as published"), "{said}");
    }
    assert!(said("6").contains("c1 → c1"));
    let exact = printed(&[&path], &[&IDEAL[..], &["--protocol", "exact"]].concat());
    assert!(exact.contains("± is the sample std (divisor n − 1, ddof 1)"));
    let csv = printed(&[&path], &[&IDEAL[..], &["--format", "csv"]].concat());
    assert!(
        csv.starts_with("table,std,metric,AClassifier,Net B\n2,population,TA,"),
        "{csv}"
    );
    assert!(csv.contains("\n4,difference of sample stds,TA,"));
}

#[test]
fn the_order_of_rows_and_columns_quotes_and_a_byte_order_mark_change_nothing() {
    let text = small();
    let turned = text.lines().enumerate().map(|(i, line)| {
        let mut fields: Vec<String> = line.split(',').map(|f| format!("\"{f}\"")).collect();
        fields.reverse();
        fields.push(format!("\"{}\"", if i == 0 { "more" } else { "ignored" }));
        fields.join(",")
    });
    let mut lines: Vec<String> = turned.collect();
    lines[1..].reverse();
    let turned = format!("\u{feff}{}\r\n\r\n", lines.join("\r\n")).replace("\"true\"", "True");
    let cells = texts(&small_json(&turned, &[]));
    assert_eq!(cells, texts(&small_json(&text, &[])));
}

#[test]
fn absent_groups_leave_the_others_and_are_named() {
    let text = small();
    let without = |what: &str| {
        let kept: Vec<&str> = text.lines().filter(|l| !l.starts_with(what)).collect();
        small_json(&kept.join("\n"), &[])
    };
    let json = without("AClassifier,true,true,3,c3,4,");
    assert_eq!(cell(&json, 2, "TA", "AClassifier"), "0.5 ± 0.0");
    assert_eq!(cell(&json, 4, "TA", "AClassifier"), "0.00 ± -");
    assert_eq!(cell(&json, 4, "TA", "Net B"), "0.00 ± 0.00");
    let notes = json["tables"][0]["notes"].to_string();
    assert!(
        notes.contains("AClassifier has 1 of 2 ideal groups"),
        "{notes}"
    );
    assert!(notes.contains("not c3 → c4"), "{notes}");
    // No row of Table 5's setup in this study at all.
    assert_eq!(cell(&json, 5, "TA", "AClassifier"), "-");
    let json = without("AClassifier,false");
    assert_eq!(cell(&json, 4, "TA", "AClassifier"), "-");
    let json = without("AClassifier");
    assert!(texts(&json).keys().all(|(_, _, column)| column == "Net B"));
}

#[test]
fn settings_rename_columns_classifiers_oracles_and_give_the_ideal_pairs() {
    let text = small().replacen("cone_projection", "cone", 1);
    let (folder, path) = file(&text);
    let settings = folder.path().join("own.toml");
    let own = r#"
        [columns]
        classifier = "classifier"
        cone_projection = "cone"
        xzero_prediction = "xzero_prediction"
        source = "source_class"
        source_name = "source_class_name"
        target = "target_class"
        target_name = "target_class_name"
        [[classifier]]
        name = "B"
        data = "Net B"
        [[oracle]]
        name = "B"
        data = "Judge"
        [ideal.mine]
        pairs = [[1, 2], ["c3", "c4"]]
    "#;
    std::fs::write(&settings, own).unwrap();
    let json = json(&[&path], &["--settings", settings.to_str().unwrap()]);
    assert_eq!(cell(&json, 2, "TA", "AClassifier"), "0.7 ± 0.2");
    assert_eq!(cell(&json, 3, "OTA B", "B"), "-");
    let columns: Vec<&String> = json["tables"][0]["rows"][0]["cells"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(columns, ["B", "AClassifier"]);
}

#[test]
fn the_settings_that_ship_are_printed_and_can_be_given_back() {
    let output = foil(Path::new("."))
        .args(["tables", "--print-settings"])
        .output();
    let shipped = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(shipped.contains("MadryClassifier"));
    let (folder, path) = file(&small());
    let settings = folder.path().join("same.toml");
    std::fs::write(&settings, shipped).unwrap();
    let more = [&IDEAL[..], &["--settings", settings.to_str().unwrap()]].concat();
    assert_eq!(json(&[&path], &more), json(&[&path], &IDEAL));
}

/// The small study with a column `protocol`.
fn computed_by(protocol: &str) -> String {
    let with = |(i, line): (usize, &str)| match i {
        0 => format!("{line},protocol\n"),
        _ => format!("{line},{protocol}\n"),
    };
    small().lines().enumerate().map(with).collect()
}

#[test]
fn a_study_may_say_that_its_scores_are_of_the_exact_protocol() {
    let exact = small_json(&computed_by("exact"), &[]);
    assert_eq!(cell(&exact, 2, "TA", "AClassifier"), "0.70 ± 0.28");
    assert_eq!(cell(&exact, 4, "TA", "AClassifier"), "-0.20 ± 0.14");
    // Mean norms have no units.
    assert_eq!(cell(&exact, 2, "D2", "Net B"), "500.00 ± 0.00");
    let published = small_json(&computed_by("published"), &[]);
    assert_eq!(published["tables"], small_json(&small(), &[])["tables"]);
}

#[test]
fn a_folder_with_a_raw_csv_is_that_file() {
    let (folder, path) = file(&computed_by("exact"));
    let of_file = json(&[&path], &IDEAL);
    assert_eq!(json(&[folder.path()], &IDEAL), of_file);
    // The folder of a study says how it is read.
    let own = folder.path().join("tables.toml");
    let text = "[[classifier]]\nname = \"first\"\ndata = \"AClassifier\"\n[ideal.published]\npairs = [[1, 2], [3, 4]]\n";
    std::fs::write(&own, text).unwrap();
    let given = json(&[&path], &["--settings", own.to_str().unwrap()]);
    let found = json(&[folder.path()], &[]);
    assert_eq!(found["tables"], given["tables"]);
    assert_eq!(cell(&found, 2, "TA", "first"), "0.70 ± 0.28");
    let (other, _) = file(&computed_by("exact"));
    std::fs::write(other.path().join("tables.toml"), "").unwrap();
    let differ = tables(&[folder.path(), other.path()], &[]);
    fails(&differ, 2, &["tables.toml", "differ", "--settings"]);
}
