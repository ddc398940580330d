//! A report in Markdown: what each device reaches on kernels, networks and metrics, and how far that is from what it
//! could: `cargo bench --bench report`. Devices are chosen as for the other benchmarks (`FOIL_BENCH_DEVICES`).
//!
//! What flops, bytes and the roofline are is said in `seeded/roofline.rs`; peaks are measured, not those of data sheets.

// Other benchmarks use the rest of these.
#[allow(unused_macros, unused_imports)]
#[path = "seeded/devices.rs"]
mod devices;
#[path = "seeded/pairs.rs"]
mod pairs;
#[path = "seeded/peak.rs"]
mod peak;
#[allow(dead_code)]
#[path = "seeded/roofline.rs"]
mod roofline;
#[allow(dead_code)]
mod seeded;
#[allow(dead_code)]
#[path = "seeded/statistics.rs"]
mod statistics;
#[path = "seeded/weights.rs"]
mod weights;
#[allow(dead_code)]
#[path = "seeded/work.rs"]
mod work;

use std::time::Instant;

use foil::metrics::MetricBackend;
use foil::metrics::lpips::{Lpips, LpipsNet};
use foil::score::{Selection, Settings};
use foil::tensor::gpu::Gpu;
use foil::tensor::plan::Peak;
use foil::tensor::{Backend, Opened};
use foil::weights::Registry;

use devices::Measured;
use roofline::Least;
use statistics::Statistic;
use work::Work;

/// A run of an operation is repeated for at least so long.
const SECONDS: f64 = 0.3;

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

fn row(what: &str, time: f64, least: Least) {
    let [gflops, gigabytes, share] = least.reached(time);
    println!(
        "| {what} | {:.3} | {gflops:.2} | {gigabytes:.2} | {share:.0} |",
        time * 1e3
    );
}

fn report<B: MetricBackend + 'static>(name: &str, b: &B, peak: Peak) {
    println!(
        "\n## {name}: {}\n\nPeak ({}): copies {:.1} GB/s (read and written), multiplies and adds {:.1} GFLOP/s.\n",
        b.describe(),
        peak.name,
        peak.bytes * 1e-9,
        peak.flops * 1e-9
    );
    println!("| operation | ms | GFLOP/s | GB/s | % of the roofline |\n|---|---:|---:|---:|---:|");
    for work in Work::operations().into_iter().chain(Work::main_networks()) {
        let (Some(least), Some(run)) = (work.least(peak), work.on(b)) else {
            println!("| {} | not measured: no weights | | | |", work.name());
            continue;
        };
        let time = seconds(&*run, &|| b.wait().expect("it ran"));
        row(&work.name(), time, least);
    }
    for statistic in Statistic::all() {
        let run = statistic.on(b);
        row(
            &statistic.name(),
            seconds(&*run, &|| ()),
            statistic.least(peak),
        );
    }
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

/// The most memory that a network of the report needs, by the size of the batch.
fn memory(fresh: impl Fn() -> Gpu) {
    println!("\nMost memory held at once by LPIPS's features (AlexNet) of images of 128x128:\n");
    println!("| images at once | MB | MB for each image beyond the first |\n|---:|---:|---:|");
    let mut one = 0.0;
    for batch in [1, 2, 4, 8, 16] {
        let gpu = fresh();
        let registry = Registry::open().expect("the registry");
        let weights = registry.lpips("alex").expect("shipped weights");
        let lpips = Lpips::new(&gpu, LpipsNet::Alex, &weights.backbone, weights.heads);
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

/// The processor, its cores and memory, and the system.
fn machine() -> String {
    let field = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split(':').nth(1)?.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = field("/proc/cpuinfo", "model name").unwrap_or("a processor".into());
    let family = field("/proc/cpuinfo", "cpu family")
        .zip(field("/proc/cpuinfo", "model\t"))
        .map_or(String::new(), |(family, model)| {
            format!(" (family {family}, model {model})")
        });
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|kib| kib.strip_suffix(" kB")?.parse::<f64>().ok())
        .map_or(String::new(), |kib| {
            format!(", {:.0} GB of memory", kib * 1024e-9)
        });
    let system = (std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "{processor}{family}, {cores} cores{memory}, {} {}",
        system.0, system.1
    )
}

fn main() {
    // `cargo test --benches` only asks whether it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    println!(
        "# Benchmarks\n\n\
        Written by `cargo bench --bench report` of foil {}, on {}.\n\n\
        One image unless a name says otherwise; milliseconds are the best of several runs. Flops and bytes are those of `foil devices --plan`: every operand read once,\n\
        every result written once; those of statistics are the formula's products and sums. A run of more than three seconds is the first one, which compiles\n\
        kernels. The roofline time is, kernel by kernel, the larger of flops over the multiply-add peak and bytes over the copy speed, both as\n\
        measured on the device; its share of the time taken may pass 100 % where Winograd's way needs fewer products than the formula, or what is read\n\
        lies in a cache. Weights are seeded, but for LPIPS and `foil score`.",
        env!("CARGO_PKG_VERSION"),
        machine()
    );
    for Measured { name, opened, .. } in &devices::opened() {
        // With what a device really reaches, also where its maker states a peak.
        let peak = devices::measured(opened);
        match opened {
            Opened::Cpu(b) => report(name, b, peak),
            Opened::Gpu(b) => {
                report(name, b, peak);
                memory(|| match devices::open(name).opened {
                    Opened::Gpu(b) => b,
                    _ => unreachable!("a name of a GPU"),
                });
            }
        }
    }
}
