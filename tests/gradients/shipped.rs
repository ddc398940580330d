//! The shipped networks of the glyph world, opened as `foil generate` opens them, on both kinds of devices with gradients.

use foil::diffusion::{
    Betas, Cone, ConeRule, Distance, Guidance, Guider, Sampler, Schedule, Seeded, Strength, X0,
    spaced,
};
use foil::explain::diffusion::{
    Batch, Cards, Made, Method, Networks, Plan, Progress, Task, Watch, run,
};
use foil::tensor::candle::Candle;
use foil::tensor::composed::Composed;
use foil::tensor::{Array, WithGradients};
use foil::weights::Registry;

/// The largest difference.
fn close(what: &str, found: &Array, expected: &Array, tolerance: f32) {
    assert_eq!(found.shape, expected.shape, "{what}");
    let pairs = found.data.iter().zip(&expected.data);
    let worst = pairs.fold(0.0f32, |m, (f, e)| m.max((f - e).abs()));
    assert!(expected.data.iter().all(|v| v.is_finite()), "{what}");
    assert!(worst <= tolerance, "{what}: off by {worst:e}");
}

/// Parts of a batch run on rayon's threads, and the caller may be the only one of them.
#[test]
fn a_generation_runs_on_a_thread_of_a_pool() {
    struct Silent;
    impl Watch for Silent {
        fn progress(&mut self, _: Progress) {}
        fn made(&mut self, _: &Made) {}
    }
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("grey.png");
    image::RgbImage::from_pixel(32, 32, image::Rgb([90; 3]))
        .save(&original)
        .unwrap();
    let registry = Registry::open().unwrap();
    let cards = Cards {
        unet: "glyph_ddpm",
        classifier: "glyph_resnet18",
        robust: None,
        perceptual: None,
        checkpointing: true,
        precision: None,
    };
    let tasks = [0, 1, 2].map(|index| Task {
        original: original.clone(),
        name: format!("{index}"),
        noise: format!("{index}"),
        target: 1,
        index,
    });
    let plan = Plan {
        method: Method::Guided(Guidance::default()),
        steps: "4".into(),
        skip: 2,
        sampler: Sampler::default(),
        samples: 1,
        seed: 0,
        noise: None,
        reject: false,
        batch: Batch::Images(3),
    };
    let images = [1, 3].map(|threads| {
        let out = folder.path().join(threads.to_string());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| {
            let device = WithGradients::Engine(Candle);
            let networks = Networks::open(&registry, &cards, &device).unwrap();
            run(&plan, &networks, &tasks, &out, &mut Silent).unwrap();
        });
        ["0", "1", "2"].map(|name| std::fs::read(out.join(format!("{name}.png"))).unwrap())
    });
    assert_eq!(images[0], images[1]);
    assert_ne!(images[0][0], images[0][1]);
}

#[test]
fn both_devices_draw_the_same_images() {
    let devices = [
        WithGradients::Engine(Candle),
        WithGradients::Composed(Composed::on_cpu()),
    ];
    let schedule = Schedule::new(Betas::Linear, 1000).unwrap();
    let schedule = schedule.respaced(&spaced(1000, "4").unwrap()).unwrap();
    let drawn = devices.map(|device| {
        let registry = Registry::open().unwrap();
        let cards = Cards {
            unet: "glyph_ddpm",
            classifier: "glyph_resnet18",
            robust: Some("glyph_robust"),
            perceptual: None,
            checkpointing: false,
            precision: None,
        };
        let networks = Networks::open(&registry, &cards, &device).unwrap();
        let size = networks.size;
        // A soft spot on grey.
        let spot = |i: usize| {
            let [y, x] = [i / size % size, i % size].map(|v| v as f32 / size as f32 - 0.5);
            (-20.0 * (x * x + y * y)).exp() - 0.5
        };
        let shape = [2, 3, size, size];
        let originals = Array::new(shape, (0..6 * size * size).map(spot).collect()).unwrap();
        let guider = Guider {
            schedule: &schedule,
            unet: networks.unet.as_ref(),
            classifier: networks.classifier.as_ref(),
            robust: networks.robust.as_deref(),
            guidance: Guidance {
                x0: X0::ThroughUnet,
                cone: Some(Cone {
                    degrees: 30.0,
                    rule: ConeRule::Projection,
                }),
                scale: 0.1,
                distance: Some(Distance {
                    exponent: 1.0,
                    weight: 0.15,
                    through_unet: true,
                }),
                strength: Strength::Mean,
                clip: false,
            },
            sampler: Sampler::Ddpm,
        };
        let noise = Seeded {
            seed: 3,
            keys: vec![0, 1],
        };
        let chained = guider.chain(&originals, &[0, 1], 2, &noise, |_, _| {});
        let images = chained.unwrap().images;
        let logits = networks.logits(&images).unwrap();
        (networks.arithmetic(), images, logits)
    });
    let [(engine, images, logits), (composed, same, opinions)] = drawn;
    // Records tell them apart, so that a run is not resumed on the other.
    assert_ne!(engine, composed);
    close("images", &same, &images, 1e-4);
    close("logits", &opinions, &logits, 1e-3);
}
