//! What the suite does not ask of every device: GPUs with small limits, and what they say when something is missing.

use std::sync::{Arc, OnceLock};

use foil::tensor::gpu::driver::{Binding, Driver, Launch};
use foil::tensor::gpu::kernels::{Kernel, PROBE_COPY, PROBE_MULTIPLY};
use foil::tensor::gpu::{Gpu, Tensor};
use foil::tensor::wgpu::{self, Adapter, WgpuDriver};
use foil::tensor::{
    Activation, Array, Attention, Backend, Conv, Norm, Part, Pool, Precision, QkvLayout,
    TensorError,
};

use crate::conv::weights;
use crate::host::{random, random_values, up};
use crate::recorded;

/// A GPU if there is one, else a software adapter if there is one; opened once for all cases.
pub fn any_adapter() -> Option<&'static Gpu> {
    static DEVICE: OnceLock<Option<Gpu>> = OnceLock::new();
    let opened = DEVICE.get_or_init(|| recorded::open(None, Precision::F32));
    opened.as_ref()
}

/// The same with kernels that see only a few kilobytes at once, so that small tensors need several launches.
pub fn narrow_adapter() -> Option<&'static Gpu> {
    static DEVICE: OnceLock<Option<Gpu>> = OnceLock::new();
    let opened = DEVICE.get_or_init(|| recorded::open(Some(1 << 17), Precision::F32));
    opened.as_ref()
}

/// Images of 200 kB on a device whose kernels see 128 kB: rows of one image make a launch.
const LARGE: [usize; 4] = [3, 12, 60, 70];
/// Images of 6 kB: several of them make a launch.
const MANY: [usize; 4] = [30, 12, 10, 12];

/// The same bits from both devices.
fn same<F>(what: &str, shape: [usize; 4], run: F)
where
    F: Fn(&Gpu, &Tensor) -> Result<Tensor, TensorError>,
{
    let (Some(wide), Some(narrow)) = (any_adapter(), narrow_adapter()) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let array = random("pieces", shape);
    let [expected, got] = [wide, narrow].map(|b| {
        let y = run(b, &up(b, &array)).unwrap_or_else(|e| panic!("{what}: {e}"));
        b.download(&y).expect("a download")
    });
    assert_eq!(expected.shape, got.shape, "{what}");
    let equal = expected.data.iter().zip(&got.data);
    let differing = equal.filter(|(e, g)| e.to_bits() != g.to_bits()).count();
    assert_eq!(differing, 0, "{what}: values that differ");
}

#[test]
fn gpu_launches_in_pieces_give_the_same_bits() {
    let norm = Norm {
        weight: random_values("w", 12),
        bias: random_values("b", 12),
        epsilon: 1e-5,
        ..Default::default()
    };
    for shape in [LARGE, MANY] {
        for spec in [
            Conv::square(12, 20, 3)
                .padding(1)
                .activation(Activation::Silu),
            Conv::square(12, 20, 5).stride(2).padding(2),
            Conv::square(12, 70, 1),
            Conv::square(12, 12, 3).padding(1).groups(12),
            Conv::square(12, 24, 3).padding(1).groups(3),
        ] {
            let (weight, bias) = weights(&spec, true);
            same(&format!("{spec:?} of {shape:?}"), shape, |b, x| {
                let conv = b.prepare(spec, &weight, &bias)?;
                let residual = b.conv(x, &conv, None)?;
                b.conv(x, &conv, Some(&residual))
            });
            same("concat", shape, |b, x| {
                let conv = b.prepare(spec.stride(1).padding(spec.kernel[0] / 2), &weight, &bias)?;
                let pool = Part::Pool(x, Pool::mean(3, 1).padding(1));
                b.concat(&[Part::Tensor(x), Part::Conv(x, &conv), pool])
            });
        }
        for pool in [Pool::max(3, 2).ceil(), Pool::mean(5, 3).padding(2)] {
            same(&format!("{pool:?}"), shape, |b, x| b.pool(x, pool));
        }
        same("cells", shape, |b, x| b.adaptive_mean(x, 6, 5));
        same("layer norm", shape, |b, x| b.layer_norm(x, &norm));
        same("activation", shape, |b, x| {
            Ok(b.activate(x, Activation::Gelu))
        });
        same("add", shape, |b, x| b.add(x, x));
        same("add an image", shape, |b, x| b.add(x, &b.select(x, 1)));
        let vectors = random("vectors", [shape[0], 12]);
        same("add vectors", shape, |b, x| b.add(x, &up(b, &vectors)));
        same("affine", shape, |b, x| {
            b.affine(x, &[3, 0, 11], &[1.0, 2.0, 3.0], &[0.0, 1.0, -1.0])
        });
        same("modulate", shape, |b, x| {
            let m = up(b, &vectors);
            let m = b.concat(&[Part::Tensor(&m), Part::Tensor(&m)])?;
            b.modulate(x, &m, Activation::Tanh)
        });
        for mode in crate::resize::MODES {
            same(&format!("{mode:?}"), shape, |b, x| {
                b.resize(x, 33, 61, mode)
            });
        }
        same("distance", shape, |b, x| {
            b.feature_distance(x, &b.activate(x, Activation::Relu), &norm.weight)
        });
        same("mean distance", shape, |b, x| {
            let other = b.activate(x, Activation::Relu);
            let means = b.mean_feature_distance(x, &other, &norm.weight)?;
            let means = means.iter().map(|&v| v as f32).collect();
            b.upload(&Array::new([shape[0], 1], means)?)
        });
    }
    same("group norm", MANY, |b, x| {
        b.group_norm(x, 3, &norm, None, Activation::Silu)
    });
    same("windows", MANY, |b, x| {
        let cut = b.windows(x, 4, [2, 1]);
        b.add(x, &b.unwindows(&cut, 4, [2, 1], MANY[2], MANY[3]))
    });
    same("patches", MANY, |b, x| Ok(b.merge_patches(x)));
    same("upsample", MANY, |b, x| b.upsample(x, 2));
    same("crop", MANY, |b, x| b.crop(x, 1, 2, 7, 9));
    // 120 tokens: scores of 58 kB for each image and head. 300: those of a head do not fit.
    for tokens in [120, 300] {
        let shape = [2, 24, 1, tokens];
        let attention = Attention {
            heads: 2,
            layout: QkvLayout::Stacked,
        };
        same(&format!("attention of {tokens}"), shape, |b, x| {
            b.attention(x, attention, None)
        });
    }
    // Weights of 2000 x 150: those of one tile of outputs do not fit.
    let (narrow, spec) = (narrow_adapter(), Conv::linear(2000, 150));
    if let Some(narrow) = narrow {
        let (weight, bias) = weights(&spec, true);
        let error = narrow
            .prepare(spec, &weight, &bias)
            .err()
            .expect("too large");
        assert!(error.to_string().contains("--device cpu"), "{error}");
    }
    // 300 x 150: they go up in parts.
    let spec = Conv::linear(300, 150).activation(Activation::Relu);
    let (weight, bias) = weights(&spec, true);
    same("a linear layer in parts", [7, 300, 1, 1], |b, x| {
        b.conv(x, &b.prepare(spec, &weight, &bias)?, None)
    });
}

