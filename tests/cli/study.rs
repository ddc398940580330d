//! `foil study diffusion`: the same bytes in parts and after an interruption; bad configurations.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::folders::{fails, foil};

/// Two classifiers, four setups, three groups of two images, two steps.
const TINY: &str = r#"
denoiser = "glyph_ddpm"
robust = "glyph_robust"
ideal = [["i", "odd"], ["l", "even"]]
[generation]
steps = "4"
skip = 2
[originals]
per_source = 2
glyphs = { seed = 5, pixel_noise = 0.0, scale = 0.8, scale_spread = 0.0, rotation_spread = 0.05, translation = 0.2 }
[[classifier]]
name = "plain"
card = "glyph_resnet18"
[[classifier]]
name = "random"
card = "random"
untrained = true
[[oracle]]
name = "judge"
card = "glyph_oracle_cnn"
[[target]]
class = 0
name = "even"
label = "even"
[[target]]
class = 1
name = "odd"
label = "odd"
[[source]]
class = 108
name = "i"
label = "even"
character = "i"
[[source]]
class = 111
name = "l"
label = "odd"
character = "l"
[[source]]
class = 118
name = "s"
label = "even"
character = "s"
"#;

fn command(at: &Path, out: &str, more: &[&str]) -> Command {
    let config = at.join("tiny.toml");
    // Another command may be reading it.
    if !config.exists() {
        std::fs::write(&config, TINY).unwrap();
    }
    let mut command = foil(at);
    command
        .args(["study", "diffusion", "--quiet", "--config"])
        .arg(config)
        .arg("--out")
        .arg(at.join(out))
        .args(more);
    command
}

fn study(at: &Path, out: &str, more: &[&str]) -> Output {
    command(at, out, more).output().unwrap()
}

