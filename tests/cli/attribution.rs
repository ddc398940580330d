//! `foil attribution` and `foil study attribution`.

use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use tempfile::TempDir;

fn foil(folder: &TempDir, args: &str) -> Command {
    let mut command = Command::cargo_bin("foil").unwrap();
    command
        .current_dir(folder.path())
        .args(args.split_whitespace());
    command
}

/// A folder with small data and a model.
fn prepared(data: &str, model: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    foil(
        &folder,
        &format!("attribution data {data} --n 120 --test 8 --out d"),
    )
    .assert()
    .success();
    foil(
        &folder,
        &format!("attribution train --data d --model {model} --out m"),
    )
    .assert()
    .success();
    folder
}

fn scores(folder: &TempDir, args: &str) -> Value {
    let line = format!("attribution score --data d --model m --json {args}");
    let output = foil(folder, &line).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

#[test]
fn shapley_values_are_explained_scored_and_near_the_truth() {
    let folder = prepared("--features gaussian --labels linear --rho 0.2", "linear");
    foil(
        &folder,
        "attribution explain --data d --model m --method shap --out w.csv",
    )
    .assert()
    .success();
    foil(
        &folder,
        "attribution explain --data d --model m --method shap --on train --out t.csv",
    )
    .assert()
    .success();
    let found = scores(&folder, "--weights w.csv --train-weights t.csv");
    let value = |name: &str| found["scores"][name]["value"].as_f64().unwrap();
    assert!(
        value("gt-shapley") > 0.9 && value("faithfulness") > 0.8,
        "{found:#}"
    );
    assert_eq!(found["scores"]["gt-shapley"]["standard_error"], 0.0);
    assert!(value("roar") > 0.0 && value("infidelity") >= 0.0);
    foil(
        &folder,
        "attribution explain --data d --model m --method random --out r.csv",
    )
    .assert()
    .success();
    let random = scores(&folder, "--weights r.csv --metrics gt-shapley");
    assert!(random["scores"]["gt-shapley"]["value"].as_f64().unwrap() < value("gt-shapley"));
}

#[test]
fn every_method_explains_every_kind_of_features() {
    for (data, model) in [
        (
            "--features mixture --labels piecewise-constant --rho 0.3",
            "tree",
        ),
        ("--features multinomial --labels linear --trials 9", "mlp"),
    ] {
        let folder = prepared(data, model);
        for method in [
            "random",
            "shap",
            "kernel-shap",
            "bf-shap",
            "shapr",
            "lime",
            "maple",
            "breakdown",
        ] {
            let args = format!(
                "attribution explain --data d --model m --method {method} --points 3 --out {method}.csv"
            );
            foil(&folder, &args).assert().success();
            let text =
                std::fs::read_to_string(folder.path().join(format!("{method}.csv"))).unwrap();
            assert_eq!(text.lines().count(), 4, "{method}");
            assert!(!text.contains("NaN"), "{method}: {text}");
        }
        for conditional in ["observational", "interventional"] {
            let args = format!(
                "--weights shap.csv --draws 100 --most-draws 100 --conditional {conditional}"
            );
            let found = scores(&folder, &args);
            assert!(
                found["scores"]["faithfulness"]["value"].is_number(),
                "{found:#}"
            );
        }
    }
}

#[test]
fn constant_weights_have_a_score_and_weights_that_do_not_fit_an_error() {
    let folder = prepared("--labels nonlinear-additive", "linear");
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "zero.csv",
        format!("a,b,c,d,e\n{}", "0,0,0,0,0\n".repeat(8)),
    );
    let found = scores(&folder, "--weights zero.csv");
    for metric in ["faithfulness", "gt-shapley"] {
        assert_eq!(found["scores"][metric]["value"], 0.0, "{found:#}");
    }
    assert!(
        found["scores"]["infidelity"]["value"].is_number(),
        "{found:#}"
    );
    write("short.csv", "a,b\n1,2\n".into());
    let score = |weights: &str| {
        foil(
            &folder,
            &format!("attribution score --data d --model m --weights {weights}"),
        )
    };
    score("short.csv")
        .assert()
        .code(1)
        .stderr(contains("rows of 5 weights"));
    write("text.csv", "a,b,c,d,e\n1,2,jan,4,5\n".into());
    score("text.csv")
        .assert()
        .code(1)
        .stderr(contains("line 2").and(contains("jan")));
    write(
        "long.csv",
        format!("a,b,c,d,e\n{}", "0,0,0,0,1\n".repeat(9)),
    );
    score("long.csv")
        .assert()
        .code(1)
        .stderr(contains("at most 8 rows"));
}

