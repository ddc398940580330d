//! Killing, resuming, batches and threads never change a byte of the results.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::folders::{Folders, fails, picture};

fn results(folder: &Path) -> [Vec<u8>; 2] {
    ["scores.json", "pairs.csv"].map(|f| std::fs::read(folder.join(f)).unwrap())
}

/// 100 originals with sets of five counterfactuals in two groups: 500 pairs.
fn five_hundred_pairs() -> Folders {
    let folders = Folders::new();
    for i in 0..100 {
        let group = if i % 2 == 0 { "1_to_2" } else { "3_to_4" };
        folders.save(
            "originals",
            &format!("{group}/{i:03}.png"),
            &picture(i, 64, 0),
        );
        for k in 0..5 {
            let image = picture(i, 64, 10 * (k + 1));
            folders.save(
                "counterfactuals",
                &format!("{group}/{i:03}/{k}.png"),
                &image,
            );
        }
    }
    folders
}

#[test]
fn killed_at_ten_moments_and_resumed_it_ends_with_the_same_bytes() {
    let folders = five_hundred_pairs();
    let options = [
        "--quiet",
        "--metrics",
        "lp,lpips,diversity,fid",
        "--bootstrap",
        "20",
    ];
    let whole = folders.path("whole");
    let output = folders
        .command(&options)
        .arg("--out")
        .arg(&whole)
        .stdout(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let broken = folders.path("broken");
    let journal = broken.join("journal/records.jsonl");
    let lines = || std::fs::read_to_string(&journal).map_or(0, |t| t.lines().count());
    let mut killed = 0;
    let mut moment = 12_345u32;
    while killed < 10 {
        let mut child = folders
            .command(&options)
            .args(["--resume", "--out"])
            .arg(&broken)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Let it get a random number of records further, then a random while more.
        moment = moment.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let enough = lines() + (moment >> 16) as usize % 60;
        while lines() < enough && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(3));
        }
        std::thread::sleep(Duration::from_millis(u64::from(moment >> 8) % 90));
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
    }
    assert!(lines() < 600, "the kills came before the end");
    assert!(!broken.join("scores.json").exists());
    let again = folders
        .command(&options)
        .args(["--resume", "--batch", "5", "--out"])
        .arg(&broken)
        .stdout(Stdio::null())
        .output()
        .unwrap();
    assert!(
        again.status.success(),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
    assert!(results(&whole) == results(&broken), "the results differ");
}

#[test]
fn batch_size_and_threads_change_nothing() {
    let folders = Folders::with_pairs(10, 64);
    let mut first = None;
    for (batch, threads) in [("1", "1"), ("7", "2"), ("64", "1"), ("64", "2"), ("3", "3")] {
        let out = folders.path(&format!("out-{batch}-{threads}"));
        let output = folders.score(&[
            "--quiet",
            "--classifier",
            "squeezenet1_1_caffe",
            "--target",
            "285",
            "--metrics",
            "validity,lp,lpips,fid,kid,prdc",
            "--neighbours",
            "3",
            "--batch",
            batch,
            "--threads",
            threads,
            "--out",
            out.to_str().unwrap(),
        ]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let found = results(&out);
        let expected = first.get_or_insert_with(|| found.clone());
        assert!(*expected == found, "batch {batch}, {threads} threads");
    }
}

#[test]
fn an_unfinished_run_is_not_overwritten_silently() {
    let folders = Folders::with_pairs(3, 64);
    std::fs::write(folders.path("counterfactuals/002.png"), b"not an image").unwrap();
    let out = folders.path("out").display().to_string();
    let options = ["--metrics", "l1", "--batch", "1", "--out", &out];
    fails(&folders.score(&options), 1, &["002.png", "--skip-bad"]);
    let journal = std::fs::read_to_string(folders.path("out/journal/records.jsonl")).unwrap();
    assert_eq!(
        journal.matches("\"pair\":{").count(),
        2,
        "what was computed is kept"
    );
    fails(&folders.score(&options), 1, &["--resume"]);
    folders.save("counterfactuals", "002.png", &picture(2, 64, 22));
    let mut resume = options.to_vec();
    resume.push("--resume");
    assert!(folders.score(&resume).status.success());
    assert!(
        folders.score(&options).status.success(),
        "a finished run may be replaced"
    );
}

#[test]
fn resuming_with_other_options_is_refused_and_names_them() {
    let folders = Folders::with_pairs(2, 64);
    let out = folders.path("out").display().to_string();
    assert!(
        folders
            .score(&["--metrics", "l1", "--out", &out])
            .status
            .success()
    );
    let output = folders.score(&["--metrics", "l1,lpips", "--out", &out, "--resume"]);
    fails(&output, 1, &["metrics", "--out"]);
}

#[test]
fn a_journal_with_missing_features_or_plan_is_refused_and_never_filled_with_zeros() {
    let folders = Folders::with_pairs(3, 64);
    let out = folders.path("out").display().to_string();
    let options = ["--metrics", "fid", "--out", &out, "--resume"];
    assert!(folders.score(&options).status.success());
    let features = folders.path("out/journal/features.f32");
    let whole = std::fs::read(&features).unwrap();
    std::fs::write(&features, &whole[..whole.len() / 2]).unwrap();
    fails(&folders.score(&options), 1, &["features.f32"]);
    std::fs::write(&features, whole).unwrap();
    assert!(folders.score(&options).status.success());
    std::fs::remove_file(folders.path("out/journal/plan.json")).unwrap();
    fails(&folders.score(&options), 1, &["plan.json"]);
}

#[test]
fn an_image_changed_after_it_was_scored_is_named_on_resume() {
    let folders = Folders::with_pairs(3, 64);
    let out = folders.path("out").display().to_string();
    let options = ["--metrics", "l1", "--out", &out, "--resume"];
    assert!(folders.score(&options).status.success());
    folders.save("counterfactuals", "001.png", &picture(77, 64, 3));
    fails(&folders.score(&options), 1, &["001.png", "changed"]);
}

#[test]
fn a_usage_error_leaves_finished_results_alone() {
    let folders = Folders::with_pairs(2, 64);
    let out = folders.path("out").display().to_string();
    assert!(
        folders
            .score(&["--metrics", "l1", "--out", &out])
            .status
            .success()
    );
    let before = results(&folders.path("out"));
    let output = folders.score(&["--metrics", "validity", "--out", &out]);
    fails(&output, 2, &["--classifier"]);
    assert!(before == results(&folders.path("out")));
    assert!(
        folders
            .score(&["--metrics", "l2", "--out", &out])
            .status
            .success()
    );
}
