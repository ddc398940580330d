//! The plan of a network against the counters of a GPU, and the layouts that plans are made of.

use foil::metrics::inception_features::InceptionFeatures;
use foil::metrics::lpips::{Lpips, LpipsNet};
use foil::nets::{self, Architecture, FidTap};
use foil::tensor::gpu::Gpu;
use foil::tensor::plan::Plan;
use foil::tensor::wgpu::{self, Adapter};
use foil::tensor::{Backend, Precision};
use serde_json::Value;

use crate::host::{random, up};

/// SqueezeNet as it ships, with an adapter of its own, so that its counters are of this test only.
pub fn squeezenet_on<B: Backend + 'static>(backend: &B, shape: [usize; 4]) {
    let registry = foil::weights::Registry::open().expect("the registry");
    let card = registry.card("squeezenet1_1_caffe").expect("a card");
    let loaded = registry.load(&card).expect("weights inside the program");
    let net = foil::nets::build(card.architecture, backend, &loaded.dict, &card.unet);
    let x = up(backend, &random("images", shape));
    let said = net.expect("a network").predict(backend, &x);
    backend
        .download(&said.expect("logits").logits)
        .expect("logits");
}

/// A published network without its weights, on one image as small as it takes.
fn classifier_on<B: Backend + 'static>(backend: &B, architecture: Architecture, side: usize) {
    let dict = nets::layout(architecture).expect("a published network");
    let unet = nets::UnetEncoderConfig::default();
    let net = nets::build(architecture, backend, &dict, &unet).expect("a network");
    let x = up(backend, &random("image", [1, 3, side, side]));
    net.predict(backend, &x).expect("logits");
}

fn lpips_on<B: Backend + 'static>(backend: &B, net: LpipsNet, architecture: Architecture) {
    let dict = nets::layout(architecture).expect("a published network");
    let weights = foil::weights::lpips_from_dict(net.name(), dict).expect("heads");
    let lpips = Lpips::new(backend, net, &weights.backbone, weights.heads).expect("a network");
    let [a, b] = ["a", "b"].map(|name| {
        let image = crate::resize::picture(name, 35, 41);
        let x = backend
            .upload_pixels(&[&image.pixels], 35, 41)
            .expect("an image");
        lpips.features(backend, &x, 1.0, 0.0).expect("features")
    });
    lpips.distances(backend, &a, &b).expect("distances");
}

/// All that FID asks of the Inception, whose input is always 299x299.
fn inception_on<B: Backend + 'static>(backend: &B) {
    let dict = nets::layout(Architecture::Inception).expect("a published network");
    let net = InceptionFeatures::new(backend, &dict, FidTap::F2048, foil::tensor::Resize::Tf1);
    let image = crate::resize::picture("fid", 40, 30);
    let x = backend
        .upload_pixels(&[&image.pixels], 40, 30)
        .expect("an image");
    net.expect("a network")
        .extract(backend, &x)
        .expect("features");
}

/// The plan's launches and invocations are those of a device of its own; bytes bound are at least those that have to be
/// moved. They are more where weights fill tiles of 64, and where parts of a concatenation are bound with the whole.
fn counted(what: &str, most: f64, plan: impl Fn(&Plan), run: impl Fn(&Gpu)) {
    let Ok(gpu) = wgpu::open(Adapter::Number(0), None, Precision::F32) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let planned = Plan::default();
    plan(&planned);
    run(&gpu);
    gpu.wait().expect("all launches");
    let (costs, counts) = (planned.costs(), gpu.counts());
    let names = |keys: Vec<&(&'static str, &'static str)>| format!("{keys:?}");
    assert_eq!(
        names(costs.keys().collect()),
        names(counts.keys().collect()),
        "{what}"
    );
    for (kernel, cost) in &costs {
        let count = counts[kernel];
        assert_eq!(count.launches, cost.launches, "{what} {kernel:?}");
        assert_eq!(count.invocations, cost.invocations, "{what} {kernel:?}");
        let ratio = count.bytes as f64 / cost.bytes;
        let least = match kernel {
            // In place: what is read and written is bound once.
            ("softmax", _) => 0.5,
            // Rows below the last window are in the plan, but not bound.
            ("pool", _) => 0.9,
            _ => 1.0,
        };
        assert!((least..most).contains(&ratio), "{what} {kernel:?}: {ratio}");
    }
}

