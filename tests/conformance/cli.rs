//! `foil conformance` through the binary.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::str::contains;

fn small_set() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance/builtin")
}

fn foil() -> Command {
    Command::cargo_bin("foil").unwrap()
}

#[test]
fn prints_groups_and_succeeds_on_a_good_folder() {
    // The area's own folder, or the one above it.
    for folder in [small_set().join("vision"), small_set()] {
        foil()
            .args(["conformance", "vision", "--data"])
            .arg(folder)
            .assert()
            .success()
            .stdout(contains("LPIPS alex"))
            .stdout(contains("0 failed, 0 unknown"))
            .stdout(contains("passed on cpu"));
    }
}

/// What is skipped is part of the verdict.
#[test]
fn the_verdict_tells_what_was_absent() {
    let folder = tempfile::tempdir().unwrap();
    let file = "cone_projection.safetensors";
    let from = small_set().join("diffusion").join(file);
    std::fs::copy(from, folder.path().join(file)).unwrap();
    let run = |more: &[&str]| {
        let mut command = foil();
        command.args(["conformance", "diffusion", "--device", "cpu", "--data"]);
        let output = command.arg(folder.path()).args(more).assert().success();
        String::from_utf8_lossy(&output.get_output().stdout).into_owned()
    };
    let said = run(&[]);
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("passed on cpu"), "{last}");
    assert!(last.contains("were absent and skipped"), "{last}");
    let document: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let absent = document["areas"][0]["absent"].as_array().unwrap().len();
    assert_eq!(document["absent"], absent);
    assert!(
        last.contains(&format!("; {absent} files or groups")),
        "{last}"
    );
}

#[test]
fn prints_only_json_with_json() {
    let output = foil()
        .args(["conformance", "all", "--json", "--data"])
        .arg(small_set())
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let document: serde_json::Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(document["schema"], "foil.conformance/1");
    assert_eq!(document["passed"], true);
    let areas = document["areas"].as_array().unwrap();
    assert_eq!(areas.len(), 8);
    for area in areas {
        let case = &area["cases"][0];
        for field in ["what", "expected", "got", "error", "tolerance", "pass"] {
            assert!(case.get(field).is_some(), "{field}");
        }
    }
}

#[test]
fn works_with_no_data_at_hand() {
    let nowhere = tempfile::tempdir().unwrap();
    foil()
        .args(["conformance", "all"])
        .current_dir(nowhere.path())
        .env_remove("FOIL_REFERENCE")
        .assert()
        .success()
        .stdout(contains("vision (data: the small set inside the program)"))
        .stdout(contains("nets (data: the small set inside the program)"));
}

#[test]
fn fails_with_code_1_and_names_the_case_that_misses() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["fid_expected.json", "prdc_features.safetensors"] {
        std::fs::copy(
            small_set().join("vision").join(file),
            folder.path().join(file),
        )
        .unwrap();
    }
    let path = folder.path().join("fid_expected.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let changed = text.replacen("\"precision\":0.46,", "\"precision\":0.47,", 1);
    assert_ne!(text, changed);
    std::fs::write(&path, changed).unwrap();
    foil()
        .args(["conformance", "vision", "--data"])
        .arg(folder.path())
        .assert()
        .code(1)
        .stdout(contains(
            "gauss.k1 prdc_package precision: expected 0.47, got 0.46",
        ));
}

#[test]
fn refuses_an_unknown_area_and_a_folder_without_areas() {
    foil()
        .args(["conformance", "sound"])
        .assert()
        .failure()
        .stderr(contains(
            "use vision, weights, nets, bex, diffusion, hvilshoj, attribution, tabular, or all",
        ));
    foil()
        .args(["conformance", "all", "--data"])
        .arg(tempfile::tempdir().unwrap().path())
        .assert()
        .failure()
        .stderr(contains("holds no folder named"));
}
