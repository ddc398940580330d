//! `--device wgpu` of the real binary when things go wrong: faults that `FOIL_WGPU_FAULTS` asks for (see
//! `src/tensor/wgpu/faults.rs`), on whatever adapter this machine has.

use std::process::Output;

use crate::folders::{Folders, fails, foil};

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
    let expected = lpips(&batch("lost=60"));
    // Room for AlexNet's weights on their way to the device (13.5 MB), and for some pairs, not for eight.
    assert_eq!(lpips(&batch("memory=14000000")), expected);
    fails(&batch("memory=14000000,lost=60"), 1, &["was lost"]);
    // Not even the weights.
    let none = batch("memory=2000000");
    fails(&none, 1, &["no memory for", "--device cpu"]);
}

#[test]
fn wgpu_that_is_lost_leaves_what_was_computed() {
    if !has_adapter() {
        return;
    }
    let folders = Folders::with_pairs(4, 64);
    let out = folders.path("out").display().to_string();
    let more = ["--batch", "1", "--out", &out];
    // A pair takes some thirty launches.
    let lost = score(&folders, &more, "lost=60");
    fails(&lost, 1, &["was lost", "--resume", "--device cpu"]);
    let journal = std::fs::read_to_string(folders.path("out/journal/records.jsonl")).unwrap();
    let done = journal.matches("{\"pair\":{").count();
    assert!((1..4).contains(&done), "{journal}");
    let rest = score(&folders, &[&more[..], &["--resume", "--json"]].concat(), "");
    let whole = score(&folders, &["--json"], "");
    assert_eq!(lpips(&rest), lpips(&whole));
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
