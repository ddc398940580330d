//! Guided diffusion steps: the gradient of a noise-aware classifier's verdict back through the denoising UNet.

mod guided;
mod seeded;

use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use guided::{Guided, SIZES};

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

/// With `--times SECONDS` prints a line of JSON for each size, milliseconds of the best step: `scripts/peers` reads it.
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
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
