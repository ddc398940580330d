//! Result folders of `foil score`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::other_studies::IDEAL;
use super::{cell, cells, json, read_json, tables};
use crate::folders::{Folders, fails, foil, picture};

/// Scores two groups of small images into `out`, without networks.
fn scored(folders: &Folders, out: &str, noise: u32) -> PathBuf {
    let counterfactuals = format!("counterfactuals-{out}");
    for (group, noise) in [("1_to_2", noise), ("3_to_4", 2 * noise)] {
        for i in 0..2 {
            let name = format!("{group}/{i}.png");
            folders.save("originals", &name, &picture(i, 32, 0));
            folders.save(&counterfactuals, &name, &picture(i, 32, noise));
        }
    }
    let folder = folders.path(out);
    let output = foil(&folders.path("home"))
        .arg("score")
        .arg("--originals")
        .arg(folders.path("originals"))
        .arg("--counterfactuals")
        .arg(folders.path(&counterfactuals))
        .args(["--metrics", "lp", "--quiet", "--out"])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    folder
}

fn describe(run: &Path, text: &str) {
    std::fs::write(run.join("run.toml"), text).unwrap();
}

/// Changes `scores.json` of a run.
fn edit(run: &Path, change: impl FnOnce(&mut Value)) {
    let path = run.join("scores.json");
    let mut scores = read_json(&path);
    change(&mut scores);
    std::fs::write(&path, scores.to_string()).unwrap();
}

const BASE: &str = "cone_projection = true\nxzero_prediction = true\nclassifier = \"Net\"\n";
const NO_CONE: &str = "cone_projection = false\nxzero_prediction = true\nclassifier = \"Net\"\n";

#[test]
fn result_folders_give_the_rows_they_hold_and_dashes_for_the_others() {
    let folders = Folders::new();
    let base = scored(&folders, "base", 10);
    let no_cone = scored(&folders, "no-cone", 20);
    describe(&base, BASE);
    describe(&no_cone, NO_CONE);
    for (run, accuracies) in [(&base, [0.5, 0.9]), (&no_cone, [0.4, 0.6])] {
        edit(run, |scores| {
            scores["oracles"] = serde_json::json!(["Judge"]);
            for (group, value) in scores["groups"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .zip(accuracies)
            {
                let score = serde_json::json!({"value": value, "n": 2, "ci95": null});
                group["scores"]["target_accuracy"] = score.clone();
                group["scores"]["oracle_target_accuracy/Judge"] = score;
            }
        });
    }
    let json = json(&[&base, &no_cone], &IDEAL);
    // The exact protocol, because the runs have it: sample stds, paired changes, plain distances.
    assert_eq!(cell(&json, 2, "TA", "Net"), "0.70 ± 0.28");
    assert_eq!(cell(&json, 4, "OTA Judge", "Net"), "-0.20 ± 0.14");
    assert_eq!(cell(&json, 2, "FID", "Net"), "-");
    assert_eq!(cell(&json, 2, "OS Judge", "Net"), "-");
    assert_eq!(cell(&json, 5, "TA", "Net"), "-");
    let l1 = read_json(&base.join("scores.json"))["summary"]["l1"]["mean"].clone();
    let found = &cells(&json)[&(2, "D1".into(), "Net".into())]["mean"];
    assert!((found.as_f64().unwrap() - l1.as_f64().unwrap()).abs() < 1e-9);
    let notes = json["notes"].to_string();
    assert!(notes.contains("lacks OA, LPIPS, FID"), "{notes}");
    let file = no_cone.join("scores.json");
    assert_eq!(
        self::json(&[&base, &file], &IDEAL)["tables"],
        json["tables"]
    );
}

#[test]
fn a_run_must_say_how_it_was_made_and_may_say_it_by_method() {
    let folders = Folders::new();
    let run = scored(&folders, "run", 10);
    fails(
        &tables(&[&run], &IDEAL),
        1,
        &["run.toml", "cone_projection = true|false"],
    );
    describe(&run, "cone_projection = true\nxzero_prediction = true\n");
    fails(
        &tables(&[&run], &IDEAL),
        1,
        &["scores.json", "classifier", "run.toml"],
    );
    describe(&run, "cone_projection = \"yes\"\n");
    fails(&tables(&[&run], &IDEAL), 1, &["run.toml", "boolean"]);
    describe(&run, "classifier = \"Net\"\ncone_projection = true\n");
    fails(&tables(&[&run], &IDEAL), 1, &["run.toml", "only a part"]);
    let methods =
        "classifier = \"Net\"\n[methods.full]\ncone_projection = true\nxzero_prediction = true\n";
    describe(&run, methods);
    fails(
        &tables(&[&run], &IDEAL),
        1,
        &["run.toml", "1->2", "no method"],
    );
    edit(&run, |scores| {
        for group in scores["groups"].as_array_mut().unwrap() {
            group["method"] = "full".into();
        }
    });
    assert_ne!(cell(&json(&[&run], &IDEAL), 2, "D1", "Net"), "-");
    edit(&run, |scores| {
        scores["groups"][1]["method"] = "other".into()
    });
    fails(&tables(&[&run], &IDEAL), 1, &["run.toml", "\"other\""]);
    edit(&run, |scores| scores["groups"][1]["source"] = Value::Null);
    edit(&run, |scores| scores["groups"][1]["method"] = "full".into());
    fails(&tables(&[&run], &IDEAL), 1, &["3->4", "SOURCE_to_TARGET"]);
}

#[test]
fn runs_that_were_scored_differently_do_not_share_a_table() {
    let folders = Folders::new();
    let base = scored(&folders, "base", 10);
    let other = scored(&folders, "other", 20);
    describe(&base, BASE);
    describe(&other, NO_CONE);
    let whole = std::fs::read_to_string(other.join("scores.json")).unwrap();
    edit(&other, |scores| {
        scores["fingerprints"]["l1"]["range"] = serde_json::json!([0.0, 1.0])
    });
    fails(
        &tables(&[&base, &other], &IDEAL),
        1,
        &["D1", "range", "[0.0,1.0]"],
    );
    std::fs::write(other.join("scores.json"), &whole).unwrap();
    edit(&other, |scores| scores["protocol"] = "published".into());
    fails(
        &tables(&[&base, &other], &IDEAL),
        1,
        &["protocols exact and published"],
    );
    std::fs::write(other.join("scores.json"), &whole).unwrap();
    describe(&other, BASE);
    fails(
        &tables(&[&base, &other], &IDEAL),
        1,
        &["1 → 2 of Net", "given before"],
    );
    edit(&other, |scores| scores["schema"] = "foil.scores/9".into());
    fails(
        &tables(&[&base, &other], &IDEAL),
        1,
        &["foil.scores/1", "foil.scores/9"],
    );
    std::fs::write(other.join("scores.json"), "{").unwrap();
    fails(
        &tables(&[&base, &other], &IDEAL),
        1,
        &["scores.json", "line 1 column"],
    );
}
