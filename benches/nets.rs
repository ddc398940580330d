//! Every network at its usual size, one image. Weights are seeded: their values do not change the time.

mod seeded;

use std::hint::black_box;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foil::conformance::synthetic;
use foil::nets::{AlexNet, SqueezeNet, Vgg16};
use foil::nets::{Architecture, Backbone, Classifier, FidTap, Inception, UnetEncoderConfig, build};
use foil::tensor::{Backend, StateDict, TypedArrays, cpu::Cpu};
use serde_json::Value;

fn golden() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

/// A table of names, shapes, offsets and scales; `None` if the golden data are not here.
fn table(file: &str) -> Option<Value> {
    let path = golden().join(file);
    match std::fs::read(&path) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes).expect("a table of weights")),
        Err(error) => {
            println!("skipped: {}: {error}", path.display());
            None
        }
    }
}

fn numbers(shape: &Value) -> Vec<usize> {
    let shape = shape.as_array().expect("a shape");
    shape
        .iter()
        .map(|n| n.as_u64().expect("a length") as usize)
        .collect()
}

/// The weights of a network of `nets.json`.
fn state_dict(table: &Value, name: &str) -> Option<StateDict> {
    let mut dict = StateDict::new();
    for row in table["nets"].get(name)?["tensors"].as_array()? {
        let tensor = row[0].as_str()?;
        let values = synthetic::tensor(
            "foil-nets",
            tensor,
            &numbers(&row[1]),
            row[2].as_f64()?,
            row[3].as_f64()?,
        );
        dict.insert(tensor, values);
    }
    Some(dict)
}

/// The FID Inception of the vision goldens.
fn inception_dict() -> Option<StateDict> {
    let table = table("vision/inception_weights_table.json")?;
    let mut dict = StateDict::new();
    for row in table["tensors"].as_array()? {
        let name = row["name"].as_str()?;
        let (offset, scale) = (row["offset"].as_f64()?, row["scale"].as_f64()?);
        let salt = table["salt"].as_str()?;
        dict.insert(
            name,
            synthetic::tensor(salt, name, &numbers(&row["shape"]), offset, scale),
        );
    }
    let statistics = TypedArrays::read(&golden().join("vision/inception_bn_stats.safetensors"));
    let statistics = statistics.expect("statistics of the batch norms");
    for name in statistics.names() {
        dict.insert(name, statistics.f32(name).expect("f32"));
    }
    Some(dict)
}

fn classifiers<B: Backend + 'static>(c: &mut Criterion, device: &str, b: &B) {
    let Some(table) = table("nets/nets.json") else {
        return;
    };
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
        if table["nets"].get(architecture.name()).is_none() {
            continue;
        }
        group.bench_function(BenchmarkId::new(architecture.name(), device), |bench| {
            // Built only if the filter of the command line lets it run: the large ones have 200 million weights.
            let net = net.get_or_insert_with(|| {
                let dict = state_dict(&table, architecture.name()).expect("a table of weights");
                build(architecture, b, &dict, &UnetEncoderConfig::default()).expect("it builds")
            });
            bench.iter(|| net.predict(b, black_box(&x)).expect("it runs").logits);
        });
    }
    group.finish();
}

fn backbones<B: Backend + 'static>(c: &mut Criterion, device: &str, b: &B) {
    let Some(table) = table("nets/nets.json") else {
        return;
    };
    let mut group = c.benchmark_group("lpips_backbone_256");
    group.throughput(Throughput::Elements(1));
    let x = b
        .upload(&seeded::array("x", &[1, 3, 256, 256]))
        .expect("an image");
    for name in ["alexnet", "vgg16", "squeezenet1_1"] {
        let dict = state_dict(&table, name).expect("a table of weights");
        let net: Box<dyn Backbone<B>> = match name {
            "alexnet" => Box::new(AlexNet::new(b, &dict).expect("it builds")),
            "vgg16" => Box::new(Vgg16::new(b, &dict).expect("it builds")),
            _ => Box::new(SqueezeNet::new(b, &dict).expect("it builds")),
        };
        group.bench_function(BenchmarkId::new(name, device), |bench| {
            bench.iter(|| net.taps(b, black_box(&x)).expect("it runs"));
        });
    }
    group.finish();
}

fn inception<B: Backend>(c: &mut Criterion, device: &str, b: &B) {
    let Some(dict) = inception_dict() else {
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
            bench.iter(|| net.features(b, black_box(&x), tap).expect("it runs"));
        });
    }
    group.finish();
}

fn cpu(c: &mut Criterion) {
    backbones(c, "cpu", &Cpu);
    inception(c, "cpu", &Cpu);
    classifiers(c, "cpu", &Cpu);
}

criterion_group! {
    name = nets;
    config = seeded::settings();
    targets = cpu
}
criterion_main!(nets);
