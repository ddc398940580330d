//! NVIDIA GPUs, and where there is none a driver and a compiler without one (`shim/fake_cuda.cpp`), under which these
//! tests run themselves again.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use foil::tensor::cuda;
use foil::tensor::gpu::Gpu;
use foil::tensor::{Backend, Precision};

use crate::fake::fake;

/// The first NVIDIA GPU, opened once for all cases.
pub fn device() -> Option<&'static Gpu> {
    static DEVICE: OnceLock<Option<Gpu>> = OnceLock::new();
    DEVICE
        .get_or_init(|| cuda::open(0, Precision::F32).ok())
        .as_ref()
}

/// These tests again, under the fake libraries.
fn again(folder: &Path, names: &[&str], told: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().expect("this test's own file"))
        .args(names)
        .env("LD_LIBRARY_PATH", folder)
        .env("FOIL_FAKE_CUDA", "1")
        .envs(told.iter().copied())
        .output()
        .expect("this test runs itself")
}

fn passes(output: &Output) -> usize {
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{report}{wrong}");
    assert!(!report.contains("skipped:"), "{report}");
    let passed = report.split("ok. ").nth(1).expect("a result");
    let number = passed.split(' ').next().expect("a number");
    number.parse().expect("a number")
}

fn inside() -> bool {
    std::env::var_os("FOIL_FAKE_CUDA").is_some()
}

#[test]
fn fake_driver_passes_the_suite() {
    if inside() {
        return;
    }
    let Some(folder) = fake() else {
        println!("skipped: this machine cannot compile CUDA kernels for the CPU");
        return;
    };
    let output = again(folder.path(), &["nvidia::", "--nocapture"], &[]);
    assert!(passes(&output) > 60);
}

/// Under the fake driver: what each fault comes to.
#[test]
fn cuda_faults_are_told() {
    let Ok(fault) = std::env::var("FOIL_FAULT") else {
        return;
    };
    let number = match fault.as_str() {
        "second" => 1,
        "third" => 2,
        _ => 0,
    };
    let precision = match fault.as_str() {
        "half" => Precision::F16,
        _ => Precision::F32,
    };
    let opened = cuda::open(number, precision);
    let work = |gpu: &Gpu| {
        let x = gpu.upload(&crate::host::random("x", [4, 8, 32, 32]))?;
        gpu.download(&gpu.activate(&x, foil::tensor::Activation::Relu))
    };
    match opened {
        Ok(gpu) => match work(&gpu) {
            Ok(_) => println!("said: works on {}", gpu.describe()),
            Err(error) => println!("said: {error}"),
        },
        Err(error) => println!("said: {error}"),
    }
}

#[test]
fn fake_driver_with_faults_gives_clear_messages() {
    if inside() {
        return;
    }
    let Some(folder) = fake() else {
        println!("skipped: this machine cannot compile CUDA kernels for the CPU");
        return;
    };
    for (fault, told, expected) in [
        (
            "none",
            ("FAKE_CUDA_DEVICES", "1"),
            vec!["works on cuda (Fake GPU 0"],
        ),
        (
            "half",
            ("FAKE_CUDA_DEVICES", "1"),
            vec!["works on cuda (Fake GPU 0"],
        ),
        (
            "second",
            ("FAKE_CUDA_DEVICES", "2"),
            vec!["works on cuda (Fake GPU 1"],
        ),
        (
            "third",
            ("FAKE_CUDA_DEVICES", "2"),
            vec!["cuda:2", "Fake GPU 0", "Fake GPU 1", "--device cpu"],
        ),
        (
            "no GPU",
            ("FAKE_CUDA_DEVICES", "0"),
            vec!["no CUDA-capable device", "--device cpu"],
        ),
        (
            "memory",
            ("FAKE_CUDA_BYTES", "150000"),
            vec!["no memory for 131072 bytes", "--batch"],
        ),
        (
            "lost",
            ("FAKE_CUDA_LOST_AFTER", "0"),
            vec!["unspecified launch failure", "--resume", "--device cpu"],
        ),
        (
            "compile error",
            ("FAKE_CUDA_BREAK", "elementwise"),
            vec!["elementwise activated", "NVRTC says", "--device cpu"],
        ),
    ] {
        let told = [told, ("FOIL_FAULT", fault)];
        let names = ["cuda::cuda_faults_are_told", "--exact", "--nocapture"];
        let output = again(folder.path(), &names, &told);
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{fault}: {report}");
        let said = report.split("said: ").nth(1).expect("something is said");
        for part in expected {
            assert!(said.contains(part), "{fault}: {said}");
        }
    }
}

#[test]
fn without_a_driver_cuda_is_an_error_that_says_so() {
    if inside() || device().is_some() {
        return;
    }
    let message = cuda::open(0, Precision::F32)
        .err()
        .expect("no GPU")
        .to_string();
    assert!(message.contains("cuda:0"), "{message}");
    assert!(message.contains("--device cpu"), "{message}");
}
