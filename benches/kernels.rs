//! Single operations at the shapes the networks use. Throughput of a convolution counts floating-point operations,
//! two for a product and a sum: criterion's `Gelem/s` are GFLOP/s.
//!
//! `cargo bench --bench kernels -- --summary [NAME]` prints instead, for one thread, each convolution's share of what
//! the core can do, and the same for all convolutions of a network.

#[path = "seeded/devices.rs"]
mod devices;
#[path = "seeded/peak.rs"]
mod peak;
mod seeded;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use foil::metrics::orthogonal_set::OrthogonalSetParams;
use foil::metrics::validity::Judgement;
use foil::metrics::{Matrix, MetricBackend};
use foil::tensor::{Activation, Backend, Conv, Padding, Resize, cpu::Cpu};

/// A convolution of a network.
struct Layer {
    /// `network/layer`.
    name: &'static str,
    /// Height and width of the input.
    side: usize,
    conv: Conv,
    /// How many layers of the network have this shape.
    times: usize,
}

impl Layer {
    fn network(&self) -> &'static str {
        self.name.split_once('/').map_or("", |(network, _)| network)
    }

    fn flops(&self) -> u64 {
        let conv = &self.conv;
        let [h, w] = conv.output(self.side, self.side).expect("the shapes fit");
        let taps = conv.inputs / conv.groups * conv.kernel[0] * conv.kernel[1];
        (2 * taps * conv.outputs * h * w) as u64
    }

    /// Seeded weights and input on the device.
    fn prepare<B: Backend>(&self, b: &B) -> (B::Conv, B::Tensor) {
        let conv = self.conv;
        let [kh, kw] = conv.kernel;
        let weight = seeded::array(
            self.name,
            &[conv.outputs, conv.inputs / conv.groups, kh, kw],
        );
        let bias = seeded::array("bias", &[conv.outputs]).data;
        let x = seeded::array("x", &[1, conv.inputs, self.side, self.side]);
        (
            b.prepare(conv, &weight, &bias).expect("the weights fit"),
            b.upload(&x).expect("an image"),
        )
    }
}

/// The lines of shapes.txt; its head names the columns.
fn layers() -> Vec<Layer> {
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let two = |text: &str| {
        let (a, b) = text.split_once('x').expect("two numbers");
        [number(a), number(b)]
    };
    let lines = include_str!("seeded/shapes.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [
                name,
                side,
                inputs,
                outputs,
                kernel,
                stride,
                padding,
                groups,
                times,
            ] = words[..]
            else {
                panic!("not a shape: {line}");
            };
            let [rows, columns] = two(padding);
            Layer {
                name,
                side: number(side),
                conv: Conv {
                    inputs: number(inputs),
                    outputs: number(outputs),
                    kernel: two(kernel),
                    stride: number(stride),
                    padding: Padding::symmetric(rows, columns),
                    groups: number(groups),
                    activation: Activation::Relu,
                },
                times: number(times),
            }
        })
        .collect()
}

fn conv<B: Backend>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("conv");
    // Two hundred shapes.
    group
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    for layer in layers() {
        group.throughput(Throughput::Elements(layer.flops()));
        let mut prepared = None;
        group.bench_function(BenchmarkId::new(layer.name, device), |bench| {
            // Made only if the filter of the command line lets it run.
            let (conv, x) = prepared.get_or_insert_with(|| layer.prepare(b));
            bench.iter(|| {
                let y = b.conv(black_box(x), conv, None).expect("it runs");
                b.wait().expect("it ran");
                y
            });
        });
    }
    group.finish();
}

/// Best time of at least two runs and a fifth of a second, in seconds.
fn best_time(mut run: impl FnMut()) -> f64 {
    run();
    let (start, mut best, mut runs) = (Instant::now(), f64::INFINITY, 0);
    while runs < 2 || start.elapsed().as_secs_f64() < 0.2 {
        let before = Instant::now();
        run();
        best = best.min(before.elapsed().as_secs_f64());
        runs += 1;
    }
    best
}

/// Prints the share of the core's peak of every convolution whose name contains `part`, on one thread.
fn summary(part: &str) {
    let layers: Vec<Layer> = layers()
        .into_iter()
        .filter(|layer| layer.name.contains(part))
        .collect();
    println!("{}\n", Cpu.describe());
    println!(
        "| convolution | times | MFLOP | ms | GFLOP/s | % of peak |\n|---|---|---|---|---|---|"
    );
    for network in layers.chunk_by(|a, b| a.network() == b.network()) {
        // The clock drifts: the peak is taken beside each network.
        let (instructions, peak) = peak::gflops();
        let row = |name: &str, times: usize, flops: f64, seconds: f64| {
            let speed = flops / seconds * 1e-9;
            println!(
                "| {name} | {times} | {:.1} | {:.3} | {speed:.1} | {:.0} |",
                flops * 1e-6,
                seconds * 1e3,
                speed / peak * 100.0
            );
        };
        let (mut all, mut all_flops, mut all_seconds) = (0, 0.0, 0.0);
        for layer in network {
            let (conv, x) = layer.prepare(&Cpu);
            let seconds = best_time(|| {
                black_box(Cpu.conv(black_box(&x), &conv, None).expect("it runs"));
            });
            row(layer.name, layer.times, layer.flops() as f64, seconds);
            all += layer.times;
            all_flops += layer.times as f64 * layer.flops() as f64;
            all_seconds += layer.times as f64 * seconds;
        }
        let name = format!(
            "**{}**, peak {peak:.0} GFLOP/s ({instructions})",
            network[0].network()
        );
        row(&name, all, all_flops, all_seconds);
    }
}

