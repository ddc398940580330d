//! What does not fit is an error that says so, never a panic.

use foil::tensor::{
    Activation, Array, Attention, Backend, Conv, Norm, Padding, Part, Pool, QkvLayout, Resize,
    Shape, TensorError,
};

use crate::conv::weights;
use crate::host::{random, random_values, up};

fn refused<T>(what: &str, result: Result<T, TensorError>) {
    let message = match result {
        Ok(_) => panic!("{what} was accepted"),
        Err(error) => error.to_string(),
    };
    assert!(!message.is_empty(), "{what}: an error without words");
}

pub fn transfer<B: Backend>(b: &B) {
    refused("rank 3", b.upload(&Array::zeros([3, 4, 5])));
    refused("rank 0", b.upload(&Array::new([], vec![1.0]).unwrap()));
    let (right, short) = (vec![0u8; 2 * 2 * 3], vec![0u8; 11]);
    refused("a short image", b.upload_pixels(&[&right, &short], 2, 2));
    refused("stack of nothing", b.stack(&[]));
    let (p, q) = (random("p", [1, 3, 4, 4]), random("q", [1, 3, 4, 5]));
    refused("stack of two sizes", b.stack(&[up(b, &p), up(b, &q)]));
    let r = random("r", [1, 4, 4, 4]);
    refused("stack of two depths", b.stack(&[up(b, &p), up(b, &r)]));
}

pub fn convolution_weights<B: Backend>(b: &B) {
    let spec = Conv::square(4, 6, 3);
    let right = random("w", [6, 4, 3, 3]);
    assert!(b.prepare(spec, &right, &[0.0; 6]).is_ok());
    for shape in [
        vec![5, 4, 3, 3],
        vec![6, 5, 3, 3],
        vec![6, 4, 3, 1],
        vec![6, 4, 9],
        vec![6, 36],
        vec![216],
    ] {
        let weight = random("w", shape.clone());
        refused(&format!("weights {shape:?}"), b.prepare(spec, &weight, &[]));
    }
    refused("five biases", b.prepare(spec, &right, &[0.0; 5]));
    refused("no group", b.prepare(spec.groups(0), &right, &[]));
    let thirds = random("w", [6, 1, 3, 3]);
    refused("4 in 3 groups", b.prepare(spec.groups(3), &thirds, &[]));
    let quarters = random("w", [6, 1, 3, 3]);
    refused("6 in 4 groups", b.prepare(spec.groups(4), &quarters, &[]));
}

pub fn convolution<B: Backend>(b: &B) {
    let spec = Conv::square(4, 6, 3);
    let (weight, bias) = weights(&spec, true);
    let conv = b.prepare(spec, &weight, &bias).unwrap();
    let x = up(b, &random("x", [2, 4, 5, 5]));
    assert!(b.conv(&x, &conv, None).is_ok());
    for shape in [[2, 3, 5, 5], [2, 8, 5, 5]] {
        let other = up(b, &random("x", shape));
        refused("wrong channels", b.conv(&other, &conv, None));
    }
    for shape in [[2, 4, 2, 5], [2, 4, 5, 2], [2, 4, 1, 1]] {
        let small = up(b, &random("x", shape));
        refused("too small", b.conv(&small, &conv, None));
    }
    for shape in [[2, 6, 5, 5], [1, 6, 3, 3], [2, 5, 3, 3], [2, 6, 1, 1]] {
        let residual = up(b, &random("r", shape));
        refused("wrong residual", b.conv(&x, &conv, Some(&residual)));
    }
    let stuck = b.prepare(spec.stride(0), &weight, &bias);
    refused(
        "stride 0",
        stuck.and_then(|conv| b.conv(&x, &conv, None).map(|_| ())),
    );
}

