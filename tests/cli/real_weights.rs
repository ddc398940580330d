//! The larger real networks, end to end on real photographs. Runs where `FOIL_TEST_STORE` names a store that
//! `scripts/real-weights` has filled (`scripts/test --real-weights` does both).

use std::path::{Path, PathBuf};

use crate::folders::{Folders, foil};

fn store() -> Option<PathBuf> {
    let store = std::env::var_os("FOIL_TEST_STORE").map(PathBuf::from);
    if store.is_none() {
        println!("skipped: FOIL_TEST_STORE is not set (scripts/test --real-weights sets it)");
    }
    store
}

fn photos() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/weights/photos")
}

fn photo_pairs() -> Folders {
    let folders = Folders::new();
    for (original, changed) in [
        ("chelsea", "chelsea_blur2"),
        ("coffee", "coffee_noise20"),
        ("alpine", "alpine_jpeg10"),
    ] {
        for (folder, name) in [("originals", original), ("counterfactuals", changed)] {
            let to = folders.path(folder).join(format!("{original}.png"));
            std::fs::copy(photos().join(format!("{name}.png")), to).unwrap();
        }
    }
    folders
}

#[test]
fn a_committee_of_real_networks_judges_real_photographs() {
    let Some(store) = store() else { return };
    let folders = photo_pairs();
    let out = folders.path("out");
    let output = foil(&store)
        .args([
            "score",
            "--quiet",
            "--json",
            "--classifier",
            "mobilenet_v2",
            "--target",
            "espresso",
        ])
        .args([
            "--oracle",
            "efficientnet_lite0",
            "--oracle",
            "efficientnet_lite1",
        ])
        .args([
            "--oracle",
            "efficientnet_lite2",
            "--oracle",
            "squeezenet1_1_caffe",
        ])
        .args([
            "--lpips",
            "vgg",
            "--fid-features",
            "2048",
            "--fid-resize",
            "halfpixel",
        ])
        .arg("--originals")
        .arg(folders.path("originals"))
        .arg("--counterfactuals")
        .arg(folders.path("counterfactuals"))
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let scores = &json["groups"][0]["scores"];
    // All five networks see an Egyptian cat in the blurred cat and an espresso in the noisy cup.
    let third = |name: &str| {
        let value = scores[name]["value"].as_f64().unwrap();
        assert!((value - 1.0 / 3.0).abs() < 1e-12, "{name}: {value}");
    };
    third("target_accuracy");
    for oracle in [
        "efficientnet_lite0",
        "efficientnet_lite1",
        "efficientnet_lite2",
        "squeezenet1_1_caffe",
    ] {
        third(&format!("oracle_target_accuracy/{oracle}"));
    }
    third("committee_target_accuracy/unanimity");
    let csv = std::fs::read_to_string(out.join("pairs.csv")).unwrap();
    let chelsea = csv.lines().find(|l| l.contains(",chelsea,")).unwrap();
    assert_eq!(
        chelsea.matches("Egyptian cat").count(),
        7,
        "source, classifier, 4 oracles, committee: {chelsea}"
    );
    // LPIPS-vgg against the lpips package, photo by photo.
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/weights/expected.json");
    let golden: serde_json::Value =
        serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = header.iter().position(|h| *h == "lpips").unwrap();
    let mut compared = 0;
    for case in golden["lpips"]["vgg_f32"].as_array().unwrap() {
        let name = case["a"].as_str().unwrap();
        let Some(row) = csv.lines().find(|l| l.contains(&format!(",{name},"))) else {
            continue;
        };
        let other = case["b"].as_str().unwrap();
        if other == name || !other.starts_with(name) {
            continue;
        }
        let got: f64 = row.split(',').nth(column).unwrap().parse().unwrap();
        let expected = case["distance"].as_f64().unwrap();
        assert!((got - expected).abs() < 1e-5, "{name}: {got} {expected}");
        compared += 1;
    }
    assert_eq!(compared, 3);
}