#[test]
fn settings_that_make_no_sense_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (args, words) in [
        ("data --rho -0.5 --out d", "positive definite"),
        ("data --labels curved --out d", "one of linear"),
        (
            "data --dim 2 --labels nonlinear-additive --out d",
            "at least 4",
        ),
        ("data --features multinomial --out d", "expected linear"),
        (
            "data --weights 1,2 --labels linear --out d",
            "expected 5 numbers",
        ),
        ("train --data d --model forest --out m", "one of linear"),
        (
            "score --data d --model m --weights w --metrics roar",
            "--train-weights",
        ),
    ] {
        let assert = foil(&folder, &format!("attribution {args}")).assert();
        assert.code(2).stderr(contains(words));
    }
    foil(
        &folder,
        "attribution explain --data nowhere --model m --method shap --out w",
    )
    .assert()
    .code(1)
    .stderr(contains("foil attribution data"));
    let folder = prepared("--dim 4 --labels linear", "linear");
    foil(
        &folder,
        "attribution data --dim 6 --labels linear --n 50 --out other",
    )
    .assert()
    .success();
    foil(
        &folder,
        "attribution explain --data other --model m --method shap --out w",
    )
    .assert()
    .code(1)
    .stderr(contains("4 features").and(contains("6 in the data")));
    foil(
        &folder,
        "attribution explain --data d --model m --method shep --out w",
    )
    .assert()
    .code(2)
    .stderr(contains("one of random"));
}

/// Each of these once ended in a panic, an abort, numbers that are none, or was quietly something else.
#[test]
fn what_would_give_no_numbers_is_refused() {
    let folder = prepared("--labels linear", "linear");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("asymmetric.csv", "1,0.3\n0.2,1\n");
    write("flat.csv", "0,0\n0,1\n");
    write("line.csv", "a,b,y\n1,2,3\n2,4,4\n3,6,5\n4,8,1\n5,10,1\n");
    write(
        "days.csv",
        "day,x,y\nmon,1,3\nsat,2,4\nmon,4,5\nsat,0,1\nmon,7,1\n",
    );
    write("w.csv", "1,2,3,4,5\n");
    for (args, code, words) in [
        ("data --noise nan --out o", 2, "--noise"),
        ("data --mean nan,0,0,0,0 --out o", 2, "finite"),
        (
            "data --labels linear --weights inf,0,0,0,0 --out o",
            2,
            "finite",
        ),
        ("data --weights 1,2,3,4,5 --out o", 2, "--labels linear"),
        ("data --trials 7 --out o", 2, "multinomial"),
        (
            "data --features multinomial --labels linear --rho 0.1 --out o",
            2,
            "--rho",
        ),
        ("data --test 1 --variant as-released --out o", 2, "--test 1"),
        (
            "data --dim 2 --labels linear --covariance asymmetric.csv --out o",
            2,
            "mirrored",
        ),
        (
            "data --dim 2 --labels linear --covariance flat.csv --out o",
            2,
            "variance 0",
        ),
        (
            "data --like line.csv --out o",
            2,
            "b: this column is a linear function",
        ),
        (
            "data --like days.csv --out o",
            1,
            "line 2, day: expected a number, found \"mon\"",
        ),
        (
            "data --like days.csv --categories day=mon,tue --out o",
            1,
            "line 3, day: expected one of the categories mon, tue",
        ),
        (
            "data --like days.csv --categories day=mon,mon --out o",
            2,
            "twice",
        ),
        (
            "data --like days.csv --without night --out o",
            2,
            "one of day, x, y",
        ),
        (
            "explain --data d --model m --method shap --kernel-width 1 --out o",
            2,
            "lime",
        ),
        (
            "explain --data d --model m --method lime --samples 1 --out o",
            2,
            "at least 2",
        ),
        (
            "score --data d --model m --weights w.csv --draws 99999999999999",
            2,
            "--most-draws",
        ),
        (
            "score --data d --model m --weights w.csv --most-draws 10",
            2,
            "--most-draws",
        ),
        (
            "score --data d --model m --weights w.csv --standard-error nan",
            2,
            "--standard-error",
        ),
    ] {
        let assert = foil(&folder, &format!("attribution {args}")).assert();
        let assert = assert.code(code).stderr(contains(words));
        let stderr = String::from_utf8_lossy(&assert.get_output().stderr);
        assert!(!stderr.contains("panicked"), "{args}: {stderr}");
        assert!(!folder.path().join("o").exists(), "{args}");
    }
    foil(
        &folder,
        "attribution data --n 1 --test 1 --labels linear --out row",
    )
    .assert()
    .success();
    foil(
        &folder,
        "attribution explain --data row --model m --method maple --out o",
    )
    .assert()
    .code(2)
    .stderr(contains("at least 2"));
}

