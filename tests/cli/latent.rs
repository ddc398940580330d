//! `foil latent` and `foil study latent`: the real binary on a small world of perceptrons, and on the builtin one.

use std::path::Path;

use assert_cmd::Command;
use foil::explain::latent::{LATENT, Latent, LatentFile, read_latents, write_latents};
use foil::stats::random::{Draws, Stream};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::Value;
use tempfile::TempDir;

fn foil(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("foil").unwrap();
    command.args(&args[..2]).arg("--quiet").args(&args[2..]);
    command
}

fn normals(seed: u64, count: usize, scale: f64) -> Vec<f32> {
    let mut draws = Draws::new(seed, Stream(9999), 0);
    (0..count)
        .map(|_| (scale * draws.normal()) as f32)
        .collect()
}

/// What a world's classifier does.
#[derive(Clone, Copy, PartialEq)]
enum Classifier {
    Random,
    /// It always says 0.
    Constant,
    /// It says 1 where x is more than half a standard deviation from the middle, on either side.
    Sides,
}

/// A world of perceptrons with 8 characters and 8 typefaces.
fn world(classifier: Classifier) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let embeddings = normals(1, 2 * 24, 1.0);
    let rows = |seed: u64, n: usize| -> Vec<f32> {
        let mut draws = Draws::new(seed, Stream(9998), 0);
        (0..n)
            .flat_map(|_| {
                let c = 3 * draws.index_below(8).unwrap();
                let f = 24 + 3 * draws.index_below(8).unwrap();
                let mut row = [&embeddings[c..c + 3], &embeddings[f..f + 3]].concat();
                row.push(f32::from(u8::from(draws.uniform() < 0.5)));
                row.extend((0..4).map(|_| draws.normal() as f32));
                row
            })
            .collect()
    };
    let (train, validation) = (rows(2, 200), rows(3, 160));
    let labels: Vec<i64> = (0..160).map(|i| i % 2).collect();
    let last = match classifier {
        Classifier::Constant => 0.0,
        _ => 1.0,
    };
    let mut arrays: Vec<(&str, Vec<usize>, Vec<f32>)> = vec![
        ("char", vec![8, 3], embeddings[..24].to_vec()),
        ("font", vec![8, 3], embeddings[24..].to_vec()),
        ("g1.weight", vec![12, 11], normals(4, 132, 0.4)),
        ("g1.bias", vec![12], normals(5, 12, 0.1)),
        ("g2.weight", vec![16, 12], normals(6, 192, 0.4)),
        ("g2.bias", vec![16], normals(7, 16, 0.1)),
        ("f1.weight", vec![10, 16], normals(8, 160, 0.6)),
        ("f1.bias", vec![10], normals(9, 10, 0.1)),
        ("f2.weight", vec![2, 10], normals(10, 20, last)),
        (
            "f2.bias",
            vec![2],
            match classifier {
                Classifier::Constant => vec![1.0, 0.0],
                _ => vec![0.0; 2],
            },
        ),
    ];
    if classifier == Classifier::Sides {
        see_sides(&mut arrays);
    }
    save(&folder.path().join("nets.safetensors"), &arrays, &[]);
    arrays.clear();
    arrays.push(("train_latents_raw", vec![200, 11], train));
    arrays.push(("val_latents_raw", vec![160, 11], validation));
    save(
        &folder.path().join("data.safetensors"),
        &arrays,
        &[("val_labels", labels)],
    );
    let card = r#"name = "perceptrons"
[generator]
kind = "perceptron"
file = "nets.safetensors"
layers = ["g1", "g2"]
embeddings = ["char", "font"]
image = [1, 4, 4]
[classifier]
layers = ["f1", "f2"]
[data]
file = "data.safetensors"
tied = [[0, 1, 2], [3, 4, 5]]
"#;
    std::fs::write(folder.path().join("world.toml"), card).unwrap();
    folder
}

