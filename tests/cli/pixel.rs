//! `foil generate --method gb|gl|gen` and `foil study quantitative`, with the networks inside the program.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

fn foil(at: &Path, args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("foil").unwrap();
    command.current_dir(at).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Letters with dots.
fn letters(n: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let args = "glyphs render --quiet --out data --seed 5 --size 28 --characters 10 --labels dot --spurious 0 \
                --label-noise 0 --pixel-noise 0 --inverse 0 --scale 0.7 --scale-spread 0.05 --rotation-spread 0.1 \
                --translation 0.3 --n";
    let args: Vec<&str> = args.split_whitespace().chain([n]).collect();
    assert!(foil(folder.path(), &args).status.success());
    folder
}

fn generate(at: &Path, out: &str, more: &[&str]) -> Output {
    let mut args = vec![
        "generate",
        "--quiet",
        "--originals",
        "data/images",
        "--out",
        out,
    ];
    args.extend_from_slice(more);
    foil(at, &args)
}

/// Names and bytes of the images of a result.
fn images(at: &Path, out: &str) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = std::fs::read_dir(at.join(out))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "png"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn batches_shards_and_interruptions_change_no_byte() {
    let folder = letters("5");
    let at = folder.path();
    let short = [
        "--method",
        "gb",
        "--target",
        "other",
        "--iterations",
        "60",
        "--weight-steps",
        "4",
    ];
    let run = |out: &str, more: &[&str]| {
        let output = generate(at, out, &[&short, more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    run("whole", &[]);
    run("single", &["--batch", "1"]);
    let whole = images(at, "whole");
    assert!(!whole.is_empty());
    assert_eq!(whole, images(at, "single"));
    run("parts", &["--shard", "1/2"]);
    run("parts", &["--shard", "2/2", "--resume"]);
    assert_eq!(whole, images(at, "parts"));
    // What is lost is made again, what is there stays.
    std::fs::remove_file(at.join("whole").join(&whole[0].0)).unwrap();
    run("whole", &["--resume"]);
    assert_eq!(whole, images(at, "whole"));
    // Other settings are not mixed in, and the list of what is there stays.
    let list = std::fs::read(at.join("whole/manifest.csv")).unwrap();
    let output = generate(
        at,
        "whole",
        &["--method", "gb", "--target", "other", "--resume"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("other settings"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(std::fs::read(at.join("whole/manifest.csv")).unwrap(), list);
    // Nothing is left of a run that could not begin.
    image::GrayImage::new(30, 28)
        .save(at.join("data/images/zz.png"))
        .unwrap();
    let output = generate(at, "early", &short);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("zz.png"));
    assert!(!at.join("early").exists());
}

#[test]
fn an_invertible_network_changes_the_dot() {
    let folder = letters("8");
    let at = folder.path();
    let output = generate(at, "made", &["--method", "gen", "--target", "3"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let manifest = std::fs::read_to_string(at.join("made/manifest.csv")).unwrap();
    assert!(manifest.lines().count() >= 6, "{manifest}");
    for (name, _) in images(at, "made") {
        let image = image::open(at.join("made").join(name)).unwrap().to_luma8();
        let brightest = (0..10).max_by_key(|&row| image.get_pixel(0, row)[0]);
        assert_eq!(brightest, Some(3));
    }
    // What the program ships scores what it makes.
    let scored = foil(
        at,
        &[
            "score",
            "--quiet",
            "--range=-0.5,0.5",
            "--manifest",
            "made/manifest.csv",
            "--classifier",
            "dot_cnn",
            "--oracle",
            "dot_oracle",
            "--metrics",
            "en,tcv,oracle",
            "--out",
            "scores",
        ],
    );
    assert!(scored.status.success(), "{}", text(&scored.stderr));
    // Shards make the same list.
    for shard in ["2/2", "1/2"] {
        let more = ["--method", "gen", "--target", "3", "--shard", shard];
        assert!(generate(at, "parts", &more).status.success());
    }
    let joined = std::fs::read_to_string(at.join("parts/manifest.csv")).unwrap();
    assert_eq!(joined, manifest);
    // Those that are of the target already have a record and no image.
    let records = std::fs::read_dir(at.join("made")).unwrap();
    let records = records.filter(|e| {
        e.as_ref()
            .unwrap()
            .path()
            .extension()
            .is_some_and(|e| e == "json")
    });
    assert_eq!(records.count(), 8);
}

#[test]
fn prototypes_guide_with_the_auto_encoder_inside_the_program() {
    let folder = letters("12");
    let at = folder.path();
    let short = [
        "--method",
        "gl",
        "--target",
        "other",
        "--iterations",
        "20",
        "--batch",
        "3",
    ];
    let output = generate(at, "made", &short);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = std::fs::read_to_string(at.join("made/000000.json")).unwrap();
    assert!(record.contains("\"prototypes\""), "{record}");
}

/// How many counterfactuals a run of GL finds, and of how many originals.
fn found_by_gl(at: &Path, out: &str, more: &[&str]) -> [usize; 2] {
    let short = "--method gl --gamma 0 --theta 0 --iterations 150 --weight-steps 5";
    let args: Vec<&str> = short
        .split_whitespace()
        .chain(more.iter().copied())
        .collect();
    let output = generate(at, out, &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let files = std::fs::read_dir(at.join(out)).unwrap();
    let records = files.filter(|e| {
        let path = e.as_ref().unwrap().path();
        path.extension().is_some_and(|e| e == "json")
    });
    [images(at, out).len(), records.count()]
}

#[test]
fn prototypes_reach_the_class_that_was_asked_for() {
    let folder = letters("12");
    let at = folder.path();
    let [found, of] = found_by_gl(at, "any", &["--target", "other"]);
    assert!(2 * found > of, "any other class: {found} of {of}");
    let [found, of] = found_by_gl(at, "three", &["--target", "3"]);
    assert!(2 * found > of, "class 3: {found} of {of}");
}

#[test]
fn options_that_do_nothing_are_refused() {
    let folder = letters("2");
    for (args, expected) in [
        (
            &["--method", "gb", "--target", "other", "--gamma", "1"][..],
            "--gamma",
        ),
        (
            &["--method", "gb", "--target", "other", "--cone", "20"][..],
            "--cone",
        ),
        (
            &["--method", "gen", "--target", "other"][..],
            "needs a class",
        ),
        (
            &["--method", "gen", "--target", "1", "--iterations", "5"][..],
            "--iterations",
        ),
        (
            &["--method", "gb", "--target", "1", "--samples", "2"][..],
            "--samples",
        ),
        (&["--target", "1", "--alpha", "boundary"][..], "--alpha"),
        (
            &["--method", "gb", "--target", "1", "--steps", "9"][..],
            "--steps",
        ),
        (
            &["--method", "gen", "--target", "1", "--seed", "9"][..],
            "--seed",
        ),
        (
            &["--method", "gl", "--target", "1", "--unet", "no_such_net"][..],
            "--unet",
        ),
    ] {
        let output = generate(folder.path(), "out", args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            text(&output.stderr)
        );
        assert!(
            text(&output.stderr).contains(expected),
            "{}",
            text(&output.stderr)
        );
    }
    // A classifier is no invertible network, and the other way round.
    for args in [["gen", "dot_cnn"], ["gb", "dot_inn"]] {
        let args = [
            "--method",
            args[0],
            "--classifier",
            args[1],
            "--target",
            "1",
        ];
        let output = generate(folder.path(), "out", &args);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains(args[3]),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn colours_are_refused_by_grey_networks() {
    let folder = letters("2");
    let at = folder.path();
    let file = at.join("data/images/000001.png");
    let mut image = image::open(&file).unwrap().to_rgb8();
    image.get_pixel_mut(3, 3)[1] ^= 64;
    image.save(&file).unwrap();
    let output = generate(at, "out", &["--method", "gb", "--target", "other"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for word in ["000001.png", "grey image", "found colours"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    for what in [&["cnn"][..], &["inn"], &["autoencoder", "--grey=-0.5,0.5"]] {
        let rest = "--quiet --data data --steps 1 --out net.safetensors";
        let args: Vec<&str> = { ["train"].iter().chain(what).copied() }
            .chain(rest.split_whitespace())
            .collect();
        let output = foil(at, &args);
        assert_eq!(output.status.code(), Some(1), "{what:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("000001.png") && said.contains("found colours"),
            "{what:?}: {said}"
        );
    }
}

#[test]
fn a_search_that_finds_nothing_has_no_mean_change() {
    let folder = letters("2");
    let short = "--method gb --target other --iterations 1 --weight-steps 1";
    let short: Vec<&str> = short.split_whitespace().collect();
    let output = generate(folder.path(), "out", &short);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("0 counterfactuals in out\n"), "{said}");
}

/// The small study with other lines in its configuration.
fn changed_study(at: &Path, changes: &[(&str, &str)]) -> Output {
    let print = [
        "study",
        "quantitative",
        "--print-config",
        "glyphs-small.toml",
    ];
    let mut config = text(&foil(at, &print).stdout);
    for (line, other) in changes {
        assert!(config.contains(line), "{line}");
        config = config.replace(line, other);
    }
    std::fs::write(at.join("c.toml"), config).unwrap();
    let args = "study quantitative --config c.toml --out s --quiet";
    foil(at, &args.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn a_method_that_finds_nothing_leaves_cells_empty() {
    for protocol in ["exact", "published"] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let protocol = format!("size = 28\nprotocol = \"{protocol}\"");
        let changes = [
            ("images = 16", "images = 4"),
            ("size = 28", protocol.as_str()),
            (
                "iterations = 300\nlambdas = 6",
                "iterations = 1\nlambdas = 1",
            ),
            ("iterations = 150", "iterations = 5"),
        ];
        let output = changed_study(at, &changes);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let printed = text(&output.stdout);
        assert!(printed.contains("GB: found 0 of 4"), "{printed}");
        let tcv = printed.lines().find(|l| l.starts_with("TCV")).unwrap();
        assert!(tcv.contains("0.0000"), "{printed}");
        // Each method's scores and counterfactuals are files that `foil score` and `foil tables` take.
        let score = "score --quiet --metrics en,tcv --range=-0.5,0.5 --json --originals \
                     s/GEN/counterfactuals.safetensors::originals --counterfactuals \
                     s/GEN/counterfactuals.safetensors";
        let output = foil(at, &score.split_whitespace().collect::<Vec<_>>());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let tables = foil(at, &["tables", "--from", "s/GB", "s/GL", "s/GEN"]);
        assert!(tables.status.success(), "{}", text(&tables.stderr));
    }
}

#[test]
fn the_small_study_shows_that_the_realistic_method_wins_where_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let args = [
        "study",
        "quantitative",
        "--data",
        "glyphs",
        "--small",
        "--out",
        "s",
        "--quiet",
    ];
    let output = foil(at, &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for row in [
        "TCV",
        "EN",
        "IM1",
        "100 IM2",
        "Oracle",
        "LVS (dot)",
        "LVS (character)",
    ] {
        assert!(printed.contains(row), "{row} is missing:\n{printed}");
    }
    for file in ["tables.txt", "counterfactuals.png", "lvs.svg"] {
        assert!(
            at.join("s").join(file).metadata().unwrap().len() > 0,
            "{file}"
        );
    }
    let scores = std::fs::read(at.join("s/scores.json")).unwrap();
    let scores: serde_json::Value = serde_json::from_slice(&scores).unwrap();
    let value = |method: usize, score: &str| {
        let scores = &scores["methods"][method]["scores"][score];
        scores["value"]
            .as_f64()
            .unwrap_or_else(|| panic!("{method} {score}"))
    };
    let (gb, gen_) = (0, 2);
    assert!(value(gen_, "oracle_score/oracle") > value(gb, "oracle_score/oracle"));
    assert!(value(gen_, "label_variation/dot") > value(gb, "label_variation/dot"));
    // Nothing of an earlier study is replaced by mistake.
    let output = foil(at, &args);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--force"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_tolerance_that_no_probability_can_miss_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    for tolerance in ["0", "1", "2"] {
        let mut command = assert_cmd::Command::cargo_bin("foil").unwrap();
        command
            .args([
                "generate",
                "--method",
                "gb",
                "--target",
                "other",
                "--classifier",
                "dot_cnn",
            ])
            .args(["--tolerance", tolerance, "--originals"])
            .arg(folder.path().join("in"))
            .arg("--out")
            .arg(folder.path().join("out"))
            .assert()
            .code(2)
            .stderr(predicates::str::contains("between 0 and 1"));
    }
    let mut command = assert_cmd::Command::cargo_bin("foil").unwrap();
    let help = command.args(["generate", "--help"]).assert().success();
    help.stdout(predicates::str::contains(
        "by guided diffusion, gb, gl or gen",
    ));
}

#[test]
fn an_invertible_network_names_the_classes_of_an_attribute() {
    let folder = letters("10");
    let at = folder.path();
    let rows = (0..10).map(|i| format!("{i:06}.png {} -1\n", if i % 2 == 0 { 1 } else { -1 }));
    let list = format!("10\nSmiling Hat\n{}", rows.collect::<String>());
    std::fs::write(at.join("list.txt"), list).unwrap();
    let args = "train inn --quiet --data data/images --attributes list.txt --attribute Smiling --steps 1 --batch 4 \
                --blocks 1,1 --widths 4,4 --dense 8 --out net.safetensors";
    let output = foil(at, &args.split_whitespace().collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let card = std::fs::read_to_string(at.join("net.toml")).unwrap();
    assert!(card.contains("not Smiling"), "{card}");
}
