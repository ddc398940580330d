//! A report in Markdown: what each device reaches on kernels, networks and metrics, and how far that is from what it
//! could: `cargo bench --bench report`. Devices are chosen as for the other benchmarks (`FOIL_BENCH_DEVICES`).
//!
//! Flops and bytes are those of `foil::tensor::plan` (every operand read once, every result written once). The roofline
//! time of an operation is, kernel by kernel, the larger of its flops over the device's measured multiply-add peak and its
//! bytes over its measured copy speed; the last column is that time over the measured one. A CPU whose Winograd does
//! fewer products than the formula, or whose caches are faster than its memory, may pass 100 %.

// Other benchmarks use the rest of these.
#[allow(unused_macros, unused_imports)]
#[path = "seeded/devices.rs"]
mod devices;
#[path = "seeded/pairs.rs"]
mod pairs;
#[path = "seeded/peak.rs"]
mod peak;
#[allow(dead_code)]
mod seeded;
#[allow(dead_code)]
#[path = "seeded/weights.rs"]
mod weights;

use std::hint::black_box;
use std::time::Instant;

use foil::metrics::lpips::{Lpips, LpipsNet};
use foil::metrics::orthogonal_set::OrthogonalSetParams;
use foil::metrics::validity::Judgement;
use foil::metrics::{Matrix, MetricBackend};
use foil::nets::{Architecture, FidTap, Inception, UnetEncoderConfig, build};
use foil::score::{Selection, Settings};
use foil::tensor::gpu::Gpu;
use foil::tensor::plan::{Peak, Plan};
use foil::tensor::{
    Activation, Attention, Backend, Conv, Norm, Opened, Pool, QkvLayout, Resize, Shape, cpu,
};
use foil::weights::Registry;

/// A run of an operation is repeated for at least so long.
const SECONDS: f64 = 0.3;

/// What is measured on every device.
enum Work {
    Conv(Conv, usize),
    Pool(usize, usize),
    LayerNorm(usize, usize),
    GroupNorm(usize, usize),
    Attention(usize, usize),
    Activation(usize, usize),
    Resize(Resize),
    Distance(usize, usize),
    Lpips(LpipsNet),
    Inception(FidTap),
    Classifier(Architecture),
}

impl Work {
    fn all() -> Vec<Self> {
        let relu = |conv: Conv| conv.activation(Activation::Relu);
        vec![
            Work::Conv(relu(Conv::square(3, 64, 7).stride(2).padding(3)), 224),
            Work::Conv(relu(Conv::square(64, 64, 3).padding(1)), 56),
            Work::Conv(relu(Conv::square(256, 256, 3).padding(1)), 14),
            Work::Conv(relu(Conv::square(256, 64, 1)), 56),
            Work::Conv(relu(Conv::square(1024, 256, 1)), 14),
            Work::Conv(relu(Conv::square(96, 96, 7).padding(3).groups(96)), 56),
            Work::Pool(64, 112),
            Work::LayerNorm(96, 56),
            Work::GroupNorm(128, 64),
            Work::Attention(192, 256),
            Work::Activation(384, 56),
            Work::Resize(Resize::Tf1),
            Work::Resize(Resize::Antialias),
            Work::Distance(64, 63),
            Work::Distance(256, 15),
            Work::Lpips(LpipsNet::Alex),
            Work::Lpips(LpipsNet::Squeeze),
            Work::Inception(FidTap::F64),
            Work::Inception(FidTap::F2048),
            Work::Classifier(Architecture::ResNet50),
            Work::Classifier(Architecture::ConvNextTiny),
            Work::Classifier(Architecture::SwinT),
        ]
    }

    fn name(&self) -> String {
        match self {
            Work::Conv(c, side) => {
                let [kh, kw] = c.kernel;
                let kind = if c.groups > 1 { "depthwise " } else { "" };
                format!(
                    "{kind}convolution {kh}x{kw}, {} to {} channels, {side}x{side}",
                    c.inputs, c.outputs
                )
            }
            Work::Pool(c, side) => format!("max pooling 3x3, {c} channels, {side}x{side}"),
            Work::LayerNorm(c, side) => format!("layer norm, {c} channels, {side}x{side}"),
            Work::GroupNorm(c, side) => format!("group norm, {c} channels, {side}x{side}"),
            Work::Attention(c, tokens) => format!("attention, {c} channels, {tokens} tokens"),
            Work::Activation(c, side) => format!("GELU, {c} channels, {side}x{side}"),
            Work::Resize(mode) => format!("resize {mode:?}, 256x256 to 299x299"),
            Work::Distance(c, side) => format!("LPIPS head, {c} channels, {side}x{side}"),
            Work::Lpips(net) => format!("LPIPS ({}), a pair of 256x256", net.name()),
            Work::Inception(tap) => format!("FID Inception, {} features", tap.size()),
            Work::Classifier(a) => format!("{}, 224x224", a.name()),
        }
    }