fn said(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Every file below a folder, by its path.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy();
                found.insert(name.into_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn same(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>) {
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(a), names(b));
    for (name, bytes) in a {
        assert!(b[name] == *bytes, "{name} differs");
    }
}

#[test]
fn parts_and_an_interruption_give_the_bytes_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let tables = said(&study(at, "whole", &[]));
    assert!(!tables.contains("± -0."), "a spread is none: {tables}");
    for number in 2..=7 {
        assert!(tables.contains(&format!("Table {number}: ")), "{tables}");
    }
    let whole = files(&at.join("whole"));
    // 2 classifiers, 4 setups, 3 groups: 24 rows and the header.
    let raw = String::from_utf8(whole["raw.csv"].clone()).unwrap();
    assert_eq!(raw.lines().count(), 25);

    for part in ["1/3", "2/3", "3/3"] {
        let words = said(&study(at, "parts", &["--shard", part]));
        assert_eq!(words.contains("Table 2"), part == "3/3", "{words}");
    }
    same(&files(&at.join("parts")), &whole);

    // At once, in a folder that is not there yet.
    let together = ["1/2", "2/2"].map(|part| {
        let mut command = command(at, "together", &["--shard", part]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    for part in together {
        let output = part.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    same(&files(&at.join("together")), &whole);

    // Killed when the first images are there.
    let mut child = command(at, "killed", &[])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let images = at.join("killed/images");
    while !images.exists() && begun.elapsed() < Duration::from_secs(600) {
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = files(&at.join("killed"));
    assert!(left.len() < whole.len() && !left.contains_key("raw.csv"));
    said(&study(at, "killed", &["--resume"]));
    let parts = |name: &String| name.ends_with("part");
    let mut resumed = files(&at.join("killed"));
    resumed.retain(|name, _| !parts(name));
    same(&resumed, &whole);

    // `foil tables` prints the same numbers.
    let again = foil(at)
        .args(["tables", "--digits", "3", "--table", "4", "--from"])
        .arg(at.join("whole/raw.csv"))
        .arg("--settings")
        .arg(at.join("whole/tables.toml"))
        .output()
        .unwrap();
    let again = said(&again);
    let rows = |text: &str| -> Vec<String> {
        let from = text.split("Table 4: ").nth(1).unwrap();
        let lines = from
            .lines()
            .skip(1)
            .take_while(|l| !l.contains('.') || l.contains('±'));
        lines.map(str::to_owned).collect()
    };
    assert!(
        rows(&again).len() > 3 && rows(&again) == rows(&tables),
        "{again}\n{tables}"
    );

    // Another study, or files without --resume; files of others for a part, too.
    fails(&study(at, "whole", &[]), 2, &["--out"]);
    std::fs::create_dir(at.join("mine")).unwrap();
    std::fs::write(at.join("mine/notes.txt"), "").unwrap();
    fails(&study(at, "mine", &["--shard", "1/2"]), 2, &["--out"]);
    // A lock that the test holds stands for another process.
    let lock = std::fs::File::create(at.join("whole/.foil-lock")).unwrap();
    lock.try_lock().unwrap();
    for more in [&["--resume"][..], &["--shard", "1/2"]] {
        let refused = study(at, "whole", more);
        fails(&refused, 1, &["another `foil study", "--out"]);
    }
    drop(lock);
    let other = TINY.replace("skip = 2", "skip = 3");
    std::fs::write(at.join("other.toml"), other).unwrap();
    let mixed = foil(at)
        .args(["study", "diffusion", "--resume", "--config"])
        .arg(at.join("other.toml"))
        .arg("--out")
        .arg(at.join("whole"))
        .output()
        .unwrap();
    fails(&mixed, 1, &["study.json", "another study"]);
}

/// Originals of the user's own, whose names sort differently with and without their extensions.
#[test]
fn originals_of_a_folder_are_compared_with_their_own_counterfactuals() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let drawn = foil(at)
        .args(["glyphs", "render", "--quiet", "--n", "4", "--seed", "5"])
        .args(["--pixel-noise", "0", "--scale", "0.8", "--out"])
        .arg(at.join("drawn"))
        .output()
        .unwrap();
    assert!(drawn.status.success());
    let originals = at.join("mine/i");
    std::fs::create_dir_all(&originals).unwrap();
    let names = ["img", "img (1)"];
    for (k, name) in names.iter().enumerate() {
        let from = at.join(format!("drawn/images/00000{k}.png"));
        std::fs::copy(from, originals.join(format!("{name}.png"))).unwrap();
    }
    let (first, _) = TINY.split_once("[[source]]").unwrap();
    let glyphs = first.lines().find(|l| l.starts_with("glyphs =")).unwrap();
    let text = first
        .replace(glyphs, "folder = \"mine\"")
        .replace(", [\"l\", \"even\"]", "");
    let source = "[[source]]\nclass = 108\nname = \"i\"\nlabel = \"even\"\n";
    std::fs::write(at.join("mine.toml"), text + source).unwrap();
    let run = |more: &[&str]| {
        foil(at)
            .args(["study", "diffusion", "--quiet", "--config"])
            .arg(at.join("mine.toml"))
            .arg("--out")
            .arg(at.join("out"))
            .args(more)
            .output()
            .unwrap()
    };
    said(&run(&[]));
    let mut reader = csv::Reader::from_path(at.join("out/raw.csv")).unwrap();
    let header = reader.headers().unwrap().clone();
    let column = header.iter().position(|h| h == "lp_norm_1").unwrap();
    let row = reader.records().next().unwrap().unwrap();
    let found: f64 = row[column].parse().unwrap();
    let pixels = |path: &Path| image::open(path).unwrap().into_rgb8().into_raw();
    let distance = |name: &&str| -> f64 {
        let a = pixels(&originals.join(format!("{name}.png")));
        let made = format!("out/images/plain/cone_x0/i_to_odd/{name}.png");
        let b = pixels(&at.join(made));
        let differences = a.iter().zip(&b).map(|(a, b)| f64::from(a.abs_diff(*b)));
        // Of values from −1 to 1.
        differences.sum::<f64>() / 127.5
    };
    let expected = names.iter().map(distance).sum::<f64>() / 2.0;
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");

    // Rows belong to the originals they were made from.
    std::fs::copy(
        at.join("drawn/images/000002.png"),
        originals.join("img.png"),
    )
    .unwrap();
    fails(&run(&["--resume"]), 1, &["other originals"]);
    // Two of one name.
    std::fs::rename(originals.join("img (1).png"), originals.join("img.jpg")).unwrap();
    let out = ["--out", "elsewhere"];
    let twice = foil(at)
        .args(["study", "diffusion", "--quiet", "--config"])
        .arg(at.join("mine.toml"))
        .args(out)
        .current_dir(at)
        .output()
        .unwrap();
    fails(&twice, 1, &["img.png", "called the same"]);
}

/// Every card of a study is part of what its rows are made from, not only the weights.
#[test]
fn rows_of_changed_cards_are_not_mixed_in() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("weights/glyphs");
    let (before, rest) = TINY
        .split_once("[[classifier]]\nname = \"random\"")
        .unwrap();
    let (_, rest) = rest.split_once("[[oracle]]").unwrap();
    let mut text = format!("{before}[[oracle]]{rest}");
    let networks = [
        "glyph_ddpm",
        "glyph_robust",
        "glyph_resnet18",
        "glyph_oracle_cnn",
    ];
    for name in networks {
        for file in ["toml", "safetensors"].map(|e| format!("{name}.{e}")) {
            std::fs::copy(weights.join(&file), at.join(&file)).unwrap();
        }
        text = text.replace(&format!("\"{name}\""), &format!("\"{name}.toml\""));
    }
    let setup = "[[setup]]\ncone_projection = true\nxzero_prediction = false\n[originals]";
    text = text.replace("[originals]", setup);
    std::fs::write(at.join("cards.toml"), text).unwrap();
    let run = |more: &[&str]| {
        foil(at)
            .args(["study", "diffusion", "--quiet", "--config"])
            .arg(at.join("cards.toml"))
            .arg("--out")
            .arg(at.join("out"))
            .args(more)
            .output()
            .unwrap()
    };
    said(&run(&[]));
    let whole = files(&at.join("out"));
    for name in networks {
        let path = at.join(format!("{name}.toml"));
        let card = std::fs::read_to_string(&path).unwrap();
        let other = card.replace("mean = [0.5, 0.5, 0.5]", "mean = [0.4, 0.5, 0.5]");
        assert_ne!(card, other);
        std::fs::write(&path, other).unwrap();
        fails(&run(&["--resume"]), 1, &["rows", "networks or cards"]);
        std::fs::write(&path, card).unwrap();
    }
    said(&run(&["--resume"]));
    same(&files(&at.join("out")), &whole);
}

/// A card of a network that ships, with other words in it, beside its weights.
fn other_card(at: &Path, name: &str, from: &str, to: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("weights/glyphs");
    let card = std::fs::read_to_string(root.join(format!("{name}.toml"))).unwrap();
    let other = card.replacen(from, to, 1);
    assert_ne!(card, other);
    std::fs::write(at.join(format!("{name}.toml")), other).unwrap();
    let weights = format!("{name}.safetensors");
    std::fs::copy(root.join(&weights), at.join(weights)).unwrap();
}

fn run_text(at: &Path, out: &str, text: &str, more: &[&str]) -> Output {
    let file = at.join(format!("{out}.toml"));
    std::fs::write(&file, text).unwrap();
    foil(at)
        .args(["study", "diffusion", "--quiet", "--config"])
        .arg(file)
        .arg("--out")
        .arg(at.join(out))
        .args(more)
        .output()
        .unwrap()
}

/// Every network is opened before the first image is made, not when its turn comes.
#[test]
fn networks_that_cannot_be_run_are_met_before_the_folder_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let noise = "schedule = \"cosine\"";
    other_card(at, "glyph_noise_aware", noise, "schedule = \"linear\"");
    other_card(at, "glyph_cnn", "plain_cnn", "resnet18");
    other_card(at, "glyph_oracle_cnn", "plain_cnn", "resnet18");
    let resize = "resize = { size = [32, 32] }\ncrop = \"none\"";
    let large = "resize = \"none\"\ncrop = 40";
    other_card(at, "glyph_robust", resize, large);
    let grey = format!("{resize}\nchannels = \"grey\"");
    other_card(at, "glyph_resnet18", resize, &grey);
    let [random, judge] = ["random", "glyph_oracle_cnn"].map(|n| format!("card = \"{n}\""));
    for (from, to, word) in [
        (&random[..], "glyph_noise_aware", "schedule"),
        (&random, "glyph_resnet18", "grey"),
        (&random, "glyph_cnn", "glyph_cnn.toml"),
        (&judge, "glyph_oracle_cnn", "glyph_oracle_cnn.toml"),
        (
            "robust = \"glyph_robust\"",
            "glyph_robust",
            "[preprocessing]",
        ),
    ] {
        let (key, _) = from.split_once(' ').unwrap();
        let wrong = TINY.replace(from, &format!("{key} = \"{to}.toml\""));
        assert_ne!(wrong, TINY);
        fails(&run_text(at, "out", &wrong, &[]), 1, &[word]);
        assert!(!at.join("out").exists(), "{to}");
    }
}

/// A push without measure leaves the range of numbers, for some images: which ones depends on the processor.
#[test]
fn images_without_numbers_stop_no_study() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let wild = TINY
        .replace(
            "steps = \"4\"\nskip = 2",
            "steps = \"20\"\nskip = 0\nscale = 1e6",
        )
        .replace("per_source = 2", "per_source = 3")
        .replace(
            "[originals]",
            "[[setup]]\ncone_projection = false\nxzero_prediction = true\n[originals]",
        );
    let output = run_text(at, "out", &wild, &[]);
    fails(&output, 1, &["numbers that are none", "generation.scale"]);
    let made = files(&at.join("out"));
    let rows: Vec<&String> = made.keys().filter(|n| n.starts_with("rows/")).collect();
    // The last run is made, whatever the first one lost.
    assert!(
        rows.iter().any(|n| n.starts_with("rows/random/")),
        "{rows:?}"
    );
    for name in &rows {
        let row: serde_json::Value = serde_json::from_slice(&made[*name]).unwrap();
        let lost = row["lost"].as_object().map_or(0, |lost| lost.len());
        let images = row["values"]["images"].as_f64().unwrap();
        assert_eq!(images + lost as f64, 3.0, "{row}");
        let verdicts = row["verdicts"].as_object().unwrap();
        assert_eq!(verdicts.len() + lost, 3, "{row}");
    }
    // 2 classifiers, 1 setup, 3 groups.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("no row").count(), 6 - rows.len(), "{said}");
    let again = run_text(at, "out", &wild, &["--resume"]);
    fails(&again, 1, &["numbers that are none"]);
    assert_eq!(again.stderr, output.stderr);
    same(&files(&at.join("out")), &made);
}

#[test]
fn ddim_is_a_sampler_of_a_study() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let one = TINY.replace(
        "[originals]",
        "[[setup]]\ncone_projection = true\nxzero_prediction = true\n[originals]",
    );
    let ddim = one.replace("skip = 2", "skip = 2\nsampler = { ddim = { eta = 0.0 } }");
    said(&run_text(at, "ddpm", &one, &[]));
    said(&run_text(at, "ddim", &ddim, &[]));
    let image = "images/plain/cone_x0/i_to_odd/000.png";
    let image = |out: &str| std::fs::read(at.join(out).join(image)).unwrap();
    assert_ne!(image("ddpm"), image("ddim"));
    let wrong = ddim.replace("eta = 0.0", "eta = 2.0");
    fails(
        &run_text(at, "wrong", &wrong, &[]),
        2,
        &["eta is 2", "0 to 1"],
    );
}

