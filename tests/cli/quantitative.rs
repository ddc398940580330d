//! `foil score` over samples, `foil tables` of methods, `foil fakemnist`.
//!
//! Arrays, networks and expectations are random ones, computed in numpy by `scripts/make-quantitative-fixtures`.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::str::contains;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn array(name: &str) -> String {
    let path = root().join("tests/fixtures/quantitative").join(name);
    path.display().to_string()
}

fn small(name: &str) -> PathBuf {
    root().join("src/conformance/builtin/hvilshoj").join(name)
}

fn foil(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("foil").unwrap();
    command.args(args);
    command
}

/// `foil score` of a method with all metrics.
fn score(method: &str, config: &str) -> Command {
    let range = if config == "mnist_0_1" {
        "0,1"
    } else {
        "-0.5,0.5"
    };
    let oracle = array(&format!(
        "{}.toml",
        config.replace("mnist_", "mnist_oracle_")
    ));
    let mut command = foil(&["score", "--quiet", "--device", "cpu"]);
    command
        .args(["--originals", &array("real-images-idx3-ubyte.gz")])
        .args(["--counterfactuals", &array(&format!("{method}.npz"))])
        .args(["--range", range, "--oracle", &oracle])
        .args(["--label-model", &format!("digit={oracle}")])
        .arg("--autoencoders")
        .arg(small(&format!("autoencoders_{config}.safetensors")));
    command
}

const ALL: [&str; 2] = ["--metrics", "en,tcv,im1,im2,oracle,lvs,fid:embedding"];

