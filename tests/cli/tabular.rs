//! `foil tabular` and `foil study tabular` on Balance Scale, which the program makes from its rules.

use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use tempfile::TempDir;

fn foil(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("foil").unwrap();
    command.args(args);
    command
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A folder with the data set, its schema and a network.
struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance/builtin/tabular");
        let schema = std::fs::read_to_string(built.join("datasets/schema.json")).unwrap();
        let all: Value = serde_json::from_str(&schema).unwrap();
        std::fs::write(world.at("s.json"), all["BalanceScale"].to_string()).unwrap();
        let data = world.at("d.csv");
        foil(&[
            "tabular",
            "datasets",
            "--generate",
            "BalanceScale",
            "--out",
            &data,
        ])
        .assert()
        .success()
        .stdout(contains("625 rows"));
        std::fs::copy(
            built.join("models/BalanceScale.safetensors"),
            world.at("m.safetensors"),
        )
        .unwrap();
        world
    }

    fn at(&self, name: &str) -> String {
        text(&self.folder.path().join(name))
    }

    fn run(&self, command: &str, more: &[&str]) -> Command {
        let (data, schema) = (self.at("d.csv"), self.at("s.json"));
        let mut args = vec!["tabular", command, "--data", &data, "--schema", &schema];
        args.extend(more);
        foil(&args)
    }
}

#[test]
fn counterfactuals_are_made_scored_and_ranked() {
    let world = World::new();
    let model = world.at("m.safetensors");
    for method in ["mace", "growing-spheres"] {
        let out = world.at(&format!("{method}.csv"));
        let args = [
            "--model", &model, "--method", method, "--select", "5", "--out", &out, "-q",
        ];
        world
            .run("explain", &args)
            .assert()
            .success()
            .stdout(contains("10 of 10 rows have a counterfactual"));
        let (name, json) = (
            format!("BalanceScale/{method}"),
            world.at(&format!("{method}.json")),
        );
        let args = [
            "--model",
            &model,
            "--select",
            "5",
            "--counterfactuals",
            &out,
            "--name",
            &name,
            "--out",
            &json,
            "--json",
        ];
        let output = world.run("score", &args).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let scores: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = scores["rows"].as_array().unwrap();
        assert!(
            rows.iter()
                .all(|r| r["coverage"] == true && r["ruc"] == true && r["rmc"] == true)
        );
    }
    let files = ["mace", "growing-spheres"].map(|m| world.at(&format!("{m}.json")));
    let svg = world.at("svg");
    foil(&["tabular", "rank", &files[0], &files[1], "--svg", &svg])
        .assert()
        .success()
        .stdout(contains("Table 4").and(contains("sparsity")));
    assert!(Path::new(&svg).join("sparsity_any.svg").is_file());
}

#[test]
fn immutable_features_stay_and_results_do_not_depend_on_threads() {
    let world = World::new();
    let model = world.at("m.safetensors");
    let outputs = ["1", "2"].map(|threads| {
        let out = world.at(&format!("{threads}.csv"));
        let args = [
            "--model",
            &model,
            "--method",
            "lore",
            "--select",
            "3",
            "--immutable",
            "left_weight",
            "--seed",
            "7",
            "--out",
            &out,
            "-q",
            "--threads",
            threads,
        ];
        world.run("explain", &args).assert().success();
        std::fs::read_to_string(out).unwrap()
    });
    assert_eq!(outputs[0], outputs[1]);
    let data = std::fs::read_to_string(world.at("d.csv")).unwrap();
    let rows: Vec<&str> = data.lines().skip(1).collect();
    for line in outputs[0].lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let factual = rows[cells[0].parse::<usize>().unwrap()];
        assert_eq!(cells[2], factual.split(',').next().unwrap());
    }
}

