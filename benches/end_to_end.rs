//! `foil score` as the library does it: 20 pairs of PNG in two folders, from finding the files to the last score.

#[path = "seeded/devices.rs"]
mod devices;
mod seeded;

use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foil::images;
use foil::metrics::MetricBackend;
use foil::score::{self, Inputs, Labels, Place, Selection, Settings};
use foil::weights::Registry;

const PAIRS: usize = 20;
const SIDE: u32 = 256;

/// Smooth waves with a little noise: about as hard to decode as a photograph.
fn write_image(path: &Path, index: usize, edited: bool) {
    let noise = seeded::array(
        &format!("noise {index} {edited}"),
        &[(SIDE * SIDE * 3) as usize],
    )
    .data;
    let image = image::RgbImage::from_fn(SIDE, SIDE, |x, y| {
        let at = ((y * SIDE + x) * 3) as usize;
        let phase = index as f32 + if edited { 0.4 } else { 0.0 };
        image::Rgb([0, 1, 2].map(|c| {
            let wave = (x as f32 * 0.03 + phase).sin() * (y as f32 * 0.02 * (c + 1) as f32).cos();
            (128.0 + 90.0 * wave + 6.0 * noise[at + c as usize]) as u8
        }))
    });
    image.save(path).expect("a place to write");
}

fn run<B: MetricBackend + 'static>(b: &B, folder: &Path, registry: &Registry, settings: &Settings) {
    let mut pairing = images::pair_folders(&folder.join("a"), &folder.join("b")).expect("pairs");
    score::order(&mut pairing);
    assert_eq!(pairing.pairs.len(), PAIRS);
    let inputs = Inputs {
        pairing,
        classifier: None,
        oracles: Vec::new(),
        labels: Labels::default(),
        source: None,
        target: None,
        reference: None,
    };
    let journal = tempfile::tempdir().expect("a place to write");
    let place = Place {
        journal: journal.path(),
        resume: false,
        maps: None,
    };
    let outcome = score::score(b, registry, inputs, settings, place, &mut |_, _, _| {});
    assert_eq!(outcome.expect("scores").pairs.len(), PAIRS);
}

fn scores<B: MetricBackend + 'static>(c: &mut Criterion, device: &str, b: &B) {
    let folder = tempfile::tempdir().expect("a place to write");
    for (name, edited) in [("a", false), ("b", true)] {
        let inside = folder.path().join(name);
        std::fs::create_dir(&inside).expect("a place to write");
        for index in 0..PAIRS {
            write_image(&inside.join(format!("{index:02}.png")), index, edited);
        }
    }
    let registry = Registry::open().expect("the registry");
    let mut group = c.benchmark_group("score_20_pairs_256");
    group.throughput(Throughput::Elements(PAIRS as u64));
    for list in ["lp", "lpips", "fid", "lpips,fid"] {
        let settings = Settings {
            selection: Selection::parse(list).expect("known metrics"),
            ..Settings::default()
        };
        group.bench_function(BenchmarkId::new(list.replace(',', "+"), device), |bench| {
            bench.iter(|| run(b, folder.path(), &registry, &settings));
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
