//! Pairs from folders, and lists of images.

use std::fs;
use std::path::{Path, PathBuf};

use foil::images::{Pairing, list_images, pair_folders};
use tempfile::TempDir;

/// A folder `o` of originals and a folder `c` of counterfactuals with empty files: pairing does not open them.
fn folders(originals: &[&str], counterfactuals: &[&str]) -> TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (folder, names) in [("o", originals), ("c", counterfactuals)] {
        fs::create_dir_all(root.path().join(folder)).expect("a folder");
        names
            .iter()
            .for_each(|name| touch(&root.path().join(folder).join(name)));
    }
    root
}

fn touch(path: &Path) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, b"").expect("written");
}

fn paired(root: &TempDir) -> Pairing {
    pair_folders(&root.path().join("o"), &root.path().join("c"))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn failure(root: &TempDir) -> String {
    let pairing = pair_folders(&root.path().join("o"), &root.path().join("c"));
    pairing.expect_err("these cannot be paired").to_string()
}

/// "name: original (group)" of every pair.
fn summary(root: &TempDir) -> Vec<String> {
    let relative = |path: &PathBuf| {
        path.strip_prefix(root.path().join("o"))
            .expect("inside")
            .display()
            .to_string()
    };
    let pairs = paired(root).pairs;
    pairs
        .iter()
        .map(|pair| {
            format!(
                "{}: {} ({})",
                pair.name,
                relative(&pair.original),
                pair.group
            )
        })
        .collect()
}

#[test]
fn same_relative_paths_pair_whatever_the_extension() {
    let root = folders(
        &["b.png", "x/a.JPG", "lonely.png"],
        &["x/a.webp", "b.png", "x/other.png", "notes.txt"],
    );
    assert_eq!(summary(&root), ["b: b.png (all)", "x/a: x/a.JPG (all)"]);
    let pairing = paired(&root);
    assert_eq!(
        pairing.unpaired_originals,
        [root.path().join("o/lonely.png")]
    );
    assert_eq!(
        pairing.unpaired_counterfactuals,
        [root.path().join("c/x/other.png")]
    );
}

#[test]
fn a_folder_named_like_an_original_holds_a_set() {
    let root = folders(
        &["a.png", "x/b.v2.png"],
        &["a/0.png", "a/1.png", "a/deep/2.png", "x/b.v2/z.png"],
    );
    let expected = [
        "a/0: a.png (all)",
        "a/1: a.png (all)",
        "a/deep/2: a.png (all)",
        "x/b.v2/z: x/b.v2.png (all)",
    ];
    assert_eq!(summary(&root), expected);
}

#[test]
fn change_folders_give_groups_for_originals_in_the_same_folders() {
    let root = folders(
        &["cat_to_dog/1.png", "dog_to_cat/1.png"],
        &["cat_to_dog/1.png", "dog_to_cat/1/a.png"],
    );
    let expected = [
        "cat_to_dog/1: cat_to_dog/1.png (cat->dog)",
        "dog_to_cat/1/a: dog_to_cat/1.png (dog->cat)",
    ];
    assert_eq!(summary(&root), expected);
    let pair = &paired(&root).pairs[0];
    assert_eq!(
        (pair.source.as_deref(), pair.target.as_deref()),
        (Some("cat"), Some("dog"))
    );
}

#[test]
fn change_folders_give_groups_for_flat_originals() {
    let root = folders(
        &["1.png", "2.png"],
        &[
            "cat_to_dog/1.png",
            "ddpm/cat_to_cow/2/x.png",
            "cat_to_dog/2.png",
        ],
    );
    // The folder `ddpm` has no counterpart.
    assert_eq!(
        summary(&root),
        [
            "cat_to_dog/1: 1.png (cat->dog)",
            "cat_to_dog/2: 2.png (cat->dog)"
        ]
    );
    assert_eq!(paired(&root).unpaired_counterfactuals.len(), 1);
}

#[test]
fn change_folders_give_groups_for_originals_by_class() {
    let root = folders(
        &["cat/1.png", "dog/1.png"],
        &["cat_to_dog/1.png", "dog_to_cat/1.png", "cat_to_cow/1/a.png"],
    );
    let expected = [
        "cat_to_cow/1/a: cat/1.png (cat->cow)",
        "cat_to_dog/1: cat/1.png (cat->dog)",
        "dog_to_cat/1: dog/1.png (dog->cat)",
    ];
    assert_eq!(summary(&root), expected);
}

#[test]
fn a_set_folder_with_to_in_its_name_is_no_group() {
    let root = folders(
        &["ticket_to_ride.png"],
        &["ticket_to_ride/1.png", "day_to_night/ticket_to_ride/2.png"],
    );
    let expected = [
        "ticket_to_ride/1: ticket_to_ride.png (all)",
        "day_to_night/ticket_to_ride/2: ticket_to_ride.png (day->night)",
    ];
    assert_eq!(summary(&root), expected);
}

#[test]
fn files_that_differ_in_their_extension_only_are_refused() {
    for root in [
        folders(&["a.png", "a.jpg"], &["a.png"]),
        folders(&["a.png"], &["a/x.png", "a/x.bmp"]),
    ] {
        let message = failure(&root);
        assert!(
            message.contains(".png and ") || message.contains(".png: expected one"),
            "{message}"
        );
        assert!(message.contains("extension"), "{message}");
    }
}

#[test]
fn folders_without_pairs_are_refused_with_examples() {
    let names: Vec<String> = (0..9).map(|i| format!("n{i}.png")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let message = failure(&folders(&names, &["x/y.png"]));
    assert!(
        message.contains("9 (n0.png, n1.png, n2.png, n3.png, n4.png, ...)"),
        "{message}"
    );
    assert!(
        message.contains("1 (x/y.png)") && message.contains("--manifest"),
        "{message}"
    );
}

#[test]
fn empty_missing_and_equal_folders_are_refused() {
    let message = failure(&folders(&["a.png"], &[]));
    assert!(
        message.contains("/c: expected images (png, jpg") && message.contains("no files"),
        "{message}"
    );
    let message = failure(&folders(&["a.gif"], &["a.png"]));
    assert!(
        message.contains("only other files, 1 (") && message.contains("a.gif"),
        "{message}"
    );
    let root = folders(&["a.png"], &["a.png"]);
    let (originals, missing) = (root.path().join("o"), root.path().join("none"));
    let message = pair_folders(&originals, &missing)
        .expect_err("no folder")
        .to_string();
    assert!(
        message.contains("none") && message.contains("No such file"),
        "{message}"
    );
    let again = originals.join("../o/.");
    let message = pair_folders(&originals, &again)
        .expect_err("the same")
        .to_string();
    assert!(message.contains("the same one"), "{message}");
    let message = pair_folders(&originals, &originals.join("a.png"))
        .expect_err("a file")
        .to_string();
    assert!(
        message.contains("a.png") && message.contains("folder"),
        "{message}"
    );
}

#[test]
fn counterfactuals_inside_the_originals_folder_are_no_originals() {
    let root = folders(&["a.png", "cf/a.png"], &["z.png"]);
    let originals = root.path().join("o");
    let pairing = pair_folders(&originals, &originals.join("cf")).expect("a pair");
    assert_eq!(pairing.pairs[0].original, originals.join("a.png"));
    assert_eq!(
        (pairing.pairs.len(), pairing.unpaired_originals.len()),
        (1, 0)
    );
}

#[test]
fn lists_are_sorted_by_bytes_without_hidden_files() {
    let root = folders(
        &[
            "b.png",
            "a/z.TIFF",
            "a-b.bmp",
            ".hidden.png",
            ".git/x.png",
            "Z.webp",
            "t.txt",
        ],
        &[],
    );
    let images = list_images(&root.path().join("o")).expect("images");
    let names: Vec<String> = images
        .iter()
        .map(|path| {
            path.strip_prefix(root.path().join("o"))
                .expect("inside")
                .display()
                .to_string()
        })
        .collect();
    assert_eq!(names, ["Z.webp", "a-b.bmp", "a/z.TIFF", "b.png"]);
}

#[cfg(unix)]
#[test]
fn rings_of_links_end() {
    use std::os::unix::fs::symlink;
    let root = folders(&["a.png", "x/b.png"], &[]);
    let folder = root.path().join("o");
    symlink(&folder, folder.join("x/back")).expect("linked");
    symlink(folder.join("self"), folder.join("self")).expect("linked");
    symlink("nowhere", folder.join("dangling.png")).expect("linked");
    symlink(folder.join("x"), folder.join("y")).expect("linked");
    let count = list_images(&folder).expect("images").len();
    // a, dangling, x/b and y/b.
    assert_eq!(count, 4);
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf_8_pair() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let root = folders(&["a.png"], &["a.png"]);
    for folder in ["o", "c"] {
        for name in [b"caf\xE9.png", b"caf\xE8.png"] {
            touch(&root.path().join(folder).join(OsStr::from_bytes(name)));
        }
    }
    let names: Vec<String> = paired(&root)
        .pairs
        .into_iter()
        .map(|pair| pair.name)
        .collect();
    assert_eq!(names, ["a", "caf\\xE8", "caf\\xE9"]);
}