#[test]
fn a_study_is_resumed_and_its_tables_come_with_the_last_shard() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance/builtin/tabular");
    let (data, out) = (text(&data), text(&folder.path().join("out")));
    let study = |more: &[&str]| {
        let methods = "sedc,mace,synas";
        let mut args = vec![
            "study",
            "tabular",
            "--data",
            &data,
            "--methods",
            methods,
            "--factuals",
            "3",
            "--out",
            &out,
            "-q",
        ];
        args.extend(more);
        foil(&args)
    };
    study(&["--shard", "1/2"])
        .assert()
        .success()
        .stdout(contains("of 3 results are there"));
    study(&["--shard", "2/2"])
        .assert()
        .code(2)
        .stderr(contains("--resume"));
    study(&["--shard", "2/2", "--resume"])
        .assert()
        .success()
        .stdout(contains("realistic").and(contains("Table 5")));
    study(&["--resume", "--seed", "1"])
        .assert()
        .code(2)
        .stderr(contains("made from other"));
}

#[test]
fn bad_tables_and_models_are_named_with_their_place() {
    let world = World::new();
    let (model, out) = (world.at("m.safetensors"), world.at("x.csv"));
    let explain = |more: &[&str]| {
        let mut args = vec!["--model", &model, "--method", "sedc", "--out", &out, "-q"];
        args.extend(more);
        world.run("explain", &args)
    };
    let write = |name: &str, lines: &str| {
        let path = world.at(name);
        std::fs::write(&path, lines).unwrap();
        path
    };
    let header = "left_weight,left_distance,right_weight,right_distance\n";
    let bad = write("bad.csv", &format!("{header}1,1,9,1\n"));
    explain(&["--factuals", &bad])
        .assert()
        .code(1)
        .stderr(contains(
            "line 2, column 3 (`right_weight`): expected one of 1, 2, 3, 4, 5, found \"9\"",
        ));
    let short = write("short.csv", &format!("{header}1,1\n"));
    explain(&["--factuals", &short])
        .assert()
        .code(1)
        .stderr(contains("expected 4 cells"));
    explain(&["--immutable", "colour"])
        .assert()
        .code(2)
        .stderr(contains("no feature `colour`"));
    explain(&["--target", "1", "--factuals", &world.at("d.csv")])
        .assert()
        .code(1)
        .stderr(contains("which is the wished one"));
    let other = write(
        "iris.csv",
        "a,b,class\n1.5,2,x\n2.5,3,y\n3.5,1,x\n1,2,y\n2,8,x\n3,4,y\n1,7,x\n9,2,y\n6,5,x\n4,6,y\n",
    );
    foil(&[
        "tabular", "explain", "--data", &other, "--model", &model, "--method", "sedc", "--out",
        &out, "-q",
    ])
    .assert()
    .code(1)
    .stderr(contains(
        "a network of 20 inputs, but the data encode to 2 columns",
    ));
    let constant = write("constant.csv", "a,b,c,class\n1.5,7,1,x\n1.5,3,2,y\n");
    let schema = write(
        "constant.json",
        r#"{"features": [{"name": "a", "kind": "numerical"}, {"name": "b", "kind": "numerical"}]}"#,
    );
    foil(&[
        "tabular", "train", "--data", &constant, "--schema", &schema, "--out", &out,
    ])
    .assert()
    .code(1)
    .stderr(contains("a constant number cannot be scaled"));
    foil(&[
        "tabular",
        "train",
        "--data",
        &world.at("absent.csv"),
        "--schema",
        &schema,
        "--out",
        &out,
    ])
    .assert()
    .code(1)
    .stderr(contains("absent.csv"));
}

#[test]
fn a_schema_is_guessed_and_a_network_is_trained() {
    let world = World::new();
    let (data, out) = (world.at("d.csv"), world.at("trained.safetensors"));
    foil(&["tabular", "train", "--data", &data, "--print-schema"])
        .assert()
        .success()
        .stdout(contains("\"categorical\"").and(contains("left_weight")));
    let args = [
        "--out",
        &out,
        "--hidden",
        "16",
        "--epochs",
        "30",
        "--learning-rate",
        "0.01",
    ];
    let output = world.run("train", &args).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let test = shown
        .rsplit("test ")
        .next()
        .unwrap()
        .trim()
        .parse::<f64>()
        .unwrap();
    assert!(test > 0.95, "{shown}");
}