pub fn concatenation<B: Backend>(b: &B) {
    refused("nothing", b.concat(&[]));
    let x = up(b, &random("x", [2, 4, 6, 6]));
    let smaller = up(b, &random("x", [2, 4, 6, 5]));
    let fewer = up(b, &random("x", [1, 4, 6, 6]));
    for other in [&smaller, &fewer] {
        let parts = [Part::Tensor(&x), Part::Tensor(other)];
        refused("two sizes", b.concat(&parts));
    }
    let parts = [Part::Tensor(&x), Part::Pool(&x, Pool::max(2, 2))];
    refused("a pool that shrinks", b.concat(&parts));
    let spec = Conv::square(3, 5, 1);
    let (weight, bias) = weights(&spec, true);
    let conv = b.prepare(spec, &weight, &bias).unwrap();
    let parts = [Part::Tensor(&x), Part::Conv(&x, &conv)];
    refused("a convolution of other channels", b.concat(&parts));
    let parts = [Part::Tensor(&x), Part::Pool(&x, Pool::max(9, 1))];
    refused("a window too large", b.concat(&parts));
}

pub fn pooling<B: Backend>(b: &B) {
    let x = up(b, &random("x", [1, 3, 4, 6]));
    refused("a window too large", b.pool(&x, Pool::max(5, 1)));
    refused("stride 0", b.pool(&x, Pool::mean(2, 0)));
    refused("no rows", b.adaptive_mean(&x, 0, 2));
    refused("no columns", b.adaptive_mean(&x, 2, 0));
}

pub fn norms_and_attention<B: Backend>(b: &B) {
    let norm = |c: usize| Norm {
        weight: random_values("w", c),
        bias: random_values("b", c),
        epsilon: 1e-5,
        ..Default::default()
    };
    let x = up(b, &random("x", [2, 6, 3, 3]));
    refused("five weights", b.layer_norm(&x, &norm(5)));
    let uneven = Norm {
        bias: vec![0.0; 5],
        ..norm(6)
    };
    refused("five biases", b.layer_norm(&x, &uneven));
    let group = |groups: usize, c: usize, modulation: Option<&B::Tensor>| {
        b.group_norm(&x, groups, &norm(c), modulation, Activation::None)
    };
    assert!(group(3, 6, None).is_ok());
    refused("no group", group(0, 6, None));
    refused("6 in 4 groups", group(4, 6, None));
    refused("8 weights", group(2, 8, None));
    for shape in [[2, 6], [1, 12], [2, 24]] {
        let modulation = up(b, &random("m", shape));
        refused("wrong modulation", group(3, 6, Some(&modulation)));
        let modulated = b.modulate(&x, &modulation, Activation::None);
        refused("wrong modulation", modulated);
    }

    let layout = QkvLayout::Stacked;
    let qkv = up(b, &random("qkv", [2, 12, 1, 5]));
    let attend = |heads: usize, bias: Option<&B::Tensor>| {
        b.attention(&qkv, Attention { heads, layout }, bias)
    };
    assert!(attend(2, None).is_ok());
    refused("no head", attend(0, None));
    refused("4 in 3 heads", attend(3, None));
    for shape in [[1, 5, 1, 5], [1, 5, 2, 4], [1, 4, 2, 5]] {
        let bias = up(b, &random("bias", shape));
        refused("wrong bias", attend(2, Some(&bias)));
    }
}

pub fn elementwise<B: Backend>(b: &B) {
    let x = up(b, &random("x", [2, 3, 4, 5]));
    for shape in [
        [2, 4, 4, 5],
        [3, 3, 4, 5],
        [2, 3, 1, 5],
        [2, 3, 5, 4],
        [2, 1, 4, 5],
    ] {
        let other = up(b, &random("y", shape));
        refused(&format!("add {shape:?}"), b.add(&x, &other));
    }
    let three = [1.0f32; 3];
    refused("channel 3 of 3", b.affine(&x, &[0, 1, 3], &three, &three));
    refused("two scales", b.affine(&x, &[0, 1, 2], &three[..2], &three));
    refused("two shifts", b.affine(&x, &[0, 1, 2], &three, &three[..2]));
}

pub fn layout_and_resize<B: Backend>(b: &B) {
    let x = up(b, &random("x", [2, 3, 4, 5]));
    refused("view", b.view(&x, Shape::new(2, 4, 5, 4)));
    for [top, left, h, w] in [[0, 0, 5, 5], [0, 0, 4, 6], [3, 0, 2, 5], [0, 5, 4, 1]] {
        refused("crop", b.crop(&x, top, left, h, w));
    }
    for mode in [Resize::Tf1, Resize::HalfPixel, Resize::Antialias] {
        refused("no rows", b.resize(&x, 0, 5, mode));
        refused("no columns", b.resize(&x, 5, 0, mode));
    }
}