fn json(command: &mut Command) -> Value {
    let output = command.arg("--json").assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

fn value(json: &Value, name: &str) -> f64 {
    let score = &json["groups"][0]["scores"][name];
    score["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("{name}: {json:#}"))
}

fn expected(file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(small(file)).unwrap()).unwrap()
}

/// A `.npy` file of 32-bit floats.
pub fn npy(folder: &Path, name: &str, shape: &[usize], values: &[f32]) -> String {
    let shape: Vec<String> = shape.iter().map(|n| format!("{n},")).collect();
    let mut header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}",
        shape.concat()
    );
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[test]
fn published_scores_of_arrays_are_those_of_numpy() {
    let (published, own) = (
        expected("published_results.json"),
        expected("own_model_results.json"),
    );
    for config in ["mnist_m05_05", "mnist_0_1"] {
        for method in ["GB", "GEN"] {
            let mut command = score(&method.to_lowercase(), config);
            let found = json(command.args(ALL).args(["--protocol", "published"]));
            for (score, name, tolerance) in [
                ("target_class_validity", "TargetClassValidity", 1e-12),
                ("elastic_net", "ElasticNet", 1e-9),
                ("im1", "IM1", 1e-6),
                ("im2", "IM2", 1e-6),
            ] {
                let triple = &published[config][name][method];
                let (mean, half) = (triple[0].as_f64().unwrap(), triple[1].as_f64().unwrap());
                let got = &found["groups"][0]["scores"][score];
                assert!(
                    (value(&found, score) / mean - 1.0).abs() <= tolerance,
                    "{config} {method} {score}"
                );
                let [low, high] = [0, 1].map(|k| got["ci95"][k].as_f64().unwrap());
                assert!(
                    ((high - low) / 2.0 / half - 1.0).abs() <= 1e-6,
                    "{config} {method} {score}"
                );
                assert_eq!(got["n"], triple[2]);
            }
            let oracle = format!("oracle_score/{}", config.replace("mnist_", "mnist_oracle_"));
            let own = &own["configs"][config][method];
            assert!((value(&found, &oracle) - own["Oracle"][0].as_f64().unwrap()).abs() < 1e-12);
            assert!((value(&found, "fid") / own["FID256"][0].as_f64().unwrap() - 1.0).abs() < 1e-4);
            assert!(value(&found, "label_variation/digit") > 0.0);
            let parts =
                value(&found, "im2_numerator") > 0.0 && value(&found, "im1_denominator") > 0.0;
            assert!(parts);
            let print = &found["fingerprints"]["im2"];
            assert!(print["range"].is_array() && print["weights_sha256"].is_string());
        }
    }
}

#[test]
fn black_and_failed_counterfactuals_are_counted_not_dropped_in_silence() {
    let exact = json(score("gen", "mnist_m05_05").args(ALL).arg("--keep-invalid"));
    assert_eq!(exact["groups"][0]["scores"]["im1"]["n"], 30);
    assert!(
        exact["notes"]
            .to_string()
            .contains("1 of 30 samples: the counterfactual is entirely black")
    );
    let published = json(
        score("gen", "mnist_m05_05")
            .args(ALL)
            .args(["--protocol", "published"]),
    );
    assert_eq!(published["groups"][0]["scores"]["im1"]["n"], 29);
    let failed = json(score("gb", "mnist_m05_05").args(ALL).arg("--keep-invalid"));
    assert_eq!(failed["groups"][0]["scores"]["im1"]["n"], 28);
    assert_eq!(
        failed["groups"][0]["scores"]["target_class_validity"]["n"],
        30
    );
    assert!(
        failed["notes"]
            .to_string()
            .contains("2 of 30 samples: the method failed")
    );
}

#[test]
fn exact_scores_are_of_valid_counterfactuals_only() {
    let folder = tempfile::tempdir().unwrap();
    let targets = npy(folder.path(), "t.npy", &[30], &[1.0; 30]);
    let own = npy(folder.path(), "o.npy", &[30], &[0.0; 30]);
    // Four that changed, but not to the target.
    let mut predictions = [1.0f32; 30];
    predictions[..4].fill(2.0);
    let predictions = npy(folder.path(), "p.npy", &[30], &predictions);
    let of = |more: &[&str]| {
        let mut command = score("gen", "mnist_m05_05");
        command.args(["--targets", &targets, "--predictions", &predictions]);
        command.args(["--original-predictions", &own]);
        json(command.args(ALL).args(more))
    };
    let n = |found: &Value, name: &str| found["groups"][0]["scores"][name]["n"].clone();
    let exact = of(&[]);
    for name in [
        "elastic_net",
        "im1",
        "im2",
        "fid",
        "oracle_score/mnist_oracle_m05_05",
    ] {
        assert_eq!(n(&exact, name), 26, "{name}");
    }
    assert_eq!(n(&exact, "target_class_validity"), 30);
    let said = "4 of 30 samples: the prediction is not the target; ";
    let notes = exact["notes"].to_string();
    assert!(
        notes.contains(&format!("{said}they count in the validity only")),
        "{notes}"
    );
    let kept = of(&["--keep-invalid"]);
    assert_eq!(n(&kept, "elastic_net"), 30);
    let notes = kept["notes"].to_string();
    assert!(
        notes.contains(&format!("{said}they are kept in every score")),
        "{notes}"
    );
    // The published code asks whether the prediction changed, and leaves out what is black.
    let published = of(&["--protocol", "published"]);
    assert_eq!(n(&published, "elastic_net"), 29);
    let mut command = score("gen", "mnist_m05_05");
    command.args([
        "--metrics",
        "en",
        "--protocol",
        "published",
        "--keep-invalid",
    ]);
    refused(&mut command, &["--keep-invalid", "leave it out"]);
}

#[test]
fn validity_consults_the_target_and_as_published_only_the_change() {
    let folder = tempfile::tempdir().unwrap();
    // Predictions that changed, but to neither the original class nor the target.
    let predictions = npy(folder.path(), "p.npy", &[30], &[9.0; 30]);
    let of = |protocol: &str| {
        let mut command = score("gen", "mnist_m05_05");
        let found = json(command.args([
            "--metrics",
            "tcv",
            "--protocol",
            protocol,
            "--predictions",
            &predictions,
        ]));
        value(&found, "target_class_validity")
    };
    assert_eq!([of("exact"), of("published")], [0.0, 1.0]);
}

#[test]
fn folders_of_images_get_the_same_scores_as_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let images = std::fs::read(array("real.npy")).unwrap();
    let pixels = &images[images.len() - 30 * 144..];
    let mut rows = String::from("original,counterfactual,source,target\n");
    for i in 0..30 {
        let save = |name: &str, change: u8| {
            let of = |x: u32, y: u32| {
                let v = pixels[i * 144 + (y * 12 + x) as usize];
                image::Luma([if y == 6 { v.wrapping_add(change) } else { v }])
            };
            let image = image::GrayImage::from_fn(12, 12, of);
            image.save(folder.path().join(name)).unwrap();
        };
        save(&format!("o{i:02}.png"), 0);
        save(&format!("c{i:02}.png"), 40);
        rows.push_str(&format!("o{i:02}.png,c{i:02}.png,0,{}\n", 1 + i % 2));
    }
    let manifest = folder.path().join("pairs.csv");
    std::fs::write(&manifest, rows).unwrap();
    let oracle = array("mnist_oracle_m05_05.toml");
    let mut command = foil(&[
        "score",
        "--quiet",
        "--device",
        "cpu",
        "--range",
        "-0.5,0.5",
        "--skip-bad",
        "--keep-invalid",
    ]);
    command
        .args(ALL)
        .args(["--classifier", &oracle, "--oracle", &oracle]);
    command
        .args(["--label-model", &format!("digit={oracle}"), "--manifest"])
        .arg(&manifest);
    command
        .arg("--autoencoders")
        .arg(small("autoencoders_mnist_m05_05.safetensors"));
    let found = json(&mut command);
    std::fs::write(
        folder.path().join("two.csv"),
        "original,counterfactual,source,target,method\no00.png,c00.png,0,1,a\no01.png,c01.png,0,1,b\n",
    )
    .unwrap();
    let mut command = foil(&[
        "score",
        "--quiet",
        "--metrics",
        "tcv",
        "--classifier",
        &oracle,
        "--manifest",
    ]);
    refused(
        command.arg(folder.path().join("two.csv")),
        &["one method", "a, b"],
    );
    // Of folders, predictions may come from files too.
    let [zeros, ones] = [("zeros.npy", 0.0), ("ones.npy", 1.0)]
        .map(|(name, class)| npy(folder.path(), name, &[30], &[class; 30]));
    for (more, share) in [(&[][..], 0.5), (&["--targets", ones.as_str()][..], 1.0)] {
        let mut command = foil(&["score", "--quiet", "--metrics", "tcv", "--manifest"]);
        command.arg(&manifest).args(["--predictions", &ones]);
        command.args(["--original-predictions", &zeros]).args(more);
        assert_eq!(value(&json(&mut command), "target_class_validity"), share);
    }
    // The oracle is the classifier, so it agrees with itself.
    assert_eq!(value(&found, "oracle_score/mnist_oracle_m05_05"), 1.0);
    let bytes: Vec<f32> = pixels.iter().map(|&v| f32::from(v)).collect();
    let changed: Vec<f32> = pixels
        .iter()
        .enumerate()
        .map(|(i, &v)| {
            f32::from(if i % 144 / 12 == 6 {
                v.wrapping_add(40)
            } else {
                v
            })
        })
        .collect();
    let targets: Vec<f32> = (0..30).map(|i| (1 + i % 2) as f32).collect();
    let [o, c, t] = [
        npy(folder.path(), "o.npy", &[30, 12, 12], &bytes),
        npy(folder.path(), "c.npy", &[30, 1, 12, 12], &changed),
        npy(folder.path(), "t.npy", &[30], &targets),
    ];
    let mut command = foil(&[
        "score",
        "--quiet",
        "--device",
        "cpu",
        "--range",
        "-0.5,0.5",
        "--skip-bad",
        "--keep-invalid",
    ]);
    command
        .args(ALL)
        .args(["--classifier", &oracle, "--oracle", &oracle]);
    command.args(["--label-model", &format!("digit={oracle}")]);
    command.args(["--originals", &o, "--counterfactuals", &c, "--targets", &t]);
    command
        .arg("--autoencoders")
        .arg(small("autoencoders_mnist_m05_05.safetensors"));
    let arrays = json(&mut command);
    // Pairs are summed in the order of their groups, arrays in their own: the last digits may differ.
    let names = found["groups"][0]["scores"].as_object().unwrap();
    assert_eq!(names.len(), 12);
    for name in names.keys() {
        let (a, b) = (value(&found, name), value(&arrays, name));
        assert!((a - b).abs() <= 1e-10 * b.abs(), "{name}: {a} and {b}");
    }
}

