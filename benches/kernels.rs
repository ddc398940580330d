//! Every kernel at shapes that networks and metrics use; below each time its GFLOP/s, GB/s and share of the device's roofline.
//!
//! `cargo bench --bench kernels -- --summary [NAME]` prints instead, for one thread, each convolution's share of what
//! the core can do, and the same for all convolutions of a network.

#[path = "seeded/devices.rs"]
mod devices;
#[path = "seeded/peak.rs"]
mod peak;
#[path = "seeded/roofline.rs"]
mod roofline;
mod seeded;
#[allow(dead_code)]
#[path = "seeded/statistics.rs"]
mod statistics;
#[path = "seeded/weights.rs"]
mod weights;
#[allow(dead_code)]
#[path = "seeded/work.rs"]
mod work;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use foil::metrics::MetricBackend;
use foil::tensor::{Activation, Backend, Conv, Padding, cpu::Cpu};

use devices::Measured;
use statistics::Statistic;
use work::Work;

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

fn conv<B: Backend + 'static>(c: &mut Criterion, device: &Measured, b: &B) {
    let mut group = c.benchmark_group("conv");
    // Two hundred shapes.
    group
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    for layer in layers() {
        group.throughput(Throughput::Elements(layer.flops()));
        let work = Work::Conv(layer.conv, layer.side);
        let id = BenchmarkId::new(layer.name, device);
        roofline::bench(
            &mut group,
            id,
            (device, b),
            || work.on(b),
            |peak| work.least(peak),
        );
    }
    group.finish();
}

/// All other kernels.
fn operations<B: Backend + 'static>(c: &mut Criterion, device: &Measured, b: &B) {
    for work in Work::operations() {
        let (group, name) = work.id();
        let id = BenchmarkId::new(name, device);
        let mut group = c.benchmark_group(group);
        roofline::bench(
            &mut group,
            id,
            (device, b),
            || work.on(b),
            |peak| work.least(peak),
        );
        group.finish();
    }
}

fn statistics<B: MetricBackend>(c: &mut Criterion, device: &Measured, b: &B) {
    for statistic in Statistic::all() {
        let (group, name) = statistic.id();
        let id = BenchmarkId::new(name, device);
        let mut group = c.benchmark_group(group);
        roofline::bench(
            &mut group,
            id,
            (device, b),
            || Some(statistic.on(b)),
            |peak| Some(statistic.least(peak)),
        );
        group.finish();
    }
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

fn each_device(c: &mut Criterion) {
    devices::on_each_device!(c, conv, operations, statistics);
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
