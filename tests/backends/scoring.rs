//! A scoring run on a GPU: what goes up and comes down, that neither batches nor mixed sizes change a bit, and that the
//! scores are those of the CPU.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use foil::images;
use foil::metrics::MetricBackend;
use foil::score::{
    self, Inputs, JudgeSource, Labels, NamedJudge, Outcome, Place, Protocol, Selection, Settings,
};
use foil::tensor::cpu::Cpu;
use foil::tensor::gpu::Gpu;
use foil::tensor::gpu::driver::{Driver, Launch, Limits};
use foil::tensor::wgpu::{Adapter, WgpuDriver};
use foil::tensor::{Precision, TensorError};
use foil::weights::{Registry, Resize, ResizeTo};

type Buffer = <WgpuDriver as Driver>::Buffer;

/// A driver that notes how many bytes come down.
struct Noted {
    driver: WgpuDriver,
    down: Mutex<Vec<usize>>,
}

impl Noted {
    fn open() -> Option<Arc<Self>> {
        let driver = WgpuDriver::open(Adapter::Number(0), None, Precision::F32).ok()?;
        let down = Mutex::default();
        Some(Arc::new(Self { driver, down }))
    }
}

impl Driver for Noted {
    type Buffer = Buffer;

    fn describe(&self) -> String {
        self.driver.describe()
    }

    fn limits(&self) -> Limits {
        self.driver.limits()
    }

