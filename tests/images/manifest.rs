//! Pairs from manifests.

use std::fs;

use foil::images::{Pairing, read_manifest};
use tempfile::TempDir;

/// A folder with files `a.png` to `d.png` and `x/e.jpg`, and a manifest of this text.
fn manifest(text: impl AsRef<[u8]>) -> TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(root.path().join("x")).expect("a folder");
    for name in ["a.png", "b.png", "c.png", "c.jpg", "d.png", "x/e.jpg"] {
        fs::write(root.path().join(name), b"").expect("written");
    }
    fs::write(root.path().join("m"), text).expect("written");
    root
}

fn pairs(text: impl AsRef<[u8]>) -> (TempDir, Pairing) {
    let root = manifest(text);
    let pairing = read_manifest(&root.path().join("m")).unwrap_or_else(|error| panic!("{error}"));
    (root, pairing)
}

fn names(text: &str) -> Vec<String> {
    pairs(text)
        .1
        .pairs
        .iter()
        .map(|pair| format!("{} ({})", pair.name, pair.group))
        .collect()
}

#[track_caller]
fn fails(text: impl AsRef<[u8]>, words: &[&str]) {
    let root = manifest(text);
    let path = root.path().join("m");
    let message = read_manifest(&path)
        .expect_err("the manifest is wrong")
        .to_string();
    for word in
        words
            .iter()
            .copied()
            .chain([path.to_str().expect("a plain path"), "expected", "found"])
    {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
}

#[test]
fn csv_gives_pairs_with_groups() {
    let text = "\u{FEFF}original,counterfactual,source,target,group,method\r\n\
                a.png, b.png ,cat,dog,,ddpm\r\n\
                a.png,./x/e.jpg,cat,,mine,\r\n\
                \r\n\
                d.png,\"c.png\",,,,\r\n";
    let (root, pairing) = pairs(text);
    assert_eq!(names(text), ["c (all)", "b (cat->dog)", "x/e (mine)"]);
    let pair = &pairing.pairs[1];
    assert_eq!(pair.original, root.path().join("a.png"));
    assert_eq!(pair.counterfactual, root.path().join("b.png"));
    assert_eq!(pair.method.as_deref(), Some("ddpm"));
    assert_eq!(pairing.pairs[2].target, None);
}

#[test]
fn jsonl_gives_pairs_with_groups() {
    let text = "{\"original\": \"a.png\", \"counterfactual\": \"b.png\", \"source\": 3, \"target\": 8}\n\n\
                {\"counterfactual\": \"x/e.jpg\", \"original\": \"a.png\", \"method\": null}\n";
    assert_eq!(names(text), ["b (3->8)", "x/e (all)"]);
}

#[test]
fn absolute_paths_are_taken_as_they_are() {
    let other = manifest("");
    let (a, b) = (other.path().join("a.png"), other.path().join("b.png"));
    let (_, pairing) = pairs(format!(
        "original,counterfactual\n{},{}\n",
        a.display(),
        b.display()
    ));
    assert_eq!(
        (&pairing.pairs[0].original, &pairing.pairs[0].counterfactual),
        (&a, &b)
    );
}

#[test]
fn names_of_pairs_are_unique() {
    let text = "original,counterfactual\na.png,c.png\na.png,c.jpg\na.png,b.png\nd.png,b.png\n";
    let (_, pairing) = pairs(text);
    let mut names: Vec<&str> = pairing
        .pairs
        .iter()
        .map(|pair| pair.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4);
    assert!(
        names.contains(&"c.jpg") && names.contains(&"c.png"),
        "{names:?}"
    );
}

#[test]
fn unknown_missing_and_repeated_columns_are_refused() {
    fails(
        "original,counterfactual,taget\na.png,b.png,1\n",
        &["line 1", "\"taget\"", "source, target, group, method"],
    );
    fails(
        "{\"original\": \"a.png\", \"cf\": \"b.png\"}",
        &["line 1", "\"cf\"", "counterfactual"],
    );
    fails(
        "original,target\na.png,b.png\n",
        &["columns original and counterfactual", "original,target"],
    );
    fails(
        "original,counterfactual,original\na.png,b.png,c.png\n",
        &["line 1", "2 columns \"original\""],
    );
    fails(
        "{\"original\": \"a.png\", \"original\": \"b.png\"}",
        &["line 1, column original", "twice"],
    );
}

#[test]
fn wrong_rows_are_refused_with_their_line() {
    fails(
        "original,counterfactual\na.png,b.png\na.png\n",
        &["line 3", "2 values", "found 1"],
    );
    fails(
        "original,counterfactual\na.png,\n",
        &["line 2, column counterfactual", "nothing"],
    );
    fails(
        "{\"original\": \"a.png\"}\n",
        &["line 1, column counterfactual"],
    );
    fails(
        "{\"original\": \"a.png\", \"counterfactual\": \"b.png\"}\n{\"original\": \n",
        &["line 2", "JSON"],
    );
    fails("[{\"original\": \"a.png\"}]", &["line 1", "a JSON object"]);
    fails(
        "{\"original\": \"a.png\", \"counterfactual\": [1]}",
        &["line 1, column counterfactual", "[1]"],
    );
    fails(
        "original,counterfactual\na.png,b.png\na.png,./b.png\n",
        &["line 3", "as in line 2"],
    );
    fails(
        b"original,counterfactual\na.png,caf\xE9.png\n",
        &["line 2", "UTF-8", "E9"],
    );
    fails(
        "original,counterfactual\n",
        &["at least one pair", "only a header"],
    );
    fails(" \n", &["at least one pair", "an empty file"]);
}

#[test]
fn missing_files_are_named() {
    fails(
        "original,counterfactual\na.png,b.png\na.png,no.png\n",
        &["line 3, column counterfactual", "no.png (No such"],
    );
    let rows: String = (0..8).map(|i| format!("o{i}.png,b.png\n")).collect();
    let words = [
        "line 2, column original",
        "8 files missing",
        "o0.png",
        "o4.png",
    ];
    fails(format!("original,counterfactual\n{rows}"), &words);
    let message = read_manifest("no/such.csv".as_ref())
        .expect_err("no file")
        .to_string();
    assert!(
        message.contains("no/such.csv") && message.contains("No such file"),
        "{message}"
    );
}
