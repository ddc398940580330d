//! `foil train`: every kind of network in a few steps, resumed runs, and bad input.

use std::path::{Path, PathBuf};
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
    // Runs of a test share a name.
    let force = if more.contains(&"--resume") {
        &[][..]
    } else {
        &["--force"]
    };
    foil(folder)
        .args(["train", kind, "--quiet", "--data"])
        .arg(folder.join("data"))
        .arg("--out")
        .arg(folder.join(format!("{name}.safetensors")))
        .args(more)
        .args(force)
        .output()
        .unwrap()
}

#[test]
fn a_truncated_image_is_named_without_flags_that_train_does_not_have() {
    let folder = world();
    let image = folder.path().join("data/images/000003.png");
    let whole = std::fs::read(&image).unwrap();
    std::fs::write(&image, &whole[..whole.len() / 2]).unwrap();
    let output = train(folder.path(), "oracle", "net", &["--steps", "1"]);
    fails(&output, 1, &["000003.png", "make or copy it again"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("--skip-bad"), "{stderr}");
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
        ("oracle", &["--architecture", "convnext-bn", "--width", "8"]),
        (
            "robust",
            &["--width", "4", "--attack-steps", "1", "--radius", "0.5"],
        ),
        ("encoder", &["--width", "4"]),
        ("autoencoder", &["--class", "1", "--width", "4"]),
        ("noise-aware", &["--noise-steps", "300"]),
        ("ddpm", &["--samples", "3", "--sample-steps", "2"]),
    ] {
        let mut args = vec!["--steps", "2", "--batch", "4", "--half", "--json"];
        args.extend(more);
        let found = printed(&train(folder.path(), kind, "net", &args));
        assert_eq!(found["steps"], 2, "{kind}");
        let card = folder.path().join("net.toml");
        let text = std::fs::read_to_string(&card).unwrap();
        assert!(text.contains(found["sha256"].as_str().unwrap()), "{text}");
        // It says by which command and from which data the network was made.
        let made: toml::Value = toml::from_str(&text).unwrap();
        let made = &made["training"];
        let command = made["command"].as_str().unwrap();
        assert!(
            command.starts_with(&format!("foil train {kind} --quiet --data ")),
            "{text}"
        );
        assert!(
            command.contains("--steps 2 --batch 4 --half --json"),
            "{text}"
        );
        assert!(
            made["data"]
                .as_str()
                .unwrap()
                .starts_with("foil glyphs render --n 80 "),
            "{text}"
        );
        assert_eq!(made["data_sha256"].as_str().unwrap().len(), 64);
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

/// A run that cannot write its card in the end keeps its last checkpoint: where it is, and its bytes.
fn left_checkpoint(at: &Path, args: &[&str]) -> (PathBuf, Vec<u8>) {
    std::fs::create_dir(at.join("net.toml")).unwrap();
    fails(&train(at, "oracle", "net", args), 1, &["net.toml"]);
    let path = at.join("net.checkpoint");
    let whole = std::fs::read(&path).unwrap();
    (path, whole)
}

#[test]
fn a_checkpoint_is_continued_only_if_it_is_whole_and_of_the_same_run() {
    let folder = world();
    let at = folder.path();
    let args = ["--steps", "3", "--batch", "8", "--width", "4"];
    let (checkpoint, whole) = left_checkpoint(at, &args);

    let other = [&args[..], &["--resume", "--seed", "9"]].concat();
    fails(
        &train(at, "oracle", "net", &other),
        1,
        &["another run", "seed", "--resume"],
    );
    let same = [&args[..], &["--resume"]].concat();
    // The same images with another label are other data.
    let table = at.join("data/attributes.csv");
    let text = std::fs::read_to_string(&table).unwrap();
    let (head, last) = text.trim_end().rsplit_once(',').unwrap();
    let other = if last == "0" { "1" } else { "0" };
    std::fs::write(&table, format!("{head},{other}\n")).unwrap();
    fails(
        &train(at, "oracle", "net", &same),
        1,
        &["another run", "data was", "--resume"],
    );
    std::fs::write(&table, text).unwrap();
    std::fs::write(&checkpoint, &whole[..whole.len() / 2]).unwrap();
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
fn weights_that_are_not_those_of_the_card_are_refused() {
    let folder = world();
    let at = folder.path();
    let args = ["--steps", "1", "--batch", "4", "--width", "4"];
    assert!(train(at, "oracle", "net", &args).status.success());
    let path = at.join("net.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let verify = foil(at)
        .args(["weights", "get"])
        .arg(at.join("net.toml"))
        .output();
    fails(
        &verify.unwrap(),
        1,
        &["net.safetensors", "expected sha256", "found"],
    );
    // A card that says nothing of its making is one of somebody else; one that says so with no words is wrong.
    let card = std::fs::read_to_string(at.join("net.toml")).unwrap();
    let line = card.lines().find(|l| l.starts_with("command = ")).unwrap();
    std::fs::write(at.join("net.toml"), card.replace(line, "command = \"\"")).unwrap();
    let verify = foil(at)
        .args(["weights", "get"])
        .arg(at.join("net.toml"))
        .output();
    fails(
        &verify.unwrap(),
        1,
        &["net.toml", "training.command is empty"],
    );
}

/// A checkpoint that is a whole file and yet lost something.
#[test]
fn a_damaged_checkpoint_is_not_continued() {
    let folder = world();
    let at = folder.path();
    let args = ["--steps", "3", "--batch", "8", "--width", "4"];
    let (path, whole) = left_checkpoint(at, &args);
    let (_, header) = safetensors::SafeTensors::read_metadata(&whole).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&whole).unwrap();
    let resume = [&args[..], &["--resume"]].concat();
    let names = [
        "weight/head.weight",
        "first/head.weight",
        "weight/head.bias",
        "second/head.weight",
    ];
    for (damaged, why) in names.into_iter().zip([
        "head.weight",
        "moments",
        "not finite",
        "moments of head.weight",
    ]) {
        let mut bad = tensors.tensor(names[2]).unwrap().data().to_vec();
        bad[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        let kept = tensors.tensors().into_iter().filter_map(|(name, view)| {
            let hit = name == damaged;
            match why {
                "not finite" if hit => {
                    let shape = view.shape().to_vec();
                    Some((
                        name,
                        safetensors::tensor::TensorView::new(view.dtype(), shape, &bad).unwrap(),
                    ))
                }
                "moments" if hit => {
                    let half = view.data().len() / 8 * 4;
                    let shape = vec![half / 4];
                    Some((
                        name,
                        safetensors::tensor::TensorView::new(
                            view.dtype(),
                            shape,
                            &view.data()[..half],
                        )
                        .unwrap(),
                    ))
                }
                _ if hit => None,
                _ => Some((name, view)),
            }
        });
        let bytes = safetensors::serialize(kept, header.metadata().clone()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let output = train(at, "oracle", "net", &resume);
        fails(
            &output,
            1,
            &["net.checkpoint", "not a whole checkpoint", why],
        );
    }
}

/// As `foil generate --target even` asks for them.
#[test]
fn networks_keep_the_names_of_the_labels() {
    let folder = world();
    let at = folder.path();
    let inn = ["--blocks", "1,1", "--widths", "4,4", "--dense", "8"];
    for (kind, more) in [
        ("inn", &inn[..]),
        ("cnn", &["--widths", "4,4,8"]),
        ("classifier", &["--width", "4"]),
    ] {
        let args = [&["--steps", "1", "--batch", "4"], more].concat();
        let output = train(at, kind, "net", &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind}: {said}");
        let card = std::fs::read_to_string(at.join("net.toml")).unwrap();
        assert!(card.contains("labels = [\"even\", \"odd\"]"), "{card}");
    }
    // Nobody knows what the labels of other data mean.
    std::fs::remove_file(at.join("data/dataset.json")).unwrap();
    let args = [&["--steps", "1", "--batch", "4"], &inn[..]].concat();
    assert!(train(at, "inn", "net", &args).status.success());
    let card = std::fs::read_to_string(at.join("net.toml")).unwrap();
    assert!(card.contains("labels = [\"0\", \"1\"]"), "{card}");
}

/// Tiny networks on tiny images learn something: losses fall below those of the first weights.
#[test]
fn autoencoders_and_denoisers_learn() {
    let folder = world();
    let result = |kind: &str, steps: &str, name: &str, more: &[&str]| {
        let args = [
            &[
                "--steps", steps, "--batch", "16", "--rate", "5e-3", "--json",
            ],
            more,
        ]
        .concat();
        let found = printed(&train(folder.path(), kind, "net", &args));
        found["results"][name]
            .as_f64()
            .unwrap_or_else(|| panic!("{found}"))
    };
    let error = |steps: &str, more: &[&str]| {
        result(
            "autoencoder",
            steps,
            "test squared error",
            &[&["--width", "8"], more].concat(),
        )
    };
    let (before, after) = (error("1", &[]), error("60", &[]));
    assert!(after < 0.6 * before, "autoencoder: {before} to {after}");
    let after = error("60", &["--class", "1"]);
    assert!(
        after < 0.6 * before,
        "autoencoder of a class: {before} to {after}"
    );
    let noise = |steps: &str| {
        let more = ["--levels", "1,2", "--samples", "1", "--sample-steps", "2"];
        result("ddpm", steps, "test noise error", &more)
    };
    let (before, after) = (noise("1"), noise("40"));
    assert!(after < 0.6 * before, "denoiser: {before} to {after}");
}

/// What an earlier run made is replaced only by --force; a run that is to be resumed and cannot be says so.
#[test]
fn files_of_an_earlier_run_are_not_lost_by_mistake() {
    let folder = world();
    let at = folder.path();
    let run = |name: &str, more: &[&str]| {
        foil(at)
            .args(["train", "oracle", "--data"])
            .arg(at.join("data"))
            .arg("--out")
            .arg(at.join(name))
            .args(["--steps", "1", "--batch", "4", "--width", "4"])
            .args(more)
            .output()
            .unwrap()
    };
    let first = run("net.safetensors", &["--resume"]);
    assert!(first.status.success());
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(said.contains("net.checkpoint: beginning anew"), "{said}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = |name: &str| std::fs::metadata(at.join(name)).unwrap().mode();
        assert_eq!(mode("net.safetensors"), mode("net.toml"));
    }
    for more in [&[][..], &["--resume"]] {
        let again = run("net.safetensors", more);
        fails(&again, 2, &["net.safetensors is there", "--force"]);
    }
    assert!(run("net.safetensors", &["--force"]).status.success());
    std::fs::write(at.join("mine.toml"), "mine").unwrap();
    fails(&run("mine.safetensors", &[]), 2, &["mine.toml is there"]);
    assert_eq!(std::fs::read(at.join("mine.toml")).unwrap(), b"mine");
    std::fs::write(at.join("other.checkpoint"), "x").unwrap();
    let again = run("other.safetensors", &[]);
    fails(&again, 2, &["other.checkpoint", "--resume", "--force"]);
    std::fs::create_dir(at.join("folder.safetensors")).unwrap();
    fails(&run("folder.safetensors", &[]), 1, &["this is a folder"]);
}

#[test]
fn numbers_of_classes_out_of_range_are_named_by_line_and_column() {
    let folder = world();
    let at = folder.path();
    let table = at.join("data/attributes.csv");
    let text = std::fs::read_to_string(&table).unwrap();
    let (head, _) = text.trim_end().rsplit_once(',').unwrap();
    let line = format!("line {}", text.lines().count());
    for label in ["18446744073709551615", "9000000000000", "4096"] {
        std::fs::write(&table, format!("{head},{label}\n")).unwrap();
        let output = train(at, "oracle", "net", &[]);
        fails(&output, 1, &["attributes.csv", &line, "label", label]);
    }
}

#[test]
fn an_encoder_is_no_classifier() {
    let folder = world();
    let at = folder.path();
    for (folder, name) in [("one", "000000.png"), ("two", "000001.png")] {
        std::fs::create_dir(at.join(folder)).unwrap();
        let image = at.join("data/images").join(name);
        std::fs::copy(image, at.join(folder).join("a.png")).unwrap();
    }
    for flag in ["--classifier", "--oracle"] {
        let output = foil(at)
            .arg("score")
            .arg("--originals")
            .arg(at.join("one"))
            .arg("--counterfactuals")
            .arg(at.join("two"))
            .args([flag, "glyph_encoder", "--out"])
            .arg(at.join("scores"))
            .output()
            .unwrap();
        fails(&output, 2, &["glyph_encoder is no classifier", "encoder"]);
    }
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
        &["data", "split train", "--class"],
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

#[test]
fn attributes_of_celeba_are_labels() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let mut rows = String::from("41\nSmiling Bald\n");
    for i in 0..40u8 {
        let (name, bright) = (format!("{i:06}"), i % 2 == 0);
        let image =
            image::RgbImage::from_pixel(8, 8, image::Rgb([if bright { 230 } else { 20 }; 3]));
        image
            .save(folder.path().join(format!("data/{name}.png")))
            .unwrap();
        rows.push_str(&format!("{name}.jpg {} -1\n", if bright { 1 } else { -1 }));
    }
    // Named, but not in the folder.
    rows.push_str("999999.jpg 1 1\n");
    std::fs::write(folder.path().join("list_attr_celeba.txt"), rows).unwrap();
    let list = folder
        .path()
        .join("list_attr_celeba.txt")
        .display()
        .to_string();
    let with = |attribute: &str| {
        let more = [
            "--attributes",
            &list,
            "--attribute",
            attribute,
            "--steps",
            "30",
            "--batch",
            "16",
        ];
        train(folder.path(), "classifier", "smile", &more)
    };
    let output = with("Smiling");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let card = std::fs::read_to_string(folder.path().join("smile.toml")).unwrap();
    assert!(card.contains("\"not Smiling\", \"Smiling\""), "{card}");
    assert!(card.contains("CelebA's attribute Smiling"), "{card}");
    let said = with("Happy");
    assert!(!said.status.success());
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        error.contains("Happy") && error.contains("Smiling, Bald"),
        "{error}"
    );
}

/// Squares, left or right, in MNIST's files; the test images' files are packed.
#[test]
fn mnist_files_are_data() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let idx = |shape: &[u32], values: &[u8]| -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, shape.len() as u8];
        shape.iter().for_each(|n| bytes.extend(n.to_be_bytes()));
        bytes.extend(values);
        bytes
    };
    let images = |n: u32| -> (Vec<u8>, Vec<u8>) {
        let labels: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
        let mut pixels = Vec::new();
        for &label in &labels {
            pixels.extend((0..144).map(|at| {
                if (at % 12 < 6) == (label == 0) {
                    250
                } else {
                    5
                }
            }));
        }
        (idx(&[n, 12, 12], &pixels), idx(&[n], &labels))
    };
    let (pixels, labels) = images(200);
    std::fs::write(data.join("train-images-idx3-ubyte"), pixels).unwrap();
    std::fs::write(data.join("train-labels-idx1-ubyte"), labels).unwrap();
    let missing = train(folder.path(), "cnn", "n", &["--steps", "2"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(
        !missing.status.success() && said.contains("t10k-images-idx3-ubyte.gz"),
        "{said}"
    );
    let (pixels, labels) = images(40);
    for (name, bytes) in [("images-idx3", pixels), ("labels-idx1", labels)] {
        let file = std::fs::File::create(data.join(format!("t10k-{name}-ubyte.gz"))).unwrap();
        let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        packed.write_all(&bytes).unwrap();
        packed.finish().unwrap();
    }
    for what in ["cnn", "classifier"] {
        let trained = train(
            folder.path(),
            what,
            what,
            &["--steps", "40", "--batch", "32"],
        );
        let said = String::from_utf8_lossy(&trained.stderr).into_owned();
        assert!(trained.status.success(), "{what}: {said}");
        let card = std::fs::read_to_string(folder.path().join(format!("{what}.toml"))).unwrap();
        assert!(
            card.contains("240 images of 12x12 pixels of IDX files"),
            "{card}"
        );
        let shown = String::from_utf8_lossy(&trained.stdout).into_owned();
        let share = |split: &str| -> f64 {
            let from = shown.find(split).unwrap_or_else(|| panic!("{shown}")) + split.len();
            let number: String = { shown[from..].chars() }
                .skip_while(|c| !c.is_ascii_digit())
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            number.parse().unwrap()
        };
        // The deep one has not settled after so few steps.
        assert!(
            share("test") >= if what == "cnn" { 0.9 } else { 0.0 },
            "{what}: {shown}"
        );
    }
    let said = train(folder.path(), "encoder", "e", &["--steps", "2"]);
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        !said.status.success() && error.contains("only labels"),
        "{error}"
    );
}
