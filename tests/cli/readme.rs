//! What the README shows and states is what the program and the cards say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::folders::foil;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// The cards of the glyph networks by name.
fn cards() -> BTreeMap<String, toml::Table> {
    let files = std::fs::read_dir(root().join("weights/glyphs")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let card: toml::Table = toml::from_str(&text).unwrap();
            (card["name"].as_str().unwrap().to_owned(), card)
        })
        .collect()
}

/// Cells of the table of networks, one list for each row.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (_, rest) = text.split_once("<!-- networks -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- /networks -->").unwrap();
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    table.lines().skip(2).map(cells).collect()
}

/// Numbers with a point in a text, as written, each with the word before it.
fn numbers(text: &str) -> Vec<(String, String)> {
    let plain = |word: &str| {
        let edge = |c: char| !c.is_ascii_alphanumeric();
        word.trim_matches(edge).to_owned()
    };
    let words: Vec<String> = text.split_whitespace().map(plain).collect();
    let before = std::iter::once(String::new()).chain(words.clone());
    before
        .zip(words.clone())
        .filter(|(_, word)| word.contains('.') && word.parse::<f64>().is_ok())
        .collect()
}

/// True if `written` is `value` rounded to the digits written.
fn rounds(written: &str, value: f64) -> bool {
    let digits = written.split_once('.').map_or(0, |(_, after)| after.len());
    let number: f64 = written.parse().unwrap();
    (number - value).abs() <= 0.5 * 0.1f64.powi(digits as i32) + 1e-9
}

/// What is wrong with a row, if anything.
fn fault(row: &[String], card: &toml::Table) -> Option<String> {
    let [name, _, architecture, found, time] = row else {
        return Some(format!("expected 5 cells: {row:?}"));
    };
    if card["architecture"].as_str() != Some(architecture) {
        return Some(format!("{name}: architecture {architecture}"));
    }
    let training = &card["training"];
    let seconds = training["cpu_seconds"].as_float().unwrap();
    match time.strip_suffix(" s") {
        Some(written) if rounds(written, seconds) => {}
        _ => return Some(format!("{name}: {time}, the card says {seconds}")),
    }
    let results = training["results"].as_table().unwrap();
    let mut measured = 0;
    for (before, written) in numbers(found) {
        // A setting, not a result: the radius of an attack, a threshold.
        if before.ends_with("L2") || before == "above" {
            continue;
        }
        let mut values = results.values().filter_map(toml::Value::as_float);
        if !values.any(|value| rounds(&written, value)) {
            return Some(format!("{name}: {written} is no result of the card"));
        }
        measured += 1;
    }
    (measured == 0).then(|| format!("{name}: no result"))
}

#[test]
fn the_table_of_networks_says_what_the_cards_say() {
    let (cards, rows) = (cards(), rows(&readme()));
    let name = |row: &[String]| row[0].trim_matches('`').to_owned();
    let mut named: Vec<String> = rows.iter().map(|row| name(row)).collect();
    named.sort();
    assert_eq!(named, cards.keys().cloned().collect::<Vec<_>>());
    for row in &rows {
        assert_eq!(fault(row, &cards[&name(row)]), None);
    }
    // The check sees what it is for: another digit, another time, another architecture.
    let row = rows
        .iter()
        .find(|row| name(row) == "glyph_resnet18")
        .unwrap();
    let card = &cards["glyph_resnet18"];
    for (cell, from, to) in [
        (3, "0.9", "0.8"),
        (4, " s", "0 s"),
        (2, "resnet18", "resnet50"),
    ] {
        let mut wrong = row.clone();
        wrong[cell] = row[cell].replacen(from, to, 1);
        assert_ne!(&wrong, row);
        assert!(fault(&wrong, card).is_some(), "{wrong:?}");
    }
}

#[test]
fn the_picture_of_all_glyphs_is_what_the_program_draws() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.png");
    let output = foil(folder.path())
        .args(["glyphs", "sheet", "--cell", "20", "--out"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success());
    let [drawn, shown] = [path, root().join("docs/glyphs.png")].map(|p| image::open(p).unwrap());
    assert!(
        drawn == shown,
        "draw docs/glyphs.png again: foil glyphs sheet --cell 20"
    );
}

#[test]
fn the_sizes_of_images_are_those_the_program_takes() {
    let folder = tempfile::tempdir().unwrap();
    assert!(readme().contains("`--size`: 8 to 512"));
    for (size, code) in [("7", 2), ("8", 0), ("512", 0), ("513", 2)] {
        let output = foil(folder.path())
            .args([
                "glyphs",
                "render",
                "--quiet",
                "--spurious",
                "0",
                "--n",
                "1",
                "--size",
                size,
                "--out",
            ])
            .arg(folder.path().join(size))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{size}");
    }
}
