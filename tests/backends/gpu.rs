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
use crate::plan::squeezenet_on;
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

/// On a machine that is to prove the kernels (`FOIL_NEEDS_DEVICES`), tests that say `skipped:` would prove nothing.
#[test]
fn gpu_devices_are_there_where_they_are_needed() {
    if std::env::var_os("FOIL_NEEDS_DEVICES").is_none() {
        return;
    }
    assert!(any_adapter().is_some(), "wgpu finds no adapter");
    assert!(crate::half::adapter().is_some(), "no adapter has f16");
    let shim = crate::shim::device(0);
    assert!(
        shim.is_some(),
        "CUDA kernels cannot be compiled for the CPU"
    );
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
    same_on([wide, narrow], what, shape, run);
}

fn same_on<F>([wide, narrow]: [&Gpu; 2], what: &str, shape: [usize; 4], run: F)
where
    F: Fn(&Gpu, &Tensor) -> Result<Tensor, TensorError>,
{
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
    same("windows", MANY, |b, x| {
        let cut = b.windows(x, 4, [2, 1]);
        b.add(x, &b.unwindows(&cut, 4, [2, 1], MANY[2], MANY[3]))
    });
    for (n, [h, w]) in [(2, [160, 150]), (30, [20, 33])] {
        let shape = [n, 3, h, w];
        same("pixels resized", shape, |b, x| {
            // Whole numbers from any values.
            let x = b.affine(x, &[0, 1, 2], &[127.0; 3], &[128.0; 3])?;
            let x = b.look_up(&x, &std::array::from_fn(|i| i as f32))?;
            let window = foil::images::Window::whole([61, 47]);
            let filter = foil::images::Filter::Lanczos;
            let passes = foil::images::passes([h, w], [61, 47], filter, window);
            passes
                .iter()
                .try_fold(x, |x, pass| b.resize_pixels(&x, pass))
        });
    }
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

/// Operations whose kernels take rows of an image for an image, and sums that are taken over several launches.
fn rows_give_the_same_bits(devices: [&Gpu; 2]) {
    let norm = Norm {
        weight: random_values("w", 12),
        bias: random_values("b", 12),
        epsilon: 1e-5,
        ..Default::default()
    };
    for shape in [LARGE, MANY] {
        let vectors = random("modulation", [shape[0], 24]);
        same_on(devices, "group norm", shape, |b, x| {
            b.group_norm(x, 3, &norm, None, Activation::Silu)
        });
        same_on(devices, "modulated group norm", shape, |b, x| {
            let modulation = up(b, &vectors);
            b.group_norm(x, 4, &norm, Some(&modulation), Activation::None)
        });
        same_on(devices, "patches", shape, |b, x| Ok(b.merge_patches(x)));
        same_on(devices, "upsample", shape, |b, x| b.upsample(x, 2));
        same_on(devices, "crop", shape, |b, x| {
            let [_, _, h, w] = shape;
            b.crop(x, 1, 2, h - 3, w - 3)
        });
        same_on(devices, "a small crop", shape, |b, x| b.crop(x, 5, 3, 4, 6));
    }
    // 146 kB as values, 110 rows of an odd number of bytes.
    let pixels: Vec<u8> = (0..3 * 110 * 111).map(|i| (i * 7 % 251) as u8).collect();
    same_on(devices, "pixels", [1, 1, 1, 1], |b, _| {
        b.upload_pixels(&[&pixels, &pixels], 110, 111)
    });
    // An odd number of rows: the last patches reach beyond the image.
    same_on(devices, "patches of 61 rows", [2, 12, 61, 71], |b, x| {
        Ok(b.merge_patches(x))
    });
}

#[test]
fn gpu_images_larger_than_a_kernel_sees_are_cut_by_rows() {
    match (any_adapter(), narrow_adapter()) {
        (Some(wide), Some(narrow)) => rows_give_the_same_bits([wide, narrow]),
        _ => println!("skipped: this machine has no adapter"),
    }
}

/// With values of half the size, kernels that see half as much.
#[test]
fn gpu_images_in_f16_larger_than_a_kernel_sees_are_cut_by_rows() {
    let narrow = recorded::open(Some(1 << 16), Precision::F16);
    match (crate::half::adapter(), &narrow) {
        (Some(wide), Some(narrow)) => rows_give_the_same_bits([wide, narrow]),
        _ => println!("skipped: this machine has no adapter with f16"),
    }
}

#[test]
fn cuda_images_larger_than_a_kernel_sees_are_cut_by_rows() {
    match (crate::shim::device(0), crate::shim::narrow_device()) {
        (Some(wide), Some(narrow)) => rows_give_the_same_bits([wide, narrow]),
        _ => println!("skipped: this machine cannot compile CUDA kernels for the CPU"),
    }
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

/// Memory that is gone while an upload is copied, which to wgpu's own copies is the end of the device.
#[test]
fn gpu_without_memory_for_the_copy_of_an_upload_says_so_and_goes_on() {
    let Ok(driver) = WgpuDriver::open(Adapter::Number(0), None, Precision::F32) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let driver = Arc::new(driver);
    let gpu = Gpu::new(Arc::clone(&driver));
    let small = random("small", [1, 3, 4, 4]);
    let kept = up(&gpu, &small);
    let waiting = gpu.add(&kept, &kept).expect("a sum");
    // 786,432 bytes: there is room for them once, not twice.
    let large = random("large", [4, 3, 128, 128]);
    let bytes = 4 * large.data.len();
    driver.leave_room(bytes as u64 * 3 / 2);
    match gpu.upload(&large) {
        Err(TensorError::OutOfMemory { bytes: found, .. }) => assert_eq!(found, bytes),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("room for one copy"),
    }
    // Half of it has room, as a batch that is halved.
    let half = random("half", [2, 3, 128, 128]);
    let uploaded = gpu.upload(&half).expect("a smaller batch");
    driver.leave_room(u64::MAX);
    assert_eq!(gpu.download(&uploaded).expect("it is there"), half);
    // Nothing was lost that was there before, launches that waited among it.
    assert_eq!(gpu.download(&kept).expect("it is there"), small);
    let twice: Vec<f32> = small.data.iter().map(|v| v + v).collect();
    assert_eq!(gpu.download(&waiting).expect("it is there").data, twice);
    assert_eq!(
        gpu.download(&up(&gpu, &large)).expect("there is room"),
        large
    );
}

/// Not even room for the parameters of the launches that wait: they wait on.
#[test]
fn gpu_without_memory_for_parameters_keeps_its_launches() {
    let Ok(driver) = WgpuDriver::open(Adapter::Number(0), None, Precision::F32) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let driver = Arc::new(driver);
    let gpu = Gpu::new(Arc::clone(&driver));
    let x = random("x", [1, 3, 4, 4]);
    let up = up(&gpu, &x);
    let sum = gpu.add(&up, &up).expect("a sum");
    // Room for what is downloaded, 192 bytes, and not for the parameters, 256.
    driver.leave_room(200);
    let starved = gpu.download(&sum).expect_err("no room");
    assert!(
        matches!(starved, TensorError::OutOfMemory { .. }),
        "{starved}"
    );
    driver.leave_room(u64::MAX);
    let twice: Vec<f32> = x.data.iter().map(|v| v + v).collect();
    assert_eq!(gpu.download(&sum).expect("it is there").data, twice);
}

/// Uploads that do not fit into one copy, and more of them than may be on their way at once.
#[test]
fn gpu_uploads_go_in_parts() {
    let Ok(driver) = WgpuDriver::open(Adapter::Number(0), None, Precision::F32) else {
        println!("skipped: this machine has no adapter");
        return;
    };
    let bytes: Vec<u8> = (0..(70usize << 20) + 5).map(|i| (i % 253) as u8).collect();
    let buffer = driver.upload(&bytes).expect("memory");
    let end = bytes.len().next_multiple_of(4);
    for at in [0, (16 << 20) - 8, (64 << 20) - 8, end - 16] {
        let got = driver.download(&buffer, at..at + 16).expect("a part");
        let known = got.len().min(bytes.len() - at);
        assert_eq!(got[..known], bytes[at..at + known], "at {at}");
    }
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
