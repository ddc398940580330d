//! Wrong input: a clear message, the right exit code, never a panic.

use std::process::Stdio;

use crate::folders::{Folders, fails, foil, picture};

#[test]
fn no_folders_at_all_is_wrong_usage() {
    let folders = Folders::new();
    let output = foil(&folders.path("home")).arg("score").output().unwrap();
    fails(&output, 2, &["--originals"]);
}

#[test]
fn a_missing_or_empty_folder_is_named() {
    let folders = Folders::new();
    fails(&folders.score(&[]), 1, &["originals"]);
    std::fs::remove_dir(folders.path("counterfactuals")).unwrap();
    folders.save("originals", "a.png", &picture(1, 64, 0));
    fails(&folders.score(&[]), 1, &["counterfactuals"]);
}

/// Notes and errors that nobody can read change nothing but that.
#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_error_is_no_reason_to_stop() {
    let full = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let folders = Folders::with_pairs(2, 32);
    folders.save("originals", "alone.png", &picture(1, 32, 0));
    let mut score = folders.command(&["--metrics", "l1"]);
    assert_eq!(
        score
            .stdout(Stdio::null())
            .stderr(full())
            .status()
            .unwrap()
            .code(),
        Some(0)
    );
    let mut render = foil(&folders.path("home"));
    render.stdout(Stdio::null());
    render.args(["glyphs", "render", "--n", "5", "--spurious", "0", "--out"]);
    render.arg(folders.path("glyphs")).stderr(full());
    assert_eq!(render.status().unwrap().code(), Some(0));
    assert!(folders.path("glyphs/attributes.csv").exists());
    // Again: the folder is not empty any more.
    assert_eq!(render.status().unwrap().code(), Some(2));
    let mut forced = folders.command(&[]);
    forced.env("FOIL_CPU", "abacus").stderr(full());
    assert_eq!(forced.status().unwrap().code(), Some(2));
}

#[test]
fn two_files_of_one_stem_are_both_named() {
    let folders = Folders::with_pairs(1, 64);
    folders.save("originals", "000.bmp", &picture(1, 64, 0));
    fails(&folders.score(&[]), 1, &["000.png", "000.bmp"]);
}

