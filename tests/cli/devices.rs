//! `foil devices`, and `--device` with adapters that are there or not.

use crate::folders::{Folders, fails, foil};

fn listed() -> Vec<serde_json::Value> {
    let home = tempfile::tempdir().unwrap();
    let output = foil(home.path())
        .args(["devices", "--json"])
        .output()
        .unwrap();
    assert!(output.status.success());
    // Drivers that talk about displays would frighten whoever scores on the CPU.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said, "", "nothing to complain about");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_software(device: &serde_json::Value) -> bool {
    let name = device["device"].as_str().unwrap();
    let text = device["description"].as_str().unwrap();
    name.starts_with("wgpu:") && text.contains("software")
}

#[test]
fn the_cpu_is_always_listed_and_cuda_says_what_is_missing() {
    let devices = listed();
    let find = |name: &str| {
        let found = devices.iter().find(|d| d["device"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {devices:?}"))
    };
    assert_eq!(find("cpu")["available"], true);
    let cuda = find("cuda:0");
    if cuda["available"] == false {
        let why = cuda["description"].as_str().unwrap();
        assert!(why.contains("NVIDIA driver"), "{why}");
        let folders = Folders::with_pairs(1, 64);
        let output = folders.score(&["--device", "cuda"]);
        fails(&output, 2, &["cuda:0", "NVIDIA driver", "--device cpu"]);
    }
}

#[test]
fn a_plan_says_what_a_network_costs() {
    let home = tempfile::tempdir().unwrap();
    let plan = |network: &str| {
        let mut command = foil(home.path());
        command.args(["devices", "--plan", network, "--json"]);
        command.output().unwrap()
    };
    let output = plan("squeezenet1_1_caffe");
    assert!(output.status.success());
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // SqueezeNet 1.1: 0.35 billion products at 224x224, each with a sum.
    let flops = found["flops"].as_f64().unwrap();
    assert!((0.6e9..0.8e9).contains(&flops), "{flops}");
    let least = found["devices"][0]["seconds_at_least"].as_f64().unwrap();
    assert!(least >= flops / 19.5e12, "{least}");
    fails(&plan("no_such_network"), 2, &["no_such_network"]);
    // A pair, by the name of the metric and by that of its backbone.
    let json = |network: &str| -> serde_json::Value {
        let output = plan(network);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{network}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let pair = json("lpips_alex");
    assert_eq!(pair["unit"], "pair");
    assert_eq!(pair["flops"], json("lpips_alex_f32")["flops"]);
    // Grey ones, and those that give images.
    for network in [
        "dot_cnn",
        "dot_autoencoder",
        "glyph_autoencoder",
        "glyph_ddpm",
    ] {
        let flops = json(network)["flops"].as_f64().unwrap();
        assert!(flops > 1e5, "{network}: {flops}");
    }
    fails(&plan("dot_inn"), 1, &["dot_inn", "there is no plan of it"]);
}

/// The store of this test is empty and the hub is offline.
#[test]
fn published_networks_are_planned_without_their_weights() {
    let home = tempfile::tempdir().unwrap();
    // Products at the card's size, each with a sum, as the literature counts them (torchvision's documentation; Inception
    // at 299x299); LPIPS is of two images of 256x256.
    for (network, products) in [
        ("resnet50", 4.09e9),
        ("convnext_tiny", 4.46e9),
        ("swin_t", 4.49e9),
        ("vgg16", 15.47e9),
        ("mobilenet_v2", 0.30e9),
        ("inception_v3_fid", 5.7e9),
        (
            "lpips_vgg",
            2.0 * 15.3e9 * (256.0 * 256.0) / (224.0 * 224.0),
        ),
    ] {
        let mut command = foil(home.path());
        let output = command
            .args(["devices", "--plan", network, "--json"])
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{network}: {said}");
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let ratio = found["flops"].as_f64().unwrap() / (2.0 * products);
        assert!((0.95..1.1).contains(&ratio), "{network}: {ratio}");
    }
}

#[test]
fn an_adapter_that_is_not_there_is_wrong_usage() {
    let folders = Folders::with_pairs(1, 64);
    let output = folders.score(&["--device", "wgpu:99"]);
    fails(&output, 2, &["wgpu:99", "--device cpu"]);
    fails(
        &folders.score(&["--device", "wgpu:fast"]),
        2,
        &["wgpu:software"],
    );
}

#[test]
fn software_is_taken_only_if_wgpu_is_named() {
    let devices = listed();
    let adapters = devices.iter().filter(|d| {
        let name = d["device"].as_str().unwrap();
        name.starts_with("wgpu:")
    });
    if !devices.iter().any(is_software) || adapters.count() > 1 {
        println!("skipped: this machine has a GPU, or no adapter at all");
        return;
    }
    let folders = Folders::with_pairs(1, 64);
    let output = folders.score(&["--metrics", "l1", "--device", "wgpu"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let warning = "--device cpu is many times faster";
    assert!(
        said.contains("no GPU, only ") && said.contains(warning),
        "{said}"
    );
    let auto = folders.score(&["--metrics", "l1", "--device", "auto"]);
    let said = String::from_utf8_lossy(&auto.stderr).into_owned();
    assert!(said.contains("on cpu (no GPU"), "{said}");
}

#[test]
fn a_software_adapter_gives_the_scores_of_the_cpu() {
    if !listed().iter().any(is_software) {
        println!("skipped: this machine has no software adapter");
        return;
    }
    let folders = Folders::with_pairs(3, 64);
    let common = [
        "--classifier",
        "squeezenet1_1_caffe",
        "--target",
        "281",
        "--bootstrap",
        "0",
        "--batch",
        "2",
        "--device",
    ];
    let on = |device: &str| folders.json(&[&common[..], &[device]].concat());
    let (cpu, gpu) = (on("cpu"), on("wgpu:software"));
    assert!(gpu["device"].as_str().unwrap().starts_with("wgpu ("));
    let scores = cpu["groups"][0]["scores"].as_object().unwrap();
    let mut compared = 0;
    for (name, score) in scores {
        let Some(expected) = score["value"].as_f64() else {
            continue;
        };
        let got = gpu["groups"][0]["scores"][name]["value"].as_f64().unwrap();
        // LPIPS is promised to 1e-5; FID of three images is a small difference of large traces.
        let allowed = match name.as_str() {
            "fid" => 1e-4,
            _ => 1e-5,
        };
        let error = (got - expected).abs() / expected.abs().max(1e-3);
        assert!(
            error <= allowed,
            "{name}: {expected} on the cpu, {got} on wgpu"
        );
        compared += 1;
    }
    assert!(compared >= 8, "{scores:?}");
    for name in ["lpips", "fid", "l1", "target_accuracy"] {
        assert!(scores.contains_key(name), "{name}");
    }
    assert_eq!(cpu["fingerprints"], gpu["fingerprints"]);
}

#[test]
fn fast_and_an_exact_instruction_set_contradict_each_other() {
    let home = tempfile::tempdir().unwrap();
    let mut command = foil(home.path());
    let command = command
        .args(["--fast", "devices"])
        .env("FOIL_CPU", "portable");
    fails(
        &command.output().unwrap(),
        2,
        &["--fast", "FOIL_CPU=portable"],
    );
}
