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
    let list = |out: &str| std::fs::read(at.join(out).join("manifest.csv")).ok();
    for shard in ["3/3", "1/3", "2/3"] {
        assert_eq!(list("parts"), None, "before {shard}");
        let part = [&robust[..], &["--shard", shard, "--resume"]].concat();
        let said = run("parts", &part);
        assert_eq!(said.contains("all 3 shards"), shard == "2/3", "{said}");
    }
    assert_eq!(made(at, "parts"), whole);
    // The lists of the shards are joined to that of a single run.
    assert!(list("whole").is_some());
    assert_eq!(list("parts"), list("whole"));
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
fn an_original_that_comes_changes_no_other_and_one_that_is_replaced_is_noticed() {
    let folder = letters();
    let at = folder.path();
    let run = |out: &str| {
        let output = generate(at, out, &ODD);
        assert!(output.status.success());
    };
    run("three");
    let before = made(at, "three");
    std::fs::copy(
        at.join("letters/images/000002.png"),
        at.join("letters/images/000000a.png"),
    )
    .unwrap();
    run("four");
    let four = made(at, "four");
    assert_eq!(four.len(), 8);
    for file in &before {
        assert!(four.contains(file), "{}", file.0);
    }
    std::fs::copy(
        at.join("letters/images/000002.png"),
        at.join("letters/images/000000.png"),
    )
    .unwrap();
    let resumed = generate(at, "four", &[&ODD[..], &["--resume"]].concat());
    fails(
        &resumed,
        1,
        &["000000.json", "000000.png", "is another one now"],
    );
}