#[test]
fn weights_of_any_size_and_without_names_have_a_score() {
    let folder = prepared("--labels nonlinear-additive", "mlp");
    let rows = |scale: &str| format!("3{scale},-1{scale},2{scale},0,0.5{scale}\n").repeat(8);
    let score = |name: &str, text: String, more: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        let found = scores(&folder, &format!("--weights {name} {more}"));
        assert_eq!(found["points"], 8);
        ["faithfulness", "gt-shapley", "infidelity"].map(|metric| {
            let value = found["scores"][metric]["value"].as_f64();
            value.unwrap_or_else(|| panic!("{metric}: {found:#}"))
        })
    };
    let usual = score("usual.csv", format!("a,b,c,d,e\n{}", rows("")), "");
    for scale in ["e300", "e-200"] {
        let found = score("scaled.csv", rows(scale), "");
        for (a, b) in usual.iter().zip(&found) {
            assert!((a - b).abs() < 1e-12, "{scale}: {usual:?} {found:?}");
        }
    }
    let nothing = score("zero.csv", "0,0,0,0,0\n".repeat(8), "--variant as-released");
    assert!(nothing[2] > 0.0, "{nothing:?}");
}

#[test]
fn a_twin_has_the_correlations_of_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("a,b,c,quality\n");
    for i in 0..200 {
        let t = f64::from(i);
        let (a, b, c) = (
            (t * 0.7).sin(),
            (t * 0.7).sin() + 0.5 * (t * 1.9).cos(),
            (t * 0.31).cos(),
        );
        text.push_str(&format!("{a},{b},{c},{}\n", (3.0 * a).round()));
    }
    std::fs::write(folder.path().join("t.csv"), text).unwrap();
    foil(&folder, "attribution data --like t.csv --out twin")
        .assert()
        .success()
        .stdout(contains("mean of the features").and(contains("labels")));
    let data: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("twin/dataset.json")).unwrap())
            .unwrap();
    let correlation = data["features"]["covariance"][0][1].as_f64().unwrap();
    assert!((correlation - 0.9).abs() < 0.06, "{correlation}");
    // The same table as its publishers write it, with a column of texts and one that is not wanted.
    let text = std::fs::read_to_string(folder.path().join("t.csv")).unwrap();
    let days = ["day;id", "sat;7", "sun;7"];
    let lines = text.lines().enumerate().map(|(i, line)| {
        let more = if i == 0 { days[0] } else { days[1 + i % 2] };
        format!("{more};{}\n", line.replace(',', ";"))
    });
    std::fs::write(folder.path().join("s.csv"), lines.collect::<String>()).unwrap();
    foil(
        &folder,
        "attribution data --like s.csv --categories day=sun,sat --without id --out days",
    )
    .assert()
    .success()
    .stdout(contains("of 4 gaussian features").and(contains("  day\n")));
    let data: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("days/dataset.json")).unwrap())
            .unwrap();
    let again = data["features"]["covariance"][1][2].as_f64().unwrap();
    assert!((again - correlation).abs() < 1e-12, "{again} {correlation}");
    foil(
        &folder,
        "attribution data --like t.csv --target nothing --out twin2",
    )
    .assert()
    .code(2)
    .stderr(contains("one of a, b, c, quality"));
}

