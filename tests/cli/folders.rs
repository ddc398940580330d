//! Folders of small images made on the spot.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use image::RgbImage;
use tempfile::TempDir;

/// The `foil` binary with a store of its own, so that nothing installed on this machine matters.
pub fn foil(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foil"));
    command
        .env("FOIL_HOME", home)
        .env_remove("FOIL_WEIGHTS")
        .env("HF_HUB_OFFLINE", "1");
    command
}

/// A smooth pattern with noise, different for each seed.
pub fn picture(seed: u32, size: u32, noise: u32) -> RgbImage {
    RgbImage::from_fn(size, size, |x, y| {
        let wave = |k: u32| {
            let phase = (x * (k + 2) + y * (seed % 7 + 1) + seed * 13) as f32 / 17.0;
            (phase.sin() * 100.0 + 128.0) as u32
        };
        let hash = (x.wrapping_mul(73_856_093)
            ^ y.wrapping_mul(19_349_663)
            ^ seed.wrapping_mul(83_492_791))
            >> 7;
        image::Rgb([0, 1, 2].map(|k| (wave(k) + hash % (noise + 1)).min(255) as u8))
    })
}

/// A folder with `originals/` and `counterfactuals/`.
pub struct Folders {
    pub root: TempDir,
}

impl Folders {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["originals", "counterfactuals", "home"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    /// `n` pairs of `size` × `size`.
    pub fn with_pairs(n: u32, size: u32) -> Self {
        let folders = Self::new();
        for i in 0..n {
            folders.save("originals", &format!("{i:03}.png"), &picture(i, size, 0));
            folders.save(
                "counterfactuals",
                &format!("{i:03}.png"),
                &picture(i, size, 20 + i),
            );
        }
        folders
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn save(&self, folder: &str, name: &str, image: &RgbImage) {
        let path = self.path(folder).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        image.save(path).unwrap();
    }

    /// `foil score` on the two folders with more arguments.
    pub fn command(&self, more: &[&str]) -> Command {
        let mut command = foil(&self.path("home"));
        command
            .arg("score")
            .arg("--originals")
            .arg(self.path("originals"))
            .arg("--counterfactuals")
            .arg(self.path("counterfactuals"))
            .args(more);
        command
    }

    pub fn score(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }

    /// `scores.json` of the pairs that a manifest of this text names.
    pub fn manifest_json(&self, text: &str, more: &[&str]) -> serde_json::Value {
        let manifest = self.path("pairs.csv");
        std::fs::write(&manifest, text).unwrap();
        let output = foil(&self.path("home"))
            .args(["score", "--json", "--quiet", "--manifest"])
            .arg(&manifest)
            .args(more)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// `scores.json` as printed by `--json`.
    pub fn json(&self, more: &[&str]) -> serde_json::Value {
        let mut all = vec!["--json", "--quiet"];
        all.extend(more);
        let output = self.score(&all);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.stderr.is_empty(), "quiet means quiet");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Asserts that a command failed with `code` and that its message holds all of `words`.
pub fn fails(output: &Output, code: i32, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "stderr: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "expected {word:?} in: {stderr}");
    }
}