/// A network of dense layers that another program wrote, asked by methods that need no gradient.
#[test]
fn models_of_other_programs_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| text(&folder.path().join(name));
    let mut table = String::from("a,b,c,d,class\n");
    for i in 0..40 {
        let value = |k: i32| f64::from((i * (3 + k) + 7 * k) % 17) / 4.0 - 2.0;
        table.push_str(&format!(
            "{},{},{},{},{}\n",
            value(0),
            value(1),
            value(2),
            value(3),
            i % 2
        ));
    }
    std::fs::write(at("d.csv"), table).unwrap();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/attribution");
    let run = |model: &str, method: &str| {
        let model = match model.starts_with('/') {
            true => model.to_string(),
            false => text(&models.join(model)),
        };
        foil(&[
            "tabular",
            "explain",
            "--data",
            &at("d.csv"),
            "--model",
            &model,
            "--method",
            method,
            "--select",
            "4",
            "--out",
            &at("cf.csv"),
            "-q",
        ])
    };
    for method in ["growing-spheres", "sedc", "lore"] {
        run("gemm.onnx", method)
            .assert()
            .success()
            .stdout(contains("rows have a counterfactual"));
    }
    run("gemm.onnx", "growing-spheres").assert().success();
    foil(&[
        "tabular",
        "score",
        "--data",
        &at("d.csv"),
        "--model",
        &text(&models.join("gemm.onnx")),
        "--select",
        "4",
        "--counterfactuals",
        &at("cf.csv"),
        "--json",
    ])
    .assert()
    .success()
    .stdout(contains("\"coverage\": true"));
    run("gemm.onnx", "dice")
        .assert()
        .code(2)
        .stderr(contains("dice needs the gradient of a network"));
    run("mlp.onnx", "sedc")
        .assert()
        .code(1)
        .stderr(contains("expected probabilities of class 1"));
    run("conv.onnx", "sedc")
        .assert()
        .code(1)
        .stderr(contains("operation Conv"));
    let other = at("two.csv");
    std::fs::write(
        &other,
        "a,b,class\n1.5,2,x\n2.5,3,y\n3.5,1,x\n1,2,y\n2,8,x\n3,4,y\n1,7,x\n9,2,y\n6,5,x\n4,6,y\n",
    )
    .unwrap();
    foil(&[
        "tabular",
        "explain",
        "--data",
        &other,
        "--model",
        &text(&models.join("gemm.onnx")),
        "--method",
        "sedc",
        "--out",
        &at("x.csv"),
        "-q",
    ])
    .assert()
    .code(1)
    .stderr(contains(
        "a network of 4 inputs, but the data encode to 2 columns",
    ));
}

/// One-hot columns of a feature add up to 1, so that their covariance has no inverse: the pseudo-inverse is taken, and the user is told.
#[test]
fn a_singular_covariance_is_told_and_distances_are_there() {
    let world = World::new();
    let (model, out) = (world.at("m.safetensors"), world.at("cf.csv"));
    let common = ["--model", &model, "--select", "3"];
    let made = [&common[..], &["--method", "sedc", "--out", &out]].concat();
    world.run("explain", &made).assert().success();
    let scored = [&common[..], &["--counterfactuals", &out, "--json"]].concat();
    let output = world.run("score", &scored).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("the covariance has rank 16 of 20: MD is by its pseudo-inverse"),
        "{told}"
    );
    let scores: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = scores["rows"].as_array().unwrap();
    let covered: Vec<&Value> = rows.iter().filter(|r| r["coverage"] == true).collect();
    assert!(!covered.is_empty());
    for row in covered {
        let distance = row["md"].as_f64().unwrap();
        assert!(distance > 0.1 && distance < 100.0, "{distance}");
    }
}
