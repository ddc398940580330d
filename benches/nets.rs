//! Every network at its usual size, one image. Weights are seeded: their values do not change the time.

#[path = "seeded/devices.rs"]
mod devices;
mod seeded;
#[path = "seeded/weights.rs"]
mod weights;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foil::nets::{AlexNet, SqueezeNet, Vgg16};
use foil::nets::{Architecture, Backbone, Classifier, FidTap, Inception, UnetEncoderConfig, build};
use foil::tensor::Backend;

fn classifiers<B: Backend + 'static>(c: &mut Criterion, device: &str, b: &B) {
    let known = weights::classifiers();
    let mut group = c.benchmark_group("classifier");
    group.throughput(Throughput::Elements(1));
    for &architecture in Architecture::ALL {
        let side = match architecture {
            Architecture::EfficientNetLite1 => 240,
            Architecture::EfficientNetLite2 => 260,
            _ => 224,
        };
        let mut net: Option<Box<dyn Classifier<B>>> = None;
        let x = b
            .upload(&seeded::array("x", &[1, 3, side, side]))
            .expect("an image");
        if !known.iter().any(|name| name == architecture.name()) {
            continue;
        }
        group.bench_function(BenchmarkId::new(architecture.name(), device), |bench| {
            // Built only if the filter of the command line lets it run: the large ones have 200 million weights.
            let net = net.get_or_insert_with(|| {
                let dict =
                    weights::classifier(architecture.name(), "").expect("a table of weights");
                build(architecture, b, &dict, &UnetEncoderConfig::default()).expect("it builds")
            });
            bench.iter(|| {
                let logits = net.predict(b, black_box(&x)).expect("it runs").logits;
                b.wait().expect("it ran");
                logits
            });
        });
    }
    group.finish();
}

fn backbones<B: Backend + 'static>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("lpips_backbone_256");
    group.throughput(Throughput::Elements(1));
    let x = b
        .upload(&seeded::array("x", &[1, 3, 256, 256]))
        .expect("an image");
    for name in ["alexnet", "vgg16", "squeezenet1_1"] {
        let Some(dict) = weights::classifier(name, "features.") else {
            return;
        };
        let net: Box<dyn Backbone<B>> = match name {
            "alexnet" => Box::new(AlexNet::new(b, &dict).expect("it builds")),
            "vgg16" => Box::new(Vgg16::new(b, &dict).expect("it builds")),
            _ => Box::new(SqueezeNet::new(b, &dict).expect("it builds")),
        };
        group.bench_function(BenchmarkId::new(name, device), |bench| {
            bench.iter(|| {
                let taps = net.taps(b, black_box(&x)).expect("it runs");
                b.wait().expect("it ran");
                taps
            });
        });
    }
    group.finish();
}

fn inception<B: Backend>(c: &mut Criterion, device: &str, b: &B) {
    let Some(dict) = weights::inception() else {
        return;
    };
    let mut group = c.benchmark_group("inception_v3_fid");
    group.throughput(Throughput::Elements(1));
    let x = b
        .upload(&seeded::array("x", &[1, 3, 299, 299]))
        .expect("an image");
    let net = Inception::new(b, &dict, FidTap::F2048).expect("it builds");
    for tap in [FidTap::F64, FidTap::F192, FidTap::F768, FidTap::F2048] {
        group.bench_function(BenchmarkId::new(tap.size().to_string(), device), |bench| {
            bench.iter(|| {
                let features = net.features(b, black_box(&x), tap).expect("it runs");
                b.wait().expect("it ran");
                features
            });
        });
    }
    group.finish();
}

fn each_device(c: &mut Criterion) {
    devices::on_each_device!(c, backbones, inception, classifiers);
}

criterion_group! {
    name = nets;
    config = seeded::settings();
    targets = each_device
}
criterion_main!(nets);