/// What a kernel of `foil devices --probe` makes of values in groups of four.
fn probed(driver: &impl Driver, kernel: &'static Kernel, rounds: u32, x: &[f32]) -> Vec<f32> {
    let bytes = 0..4 * x.len();
    let from = driver.upload(bytemuck::cast_slice(x)).expect("memory");
    let to = driver.allocate(bytes.len()).expect("memory");
    let count = x.len() as u32 / 4;
    let binding = |buffer, writes| Binding {
        buffer,
        bytes: bytes.clone(),
        writes,
    };
    let launch = Launch {
        kernel,
        groups: [count.div_ceil(256), 1, 1],
        params: &[count, rounds],
        bindings: &[binding(&from, false), binding(&to, true)],
    };
    driver.launch(&launch).expect("a launch");
    let y = driver.download(&to, bytes.clone()).expect("a download");
    bytemuck::pod_collect_to_vec(&y)
}

#[test]
fn gpu_probe_copies_and_multiplies() {
    let x = random_values("probe", 4 * 300);
    for precision in [Precision::F32, Precision::F16] {
        let Some(driver) = recorded::driver(None, precision) else {
            println!("skipped: this machine has no such adapter");
            continue;
        };
        assert_eq!(probed(&*driver, &PROBE_COPY, 0, &x), x);
        let y = probed(&*driver, &PROBE_MULTIPLY, 2, &x);
        for (i, got) in y.iter().enumerate() {
            let (invocation, part) = (i / 4, i % 4);
            let first = |begin: usize| match part {
                0 => invocation as f64,
                _ => (begin + part) as f64,
            };
            let c = 0.001 * (invocation % 256) as f64;
            let step = |a: f64, _| a * 0.999 + c;
            let chain = |begin| (0..32).fold(first(begin), step);
            let expected = chain(0) + chain(3);
            let error = (f64::from(*got) - expected).abs();
            // 32 roundings of each chain, and those of the constants.
            assert!(error <= 1e-5 * expected, "{i}: {got}, {expected}");
        }
    }
}

#[test]
fn gpu_that_is_not_there_is_an_error_that_says_what_to_do() {
    let error = wgpu::open(Adapter::Number(99), None, Precision::F32)
        .err()
        .expect("no adapter 99");
    let message = error.to_string();
    assert!(
        message.contains("wgpu:99") && message.contains("--device cpu"),
        "{message}"
    );
}

/// SqueezeNet as it ships, with an adapter of its own, so that its counters are of this test only.
fn squeezenet_on<B: Backend + 'static>(backend: &B, shape: [usize; 4]) {
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