#[test]
fn images_of_a_pair_must_have_one_size() {
    let folders = Folders::with_pairs(2, 64);
    folders.save("counterfactuals", "001.png", &picture(1, 70, 0));
    fails(
        &folders.score(&["--metrics", "l1"]),
        1,
        &["001.png", "70x70", "64x64"],
    );
    let json = folders.json(&["--metrics", "l1", "--skip-bad"]);
    assert_eq!(json["groups"][0]["skipped"], 1);
    assert!(
        json["left_out"]["skipped"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("70x70")
    );
}

#[test]
fn a_corrupt_image_stops_the_run_unless_it_may_be_skipped() {
    let folders = Folders::with_pairs(3, 64);
    let path = folders.path("counterfactuals/001.png");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    fails(
        &folders.score(&["--metrics", "l1"]),
        1,
        &["001.png", "--skip-bad"],
    );
    let json = folders.json(&["--metrics", "l1,fid", "--skip-bad"]);
    assert_eq!(json["groups"][0]["scores"]["l1"]["n"], 2);
}

#[test]
fn unknown_names_list_the_known_ones() {
    let folders = Folders::with_pairs(1, 64);
    fails(
        &folders.score(&["--metrics", "ssim"]),
        2,
        &["ssim", "lpips"],
    );
    fails(&folders.score(&["--lpips", "resnet"]), 2, &["alex"]);
    fails(&folders.score(&["--fid-features", "128"]), 2, &["2048"]);
    fails(&folders.score(&["--device", "tpu"]), 2, &["cuda"]);
    fails(&folders.score(&["--device", "cuda"]), 2, &["cpu"]);
    fails(
        &folders.score(&["--classifier", "squeezenet"]),
        2,
        &["squeezenet1_1_caffe"],
    );
    fails(&folders.score(&["--batch", "0"]), 2, &["batch"]);
    fails(&folders.score(&["--range", "1,0"]), 2, &["LO"]);
}

#[test]
fn labels_that_make_no_sense_are_named() {
    let folders = Folders::with_pairs(1, 64);
    let classifier = [
        "--classifier",
        "squeezenet1_1_caffe",
        "--metrics",
        "validity",
        "--target",
    ];
    let with = |target| [&classifier[..], &[target]].concat();
    fails(
        &folders.score(&with("espreso")),
        2,
        &["--target", "espreso"],
    );
    fails(
        &folders.score(&with("1000")),
        2,
        &["--target", "1000", "0 to 999"],
    );
    let missing = folders.path("none.txt").display().to_string();
    let mut more = with("espresso");
    more.extend(["--labels", &missing]);
    fails(&folders.score(&more), 1, &["none.txt"]);
}

#[test]
fn logits_are_checked_for_rows_numbers_and_names() {
    let folders = Folders::with_pairs(2, 64);
    let file = folders.path("c.csv");
    let logits = format!("classifier={}", file.display());
    let run = |text: &str| {
        std::fs::write(&file, text).unwrap();
        folders.score(&[
            "--metrics",
            "validity",
            "--target",
            "1",
            "--logits",
            &logits,
        ])
    };
    fails(&run("1,2\n"), 1, &["c.csv", "2", "found 1"]);
    fails(&run("1,2\nNaN,1\n"), 1, &["row 1", "class 0", "NaN"]);
    fails(&run("1,2\n1,two\n"), 1, &["line 2", "two"]);
    fails(&run(""), 1, &["empty"]);
    fails(&run("name,0,1\n000,1,2\n"), 1, &["001"]);
    fails(&folders.score(&["--logits", "oops"]), 2, &["NAME=FILE"]);
    assert!(run("1,2\n3,4\n").status.success());
}

#[test]
fn oracles_without_a_classifier_are_wrong_usage() {
    let folders = Folders::with_pairs(1, 64);
    fails(
        &folders.score(&["--oracle", "squeezenet1_1_caffe"]),
        2,
        &["--classifier"],
    );
    fails(
        &folders.score(&["--metrics", "validity"]),
        2,
        &["--classifier"],
    );
    fails(&folders.score(&["--reject-invalid"]), 2, &["--classifier"]);
}

#[test]
fn weights_that_are_not_here_say_which_file_to_put_where() {
    let folders = Folders::with_pairs(1, 64);
    let output = folders.score(&[
        "--classifier",
        "resnet50",
        "--metrics",
        "validity",
        "--target",
        "1",
    ]);
    fails(&output, 1, &["resnet50", "FOIL_WEIGHTS"]);
    let output = folders.score(&["--metrics", "fid", "--fid-features", "2048"]);
    fails(&output, 1, &["inception_v3_fid", "real-weights"]);
}

#[test]
fn images_too_small_for_a_network_are_an_error_and_not_a_panic() {
    let folders = Folders::with_pairs(2, 16);
    fails(&folders.score(&["--metrics", "lpips"]), 1, &["too small"]);
    assert!(
        folders.score(&["--metrics", "l1,fid"]).status.success(),
        "FID resizes"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported_and_loses_nothing_already_written() {
    if !std::path::Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full here");
        return;
    }
    let folders = Folders::with_pairs(2, 64);
    let journal = folders.path("out/journal");
    std::fs::create_dir_all(&journal).unwrap();
    std::os::unix::fs::symlink("/dev/full", journal.join("features.f32")).unwrap();
    let out = folders.path("out").display().to_string();
    let output = folders.score(&["--metrics", "fid", "--out", &out]);
    fails(&output, 1, &["features.f32"]);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let folders = Folders::with_pairs(2, 64);
    let mut child = folders
        .command(&["--metrics", "l1", "--quiet"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