const STUDY: &str = r#"
seeds = 2
train = 60
test = 6
variants = ["correct", "as-released"]
explainers = ["random", "shap", "breakdown"]
[[panel]]
name = "one"
labels = "nonlinear-additive"
model = "linear"
rho = [0.5]
metrics = ["faithfulness", "monotonicity", "roar", "gt-shapley", "infidelity"]
[[panel]]
name = "two"
labels = "linear"
model = "tree"
rho = [0.0, 0.5]
metrics = ["faithfulness"]
"#;

#[test]
fn a_study_in_shards_says_what_one_in_a_piece_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), STUDY).unwrap();
    let study = |rest: &str| {
        foil(
            &folder,
            &format!("study attribution --quiet --config s.toml {rest}"),
        )
    };
    study("--out whole")
        .assert()
        .success()
        .stdout(contains("mean ± std over 2 seeds"));
    study("--out parts --shard 1/2")
        .assert()
        .success()
        .stdout(contains("6 of 12 trials"));
    study("--out parts --shard 2/2")
        .assert()
        .success()
        .stdout(contains("one (nonlinear-additive labels, linear)"));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("whole/results.csv"), read("parts/results.csv"));
    assert_eq!(read("whole/tables.txt"), read("parts/tables.txt"));
    let plot = "two-faithfulness-as-released.svg";
    assert_eq!(
        read(&format!("whole/{plot}")),
        read(&format!("parts/{plot}"))
    );
    // An interrupted study goes on.
    let trial = "whole/trials/linear-tree-rho0.5-seed1-correct.json";
    std::fs::remove_file(folder.path().join(trial)).unwrap();
    study("--out whole")
        .assert()
        .code(2)
        .stderr(contains("--resume"));
    study("--out whole --resume").assert().success();
    assert_eq!(read("whole/results.csv"), read("parts/results.csv"));
    std::fs::write(
        folder.path().join("s.toml"),
        STUDY.replace("test = 6", "test = 7"),
    )
    .unwrap();
    study("--out whole --resume")
        .assert()
        .code(1)
        .stderr(contains("other settings"));
}

#[test]
fn metrics_are_described() {
    let folder = tempfile::tempdir().unwrap();
    foil(&folder, "attribution metrics --why")
        .assert()
        .success()
        .stdout(contains("take it when").and(contains("--conditional interventional")));
}

/// Models of skl2onnx and of PyTorch's layout, written by hand in `scripts/make-attribution-onnx`.
#[test]
fn models_in_onnx_are_explained() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/attribution");
    let expected: Value =
        serde_json::from_slice(&std::fs::read(fixtures.join("onnx.json")).unwrap()).unwrap();
    let rows = &expected["x"];
    let number = |v: &Value| v.as_f64().unwrap();
    let x: Vec<f64> = rows
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|r| r.as_array().unwrap().iter().map(number))
        .collect();
    let rows = foil::attribute::Rows::new(x, 4);
    for name in ["mlp", "gemm", "linear", "trees"] {
        let model = foil::attribute::models::read(&fixtures.join(format!("{name}.onnx"))).unwrap();
        let got = model.for_data(4).unwrap().predict(&rows);
        for (g, e) in got.iter().zip(expected[name].as_array().unwrap()) {
            assert!((g - number(e)).abs() < 1e-5, "{name}: {g} {e}");
        }
    }
    let strange = foil::attribute::models::read(&fixtures.join("conv.onnx")).unwrap_err();
    assert!(strange.to_string().contains("Conv"), "{strange}");
}
