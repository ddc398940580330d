//! GPUs that keep values as f16: every operation beside the CPU in f32, from inputs and weights that f16 has exactly, so
//! that what differs is the rounding of what is written.

use std::sync::OnceLock;

use foil::images::{Filter, Window};
use foil::tensor::cpu::Cpu;
use foil::tensor::gpu::{Gpu, Tensor};
use foil::tensor::{
    Activation, Array, Attention, Backend, Compared, Conv, Norm, Part, Pool, Precision, QkvLayout,
    Shape, Tap, TensorError,
};

use crate::conv::weights;
use crate::host::{random, random_values, up};
use crate::recorded;

/// A software or real adapter whose kernels have f16.
pub fn adapter() -> Option<&'static Gpu> {
    static DEVICE: OnceLock<Option<Gpu>> = OnceLock::new();
    let opened = DEVICE.get_or_init(|| recorded::open(None, Precision::F16));
    opened.as_ref()
}

/// The nearest values that f16 has.
fn halves(mut array: Array) -> Array {
    for v in &mut array.data {
        *v = half::f16::from_f32(*v).to_f32();
    }
    array
}

fn vector(values: Vec<f64>) -> Array {
    let values: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
    Array::new([values.len(), 1], values).expect("a vector")
}

/// What every operation gives.
fn results<B: Backend>(b: &B) -> Result<Vec<(String, Array)>, TensorError> {
    let mut all = Vec::new();
    // 5 · 7 · 3 values: images begin within a word.
    let x = up(b, &halves(random("x", [3, 3, 5, 7])));
    let wide = up(b, &halves(random("wide", [2, 12, 9, 8])));
    let other = up(b, &halves(random("other", [2, 12, 9, 8])));
    let mut keep = |what: &str, y: &B::Tensor| -> Result<(), TensorError> {
        all.push((what.to_owned(), b.download(y)?));
        Ok(())
    };
    keep("upload", &x)?;
    keep("one image", &b.select(&x, 1))?;
    let images: Vec<B::Tensor> = [2, 0, 1].map(|i| b.select(&x, i)).into();
    keep("stack", &b.stack(&images)?)?;
    let pixels: Vec<u8> = (0..3 * 5 * 7).map(|i| (i * 7 % 256) as u8).collect();
    let uploaded = b.upload_pixels(&[&pixels, &pixels], 5, 7)?;
    keep("pixels", &uploaded)?;
    let window = Window::middle([4, 9], [3, 6]).expect("a smaller window");
    let mut resized = uploaded.clone();
    for pass in foil::images::passes([5, 7], [4, 9], Filter::Bicubic, window) {
        resized = b.resize_pixels(&resized, &pass)?;
    }
    keep("pixels resized", &resized)?;
    let table = std::array::from_fn(|i| (255 - i) as f32);
    keep("pixels in a table", &b.look_up(&uploaded, &table)?)?;
    for spec in [
        Conv::square(12, 20, 3)
            .padding(1)
            .activation(Activation::Relu),
        Conv::square(12, 70, 1),
        Conv::square(12, 12, 3).padding(1).groups(12),
        Conv::square(12, 24, 5).stride(2).padding(2).groups(3),
    ] {
        let (weight, bias) = weights(&spec, true);
        let conv = b.prepare(spec, &halves(weight), &bias)?;
        let y = b.conv(&wide, &conv, None)?;
        keep(&format!("{spec:?}"), &y)?;
        keep(
            &format!("{spec:?} with a residual"),
            &b.conv(&wide, &conv, Some(&y))?,
        )?;
    }
    let pool = Part::Pool(&wide, Pool::mean(3, 1).padding(1));
    keep("concat", &b.concat(&[Part::Tensor(&other), pool])?)?;
    keep("max", &b.pool(&wide, Pool::max(3, 2).ceil())?)?;
    keep("cells", &b.adaptive_mean(&wide, 4, 3)?)?;
    keep("mean", &b.global_mean(&wide))?;
    let norm = Norm {
        weight: random_values("w", 12),
        bias: random_values("b", 12),
        epsilon: 1e-5,
        ..Default::default()
    };
    let modulation = up(b, &halves(random("modulation", [2, 24])));
    keep("layer norm", &b.layer_norm(&wide, &norm)?)?;
    let silu = Activation::Silu;
    keep(
        "group norm",
        &b.group_norm(&wide, 3, &norm, Some(&modulation), silu)?,
    )?;
    keep("modulate", &b.modulate(&wide, &modulation, silu)?)?;
    let tokens = b.view(&wide, Shape::new(2, 1, 72, 12))?;
    for (layout, name) in [
        (QkvLayout::Stacked, "stacked"),
        (QkvLayout::PerHead, "per head"),
    ] {
        let attention = Attention { heads: 2, layout };
        keep(
            &format!("attention, {name}"),
            &b.attention(&tokens, attention, None)?,
        )?;
    }
    keep("add", &b.add(&wide, &other)?)?;
    keep("gelu", &b.activate(&wide, Activation::Gelu))?;
    keep("affine", &b.affine(&x, &[2, 0], &[0.5, 2.0], &[1.0, -1.0])?)?;
    let cut = b.windows(&wide, 4, [2, 1]);
    keep("windows", &cut)?;
    keep("unwindows", &b.unwindows(&cut, 4, [2, 1], 9, 8))?;
    keep("patches", &b.merge_patches(&x))?;
    keep("upsample", &b.upsample(&x, 2)?)?;
    keep("crop", &b.crop(&x, 1, 2, 3, 4)?)?;
    for mode in crate::resize::MODES {
        keep(&format!("{mode:?}"), &b.resize(&x, 11, 4, mode)?)?;
    }
    let head = random_values("head", 12);
    let head: Vec<f32> = head.iter().map(|v| v.abs()).collect();
    keep("distance", &b.feature_distance(&wide, &other, &head)?)?;
    let compared = [Compared {
        a: &wide,
        b: &other,
        head: &head,
    }];
    let means = b.mean_feature_distances(&compared)?.remove(0);
    all.push(("mean distance".into(), vector(means)));
    let taps = [Tap {
        images: images.iter().collect(),
        head: &head[..3],
    }];
    let pairs = b.feature_distances_of_pairs(&taps, &[[0, 1], [0, 2], [1, 2]])?;
    all.push(("all pairs".into(), vector(pairs.concat())));
    Ok(all)
}