fn distance<B: Backend>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("feature_distance");
    // The five taps of LPIPS on AlexNet at 256x256.
    for (channels, side) in [(64, 63), (192, 31), (384, 15), (256, 15)] {
        let shape = [1, channels, side, side];
        let [x, y] = ["a", "b"].map(|n| b.upload(&seeded::array(n, &shape)).expect("features"));
        let head = seeded::array("head", &[channels]).data;
        group.throughput(Throughput::Elements((2 * channels * side * side) as u64));
        let name = format!("{channels}x{side}x{side}");
        group.bench_function(BenchmarkId::new(name, device), |bench| {
            bench.iter(|| {
                b.mean_feature_distance(black_box(&x), &y, &head)
                    .expect("it runs")
            });
        });
    }
    group.finish();
}

fn resize<B: Backend>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("resize_to_299");
    for (name, mode) in [
        ("tf1", Resize::Tf1),
        ("halfpixel", Resize::HalfPixel),
        ("antialias", Resize::Antialias),
    ] {
        for side in [256, 512] {
            let x = b
                .upload(&seeded::array("x", &[1, 3, side, side]))
                .expect("an image");
            group.throughput(Throughput::Elements(3 * 299 * 299));
            let name = format!("{name}_from_{side}");
            group.bench_function(BenchmarkId::new(name, device), |bench| {
                bench.iter(|| {
                    let y = b.resize(black_box(&x), 299, 299, mode).expect("it runs");
                    b.wait().expect("it ran");
                    y
                });
            });
        }
    }
    group.finish();
}

/// Mean and scatter in f64, or in two f32: n · d² products and sums.
fn moments<B: MetricBackend>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("moments");
    for (n, d) in [(1000, 64), (1000, 768), (256, 2048)] {
        let features = seeded::array("features", &[n, d]).data;
        group.throughput(Throughput::Elements((2 * n * d * d) as u64));
        group.bench_function(BenchmarkId::new(format!("{n}x{d}"), device), |bench| {
            bench.iter(|| {
                let matrix = Matrix::new("features", n, d, black_box(&features)).expect("n x d");
                let mut running = b.moments(d).expect("memory");
                running.push("features", matrix).expect("finite");
                running.finish().expect("moments")
            });
        });
    }
    group.finish();
}

/// Classes and votes of a classifier and five oracles.
fn committee<B: MetricBackend>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("committee_of_5");
    let (images, classes) = (256, 1000);
    let logits: Vec<Vec<f32>> = (0..6)
        .map(|k| seeded::array(&format!("judge {k}"), &[images, classes]).data)
        .collect();
    let judges: Vec<Matrix<'_>> = logits
        .iter()
        .map(|l| Matrix::new("logits", images, classes, l).expect("n x classes"))
        .collect();
    let (labels, targets) = (vec![0; images], vec![1; images]);
    group.throughput(Throughput::Elements((6 * images * classes) as u64));
    let id = BenchmarkId::new(format!("{images}x{classes}"), device);
    group.bench_function(id, |bench| {
        bench.iter(|| {
            let judgement = Judgement {
                classifier: judges[0],
                oracles: &judges[1..],
                labels: &labels,
                targets: &targets,
            };
            b.committee(black_box(judgement)).expect("finite")
        });
    });
    group.finish();
}

/// Orthogonal sets of 16 samples: Gram matrices of n² · d products and sums.
fn orthogonal_sets<B: MetricBackend>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("orthogonal_sets_of_16");
    for (n, d) in [(100, 64), (64, 2048)] {
        let originals = seeded::array("originals", &[16, d]).data;
        let candidates = seeded::array("candidates", &[16 * n, d]).data;
        group.throughput(Throughput::Elements((16 * n * n * d) as u64));
        group.bench_function(BenchmarkId::new(format!("{n}x{d}"), device), |bench| {
            let originals = Matrix::new("originals", 16, d, &originals).expect("n x d");
            let candidates = Matrix::new("candidates", 16 * n, d, &candidates).expect("n x d");
            let params = OrthogonalSetParams::default();
            bench.iter(|| {
                b.orthogonal_sets(black_box(originals), candidates, &params)
                    .expect("finite")
            });
        });
    }
    group.finish();
}

fn each_device(c: &mut Criterion) {
    devices::on_each_device!(
        c,
        conv,
        distance,
        resize,
        moments,
        committee,
        orthogonal_sets
    );
}

criterion_group! {
    name = kernels;
    config = seeded::settings();
    targets = each_device
}

fn main() {
    let mut args = std::env::args();
    if args.any(|arg| arg == "--summary") {
        let part = args.find(|arg| !arg.starts_with('-')).unwrap_or_default();
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        one.expect("a thread").install(|| summary(&part));
        return;
    }
    kernels();
    Criterion::default().configure_from_args().final_summary();
}
