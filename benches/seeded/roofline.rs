//! How near a measured time comes to what the device allows.
//!
//! Flops and bytes are those of `foil::tensor::plan` (every operand read once, every result written once), and of statistics the
//! products and sums of the formula in f32, though kernels compute some of them in two words. The roofline
//! time is, kernel by kernel, the larger of flops over the device's multiply-add peak and bytes over its copy speed; the
//! share is that time over the measured one. A CPU whose Winograd does fewer products than the formula, or whose caches are
//! faster than its memory, may pass 100 %.

use std::time::Instant;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId};
use foil::tensor::Backend;
use foil::tensor::plan::{Costs, Peak};

use crate::devices::Measured;

/// What some work costs at least.
#[derive(Clone, Copy, Debug, Default)]
pub struct Least {
    pub flops: f64,
    pub bytes: f64,
    /// Seconds below which the device cannot come.
    pub seconds: f64,
}

impl Least {
    /// Of kernels one after another.
    pub fn of(costs: &Costs, peak: Peak) -> Self {
        costs.values().fold(Self::default(), |sum, cost| Self {
            flops: sum.flops + cost.flops,
            bytes: sum.bytes + cost.bytes,
            seconds: sum.seconds + peak.seconds(cost),
        })
    }

    /// GFLOP/s, GB/s and per cent of the roofline of work that took so many seconds.
    pub fn reached(&self, seconds: f64) -> [f64; 3] {
        [
            self.flops / seconds * 1e-9,
            self.bytes / seconds * 1e-9,
            self.seconds / seconds * 100.0,
        ]
    }
}

/// Work that is ready to run.
pub type Run<'b> = Box<dyn Fn() + 'b>;

/// A benchmark of criterion that says below its time what share of the device's roofline its best sample reached. The work is
/// prepared, and its cost found, only if the filter of the command line lets it run.
pub fn bench<'b, B: Backend>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    (device, b): (&Measured, &'b B),
    prepare: impl Fn() -> Option<Run<'b>>,
    cost: impl Fn(Peak) -> Option<Least>,
) {
    let mut best = f64::INFINITY;
    let mut prepared = None;
    group.bench_function(id, |bench| {
        let run = prepared.get_or_insert_with(|| prepare().expect("its weights are here"));
        bench.iter_custom(|times| {
            let started = Instant::now();
            for _ in 0..times {
                run();
                b.wait().expect("it ran");
            }
            let elapsed = started.elapsed();
            best = best.min(elapsed.as_secs_f64() / times as f64);
            elapsed
        });
    });
    if !best.is_finite() {
        return;
    }
    let peak = device.peak();
    if let Some(least) = cost(peak) {
        let [gflops, gigabytes, share] = least.reached(best);
        println!(
            "{:24}best: {gflops:.2} GFLOP/s, {gigabytes:.2} GB/s, {share:.0} % of the roofline ({}: {:.0} GFLOP/s, {:.1} GB/s)",
            "",
            peak.name,
            peak.flops * 1e-9,
            peak.bytes * 1e-9
        );
    }
}
