//! Guided diffusion steps: the gradient of a noise-aware classifier's verdict back through the denoising UNet.

mod guided;
mod seeded;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
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
criterion_main!(guidance);