#[test]
fn results_over_samples_are_written_and_make_a_table_with_bars() {
    let folder = tempfile::tempdir().unwrap();
    for method in ["gb", "gen"] {
        let out = folder.path().join(method);
        let mut command = score(method, "mnist_m05_05");
        command
            .args(ALL)
            .args(["--method", &method.to_uppercase(), "--out"])
            .arg(&out);
        command.assert().success();
        let rows = std::fs::read_to_string(out.join("pairs.csv")).unwrap();
        assert_eq!(rows.lines().count(), 31);
        assert!(rows.starts_with("index,original_prediction,target,prediction,kept,l1"));
    }
    let bars = folder.path().join("lvs.svg");
    let mut tables = foil(&["tables", "--format", "markdown", "--from"]);
    tables
        .arg(folder.path().join("gb"))
        .arg(folder.path().join("gen"));
    tables
        .arg("--bars")
        .arg(&bars)
        .assert()
        .success()
        .stdout(contains("| metric | GB | GEN |"));
    // These would do nothing.
    for option in [
        ["--table", "2"],
        ["--ideal", "0:1"],
        ["--protocol", "exact"],
        ["--spread", "stds"],
    ] {
        let mut tables = foil(&["tables", "--from"]);
        tables.arg(folder.path().join("gb")).args(option);
        refused(&mut tables, &[option[0], "tables of groups"]);
    }
    assert!(std::fs::read_to_string(bars).unwrap().contains("digit"));
}