#[test]
fn given_noise_takes_the_place_of_the_seeds() {
    let folder = letters();
    let at = folder.path();
    let noise = |file: &str, shape: &[usize]| {
        let len: usize = shape.iter().product();
        let data = (0..len).map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 300.0);
        let mut dict = foil::tensor::StateDict::new();
        let data = data.collect();
        let shape = shape.to_vec();
        dict.insert("noise", foil::tensor::Array { shape, data });
        let path = at.join(file);
        foil::weights::formats::write_safetensors(&dict, &path, &Default::default()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let run = |out: &str, file: &str| {
        let output = generate(at, out, &[&ODD[..], &["--noise", file]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        std::fs::read(at.join(out).join("000001.png")).unwrap()
    };
    // Two steps and the start; the noise of one image serves all.
    let one = noise("one.safetensors", &[3, 3, 32, 32]);
    let first = run("one", &one);
    assert_eq!(first, run("again", &one));
    let all = noise("all.safetensors", &[3, 3, 3, 32, 32]);
    assert_ne!(first, run("all", &all));
    let few = noise("few.safetensors", &[2, 3, 32, 32]);
    let few = generate(at, "few", &[&ODD[..], &["--noise", &few]].concat());
    fails(&few, 1, &["few.safetensors", "at least 3 draws"]);
    // Samples of one image with the same noise would be the same.
    let twice = [&ODD[..], &["--samples", "2", "--noise", &one]].concat();
    let twice = generate(at, "twice", &twice);
    fails(&twice, 1, &["one.safetensors", "6 images"]);
    // The noise is that of all originals, whichever of them have a target.
    let table = at.join("targets.csv");
    std::fs::write(&table, "file,target\n000001.png,odd\n").unwrap();
    let some = ["--targets", table.to_str().unwrap(), "--noise", &all];
    assert!(generate(at, "some", &some).status.success());
    let image = |out: &str| std::fs::read(at.join(out).join("000001.png")).unwrap();
    assert_eq!(image("some"), image("all"));
}

#[test]
fn an_image_that_is_damaged_is_not_taken_for_made() {
    let folder = letters();
    let at = folder.path();
    assert!(generate(at, "out", &ODD).status.success());
    let whole = made(at, "out");
    let image = at.join("out/000001.png");
    let bytes = std::fs::read(&image).unwrap();
    std::fs::write(&image, &bytes[..50]).unwrap();
    let again = [&ODD[..], &["--resume"]].concat();
    fails(&generate(at, "out", &again), 1, &["000001.png", "damaged"]);
    std::fs::remove_file(&image).unwrap();
    assert!(generate(at, "out", &again).status.success());
    assert_eq!(made(at, "out"), whole);
}

#[test]
fn numbers_that_are_none_cost_no_other_image() {
    let folder = letters();
    let at = folder.path();
    // Noise without end for the second image only.
    let mut dict = foil::tensor::StateDict::new();
    let each = 3 * 32 * 32;
    let data = (0..9 * each).map(|i| if i / each % 3 == 1 { 3e38 } else { 0.1 });
    let data: Vec<f32> = data.collect();
    let shape = vec![3, 3, 3, 32, 32];
    dict.insert("noise", foil::tensor::Array { shape, data });
    let path = at.join("huge.safetensors");
    foil::weights::formats::write_safetensors(&dict, &path, &Default::default()).unwrap();
    let more = [&ODD[..], &["--noise", path.to_str().unwrap()]].concat();
    let output = generate(at, "out", &more);
    fails(&output, 1, &["000001.png", "1 of 3 images", "--scale"]);
    let names: Vec<String> = made(at, "out").into_iter().map(|f| f.0).collect();
    let expected = ["000000.json", "000000.png", "000002.json", "000002.png"];
    assert_eq!(names, expected);
}

#[test]
fn what_does_not_reach_its_target_is_rejected_and_not_made_again() {
    let folder = letters();
    let at = folder.path();
    let mut rejected = 0;
    // A network that was never trained says the same of all images: it can be moved to one class only.
    for target in ["even", "odd"] {
        let more = ["--target", target, "--classifier", "random", "--reject"];
        let output = generate(at, target, &more);
        assert!(output.status.success());
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("changed: 0.00"), "{said}");
        let files = made(at, target);
        let images = files.iter().filter(|f| f.0.ends_with(".png")).count();
        assert_eq!(files.len() - images, 3, "a record of each");
        let manifest = std::fs::read_to_string(at.join(target).join("manifest.csv")).unwrap();
        assert_eq!(manifest.lines().count(), 1 + images);
        rejected += 3 - images;
        let resumed = generate(at, target, &[&more[..], &["--resume"]].concat());
        assert!(resumed.status.success());
        assert_eq!(made(at, target), files);
    }
    assert_eq!(rejected, 3);
}

/// A classifier whose last layer is multiplied by a factor, as far as there are numbers.
fn spoilt(at: &Path, factor: f64) -> String {
    let registry = foil::weights::Registry::open().unwrap();
    let card = registry.card("glyph_cnn").unwrap();
    let mut dict = registry.load(&card).unwrap().dict;
    let mut head = dict.get("head.weight").unwrap().clone();
    for v in &mut head.data {
        *v = (f64::from(*v) * factor).clamp(-3e38, 3e38) as f32;
    }
    dict.insert("head.weight", head);
    let path = at.join("spoilt.safetensors");
    foil::weights::formats::write_safetensors(&dict, &path, &Default::default()).unwrap();
    let card = "name = \"spoilt\"\narchitecture = \"plain_cnn\"\nfile = \"spoilt.safetensors\"\n\
        labels = [\"even\", \"odd\"]\n[preprocessing]\nresize = { size = [32, 32] }\ncrop = \"none\"\n\
        mean = [0.5, 0.5, 0.5]\nstd = [0.5, 0.5, 0.5]\n";
    std::fs::write(at.join("spoilt.toml"), card).unwrap();
    at.join("spoilt.toml").to_str().unwrap().to_owned()
}

/// The same with notes: the record of the first image, the notes, and what is said at the end.
fn noted(at: &Path, out: &str, more: &[&str]) -> (serde_json::Value, Vec<String>, String) {
    let output = foil(at)
        .args(["generate", "--steps", "4", "--originals"])
        .arg(at.join("letters/images"))
        .arg("--out")
        .arg(at.join(out))
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{out}: {said}");
    let notes = said.lines().filter(|l| l.starts_with("note: "));
    let record = std::fs::read(at.join(out).join("000000.json")).unwrap();
    (
        serde_json::from_slice(&record).unwrap(),
        notes.map(str::to_owned).collect(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[test]
fn gradients_that_are_zero_or_no_numbers_leave_steps_unguided_with_a_note() {
    let folder = letters();
    let at = folder.path();
    for (factor, name) in [(0.0, "zero"), (1e45, "infinite")] {
        let card = spoilt(at, factor);
        for method in ["guided", "openai"] {
            let out = format!("{name}-{method}");
            let more = ["--target", "odd", "--classifier", &card, "--method", method];
            let (record, notes, said) = noted(at, &out, &more);
            assert_eq!(notes.len(), 3, "{out}: {notes:?}");
            assert_eq!(record["met"]["unguided"], 2, "{record}");
            assert!(said.contains("3 of them had steps without guidance"));
            let again = [&more[..], &["--resume"]].concat();
            assert!(generate(at, &out, &again).status.success(), "{out}");
        }
        // The explained classifier guides alone.
        let out = format!("{name}-robust");
        let (record, notes, said) = noted(at, &out, &["--target", "odd", "--robust", &card]);
        assert_eq!(notes.len(), 3, "{out}: {notes:?}");
        assert!(notes[0].contains("2 steps without the robust classifier"));
        let met = &record["met"];
        assert_eq!([&met["unguided"], &met["without_robust"]], [0, 2], "{met}");
        assert!(said.contains("3 of them had steps without the robust classifier"));
    }
    let sound = ["--target", "odd", "--robust", "glyph_robust"];
    let (record, notes, _) = noted(at, "sound", &sound);
    assert_eq!(
        (&record["met"]["without_robust"], notes.len()),
        (&0.into(), 0)
    );
}

/// The first class is no answer of a network that gives none.
#[test]
fn a_classifier_that_gives_no_numbers_reaches_nothing() {
    let folder = letters();
    let at = folder.path();
    // Weights that are no numbers are refused; sums of these are none.
    let card = spoilt(at, 1e45);
    for method in ["guided", "dime"] {
        let more = [
            "--target",
            "even",
            "--classifier",
            &card,
            "--method",
            method,
        ];
        let scale = [
            "--skip",
            "2",
            "--scale",
            "1,2",
            "--perceptual",
            "off",
            "--reject",
        ];
        let more = match method {
            "dime" => [&more[..], &scale].concat(),
            _ => [&more[..], &["--reject"]].concat(),
        };
        let (record, notes, said) = noted(at, method, &more);
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[0].contains("no numbers for the result"), "{notes:?}");
        assert!(said.contains("0 counterfactuals") && said.contains("3 of 3 were rejected"));
        assert_eq!(
            [&record["reached"], &record["flipped"], &record["rejected"]],
            [false, false, true]
        );
        assert!(record["before"].is_null() && record["after"].is_null());
        if method == "dime" {
            // No scale was taken for one that reaches.
            assert_eq!(record["met"]["scale"], 2.0);
        }
        let again = [&more[..], &["--resume"]].concat();
        assert!(generate(at, method, &again).status.success());
    }
    // Kept without --reject, with no class of the original.
    let kept = ["--target", "even", "--classifier", &card];
    assert!(generate(at, "kept", &kept).status.success());
    let list = std::fs::read_to_string(at.join("kept/manifest.csv")).unwrap();
    assert!(
        list.lines().skip(1).all(|l| l.ends_with(".png,,even")),
        "{list}"
    );
}

/// The classic guidance keeps the length of its gradient: the cone around a gradient leaves that gradient as it is.
#[test]
fn a_cone_with_the_explained_classifier_itself_changes_nothing() {
    let folder = letters();
    let at = folder.path();
    let classic = [&ODD[..], &["--method", "openai", "--scale", "40"]].concat();
    assert!(generate(at, "alone", &classic).status.success());
    for rule in ["projection", "published"] {
        let own = ["--robust", "glyph_resnet18", "--cone-rule", rule];
        assert!(
            generate(at, rule, &[&classic[..], &own].concat())
                .status
                .success()
        );
        for name in ["000000.png", "000001.png", "000002.png"] {
            let image = |out: &str| std::fs::read(at.join(out).join(name)).unwrap();
            assert!(image(rule) == image("alone"), "{rule}: {name} differs");
        }
    }
    assert!(
        generate(at, "unguided", &[&classic[..4], &["--scale", "0"]].concat())
            .status
            .success()
    );
    assert_ne!(made(at, "unguided"), made(at, "alone"));
}

#[test]
fn dime_draws_clean_images_and_tries_scales() {
    let folder = letters();
    let at = folder.path();
    let dime = ["--method", "dime", "--skip", "2"];
    let output = generate(
        at,
        "dime",
        &[&ODD[..], &dime, &["--scale", "8,10"]].concat(),
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let record = std::fs::read_to_string(at.join("dime/000000.json")).unwrap();
    assert!(record.contains("\"scale\": "), "{record}");
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let losses = record["met"]["log_probability"].as_array().unwrap();
    assert!(losses.len() == 2 && losses.iter().all(|l| l.as_f64().unwrap() <= 0.0));
    let single = [&ODD[..], &dime, &["--scale", "8,10", "--batch", "1"]].concat();
    assert!(generate(at, "single", &single).status.success());
    assert_eq!(made(at, "single"), made(at, "dime"));
    let cone = [&ODD[..], &dime, &["--robust", "glyph_robust"]].concat();
    fails(&generate(at, "out", &cone), 2, &["--robust", "DiME"]);
    let several = [&ODD[..], &["--scale", "8,10"]].concat();
    fails(&generate(at, "out", &several), 2, &["--scale"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_budget_of_memory_sets_the_batch_and_changes_no_byte() {
    let folder = letters();
    let at = folder.path();
    // On one thread, where the memory of a batch does not hang on who of them comes when.
    let run = |out: &str, more: &[&str]| {
        let alone = ["--threads", "1"];
        foil(at)
            .args(["generate", "--steps", "4", "--originals"])
            .arg(at.join("letters/images"))
            .arg("--out")
            .arg(at.join(out))
            .args([&ODD[..], &alone, more].concat())
            .output()
            .unwrap()
    };
    /// What is said of the batch: images, and the memory of one.
    fn batch(output: &Output) -> (usize, f64) {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let line = said.lines().find_map(|l| l.strip_prefix("batches of "));
        let (images, rest) = line.and_then(|l| l.split_once(':')).expect("a note");
        let one = rest.split(' ').rev().nth(1).unwrap();
        (images.parse().unwrap(), one.parse().unwrap())
    }
    let plain = run("plain", &[]);
    assert!(plain.status.success());
    let ample = run("ample", &["--memory", "4GB"]);
    let (most, one) = batch(&ample);
    assert_eq!(most, 3, "all of them");
    assert_eq!(made(at, "ample"), made(at, "plain"));
    // More than one image takes, and less than three: each of them takes several megabytes.
    let little = format!("{}MB", one + 4.0);
    let little = run("little", &["--memory", &little]);
    assert!(batch(&little).0 < most, "{little:?}");
    assert_eq!(made(at, "little"), made(at, "plain"));
    fails(&run("none", &["--memory", "1MB"]), 1, &["1 MB", "takes"]);
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
        ("through", &["--distance", "l1:0.15:through-unet"]),
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
        (&["--target", "seven"][..], 2, &["seven", "even, odd"][..]),
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
        (
            &[
                "--target",
                "odd",
                "--robust",
                "glyph_robust",
                "--cone",
                "off",
            ],
            2,
            &["--robust", "never asked"],
        ),
        (
            &["--target", "odd", "--cone-rule", "published"],
            2,
            &["--cone-rule", "--robust"],
        ),
        (&["--target", "odd", "--shard", "4/3"], 2, &["I/N"]),
        (&["--target", "odd", "--skip", "4"], 2, &["none is left"]),
        (&["--target", "odd", "--distance", "l0"], 2, &["--distance"]),
        (&["--target", "odd", "--device", "cuda"], 2, &["cuda"]),
        (&["--target", "odd", "--memory", "much"], 2, &["8GB"]),
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
        (
            &["--target", "odd", "--classifier", "dot_cnn"],
            1,
            &["dot_cnn", "grey images"],
        ),
        (
            &["--target", "odd", "--robust", "dot_cnn"],
            1,
            &["dot_cnn", "grey images"],
        ),
        (
            &["--target", "odd", "--classifier", "logits.csv"],
            2,
            &["--classifier logits.csv", "no gradients", "cannot guide"],
        ),
        (
            &["--target", "odd", "--classifier", "logits.npy"],
            2,
            &["--classifier logits.npy", "no gradients"],
        ),
        (
            &["--target", "odd", "--robust", "net.onnx"],
            2,
            &["--robust net.onnx", "ONNX", "no gradients"],
        ),
        (
            &[
                "--target",
                "1",
                "--method",
                "gb",
                "--classifier",
                "net.onnx",
            ],
            2,
            &["--classifier net.onnx", "no gradients"],
        ),
    ] {
        let output = generate(at, "out", more);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("--labels"), "{said}");
        fails(&output, code, words);
        assert!(!at.join("out").exists(), "{more:?}");
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
    fails(&on("wgpu"), 2, &["--device", "wgpu", "no gradients", "cpu"]);
    if !cfg!(feature = "cuda") {
        let told = ["--device", "cuda:1", "--features cuda", "--device cpu"];
        fails(&on("cuda:1"), 2, &told);
    }
    fails(&on("tpu"), 2, &["unknown device", "tpu"]);
    assert!(!at.join("made").exists());
}

#[test]
fn an_original_of_another_size_is_met_before_any_work() {
    let folder = letters();
    let at = folder.path();
    let last = at.join("letters/images/zz.png");
    image::RgbImage::new(40, 32).save(&last).unwrap();
    let output = generate(at, "out", &[&ODD[..], &["--batch", "1"]].concat());
    fails(&output, 1, &["zz.png", "40x32", "32x32"]);
    assert!(!at.join("out").exists());
}

#[test]
fn nothing_is_left_of_a_run_that_could_not_begin() {
    let folder = letters();
    let at = folder.path();
    let last = at.join("letters/images/zz.png");
    let whole = std::fs::read(at.join("letters/images/000000.png")).unwrap();
    std::fs::write(&last, &whole[..whole.len() / 2]).unwrap();
    fails(&generate(at, "out", &ODD), 1, &["zz.png"]);
    assert!(!at.join("out").exists());
    std::fs::write(&last, whole).unwrap();
    let little = [&ODD[..], &["--memory", "1MB"]].concat();
    fails(&generate(at, "out", &little), 1, &["memory"]);
    assert!(!at.join("out").exists());
    assert!(generate(at, "out", &ODD).status.success());
}

#[test]
fn a_refused_resumption_leaves_the_list_as_it_is() {
    let folder = letters();
    let at = folder.path();
    assert!(generate(at, "out", &ODD).status.success());
    let path = at.join("out/manifest.csv");
    let list = std::fs::read(&path).unwrap();
    let again = |more: &[&str]| generate(at, "out", &[&ODD[..], &["--resume"], more].concat());
    fails(&again(&["--seed", "9"]), 1, &["other settings"]);
    assert_eq!(std::fs::read(&path).unwrap(), list);
    // Nor does an original that has come and cannot be read.
    let images = at.join("letters/images");
    std::fs::write(images.join("zz.png"), "nothing").unwrap();
    fails(&again(&[]), 1, &["zz.png"]);
    assert_eq!(std::fs::read(&path).unwrap(), list);
}

/// A card of a network that ships, with other words in it, beside its weights.
fn other_card(at: &Path, name: &str, from: &str, to: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("weights/glyphs");
    let card = std::fs::read_to_string(root.join(format!("{name}.toml"))).unwrap();
    let other = card.replacen(from, to, 1);
    assert_ne!(card, other);
    let path = at.join(format!("{name}.toml"));
    std::fs::write(&path, other).unwrap();
    let weights = format!("{name}.safetensors");
    std::fs::copy(root.join(&weights), at.join(weights)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A classifier that looks at a piece of a larger image: guidance and scores have to show it the same.
#[test]
fn guidance_shows_a_classifier_what_scores_show_it() {
    let folder = letters();
    let at = folder.path();
    let resize = "resize = { size = [32, 32] }\ncrop = \"none\"";
    let piece = "resize = { size = 44, filter = \"bicubic\" }\ncrop = 32";
    let card = other_card(at, "glyph_resnet18", resize, piece);
    let more = ["--target", "odd", "--classifier", &card];
    let output = generate(at, "made", &more);
    assert!(output.status.success(), "{output:?}");
    let score = foil(at)
        .args([
            "score",
            "--quiet",
            "--metrics",
            "validity",
            "--classifier",
            &card,
        ])
        .arg("--manifest")
        .arg(at.join("made/manifest.csv"))
        .arg("--out")
        .arg(at.join("scores"))
        .output()
        .unwrap();
    assert!(score.status.success(), "{score:?}");
    let mut reader = csv::Reader::from_path(at.join("scores/pairs.csv")).unwrap();
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|h| h == name).unwrap();
    let (pair, confidence) = (column("counterfactual"), column("target_probability"));
    let mut seen = 0;
    for row in reader.records().map(Result::unwrap) {
        let stem = Path::new(&row[pair]).file_stem().unwrap().to_owned();
        let record = at.join("made").join(stem).with_extension("json");
        let record: serde_json::Value =
            serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
        let guided = record["target_probability"].as_f64().unwrap();
        let scored: f64 = row[confidence].parse().unwrap();
        // Scores round the resized image to whole grey levels.
        assert!((guided - scored).abs() < 0.02, "{guided} {scored}");
        seen += 1;
    }
    assert_eq!(seen, 3);
    // More than the image has.
    let crop = "resize = \"none\"\ncrop = 40";
    let card = other_card(at, "glyph_resnet18", resize, crop);
    let large = generate(at, "out", &["--target", "odd", "--classifier", &card]);
    fails(&large, 1, &["[preprocessing]", "32x32", "40"]);
}

#[test]
fn a_denoiser_has_to_say_what_it_draws() {
    let folder = letters();
    let at = folder.path();
    let resize = "resize = { size = [32, 32] }\ncrop = \"none\"\n";
    for (to, found) in [
        ("", "says nothing of sizes"),
        ("resize = \"none\"\ncrop = \"none\"\n", "resize \"none\""),
        (
            "resize = { size = [32, 40] }\ncrop = \"none\"\n",
            "[32, 40]",
        ),
        ("resize = { size = 48 }\ncrop = 32\n", "shorter side of 48"),
    ] {
        let card = other_card(at, "glyph_ddpm", resize, to);
        let output = generate(at, "out", &[&ODD[..], &["--unet", &card]].concat());
        fails(&output, 1, &["square size", found, "[preprocessing]"]);
        assert!(!at.join("out").exists());
    }
    let same = other_card(
        at,
        "glyph_ddpm",
        resize,
        "resize = { size = 32 }\ncrop = 32\n",
    );
    let output = generate(at, "out", &[&ODD[..], &["--unet", &same]].concat());
    assert!(output.status.success(), "{output:?}");
}

/// Without noise of their own the steps of DDIM are those of the start alone.
#[test]
fn ddim_is_a_sampler_of_its_own() {
    let folder = letters();
    let at = folder.path();
    let run = |out: &str, more: &[&str]| {
        let output = generate(at, out, &[&ODD[..], more].concat());
        assert!(output.status.success(), "{output:?}");
        made(at, out)
    };
    let plain = run("plain", &[]);
    assert_eq!(run("ddpm", &["--sampler", "ddpm"]), plain);
    let ddim = run("ddim", &["--sampler", "ddim"]);
    let noisy = run("noisy", &["--sampler", "ddim", "--eta", "1"]);
    assert!(ddim != plain && noisy != ddim && noisy != plain);
    let record: serde_json::Value = serde_json::from_slice(&ddim[0].1).unwrap();
    assert_eq!(record["settings"]["sampler"]["ddim"]["eta"], 0.0);
    // Noise of the steps is not used, but for that of the start.
    let noise = |later: f32| {
        let mut dict = foil::tensor::StateDict::new();
        let each = 3 * 32 * 32;
        let wave = |i: usize| ((i * 7919 % 1009) as f32 - 504.0) / 300.0;
        let data = (0..3 * each).map(|i| if i < each { wave(i) } else { later });
        let data = data.collect();
        let shape = vec![3, 3, 32, 32];
        dict.insert("noise", foil::tensor::Array { shape, data });
        let path = at.join(format!("noise{later}.safetensors"));
        foil::weights::formats::write_safetensors(&dict, &path, &Default::default()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let image = |out: &str, more: &[&str]| {
        run(out, more);
        std::fs::read(at.join(out).join("000001.png")).unwrap()
    };
    let [zero, one] = [0.0, 1.0].map(noise);
    let ddim = |out: &str, noise: &str| image(out, &["--sampler", "ddim", "--noise", noise]);
    assert_eq!(ddim("ddim-zero", &zero), ddim("ddim-one", &one));
    let ddpm = |out: &str, noise: &str| image(out, &["--noise", noise]);
    assert_ne!(ddpm("ddpm-zero", &zero), ddpm("ddpm-one", &one));
    // Guidance acts.
    assert_ne!(
        run("unguided", &["--sampler", "ddim", "--scale", "0"])[1],
        made(at, "ddim")[1]
    );

    let resumed = generate(at, "ddim", &[&ODD[..], &["--resume"]].concat());
    fails(&resumed, 1, &["other settings"]);
    for (more, words) in [
        (&["--eta", "0.5"][..], &["--eta", "--sampler ddim"][..]),
        (&["--sampler", "ddim", "--eta", "2"], &["--eta 2", "0 to 1"]),
        (
            &["--sampler", "ddim", "--method", "dime"],
            &["--sampler ddim", "DiME"],
        ),
        (
            &["--sampler", "ddpm", "--method", "gb"],
            &["--sampler", "gb"],
        ),
    ] {
        fails(&generate(at, "out", &[&ODD[..], more].concat()), 2, words);
    }
}

/// A lock that the test holds stands for another process.
#[test]
fn a_folder_has_one_run_at_a_time_and_a_killed_one_blocks_nobody() {
    let folder = letters();
    let at = folder.path();
    std::fs::create_dir(at.join("out")).unwrap();
    let lock = at.join("out/.foil-lock");
    let other = std::fs::File::create(&lock).unwrap();
    other.try_lock().unwrap();
    for more in [&[][..], &["--resume"], &["--shard", "1/3"]] {
        let refused = generate(at, "out", &[&ODD[..], more].concat());
        fails(&refused, 1, &["another `foil generate`", "--out"]);
    }
    other.unlock().unwrap();
    // A shard of the same run is no other run.
    other.try_lock_shared().unwrap();
    let shard = |i: &str| generate(at, "out", &[&ODD[..], &["--shard", i]].concat());
    assert!(shard("1/3").status.success());
    drop(other);
    assert!(shard("2/3").status.success() && shard("3/3").status.success());
    assert!(!lock.exists() && at.join("out/manifest.csv").exists());

    // Killed when its first image is there.
    let long = |out: &str| {
        let mut command = foil(at);
        command
            .args(["generate", "--quiet", "--steps", "60", "--batch", "1"])
            .args(["--target", "odd", "--resume", "--originals"])
            .arg(at.join("letters/images"))
            .arg("--out")
            .arg(at.join(out));
        command
    };
    let mut child = long("killed").spawn().unwrap();
    let begun = std::time::Instant::now();
    while !at.join("killed/000000.png").exists() && begun.elapsed().as_secs() < 600 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(at.join("killed/.foil-lock").exists());
    let first = std::fs::metadata(at.join("killed/000000.png")).unwrap();
    assert!(!at.join("killed/000002.png").exists(), "work is left");
    let resumed = long("killed").output().unwrap();
    assert!(resumed.status.success(), "{resumed:?}");
    let kept = std::fs::metadata(at.join("killed/000000.png")).unwrap();
    assert_eq!(first.modified().unwrap(), kept.modified().unwrap());
    assert!(long("whole").output().unwrap().status.success());
    assert_eq!(made(at, "killed"), made(at, "whole"));
}

#[test]
fn a_half_torso_is_recorded_and_not_mixed_with_another() {
    let folder = letters();
    let at = folder.path();
    let run = |out: &str, more: &[&str]| generate(at, out, &[&ODD[..], more].concat());
    assert!(run("plain", &[]).status.success());
    for half in ["f16", "bf16"] {
        assert!(run(half, &["--precision", half]).status.success());
        let record = std::fs::read(at.join(half).join("000000.json")).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["settings"]["networks"]["torso"], half);
        assert_ne!(made(at, half), made(at, "plain"));
    }
    let again = ["--precision", "f16", "--checkpointing", "--batch", "1"];
    assert!(run("again", &again).status.success());
    assert_eq!(made(at, "again"), made(at, "f16"));
    fails(&run("f16", &["--resume"]), 1, &["other settings"]);
    fails(&run("out", &["--precision", "f8"]), 2, &["f8", "bf16"]);
}

/// Lists of shards are not what is joined, but what the records say of all originals.
#[test]
fn shards_that_do_not_fit_together_are_refused_and_empty_ones_take_part() {
    let folder = letters();
    let at = folder.path();
    let run = |out: &str, more: &[&str]| generate(at, out, &[&ODD[..], more].concat());
    let rows = |out: &str| {
        let list = std::fs::read_to_string(at.join(out).join("manifest.csv"));
        list.map(|text| text.lines().count() - 1).ok()
    };
    assert!(run("mixed", &["--shard", "1/2"]).status.success());
    let other = run("mixed", &["--shard", "2/2", "--seed", "9"]);
    fails(&other, 1, &["other settings"]);
    assert_eq!(rows("mixed"), None);
    // One shard more than there are originals.
    for shard in ["4/4", "1/4", "3/4", "2/4"] {
        assert_eq!(rows("many"), None);
        let output = run("many", &["--shard", shard]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success());
        assert_eq!(said.contains("shard is empty"), shard == "4/4", "{said}");
        assert!(!said.contains("-0.00"), "{said}");
    }
    assert_eq!(rows("many"), Some(3));
    // An original that comes moves others between shards: the old list is not joined with the new one.
    let images = at.join("letters/images");
    std::fs::copy(images.join("000001.png"), images.join("000000a.png")).unwrap();
    assert!(
        run("many", &["--shard", "2/4", "--resume"])
            .status
            .success()
    );
    assert_eq!(rows("many"), Some(4));
}

#[test]
fn a_card_of_a_half_torso_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("weights/glyphs");
    let card = std::fs::read_to_string(root.join("glyph_ddpm.toml")).unwrap();
    let card = card.replace("num_groups = 8", "num_groups = 8, torso = \"f16\"");
    assert!(card.contains("torso"));
    std::fs::write(folder.path().join("half.toml"), card).unwrap();
    let weights = "glyph_ddpm.safetensors";
    std::fs::copy(root.join(weights), folder.path().join(weights)).unwrap();
    let output = foil(folder.path())
        .args(["weights", "verify"])
        .arg(folder.path().join("half.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
