//! `--device wgpu` of the real binary when things go wrong: faults that `FOIL_WGPU_FAULTS` asks for (see
//! `src/tensor/wgpu/faults.rs`), on whatever adapter this machine has.

use std::process::Output;

use crate::folders::{Folders, fails, foil, picture};
use crate::quantitative::npy;

const LPIPS: [&str; 5] = ["--metrics", "lpips", "--quiet", "--device", "wgpu"];

/// Without an adapter there is nothing to try.
fn has_adapter() -> bool {
    let home = tempfile::tempdir().unwrap();
    let listed = foil(home.path()).arg("devices").output().unwrap();
    let there = String::from_utf8_lossy(&listed.stdout).contains("wgpu:0");
    if !there {
        println!("skipped: this machine has no adapter");
    }
    there
}

fn score(folders: &Folders, more: &[&str], faults: &str) -> Output {
    let mut command = folders.command(&LPIPS);
    command.args(more).env("FOIL_WGPU_FAULTS", faults);
    command.output().unwrap()
}

/// LPIPS of all pairs, as `--json` prints it.
fn lpips(output: &Output) -> f64 {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let scores: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    scores["groups"][0]["scores"]["lpips"]["value"]
        .as_f64()
        .unwrap()
}

#[test]
fn wgpu_without_memory_for_a_batch_halves_it() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::with_pairs(8, 96);
    let batch = |faults: &str| score(&folders, &["--json", "--batch", "8"], faults);
    // One batch takes fewer launches than these, several do not: what comes of a batch that is halved.
    let expected = lpips(&batch("lost=60,opens=1"));
    // Room for AlexNet's weights on their way to the device (13.5 MB), and for some pairs, not for eight.
    assert_eq!(lpips(&batch("memory=14000000")), expected);
    fails(&batch("memory=14000000,lost=60,opens=1"), 1, &["was lost"]);
    // Not even the weights.
    let none = batch("memory=2000000");
    fails(&none, 1, &["no memory for", "--device cpu"]);
}

#[test]
fn wgpu_that_is_lost_is_opened_again_until_all_is_scored() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::with_pairs(6, 64);
    let run = |batch: &str, faults: &str| {
        let more = ["--metrics", "lpips", "--json", "--device", "wgpu"];
        let mut command = folders.command(&more);
        command.args(["--batch", batch]);
        command.env("FOIL_WGPU_FAULTS", faults).output().unwrap()
    };
    let whole = lpips(&run("6", ""));
    // A batch takes some thirty launches, whatever its size: every opening is good for one or two of them.
    let lost = run("4", "lost=60");
    assert_eq!(lpips(&lost), whole);
    let said = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert!(
        said.contains("was lost and is opened again") && said.contains("in batches of 2"),
        "{said}"
    );
    // Not one pair: it is given up, and not tried for ever.
    let useless = run("4", "lost=5");
    fails(&useless, 1, &["was lost", "--device cpu"]);
    let said = String::from_utf8_lossy(&useless.stderr).into_owned();
    assert_eq!(said.matches("is opened again").count(), 2, "{said}");
}

#[test]
fn wgpu_that_is_lost_while_maps_are_made_goes_on_with_those_that_are_missing() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::with_pairs(4, 64);
    let run = |out: &str, faults: &str| {
        let out = folders.path(out).display().to_string();
        let more = [
            "--metrics",
            "lpips",
            "--json",
            "--maps",
            "--batch",
            "4",
            "--out",
            &out,
            "--device",
            "wgpu",
        ];
        let mut command = folders.command(&more);
        command.env("FOIL_WGPU_FAULTS", faults).output().unwrap()
    };
    let maps = |out: &str| {
        let files = std::fs::read_dir(folders.path(out).join("maps")).unwrap();
        let mut files: Vec<_> = files.map(|f| f.unwrap().path()).collect();
        files.sort();
        let read = |file: &std::path::PathBuf| std::fs::read(file).unwrap();
        files.iter().map(read).collect::<Vec<_>>()
    };
    let whole = lpips(&run("whole", ""));
    assert_eq!(maps("whole").len(), 4);
    // A batch takes some thirty launches, a map as many: every opening is good for one or two of them.
    let lost = run("lost", "lost=60");
    assert_eq!(lpips(&lost), whole);
    assert!(maps("lost") == maps("whole"), "other maps");
    let said = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert!(said.contains("was lost and is opened again"), "{said}");
    // It comes back once only: all pairs of the batch stay, though a map is lacking.
    let gone = run("gone", "lost=60,opens=2");
    fails(&gone, 1, &["was lost", "does not come back"]);
    let journal = folders.path("gone").join("journal/records.jsonl");
    let journal = std::fs::read_to_string(journal).unwrap();
    assert_eq!(journal.matches("{\"pair\":{").count(), 4, "{journal}");
}

