//! `foil score` as the library does it: 20 pairs of PNG in two folders, from finding the files to the last score.

#[allow(dead_code)]
#[path = "seeded/devices.rs"]
mod devices;
#[path = "seeded/pairs.rs"]
mod pairs;
#[path = "seeded/peak.rs"]
mod peak;
mod seeded;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foil::metrics::MetricBackend;
use foil::score::{Selection, Settings};
use foil::weights::Registry;

use devices::Measured;

const PAIRS: usize = 20;
const SIDE: u32 = 256;

fn scores<B: MetricBackend + 'static>(c: &mut Criterion, device: &Measured, b: &B) {
    let folder = pairs::folder(PAIRS, SIDE);
    let registry = Registry::open().expect("the registry");
    let mut group = c.benchmark_group("score_20_pairs_256");
    group.throughput(Throughput::Elements(PAIRS as u64));
    for list in ["lp", "lpips", "fid", "lpips,fid"] {
        let settings = Settings {
            selection: Selection::parse(list).expect("known metrics"),
            ..Settings::default()
        };
        group.bench_function(BenchmarkId::new(list.replace(',', "+"), device), |bench| {
            bench.iter(|| pairs::score(b, folder.path(), &registry, &settings));
        });
    }
    group.finish();
}

fn each_device(c: &mut Criterion) {
    devices::on_each_device!(c, scores);
}

criterion_group! {
    name = end_to_end;
    config = seeded::settings();
    targets = each_device
}
criterion_main!(end_to_end);
