//! `foil train`: every kind of network in a few steps, resumed runs, and bad input.

use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::folders::{fails, foil};

/// A folder with 80 small images in `data`.
fn world() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = foil(folder.path())
        .args([
            "glyphs", "render", "--quiet", "--n", "80", "--size", "16", "--out",
        ])
        .arg(folder.path().join("data"))
        .output()
        .unwrap();
    assert!(output.status.success());
    folder
}

/// `foil train KIND` on the data, into `NAME.safetensors`.
fn train(folder: &Path, kind: &str, name: &str, more: &[&str]) -> Output {
    foil(folder)
        .args(["train", kind, "--quiet", "--data"])
        .arg(folder.join("data"))
        .arg("--out")
        .arg(folder.join(format!("{name}.safetensors")))
        .args(more)
        .output()
        .unwrap()
}

fn printed(output: &Output) -> serde_json::Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_kind_of_network_is_trained_and_its_card_holds() {
    let folder = world();
    for (kind, more) in [
        ("classifier", &["--width", "4"][..]),
        ("oracle", &["--width", "4", "--unaided"]),
        (
            "oracle",
            &[
                "--architecture",
                "convnext",
                "--width",
                "8",
                "--target",
                "font",
            ],
        ),
        (
            "robust",
            &["--width", "4", "--attack-steps", "1", "--radius", "0.5"],
        ),
        ("encoder", &["--width", "4"]),
        ("autoencoder", &["--class", "1", "--width", "4"]),
        ("ddpm", &["--samples", "3", "--sample-steps", "2"]),
    ] {
        let mut args = vec!["--steps", "2", "--batch", "4", "--half", "--json"];
        args.extend(more);
        let found = printed(&train(folder.path(), kind, "net", &args));
        assert_eq!(found["steps"], 2, "{kind}");
        let card = folder.path().join("net.toml");
        let text = std::fs::read_to_string(&card).unwrap();
        assert!(text.contains(found["sha256"].as_str().unwrap()), "{text}");
        // The card is one that foil itself reads, and the weights fit it.
        let proof = foil(folder.path())
            .args(["weights", "verify"])
            .arg(&card)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&proof.stderr).into_owned()
            + &String::from_utf8_lossy(&proof.stdout);
        assert!(proof.status.success(), "{kind}: {said}");
        assert!(!folder.path().join("net.checkpoint").exists());
        if kind == "robust" {
            assert!(
                found["results"]["attacked (L2 0.5) label"].is_number(),
                "{found}"
            );
        }
    }
    assert!(
        folder.path().join("net.png").exists(),
        "samples of the denoiser"
    );
}

#[test]
fn the_same_seed_gives_the_same_weights() {
    let folder = world();
    let run = |name: &str, threads: &str, seed: &str| {
        let args = ["--steps", "3", "--batch", "8", "--width", "4", "--json"];
        let args = [&args[..], &["--threads", threads, "--seed", seed]].concat();
        printed(&train(folder.path(), "oracle", name, &args))["sha256"].clone()
    };
    let one = run("a", "1", "5");
    assert_eq!(one, run("b", "2", "5"));
    assert_ne!(one, run("c", "2", "6"));
}

#[test]
fn a_checkpoint_is_continued_only_if_it_is_whole_and_of_the_same_run() {
    let folder = world();
    let at = folder.path();
    let args = ["--steps", "3", "--batch", "8", "--width", "4"];
    // A run that cannot write its card in the end keeps its last checkpoint.
    std::fs::create_dir(at.join("net.toml")).unwrap();
    fails(&train(at, "oracle", "net", &args), 1, &["net.toml"]);
    let checkpoint = at.join("net.checkpoint");
    let whole = std::fs::read(&checkpoint).unwrap();

    let other = [&args[..], &["--resume", "--seed", "9"]].concat();
    fails(
        &train(at, "oracle", "net", &other),
        1,
        &["another run", "seed", "--resume"],
    );
    std::fs::write(&checkpoint, &whole[..whole.len() / 2]).unwrap();
    let same = [&args[..], &["--resume"]].concat();
    fails(
        &train(at, "oracle", "net", &same),
        1,
        &["net.checkpoint", "not a whole checkpoint"],
    );

    std::fs::write(&checkpoint, &whole).unwrap();
    std::fs::remove_dir(at.join("net.toml")).unwrap();
    assert!(train(at, "oracle", "net", &same).status.success());
    let resumed = std::fs::read(at.join("net.safetensors")).unwrap();
    assert!(train(at, "oracle", "net", &args).status.success());
    assert_eq!(std::fs::read(at.join("net.safetensors")).unwrap(), resumed);
}

#[test]
fn bad_input_is_explained() {
    let folder = world();
    let at = folder.path();
    let wrong_name = foil(at)
        .args(["train", "oracle", "--data", "data", "--out", "net.pth"])
        .output()
        .unwrap();
    fails(&wrong_name, 2, &["net.pth", ".safetensors"]);
    let no_folder = foil(at)
        .args([
            "train",
            "oracle",
            "--data",
            "data",
            "--out",
            "no/where.safetensors",
        ])
        .output()
        .unwrap();
    fails(&no_folder, 2, &["no folder"]);
    fails(
        &train(at, "ddpm", "net", &["--width", "40"]),
        2,
        &["multiple of 32"],
    );
    fails(
        &train(at, "oracle", "net", &["--rate", "0"]),
        2,
        &["above 0"],
    );
    fails(
        &train(at, "autoencoder", "net", &["--class", "7"]),
        1,
        &["nothing to train on"],
    );
    let high = [
        "--steps", "60", "--batch", "8", "--width", "4", "--rate", "1e30",
    ];
    fails(
        &train(at, "oracle", "net", &high),
        1,
        &["the loss is", "--rate"],
    );

    std::fs::remove_file(at.join("data/images/000007.png")).unwrap();
    fails(&train(at, "oracle", "net", &[]), 1, &["000007.png"]);
    std::fs::write(at.join("data/attributes.csv"), "file,split\na.png,train\n").unwrap();
    fails(
        &train(at, "oracle", "net", &[]),
        1,
        &["attributes.csv", "character"],
    );
    std::fs::remove_file(at.join("data/attributes.csv")).unwrap();
    fails(
        &train(at, "oracle", "net", &[]),
        1,
        &["attributes.csv", "foil glyphs render"],
    );
}