/// An output is rounded once (2⁻¹¹ of it); those of two steps twice, and a sum of many terms cancels: 2⁻⁹ of the largest.
fn compare<B: Backend>(device: Option<&B>) {
    let Some(device) = device else {
        println!("skipped: this machine has no such device");
        return;
    };
    let expected = results(&Cpu).expect("results of the CPU");
    let got = results(device).expect("results of the device");
    assert_eq!(expected.len(), got.len());
    let mut rounded = 0;
    for ((what, expected), (_, got)) in expected.iter().zip(&got) {
        assert_eq!(expected.shape, got.shape, "{what}");
        let largest = expected.data.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        for (e, g) in expected.data.iter().zip(&got.data) {
            assert!((e - g).abs() <= largest / 512.0, "{what}: {e} and {g}");
            rounded += usize::from(e != g);
        }
    }
    // It is f16 indeed.
    assert!(rounded > 1000, "{rounded} values differ");
    assert_eq!(device.arithmetic(), "f32, stored as f16");
}

#[test]
fn gpu_with_values_in_f16_is_the_cpu_to_their_rounding() {
    compare(adapter());
}

#[test]
fn shim_with_values_in_f16_is_the_cpu_to_their_rounding() {
    compare(crate::shim::half_device());
}

#[test]
fn gpu_gives_an_image_in_f16_the_same_bits_in_any_batch() {
    let Some(b) = adapter() else {
        println!("skipped: this machine has no adapter with f16");
        return;
    };
    let x = random("batch", [7, 3, 13, 11]);
    let spec = Conv::square(3, 10, 3)
        .padding(1)
        .activation(Activation::Silu);
    let (weight, bias) = weights(&spec, true);
    let conv = b.prepare(spec, &weight, &bias).expect("a layer");
    let whole = up(b, &x);
    let run = |x: &Tensor| {
        let y = b.conv(x, &conv, None).expect("a convolution");
        b.download(&b.global_mean(&y)).expect("means").data
    };
    let batch = run(&whole);
    for i in 0..7 {
        assert_eq!(
            run(&b.select(&whole, i)),
            batch[10 * i..][..10],
            "image {i}"
        );
    }
}
