//! `foil glyphs`: what it writes, and what it says to bad input.

use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use crate::folders::{fails, foil};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fonts")
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// `foil glyphs render --out FOLDER/NAME` with more arguments.
fn render(folder: &TempDir, name: &str, more: &[&str]) -> Output {
    foil(folder.path())
        .args(["glyphs", "render", "--quiet", "--out"])
        .arg(folder.path().join(name))
        .args(more)
        .output()
        .unwrap()
}

fn succeeds(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.is_empty(), "quiet means quiet: {stderr}");
}

/// A folder with copies of the named fixtures.
fn fonts(folder: &TempDir, names: &[&str]) -> PathBuf {
    let fonts = folder.path().join("fonts");
    std::fs::create_dir(&fonts).unwrap();
    for name in names {
        std::fs::copy(fixtures().join(name), fonts.join(name)).unwrap();
    }
    fonts
}

fn with_fonts(folder: &TempDir, fonts: &Path, more: &[&str]) -> Output {
    let mut all = vec!["--spurious", "0", "--fonts", fonts.to_str().unwrap()];
    all.extend(more);
    render(folder, "out", &all)
}

#[test]
fn renders_images_and_a_table_of_attributes() {
    let folder = folder();
    let output = render(&folder, "out", &["--n", "25", "--json", "--seed", "3"]);
    succeeds(&output);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["images"], 25);
    assert_eq!(printed["seed"], 3);
    assert_eq!(printed["typefaces"], "embedded");
    assert_eq!(printed["splits"]["train"], 15);
    for label in ["label_0", "label_1"] {
        assert_eq!(
            printed["spurious_fonts"][label].as_array().unwrap().len(),
            5
        );
    }
    let out = folder.path().join("out");
    let written = std::fs::read(out.join("dataset.json")).unwrap();
    assert_eq!(written, output.stdout);

    let mut table = csv::Reader::from_path(out.join("attributes.csv")).unwrap();
    let header = "index,file,split,character,character_text,font,font_name,inverse,scale,x,y,rotation,parity,label";
    assert_eq!(
        table
            .headers()
            .unwrap()
            .iter()
            .collect::<Vec<_>>()
            .join(","),
        header
    );
    let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 25);
    for row in &rows {
        let image = image::open(out.join(&row[1])).unwrap();
        assert_eq!(image.color(), image::ColorType::Rgb8);
        assert_eq!((image.width(), image.height()), (32, 32));
        let image = image.to_rgb8();
        assert!(image.pixels().all(|p| p[0] == p[1] && p[1] == p[2]));
        let light = image.pixels().filter(|p| p[0] > 127).count();
        assert_eq!(light > 512, &row[7] == "1", "{row:?}");
        let character: usize = row[3].parse().unwrap();
        assert_eq!(foil::glyphs::CHARACTERS[character].to_string(), row[4]);
        assert_eq!((character % 2).to_string(), row[12]);
    }
}

#[test]
fn images_are_the_same_for_any_number_of_threads_and_images() {
    let folder = folder();
    let common = ["--size", "64", "--spurious", "0", "--seed", "8"];
    for (name, more) in [
        ("one", ["--n", "6", "--threads", "1"]),
        ("two", ["--n", "9", "--threads", "2"]),
    ] {
        succeeds(&render(&folder, name, &[&common[..], &more[..]].concat()));
    }
    for index in 0..6 {
        let [one, two] = ["one", "two"].map(|name| {
            let path = folder
                .path()
                .join(name)
                .join(format!("images/{index:06}.png"));
            std::fs::read(path).unwrap()
        });
        assert_eq!(one, two);
    }
}

#[test]
fn the_published_protocol_has_no_test_set() {
    let folder = folder();
    let more = [
        "--n",
        "10",
        "--json",
        "--protocol",
        "published",
        "--spurious",
        "0",
    ];
    let output = render(&folder, "out", &more);
    succeeds(&output);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["protocol"], "published");
    assert_eq!(printed["model"]["characters"], 47);
    assert_eq!(printed["splits"]["train"], 8);
    assert_eq!(printed["splits"]["test"], 0);
}