#[test]
fn wgpu_without_memory_for_a_batch_of_samples_halves_it() {
    if !has_adapter() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let n = 120;
    let values = |step: usize| -> Vec<f32> {
        let value = |i: usize| (i * step % 251) as f32 / 250.0;
        (0..n * 28 * 28).map(value).collect()
    };
    let [originals, counterfactuals] = [("o.npy", 7), ("c.npy", 11)]
        .map(|(name, step)| npy(folder.path(), name, &[n, 28, 28], &values(step)));
    let targets = npy(folder.path(), "t.npy", &[n], &vec![1.0; n]);
    let run = |faults: &str| {
        let mut command = foil(folder.path());
        command
            .args(["score", "--originals", &originals])
            .args(["--counterfactuals", &counterfactuals])
            .args(["--targets", &targets, "--classifier", "dot_cnn"])
            .args([
                "--oracle",
                "dot_oracle",
                "--label-model",
                "character=dot_character",
            ])
            .args([
                "--metrics",
                "en,tcv,oracle,lvs",
                "--range",
                "0,1",
                "--keep-invalid",
            ])
            .args(["--device", "wgpu", "--json", "--quiet", "--skip-bad"])
            .env("FOIL_WGPU_FAULTS", faults);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let scores: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        scores["groups"][0]["scores"].clone()
    };
    // The first layer's activations of all of them take 6 MB, and there are several such arrays at once.
    assert_eq!(run("memory=8000000"), run(""));
}

#[test]
fn wgpu_that_does_not_come_back_leaves_what_was_computed() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::with_pairs(4, 64);
    let out = folders.path("out").display().to_string();
    let more = ["--batch", "1", "--out", &out];
    // A pair takes some thirty launches.
    let lost = score(&folders, &more, "lost=60,opens=1");
    fails(
        &lost,
        1,
        &["was lost", "--resume", "--device cpu", "does not come back"],
    );
    let journal = std::fs::read_to_string(folders.path("out/journal/records.jsonl")).unwrap();
    let done = journal.matches("{\"pair\":{").count();
    assert!((1..4).contains(&done), "{journal}");
    let rest = score(&folders, &[&more[..], &["--resume", "--json"]].concat(), "");
    let whole = score(&folders, &["--json"], "");
    assert_eq!(lpips(&rest), lpips(&whole));
}

#[test]
fn wgpu_that_is_lost_leaves_the_results_of_other_runs_alone() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::with_pairs(3, 64);
    let out = folders.path("out").display().to_string();
    let of = |metrics: &str, faults: &str| {
        let mut command = folders.command(&["--quiet", "--json", "--device", "wgpu"]);
        command.args(["--metrics", metrics, "--out", &out, "--batch", "2"]);
        command.env("FOIL_WGPU_FAULTS", faults).output().unwrap()
    };
    assert!(of("l1", "").status.success());
    // Lost before anything of this run was computed: its journal is begun anew, not taken from the run before.
    fails(&of("lpips", "lost=5"), 1, &["was lost"]);
    assert!(lpips(&of("lpips", "lost=60")).is_finite());
}

/// 12 originals, each with a counterfactual of two methods: features of originals are kept from pair to pair.
fn of_two_methods(folders: &Folders) -> String {
    let mut rows = "original,counterfactual,method\n".to_owned();
    for i in 0..12 {
        let name = format!("{i:03}.png");
        folders.save("originals", &name, &picture(i, 128, 0));
        for (method, noise) in [("a", 20), ("b", 60)] {
            folders.save(method, &name, &picture(i, 128, noise));
            rows += &format!("originals/{name},{method}/{name},{method}\n");
        }
    }
    let manifest = folders.path("manifest.csv");
    std::fs::write(&manifest, rows).unwrap();
    manifest.display().to_string()
}

#[test]
fn wgpu_without_memory_gives_up_what_it_keeps_for_later() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::new();
    let manifest = of_two_methods(&folders);
    let run = |faults: &str| {
        let mut command = foil(&folders.path("home"));
        command
            .args(["score", "--manifest", &manifest, "--json", "--batch", "1"])
            .args(LPIPS)
            .env("FOIL_WGPU_FAULTS", faults);
        command.output().unwrap()
    };
    // Room for the weights and one pair, not for the features of 12 originals (0.7 MB each) beside them.
    assert_eq!(lpips(&run("memory=15000000")), lpips(&run("")));
}