    /// A function that does it once on a device; `None` if its weights are not here.
    fn on<'b, B: Backend + 'static>(&self, b: &'b B) -> Option<Box<dyn Fn() + 'b>> {
        let image = |c: usize, side: usize| {
            b.upload(&seeded::array("x", &[1, c, side, side]))
                .expect("an image")
        };
        let norm = |c: usize| Norm {
            weight: seeded::array("weight", &[c]).data,
            bias: seeded::array("bias", &[c]).data,
            epsilon: 1e-5,
            ..Default::default()
        };
        Some(match *self {
            Work::Conv(spec, side) => {
                let [kh, kw] = spec.kernel;
                let shape = [spec.outputs, spec.inputs / spec.groups, kh, kw];
                let bias = seeded::array("bias", &[spec.outputs]).data;
                let weight = seeded::array("weight", &shape);
                let conv = b.prepare(spec, &weight, &bias).expect("a layer");
                let x = image(spec.inputs, side);
                Box::new(move || {
                    black_box(b.conv(black_box(&x), &conv, None).expect("it runs"));
                })
            }
            Work::Pool(c, side) => {
                let x = image(c, side);
                Box::new(move || {
                    black_box(b.pool(&x, Pool::max(3, 2).padding(1)).expect("it runs"));
                })
            }
            Work::LayerNorm(c, side) => {
                let (x, norm) = (image(c, side), norm(c));
                Box::new(move || {
                    black_box(b.layer_norm(&x, &norm).expect("it runs"));
                })
            }
            Work::GroupNorm(c, side) => {
                let (x, norm) = (image(c, side), norm(c));
                Box::new(move || {
                    let y = b.group_norm(&x, 32, &norm, None, Activation::Silu);
                    black_box(y.expect("it runs"));
                })
            }
            Work::Attention(c, tokens) => {
                let qkv = seeded::array("qkv", &[1, 3 * c, 1, tokens]);
                let qkv = b.upload(&qkv).expect("tokens");
                let qkv = b.view(&qkv, Shape::new(1, 1, tokens, 3 * c));
                let qkv = qkv.expect("tokens");
                let attention = Attention {
                    heads: c / 32,
                    layout: QkvLayout::Stacked,
                };
                Box::new(move || {
                    black_box(b.attention(&qkv, attention, None).expect("it runs"));
                })
            }
            Work::Activation(c, side) => {
                let x = image(c, side);
                Box::new(move || {
                    black_box(b.activate(&x, Activation::Gelu));
                })
            }
            Work::Resize(mode) => {
                let x = image(3, 256);
                Box::new(move || {
                    black_box(b.resize(&x, 299, 299, mode).expect("it runs"));
                })
            }
            Work::Distance(c, side) => {
                let (x, y) = (image(c, side), image(c, side));
                let head = seeded::array("head", &[c]).data;
                Box::new(move || {
                    black_box(b.mean_feature_distance(&x, &y, &head).expect("it runs"));
                })
            }
            Work::Lpips(net) => {
                let registry = Registry::open().expect("the registry");
                let weights = registry.lpips(net.name()).ok()?;
                let lpips = Lpips::new(b, net, &weights.backbone, weights.heads);
                let lpips = lpips.expect("the network");
                let pixels = vec![128u8; 3 * 256 * 256];
                Box::new(move || {
                    let [p, q] = [(); 2].map(|()| {
                        let x = b.upload_pixels(&[&pixels], 256, 256).expect("an image");
                        lpips.features(b, &x, 1.0 / 127.5, -1.0).expect("features")
                    });
                    black_box(lpips.distances(b, &p, &q).expect("distances"));
                })
            }
            Work::Inception(tap) => {
                let dict = weights::inception()?;
                let net = Inception::new(b, &dict, tap).expect("the network");
                let x = image(3, 299);
                Box::new(move || {
                    black_box(net.features(b, &x, tap).expect("it runs"));
                })
            }
            Work::Classifier(architecture) => {
                let dict = weights::classifier(architecture.name(), "")?;
                let net = build(architecture, b, &dict, &UnetEncoderConfig::default());
                let net = net.expect("the network");
                let x = image(3, 224);
                Box::new(move || {
                    black_box(net.predict(b, &x).expect("it runs").logits);
                })
            }
        })
    }
}

/// Seconds of a run: the best of several.
fn seconds(run: &dyn Fn(), wait: &dyn Fn()) -> f64 {
    let once = || {
        let started = Instant::now();
        run();
        wait();
        started.elapsed().as_secs_f64()
    };
    // The first run compiles kernels, which is nothing beside a run of seconds.
    let first = once();
    if first > 10.0 * SECONDS {
        return first;
    }
    let started = Instant::now();
    let mut best = once();
    while started.elapsed().as_secs_f64() < SECONDS {
        best = best.min(once());
    }
    best
}

fn row(what: &str, time: f64, flops: f64, bytes: f64, least: f64) {
    println!(
        "| {what} | {:.3} | {:.2} | {:.2} | {:.0} |",
        time * 1e3,
        flops / time * 1e-9,
        bytes / time * 1e-9,
        least / time * 100.0
    );
}

fn report<B: MetricBackend + 'static>(name: &str, b: &B, peak: Peak) {
    println!(
        "\n## {name}: {}\n\nCopies {:.1} GB/s (read and written), multiplies and adds {:.1} GFLOP/s.\n",
        b.describe(),
        peak.bytes * 1e-9,
        peak.flops * 1e-9
    );
    println!("| operation | ms | GFLOP/s | GB/s | % of the roofline |\n|---|---:|---:|---:|---:|");
    for work in Work::all() {
        let plan = Plan::default();
        let Some(counted) = work.on(&plan) else {
            println!("| {} | not measured: no weights | | | |", work.name());
            continue;
        };
        // What was launched to prepare it is not part of it.
        let before = plan.costs();
        counted();
        let (mut flops, mut bytes, mut least) = (0.0, 0.0, 0.0);
        for (kernel, mut cost) in plan.costs() {
            if let Some(earlier) = before.get(&kernel) {
                cost.flops -= earlier.flops;
                cost.bytes -= earlier.bytes;
            }
            flops += cost.flops;
            bytes += cost.bytes;
            least += peak.seconds(&cost);
        }
        let run = work.on(b).expect("its weights are here");
        let time = seconds(&*run, &|| b.wait().expect("it ran"));
        row(&work.name(), time, flops, bytes, least);
    }
    statistics(b, peak);
    end_to_end(b);
}

