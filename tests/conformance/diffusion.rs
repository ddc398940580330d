//! The area `diffusion` on folders of its layout that are not the given one: changed numbers fail, changed settings are
//! followed, other names are found, cases that nobody knows are named.

use std::path::{Path, PathBuf};

use foil::conformance::{AreaReport, Source, run, run_on};
use foil::tensor::composed::Composed;
use foil::tensor::cpu::Cpu;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The golden data with guided steps; says so if they are absent.
fn reference() -> Option<PathBuf> {
    let root = std::env::var_os("FOIL_REFERENCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference"),
        PathBuf::from,
    );
    let folder = root.join("diffusion");
    if folder.join("guided_step.safetensors").is_file() {
        return Some(folder);
    }
    println!("skipped: {} is absent", folder.display());
    None
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/diffusion")
}

/// A copy of some files.
fn copy(from: &Path, files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let to = folder.path().join(file);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, std::fs::read(from.join(file)).unwrap()).unwrap();
    }
    folder
}

fn diffusion(folder: &TempDir) -> AreaReport {
    run("diffusion", Source::Folder(folder.path().into()), &Cpu).unwrap()
}

fn edit(folder: &TempDir, file: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.path().join(file);
    let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

/// Adds to the middle value of a tensor of single precision.
fn nudge(folder: &TempDir, file: &str, tensor: &str, by: f32) {
    let path = folder.path().join(file);
    let bytes = std::fs::read(&path).unwrap();
    let arrays = SafeTensors::deserialize(&bytes).unwrap();
    let mut all: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    for (name, view) in arrays.tensors() {
        let mut data = view.data().to_vec();
        if name == tensor {
            assert_eq!(view.dtype(), Dtype::F32);
            let at = data.len() / 8 * 4;
            let value = f32::from_le_bytes(data[at..at + 4].try_into().unwrap());
            data[at..at + 4].copy_from_slice(&(value + by).to_le_bytes());
        }
        all.push((name, view.dtype(), view.shape().to_vec(), data));
    }
    assert!(all.iter().any(|(name, ..)| name == tensor), "{tensor}");
    let views = all.iter().map(|(name, dtype, shape, data)| {
        (name, TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    let bytes = safetensors::serialize(views, None).unwrap();
    std::fs::write(&path, bytes).unwrap();
}

fn failed(report: &AreaReport) -> Vec<&str> {
    report.failures().map(|c| c.what.as_str()).collect()
}

fn assert_passes(report: &AreaReport) {
    assert!(
        report.passed(),
        "{:?} {:?}",
        report.failures().collect::<Vec<_>>(),
        report.unknown
    );
}

/// What the guided steps need.
const STEPS: [&str; 6] = [
    "guidance.json",
    "guided_step.safetensors",
    "tiny_classifiers.safetensors",
    "unet.json",
    "unet_a_weights.safetensors",
    "unet_encoder_weights.safetensors",
];

/// The steps alone, without the chains.
fn steps(reference: &Path) -> TempDir {
    let folder = copy(reference, &STEPS);
    edit(&folder, "guidance.json", |v| {
        v.as_object_mut().unwrap().retain(|k, _| k == "guided_step");
    });
    folder
}

#[test]
fn every_kind_of_number_can_fail() {
    let all = [
        ("cone_projection.safetensors", "cone_30", 3e-5, "cone_30"),
        (
            "cone_projection.safetensors",
            "l2_normalize.out",
            3e-5,
            "l2_normalize",
        ),
        (
            "tiny_classifiers_io.safetensors",
            "near.logits_on_init",
            3e-5,
            "near.logits",
        ),
        ("unet_io.safetensors", "unet_b.out", 6e-5, "unet_b.out"),
        (
            "unet_io.safetensors",
            "timestep_embedding_33_odd",
            6e-5,
            "timestep_embedding_33",
        ),
        (
            "p_mean_variance.safetensors",
            "clip_true.variance",
            3e-5,
            "clip_true.variance",
        ),
        (
            "p_mean_variance.safetensors",
            "q_posterior.mean",
            3e-5,
            "q_posterior.mean",
        ),
        (
            "p_mean_variance.safetensors",
            "ddim_eta0_5.sample",
            3e-5,
            "ddim_eta0_5.sample",
        ),
    ];
    let files = [
        "cone_projection.safetensors",
        "p_mean_variance.json",
        "p_mean_variance.safetensors",
        "tiny_classifiers.safetensors",
        "tiny_classifiers_io.safetensors",
        "unet.json",
        "unet_b_weights.safetensors",
        "unet_io.safetensors",
    ];
    let folder = copy(&golden(), &files);
    assert_passes(&diffusion(&folder));
    for (file, tensor, by, _) in all {
        nudge(&folder, file, tensor, by);
    }
    let report = diffusion(&folder);
    let failed = failed(&report);
    assert_eq!(failed.len(), all.len(), "{failed:?}");
    for (_, _, _, what) in all {
        assert!(
            failed.iter().any(|f| f.contains(what)),
            "{what}: {failed:?}"
        );
    }
}

#[test]
fn guided_steps_that_differ_fail() {
    let Some(reference) = reference() else {
        return;
    };
    let folder = steps(&reference);
    for (tensor, by) in [
        ("x01_cone1_near.guidance", 1e-5),
        ("x00_cone1_tiny.sample", 3e-5),
        ("lp1.5.sample", 3e-5),
        ("common.lp_grad_unit", 3e-5),
    ] {
        nudge(&folder, "guided_step.safetensors", tensor, by);
    }
    edit(&folder, "guidance.json", |v| {
        let angle = &mut v["guided_step"]["cases"]["x00_cone1_tiny"]["angle_deg"][2];
        *angle = json!(angle.as_f64().unwrap() + 0.1);
    });
    let report = diffusion(&folder);
    let found: Vec<&str> = failed(&report)
        .into_iter()
        .map(|what| what.split(" [").next().unwrap())
        .collect();
    let expected = [
        "x01_cone1_near.guidance",
        "common.lp_grad_unit",
        "x00_cone1_tiny.sample",
        "x00_cone1_tiny angles",
        "lp1.5.sample",
    ];
    for what in expected {
        assert!(found.contains(&what), "{what}: {found:?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:?}");
}

/// What runs on NVIDIA GPUs, on the CPU.
#[test]
fn guidance_by_operations_of_candles_own_passes_too() {
    let Some(reference) = reference() else {
        return;
    };
    let report = run_on(
        "diffusion",
        Source::Folder(reference),
        &Cpu,
        &Composed::on_cpu(),
    );
    let report = report.unwrap();
    assert_passes(&report);
    let groups: Vec<&str> = report.cases.iter().map(|c| c.group.as_str()).collect();
    assert!(groups.contains(&"guided steps"), "{groups:?}");
}

/// Numbers that were computed with other settings do not fit any more: the settings of the file are those that count.
#[test]
fn settings_are_read_from_the_file() {
    let Some(reference) = reference() else {
        return;
    };
    for (setting, value, hit, spared) in [
        (
            "cone_degrees",
            json!(45),
            "x01_cone1_tiny.sample",
            "x01_cone0_tiny.sample",
        ),
        (
            "lp_custom",
            json!(1.5),
            "x01_cone0_tiny.sample",
            "common.mean_unguided",
        ),
        (
            "classifier_scale",
            json!(0.2),
            "x00_cone0_tiny.sample",
            "lp2.0.sample",
        ),
        (
            "lp_regularization_scale",
            json!(0.1),
            "x00_cone0_tiny.sample",
            "lp2.0.sample",
        ),
        (
            "noise_schedule",
            json!("cosine"),
            "common.mean_unguided",
            "timesteps_seen",
        ),
        (
            "timestep_respacing",
            json!("25"),
            "timesteps_seen_by_model",
            "x01_none",
        ),
        (
            "clip_denoised",
            json!(true),
            "common.pred_xstart",
            "timesteps_seen",
        ),
    ] {
        let folder = steps(&reference);
        edit(&folder, "guidance.json", |v| {
            v["guided_step"]["settings"][setting] = value;
        });
        let report = diffusion(&folder);
        let failed = failed(&report);
        let has = |what: &str| failed.iter().any(|f| f.starts_with(what));
        assert!(has(hit), "{setting}: {hit} in {failed:?}");
        assert!(!has(spared), "{setting}: {spared} in {failed:?}");
    }
}

#[test]
fn networks_of_other_names_are_found() {
    let Some(reference) = reference() else {
        return;
    };
    let folder = steps(&reference);
    let at = |file: &str| folder.path().join(file);
    std::fs::rename(
        at("unet_a_weights.safetensors"),
        at("painter_weights.safetensors"),
    )
    .unwrap();
    for file in ["unet.json", "guidance.json"] {
        let text = std::fs::read_to_string(at(file)).unwrap();
        std::fs::write(at(file), text.replace("unet_a", "painter")).unwrap();
    }
    let report = diffusion(&folder);
    assert_passes(&report);
    let guided = report.cases.iter().filter(|c| c.group == "guided steps");
    assert!(guided.count() > 40);
    assert!(
        report
            .used
            .iter()
            .any(|f| f == "painter_weights.safetensors")
    );
}

#[test]
fn absent_files_are_listed_and_their_cases_skipped() {
    let Some(reference) = reference() else {
        return;
    };
    let folder = steps(&reference);
    std::fs::remove_file(folder.path().join("unet_encoder_weights.safetensors")).unwrap();
    let report = diffusion(&folder);
    assert_passes(&report);
    let absent = "guided_step x01_cone1_unet_encoder (a classifier is absent)";
    assert!(
        report.absent.iter().any(|a| a == absent),
        "{:?}",
        report.absent
    );
    std::fs::remove_file(folder.path().join("unet_a_weights.safetensors")).unwrap();
    let report = diffusion(&folder);
    assert!(report.failures().next().is_none() && report.unknown.is_empty());
    let absent = "guided_step: all cases (unet_a is absent)";
    assert!(
        report.absent.iter().any(|a| a == absent),
        "{:?}",
        report.absent
    );
}

/// A network that is named and not described is a fault of the data; one whose file is absent is not.
#[test]
fn a_network_that_nothing_describes_is_no_absent_file() {
    let Some(reference) = reference() else {
        return;
    };
    let folder = steps(&reference);
    edit(&folder, "guidance.json", |v| {
        v["guided_step"]["settings"]["unet"] = json!("unet_ax");
    });
    let report = diffusion(&folder);
    assert!(!report.passed());
    let said = "network `unet_ax`: unet.json describes";
    let told = report.unknown.iter().filter(|u| u.starts_with(said));
    assert_eq!(told.count(), 1, "{:?}", report.unknown);
    edit(&folder, "guidance.json", |v| {
        v["guided_step"]["settings"]["unet"] = json!("unet_encoder");
    });
    let report = diffusion(&folder);
    let said = "network `unet_encoder`: a classifier in place of a denoiser";
    assert!(
        report.unknown.iter().any(|u| u == said),
        "{:?}",
        report.unknown
    );
    let folder = steps(&reference);
    edit(&folder, "guidance.json", |v| {
        let cases = v["guided_step"]["cases"].as_object_mut().unwrap();
        let case = cases.remove("x01_cone1_unet_encoder").unwrap();
        cases.insert("x01_cone1_unet_decoder".into(), case);
    });
    let report = diffusion(&folder);
    let said = "network `unet_decoder`: unet.json describes";
    let told = report.unknown.iter().any(|u| u.starts_with(said));
    assert!(!report.passed() && told, "{:?}", report.unknown);
}

/// Every number of the descriptions beside the arrays counts, or is told to be unused.
#[test]
fn what_the_descriptions_state_is_checked() {
    let Some(reference) = reference() else {
        return;
    };
    let unet = [
        "tiny_classifiers.safetensors",
        "unet.json",
        "unet_a_weights.safetensors",
    ];
    let folder = copy(
        &reference,
        &[&unet[..], &["guidance.json", "chain_long.safetensors"]].concat(),
    );
    edit(&folder, "guidance.json", |v| {
        v.as_object_mut().unwrap().retain(|k, _| k == "chain_long");
        v["chain_long"]["settings"]["image_size"] = json!(17);
        let peaks = &mut v["chain_long"]["x01_cone1"]["sample_abs_max_every_10"];
        peaks[4] = json!(peaks[4].as_f64().unwrap() + 0.01);
    });
    let report = diffusion(&folder);
    assert_eq!(
        failed(&report),
        [
            "image_size",
            "x01_cone1.sample_abs_max_every_10 [10 values, worst 4]"
        ]
    );
    let folder = copy(
        &reference,
        &[&unet[..], &["dvce_dime.json", "dvce.safetensors"]].concat(),
    );
    edit(&folder, "dvce_dime.json", |v| {
        v.as_object_mut()
            .unwrap()
            .retain(|k, _| k.starts_with("dvce_") && !k.starts_with("dvce_denoise"));
        v["dvce_single"]["t_index_recovered"][2] = json!(4);
    });
    let report = diffusion(&folder);
    assert_eq!(failed(&report), ["single t_index_recovered"]);
    let unused = |report: &AreaReport, what: &str| report.unused.iter().any(|u| u.0 == what);
    assert!(unused(
        &report,
        "dvce_dime.json: dvce_timestep_recovery_mismatches"
    ));
    let tables = [
        "published/raw_experimental_results.csv",
        "settings.json",
        "table_check.json",
        "table_numeric.json",
        "table_numeric_groups.json",
    ];
    let folder = copy(&reference, &tables);
    assert!(failed(&diffusion(&folder)).is_empty());
    edit(&folder, "table_numeric.json", |v| {
        v["table2"]["std"] = json!("ddof 1");
        v["table3"]["source"] = json!("nonideal_cone1_x01");
    });
    edit(&folder, "table_check.json", |v| {
        v["table2"]["cells"] = json!(134);
        v["table3"]["cells_with_numbers"] = json!(50);
    });
    edit(&folder, "table_numeric_groups.json", |v| {
        let cell = &mut v["groups"]["ideal_cone1_x01"]["OS Madry"]["Madry"];
        assert!(cell.is_null());
        *cell = json!(3);
    });
    let report = diffusion(&folder);
    let mut failed = failed(&report);
    failed.dedup();
    assert_eq!(
        failed,
        [
            "ideal_cone1_x01 OS Madry Madry",
            "table 2: std",
            "table 3: source",
            "table2.cells",
            "table3.cells_with_numbers",
        ]
    );
    assert!(unused(
        &report,
        "table_check.json: table2.numeric_differences"
    ));
}

#[test]
fn cases_that_nobody_knows_are_named() {
    let files = ["schedules.json", "space_timesteps.json", "unet.json"];
    let folder = copy(&golden(), &files);
    edit(&folder, "schedules.json", |v| {
        v["linear_1000_20"]["values"]["betas_squared"] = json!({"0": 1.0});
    });
    std::fs::write(folder.path().join("sigmoid.json"), "{}").unwrap();
    let report = diffusion(&folder);
    assert_eq!(failed(&report), [""; 0]);
    assert!(!report.passed());
    assert_eq!(
        report.unknown,
        [
            "schedules.json: `linear_1000_20.values.betas_squared`",
            "sigmoid.json: not a file of this layout",
        ]
    );
}

#[test]
fn wrong_settings_are_errors_that_name_the_place() {
    let folder = copy(&golden(), &["schedules.json"]);
    edit(&folder, "schedules.json", |v| {
        v["linear_1000_20"]["noise_schedule"] = json!("sigmoid");
    });
    let error = run("diffusion", Source::Folder(folder.path().into()), &Cpu);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("`linear_1000_20.noise_schedule`: expected linear or cosine"),
        "{error}"
    );
}