/// The image holds the latent's numbers, squeezed; two units of the classifier look at x from both sides.
fn see_sides(arrays: &mut [(&str, Vec<usize>, Vec<f32>)]) {
    const X: usize = 8;
    let squeezed = |raw: f32| (0.1 * raw).tanh().tanh();
    for (name, _, values) in arrays.iter_mut() {
        let zero = |values: &mut Vec<f32>| values.iter_mut().for_each(|v| *v = 0.0);
        match *name {
            "char" | "font" => {}
            "g1.weight" => {
                zero(values);
                (0..11).for_each(|k| values[k * 11 + k] = 0.1);
            }
            "g2.weight" => {
                zero(values);
                (0..12).for_each(|k| values[k * 12 + k] = 1.0);
            }
            "f1.weight" => {
                zero(values);
                values[X] = 1000.0;
                values[16 + X] = -1000.0;
            }
            "f1.bias" => {
                zero(values);
                values[..2].fill(-1000.0 * squeezed(0.5));
            }
            "f2.weight" => {
                zero(values);
                values[10..12].fill(1.0);
            }
            "f2.bias" => values[1] = 1.0,
            _ => zero(values),
        }
    }
}

fn save(path: &Path, floats: &[(&str, Vec<usize>, Vec<f32>)], whole: &[(&str, Vec<i64>)]) {
    let bytes = |v: &[f32]| -> Vec<u8> { v.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let wide = |v: &[i64]| -> Vec<u8> { v.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let mut kept: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    for (name, shape, values) in floats {
        kept.push(((*name).into(), Dtype::F32, shape.clone(), bytes(values)));
    }
    for (name, values) in whole {
        kept.push(((*name).into(), Dtype::I64, vec![values.len()], wide(values)));
    }
    let views = kept.iter().map(|(name, dtype, shape, bytes)| {
        let view = TensorView::new(*dtype, shape.clone(), bytes).unwrap();
        (name.clone(), view)
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

fn explain(world: &TempDir, out: &Path, explainer: &str, more: &[&str]) -> Command {
    let mut command = foil(&[
        "latent",
        "explain",
        "--device",
        "cpu",
        "--explainer",
        explainer,
    ]);
    command
        .arg("--world")
        .arg(world.path())
        .arg("--out")
        .arg(out);
    command.args(["--samples", "3", "--n", "4"]).args(more);
    command
}

fn score(world: &TempDir, latents: &Path, more: &[&str]) -> Value {
    let mut command = foil(&["latent", "score", "--device", "cpu", "--json"]);
    command.args(more);
    command
        .arg("--world")
        .arg(world.path())
        .arg("--latents")
        .arg(latents);
    let output = command.assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

const ALL: [&str; 7] = ["is", "dice", "dive", "gs", "stylex", "latent-cf", "xgem"];

#[test]
fn every_explainer_makes_latents_that_are_scored_by_both_rules() {
    let world = world(Classifier::Random);
    let out = world.path().join("z.safetensors");
    for variant in ["correct", "as-released"] {
        for explainer in ALL {
            explain(&world, &out, explainer, &["--variant", variant])
                .assert()
                .success();
            let file = read_latents(&out).unwrap();
            assert_eq!(file.z_cf.len(), 4 * file.z.len(), "{explainer}");
            let found = score(&world, &out, &["--variant", variant]);
            for reading in ["exact", "as_released"] {
                for number in [
                    "cardinality",
                    "successful",
                    "estimator_flip",
                    "trivial",
                    "causal_flip",
                ] {
                    let value = found[reading][number].as_f64();
                    assert!(
                        value.is_some_and(|v| (0.0..=4.0).contains(&v)),
                        "{explainer} {reading} {number}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_constant_classifier_has_no_flips_and_nothing_hangs() {
    let world = world(Classifier::Constant);
    let out = world.path().join("z.safetensors");
    for variant in ["correct", "as-released"] {
        for explainer in ALL {
            // One explanation, and a number of samples that is no multiple of anything.
            let more = ["--variant", variant, "--n", "1", "--samples", "1"];
            let mut command = foil(&[
                "latent",
                "explain",
                "--device",
                "cpu",
                "--explainer",
                explainer,
            ]);
            command
                .arg("--world")
                .arg(world.path())
                .arg("--out")
                .arg(&out)
                .args(more);
            command
                .timeout(std::time::Duration::from_secs(120))
                .assert()
                .success();
            let found = score(&world, &out, &["--variant", variant]);
            assert_eq!(found["exact"]["estimator_flip"], 0.0, "{explainer}");
            assert_eq!(found["exact"]["non_causal_flip"], 0.0, "{explainer}");
            assert!(found["exact"]["cardinality"].is_number(), "{explainer}");
        }
    }
}

#[test]
fn correct_results_do_not_depend_on_the_other_samples() {
    let world = world(Classifier::Random);
    let (few, more) = (
        world.path().join("few.safetensors"),
        world.path().join("more.safetensors"),
    );
    for explainer in ["dice", "stylex", "latent-cf"] {
        explain(&world, &few, explainer, &[]).assert().success();
        let mut command = foil(&[
            "latent",
            "explain",
            "--device",
            "cpu",
            "--explainer",
            explainer,
        ]);
        command
            .arg("--world")
            .arg(world.path())
            .arg("--out")
            .arg(&more);
        command
            .args(["--samples", "9", "--n", "4"])
            .assert()
            .success();
        let (few, more) = (read_latents(&few).unwrap(), read_latents(&more).unwrap());
        for (i, index) in few.index.iter().enumerate() {
            let other = more.index.iter().position(|k| k == index).unwrap();
            let of = |f: &LatentFile, i: usize| f.z_cf[4 * i..4 * i + 4].to_vec();
            assert_eq!(of(&few, i), of(&more, other), "{explainer} {index}");
        }
    }
}

#[test]
fn an_explainer_that_repeats_itself_is_not_rewarded() {
    let world = world(Classifier::Sides);
    let out = world.path().join("z.safetensors");
    explain(&world, &out, "is", &[]).assert().success();
    // One sample in the middle with 200 copies of a step to the right and of one to the left, all of which flip the classifier.
    let mut z = read_latents(&out).unwrap().z[0];
    z[8] = 0.0;
    let copy = |i: usize| {
        let mut z_cf = z;
        z_cf[8] = (0.7 + 0.0005 * i as f32) * if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        z_cf
    };
    let gamed = LatentFile {
        z: vec![z],
        z_cf: (0..200).map(copy).collect(),
        n: 200,
        index: vec![0],
        about: Value::Null,
    };
    write_latents(&out, &gamed).unwrap();
    let exact = score(&world, &out, &[])["exact"].clone();
    assert_eq!(exact["explanations"], 200, "{exact}");
    assert_eq!(exact["successful"], 1.0, "{exact}");
    assert_eq!(exact["cardinality"], 2.0, "{exact}");
    // The same candidates by the printed listing, and by the text.
    assert_eq!(set_sizes(&gamed.z, &gamed.z_cf, &[]), [200]);
    let text = ["--complement-all", "--exclude-zeros"];
    assert_eq!(set_sizes(&gamed.z, &gamed.z_cf, &text), [2]);
}

/// Sizes of the sets that `foil metric orthogonal-set` selects for one sample.
fn set_sizes(z: &[Latent], candidates: &[Latent], flags: &[&str]) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sets.safetensors");
    let arrays = [
        ("original", vec![11], z.as_flattened().to_vec()),
        (
            "perturbed",
            vec![candidates.len(), 11],
            candidates.as_flattened().to_vec(),
        ),
    ];
    save(&file, &arrays, &[]);
    let mut command = Command::cargo_bin("foil").unwrap();
    command.args(["metric", "orthogonal-set", "--json", "--input"]);
    let output = command.arg(&file).args(flags).assert().success();
    let found: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let sizes = found["sizes"].as_array().unwrap().iter();
    sizes.map(|s| s.as_u64().unwrap()).collect()
}

/// The construction of the notes: axis-aligned candidates of both signs. The listing admits every copy whose opposite is a member.
#[test]
fn two_hundred_axis_aligned_candidates_are_189_by_the_listing_and_22_by_the_text() {
    let candidate = |i: usize| {
        let mut z: Latent = [0.0; LATENT];
        // Each axis twice, then in turns with both signs.
        let positive = i < 22 || (i / LATENT) % 2 == 1;
        z[i % LATENT] = (1.0 + 0.01 * i as f32) * if positive { 1.0 } else { -1.0 };
        z
    };
    let candidates: Vec<Latent> = (0..200).map(candidate).collect();
    let origin = [[0.0; LATENT]];
    assert_eq!(set_sizes(&origin, &candidates, &[]), [189]);
    let text = ["--complement-all", "--exclude-zeros"];
    assert_eq!(set_sizes(&origin, &candidates, &text), [22]);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let world = world(Classifier::Random);
    let out = world.path().join("z.safetensors");
    explain(&world, &out, "best", &[])
        .assert()
        .code(2)
        .stderr(contains("latent-cf"));
    explain(&world, &out, "gs", &["--set", "shrink=1"])
        .assert()
        .code(2)
        .stderr(contains("from 1.01"));
    explain(&world, &out, "dice", &["--set", "speed=1"])
        .assert()
        .code(2)
        .stderr(contains("iterations"));
    let nowhere = ["latent", "score", "--world", "nowhere", "--latents"];
    foil(&nowhere)
        .arg(&out)
        .assert()
        .code(1)
        .stderr(contains("z.safetensors"));
    explain(&world, &out, "is", &[]).assert().success();
    foil(&nowhere)
        .arg(&out)
        .assert()
        .code(2)
        .stderr(contains("world.toml"));
    foil(&[
        "latent",
        "explain",
        "--explainer",
        "is",
        "--spurious",
        "8",
        "--out",
        "x",
    ])
    .assert()
    .code(2)
    .stderr(contains("10 with 0.95"));
    std::fs::write(world.path().join("world.toml"), "name = 3").unwrap();
    explain(&world, &out, "is", &[])
        .assert()
        .code(1)
        .stderr(contains("world.toml"));
}

#[test]
fn a_small_study_is_resumed_in_shards_and_ends_with_tables_and_figures() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("study");
    let study = |more: &[&str]| {
        let mut command = foil(&[
            "study",
            "latent",
            "--device",
            "cpu",
            "--spurious",
            "10",
            "--correlation",
            "0.95",
        ]);
        command.args([
            "--explainers",
            "is,stylex",
            "--runs",
            "2",
            "--samples",
            "2",
            "--validation",
            "200",
            "--n",
            "4",
        ]);
        command.arg("--out").arg(&out).args(more);
        command
    };
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("tables.txt"), "of somebody else").unwrap();
    study(&[]).assert().code(2).stderr(contains("--out"));
    std::fs::remove_file(out.join("tables.txt")).unwrap();
    study(&["--shard", "2/2"])
        .assert()
        .success()
        .stdout(contains("1 of 3 pieces"));
    study(&[]).assert().code(2).stderr(contains("--resume"));
    study(&["--resume", "--variant", "as-released"])
        .assert()
        .code(2)
        .stderr(contains("other settings"));
    study(&["--resume"])
        .assert()
        .success()
        .stdout(contains("Table 2").and(contains("StylEx")));
    for file in [
        "tables.txt",
        "results.csv",
        "profile.svg",
        "sensitivity.svg",
        "counterfactuals.png",
    ] {
        assert!(out.join(file).metadata().unwrap().len() > 100, "{file}");
    }
    let csv = std::fs::read_to_string(out.join("results.csv")).unwrap();
    assert_eq!(csv.lines().count(), 4, "{csv}");
    let before = std::fs::read(out.join("results.csv")).unwrap();
    study(&["--resume"]).assert().success();
    assert_eq!(std::fs::read(out.join("results.csv")).unwrap(), before);
}

/// Latents are scored in the world they were made in: by the command that is printed, or by one that says otherwise.
#[test]
fn latents_are_not_scored_in_another_world_by_mistake() {
    let world = world(Classifier::Random);
    let out = world.path().join("z.safetensors");
    let output = explain(&world, &out, "gs", &["--variant", "as-released"])
        .assert()
        .success();
    let said = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    // The command that is printed scores them.
    let (_, command) = said
        .split_once("foil latent score ")
        .unwrap_or_else(|| panic!("{said}"));
    let command = command.trim_end().trim_end_matches(" scores them");
    let words: Vec<&str> = command.split(' ').collect();
    assert!(words.contains(&"as-released"), "{words:?}");
    foil(&["latent", "score"]).args(words).assert().success();
    // Another variant, another world; and on purpose.
    let score = |more: &[&str]| {
        let mut command = foil(&["latent", "score", "--device", "cpu", "--latents"]);
        command.arg(&out).args(more);
        command
    };
    let path = world.path().display().to_string();
    for (more, named) in [
        (&["--world", &path][..], "variant"),
        (&["--validation", "100"], "correlation"),
    ] {
        let refused = score(more).assert().code(2);
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(
            said.contains("another world")
                && said.contains(named)
                && said.contains("--other-world"),
            "{said}"
        );
    }
    score(&["--world", &path, "--other-world"])
        .assert()
        .success();
}

#[test]
fn what_cannot_be_written_is_found_out_before_the_work() {
    let world = world(Classifier::Random);
    let out = world.path().join("nowhere/z.safetensors");
    let refused = explain(&world, &out, "is", &[]).assert().code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        said.contains("--out") && said.contains("no folder") && !said.contains("samples"),
        "{said}"
    );
}

/// What a program of one's own needs: it moves every sample to the middle of another typeface, and foil scores that.
#[test]
fn samples_can_be_explained_by_any_program() {
    let world = world(Classifier::Random);
    let path = |name: &str| world.path().join(name);
    let mut command = foil(&[
        "latent",
        "samples",
        "--device",
        "cpu",
        "--samples",
        "2",
        "--world",
    ]);
    command
        .arg(world.path())
        .arg("--out")
        .arg(path("samples.safetensors"));
    command.assert().success();
    let arrays = foil::tensor::TypedArrays::read(&path("samples.safetensors")).unwrap();
    let z = arrays.f32_of_rank("z", 2).unwrap();
    let n = z.shape[0];
    assert_eq!(arrays.f32("logits").unwrap().shape, [n, 2]);
    assert_eq!(arrays.f32("images").unwrap().shape[0], n);
    assert_eq!(arrays.i64("index").unwrap().len(), n);
    let fonts = arrays.f32_of_rank("fonts", 2).unwrap();
    for name in ["mean", "std", "low", "high"] {
        assert_eq!(arrays.f32(name).unwrap().data.len(), LATENT, "{name}");
    }
    let z: Vec<Latent> = z.data.as_chunks().0.to_vec();
    let moved = |z: &Latent| {
        let mut z_cf = *z;
        z_cf[3..6].copy_from_slice(&fonts.data[6..9]);
        z_cf
    };
    let own = LatentFile {
        z_cf: z.iter().map(moved).collect(),
        n: 1,
        index: (0..n).collect(),
        z,
        about: Value::Null,
    };
    write_latents(&path("own.safetensors"), &own).unwrap();
    let csv = path("own.csv").display().to_string();
    let found = score(&world, &path("own.safetensors"), &["--csv", &csv]);
    let table = std::fs::read_to_string(&csv).unwrap();
    let lines: Vec<Vec<&str>> = table.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(lines.len(), n + 1, "{table}");
    let column = |name: &str| lines[0].iter().position(|h| *h == name).unwrap();
    let share = |name: &str| {
        let all = lines[1..]
            .iter()
            .map(|l| l[column(name)].parse::<f64>().unwrap());
        all.sum::<f64>() / n as f64
    };
    assert_eq!(found["exact"]["successful"], share("successful"));
    assert_eq!(found["exact"]["proximal"], share("proximal"));
    assert_eq!(share("oracle_flips"), 0.0, "characters stay");
}