#[test]
fn wgpu_compares_a_large_set_in_the_memory_of_a_batch() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::new();
    folders.save("originals", "0.png", &picture(0, 128, 0));
    for i in 0..16 {
        let name = format!("{i:03}.png");
        folders.save("counterfactuals/0", &name, &picture(i, 128, 40));
    }
    let more = ["--json", "--batch", "1", "--metrics", "lpips,diversity"];
    let run = |faults: &str| {
        let mut command = folders.command(&["--quiet", "--device", "wgpu"]);
        command.args(more).env("FOIL_WGPU_FAULTS", faults);
        command.output().unwrap()
    };
    let diversity = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let scores: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        scores["groups"][0]["scores"]["lpips_diversity"].clone()
    };
    let whole = diversity(&run(""));
    assert!(whole["value"].as_f64().is_some_and(|v| v > 0.0), "{whole}");
    assert_eq!(diversity(&run("memory=16000000")), whole);
}

#[test]
fn wgpu_that_fails_while_features_are_summed_ends_the_run() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::with_pairs(200, 32);
    let out = folders.path("out").display().to_string();
    let run = |more: &[&str], faults: &str| {
        let mut command =
            folders.command(&["--classifier", "glyph_cnn", "--target", "1", "--quiet"]);
        command
            .args([
                "--fid-features",
                "embedding",
                "--bootstrap",
                "0",
                "--out",
                &out,
            ])
            .args(["--device", "wgpu"])
            .args(more)
            .env("FOIL_WGPU_FAULTS", faults);
        command.output().unwrap()
    };
    let broken = run(&[], "kernel=moments");
    fails(&broken, 1, &["moments", "does not compile", "--device cpu"]);
    assert!(!folders.path("out/scores.json").exists());
    // Everything that was computed is there.
    let rest = run(&["--resume", "--json"], "");
    assert!(
        rest.status.success(),
        "{}",
        String::from_utf8_lossy(&rest.stderr)
    );
    let scores: serde_json::Value = serde_json::from_slice(&rest.stdout).unwrap();
    assert!(
        scores["groups"][0]["scores"]["fid"]["value"].is_f64(),
        "{scores}"
    );
}

#[test]
fn wgpu_kernels_that_do_not_compile_are_told() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::with_pairs(1, 64);
    let broken = score(&folders, &[], "kernel=conv2d");
    fails(
        &broken,
        1,
        &["conv2d dense", "does not compile", "--device cpu"],
    );
}

#[test]
fn wgpu_without_an_adapter_is_told_and_auto_takes_another_device() {
    let folders = Folders::with_pairs(1, 64);
    let none = score(&folders, &[], "adapters=0");
    fails(
        &none,
        2,
        &["no Vulkan, Metal or DirectX 12 adapter", "--device cpu"],
    );
    let mut auto = folders.command(&["--metrics", "l1", "--device", "auto"]);
    let auto = auto.env("FOIL_WGPU_FAULTS", "adapters=0").output().unwrap();
    assert!(auto.status.success());
    let said = String::from_utf8_lossy(&auto.stderr).into_owned();
    assert!(
        said.contains("on cpu (no GPU") || said.contains("on cuda:0 ("),
        "{said}"
    );
}

#[test]
fn wgpu_with_two_adapters_takes_the_one_that_is_named() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::with_pairs(1, 64);
    let on = |device: &str| {
        let more = [
            "--metrics",
            "lpips",
            "--json",
            "--quiet",
            "--device",
            device,
        ];
        let mut command = folders.command(&more);
        command.env("FOIL_WGPU_FAULTS", "adapters=2");
        command.output().unwrap()
    };
    assert_eq!(lpips(&on("wgpu:1")), lpips(&on("wgpu:0")));
    fails(&on("wgpu:2"), 2, &["wgpu:0 ", "wgpu:1 ", "--device cpu"]);
    let home = tempfile::tempdir().unwrap();
    let mut listed = foil(home.path());
    let listed = listed.arg("devices").env("FOIL_WGPU_FAULTS", "adapters=2");
    let listed = listed.output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        listed.contains("wgpu:0") && listed.contains("wgpu:1"),
        "{listed}"
    );
}

#[test]
fn wgpu_faults_that_do_not_exist_are_refused() {
    let folders = Folders::with_pairs(1, 64);
    let wrong = score(&folders, &[], "memory=much");
    fails(&wrong, 2, &["FOIL_WGPU_FAULTS", "memory=much"]);
}
