//! `foil score`: values, groups, sets, protocols.

use crate::folders::{Folders, fails, picture};

fn value(json: &serde_json::Value, group: usize, name: &str) -> f64 {
    json["groups"][group]["scores"][name]["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("{name}: {}", json["groups"][group]["scores"]))
}

#[test]
fn identical_images_have_no_distance() {
    let folders = Folders::new();
    for i in 0..3 {
        for folder in ["originals", "counterfactuals"] {
            folders.save(folder, &format!("{i}.png"), &picture(i, 64, 30));
        }
    }
    let json = folders.json(&["--metrics", "lp,elastic_net,lpips,fid"]);
    for name in ["l1", "l1_5", "l2", "elastic_net", "lpips"] {
        assert_eq!(value(&json, 0, name), 0.0, "{name}");
    }
    assert!(value(&json, 0, "fid").abs() < 1e-6);
}

#[test]
fn distances_are_those_of_the_pixels_in_the_stated_range() {
    let folders = Folders::new();
    let original = image::RgbImage::from_pixel(64, 64, image::Rgb([100, 100, 100]));
    let mut changed = original.clone();
    changed.put_pixel(3, 5, image::Rgb([100, 151, 100]));
    changed.put_pixel(9, 9, image::Rgb([49, 100, 100]));
    folders.save("originals", "a.png", &original);
    folders.save("counterfactuals", "a.png", &changed);
    // Two changes of 51/255 = 0.2, hence 0.4 in [-1, 1].
    let json = folders.json(&["--metrics", "lp,elastic_net"]);
    let close = |name: &str, expected: f64| {
        let got = value(&json, 0, name);
        assert!((got - expected).abs() < 1e-12, "{name}: {got}");
    };
    close("l1", 0.8);
    close("l1_5", (2.0 * 0.4f64.powf(1.5)).powf(2.0 / 3.0));
    close("l2", 0.32f64.sqrt());
    close("elastic_net", 0.8 + 0.32);
    assert_eq!(
        json["fingerprints"]["l1"]["range"],
        serde_json::json!([-1.0, 1.0])
    );
    let unit = folders.json(&["--metrics", "l1", "--range", "0,1"]);
    assert!((value(&unit, 0, "l1") - 0.4).abs() < 1e-12);
}

#[test]
fn groups_come_from_folder_names_and_the_summary_is_over_groups() {
    let folders = Folders::new();
    for (group, noise) in [("281_to_285", 10), ("970_to_980", 90)] {
        for i in 0..3 {
            let name = format!("{group}/{i}.png");
            folders.save("originals", &name, &picture(i, 64, 0));
            folders.save("counterfactuals", &name, &picture(i, 64, noise));
        }
    }
    let json = folders.json(&[
        "--classifier",
        "squeezenet1_1_caffe",
        "--metrics",
        "validity,l1",
    ]);
    let groups = json["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0]["source"], "281");
    assert_eq!(groups[1]["target"], "980");
    let (a, b) = (value(&json, 0, "l1"), value(&json, 1, "l1"));
    let summary = &json["summary"]["l1"];
    assert!((summary["mean"].as_f64().unwrap() - (a + b) / 2.0).abs() < 1e-9);
    assert!((summary["std"].as_f64().unwrap() - (a - b).abs() / 2.0).abs() < 1e-9);
    assert_eq!(summary["groups"], 2);
    assert_eq!(groups[0]["scores"]["target_accuracy"]["n"], 3);
}

#[test]
fn a_folder_named_like_an_original_is_a_set_with_a_diversity() {
    let folders = Folders::new();
    folders.save("originals", "cat.png", &picture(1, 64, 0));
    for (i, noise) in [10, 40, 90].into_iter().enumerate() {
        folders.save(
            "counterfactuals",
            &format!("cat/{i}.png"),
            &picture(1, 64, noise),
        );
    }
    let json = folders.json(&["--metrics", "lpips,diversity"]);
    assert_eq!(json["groups"][0]["pairs"], 3);
    assert_eq!(json["groups"][0]["originals"], 1);
    let diversity = value(&json, 0, "lpips_diversity");
    assert!(diversity > 0.0);
    // The mean of the three pairwise distances, each scored as a pair of its own.
    let mut sum = 0.0;
    for [a, b] in [[10, 40], [10, 90], [40, 90]] {
        let two = Folders::new();
        two.save("originals", "x.png", &picture(1, 64, a));
        two.save("counterfactuals", "x.png", &picture(1, 64, b));
        sum += value(&two.json(&["--metrics", "lpips"]), 0, "lpips");
    }
    assert!(
        (diversity - sum / 3.0).abs() < 1e-9,
        "{diversity} {}",
        sum / 3.0
    );
}

#[test]
fn logits_of_the_user_give_verdicts_and_committee() {
    let folders = Folders::with_pairs(4, 64);
    // Pair 0: both say target; 1: only the classifier; 2: classifier says source; 3: classifier says another class.
    std::fs::write(folders.path("c.csv"), "0,5,1\n0,5,1\n5,0,1\n0,1,5\n").unwrap();
    std::fs::write(
        folders.path("o.csv"),
        "name,a,b,c\n003,0,1,5\n002,5,0,1\n001,5,0,1\n000.png,0,5,1\n",
    )
    .unwrap();
    let [c, o] = ["c.csv", "o.csv"].map(|f| folders.path(f).display().to_string());
    let out = folders.path("out").display().to_string();
    let json = folders.json(&[
        "--logits",
        &format!("classifier={c}"),
        "--logits",
        &format!("second={o}"),
        "--source",
        "0",
        "--target",
        "1",
        "--metrics",
        "validity",
        "--out",
        &out,
    ]);
    assert_eq!(value(&json, 0, "target_accuracy"), 0.5);
    assert_eq!(value(&json, 0, "original_accuracy"), 0.25);
    assert_eq!(value(&json, 0, "neither"), 0.25);
    assert_eq!(value(&json, 0, "oracle_score/second"), 0.75);
    assert_eq!(value(&json, 0, "oracle_target_accuracy/second"), 0.25);
    assert_eq!(value(&json, 0, "committee_target_accuracy/plurality"), 0.25);
    let csv = std::fs::read_to_string(folders.path("out/pairs.csv")).unwrap();
    let verdicts: Vec<&str> = csv
        .lines()
        .skip(1)
        .map(|l| l.split(',').nth(8).unwrap())
        .collect();
    assert_eq!(
        verdicts,
        ["counterfactual", "adversarial", "unflipped", "other"]
    );
}

#[test]
fn rejecting_invalid_pairs_leaves_them_out_of_closeness_and_realism() {
    let folders = Folders::with_pairs(4, 64);
    std::fs::write(folders.path("c.csv"), "0,5\n0,5\n5,0\n0,5\n").unwrap();
    let logits = format!("classifier={}", folders.path("c.csv").display());
    let common = [
        "--logits",
        &logits,
        "--target",
        "1",
        "--metrics",
        "validity,l1,fid",
    ];
    let all = folders.json(&common);
    let mut more = common.to_vec();
    more.push("--reject-invalid");
    let valid = folders.json(&more);
    assert_eq!(all["groups"][0]["scores"]["l1"]["n"], 4);
    assert_eq!(valid["groups"][0]["scores"]["l1"]["n"], 3);
    assert_eq!(valid["groups"][0]["scores"]["fid"]["n"], 3);
    assert_eq!(value(&valid, 0, "target_accuracy"), 0.75);
}

#[test]
fn the_published_protocol_takes_one_norm_and_is_marked_in_every_fingerprint() {
    let folders = Folders::with_pairs(3, 64);
    let exact = folders.json(&["--metrics", "lp,lpips,fid"]);
    let published = folders.json(&["--metrics", "lp,lpips,fid", "--protocol", "published"]);
    // The L1 norm of a batch is the sum over its images; the others are not.
    assert!((value(&published, 0, "l1") - 3.0 * value(&exact, 0, "l1")).abs() < 1e-6);
    assert!(value(&published, 0, "l2") < 3.0 * value(&exact, 0, "l2"));
    assert_ne!(value(&published, 0, "fid"), value(&exact, 0, "fid"));
    for (_, fingerprint) in published["fingerprints"].as_object().unwrap() {
        assert_eq!(fingerprint["protocol"], "published");
    }
}

#[test]
fn realism_takes_a_reference_folder_and_its_subfolder_for_a_target() {
    let folders = Folders::with_pairs(3, 64);
    for i in 0..4 {
        folders.save(
            "reference",
            &format!("285/{i}.png"),
            &picture(100 + i, 64, 5),
        );
        folders.save(
            "reference",
            &format!("other/{i}.png"),
            &picture(200 + i, 64, 5),
        );
    }
    let reference = folders.path("reference").display().to_string();
    let own = folders.json(&[
        "--metrics",
        "fid",
        "--reference",
        &reference,
        "--target",
        "285",
    ]);
    let all = folders.json(&["--metrics", "fid", "--reference", &reference]);
    let originals = folders.json(&["--metrics", "fid"]);
    let [a, b, c] = [own, all, originals].map(|j| value(&j, 0, "fid"));
    assert!(a != b && b != c && a != c, "{a} {b} {c}");
}

#[test]
fn embedding_features_kid_and_precision_recall_work_with_the_shipped_classifier() {
    let folders = Folders::with_pairs(8, 64);
    let json = folders.json(&[
        "--classifier",
        "squeezenet1_1_caffe",
        "--fid-features",
        "embedding",
        "--metrics",
        "fid,kid,prdc,inception_score",
        "--neighbours",
        "2",
    ]);
    for name in [
        "fid",
        "kid",
        "precision",
        "recall",
        "density",
        "coverage",
        "inception_score",
    ] {
        let score = &json["groups"][0]["scores"][name];
        assert!(score["value"].is_number(), "{name}: {score}");
        assert_eq!(score["n"], 8, "{name}");
        assert!(score["ci95"].is_array(), "{name}: {score}");
    }
}

#[test]
fn too_few_images_for_a_statistic_that_was_asked_for_is_an_error_with_results_kept() {
    let folders = Folders::with_pairs(1, 64);
    let out = folders.path("out").display().to_string();
    let output = folders.score(&["--metrics", "l1,fid", "--out", &out]);
    fails(&output, 1, &["fid", "at least 2"]);
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folders.path("out/scores.json")).unwrap()).unwrap();
    assert!(value(&json, 0, "l1") > 0.0);
}

