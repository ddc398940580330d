//! Metrics: LPIPS and FID features per image with the shipped weights, and the statistics over sets of features.

#[allow(dead_code)]
#[path = "seeded/devices.rs"]
mod devices;
#[path = "seeded/peak.rs"]
mod peak;
mod seeded;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foil::metrics::{
    Matrix,
    fid::frechet_from_features,
    inception_features::InceptionFeatures,
    kernel_sums::PolynomialKernel,
    kid::{RandomSubsets, kid_random},
    lpips::{Lpips, LpipsNet},
    orthogonal_set::{OrthogonalSetParams, orthogonal_set},
    prdc::{Rim, prdc},
};
use foil::nets::FidTap;
use foil::tensor::{Backend, Resize};
use foil::weights::Registry;

use devices::Measured;

const SIDE: usize = 256;

fn pixels(seed: usize) -> Vec<u8> {
    let values = seeded::array(&format!("pixels {seed}"), &[SIDE * SIDE * 3]).data;
    values.iter().map(|v| (v * 127.0 + 128.0) as u8).collect()
}

fn per_image<B: Backend + 'static>(c: &mut Criterion, device: &Measured, b: &B) {
    let registry = Registry::open().expect("the registry");
    let weights = registry.lpips("alex").expect("shipped weights");
    let lpips = Lpips::new(b, LpipsNet::Alex, &weights.backbone, weights.heads).expect("alexnet");
    let stem = registry.fid(64).expect("shipped weights");
    let inception =
        InceptionFeatures::new(b, &stem.dict, FidTap::F64, Resize::Tf1).expect("inception");
    let images = [pixels(0), pixels(1)];
    let upload = |image: &[u8]| b.upload_pixels(&[image], SIDE, SIDE).expect("an image");

    let mut group = c.benchmark_group("per_image_256");
    group.throughput(Throughput::Elements(1));
    group.bench_function(BenchmarkId::new("lpips_alex_pair", device), |bench| {
        bench.iter(|| {
            let [p, q] = [&images[0], &images[1]].map(|image| {
                let x = upload(black_box(image));
                lpips.features(b, &x, 1.0 / 127.5, -1.0).expect("features")
            });
            lpips.distances(b, &p, &q).expect("distances")
        });
    });
    group.bench_function(BenchmarkId::new("fid_64_features", device), |bench| {
        bench.iter(|| {
            let x = upload(black_box(&images[0]));
            b.download(&inception.extract(b, &x).expect("features"))
                .expect("a download")
        });
    });
    group.finish();
}

/// Two sets of features whose means differ.
fn sets(n: usize, d: usize) -> [Vec<f32>; 2] {
    let real = seeded::array("real", &[n, d]).data;
    let mut fake = seeded::array("fake", &[n, d]).data;
    fake.iter_mut().for_each(|v| *v = *v * 0.9 + 0.05);
    [real, fake]
}

fn matrix(data: &[f32], n: usize, d: usize) -> Matrix<'_> {
    Matrix::new("features", n, d, data).expect("n x d")
}

fn statistics(c: &mut Criterion) {
    let mut group = c.benchmark_group("features");
    for (n, d) in [(1000, 64), (500, 2048), (3000, 2048)] {
        let [real, fake] = sets(n, d);
        group.throughput(Throughput::Elements(2 * n as u64));
        group.bench_function(BenchmarkId::new("fid", format!("{n}x{d}/cpu")), |bench| {
            bench.iter(|| {
                frechet_from_features(matrix(black_box(&real), n, d), matrix(&fake, n, d))
                    .expect("finite")
            });
        });
    }
    for (n, d) in [(1000, 64), (1000, 2048)] {
        let [real, fake] = sets(n, d);
        let [real, fake] = [matrix(&real, n, d), matrix(&fake, n, d)];
        group.throughput(Throughput::Elements(2 * n as u64));
        let id = |name| BenchmarkId::new(name, format!("{n}x{d}/cpu"));
        group.bench_function(id("kid"), |bench| {
            let kernel = PolynomialKernel::default();
            let subsets = RandomSubsets {
                count: 10,
                ..RandomSubsets::default()
            };
            bench.iter(|| kid_random(black_box(real), fake, &kernel, subsets).expect("finite"));
        });
        group.bench_function(id("prdc"), |bench| {
            bench.iter(|| prdc(black_box(real), fake, 5, Rim::Strict).expect("finite"));
        });
    }
    for (n, d) in [(100, 64), (500, 2048)] {
        let original = seeded::array("original", &[d]).data;
        let candidates = seeded::array("candidates", &[n, d]).data;
        group.throughput(Throughput::Elements(n as u64));
        let id = BenchmarkId::new("orthogonal_set", format!("{n}x{d}/cpu"));
        group.bench_function(id, |bench| {
            let params = OrthogonalSetParams::default();
            bench.iter(|| {
                orthogonal_set(black_box(&original), matrix(&candidates, n, d), &params)
                    .expect("finite")
            });
        });
    }
    group.finish();
}

fn each_device(c: &mut Criterion) {
    devices::on_each_device!(c, per_image);
    statistics(c);
}

criterion_group! {
    name = metrics;
    config = seeded::settings();
    targets = each_device
}
criterion_main!(metrics);