#[test]
fn im2_of_two_ranges_does_not_share_a_table() {
    let folder = tempfile::tempdir().unwrap();
    for config in ["mnist_m05_05", "mnist_0_1"] {
        let out = folder.path().join(config);
        let mut command = score("gb", config);
        command
            .args(["--metrics", "im2", "--method", config, "--out"])
            .arg(out);
        command.assert().success();
    }
    foil(&["tables", "--from"])
        .arg(folder.path().join("mnist_m05_05"))
        .arg(folder.path().join("mnist_0_1"))
        .assert()
        .code(1)
        .stderr(contains("im2 of mnist_m05_05"))
        .stderr(contains("section 4.2"));
}

#[test]
fn ranges_are_explained_by_section_4_2_whichever_score_clashes_first() {
    let folder = tempfile::tempdir().unwrap();
    for config in ["mnist_m05_05", "mnist_0_1"] {
        let mut command = score("gb", config);
        command.args(ALL).args(["--method", config, "--out"]);
        command.arg(folder.path().join(config)).assert().success();
    }
    foil(&["tables", "--from"])
        .arg(folder.path().join("mnist_m05_05"))
        .arg(folder.path().join("mnist_0_1"))
        .assert()
        .code(1)
        .stderr(contains("elastic_net of mnist_m05_05"))
        .stderr(contains("section 4.2"));
}

/// A copy of a weights file without one tensor.
fn lacking(from: &Path, to: &Path, tensor: &str) {
    let bytes = std::fs::read(from).unwrap();
    let dict = foil::weights::formats::read_bytes(&bytes, "weights").unwrap();
    let mut fewer = foil::tensor::StateDict::new();
    for (name, array) in dict.iter().filter(|(name, _)| *name != tensor) {
        fewer.insert(name, array.clone());
    }
    assert_eq!(fewer.len() + 1, dict.len());
    foil::weights::formats::write_safetensors(&fewer, to, &Default::default()).unwrap();
}

#[test]
fn a_network_that_lacks_a_bias_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let ae = folder.path().join("ae.safetensors");
    let whole = small("autoencoders_mnist_m05_05.safetensors");
    lacking(&whole, &ae, "ae_2.decoder.conv2.bias");
    let mut command = foil(&["score", "--quiet", "--metrics", "im1", "--originals"]);
    command.args([&array("real.npy"), "--counterfactuals", &array("gen.npz")]);
    command
        .args(["--range", "-0.5,0.5", "--autoencoders"])
        .arg(&ae);
    refused(
        &mut command,
        &["ae.safetensors", "`ae_2.decoder.conv2.bias`"],
    );

    let net = "mnist_oracle_m05_05";
    for tensor in ["conv1.bias", "dense1.bias"] {
        let whole = array(&format!("{net}.safetensors"));
        let part = folder.path().join(format!("{net}.safetensors"));
        lacking(Path::new(&whole), &part, tensor);
        let card = folder.path().join(format!("{net}.toml"));
        std::fs::copy(array(&format!("{net}.toml")), &card).unwrap();
        let mut command = foil(&["score", "--quiet", "--metrics", "oracle", "--originals"]);
        command.args([&array("real.npy"), "--counterfactuals", &array("gen.npz")]);
        command.args(["--range", "-0.5,0.5", "--oracle"]).arg(&card);
        command.assert().failure().stderr(contains(tensor));
    }
}

#[test]
fn a_black_counterfactual_that_is_left_out_is_not_said_to_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    // Sample 7 of GEN is black.
    let mut targets = [1.0f32; 30];
    targets[7] = 0.0;
    let targets = npy(folder.path(), "t.npy", &[30], &targets);
    let own = npy(folder.path(), "o.npy", &[30], &[0.0; 30]);
    let mut command = score("gen", "mnist_m05_05");
    command.args(["--metrics", "tcv,en", "--skip-bad", "--targets", &targets]);
    let found = json(command.args(["--original-predictions", &own]));
    let notes = found["notes"].to_string();
    assert!(
        notes.contains("1 of 30 samples: the target is the prediction"),
        "{notes}"
    );
    assert!(!notes.contains("black"), "{notes}");
}

/// A study of GB and GEN with these lines; the targets of GEN are its predictions on the originals if `equal`.
fn study(folder: &Path, lines: &str, equal: bool) -> Command {
    let targets = match equal {
        true => format!("targets = \"{}::orig_pred\"\n", array("gen.npz")),
        false => String::new(),
    };
    let text = format!(
        "range = [-0.5, 0.5]\noriginals = \"{}\"\n{lines}\n[[method]]\nname = \"GB\"\ncounterfactuals = \"{}\"\n[[method]]\nname = \"GEN\"\ncounterfactuals = \"{}\"\n{targets}",
        array("real.npy"),
        array("gb.npz"),
        array("gen.npz")
    );
    std::fs::write(folder.join("study.toml"), text).unwrap();
    let mut command = foil(&["study", "quantitative", "--data", "mnist", "--quiet"]);
    command.args(["--device", "cpu", "--force", "--config"]);
    command
        .arg(folder.join("study.toml"))
        .arg("--out")
        .arg(folder.join("out"));
    command
}

