//! Gradients of every operation of the candle device, against differences of plain f64 references.
//!
//! [`difference::check`] takes the gradient of `Σ v · operation(x)` for a seeded `v`: on the device by its way back, and
//! by a four-point difference of the f64 reference that the backend suite uses. Both must agree to 2e-5 of the largest
//! entry: the device computes in f32, whose roundings add up to a few 1e-6 here.

#[path = "../backends/attention.rs"]
#[allow(dead_code)]
mod attention;
#[path = "../backends/conv.rs"]
#[allow(dead_code)]
mod conv;
#[path = "../backends/distance.rs"]
#[allow(dead_code)]
mod distance;
#[path = "../backends/elementwise.rs"]
#[allow(dead_code)]
mod elementwise;
#[path = "../backends/host.rs"]
#[allow(dead_code)]
mod host;
#[path = "../backends/layout.rs"]
#[allow(dead_code)]
mod layout;
#[path = "../backends/norm.rs"]
#[allow(dead_code)]
mod norm;
#[path = "../backends/pool.rs"]
#[allow(dead_code)]
mod pool;
#[path = "../backends/resize.rs"]
#[allow(dead_code)]
mod resize;

mod bex_networks;
mod checkpointing;
mod convolutions;
mod difference;
mod elementwise_gradients;
mod glyph_generator;
mod guided_diffusion;
mod layout_gradients;
mod mixing;
mod pooling;
mod shared_tensors;
mod threads;
mod unet_layouts;

/// The way back has kernels of its own; the plainest must give the same gradients.
#[test]
fn the_portable_kernels_pass_the_same_tests() {
    if std::env::var_os("FOIL_CPU").is_some() {
        return;
    }
    let exe = std::env::current_exe().expect("this test's own file");
    let output = std::process::Command::new(exe)
        .args(["--skip", "guided_diffusion", "--skip", "glyph_generator"])
        .env("FOIL_CPU", "portable")
        .output()
        .expect("this test runs itself");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    assert!(!report.contains(" 0 passed"), "{report}");
}
