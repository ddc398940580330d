//! Single operations, at shapes of networks, and whole networks: what benchmarks and the report run on every device. Weights
//! are seeded: their values do not change the time.

use std::hint::black_box;

use foil::images::resize::{Filter, Window, passes};
use foil::metrics::lpips::{Lpips, LpipsNet};
use foil::nets::{AlexNet, Backbone, SqueezeNet, Vgg16};
use foil::nets::{Architecture, FidTap, Inception, UnetEncoderConfig, build};
use foil::tensor::plan::{Peak, Plan};
use foil::tensor::{
    Activation, Array, Attention, Backend, Conv, Norm, Part, Pool, QkvLayout, Resize, Shape, Tap,
};
use foil::weights::Registry;

use crate::roofline::{Least, Run};
use crate::{seeded, weights};

/// Something to do with images (or tokens) of some size.
#[derive(Clone, Copy)]
pub enum Work {
    Conv(Conv, usize),
    /// Rows of a linear layer.
    Linear(usize, Conv),
    MaxPool(usize, usize),
    MeanPool(usize, usize),
    GlobalMean(usize, usize),
    AdaptiveMean(usize, usize),
    LayerNorm(usize, usize),
    GroupNorm(usize, usize),
    Modulate(usize, usize),
    Attention(usize, usize),
    Activate(Activation, usize, usize),
    Add(usize, usize),
    Affine(usize),
    LookUp(usize),
    Upload(usize),
    Windows(usize, usize),
    Unwindows(usize, usize),
    MergePatches(usize, usize),
    Upsample(usize, usize),
    Crop(usize),
    Concat(usize, usize),
    Resize(Resize),
    ResizePixels,
    Distance(usize, usize),
    DistanceMap(usize, usize),
    AllPairs(usize, usize),
    Backbone(&'static str),
    Lpips(LpipsNet),
    Inception(FidTap),
    Classifier(Architecture),
}

/// Images of a set whose members are compared with each other.
const SET: usize = 8;

impl Work {
    /// Every file of kernels, alone or (softmax, norms in parts, antialiased resizes) with those it works with; entries that only
    /// images larger than a binding, or attention with a bias, ask for are left out.
    pub fn operations() -> Vec<Self> {
        let relu = |conv: Conv| conv.activation(Activation::Relu);
        vec![
            Work::Conv(relu(Conv::square(3, 64, 7).stride(2).padding(3)), 224),
            Work::Conv(relu(Conv::square(64, 64, 3).padding(1)), 56),
            Work::Conv(relu(Conv::square(256, 256, 3).padding(1)), 14),
            Work::Conv(relu(Conv::square(256, 64, 1)), 56),
            Work::Conv(relu(Conv::square(1024, 256, 1)), 14),
            Work::Conv(relu(Conv::square(96, 96, 7).padding(3).groups(96)), 56),
            Work::Linear(196, Conv::linear(768, 3072).activation(Activation::Gelu)),
            Work::Linear(1, Conv::linear(2048, 1000)),
            Work::MaxPool(64, 112),
            Work::MeanPool(288, 35),
            Work::GlobalMean(2048, 7),
            Work::AdaptiveMean(512, 13),
            Work::LayerNorm(96, 56),
            Work::GroupNorm(128, 64),
            Work::Modulate(128, 64),
            Work::Attention(192, 256),
            Work::Activate(Activation::Gelu, 384, 56),
            Work::Activate(Activation::Silu, 128, 64),
            Work::Add(256, 56),
            Work::Affine(299),
            Work::LookUp(299),
            Work::Upload(256),
            Work::Windows(96, 56),
            Work::Unwindows(96, 56),
            Work::MergePatches(96, 56),
            Work::Upsample(128, 32),
            Work::Crop(256),
            Work::Concat(128, 28),
            Work::Resize(Resize::Tf1),
            Work::Resize(Resize::HalfPixel),
            Work::Resize(Resize::Antialias),
            Work::ResizePixels,
            Work::Distance(64, 63),
            Work::Distance(256, 15),
            Work::DistanceMap(64, 63),
            Work::AllPairs(192, 31),
        ]
    }

    /// The networks of the report.
    pub fn main_networks() -> Vec<Self> {
        vec![
            Work::Lpips(LpipsNet::Alex),
            Work::Backbone("squeezenet1_1"),
            Work::Backbone("vgg16"),
            Work::Inception(FidTap::F64),
            Work::Inception(FidTap::F2048),
            Work::Classifier(Architecture::ResNet50),
            Work::Classifier(Architecture::ConvNextTiny),
            Work::Classifier(Architecture::SwinT),
        ]
    }