#[test]
fn a_study_with_equal_targets_advises_its_configuration_and_begins_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = study(folder.path(), "", true);
    refused(
        &mut command,
        &[
            "study.toml",
            "method GEN",
            "30 such samples",
            "`skip_bad = true`",
            "`protocol = ",
        ],
    );
    // The first method could have been scored.
    assert!(!folder.path().join("out").exists());
    let oracle = format!(
        "explained = \"shoe\"\n[label_models]\ndigit = \"{}\"\n",
        array("mnist_oracle_m05_05.toml")
    );
    let mut command = study(folder.path(), &oracle, false);
    refused(
        &mut command,
        &["study.toml", "explained label \"shoe\"", "digit"],
    );
    assert!(!folder.path().join("out").exists());
    let mut command = foil(&["study", "quantitative", "--data", "celeba-hq", "--quiet"]);
    command
        .arg("--config")
        .arg(folder.path().join("study.toml"));
    std::fs::write(
        folder.path().join("study.toml"),
        std::fs::read_to_string(folder.path().join("study.toml"))
            .unwrap()
            .replace("\"shoe\"", "\"digit\""),
    )
    .unwrap();
    command.arg("--out").arg(folder.path().join("out"));
    refused(
        &mut command,
        &["--data celeba-hq", "images of colours", "grey images"],
    );
    assert!(!folder.path().join("out").exists());
    let mut command = study(folder.path(), "skip_bad = true\nkeep_invalid = true", false);
    let output = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8_lossy(&output);
    // Failed ones are told, and how many count; a share has both ends of its interval; there is no chart without LVS.
    for words in [
        "GB: 28 of 30, GEN: 30 of 30",
        "GB: 2 of 30 samples: the method failed",
        "GEN: 1 of 30 samples: the counterfactual is entirely black",
        "0.9667 [0.8333, 0.9941]",
        "counterfactuals.png",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("lvs.svg") && !text.contains("LVS"), "{text}");
}

