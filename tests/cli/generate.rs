//! `foil generate`: the same bytes in any batch, shard and after an interruption; bad input.

use std::path::Path;
use std::process::Output;

use crate::folders::{fails, foil};

/// Three calm letters.
fn letters() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = foil(folder.path())
        .args(["glyphs", "render", "--quiet", "--n", "3", "--seed", "5"])
        .args(["--pixel-noise", "0", "--scale", "0.8", "--out"])
        .arg(folder.path().join("letters"))
        .output()
        .unwrap();
    assert!(output.status.success());
    folder
}

/// A few steps towards the odd letters, into `out`.
fn generate(at: &Path, out: &str, more: &[&str]) -> Output {
    foil(at)
        .args(["generate", "--quiet", "--steps", "4", "--originals"])
        .arg(at.join("letters/images"))
        .arg("--out")
        .arg(at.join(out))
        .args(more)
        .output()
        .unwrap()
}

const ODD: [&str; 2] = ["--target", "odd"];

/// Every image and record, by name.
fn made(at: &Path, out: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(at.join(out))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e != "csv"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn batches_shards_and_interruptions_change_no_byte() {
    let folder = letters();
    let at = folder.path();
    let run = |out: &str, more: &[&str]| {
        let output = generate(at, out, &[&ODD[..], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let said = run("whole", &["--robust", "glyph_robust"]);
    assert!(said.contains("3 counterfactuals"), "{said}");
    let whole = made(at, "whole");
    assert_eq!(whole.len(), 6);
    let robust = ["--robust", "glyph_robust"];
    run(
        "single",
        &[&robust[..], &["--batch", "1", "--threads", "1"]].concat(),
    );
    assert_eq!(made(at, "single"), whole);
    for shard in ["1/3", "2/3", "3/3"] {
        run(
            "parts",
            &[&robust[..], &["--shard", shard, "--resume"]].concat(),
        );
    }
    assert_eq!(made(at, "parts"), whole);
    std::fs::remove_file(at.join("whole/000001.png")).unwrap();
    run("whole", &[&robust[..], &["--resume"]].concat());
    assert_eq!(made(at, "whole"), whole);

    // The manifest is one that `foil score` takes.
    let score = foil(at)
        .args([
            "score",
            "--quiet",
            "--metrics",
            "validity,lp",
            "--classifier",
            "glyph_resnet18",
        ])
        .arg("--manifest")
        .arg(at.join("whole/manifest.csv"))
        .arg("--out")
        .arg(at.join("scores"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&score.stderr).into_owned();
    assert!(score.status.success(), "{said}");

    // Other settings are not mixed in; files are not replaced without a word.
    let other = [&ODD[..], &robust, &["--resume", "--seed", "9"]].concat();
    fails(
        &generate(at, "whole", &other),
        1,
        &["other settings", "--out"],
    );
    fails(&generate(at, "whole", &ODD), 2, &["--resume"]);
    // Nor are files of others.
    let inside = [&ODD[..], &["--resume"]].concat();
    fails(
        &generate(at, "letters/images", &inside),
        2,
        &["lies in --originals"],
    );
    std::fs::create_dir(at.join("mine")).unwrap();
    std::fs::write(at.join("mine/000000.json"), "{}").unwrap();
    fails(
        &generate(at, "mine", &inside),
        1,
        &["000000.json", "not a record"],
    );
    assert_eq!(std::fs::read(at.join("mine/000000.json")).unwrap(), b"{}");
}

#[test]
fn methods_give_images_of_their_own_and_samples_differ() {
    let folder = letters();
    let at = folder.path();
    let mut all = Vec::new();
    for (out, more) in [
        ("guided", &[][..]),
        ("at", &["--x0", "at-x0"]),
        ("off", &["--x0", "off"]),
        ("dvce", &["--method", "dvce"]),
        ("openai", &["--method", "openai"]),
        ("far", &["--distance", "off"]),
    ] {
        let output = generate(at, out, &[&ODD[..], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{out}: {said}");
        all.push(std::fs::read(at.join(out).join("000000.png")).unwrap());
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
    let two = generate(at, "two", &[&ODD[..], &["--samples", "2"]].concat());
    assert!(two.status.success());
    let [a, b] = ["000000.0.png", "000000.1.png"].map(|f| std::fs::read(at.join("two").join(f)));
    assert_ne!(a.unwrap(), b.unwrap());
}

#[test]
fn bad_input_is_explained() {
    let folder = letters();
    let at = folder.path();
    for (more, code, words) in [
        (&["--target", "seven"][..], 2, &["seven"][..]),
        (&["--target", "2"], 2, &["out of range"]),
        (&[], 2, &["--target"]),
        (&["--target", "odd", "--cone", "30"], 2, &["--robust"]),
        (
            &[
                "--target",
                "odd",
                "--robust",
                "glyph_robust",
                "--cone",
                "120",
            ],
            2,
            &["--cone"],
        ),
        (&["--target", "odd", "--shard", "4/3"], 2, &["I/N"]),
        (&["--target", "odd", "--skip", "4"], 2, &["none is left"]),
        (&["--target", "odd", "--distance", "l0"], 2, &["--distance"]),
        (
            &["--target", "odd", "--unet", "glyph_cnn"],
            1,
            &["glyph_cnn", "not a denoiser"],
        ),
        (
            &["--target", "odd", "--classifier", "glyph_encoder"],
            1,
            &["not a classifier"],
        ),
    ] {
        fails(&generate(at, "out", more), code, words);
    }
    let table = at.join("targets.csv");
    std::fs::write(&table, "file,target\n000009.png,odd\n").unwrap();
    let unknown = ["--targets", table.to_str().unwrap()];
    fails(&generate(at, "out", &unknown), 2, &["no image 000009.png"]);
    std::fs::write(&table, "file,target\n000001.png,even\n").unwrap();
    let one = generate(at, "one", &unknown);
    assert!(one.status.success());
    assert_eq!(made(at, "one").len(), 2);
}

#[test]
fn devices_without_gradients_are_refused() {
    let folder = letters();
    let at = folder.path();
    let on = |device: &'static str| {
        let more = [&ODD[..], &["--device", device]].concat();
        generate(at, "made", &more)
    };
    for device in ["wgpu", "auto"] {
        fails(&on(device), 2, &["--device", device, "no gradients", "cpu"]);
    }
    if !cfg!(feature = "cuda") {
        let told = ["--device", "cuda:1", "--features cuda", "--device cpu"];
        fails(&on("cuda:1"), 2, &told);
    }
    fails(&on("tpu"), 2, &["unknown device", "tpu"]);
    assert!(!at.join("made").exists());
}