#[test]
fn refuses_a_folder_that_holds_something_unless_forced() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    std::fs::write(folder.path().join("out/mine.txt"), "keep").unwrap();
    let few = ["--n", "2", "--spurious", "0"];
    // As in `foil demo`, the command line is at fault.
    fails(&render(&folder, "out", &few), 2, &["out", "--force"]);
    assert!(!folder.path().join("out/images").exists());
    succeeds(&render(&folder, "out", &[&few[..], &["--force"]].concat()));
    assert!(folder.path().join("out/mine.txt").exists());
    std::fs::write(folder.path().join("file"), "").unwrap();
    fails(&render(&folder, "file", &few), 1, &["file", "permissions"]);
}

#[test]
fn files_of_others_are_never_replaced() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("mypics/images")).unwrap();
    std::fs::write(at("mypics/images/123456.png"), "mine").unwrap();
    let few = ["--n", "2", "--size", "16", "--spurious", "0", "--force"];
    succeeds(&render(&folder, "mypics", &few));
    assert_eq!(
        std::fs::read(at("mypics/images/123456.png")).unwrap(),
        b"mine"
    );
    std::fs::create_dir(at("tables")).unwrap();
    std::fs::write(at("tables/attributes.csv"), "mine").unwrap();
    let refused = render(&folder, "tables", &few);
    fails(
        &refused,
        1,
        &["attributes.csv", "not made by", "move it away"],
    );
    assert_eq!(std::fs::read(at("tables/attributes.csv")).unwrap(), b"mine");
    assert!(!at("tables/images").exists());
}

#[cfg(unix)]
#[test]
fn a_link_to_another_folder_is_not_followed() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let few = ["--n", "2", "--size", "16", "--spurious", "0", "--force"];
    succeeds(&render(&folder, "out", &few));
    std::fs::rename(at("out/images"), at("precious")).unwrap();
    std::os::unix::fs::symlink(at("precious"), at("out/images")).unwrap();
    fails(&render(&folder, "out", &few), 1, &["out/images", "link"]);
    assert!(at("precious/000001.png").exists() && at("out/attributes.csv").exists());
}

/// A run that breaks off leaves no table that belongs to other images.
#[test]
fn an_interrupted_replacement_leaves_a_folder_that_nobody_takes_for_finished() {
    let folder = folder();
    let common = ["--n", "8", "--size", "16", "--spurious", "0"];
    succeeds(&render(&folder, "out", &common));
    let out = folder.path().join("out");
    // A folder in an image's place stops the second run.
    std::fs::remove_file(out.join("images/000003.png")).unwrap();
    std::fs::create_dir(out.join("images/000003.png")).unwrap();
    let again = [&common[..], &["--seed", "1", "--force"]].concat();
    fails(&render(&folder, "out", &again), 1, &["000003.png"]);
    assert!(!out.join("attributes.csv").exists() && !out.join("dataset.json").exists());
    let train = foil(folder.path())
        .args(["train", "oracle", "--data"])
        .arg(&out)
        .args(["--out", "net.safetensors"])
        .output()
        .unwrap();
    fails(&train, 1, &["attributes.csv", "finished"]);
    std::fs::remove_dir(out.join("images/000003.png")).unwrap();
    succeeds(&render(&folder, "out", &again));
    assert!(out.join("attributes.csv").exists());
}

#[test]
fn refuses_settings_that_make_no_sense() {
    let folder = folder();
    for (option, value) in [
        ("--n", "0"),
        ("--size", "7"),
        ("--size", "1000"),
        ("--spurious", "7"),
        ("--spurious", "50"),
        ("--correlation", "1.5"),
        ("--label-noise", "nan"),
        ("--pixel-noise", "2"),
        ("--scale", "0"),
        ("--translation", "3"),
        ("--split", "50,20,20"),
        ("--split", "50"),
        ("--protocol", "other"),
    ] {
        let output = render(&folder, "out", &[option, value]);
        fails(&output, 2, &[option]);
        assert!(!folder.path().join("out").exists());
    }
}