/// `foil score`, from the files to the scores.
fn end_to_end<B: MetricBackend + 'static>(b: &B) {
    const PAIRS: usize = 4;
    let folder = pairs::folder(PAIRS, 256);
    let registry = Registry::open().expect("the registry");
    for list in ["lp", "lpips", "lpips,fid"] {
        let settings = Settings {
            selection: Selection::parse(list).expect("known metrics"),
            ..Settings::default()
        };
        let run = || pairs::score(b, folder.path(), &registry, &settings);
        let time = seconds(&run, &|| ());
        println!(
            "| foil score, {PAIRS} pairs of 256x256: {} | {:.0} | | | |",
            list.replace(',', ", "),
            time * 1e3
        );
    }
}

/// The kernels of metrics, which work on features and logits.
fn statistics<B: MetricBackend>(b: &B, peak: Peak) {
    let note = |what: &str, flops: f64, bytes: f64, run: &dyn Fn()| {
        let least = (flops / peak.flops).max(bytes / peak.bytes);
        row(what, seconds(run, &|| ()), flops, bytes, least);
    };
    for (n, d) in [(1000, 64), (256, 768)] {
        let features = seeded::array("features", &[n, d]).data;
        let bytes = 4.0 * (n * d) as f64 + 8.0 * (d * d) as f64;
        let what = format!("moments of {n} x {d} features");
        note(&what, (2 * n * d * d) as f64, bytes, &|| {
            let matrix = Matrix::new("features", n, d, &features).expect("n x d");
            let mut running = b.moments(d).expect("memory");
            running.push("features", matrix).expect("finite");
            black_box(running.finish().expect("moments"));
        });
    }
    let (images, classes) = (256, 1000);
    let logits: Vec<Vec<f32>> = (0..6)
        .map(|k| seeded::array(&format!("judge {k}"), &[images, classes]).data)
        .collect();
    let judges: Vec<Matrix<'_>> = logits
        .iter()
        .map(|l| Matrix::new("logits", images, classes, l).expect("n x classes"))
        .collect();
    let (labels, targets) = (vec![0; images], vec![1; images]);
    let values = (6 * images * classes) as f64;
    note(
        "committee of 5, 256 images, 1000 classes",
        values,
        4.0 * values,
        &|| {
            let judgement = Judgement {
                classifier: judges[0],
                oracles: &judges[1..],
                labels: &labels,
                targets: &targets,
            };
            black_box(b.committee(judgement).expect("finite"));
        },
    );
    for (n, d) in [(100, 64), (64, 2048)] {
        let originals = seeded::array("originals", &[16, d]).data;
        let candidates = seeded::array("candidates", &[16 * n, d]).data;
        let originals = Matrix::new("originals", 16, d, &originals).expect("n x d");
        let candidates = Matrix::new("candidates", 16 * n, d, &candidates).expect("n x d");
        let params = OrthogonalSetParams::default();
        let (flops, bytes) = (
            (16 * 2 * n * n * d) as f64,
            (16 * 4 * n * (d + 2 * n)) as f64,
        );
        let what = format!("orthogonal sets of 16 samples, {n} candidates of {d}");
        note(&what, flops, bytes, &|| {
            let sets = b.orthogonal_sets(originals, candidates, &params);
            black_box(sets.expect("finite"));
        });
    }
}