pub fn feature_distance<B: Backend>(b: &B) {
    let head = [1.0f32; 3];
    let x = up(b, &random("x", [2, 3, 4, 5]));
    for shape in [[1, 3, 4, 5], [2, 3, 4, 4], [2, 4, 4, 5]] {
        let y = up(b, &random("y", shape));
        refused("two shapes", b.feature_distance(&x, &y, &head));
        refused("two shapes", b.mean_feature_distance(&x, &y, &head));
    }
    refused("a short head", b.feature_distance(&x, &x, &head[..2]));
    refused("a short head", b.mean_feature_distance(&x, &x, &head[..2]));
}

pub fn pooling_windows_without_a_pixel<B: Backend>(b: &B) {
    // torch refuses padding beyond half a window: the first windows would hold nothing (-inf, 0/0).
    let x = up(b, &random("x", [1, 3, 6, 6]));
    for padding in [2, 3, 5] {
        let what = format!("padding {padding}");
        refused(&what, b.pool(&x, Pool::max(3, 1).padding(padding)));
        refused(&what, b.pool(&x, Pool::mean(3, 1).padding(padding)));
    }
    refused("no kernel", b.pool(&x, Pool::max(0, 1)));
    let spec = Conv::square(3, 2, 0);
    let conv = b.prepare(spec, &Array::zeros([2, 3, 0, 0]), &[]);
    refused(
        "no kernel",
        conv.and_then(|conv| b.conv(&x, &conv, None).map(|_| ())),
    );
}

pub fn sizes_that_overflow<B: Backend>(b: &B) {
    let x = up(b, &random("x", [1, 3, 4, 4]));
    refused("crop", b.crop(&x, usize::MAX, 0, 2, 2));
    refused("crop", b.crop(&x, 0, 2, 2, usize::MAX));
    refused("view", b.view(&x, Shape::new(usize::MAX, 2, 2, 2)));
    // Numbers of values that wrap around to small ones, or to the right one.
    let wraps = Array {
        shape: vec![1, 1, 274_177, 67_280_421_310_721],
        data: vec![0.0],
    };
    refused("upload", b.upload(&wraps));
    let none = up(b, &Array::zeros([0, 3, 4, 4]));
    refused("view", b.view(&none, Shape::new(0, 1 << 40, 1 << 40, 3)));
    refused(
        "pooling",
        b.pool(&x, Pool::mean(1 << 33, 1).padding(1 << 32)),
    );
    refused("adaptive mean", b.adaptive_mean(&x, 1 << 63, 2));
    refused("resize", b.resize(&x, 1 << 40, 1 << 40, Resize::HalfPixel));
    refused("upsample", b.upsample(&x, 1 << 32));
    let mut conv = Conv::square(3, 3, 1).groups(3);
    let all = 1usize << 63;
    let sides = [
        [0, usize::MAX, 0, 0],
        [all, all, 0, 0],
        [1 << 31, 0, 1 << 32, 0],
    ];
    // A stride as long as the border leaves a small output, but the border is walked.
    let strides = [1, 1, 1, 1 << 62];
    let sides = [&sides[..], &[[0, 0, 1 << 62, 0]]].concat();
    for ([top, bottom, left, right], stride) in sides.into_iter().zip(strides) {
        conv.stride = stride;
        conv.padding = Padding {
            top,
            bottom,
            left,
            right,
        };
        let (weight, bias) = crate::conv::weights(&conv, true);
        let layer = b.prepare(conv, &weight, &bias).unwrap();
        refused("convolution", b.conv(&x, &layer, None));
    }
}

pub fn attention_bias_without_a_window<B: Backend>(b: &B) {
    let qkv = up(b, &random("qkv", [2, 12, 1, 5]));
    let bias = up(b, &Array::zeros([0, 5, 2, 5]));
    let attention = Attention {
        heads: 2,
        layout: QkvLayout::Stacked,
    };
    refused("no window", b.attention(&qkv, attention, Some(&bias)));
}
