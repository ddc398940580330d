//! A conformance run must be able to fail: changed numbers, unknown cases, absent and broken files, on copies of the
//! small golden set.

use std::path::Path;

use foil::conformance::{AreaReport, ConformanceError, Source, run};
use foil::tensor::cpu::Cpu;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A copy of the files of the small vision set for which `keep` is true.
fn copy(keep: impl Fn(&str) -> bool) -> TempDir {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance/builtin/vision");
    let target = tempfile::tempdir().unwrap();
    for below in ["", "lpips_images"] {
        for entry in std::fs::read_dir(source.join(below)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let file = Path::new(below).join(name);
            if source.join(&file).is_file() && keep(file.to_str().unwrap()) {
                std::fs::create_dir_all(target.path().join(below)).unwrap();
                std::fs::copy(source.join(&file), target.path().join(&file)).unwrap();
            }
        }
    }
    target
}

/// The cheap cases: those that need no network.
fn cheap() -> TempDir {
    copy(|file| !file.starts_with("lpips") && !file.starts_with("inception_tap"))
}

fn vision(folder: &TempDir) -> Result<AreaReport, ConformanceError> {
    run("vision", Source::Folder(folder.path().into()), &Cpu)
}

fn edit(folder: &TempDir, file: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.path().join(file);
    let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

fn failed(report: &AreaReport) -> Vec<&str> {
    report.failures().map(|c| c.what.as_str()).collect()
}

#[test]
fn an_unchanged_copy_passes() {
    let report = vision(&cheap()).unwrap();
    assert!(
        report.passed(),
        "{:?} {:?}",
        failed(&report),
        report.unknown
    );
}

#[test]
fn a_changed_number_fails_its_case_and_no_other() {
    let folder = cheap();
    edit(&folder, "fid_expected.json", |v| {
        let value = &mut v["kid"]["d64"]["mean_float64"];
        *value = json!(value.as_f64().unwrap() * 1.001);
    });
    let report = vision(&folder).unwrap();
    assert!(!report.passed());
    assert_eq!(failed(&report), ["d64 mean_float64"]);
    let case = report.failures().next().unwrap();
    assert!(case.error.unwrap() > case.tolerance.unwrap());
}

#[test]
fn a_case_nobody_knows_is_unknown_and_fails() {
    let folder = cheap();
    edit(&folder, "fid_expected.json", |v| {
        v["kid"]["median_of_subsets"] = json!({"mean": 0.1});
        v["inception_score"]["splits1"]["entropy"] = json!(2.5);
        v["wasserstein"] = json!(1.0);
    });
    let report = vision(&folder).unwrap();
    assert!(failed(&report).is_empty());
    assert!(!report.passed());
    assert_eq!(
        report.unknown,
        [
            "fid_expected.json: `kid.median_of_subsets`",
            "fid_expected.json: `inception_score.splits1.entropy`",
            "fid_expected.json: `wasserstein`",
        ]
    );
}

#[test]
fn an_unknown_file_and_an_unknown_tensor_fail() {
    let folder = cheap();
    let features = folder.path().join("prdc_features.safetensors");
    std::fs::copy(features, folder.path().join("more_features.safetensors")).unwrap();
    edit(&folder, "fid_expected.json", |v| {
        let cases = v["prdc"].as_object_mut().unwrap();
        cases.retain(|name, _| !name.starts_with("ties"));
    });
    let report = vision(&folder).unwrap();
    assert_eq!(
        report.unknown,
        [
            "prdc_features.safetensors: tensor `ties.fake`",
            "prdc_features.safetensors: tensor `ties.real`",
            "more_features.safetensors: not a file of this layout",
        ]
    );
}

#[test]
fn an_absent_file_is_listed_and_its_cases_skipped() {
    let folder = cheap();
    std::fs::remove_file(folder.path().join("validity_logits.safetensors")).unwrap();
    std::fs::remove_file(folder.path().join("fid_set_features.safetensors")).unwrap();
    let report = vision(&folder).unwrap();
    assert!(
        report.passed(),
        "{:?} {:?}",
        failed(&report),
        report.unknown
    );
    for file in [
        "validity_logits.safetensors",
        "fid_set_features.safetensors",
    ] {
        assert!(
            report.absent.iter().any(|a| a == file),
            "{:?}",
            report.absent
        );
    }
    assert!(report.cases.iter().all(|c| c.group != "validity"));
    assert!(
        report
            .cases
            .iter()
            .any(|c| c.group.starts_with("precision"))
    );
}

#[test]
fn an_empty_folder_does_not_pass() {
    let report = vision(&tempfile::tempdir().unwrap()).unwrap();
    assert!(report.cases.is_empty() && !report.passed());
}

#[test]
fn broken_files_are_errors_that_name_the_file() {
    let truncate = |folder: &TempDir, file: &str, keep: usize| {
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        std::fs::write(folder.path().join(file), &bytes[..bytes.len().min(keep)]).unwrap();
    };
    for (file, keep) in [
        ("fid_expected.json", 100),
        ("prdc_features.safetensors", 300),
        ("ec_inputs.safetensors", 0),
    ] {
        let folder = cheap();
        truncate(&folder, file, keep);
        let error = vision(&folder).unwrap_err().to_string();
        assert!(error.contains(file), "{error}");
    }
    let folder = cheap();
    edit(&folder, "dbvce_expected.json", |v| {
        v["D_p"]["1"]["per_image"] = json!(["one"])
    });
    let error = vision(&folder).unwrap_err().to_string();
    assert!(
        error.contains("dbvce_expected.json: `D_p.1.per_image[0]`: expected a number"),
        "{error}"
    );
}

#[test]
fn a_tensor_of_the_wrong_shape_is_an_error_not_a_panic() {
    let folder = copy(|file| {
        [
            "dbvce_expected.json",
            "dbvce_batch.safetensors",
            "validity_logits.safetensors",
        ]
        .contains(&file)
    });
    let bytes = std::fs::read(folder.path().join("validity_logits.safetensors")).unwrap();
    std::fs::write(folder.path().join("dbvce_batch.safetensors"), bytes).unwrap();
    let error = vision(&folder).unwrap_err().to_string();
    assert!(
        error.contains("dbvce_batch.safetensors: no tensor `init_images`"),
        "{error}"
    );
}

#[test]
fn pictures_under_other_names_pass_and_a_damaged_one_does_not() {
    let folder = copy(|file| file.starts_with("lpips"));
    let images = folder.path().join("lpips_images");
    for entry in std::fs::read_dir(&images).unwrap() {
        let path = entry.unwrap().path();
        let name = path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .replace("64x64", "picture");
        std::fs::rename(&path, images.join(name)).unwrap();
    }
    let expected = folder.path().join("lpips_expected.json");
    let text = std::fs::read_to_string(&expected).unwrap();
    let text = text
        .replace("_64x64_", "_picture_")
        .replace("batch_64x64", "batch_of_pictures");
    std::fs::write(&expected, text).unwrap();
    let report = vision(&folder).unwrap();
    assert!(
        report.passed(),
        "{:?} {:?}",
        failed(&report),
        report.unknown
    );
    assert!(report.cases.len() > 90);

    let first = images.join("astronaut_picture_ref.png");
    std::fs::copy(images.join("chelsea_picture_ref.png"), &first).unwrap();
    let report = vision(&folder).unwrap();
    assert!(
        failed(&report)
            .iter()
            .any(|w| w.contains("astronaut_picture_ref"))
    );

    std::fs::write(&first, b"not a picture").unwrap();
    let error = vision(&folder).unwrap_err().to_string();
    assert!(error.contains("astronaut_picture_ref.png"), "{error}");

    std::fs::remove_file(&first).unwrap();
    let report = vision(&folder).unwrap();
    assert!(
        report.passed(),
        "{:?} {:?}",
        failed(&report),
        report.unknown
    );
    let absent = "lpips_images/astronaut_picture_ref.png";
    assert!(
        report.absent.iter().any(|a| a == absent),
        "{:?}",
        report.absent
    );
}

#[test]
fn an_unknown_area_or_folder_is_an_error() {
    let error = run("sound", Source::Builtin, &Cpu).unwrap_err().to_string();
    assert!(
        error.contains(
            "vision, weights, nets, bex, diffusion, hvilshoj, attribution, tabular, or all"
        ),
        "{error}"
    );
    let nowhere = Source::Folder("/nowhere/at/all".into());
    let error = run("vision", nowhere, &Cpu).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all is not a folder"), "{error}");
}

/// The batch scores of bex, in a folder of their own.
fn bex_batches() -> TempDir {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/bex");
    let target = tempfile::tempdir().unwrap();
    for file in ["batch_metrics.json", "batch_metrics.safetensors"] {
        std::fs::copy(source.join(file), target.path().join(file)).unwrap();
    }
    target
}

#[test]
fn a_changed_rate_or_list_of_bex_fails_and_an_unknown_field_is_named() {
    let folder = bex_batches();
    let run_it = || run("bex", Source::Folder(folder.path().into()), &Cpu).unwrap();
    let report = run_it();
    assert!(
        report.passed(),
        "{:?} {:?}",
        failed(&report),
        report.unknown
    );
    edit(&folder, "batch_metrics.json", |v| {
        v["cases"][1]["sce"] = json!(0.26);
        v["cases"][2]["set_sizes_released"][0] = json!(3);
        v["cases"][3]["entropy"] = json!(1.0);
    });
    let report = run_it();
    assert_eq!(failed(&report), ["c001 sce", "c002 set_sizes_released"]);
    assert_eq!(report.unknown, ["batch_metrics.json: `cases[3].entropy`"]);
}