#[test]
fn a_study_of_several_evaluation_models_shows_their_spread() {
    let folder = tempfile::tempdir().unwrap();
    let oracle = array("mnist_oracle_m05_05.toml");
    let other = array("mnist_oracle_0_1.toml");
    let ae = small("autoencoders_mnist_m05_05.safetensors");
    let seeds = format!(
        "oracle = \"{oracle}\"\n[[seed]]\noracle = \"{oracle}\"\nautoencoders = \"{0}\"\n[[seed]]\noracle = \"{other}\"\nautoencoders = \"{0}\"\n[label_models]\ndigit = \"{oracle}\"\n",
        ae.display()
    );
    let output = study(folder.path(), &seeds, false).assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    for words in [
        "Scores over 2 sets of evaluation models",
        "seeds.svg",
        "LVS (digit) ↑",
        "lvs.svg",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // The same auto-encoders twice: no spread; two oracles have one.
    let spread = text.split("sets of evaluation models").nth(1).unwrap();
    let line = |name: &str| {
        spread
            .lines()
            .find(|l| l.starts_with(name))
            .unwrap()
            .to_owned()
    };
    for name in ["IM1 ", "100 IM2"] {
        assert_eq!(line(name).matches("± 0.0000").count(), 2, "{text}");
    }
    assert!(!line("FID").contains("± 0.0000"), "{text}");
    assert!(text.contains("Student's t"), "{text}");
    let svg = std::fs::read_to_string(folder.path().join("out/seeds.svg")).unwrap();
    assert!(svg.contains("GEN IM1:"), "{svg}");
    // Names that lead out of the folder or are there twice, and the same networks under two names.
    let named = |names: [&str; 2]| {
        let seed = |name: &str| format!("[[seed]]\nname = \"{name}\"\noracle = \"{oracle}\"\n");
        names.map(seed).concat()
    };
    for (names, words) in [
        (["../../escaped", "b"], &["seed name", "../../escaped"][..]),
        (["a", "a"], &["seed \"a\"", "twice"]),
        (
            ["a", "b"],
            &["[[seed]] \"b\"", "[[seed]] \"a\"", "no spread"],
        ),
    ] {
        let mut command = study(folder.path(), &named(names), false);
        let output = command.assert().failure().get_output().stderr.clone();
        let text = String::from_utf8_lossy(&output).into_owned();
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
    let one = format!("[[seed]]\noracle = \"{oracle}\"\n");
    refused(
        &mut study(folder.path(), &one, false),
        &["[[seed]]", "two or more"],
    );
}

#[test]
fn label_variation_has_an_arrow_where_the_explained_label_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("gb");
    let other = array("mnist_oracle_0_1.toml");
    let mut command = score("gb", "mnist_m05_05");
    command
        .args(ALL)
        .args(["--label-model", &format!("hat={other}"), "--out"]);
    command.arg(&out).assert().success();
    let table = |more: &[&str]| {
        let output = foil(&["tables", "--from"])
            .arg(&out)
            .args(more)
            .assert()
            .success();
        String::from_utf8_lossy(&output.get_output().stdout).into_owned()
    };
    // The label model of the digit is the oracle.
    let text = table(&[]);
    assert!(
        text.contains("LVS (digit) ↑") && text.contains("LVS (hat) ↓"),
        "{text}"
    );
    let text = table(&["--explained", "hat"]);
    assert!(
        text.contains("LVS (digit) ↓") && text.contains("LVS (hat) ↑"),
        "{text}"
    );
    let mut command = foil(&["tables", "--explained", "shoe", "--from"]);
    refused(command.arg(&out), &["\"shoe\"", "digit, hat"]);
}

/// Exit code 2 and a message with all the words.
fn refused(command: &mut Command, words: &[&str]) {
    let output = command.assert().code(2).get_output().stderr.clone();
    let text = String::from_utf8_lossy(&output).into_owned();
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn arrays_of_other_shapes_are_refused_with_both_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let few = npy(folder.path(), "few.npy", &[29, 12, 12], &[7.0; 29 * 144]);
    let mut command = score("gb", "mnist_m05_05");
    refused(
        command.args(ALL).args(["--original-predictions", &few]),
        &[
            "--original-predictions",
            "[29, 12, 12]",
            "one class for each image",
        ],
    );
    let mut command = foil(&[
        "score",
        "--quiet",
        "--metrics",
        "en",
        "--originals",
        &few,
        "--counterfactuals",
    ]);
    refused(
        command.arg(array("gb.npz")),
        &["counterfactuals", "29 images of 1 x 12 x 12", "30 images"],
    );
    let flat = npy(folder.path(), "flat.npy", &[30, 144], &[7.0; 30 * 144]);
    let mut command = foil(&[
        "score",
        "--quiet",
        "--metrics",
        "en",
        "--originals",
        &flat,
        "--counterfactuals",
    ]);
    refused(
        command.arg(array("gb.npz")),
        &["flat.npy", "[n, rows, columns]", "[30, 144]"],
    );
    let short = npy(folder.path(), "short.npy", &[12], &[1.0; 12]);
    let mut command = score("gb", "mnist_m05_05");
    refused(
        command.args(ALL).args(["--targets", &short]),
        &["targets", "30 classes", "found 12"],
    );
}

#[test]
fn targets_that_are_the_prediction_already_are_refused_or_counted() {
    let original = format!("{}::orig_pred", array("gen.npz"));
    let mut command = score("gen", "mnist_m05_05");
    refused(
        command.args(ALL).args(["--targets", &original]),
        &[
            "targets, sample 0",
            "30 such samples",
            "--skip-bad",
            "--protocol published",
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    let one = npy(folder.path(), "t.npy", &[30], &{
        let mut targets = [1.0f32; 30];
        targets[3] = 0.0;
        targets
    });
    let own = npy(folder.path(), "o.npy", &[30], &[0.0; 30]);
    let mut command = score("gen", "mnist_m05_05");
    command.args([
        "--metrics",
        "tcv,en",
        "--skip-bad",
        "--keep-invalid",
        "--targets",
        &one,
        "--original-predictions",
        &own,
    ]);
    let found = json(&mut command);
    assert_eq!(found["groups"][0]["scores"]["elastic_net"]["n"], 29);
    assert_eq!(
        found["groups"][0]["scores"]["target_class_validity"]["n"],
        29
    );
    assert!(
        found["notes"]
            .to_string()
            .contains("1 of 30 samples: the target is the prediction")
    );
}

#[test]
fn a_class_without_an_autoencoder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let seven = npy(folder.path(), "t.npy", &[30], &[7.0; 30]);
    let mut command = score("gen", "mnist_m05_05");
    refused(
        command
            .args(ALL)
            .args(["--keep-invalid", "--targets", &seven]),
        &["one of class 7", "classes 0, 1, 2", "--autoencoder 7=CARD"],
    );
    let mut command = foil(&["score", "--quiet", "--metrics", "im1", "--originals"]);
    command.args([&array("real.npy"), "--counterfactuals", &array("gen.npz")]);
    refused(
        command.args(["--range", "0,1"]),
        &["auto-encoders of the classes", "--autoencoders FILE"],
    );
}

/// A command without --range over arrays from −0.5 to 0.25, which say nothing of black and white.
fn without_range(folder: &Path, more: &[&str]) -> Command {
    let values = |seed: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 7 + seed) % 4) as f32 * 0.25 - 0.5;
        (0..30 * 144).map(value).collect()
    };
    let [x, c] = [("x.npy", 0), ("c.npy", 1)]
        .map(|(name, seed)| npy(folder, name, &[30, 12, 12], &values(seed)));
    let [zeros, ones] = [("zeros.npy", 0.0), ("ones.npy", 1.0)]
        .map(|(name, class)| npy(folder, name, &[30], &[class; 30]));
    let mut command = foil(&["score", "--quiet", "--device", "cpu"]);
    command.args(["--originals", &x, "--counterfactuals", &c]);
    command.args(["--original-predictions", &zeros, "--targets", &ones]);
    command.args(["--predictions", &ones]).args(more);
    command
}