#[test]
fn an_untrained_network_is_never_moved() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    said(&study(at, "out", &[]));
    let mut reader = csv::Reader::from_path(at.join("out/raw.csv")).unwrap();
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|h| h == name).unwrap();
    let (classifier, flips) = (column("classifier"), column("flip_rate"));
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let random = rows.iter().filter(|r| &r[classifier] == "random");
    assert_eq!(random.clone().count(), 12);
    assert!(random.clone().all(|r| &r[flips] == "0"));
}

#[test]
fn bad_configurations_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |text: &str| {
        std::fs::write(at.join("bad.toml"), text).unwrap();
        foil(at)
            .args(["study", "diffusion", "--quiet", "--config"])
            .arg(at.join("bad.toml"))
            .arg("--out")
            .arg(at.join("out"))
            .output()
            .unwrap()
    };
    for (from, to, code, words) in [
        ("robust =", "rubost =", 2, &["bad.toml", "rubost"][..]),
        ("[[\"i\", \"odd\"]", "[[\"j\", \"odd\"]", 2, &["ideal pair"]),
        (
            "class = 111",
            "class = 108",
            2,
            &["\"i\" and \"l\"", "class 108"],
        ),
        (
            "class = 1\n",
            "class = 0\n",
            2,
            &["\"even\" and \"odd\"", "class 0"],
        ),
        (
            "[\"i\", \"odd\"]",
            "[\"i\", \"even\"]",
            2,
            &["ideal pair", "self_pairs"],
        ),
        ("glyph_resnet18", "glyph_resnet19", 2, &["glyph_resnet18"]),
        ("skip = 2", "skip = 2\ndistance = \"l0\"", 2, &["distance"]),
        ("skip = 2", "skip = 4", 2, &["none is left"]),
        (
            "label = \"odd\"",
            "label = \"add\"",
            2,
            &["add", "even, odd"],
        ),
        (
            "\"glyph_resnet18\"",
            "\"net.onnx\"",
            2,
            &["net.onnx", "no gradients"],
        ),
        ("\"glyph_ddpm\"", "\"glyph_cnn\"", 2, &["not a denoiser"]),
        (
            "name = \"judge\"",
            "name = \"plain\"",
            2,
            &["two are named"],
        ),
    ] {
        let wrong = TINY.replace(from, to);
        assert_ne!(wrong, TINY);
        fails(&run(&wrong), code, words);
        assert!(!at.join("out").exists(), "{to}: nothing is begun");
    }
    let none = foil(at)
        .args(["study", "diffusion", "--config", "none.toml"])
        .output()
        .unwrap();
    fails(&none, 1, &["none.toml", "study-glyphs.toml"]);
    let printed = foil(at)
        .args(["study", "diffusion", "--print-config", "study.toml"])
        .output()
        .unwrap();
    assert!(said(&printed).contains("cheetah"));
}
