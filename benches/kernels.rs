//! Single operations at the shapes the networks use. Throughput of a convolution counts floating-point operations,
//! two for a product and a sum: criterion's `Gelem/s` are GFLOP/s.

mod seeded;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foil::metrics::{Matrix, moments::Moments};
use foil::tensor::{Activation, Backend, Conv, Padding, Resize, cpu::Cpu};

/// Name, height and width of the input, and the convolution.
fn convolutions() -> Vec<(&'static str, usize, Conv)> {
    let relu = |conv: Conv| conv.activation(Activation::Relu);
    let dense = |i, o, k: usize| relu(Conv::square(i, o, k).padding(k / 2));
    let row = Conv {
        kernel: [1, 7],
        padding: Padding::symmetric(0, 3),
        ..dense(192, 192, 1)
    };
    vec![
        (
            "alexnet_conv1_11x11_s4",
            224,
            relu(Conv::square(3, 64, 11).stride(4).padding(2)),
        ),
        ("alexnet_conv2_5x5", 27, dense(64, 192, 5)),
        ("alexnet_conv3_3x3", 13, dense(192, 384, 3)),
        ("vgg16_conv1_2_3x3", 224, dense(64, 64, 3)),
        ("vgg16_conv3_2_3x3", 56, dense(256, 256, 3)),
        ("vgg16_conv5_1_3x3", 14, dense(512, 512, 3)),
        (
            "squeezenet_conv1_3x3_s2",
            224,
            relu(Conv::square(3, 64, 3).stride(2)),
        ),
        ("squeezenet_fire2_squeeze_1x1", 55, dense(64, 16, 1)),
        ("squeezenet_fire2_expand_3x3", 55, dense(16, 64, 3)),
        (
            "inception_1a_3x3_s2",
            299,
            relu(Conv::square(3, 32, 3).stride(2)),
        ),
        ("inception_2a_3x3", 149, relu(Conv::square(32, 32, 3))),
        ("inception_2b_3x3", 147, dense(32, 64, 3)),
        ("inception_6e_1x7", 17, row),
        (
            "resnet50_conv1_7x7_s2",
            224,
            relu(Conv::square(3, 64, 7).stride(2).padding(3)),
        ),
        ("resnet50_layer1_1x1", 56, dense(64, 256, 1)),
        ("resnet50_layer2_3x3", 28, dense(128, 128, 3)),
        ("resnet50_layer4_1x1", 7, dense(512, 2048, 1)),
        (
            "resnet50_layer3_1x1_s2",
            28,
            Conv::square(512, 1024, 1).stride(2),
        ),
        (
            "mobilenet_depthwise_3x3",
            56,
            dense(144, 144, 3).groups(144),
        ),
        ("convnext_depthwise_7x7", 56, dense(96, 96, 7).groups(96)),
    ]
}

fn flops(conv: &Conv, side: usize) -> u64 {
    let [h, w] = conv.output(side, side).expect("the shapes fit");
    let taps = conv.inputs / conv.groups * conv.kernel[0] * conv.kernel[1];
    (2 * taps * conv.outputs * h * w) as u64
}

fn conv<B: Backend>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("conv");
    for (name, side, spec) in convolutions() {
        let shape = [
            spec.outputs,
            spec.inputs / spec.groups,
            spec.kernel[0],
            spec.kernel[1],
        ];
        let bias = seeded::array("bias", &[spec.outputs]).data;
        let prepared = b
            .prepare(spec, &seeded::array(name, &shape), &bias)
            .expect("the weights fit");
        let x = b
            .upload(&seeded::array("x", &[1, spec.inputs, side, side]))
            .expect("an image");
        group.throughput(Throughput::Elements(flops(&spec, side)));
        group.bench_function(BenchmarkId::new(name, device), |bench| {
            bench.iter(|| b.conv(black_box(&x), &prepared, None).expect("it runs"));
        });
    }
    group.finish();
}

fn distance<B: Backend>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("feature_distance");
    // The five taps of LPIPS on AlexNet at 256x256.
    for (channels, side) in [(64, 63), (192, 31), (384, 15), (256, 15)] {
        let shape = [1, channels, side, side];
        let [x, y] = ["a", "b"].map(|n| b.upload(&seeded::array(n, &shape)).expect("features"));
        let head = seeded::array("head", &[channels]).data;
        group.throughput(Throughput::Elements((2 * channels * side * side) as u64));
        let name = format!("{channels}x{side}x{side}");
        group.bench_function(BenchmarkId::new(name, device), |bench| {
            bench.iter(|| {
                b.mean_feature_distance(black_box(&x), &y, &head)
                    .expect("it runs")
            });
        });
    }
    group.finish();
}

fn resize<B: Backend>(c: &mut Criterion, device: &str, b: &B) {
    let mut group = c.benchmark_group("resize_to_299");
    for (name, mode) in [
        ("tf1", Resize::Tf1),
        ("halfpixel", Resize::HalfPixel),
        ("antialias", Resize::Antialias),
    ] {
        for side in [256, 512] {
            let x = b
                .upload(&seeded::array("x", &[1, 3, side, side]))
                .expect("an image");
            group.throughput(Throughput::Elements(3 * 299 * 299));
            let name = format!("{name}_from_{side}");
            group.bench_function(BenchmarkId::new(name, device), |bench| {
                bench.iter(|| b.resize(black_box(&x), 299, 299, mode).expect("it runs"));
            });
        }
    }
    group.finish();
}

/// Mean and scatter in f64: n · d² products and sums.
fn moments(c: &mut Criterion) {
    let mut group = c.benchmark_group("moments");
    for (n, d) in [(1000, 64), (1000, 768), (256, 2048)] {
        let features = seeded::array("features", &[n, d]).data;
        group.throughput(Throughput::Elements((2 * n * d * d) as u64));
        group.bench_function(BenchmarkId::new(format!("{n}x{d}"), "cpu"), |bench| {
            bench.iter(|| {
                let matrix = Matrix::new("features", n, d, black_box(&features)).expect("n x d");
                Moments::of("features", matrix).expect("finite")
            });
        });
    }
    group.finish();
}

fn cpu(c: &mut Criterion) {
    conv(c, "cpu", &Cpu);
    distance(c, "cpu", &Cpu);
    resize(c, "cpu", &Cpu);
    moments(c);
}

criterion_group! {
    name = kernels;
    config = seeded::settings();
    targets = cpu
}
criterion_main!(kernels);