#[test]
fn gpu_counters_are_what_the_plan_says() {
    let shape = [2, 3, 67, 65];
    let (on_plan, on_gpu) = (
        |p: &Plan| squeezenet_on(p, shape),
        |g: &Gpu| squeezenet_on(g, shape),
    );
    counted("squeezenet", 2.5, on_plan, on_gpu);
    let plan = Plan::default();
    squeezenet_on(&plan, shape);
    // 2 · 9 · 3 · 64 for each of the 33 x 32 outputs of the first layer is a part of it.
    assert!(plan.costs()[&("conv2d", "dense")].flops > (2 * 2 * 27 * 64 * 33 * 32) as f64);
}

#[test]
fn gpu_counters_of_lpips_are_what_the_plan_says() {
    let (net, architecture) = (LpipsNet::Alex, Architecture::AlexNet);
    let (on_plan, on_gpu) = (
        |p: &Plan| lpips_on(p, net, architecture),
        |g: &Gpu| lpips_on(g, net, architecture),
    );
    counted("lpips", 2.5, on_plan, on_gpu);
}

#[test]
fn gpu_counters_of_classifiers_are_what_the_plan_says() {
    for (architecture, side) in [
        (Architecture::ResNet50, 33),
        (Architecture::ConvNextTiny, 36),
        (Architecture::SwinT, 40),
    ] {
        let (on_plan, on_gpu) = (
            |p: &Plan| classifier_on(p, architecture, side),
            |g: &Gpu| classifier_on(g, architecture, side),
        );
        counted(architecture.name(), 2.5, on_plan, on_gpu);
    }
}

#[test]
fn gpu_counters_of_the_inception_are_what_the_plan_says() {
    counted("inception", 4.0, inception_on, inception_on);
}

/// Names and shapes of a table of golden data.
fn table(rows: &Value, name: &str, shape: &str) -> Vec<(String, Vec<usize>)> {
    let rows = rows.as_array().expect("rows").iter();
    let of = |row: &Value| {
        let row = |key: &str| match key.parse::<usize>() {
            Ok(index) => row[index].clone(),
            Err(_) => row[key].clone(),
        };
        let shape = serde_json::from_value(row(shape)).expect("a shape");
        (row(name).as_str().expect("a name").to_owned(), shape)
    };
    let mut all: Vec<_> = rows.map(of).collect();
    all.sort();
    all
}

fn golden(file: &str) -> Option<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bytes = std::fs::read(path.join(file));
    if let Err(error) = &bytes {
        println!("skipped: {file}: {error}");
    }
    serde_json::from_slice(&bytes.ok()?).expect("a table")
}

fn laid_out(architecture: Architecture, without: &str) -> Vec<(String, Vec<usize>)> {
    let dict = nets::layout(architecture).expect("a published network");
    let all = dict.iter().filter(|(name, _)| {
        // The golden tables leave statistics to another file where there is one.
        without.is_empty() || !name.contains(without)
    });
    let mut all: Vec<_> = all.map(|(n, a)| (n.to_owned(), a.shape.clone())).collect();
    all.sort();
    all
}

#[test]
fn layouts_have_the_names_and_shapes_of_the_public_checkpoints() {
    if let Some(found) = golden("nets/nets.json") {
        let nets = found["nets"].as_object().expect("networks");
        assert!(nets.len() >= 10);
        for (name, net) in nets {
            let architecture: Architecture = name.parse().expect("a known network");
            let expected = table(&net["tensors"], "0", "1");
            assert_eq!(laid_out(architecture, ""), expected, "{name}");
        }
    }
    if let Some(found) = golden("vision/inception_weights_table.json") {
        let expected = table(&found["tensors"], "name", "shape");
        assert_eq!(laid_out(Architecture::Inception, "running_"), expected);
    }
}