#[test]
fn gpu_counters_are_what_the_plan_says() {
    let Ok(gpu) = wgpu::open(Adapter::Number(0), None, Precision::F32) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let plan = foil::tensor::plan::Plan::default();
    squeezenet_on(&plan, [2, 3, 67, 65]);
    squeezenet_on(&gpu, [2, 3, 67, 65]);
    let (costs, counts) = (plan.costs(), gpu.counts());
    let names = |keys: Vec<&(&'static str, &'static str)>| format!("{keys:?}");
    assert_eq!(
        names(costs.keys().collect()),
        names(counts.keys().collect())
    );
    for (kernel, cost) in &costs {
        let count = counts[kernel];
        assert_eq!(count.launches, cost.launches, "{kernel:?}");
        assert_eq!(count.invocations, cost.invocations, "{kernel:?}");
        // Bound is at least what has to be moved; more where weights fill tiles of 64 and where a part of a concatenation
        // is bound with the whole.
        let ratio = count.bytes as f64 / cost.bytes;
        assert!((1.0..2.5).contains(&ratio), "{kernel:?}: {ratio}");
    }
    // 2 · 9 · 3 · 64 for each of the 33 x 32 outputs of the first layer is a part of it.
    assert!(costs[&("conv2d", "dense")].flops > (2 * 2 * 27 * 64 * 33 * 32) as f64);
}

#[test]
fn gpu_memory_grows_with_the_batch_at_most() {
    let peak = |batch: usize| {
        let gpu = wgpu::open(Adapter::Number(0), None, Precision::F32).ok()?;
        squeezenet_on(&gpu, [batch, 3, 64, 64]);
        Some(gpu.peak())
    };
    let Some(one) = peak(1) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let (two, eight) = (peak(2).expect("opened"), peak(8).expect("opened"));
    // Weights are there once; a quarter more is kept, and sizes are rounded up by an eighth.
    let image = two.saturating_sub(one).max(1);
    assert!(eight <= one + 7 * image * 3 / 2, "{one} {two} {eight}");
    assert!(eight > one, "{one} {eight}");
}

/// No WGSL at all.
static BROKEN: Kernel = Kernel::new("broken", "nothing", "this is no WGSL", "");

#[test]
fn gpu_kernel_that_does_not_compile_is_an_error_and_the_next_one_runs() {
    let Ok(driver) = WgpuDriver::open(Adapter::Number(0), None, Precision::F32) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let driver = Arc::new(driver);
    let gpu = Gpu::new(Arc::clone(&driver));
    let launch = Launch {
        kernel: &BROKEN,
        groups: [1, 1, 1],
        params: &[0; 4],
        bindings: &[],
    };
    for _ in 0..2 {
        let message = driver.launch(&launch).expect_err("no WGSL");
        let message = message.to_string();
        for part in ["broken nothing", "--device cpu"] {
            assert!(message.contains(part), "{message}");
        }
    }
    let x = random("x", [1, 3, 4, 4]);
    let doubled = gpu.add(&up(&gpu, &x), &up(&gpu, &x)).expect("a sum");
    let doubled = gpu.download(&doubled).expect("a sum").data;
    let expected: Vec<f32> = x.data.iter().map(|v| v + v).collect();
    assert_eq!(doubled, expected);
}

#[test]
fn gpu_without_memory_says_so_and_goes_on() {
    let Ok(driver) = WgpuDriver::open(Adapter::Number(0), None, Precision::F32) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let driver = Arc::new(driver);
    let gpu = Gpu::new(Arc::clone(&driver));
    match driver.allocate(1 << 45) {
        Err(TensorError::OutOfMemory { bytes, .. }) => assert_eq!(bytes, 1 << 45),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("32 terabytes"),
    }
    let x = random("x", [1, 3, 4, 4]);
    assert_eq!(gpu.download(&up(&gpu, &x)).expect("an image"), x);
}

#[test]
fn gpu_that_is_lost_says_so_to_whoever_asks() {
    let Ok(driver) = WgpuDriver::open(Adapter::Number(0), None, Precision::F32) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let driver = Arc::new(driver);
    let gpu = Gpu::new(Arc::clone(&driver));
    let x = up(&gpu, &random("x", [2, 3, 4, 4]));
    driver.lose();
    for message in [
        gpu.add(&x, &x).and_then(|y| gpu.download(&y)).err(),
        gpu.download(&x).err(),
        gpu.upload(&random("x", [2, 3, 4, 4])).err(),
        // An operation that cannot refuse.
        gpu.download(&gpu.activate(&x, Activation::Relu)).err(),
    ] {
        let message = message.expect("a device that is gone").to_string();
        for part in ["was lost", "--resume", "--device cpu"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn gpu_refuses_tensors_of_another_device() {
    let open = || wgpu::open(Adapter::Number(0), None, Precision::F32);
    let (Ok(one), Ok(other)) = (open(), open()) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let x = random("x", [1, 3, 4, 4]);
    let (mine, foreign) = (up(&one, &x), up(&other, &x));
    for refused in [
        one.download(&foreign).err(),
        one.add(&mine, &foreign).err(),
        // An operation that cannot refuse: whoever looks at the result is told.
        one.download(&one.activate(&foreign, Activation::Relu))
            .err(),
    ] {
        let message = refused.expect("another device").to_string();
        assert!(message.contains("another device"), "{message}");
    }
    assert_eq!(other.download(&foreign).expect("its own"), x);
}