#[test]
fn arrays_that_networks_look_at_need_a_range() {
    let folder = tempfile::tempdir().unwrap();
    let ae = small("autoencoders_mnist_m05_05.safetensors");
    let ae = ae.display().to_string();
    let oracle = array("mnist_oracle_m05_05.toml");
    let words = ["--range", "black and white", "-0.5 to 0.25", "trained on"];
    let ims = ["--metrics", "im1,im2,en", "--autoencoders", &ae];
    refused(&mut without_range(folder.path(), &ims), &words);
    let oracles = ["--metrics", "oracle", "--oracle", &oracle];
    refused(&mut without_range(folder.path(), &oracles), &words);
    // Distances are taken of the values as they are.
    let en = without_range(folder.path(), &["--metrics", "en"])
        .assert()
        .success();
    let said = String::from_utf8_lossy(&en.get_output().stdout).into_owned();
    assert!(said.contains("Range of values: -1 to 1."), "{said}");
    let given = [&ims[..], &["--range", "-0.5,0.5"]].concat();
    without_range(folder.path(), &given)
        .assert()
        .success()
        .stdout(contains("Range of values: -0.5 to 0.5."));
    // Black and white of 8-bit pixels are known; which values the auto-encoders know is not.
    let mut eight = foil(&["score", "--quiet", "--device", "cpu", "--metrics", "im1"]);
    eight.args(["--originals", &array("real.npy")]);
    eight.args([
        "--counterfactuals",
        &array("gen.npz"),
        "--autoencoders",
        &ae,
    ]);
    eight
        .assert()
        .success()
        .stdout(contains("Range of values: -1 to 1."))
        .stdout(contains("for want of --range"));
}

#[test]
fn classes_that_no_network_knows_are_named_with_their_sample() {
    let folder = tempfile::tempdir().unwrap();
    let twelve = npy(folder.path(), "t12.npy", &[30], &[12.0; 30]);
    let mut one = [1.0f32; 30];
    one[5] = 12.0;
    let one = npy(folder.path(), "one.npy", &[30], &one);
    let own = npy(folder.path(), "own.npy", &[30], &[0.0; 30]);
    let of = |more: &[&str]| {
        let mut command = score("gen", "mnist_m05_05");
        command
            .args(["--original-predictions", &own])
            .args(["--targets", &twelve])
            .args(more);
        command
    };
    let valid = ["--metrics", "tcv,oracle", "--predictions", &twelve];
    refused(
        &mut of(&valid),
        &["targets, sample 0", "the oracle mnist_oracle_m05_05", "12"],
    );
    let oracle = array("mnist_oracle_m05_05.toml");
    let asked = ["--metrics", "tcv", "--classifier", &oracle];
    refused(&mut of(&asked), &["targets, sample 0", "the classifier"]);
    // Samples that are not valid count as well.
    let mut command = score("gen", "mnist_m05_05");
    command.args(["--original-predictions", &own, "--targets", &one]);
    refused(
        command.args(["--metrics", "tcv,im1", "--predictions", &own]),
        &["targets, sample 5", "one of class 12", "classes 0, 1, 2"],
    );
}

#[test]
fn values_that_are_not_finite_or_out_of_the_range_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut values = vec![0.25f32; 30 * 144];
    values[3 * 144 + 5] = f32::NAN;
    let bad = npy(folder.path(), "nan.npy", &[30, 12, 12], &values);
    let gen_file = array("gen.npz");
    let with = |file: &str| {
        let mut command = foil(&[
            "score",
            "--quiet",
            "--metrics",
            "en",
            "--range",
            "0,1",
            "--originals",
            file,
        ]);
        command.args(["--counterfactuals", &gen_file]);
        command
    };
    refused(&mut with(&bad), &["nan.npy", "image 3", "NaN"]);
    values[3 * 144 + 5] = 1.5;
    let far = npy(folder.path(), "far.npy", &[30, 12, 12], &values);
    refused(
        &mut with(&far),
        &["originals", "values from 0 to 1", "1.5", "--range"],
    );
}