    /// All networks of which there are tables of weights.
    pub fn networks() -> Vec<Self> {
        let backbones = ["alexnet", "vgg16", "squeezenet1_1"].map(Work::Backbone);
        let taps = [FidTap::F64, FidTap::F192, FidTap::F768, FidTap::F2048].map(Work::Inception);
        let known = weights::classifiers();
        let classifiers = Architecture::ALL.iter().copied();
        let classifiers = classifiers.filter(|a| known.iter().any(|name| name == a.name()));
        let classifiers = classifiers.map(Work::Classifier);
        backbones
            .into_iter()
            .chain(taps)
            .chain(classifiers)
            .collect()
    }

    /// Group and name of the benchmark.
    pub fn id(&self) -> (&'static str, String) {
        match self {
            Work::Backbone(name) => ("lpips_backbone_256", (*name).into()),
            Work::Inception(tap) => ("inception_v3_fid", tap.size().to_string()),
            Work::Classifier(a) => ("classifier", a.name().into()),
            other => (
                "operation",
                other.name().replace([' ', ','], "_").replace("__", "_"),
            ),
        }
    }

    pub fn name(&self) -> String {
        let square =
            |what: &str, c: usize, side: usize| format!("{what}, {c} channels, {side}x{side}");
        match *self {
            Work::Conv(c, side) => {
                let [kh, kw] = c.kernel;
                let kind = if c.groups > 1 { "depthwise " } else { "" };
                format!(
                    "{kind}convolution {kh}x{kw}, {} to {} channels, {side}x{side}",
                    c.inputs, c.outputs
                )
            }
            Work::Linear(rows, c) => format!("linear, {rows} rows, {} to {}", c.inputs, c.outputs),
            Work::MaxPool(c, side) => square("max pooling 3x3", c, side),
            Work::MeanPool(c, side) => square("mean pooling 3x3", c, side),
            Work::GlobalMean(c, side) => square("global mean", c, side),
            Work::AdaptiveMean(c, side) => square("mean over 6x6 cells", c, side),
            Work::LayerNorm(c, side) => square("layer norm", c, side),
            Work::GroupNorm(c, side) => square("group norm", c, side),
            Work::Modulate(c, side) => square("modulation", c, side),
            Work::Attention(c, tokens) => format!("attention, {c} channels, {tokens} tokens"),
            Work::Activate(a, c, side) => square(&format!("{a:?}"), c, side),
            Work::Add(c, side) => square("addition", c, side),
            Work::Affine(side) => square("normalisation", 3, side),
            Work::LookUp(side) => square("table", 3, side),
            Work::Upload(side) => square("upload of pixels", 3, side),
            Work::Windows(c, side) => square("windows of 7x7", c, side),
            Work::Unwindows(c, side) => square("windows of 7x7 undone", c, side),
            Work::MergePatches(c, side) => square("patches of 2x2", c, side),
            Work::Upsample(c, side) => square("enlargement by 2", c, side),
            Work::Crop(side) => square("crop to 224x224", 3, side),
            Work::Concat(c, side) => square("concatenation of 2", c, side),
            Work::Resize(mode) => format!("resize {mode:?}, 256x256 to 299x299"),
            Work::ResizePixels => "resize of pixels, 256x256 to 224x224".into(),
            Work::Distance(c, side) => square("LPIPS head", c, side),
            Work::DistanceMap(c, side) => square("LPIPS map", c, side),
            Work::AllPairs(c, side) => square(&format!("LPIPS head, all pairs of {SET}"), c, side),
            Work::Backbone(name) => format!("{name}, taps of LPIPS, 256x256"),
            Work::Lpips(net) => format!("LPIPS ({}), a pair of 256x256", net.name()),
            Work::Inception(tap) => format!("FID Inception, {} features", tap.size()),
            Work::Classifier(a) => format!("{}, {s}x{s}", a.name(), s = side_of(a)),
        }
    }

    /// What it costs on a device with this peak; `None` if its weights are not here.
    pub fn least(&self, peak: Peak) -> Option<Least> {
        let plan = Plan::default();
        let counted = self.on(&plan)?;
        // What was launched to prepare it is not part of it.
        let before = plan.costs();
        counted();
        let mut costs = plan.costs();
        for (kernel, earlier) in before {
            if let Some(cost) = costs.get_mut(&kernel) {
                cost.flops -= earlier.flops;
                cost.bytes -= earlier.bytes;
            }
        }
        Some(Least::of(&costs, peak))
    }