    fn precision(&self) -> Precision {
        self.driver.precision()
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, TensorError> {
        self.driver.allocate(bytes)
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer, TensorError> {
        self.driver.upload(bytes)
    }

    fn download(&self, buffer: &Buffer, bytes: Range<usize>) -> Result<Vec<u8>, TensorError> {
        self.down.lock().expect("notes").push(bytes.len());
        self.driver.download(buffer, bytes)
    }

    fn copy(
        &self,
        from: (&Buffer, usize),
        to: (&Buffer, usize),
        bytes: usize,
    ) -> Result<(), TensorError> {
        self.driver.copy(from, to, bytes)
    }

    fn launch(&self, launch: &Launch<'_, Buffer>) -> Result<(), TensorError> {
        self.driver.launch(launch)
    }

    fn wait(&self) -> Result<(), TensorError> {
        self.driver.wait()
    }

    fn release(&self) {
        self.driver.release();
    }

    fn peak(&self) -> u64 {
        self.driver.peak()
    }
}

/// Height and width of the originals, and how many counterfactuals each has; sizes alternate.
const ORIGINALS: [([usize; 2], usize); 4] =
    [([64, 64], 3), ([70, 90], 2), ([64, 64], 1), ([70, 90], 1)];

fn save(path: &Path, name: &str, [h, w]: [usize; 2]) {
    let picture = crate::resize::picture(name, h, w);
    let image = image::RgbImage::from_raw(w as u32, h as u32, picture.pixels);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    image.expect("all pixels").save(path).expect("a file");
}

/// Originals `a/N.png` and sets of counterfactuals `b/N/K.png`.
fn write_pairs(folder: &Path) {
    for (n, (size, set)) in ORIGINALS.iter().enumerate() {
        save(&folder.join(format!("a/{n}.png")), &format!("a{n}"), *size);
        for k in 0..*set {
            save(
                &folder.join(format!("b/{n}/{k}.png")),
                &format!("b{n} {k}"),
                *size,
            );
        }
    }
}

/// A network of the glyph world that tells two classes apart.
fn judge(registry: &Registry, name: &str, shorter_side: Option<usize>) -> NamedJudge {
    let mut card = registry.card(name).expect("a card");
    if let Some(side) = shorter_side {
        card.preprocessing.resize = Some(Resize {
            size: ResizeTo::ShorterSide(side),
            filter: "bicubic".into(),
        });
        card.preprocessing.crop = Some([32, 32]);
    }
    let loaded = Box::new(registry.load(&card).expect("weights"));
    NamedJudge {
        name: name.into(),
        source: JudgeSource::Network {
            card: Box::new(card),
            loaded,
        },
    }
}

fn scored<B: MetricBackend + 'static>(b: &B, folder: &Path, settings: &Settings) -> Outcome {
    let registry = Registry::open().expect("the registry");
    let mut pairing = images::pair_folders(&folder.join("a"), &folder.join("b")).expect("pairs");
    score::order(&mut pairing);
    let inputs = Inputs {
        pairing,
        classifier: Some(judge(&registry, "glyph_cnn", None)),
        oracles: vec![
            judge(&registry, "glyph_oracle_cnn", None),
            judge(&registry, "glyph_oracle_resnet18", Some(40)),
        ],
        labels: Labels::default(),
        source: None,
        target: Some("1".into()),
        reference: None,
    };
    let journal = tempfile::tempdir().expect("a folder");
    let place = Place {
        journal: journal.path(),
        resume: false,
        maps: None,
    };
    score::score(b, &registry, inputs, settings, place, &mut |_, _, _| {}).expect("scores")
}

fn settings(metrics: &str, batch: usize) -> Settings {
    Settings {
        selection: Selection::parse(metrics).expect("known metrics"),
        bootstrap: 0,
        batch,
        ..Settings::default()
    }
}

/// LPIPS and probabilities to 1e-5, as promised; FID of few images is a small difference of large traces. What is
/// counted is the same.
fn compare(cpu: &Outcome, gpu: &Outcome) {
    assert_eq!(cpu.scores.fingerprints, gpu.scores.fingerprints);
    for (a, b) in cpu.scores.groups.iter().zip(&gpu.scores.groups) {
        assert_eq!(a.verdicts, b.verdicts);
        assert_eq!(a.scores.len(), b.scores.len());
        for (name, expected) in &a.scores {
            let got = &b.scores[name];
            assert_eq!(expected.n, got.n, "{name}");
            let (Some(expected), Some(got)) = (expected.value, got.value) else {
                assert_eq!(expected.value, got.value, "{name}");
                continue;
            };
            let allowed = if name == "fid" { 1e-4 } else { 1e-5 };
            let error = (got - expected).abs() / expected.abs().max(1e-3);
            assert!(
                error <= allowed,
                "{name}: {expected} on the cpu, {got} here"
            );
        }
    }
    for (a, b) in cpu.pairs.iter().zip(&gpu.pairs) {
        assert_eq!((&a.classifier, &a.oracles), (&b.classifier, &b.oracles));
        assert_eq!((&a.committee, &a.verdict), (&b.committee, &b.verdict));
    }
}

/// Bytes of the sums of LPIPS for one pair of this size: two f32 for each 64 pixels of each of AlexNet's taps.
fn lpips_bytes(size: [usize; 2]) -> usize {
    let first = size.map(|s| (s + 4 - 11) / 4 + 1);
    let halved = |s: [usize; 2]| s.map(|s| (s - 3) / 2 + 1);
    let (second, last) = (halved(first), halved(halved(first)));
    let parts = |[h, w]: [usize; 2]| (h * w).div_ceil(64);
    8 * (parts(first) + parts(second) + 3 * parts(last))
}

#[test]
fn gpu_scoring_uploads_pixels_once_and_brings_down_what_the_journal_keeps() {
    let Some(driver) = Noted::open() else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let gpu = Gpu::new(Arc::clone(&driver));
    let folder = tempfile::tempdir().expect("a folder");
    write_pairs(folder.path());
    let settings = settings("validity,lp,lpips,diversity,fid", 16);
    let outcome = scored(&gpu, folder.path(), &settings);
    // Two sizes of originals, two of counterfactuals, and the grey image that tells how many classes there are: five
    // uploads for four networks, one of which also looks at the originals.
    let pixels = gpu.counts()[&("layout", "pixels")];
    assert_eq!(pixels.launches, 5);
    // Both resizes of the networks, for two sizes of originals and of counterfactuals.
    for entry in ["pixel_columns", "pixel_rows"] {
        assert!(gpu.counts()[&("resize", entry)].launches >= 6, "{entry}");
    }
    assert_eq!(gpu.counts()[&("committee", "judge")].launches, 1);
    // One launch for each tap of the one set in which pairs share images.
    assert_eq!(gpu.counts()[&("lpips_head", "pairs")].launches, 5);

    let (originals, pairs) = (4, 7);
    let logits = 4 * 2 * (originals + 3 * pairs);
    let votes = 4 * (pairs * (4 + 3) + 3 * 3 + 6);
    let features = 4 * 64 * (originals + pairs);
    let of_sets = |f: fn(usize) -> usize| -> usize {
        let sets = ORIGINALS.iter();
        sets.map(|(size, set)| f(*set) * lpips_bytes(*size)).sum()
    };
    let lpips = of_sets(|set| set) + of_sets(|set| set * (set - 1) / 2);
    let down: usize = driver.down.lock().expect("notes").iter().sum();
    assert_eq!(down, logits + votes + features + lpips);
    compare(&scored(&Cpu, folder.path(), &settings), &outcome);
}

#[test]
fn gpu_scores_of_images_do_not_depend_on_their_batch() {
    let Some(gpu) = crate::gpu::any_adapter() else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    write_pairs(folder.path());
    let run = |batch| {
        let found = scored(
            gpu,
            folder.path(),
            &settings("validity,lpips,diversity", batch),
        );
        let diversity = found.scores.groups[0].scores["lpips_diversity"].clone();
        (found.pairs, diversity.value, diversity.n)
    };
    let whole = run(7);
    assert!(whole.1.is_some());
    for batch in [1, 2, 5] {
        assert_eq!(run(batch), whole, "batches of {batch}");
    }
}

#[test]
fn gpu_follows_the_published_protocol() {
    let Some(gpu) = crate::gpu::any_adapter() else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    for n in 0..2 {
        for side in ["a", "b"] {
            let file = folder.path().join(format!("{side}/{n}.png"));
            save(&file, &format!("{side}{n}"), [40, 33 + 7 * n]);
        }
    }
    let settings = Settings {
        protocol: Protocol::Published,
        ..settings("lpips,fid", 2)
    };
    let cpu = scored(&Cpu, folder.path(), &settings);
    compare(&cpu, &scored(gpu, folder.path(), &settings));
}
