//! `--device cuda` of the real binary, on a driver and a compiler without a GPU (`tests/backends/shim/fake_cuda.cpp`):
//! scores, and what faults come to.

use std::path::Path;
use std::process::Output;
use std::sync::OnceLock;

use crate::fake::fake;
use crate::folders::{Folders, fails, foil};

/// The fake libraries; compiled kernels stay beside them for all tests.
fn libraries() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let folder = FOLDER.get_or_init(fake).as_ref();
    if folder.is_none() {
        println!("skipped: this machine cannot compile CUDA kernels for the CPU");
    }
    folder.map(tempfile::TempDir::path)
}

const METRICS: [&str; 8] = [
    "--metrics",
    "validity,lpips,fid",
    "--classifier",
    "squeezenet1_1_caffe",
    "--target",
    "281",
    "--bootstrap",
    "0",
];

fn score(folders: &Folders, more: &[&str], told: &[(&str, &str)]) -> Option<Output> {
    let mut command = folders.command(&METRICS);
    command.args(more).env("LD_LIBRARY_PATH", libraries()?);
    Some(command.envs(told.iter().copied()).output().unwrap())
}

fn scores_of(output: &Output) -> serde_json::Value {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Values of all scores, by name.
fn values(scores: &serde_json::Value) -> Vec<(String, f64)> {
    let all = scores["groups"][0]["scores"].as_object().unwrap();
    let values = all.iter();
    values
        .filter_map(|(name, score)| Some((name.clone(), score["value"].as_f64()?)))
        .collect()
}

#[test]
fn cuda_gives_the_scores_of_the_cpu_and_auto_takes_it() {
    let folders = Folders::with_pairs(3, 64);
    let json = ["--json", "--quiet", "--device"];
    let Some(cuda) = score(&folders, &[&json[..], &["cuda"]].concat(), &[]) else {
        return;
    };
    let cuda = scores_of(&cuda);
    assert!(cuda["device"].as_str().unwrap().starts_with("cuda (Fake"));
    let cpu = score(&folders, &[&json[..], &["cpu"]].concat(), &[]).unwrap();
    let cpu = scores_of(&cpu);
    let (got, expected) = (values(&cuda), values(&cpu));
    assert!(expected.len() >= 4, "{expected:?}");
    for ((name, got), (same, expected)) in got.iter().zip(&expected) {
        assert_eq!(name, same);
        // LPIPS is promised to 1e-5; FID of three images is a small difference of large traces.
        let allowed = if name == "fid" { 1e-4 } else { 1e-5 };
        let error = (got - expected).abs() / expected.abs().max(1e-3);
        assert!(error <= allowed, "{name}: {expected} on the cpu, {got}");
    }
    assert_eq!(cpu["fingerprints"], cuda["fingerprints"]);
    let auto = score(&folders, &["--device", "auto"], &[]).unwrap();
    let said = String::from_utf8_lossy(&auto.stderr).into_owned();
    assert!(
        said.contains("on cuda:0 (an NVIDIA GPU: Fake GPU 0"),
        "{said}"
    );
}

#[test]
fn a_batch_that_does_not_fit_is_halved() {
    let folders = Folders::with_pairs(8, 64);
    let more = ["--json", "--quiet", "--device", "cuda", "--batch", "8"];
    let Some(whole) = score(&folders, &more, &[]) else {
        return;
    };
    // Room for the weights (20 MB) and for the activations of some pairs, not of eight.
    let room = [("FAKE_CUDA_BYTES", "30000000")];
    let narrow = score(&folders, &more, &room).unwrap();
    assert_eq!(values(&scores_of(&whole)), values(&scores_of(&narrow)));
    // Not even the weights.
    let none = score(&folders, &more, &[("FAKE_CUDA_BYTES", "2000000")]).unwrap();
    fails(&none, 1, &["no memory for", "--device cpu"]);
}

#[test]
fn a_gpu_that_is_lost_leaves_what_was_computed() {
    let folders = Folders::with_pairs(6, 64);
    let out = folders.path("out");
    let more = [
        "--quiet",
        "--batch",
        "1",
        "--out",
        out.to_str().unwrap(),
        "--device",
    ];
    let on = |device, told: &[_]| score(&folders, &[&more[..], device].concat(), told);
    let Some(lost) = on(&["cuda"], &[("FAKE_CUDA_LOST_AFTER", "400")]) else {
        return;
    };
    fails(
        &lost,
        1,
        &["unspecified launch failure", "--resume", "--device cpu"],
    );
    let journal = std::fs::read_to_string(out.join("journal/records.jsonl")).unwrap();
    let done = journal.matches("{\"pair\":{").count();
    assert!((1..6).contains(&done), "{journal}");
    // The rest, on the same device.
    let rest = on(&["cuda", "--resume"], &[]).unwrap();
    let said = String::from_utf8_lossy(&rest.stderr).into_owned();
    assert!(rest.status.success(), "{said}");
    let scores = std::fs::read_to_string(out.join("scores.json")).unwrap();
    let whole = score(&folders, &["--json", "--quiet", "--device", "cuda"], &[]).unwrap();
    let resumed: serde_json::Value = serde_json::from_str(&scores).unwrap();
    assert_eq!(values(&resumed), values(&scores_of(&whole)));
}

#[test]
fn machine_code_is_taken_and_ptx_where_there_is_none() {
    let folders = Folders::with_pairs(1, 64);
    let more = [
        "--metrics",
        "lpips",
        "--json",
        "--quiet",
        "--device",
        "cuda",
    ];
    let on = |told: &[(&str, &str)]| {
        let mut command = folders.command(&more);
        command.env("LD_LIBRARY_PATH", libraries()?);
        Some(command.envs(told.iter().copied()).output().unwrap())
    };
    let Some(plain) = on(&[]) else {
        return;
    };
    let expected = values(&scores_of(&plain));
    assert!(!expected.is_empty());
    for told in [
        // A driver that takes no PTX gets along, so it had machine code.
        &[("FAKE_CUDA_REFUSE", "ptx")][..],
        // One that takes no machine code falls back.
        &[("FAKE_CUDA_REFUSE", "cubin")],
        // Later GPUs of the generation that NVRTC knows run its code.
        &[("FAKE_CUDA_REFUSE", "ptx"), ("FAKE_CUDA_CAPABILITY", "86")],
        // Those of a later generation get PTX.
        &[("FAKE_CUDA_CAPABILITY", "90")],
    ] {
        let scores = scores_of(&on(told).unwrap());
        assert_eq!(values(&scores), expected, "{told:?}");
    }
    let newer = [("FAKE_CUDA_CAPABILITY", "90"), ("FAKE_CUDA_REFUSE", "ptx")];
    let refused = on(&newer).unwrap();
    fails(&refused, 1, &["the driver refuses", "--device cpu"]);
}

#[test]
fn kernels_that_do_not_compile_and_gpus_that_are_not_there_are_told() {
    let folders = Folders::with_pairs(1, 64);
    let on = |device, told: &[_]| score(&folders, &["--device", device], told);
    let Some(broken) = on("cuda", &[("FAKE_CUDA_BREAK", "conv2d")]) else {
        return;
    };
    fails(&broken, 1, &["conv2d dense", "NVRTC says", "--device cpu"]);
    let two = [("FAKE_CUDA_DEVICES", "2")];
    let third = on("cuda:2", &two).unwrap();
    fails(&third, 2, &["cuda:2", "Fake GPU 0", "Fake GPU 1"]);
    let none = on("cuda", &[("FAKE_CUDA_DEVICES", "0")]).unwrap();
    fails(&none, 2, &["no CUDA-capable device", "--device cpu"]);
    let home = tempfile::tempdir().unwrap();
    let listed = foil(home.path())
        .arg("devices")
        .env("LD_LIBRARY_PATH", libraries().unwrap())
        .env("FAKE_CUDA_DEVICES", "2")
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for part in ["cuda:0", "cuda:1", "Fake GPU 1 (CUDA, sm_80, 1 GiB)"] {
        assert!(listed.contains(part), "{listed}");
    }
}

#[test]
fn a_driver_that_is_broken_is_told_and_never_a_panic() {
    let folders = Folders::with_pairs(1, 64);
    let Some(fake) = libraries() else {
        return;
    };
    // A library that is none, and one that has nothing of a driver: the compiler's.
    let broken = |name: &str| {
        let folder = folders.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    };
    let (text, other) = (broken("text"), broken("other"));
    std::fs::write(text.join("libcuda.so.1"), "no library").unwrap();
    let none = folders.path("none.so");
    let made = std::process::Command::new("cc")
        .args(["-shared", "-x", "c", "/dev/null", "-o"])
        .arg(&none)
        .status()
        .unwrap();
    assert!(made.success());
    std::fs::copy(&none, other.join("libcuda.so.1")).unwrap();
    for (folder, words) in [
        (&text, "cannot be loaded"),
        (&other, "has no function cuInit"),
    ] {
        let run = |device: &str| {
            let mut command = folders.command(&["--metrics", "l1", "--device", device]);
            command.env("LD_LIBRARY_PATH", folder).output().unwrap()
        };
        fails(&run("cuda"), 2, &["libcuda", words, "--device cpu"]);
        let auto = run("auto");
        let said = String::from_utf8_lossy(&auto.stderr).into_owned();
        assert!(auto.status.success() && said.contains(words), "{said}");
        let mut devices = foil(&folders.path("home"));
        let devices = devices.arg("devices").env("LD_LIBRARY_PATH", folder);
        let listed = String::from_utf8(devices.output().unwrap().stdout).unwrap();
        assert!(listed.contains(words), "{listed}");
    }
    // A driver without its compiler, which lacks a function.
    let half = broken("half");
    for name in ["libcuda.so", "libcuda.so.1"] {
        if fake.join(name).exists() {
            std::fs::copy(fake.join(name), half.join(name)).unwrap();
        }
    }
    for name in ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"] {
        std::fs::copy(&none, half.join(name)).unwrap();
    }
    let mut command = folders.command(&["--metrics", "lpips", "--device", "cuda"]);
    let output = command.env("LD_LIBRARY_PATH", &half).output().unwrap();
    fails(
        &output,
        2,
        &["NVRTC", "has no function nvrtcGetNumSupportedArchs"],
    );
}