#[test]
fn unpaired_files_are_listed_and_do_not_stop_the_run() {
    let folders = Folders::with_pairs(2, 64);
    folders.save("originals", "lonely.png", &picture(9, 64, 0));
    let output = folders.score(&["--metrics", "l1"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("lonely.png"));
    let json = folders.json(&["--metrics", "l1"]);
    let left = json["left_out"]["unpaired_originals"].to_string();
    assert!(left.contains("lonely.png"));
}

#[test]
fn images_of_different_sizes_may_share_a_folder() {
    let folders = Folders::new();
    for (i, size) in [64, 70, 90].into_iter().enumerate() {
        folders.save(
            "originals",
            &format!("{i}.png"),
            &picture(i as u32, size, 0),
        );
        folders.save(
            "counterfactuals",
            &format!("{i}.png"),
            &picture(i as u32, size, 25),
        );
    }
    let json = folders.json(&["--classifier", "squeezenet1_1_caffe", "--target", "1"]);
    assert_eq!(json["groups"][0]["scores"]["lpips"]["n"], 3);
}

#[test]
fn heat_maps_are_written_on_request() {
    let folders = Folders::with_pairs(2, 64);
    let out = folders.path("out").display().to_string();
    folders.json(&["--metrics", "lpips", "--out", &out, "--maps"]);
    let map = image::open(folders.path("out/maps/000001-001.png"))
        .unwrap()
        .to_rgb8();
    assert_eq!(map.dimensions(), (64, 64));
    assert!(
        map.pixels().any(|p| p.0 == [255, 255, 255]),
        "the maximum is white"
    );
}

#[test]
fn a_manifest_names_pairs_groups_and_methods() {
    let folders = Folders::with_pairs(3, 64);
    let json = folders.manifest_json(
        "original,counterfactual,source,target,method\n\
         originals/000.png,counterfactuals/000.png,1,2,fast\n\
         originals/000.png,counterfactuals/001.png,1,2,slow\n\
         originals/002.png,counterfactuals/002.png,1,2,fast\n",
        &["--metrics", "l1"],
    );
    let groups = json["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    assert_eq!(
        (&groups[0]["method"], &groups[0]["pairs"]),
        (&"fast".into(), &2.into())
    );
    assert_eq!(groups[1]["name"], "1->2");
}

#[test]
fn heat_maps_that_cannot_be_written_cost_no_scores_and_are_made_later() {
    let folders = Folders::with_pairs(3, 64);
    let out = folders.path("out").display().to_string();
    let more = [
        "--metrics",
        "lpips",
        "--out",
        &out,
        "--maps",
        "--batch",
        "2",
        "--quiet",
    ];
    // A folder in the place of the second map.
    let blocked = folders.path("out/maps/000001-001.png");
    std::fs::create_dir_all(blocked.join("taken")).unwrap();
    let output = folders.score(&more);
    fails(&output, 1, &["000001-001.png", "--resume"]);
    let journal = std::fs::read_to_string(folders.path("out/journal/records.jsonl")).unwrap();
    assert_eq!(journal.matches("{\"pair\":{").count(), 2, "{journal}");
    std::fs::remove_dir_all(&blocked).unwrap();
    // The rest, and the map that is missing; the one that is there is left alone.
    let first = folders.path("out/maps/000000-000.png");
    let before = std::fs::metadata(&first).unwrap().modified().unwrap();
    let output = folders.score(&[&more[..], &["--resume"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let after = std::fs::metadata(&first).unwrap().modified().unwrap();
    assert_eq!(before, after);
    let maps = std::fs::read_dir(folders.path("out/maps")).unwrap();
    let mut names: Vec<String> = maps
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["000000-000.png", "000001-001.png", "000002-002.png"]
    );
    // The same maps as those of a run that nothing stopped.
    let whole = folders.path("whole").display().to_string();
    folders.json(&["--metrics", "lpips", "--out", &whole, "--maps"]);
    for name in names {
        let [made, expected] = ["out", "whole"]
            .map(|run| std::fs::read(folders.path(&format!("{run}/maps/{name}"))).unwrap());
        assert!(made == expected, "{name}");
    }
}

#[test]
fn heat_maps_stay_in_their_folder_whatever_the_manifest_names() {
    let folders = Folders::with_pairs(2, 64);
    let counterfactual = folders.path("counterfactuals/000.png");
    let before = std::fs::read(&counterfactual).unwrap();
    let text = format!(
        "original,counterfactual\noriginals/000.png,{}\noriginals/001.png,sub/../counterfactuals/001.png\n",
        counterfactual.display()
    );
    std::fs::create_dir(folders.path("sub")).unwrap();
    let out = folders.path("out").display().to_string();
    folders.manifest_json(&text, &["--metrics", "lpips", "--maps", "--out", &out]);
    assert!(
        before == std::fs::read(&counterfactual).unwrap(),
        "the input was overwritten"
    );
    let maps = std::fs::read_dir(folders.path("out/maps")).unwrap().count();
    assert_eq!(maps, 2);
}

#[test]
fn named_classes_title_groups_even_without_a_classifier() {
    let folders = Folders::new();
    for folder in ["originals", "counterfactuals"] {
        folders.save(folder, "cat_to_dog/a.png", &picture(1, 64, 0));
    }
    let json = folders.json(&["--metrics", "lp"]);
    assert_eq!(json["groups"][0]["source"], "cat");
    assert_eq!(json["groups"][0]["name"], "cat->dog");
}

#[test]
fn methods_are_summed_up_one_by_one() {
    let folders = Folders::with_pairs(4, 64);
    let mut text = String::from("original,counterfactual,group,method\n");
    for (i, [group, method]) in [["x", "A"], ["y", "A"], ["x", "B"], ["y", "B"]]
        .iter()
        .enumerate()
    {
        text += &format!("originals/00{i}.png,counterfactuals/00{i}.png,{group},{method}\n");
    }
    let json = folders.manifest_json(&text, &["--metrics", "l1"]);
    assert_eq!(json["summary"], serde_json::json!({}));
    assert_eq!(json["summary_by_method"]["B"]["l1"]["groups"], 2);
}

#[test]
fn an_oracle_with_other_classes_is_refused() {
    let folders = Folders::with_pairs(1, 64);
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("weights");
    let labels: Vec<String> = (0..1000).rev().map(|i| format!("\"c{i}\"")).collect();
    let card = format!(
        "name = \"other\"\narchitecture = \"squeezenet1_1\"\nfile = \"{}\"\nlicence = \"test\"\nlabels = [{}]\n",
        shipped
            .join("squeezenet1_1_caffe_f16.safetensors")
            .display(),
        labels.join(", ")
    );
    std::fs::write(folders.path("other.toml"), card).unwrap();
    let oracle = folders.path("other.toml").display().to_string();
    let output = folders.score(&[
        "--classifier",
        "squeezenet1_1_caffe",
        "--oracle",
        &oracle,
        "--target",
        "1",
        "--metrics",
        "validity",
    ]);
    fails(&output, 2, &["other", "squeezenet1_1_caffe", "classes"]);
}