#[test]
fn metrics_that_do_not_go_together_and_options_without_meaning_are_refused() {
    let mut command = score("gen", "mnist_m05_05");
    refused(
        command.args(["--metrics", "im1,lpips"]),
        &["lpips", "run of its own"],
    );
    let mut command = score("gen", "mnist_m05_05");
    refused(command.args(["--metrics", "tcv,fid"]), &["fid:embedding"]);
    let mut command = score("gen", "mnist_m05_05");
    refused(
        command.args(["--metrics", "tcv", "--dry-run"]),
        &["--dry-run", "leave it out"],
    );
}

/// MNIST's shapes in small: 60 and 10 images of 12 rows.
fn small_mnist(folder: &Path) {
    for (part, n) in [("train", 60u8), ("t10k", 10)] {
        let mut images = vec![0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 12, 0, 0, 0, 2];
        images.extend((0..n).flat_map(|i| [i; 24]));
        let mut labels = vec![0, 0, 8, 1, 0, 0, 0, n];
        labels.extend((0..n).map(|i| i % 10));
        std::fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images).unwrap();
        std::fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
    }
}

#[test]
fn fakemnist_is_built_from_mnist_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("fake");
    small_mnist(folder.path());
    let mut command = foil(&["fakemnist", "--mnist"]);
    command
        .arg(folder.path())
        .arg("--out")
        .arg(&out)
        .assert()
        .success();
    let read = |name: &str| std::fs::read(out.join(name)).unwrap();
    let (images, labels) = (
        read("t10k-images-idx3-ubyte"),
        read("t10k-labels-idx1-ubyte"),
    );
    let digits = read("t10k-digits-idx1-ubyte");
    for i in 0..10 {
        let image = &images[16 + i * 24..16 + (i + 1) * 24];
        assert_eq!(image[usize::from(labels[8 + i]) * 2], 255);
        // Sources are told by the grey level.
        assert_eq!(digits[8 + i], image[1] % 10);
    }
    // Neither MNIST itself nor an earlier result is written over.
    for (into, said) in [(folder.path(), "folder of --mnist"), (&out, "--force")] {
        let mut command = foil(&["fakemnist", "--mnist"]);
        refused(command.arg(folder.path()).arg("--out").arg(into), &[said]);
    }
    std::fs::remove_file(folder.path().join("t10k-labels-idx1-ubyte")).unwrap();
    let mut command = foil(&["fakemnist", "--mnist"]);
    refused(
        command.arg(folder.path()).arg("--out").arg(&out),
        &["t10k-labels-idx1-ubyte", "--mnist"],
    );
}

/// `FOIL_MNIST` names a folder of MNIST's four files; the published sheets are in the reference folder.
#[test]
fn fakemnist_equals_the_published_arrays() {
    let reference = std::env::var_os("FOIL_REFERENCE")
        .map_or_else(|| root().join("../shared/reference"), PathBuf::from)
        .join("hvilshoj");
    let mnist = std::env::var_os("FOIL_MNIST").map(PathBuf::from);
    let Some(mnist) = mnist.filter(|_| reference.is_dir()) else {
        println!("skipped: FOIL_MNIST or {} is absent", reference.display());
        return;
    };
    let out = tempfile::tempdir().unwrap();
    let mut command = foil(&["fakemnist", "--published-grey-levels", "--mnist"]);
    command
        .arg(mnist)
        .arg("--out")
        .arg(out.path())
        .assert()
        .success();
    let images = std::fs::read(out.path().join("t10k-images-idx3-ubyte")).unwrap();
    let sheet = image::open(reference.join("fakemnist_real_images.png"))
        .unwrap()
        .to_luma8();
    for i in 0..10_000u32 {
        let (top, left) = (i / 100 * 28, i % 100 * 28);
        let start = 16 + i as usize * 784;
        for (at, &value) in images[start..start + 784].iter().enumerate() {
            let (x, y) = (left + at as u32 % 28, top + at as u32 / 28);
            assert_eq!(sheet.get_pixel(x, y).0[0], value, "image {i}, pixel {at}");
        }
    }
    let bytes = std::fs::read(reference.join("fakemnist_labels.safetensors")).unwrap();
    let arrays = foil::tensor::TypedArrays::from_bytes(&bytes, "labels").unwrap();
    for (array, file) in [
        ("real.label", "t10k-labels-idx1-ubyte"),
        ("real.digit_label", "t10k-digits-idx1-ubyte"),
    ] {
        let expected = arrays.i64(array).unwrap();
        let found = std::fs::read(out.path().join(file)).unwrap();
        let found: Vec<i64> = found[8..].iter().map(|&v| i64::from(v)).collect();
        assert_eq!(found, expected, "{array}");
    }
}
