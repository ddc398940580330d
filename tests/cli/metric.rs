//! `foil metric`: golden arrays through the real binary.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::folders::{fails, foil};
use foil::tensor::{TypedArrays, Values};
use serde_json::Value;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/vision")
        .join(name)
}

fn expected(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

/// Writes arrays as safetensors: name → shape, little-endian bytes, type.
fn write(path: &Path, arrays: &[(&str, &[usize], Values)]) {
    let encoded: Vec<(String, Vec<usize>, safetensors::Dtype, Vec<u8>)> = arrays
        .iter()
        .map(|(name, shape, values)| {
            let (dtype, bytes) = match values {
                Values::U8(v) => (safetensors::Dtype::U8, v.clone()),
                Values::I64(v) => (
                    safetensors::Dtype::I64,
                    v.iter().flat_map(|x| x.to_le_bytes()).collect(),
                ),
                Values::F32(v) => (
                    safetensors::Dtype::F32,
                    v.iter().flat_map(|x| x.to_le_bytes()).collect(),
                ),
                Values::F64(v) => (
                    safetensors::Dtype::F64,
                    v.iter().flat_map(|x| x.to_le_bytes()).collect(),
                ),
            };
            (name.to_string(), shape.to_vec(), dtype, bytes)
        })
        .collect();
    let views: HashMap<String, safetensors::tensor::TensorView<'_>> = encoded
        .iter()
        .map(|(name, shape, dtype, bytes)| {
            let view = safetensors::tensor::TensorView::new(*dtype, shape.clone(), bytes).unwrap();
            (name.clone(), view)
        })
        .collect();
    std::fs::write(path, safetensors::serialize(&views, None).unwrap()).unwrap();
}

fn metric(name: &str, input: &Path, more: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    foil(home.path())
        .args(["metric", name, "--json", "--input"])
        .arg(input)
        .args(more)
        .output()
        .unwrap()
}

fn json(name: &str, input: &Path, more: &[&str]) -> Value {
    let output = metric(name, input, more);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn close(what: &str, got: &Value, expected: &Value, relative: f64, absolute: f64) {
    let (g, e) = (got.as_f64(), expected.as_f64());
    let (Some(g), Some(e)) = (g, e) else {
        panic!("{what}: got {got}, expected {expected}");
    };
    assert!(
        (g - e).abs() <= absolute + relative * e.abs(),
        "{what}: got {g}, expected {e}"
    );
}

fn rows(arrays: &TypedArrays, name: &str, range: std::ops::Range<usize>) -> (Vec<usize>, Values) {
    let array = arrays.get(name).unwrap();
    let stride: usize = array.shape[1..].iter().product();
    let mut shape = array.shape.clone();
    shape[0] = range.len();
    let Values::F32(v) = &array.values else {
        panic!("f32")
    };
    (
        shape,
        Values::F32(v[range.start * stride..range.end * stride].to_vec()),
    )
}

#[test]
fn fid_agrees_with_the_public_routines() {
    let features = TypedArrays::read(&golden("fid_set_features.safetensors")).unwrap();
    let json_expected = expected("fid_expected.json");
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("x.safetensors");
    for (case, real, fake, suffix) in [
        ("full_rank_100_vs_100_d64", 0..100, 0..100, "64"),
        ("paper_size_50_vs_50_d64", 0..50, 0..50, "64"),
        ("unequal_60_vs_90_d64", 0..60, 10..100, "64"),
        ("two_vs_two_d64", 0..2, 0..2, "64"),
        (
            "rank_deficient_20_vs_20_d2048",
            0..20,
            0..20,
            "2048.first20",
        ),
    ] {
        let (rs, rv) = rows(&features, &format!("real.{suffix}"), real);
        let (fs, fv) = rows(&features, &format!("fake.{suffix}"), fake);
        write(&input, &[("real", &rs, rv), ("fake", &fs, fv)]);
        let got = json("fid", &input, &[]);
        let value = &got["scores"]["fid"]["value"];
        for key in [
            "torchmetrics_eigvals_float64",
            "pytorch_fid_sqrtm_scipy_1_17",
        ] {
            // The README's tolerance: public routines read low in rank-deficient cases.
            close(case, value, &json_expected[case][key], 1e-5, 1e-6);
        }
        close(
            case,
            value,
            &json_expected[case]["exact_low_rank"]["fid"],
            1e-9,
            1e-9,
        );
        assert!(
            got["scores"]["fid"]["ci95"].is_array() || case.starts_with("two"),
            "{case}"
        );
    }
    let (shape, one) = rows(&features, "real.64", 0..1);
    write(
        &input,
        &[("real", &shape, one.clone()), ("fake", &shape, one)],
    );
    fails(&metric("fid", &input, &[]), 1, &["at least 2"]);
}

#[test]
fn kid_takes_the_given_subsets() {
    let features = TypedArrays::read(&golden("fid_set_features.safetensors")).unwrap();
    let subsets = TypedArrays::read(&golden("kid_subsets.safetensors")).unwrap();
    let all = expected("fid_expected.json");
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("x.safetensors");
    for (case, suffix, n, more) in [
        ("d64", "64", 100, &[][..]),
        (
            "d64_degree2",
            "64",
            100,
            &["--degree", "2", "--gamma", "0.05", "--coef", "0.5"][..],
        ),
        ("d2048", "2048.first20", 20, &[][..]),
    ] {
        let (rs, rv) = rows(&features, &format!("real.{suffix}"), 0..n);
        let (fs, fv) = rows(&features, &format!("fake.{suffix}"), 0..n);
        let index = |side: &str| subsets.get(&format!("{case}.{side}_indices")).unwrap();
        let (ri, fi) = (index("real"), index("fake"));
        write(
            &input,
            &[
                ("real", &rs, rv),
                ("fake", &fs, fv),
                ("real_indices", &ri.shape, ri.values.clone()),
                ("fake_indices", &fi.shape, fi.values.clone()),
            ],
        );
        let got = json("kid", &input, more);
        let kid = &got["scores"]["kid"];
        close(
            case,
            &kid["value"],
            &all["kid"][case]["mean_float64"],
            1e-9,
            0.0,
        );
        close(
            case,
            &kid["std"],
            &all["kid"][case]["std_population_float64"],
            1e-9,
            0.0,
        );
    }
}

#[test]
fn precision_recall_follows_both_rim_rules() {
    let features = TypedArrays::read(&golden("prdc_features.safetensors")).unwrap();
    let all = expected("fid_expected.json");
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("x.safetensors");
    for set in ["gauss", "ties"] {
        let array = |side: &str| features.get(&format!("{set}.{side}")).unwrap();
        let (r, f) = (array("real"), array("fake"));
        write(
            &input,
            &[
                ("real", &r.shape, r.values.clone()),
                ("fake", &f.shape, f.values.clone()),
            ],
        );
        for k in ["1", "3", "5"] {
            let case = &all["prdc"][format!("{set}.k{k}")];
            let strict = json("precision-recall", &input, &["--neighbours", k]);
            for name in ["precision", "recall", "density", "coverage"] {
                let got = &strict["scores"][name]["value"];
                close(name, got, &case["prdc_package"][name], 1e-12, 0.0);
            }
            let inclusive = json(
                "precision-recall",
                &input,
                &["--neighbours", k, "--inclusive"],
            );
            for name in ["precision", "recall"] {
                let got = &inclusive["scores"][name]["value"];
                close(name, got, &case["torch_fidelity"][name], 1e-7, 0.0);
            }
        }
    }
}

#[test]
fn validity_breaks_ties_by_the_lowest_index() {
    let got = json("validity", &golden("validity_logits.safetensors"), &[]);
    let all = expected("dbvce_expected.json");
    let validity = &all["validity"];
    let score = |name: &str| &got["scores"][name]["value"];
    close(
        "TA",
        score("target_accuracy"),
        &validity["target_validity_TA"],
        1e-7,
        0.0,
    );
    close(
        "OA",
        score("original_accuracy"),
        &validity["original_validity_OA"],
        1e-7,
        0.0,
    );
    close("neither", score("neither"), &validity["neither"], 1e-7, 0.0);
    for k in 0..5 {
        close(
            "OS",
            score(&format!("oracle_score/{k}")),
            &validity["OS_per_oracle"][k],
            1e-7,
            0.0,
        );
        let ota = score(&format!("oracle_target_accuracy/{k}"));
        close("OTA", ota, &validity["OTA_per_oracle"][k], 1e-7, 0.0);
    }
    assert_eq!(got["predictions"], validity["classifier_pred"]);
    assert_eq!(got["oracle_predictions"], validity["oracle_pred"]);
    let committee = &validity["committee"];
    let rule = |r: &str| score(&format!("committee_target_accuracy/{r}"));
    close(
        "plurality",
        rule("plurality"),
        &committee["plurality_target_accuracy"],
        1e-7,
        0.0,
    );
    let majority = &committee["strict_majority_target_accuracy_abstain_counts_as_wrong"];
    close("majority", rule("majority"), majority, 1e-7, 0.0);
    close(
        "unanimity",
        rule("unanimity"),
        &committee["unanimous_target"],
        1e-7,
        1e-12,
    );
}

#[test]
fn norms_follow_the_paper_or_the_study() {
    let batch = TypedArrays::read(&golden("dbvce_batch.safetensors")).unwrap();
    let all = expected("dbvce_expected.json");
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("x.safetensors");
    let (a, b) = (
        batch.get("init_images").unwrap(),
        batch.get("samples").unwrap(),
    );
    write(
        &input,
        &[
            ("a", &a.shape, a.values.clone()),
            ("b", &b.shape, b.values.clone()),
        ],
    );
    let exact = json("lp", &input, &[]);
    let published = json("lp", &input, &["--protocol", "published"]);
    for (p, name) in [("1", "l1"), ("1.5", "l1_5"), ("2", "l2")] {
        let case = &all["D_p"][p];
        close(
            name,
            &exact["scores"][name]["value"],
            &case["mean_per_image_float64"],
            1e-8,
            0.0,
        );
        let whole = &case["study_value_norm_of_whole_batch"];
        close(name, &published["scores"][name]["value"], whole, 1e-5, 0.0);
    }
    let lpips = |more: &[&str]| {
        let weights = golden("lpips_alex.safetensors").display().to_string();
        let mut all = vec!["--weights", &weights];
        all.extend(more);
        json("lpips", &input, &all)["scores"]["lpips"]["value"].clone()
    };
    let recipe = &all["lpips_alex_study_recipe"];
    close(
        "lpips",
        &lpips(&["--protocol", "published"]),
        &recipe["value"],
        1e-4,
        1e-7,
    );
    close(
        "lpips",
        &lpips(&[]),
        &recipe["without_min_max_rescaling"],
        1e-4,
        1e-7,
    );
}

#[test]
fn jensen_shannon_takes_rows_and_binary_probabilities() {
    let inputs = TypedArrays::read(&golden("ec_inputs.safetensors")).unwrap();
    let all = expected("ec_expected.json");
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("x.safetensors");
    for (prefix, case) in [("oracle_p", "JS_2d"), ("binary_p", "JS_1d_binary")] {
        let (p, q) = (
            inputs.get(&format!("{prefix}_x")).unwrap(),
            inputs.get(&format!("{prefix}_xcf")).unwrap(),
        );
        write(
            &input,
            &[
                ("p", &p.shape, p.values.clone()),
                ("q", &q.shape, q.values.clone()),
            ],
        );
        let got = json("jensen-shannon", &input, &[]);
        close(
            case,
            &got["scores"]["jensen_shannon"]["value"],
            &all[case]["mean"],
            0.0,
            2e-6,
        );
        assert_eq!(got["per_row"].as_array().unwrap().len(), 30);
    }
}

#[test]
fn lpips_takes_bytes_and_floats_and_refuses_other_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("x.safetensors");
    let image = |name: &str| {
        let image = image::open(golden("lpips_images").join(name))
            .unwrap()
            .to_rgb8();
        let (w, h) = image.dimensions();
        let raw = image.into_raw();
        let planar: Vec<u8> = (0..3)
            .flat_map(|c| raw.iter().skip(c).step_by(3).copied().collect::<Vec<u8>>())
            .collect();
        (vec![1, 3, h as usize, w as usize], planar)
    };
    let all = expected("lpips_expected.json");
    let pair = &all["nets"]["squeeze"]["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["a"].as_str().unwrap().contains("70x90"))
        .unwrap()
        .clone();
    let name = |k: &str| format!("{}.png", pair[k].as_str().unwrap());
    let ((shape, a), (_, b)) = (image(&name("a")), image(&name("b")));
    let weights = golden("lpips_squeeze.safetensors").display().to_string();
    let run = |a: Values, b: Values, more: &[&str]| {
        write(&input, &[("a", &shape, a), ("b", &shape, b)]);
        let mut all = vec!["--net", "squeeze", "--weights", &weights];
        all.extend(more);
        metric("lpips", &input, &all)
    };
    let float =
        |v: &[u8], f: fn(f32) -> f32| Values::F32(v.iter().map(|&p| f(f32::from(p))).collect());
    for output in [
        run(Values::U8(a.clone()), Values::U8(b.clone()), &[]),
        run(
            float(&a, |p| p / 127.5 - 1.0),
            float(&b, |p| p / 127.5 - 1.0),
            &[],
        ),
        run(
            float(&a, |p| p / 255.0),
            float(&b, |p| p / 255.0),
            &["--range", "0,1"],
        ),
    ] {
        let got: Value = serde_json::from_slice(&output.stdout).unwrap();
        close(
            "70x90",
            &got["scores"]["lpips"]["value"],
            &pair["lpips_package"],
            1e-4,
            1e-7,
        );
        for (k, layer) in got["per_layer"][0].as_array().unwrap().iter().enumerate() {
            close("layer", layer, &pair["per_layer"][k], 1e-4, 1e-7);
        }
    }
    fails(
        &run(float(&a, |p| p), float(&b, |p| p), &[]),
        1,
        &["`a`", "--range"],
    );
}

#[test]
fn missing_arrays_wrong_shapes_and_nan_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("x.safetensors");
    write(
        &input,
        &[("real", &[2, 2], Values::F32(vec![0.0, 1.0, f32::NAN, 2.0]))],
    );
    fails(&metric("fid", &input, &[]), 1, &["real", "NaN"]);
    write(
        &input,
        &[
            ("real", &[4], Values::F32(vec![0.0; 4])),
            ("fake", &[2, 2], Values::F32(vec![0.0; 4])),
        ],
    );
    fails(&metric("fid", &input, &[]), 1, &["real", "2 dimensions"]);
    write(&input, &[("fake", &[2, 2], Values::F32(vec![0.0; 4]))]);
    fails(&metric("fid", &input, &[]), 1, &["`real`", "fake"]);
    std::fs::write(&input, b"hello").unwrap();
    fails(&metric("fid", &input, &[]), 1, &["x.safetensors"]);
    fails(&metric("ssim", &input, &[]), 2, &["ssim"]);
}

fn has_adapter() -> bool {
    let home = tempfile::tempdir().unwrap();
    let output = foil(home.path()).args(["devices", "--json"]).output();
    let found: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let software = |d: &Value| d["description"].as_str().unwrap().contains("software");
    let found = found.as_array().unwrap().iter().any(software);
    if !found {
        println!("skipped: this machine has no software adapter");
    }
    found
}

/// The same numbers at the same places: floats to 1e-5, all else exactly; but for the device and how long it took.
fn agree(what: &str, cpu: &Value, gpu: &Value) {
    match (cpu, gpu) {
        (Value::Object(a), Value::Object(b)) => {
            let names = |o: &serde_json::Map<String, Value>| o.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(a), names(b), "{what}");
            for (name, value) in a
                .iter()
                .filter(|(name, _)| !["device", "seconds"].contains(&name.as_str()))
            {
                agree(&format!("{what}/{name}"), value, &b[name]);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{what}");
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                agree(&format!("{what}/{i}"), a, b);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            let error = (a - b).abs();
            assert!(
                error <= 1e-5 * a.abs() + 1e-9,
                "{what}: {a} on the cpu, {b} here"
            );
        }
        _ => assert_eq!(cpu, gpu, "{what}"),
    }
}

#[test]
fn metrics_with_kernels_run_on_a_device_and_agree_with_the_cpu() {
    if !has_adapter() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("arrays.safetensors");
    let noise = |seed: usize, n: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as f32 / 1009.0;
        (0..n).map(value).collect()
    };
    let bytes = |seed: usize, n: usize| -> Vec<u8> {
        noise(seed, n).iter().map(|v| (v * 255.0) as u8).collect()
    };
    let image = [2, 3, 35, 40];
    write(
        &input,
        &[
            ("real", &[40, 8], Values::F32(noise(1, 320))),
            ("fake", &[30, 8], Values::F32(noise(2, 240))),
            ("classifier_logits", &[5, 3], Values::F32(noise(3, 15))),
            ("oracle_logits", &[3, 5, 3], Values::F32(noise(4, 45))),
            ("labels", &[5], Values::I64(vec![0, 1, 2, 0, 1])),
            ("targets", &[5], Values::I64(vec![1, 2, 0, 2, 0])),
            ("a", &image, Values::U8(bytes(5, 2 * 3 * 35 * 40))),
            ("b", &image, Values::U8(bytes(6, 2 * 3 * 35 * 40))),
            (
                "images",
                &[3, 3, 33, 31],
                Values::U8(bytes(7, 3 * 3 * 33 * 31)),
            ),
            ("original", &[2, 6], Values::F32(noise(8, 12))),
            ("perturbed", &[2, 9, 6], Values::F32(noise(9, 108))),
        ],
    );
    for (name, more) in [
        ("fid", &["--bootstrap", "0"][..]),
        ("validity", &[]),
        ("orthogonal-set", &[]),
        ("lpips", &[]),
        ("lpips-diversity", &[]),
    ] {
        let run = |device: &str| {
            let output = metric(name, &input, &[more, &["--device", device]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{name}: {said}");
            assert!(said.contains(&format!("on {device} (asked for)")), "{said}");
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            found
        };
        let (cpu, gpu) = (run("cpu"), run("wgpu:software"));
        assert!(cpu["device"].as_str().unwrap().starts_with("cpu ("));
        assert!(gpu["device"].as_str().unwrap().starts_with("wgpu ("));
        agree(name, &cpu, &gpu);
    }
}

#[test]
fn a_device_that_is_not_there_is_wrong_usage() {
    let input = golden("validity_logits.safetensors");
    for name in ["validity", "fid", "lpips"] {
        let output = metric(name, &input, &["--device", "wgpu:99"]);
        fails(&output, 2, &["wgpu:99", "--device cpu"]);
    }
    // Metrics without kernels have no device.
    let output = metric("kid", &input, &["--device", "cpu"]);
    fails(&output, 2, &["--device"]);
}
