//! A CUDA driver and compiler without a GPU (`shim/fake_cuda.cpp`), for programs that a test starts.

use std::path::Path;
use std::process::Command;

/// A folder with the fake libraries, for `LD_LIBRARY_PATH`, if this machine can make them.
pub fn fake() -> Option<tempfile::TempDir> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return None;
    }
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backends/shim");
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libcuda.so");
    let made = Command::new("c++")
        .args(["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Werror"])
        .arg(format!("-DSHIM=\"{}\"", shim.display()))
        .arg(shim.join("fake_cuda.cpp"))
        .arg("-o")
        .arg(&library)
        .arg("-ldl")
        .output()
        .ok()?;
    let log = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{log}");
    std::fs::copy(&library, folder.path().join("libnvrtc.so")).expect("a copy");
    Some(folder)
}