    /// A function that does it once on a device; `None` if its weights are not here.
    pub fn on<'b, B: Backend + 'static>(&self, b: &'b B) -> Option<Run<'b>> {
        let named = |name: &str, n: usize, c: usize, side: usize| {
            let array = seeded::array(name, &[n, c, side, side]);
            b.upload(&array).expect("an image")
        };
        let image = |c: usize, side: usize| named("x", 1, c, side);
        let norm = |c: usize| Norm {
            weight: seeded::array("weight", &[c]).data,
            bias: seeded::array("bias", &[c]).data,
            epsilon: 1e-5,
            ..Default::default()
        };
        let layer = |spec: Conv| {
            let [kh, kw] = spec.kernel;
            let shape = [spec.outputs, spec.inputs / spec.groups, kh, kw];
            let bias = seeded::array("bias", &[spec.outputs]).data;
            let prepared = b.prepare(spec, &seeded::array("weight", &shape), &bias);
            prepared.expect("a layer")
        };
        Some(match *self {
            Work::Conv(spec, side) => {
                let (conv, x) = (layer(spec), image(spec.inputs, side));
                Box::new(move || drop(black_box(b.conv(&x, &conv, None).expect("it runs"))))
            }
            Work::Linear(rows, spec) => {
                let conv = layer(spec);
                let x = seeded::array("x", &[rows, spec.inputs]);
                let x = b.upload(&x).expect("rows");
                Box::new(move || drop(black_box(b.conv(&x, &conv, None).expect("it runs"))))
            }
            Work::MaxPool(c, side) => {
                let x = image(c, side);
                let pool = Pool::max(3, 2).padding(1);
                Box::new(move || drop(black_box(b.pool(&x, pool).expect("it runs"))))
            }
            Work::MeanPool(c, side) => {
                let x = image(c, side);
                let pool = Pool::mean(3, 1).padding(1);
                Box::new(move || drop(black_box(b.pool(&x, pool).expect("it runs"))))
            }
            Work::GlobalMean(c, side) => {
                let x = image(c, side);
                Box::new(move || drop(black_box(b.global_mean(&x))))
            }
            Work::AdaptiveMean(c, side) => {
                let x = image(c, side);
                Box::new(move || drop(black_box(b.adaptive_mean(&x, 6, 6).expect("it runs"))))
            }
            Work::LayerNorm(c, side) => {
                let (x, norm) = (image(c, side), norm(c));
                Box::new(move || drop(black_box(b.layer_norm(&x, &norm).expect("it runs"))))
            }
            Work::GroupNorm(c, side) => {
                let (x, norm) = (image(c, side), norm(c));
                Box::new(move || {
                    let y = b.group_norm(&x, 32, &norm, None, Activation::Silu);
                    black_box(y.expect("it runs"));
                })
            }
            Work::Modulate(c, side) => {
                let x = image(c, side);
                let of_image = b.upload(&seeded::array("modulation", &[1, 2 * c]));
                let of_image = of_image.expect("scales and shifts");
                Box::new(move || {
                    let y = b.modulate(&x, &of_image, Activation::Relu);
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
            Work::Activate(activation, c, side) => {
                let x = image(c, side);
                Box::new(move || drop(black_box(b.activate(&x, activation))))
            }
            Work::Add(c, side) => {
                let (x, y) = (image(c, side), named("y", 1, c, side));
                Box::new(move || drop(black_box(b.add(&x, &y).expect("it runs"))))
            }
            Work::Affine(side) => {
                let x = image(3, side);
                Box::new(move || {
                    let y = b.affine(&x, &[0, 1, 2], &[0.02; 3], &[-1.0; 3]);
                    black_box(y.expect("it runs"));
                })
            }
            Work::LookUp(side) => {
                let x = b.upload_pixels(&[&pixels(side)], side, side);
                let (x, table) = (x.expect("an image"), [0.5f32; 256]);
                Box::new(move || drop(black_box(b.look_up(&x, &table).expect("it runs"))))
            }
            Work::Upload(side) => {
                let pixels = pixels(side);
                Box::new(move || {
                    black_box(b.upload_pixels(&[&pixels], side, side).expect("an image"));
                })
            }
            Work::Windows(c, side) => {
                let x = image(c, side);
                Box::new(move || drop(black_box(b.windows(&x, 7, [3, 3]))))
            }
            Work::Unwindows(c, side) => {
                let x = b.windows(&image(c, side), 7, [3, 3]);
                Box::new(move || drop(black_box(b.unwindows(&x, 7, [3, 3], side, side))))
            }
            Work::MergePatches(c, side) => {
                let x = image(c, side);
                Box::new(move || drop(black_box(b.merge_patches(&x))))
            }
            Work::Upsample(c, side) => {
                let x = image(c, side);
                Box::new(move || drop(black_box(b.upsample(&x, 2).expect("it runs"))))
            }
            Work::Crop(side) => {
                let x = image(3, side);
                Box::new(move || {
                    black_box(b.crop(&x, 16, 16, 224, 224).expect("it runs"));
                })
            }
            Work::Concat(c, side) => {
                let (x, y) = (image(c, side), named("y", 1, c, side));
                Box::new(move || {
                    let joined = b.concat(&[Part::Tensor(&x), Part::Tensor(&y)]);
                    black_box(joined.expect("it runs"));
                })
            }
            Work::Resize(mode) => {
                let x = image(3, 256);
                Box::new(move || {
                    black_box(b.resize(&x, 299, 299, mode).expect("it runs"));
                })
            }
            Work::ResizePixels => {
                let x = b.upload_pixels(&[&pixels(256)], 256, 256);
                let x = x.expect("an image");
                let all = Window::whole([224, 224]);
                let passes = passes([256, 256], [224, 224], Filter::Bilinear, all);
                Box::new(move || {
                    let once = passes.iter().fold(x.clone(), |x, pass| {
                        b.resize_pixels(&x, pass).expect("it runs")
                    });
                    black_box(once);
                })
            }
            Work::Distance(c, side) => {
                let (x, y) = (image(c, side), named("y", 1, c, side));
                let head = seeded::array("head", &[c]).data;
                Box::new(move || {
                    black_box(b.mean_feature_distance(&x, &y, &head).expect("it runs"));
                })
            }
            Work::DistanceMap(c, side) => {
                let (x, y) = (image(c, side), named("y", 1, c, side));
                let head = seeded::array("head", &[c]).data;
                Box::new(move || {
                    black_box(b.feature_distance(&x, &y, &head).expect("it runs"));
                })
            }
            Work::AllPairs(c, side) => {
                let set: Vec<B::Tensor> = (0..SET)
                    .map(|i| named(&i.to_string(), 1, c, side))
                    .collect();
                let head = seeded::array("head", &[c]).data;
                let pairs: Vec<[usize; 2]> =
                    (0..SET).flat_map(|i| (0..i).map(move |j| [j, i])).collect();
                Box::new(move || {
                    let tap = Tap {
                        images: set.iter().collect(),
                        head: &head,
                    };
                    let found = b.feature_distances_of_pairs(&[tap], &pairs);
                    black_box(found.expect("it runs"));
                })
            }
            Work::Backbone(name) => {
                let dict = weights::classifier(name, "features.")?;
                let net: Box<dyn Backbone<B>> = match name {
                    "alexnet" => Box::new(AlexNet::new(b, &dict).expect("it builds")),
                    "vgg16" => Box::new(Vgg16::new(b, &dict).expect("it builds")),
                    _ => Box::new(SqueezeNet::new(b, &dict).expect("it builds")),
                };
                let x = image(3, 256);
                Box::new(move || drop(black_box(net.taps(b, &x).expect("it runs"))))
            }
            Work::Lpips(net) => {
                let registry = Registry::open().expect("the registry");
                let weights = registry.lpips(net.name()).ok()?;
                let lpips = Lpips::new(b, net, &weights.backbone, weights.heads);
                let lpips = lpips.expect("the network");
                let pixels = pixels(256);
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
                let x = image(3, side_of(architecture));
                Box::new(move || {
                    black_box(net.predict(b, &x).expect("it runs").logits);
                })
            }
        })
    }
}

/// Height and width of a classifier's images.
fn side_of(architecture: Architecture) -> usize {
    match architecture {
        Architecture::EfficientNetLite1 => 240,
        Architecture::EfficientNetLite2 => 260,
        _ => 224,
    }
}

/// Seeded pixels of a square image.
fn pixels(side: usize) -> Vec<u8> {
    let Array { data, .. } = seeded::array("pixels", &[side * side * 3]);
    data.iter().map(|v| (v * 127.0 + 128.0) as u8).collect()
}
