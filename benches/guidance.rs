//! Guided diffusion steps: the gradient of a noise-aware classifier's verdict back through the denoising UNet.
//!
//! ```text
//! --times SECONDS                       milliseconds of the best step of every size
//! --memory SIZE|SHAPES.json SIDE on|off memory of the way back through a denoiser, with checkpointing or without
//! ```
//!
//! Both print lines of JSON, which `scripts/peers` reads.

mod guided;
mod seeded;

use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use guided::{Guided, SIZES, denoiser, published, way_back};

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("guided_step");
    group.throughput(Throughput::Elements(1));
    for size in &SIZES {
        let mut networks = None;
        let mut build = || Guided::new(size, &|name, shape| seeded::array(name, shape));
        group.bench_function(BenchmarkId::new("denoise", size.name), |bench| {
            let networks = networks.get_or_insert_with(&mut build);
            bench.iter(|| networks.denoise());
        });
        group.bench_function(BenchmarkId::new("step", size.name), |bench| {
            let networks = networks.get_or_insert_with(&mut build);
            bench.iter(|| networks.step());
        });
    }
    group.finish();
}

criterion_group! {
    name = guidance;
    config = seeded::settings();
    targets = steps
}

/// A field of this process's status, in MB.
fn status(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let kilobytes = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}

/// Peak of the resident memory of a second pass forth and back, beyond what the network holds after the first.
fn memory(network: &str, side: usize, checkpointing: bool) {
    let random = |name: &str, shape: &[usize]| seeded::array(name, shape);
    let unet = match SIZES.iter().find(|size| size.name == network) {
        Some(size) => denoiser(size, &random),
        None => {
            let text = std::fs::read(network).expect("a size, or a file of shapes");
            published(&serde_json::from_slice(&text).expect("JSON"), &random)
        }
    };
    let unet = unet.with_checkpointing(checkpointing);
    let x = random("x", &[1, 3, side, side]);
    way_back(&unet, &x);
    foil::tensor::Backend::release(&foil::tensor::cpu::Cpu);
    let held = status("VmRSS:");
    // The peak is counted from here.
    std::fs::write("/proc/self/clear_refs", "5").ok();
    let start = Instant::now();
    let gradient = way_back(&unet, &x);
    let ms = 1e3 * start.elapsed().as_secs_f64();
    let sum: f64 = gradient.data.iter().map(|v| f64::from(v.abs())).sum();
    let line = serde_json::json!({
        "network": network, "side": side, "checkpointing": checkpointing, "held_mb": held,
        "peak_mb": status("VmHWM:"), "ms": ms, "gradient": sum,
    });
    println!("{line}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|a| a == "--memory") {
        let [network, side, switch] = &arguments[at + 1..at + 4] else {
            unreachable!("three arguments were taken");
        };
        return memory(network, side.parse().expect("a side"), switch == "on");
    }
    let Some(at) = arguments.iter().position(|a| a == "--times") else {
        guidance();
        Criterion::default().configure_from_args().final_summary();
        return;
    };
    let seconds = arguments.get(at + 1).and_then(|s| s.parse().ok());
    let seconds: f64 = seconds.expect("--times SECONDS");
    for size in &SIZES {
        let networks = Guided::new(size, &|name, shape| seeded::array(name, shape));
        networks.step();
        let (start, mut best, mut runs) = (Instant::now(), f64::INFINITY, 0);
        while runs < 3 || start.elapsed().as_secs_f64() < seconds {
            let step = Instant::now();
            networks.step();
            best = best.min(1e3 * step.elapsed().as_secs_f64());
            runs += 1;
        }
        println!("{}", serde_json::json!({ "size": size.name, "ms": best }));
    }
}