#[test]
fn draws_with_the_typefaces_of_a_folder() {
    let folder = folder();
    let fonts = fonts(&folder, &["blocks.ttf", "diamonds.otf"]);
    std::fs::write(fonts.join("notes.txt"), "not a typeface").unwrap();
    let output = with_fonts(&folder, &fonts, &["--n", "20", "--json"]);
    succeeds(&output);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["fonts"], 2);
    let table = std::fs::read_to_string(folder.path().join("out/attributes.csv")).unwrap();
    assert!(table.contains("Foil Blocks") && table.contains("Foil Diamonds"));
    // Which they were, wherever they lie.
    assert_eq!(printed["typefaces"]["folder"], fonts.to_str().unwrap());
    let sum = printed["typefaces"]["sha256"].clone();
    assert_eq!(sum.as_str().unwrap().len(), 64);
    let moved = folder.path().join("elsewhere");
    std::fs::rename(&fonts, &moved).unwrap();
    let again = with_fonts(&folder, &moved, &["--n", "3", "--json", "--force"]);
    succeeds(&again);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["typefaces"]["sha256"], sum);
    assert_eq!(again["typefaces"]["folder"], moved.to_str().unwrap());
}

#[test]
fn says_which_folder_of_typefaces_is_missing_or_empty() {
    let folder = folder();
    let missing = folder.path().join("nowhere");
    fails(
        &with_fonts(&folder, &missing, &[]),
        1,
        &["nowhere", "typefaces"],
    );
    let fonts = fonts(&folder, &["blocks.ttf"]);
    let few = with_fonts(&folder, &fonts, &[]);
    fails(&few, 1, &["fonts", "at least 2 typefaces", "found 1"]);
}

#[test]
fn says_which_typeface_is_damaged() {
    let folder = folder();
    let fonts = fonts(&folder, &["blocks.ttf", "diamonds.otf"]);
    for content in [&b""[..], b"no font at all"] {
        std::fs::write(fonts.join("broken.ttf"), content).unwrap();
        let output = with_fonts(&folder, &fonts, &[]);
        fails(&output, 1, &["broken.ttf", "TrueType or OpenType"]);
    }
    let whole = std::fs::read(fonts.join("blocks.ttf")).unwrap();
    std::fs::write(fonts.join("broken.ttf"), &whole[..whole.len() / 3]).unwrap();
    fails(&with_fonts(&folder, &fonts, &[]), 1, &["broken.ttf"]);
}

#[test]
fn a_typeface_counts_once() {
    let folder = folder();
    let fonts = fonts(&folder, &["blocks.ttf", "diamonds.otf"]);
    std::fs::copy(fonts.join("blocks.ttf"), fonts.join("same.ttf")).unwrap();
    let output = with_fonts(&folder, &fonts, &[]);
    fails(&output, 1, &["blocks.ttf", "same.ttf", "same outlines"]);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn says_which_characters_a_typeface_lacks() {
    let folder = folder();
    let fonts = fonts(&folder, &["blocks.ttf", "lacking.ttf"]);
    let output = with_fonts(&folder, &fonts, &[]);
    fails(&output, 1, &["lacking.ttf", "found none for q ñ"]);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn draws_a_contact_sheet() {
    let folder = folder();
    let path = folder.path().join("sheet.png");
    let sheet = |more: &[&str]| {
        foil(folder.path())
            .args(["glyphs", "sheet", "--out"])
            .arg(&path)
            .args(more)
            .output()
            .unwrap()
    };
    let small = ["--cell", "16", "--rows", "5", "--columns", "7"];
    succeeds(&sheet(&small));
    let image = image::open(&path).unwrap();
    assert_eq!((image.width(), image.height()), (112, 80));
    fails(&sheet(&["--rows", "99"]), 2, &["--rows"]);
    fails(&sheet(&["--cell", "3"]), 2, &["--cell"]);
}

#[test]
fn a_contact_sheet_is_called_what_it_is() {
    let folder = folder();
    let sheet = |name: &str| {
        foil(folder.path())
            .current_dir(folder.path())
            .args(["glyphs", "sheet", "--rows", "2", "--columns", "2", "--out"])
            .arg(name)
            .output()
            .unwrap()
    };
    for name in ["sheet.jpg", "sheet", "sheet.png.webp"] {
        fails(&sheet(name), 2, &[name, ".png"]);
        assert!(!folder.path().join(name).exists());
    }
    succeeds(&sheet("sheet.PNG"));
}