/// The most memory that a network of the report needs, by the size of the batch.
fn memory(fresh: impl Fn() -> Gpu) {
    println!("\nMost memory held at once by SqueezeNet's features of images of 128x128:\n");
    println!("| images at once | MB | MB for each image beyond the first |\n|---:|---:|---:|");
    let mut one = 0.0;
    for batch in [1, 2, 4, 8, 16] {
        let gpu = fresh();
        let registry = Registry::open().expect("the registry");
        let weights = registry.lpips("squeeze").expect("shipped weights");
        let lpips = Lpips::new(&gpu, LpipsNet::Squeeze, &weights.backbone, weights.heads);
        let pixels = vec![128u8; 3 * 128 * 128];
        let images = vec![&pixels[..]; batch];
        let x = gpu.upload_pixels(&images, 128, 128).expect("images");
        let features = lpips.expect("the network").features(&gpu, &x, 1.0, 0.0);
        drop(features.expect("features"));
        gpu.wait().expect("it ran");
        let megabytes = gpu.peak() as f64 * 1e-6;
        match batch {
            1 => {
                one = megabytes;
                println!("| 1 | {one:.1} | |");
            }
            _ => {
                let further = (megabytes - one) / (batch - 1) as f64;
                println!("| {batch} | {megabytes:.1} | {further:.2} |");
            }
        }
    }
}

fn of_gpu(name: &str, gpu: &Gpu, fresh: impl Fn() -> Gpu) {
    let probe = gpu.probe().expect("a probe");
    let peak = Peak {
        name: "measured",
        flops: probe.flops,
        bytes: probe.bytes,
    };
    report(name, gpu, peak);
    memory(fresh);
}

fn main() {
    // `cargo test --benches` only asks whether it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    println!(
        "# Benchmarks\n\nWritten by `cargo bench --bench report`; what is measured is said at its head."
    );
    for (name, device) in devices::opened() {
        match device {
            Opened::Cpu(b) => {
                let threads = rayon::current_num_threads() as f64;
                let peak = Peak {
                    name: "measured",
                    flops: peak::gflops().1 * 1e9 * threads,
                    bytes: cpu::copy_speed(),
                };
                report(&name, &b, peak);
            }
            Opened::Gpu(b) => of_gpu(&name, &b, || match devices::open(&name).1 {
                Opened::Gpu(b) => b,
                _ => unreachable!("a name of a GPU"),
            }),
        }
    }
}
