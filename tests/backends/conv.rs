//! Convolutions, linear layers, concatenation.
//!
//! Tolerance: a device sums products in f32 in an order of its own. The error of such a sum is measured against the
//! sum of the magnitudes of its terms; random rounding stays near 2⁻²⁴ ≈ 6e-8 of it for any length, and fast
//! algorithms (Winograd) cost a factor of about ten. 1e-6 of the magnitudes allows both and no wrong tap.

use foil::tensor::{Activation, Array, Backend, Conv, Padding, Part, Pool};

use crate::elementwise::activation_f64;
use crate::host::{Host, assert_close, assert_equal, down, random, random_values, up};
use crate::pool::pool_f64;

const TOLERANCE: f64 = 1e-6;

/// Products of three bf16 parts keep 16 bits of each factor: 2⁻¹⁶ of a term.
fn tolerance<B: Backend>(b: &B) -> f64 {
    match b.arithmetic() {
        "bf16x3" => 16.0 * TOLERANCE,
        _ => TOLERANCE,
    }
}

pub const ACTIVATIONS: [Activation; 7] = [
    Activation::None,
    Activation::Relu,
    Activation::Relu6,
    Activation::Silu,
    Activation::Gelu,
    Activation::LeakyRelu,
    Activation::Tanh,
];

/// `activation(conv(x) + bias + residual)` and, for each value, the sum of magnitudes of its terms.
pub fn conv_f64(
    x: &Host,
    spec: &Conv,
    weight: &Array,
    bias: &[f32],
    residual: Option<&Host>,
) -> (Host, Host) {
    let [kh, kw] = spec.kernel;
    let (in_group, out_group) = (spec.inputs / spec.groups, spec.outputs / spec.groups);
    let Padding {
        top,
        left,
        bottom,
        right,
    } = spec.padding;
    let h = (x.h + top + bottom - kh) / spec.stride + 1;
    let w = (x.w + left + right - kw) / spec.stride + 1;
    let mut magnitudes = Host::zeros(x.n, spec.outputs, h, w);
    let values = Host::build([x.n, spec.outputs, h, w], |n, o, oy, ox| {
        let mut sum = f64::from(bias.get(o).copied().unwrap_or(0.0));
        let mut magnitude = sum.abs();
        for i in 0..in_group {
            let channel = o / out_group * in_group + i;
            for ky in 0..kh {
                for kx in 0..kw {
                    let y = (oy * spec.stride + ky) as isize - top as isize;
                    let x_at = (ox * spec.stride + kx) as isize - left as isize;
                    let Some(value) = x.inside(n, channel, y, x_at) else {
                        continue;
                    };
                    let weight = weight.data[((o * in_group + i) * kh + ky) * kw + kx];
                    let product = value * f64::from(weight);
                    sum += product;
                    magnitude += product.abs();
                }
            }
        }
        if let Some(residual) = residual {
            sum += residual.at(n, o, oy, ox);
            magnitude += residual.at(n, o, oy, ox).abs();
        }
        *magnitudes.at_mut(n, o, oy, ox) = magnitude;
        sum
    });
    (
        values.map(|v| activation_f64(spec.activation, v)),
        magnitudes,
    )
}

/// Seeded weights and biases of a convolution.
pub fn weights(spec: &Conv, with_bias: bool) -> (Array, Vec<f32>) {
    let shape = [
        spec.outputs,
        spec.inputs / spec.groups,
        spec.kernel[0],
        spec.kernel[1],
    ];
    let bias = if with_bias {
        random_values("bias", spec.outputs)
    } else {
        Vec::new()
    };
    (random("weight", shape), bias)
}

fn check<B: Backend>(b: &B, spec: Conv, [n, h, w]: [usize; 3], bias: bool, residual: bool) {
    let what = format!("{spec:?} on {n} images of {h}x{w}, bias {bias}, residual {residual}");
    let x = random("x", [n, spec.inputs, h, w]);
    let (weight, bias) = weights(&spec, bias);
    let [oh, ow] = spec.output(h, w).expect(&what);
    let residual = residual.then(|| random("residual", [n, spec.outputs, oh, ow]));
    let conv = b.prepare(spec, &weight, &bias).expect(&what);
    let given = residual.as_ref().map(|r| up(b, r));
    let got = b.conv(&up(b, &x), &conv, given.as_ref()).expect(&what);
    let residual = residual.as_ref().map(Host::from);
    let (expected, magnitudes) =
        conv_f64(&Host::from(&x), &spec, &weight, &bias, residual.as_ref());
    // SiLU and GELU have slopes up to 1.13, and add the error of their own exponential.
    let slope = match spec.activation {
        Activation::Silu | Activation::Gelu | Activation::Tanh => 1.5,
        _ => 1.0,
    };
    // A fast algorithm for 3×3 and 5×5 windows adds and subtracts whole tiles of inputs: a pixel at the border, with few terms
    // of its own, has the error of its neighbours.
    let fast = matches!(spec.kernel, [3, 3] | [5, 5])
        && [spec.stride, spec.groups] == [1, 1]
        && spec.inputs.is_multiple_of(16)
        && spec.outputs >= 16;
    let largest = magnitudes.data.iter().copied().fold(0.0, f64::max);
    assert_close(&what, &down(b, &got), &expected, |i| {
        let own = tolerance(b) * slope * magnitudes.data[i];
        if fast {
            own.max(tolerance(b) / 2.0 * largest)
        } else {
            own
        }
    });
}

/// Where a fast algorithm for small windows pays: tiles that do not divide the image, borders, channels beyond one block.
pub fn small_windows_with_many_channels<B: Backend>(b: &B) {
    let uneven = Padding {
        top: 2,
        left: 0,
        bottom: 1,
        right: 2,
    };
    for kernel in [3, 5] {
        for (inputs, outputs, side) in [(16, 16, [12, 12]), (48, 40, [13, 18]), (288, 33, [12, 15])]
        {
            for (p, padding) in [Padding::default(), Padding::all(kernel / 2), uneven]
                .into_iter()
                .enumerate()
            {
                let spec = Conv {
                    padding,
                    ..Conv::square(inputs, outputs, kernel).activation(ACTIVATIONS[p])
                };
                check(b, spec, [1 + p, side[0], side[1]], p != 0, p == 1);
            }
        }
    }
    // Small images whose many weights would be too large for the usual tiles.
    for (n, side) in [(1, [7, 7]), (2, [8, 7])] {
        let spec = Conv {
            padding: if n == 1 { Padding::all(1) } else { uneven },
            ..Conv::square(272, 251 + n, 3).activation(ACTIVATIONS[n])
        };
        check(b, spec, [n, side[0], side[1]], true, n == 2);
    }
}

/// Sums that are too long to be taken in one go, and those that the fast mode computes otherwise.
pub fn long_sums<B: Backend>(b: &B) {
    for stride in [2, 4] {
        let spec = Conv::square(64, 37, 5).stride(stride).padding(2);
        check(b, spec, [2, 18, 25], true, true);
    }
    check(b, Conv::square(1300, 21, 1), [3, 5, 11], true, true);
    let sampled = Conv::square(600, 33, 1).stride(2);
    check(b, sampled, [3, 7, 9], true, true);
    check(
        b,
        Conv::square(100, 35, 5).padding(2),
        [2, 9, 8],
        true,
        true,
    );
    check(
        b,
        Conv::square(64, 16, 7).stride(2),
        [1, 15, 20],
        true,
        false,
    );
}

pub fn every_kernel_stride_padding_and_depth<B: Backend>(b: &B) {
    let asymmetric = |kh: usize, kw: usize| Padding {
        top: kh / 2,
        left: kw.saturating_sub(2) / 2,
        bottom: kh / 3,
        right: kw - kw / 2,
    };
    for kernel in [[1, 1], [3, 3], [5, 5], [7, 7], [11, 11], [1, 7], [7, 1]] {
        let [kh, kw] = kernel;
        for stride in [1, 2, 4] {
            for (p, padding) in [
                Padding::default(),
                Padding::symmetric(kh / 2, kw / 2),
                asymmetric(kh, kw),
            ]
            .into_iter()
            .enumerate()
            {
                for inputs in [1, 3, 17, 64] {
                    let spec = Conv {
                        kernel,
                        stride,
                        padding,
                        ..Conv::square(inputs, 10, 1)
                    };
                    check(b, spec, [2, 12, 15], p != 0, false);
                }
            }
        }
    }
}

pub fn output_channels_need_not_fill_a_block<B: Backend>(b: &B) {
    for outputs in [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100] {
        for kernel in [1, 3] {
            let spec = Conv::square(5, outputs, kernel).padding(kernel / 2);
            check(b, spec, [2, 6, 9], true, true);
        }
    }
}

pub fn any_number_of_images<B: Backend>(b: &B) {
    for n in [1, 2, 3, 7] {
        for spec in [
            Conv::square(3, 24, 11).stride(4).padding(2),
            Conv::square(17, 20, 3).padding(1),
            Conv::square(64, 33, 1),
            Conv::square(33, 12, 1).stride(2),
            Conv::square(12, 12, 3).padding(1).groups(12),
        ] {
            check(b, spec, [n, 19, 23], true, false);
        }
    }
    // A width that leaves every possible remainder of a tile of pixels.
    for w in 1..=14 {
        check(
            b,
            Conv::square(4, 18, 3).padding(1),
            [1, 2, w],
            false,
            false,
        );
        check(b, Conv::linear(4, 18), [1, 1, w], false, false);
    }
    // Long rows of a 1x1 convolution.
    check(b, Conv::square(6, 10, 1), [3, 13, 29], true, true);
}

pub fn every_activation_with_bias_and_residual<B: Backend>(b: &B) {
    for activation in ACTIVATIONS {
        for (bias, residual) in [(false, false), (true, false), (false, true), (true, true)] {
            for spec in [
                Conv::square(17, 21, 3).padding(1),
                Conv::square(17, 21, 1),
                Conv::square(130, 21, 3).padding(1),
                Conv::square(12, 18, 3).padding(1).groups(3),
                Conv::square(21, 21, 3).padding(1).groups(21),
            ] {
                check(b, spec.activation(activation), [2, 7, 8], bias, residual);
            }
        }
    }
}

pub fn groups_see_their_own_channels_only<B: Backend>(b: &B) {
    for (inputs, outputs, groups) in [
        (4, 6, 2),
        (8, 12, 4),
        (64, 64, 2),
        (96, 40, 8),
        (6, 51, 3),
        (34, 4, 2),
    ] {
        for (kernel, stride) in [(1, 1), (3, 1), (5, 2), (1, 2)] {
            let spec = Conv::square(inputs, outputs, kernel)
                .groups(groups)
                .stride(stride)
                .padding(kernel / 2);
            check(b, spec, [2, 9, 7], true, false);
        }
    }
}

pub fn depthwise<B: Backend>(b: &B) {
    for c in [2, 5, 16, 33] {
        for (kernel, stride) in [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (1, 1)] {
            let spec = Conv::square(c, c, kernel).groups(c).stride(stride);
            check(b, spec.padding(kernel / 2), [2, 9, 10], true, false);
            check(b, spec, [2, 9, 10], false, true);
            // TensorFlow's "same" padding, as in EfficientNet-lite.
            let padding = Padding {
                bottom: 1,
                right: 1,
                ..Padding::default()
            };
            check(b, Conv { padding, ..spec }, [3, 8, 9], true, true);
        }
        for kernel in [[1, 7], [7, 1]] {
            let spec = Conv {
                kernel,
                ..Conv::square(c, c, 1).groups(c)
            };
            check(b, spec, [1, 8, 9], true, false);
        }
    }
}

pub fn depthwise_with_a_multiplier<B: Backend>(b: &B) {
    for (c, multiplier) in [(3, 2), (8, 4), (5, 17)] {
        let spec = Conv::square(c, c * multiplier, 3).groups(c).padding(1);
        check(b, spec, [2, 6, 7], true, false);
    }
}

pub fn linear_layers<B: Backend>(b: &B) {
    for (n, inputs, outputs) in [
        (1, 64, 10),
        (7, 17, 33),
        (3, 1, 1),
        (2, 300, 5),
        (50, 9, 16),
    ] {
        check(b, Conv::linear(inputs, outputs), [n, 1, 1], true, false);
        // Weights of a linear layer come as [o, i].
        let spec = Conv::linear(inputs, outputs);
        let (weight, bias) = weights(&spec, true);
        let flat = weight.clone().reshape([outputs, inputs]).unwrap();
        let x = up(b, &random("x", [n, inputs]));
        let [from_flat, from_oihw] = [&flat, &weight].map(|w| {
            let layer = b.prepare(spec, w, &bias).unwrap();
            down(b, &b.conv(&x, &layer, None).unwrap())
        });
        assert_equal("linear", &from_flat, &from_oihw);
    }
}

pub fn a_kernel_of_the_whole_image_is_a_linear_layer_after_flattening<B: Backend>(b: &B) {
    for (n, c, h, w, outputs) in [(1, 3, 6, 6, 10), (7, 17, 2, 5, 33), (2, 64, 7, 7, 20)] {
        let spec = Conv {
            kernel: [h, w],
            ..Conv::square(c, outputs, 1)
        };
        check(b, spec, [n, h, w], true, true);
        let (weight, bias) = weights(&spec, true);
        let x = random("x", [n, c, h, w]);
        let whole = b.prepare(spec, &weight, &bias).unwrap();
        let got = down(b, &b.conv(&up(b, &x), &whole, None).unwrap());
        // torch flattens NCHW: the columns of the linear layer are c, then h, then w.
        let flat = Host::from(&x.clone().reshape([n, c * h * w]).unwrap());
        let linear = weight.clone().reshape([outputs, c * h * w, 1, 1]).unwrap();
        let (expected, magnitudes) = conv_f64(
            &flat,
            &Conv::linear(c * h * w, outputs),
            &linear,
            &bias,
            None,
        );
        assert_close("flattened", &got, &expected, |i| {
            tolerance(b) * magnitudes.data[i]
        });
    }
    // The bordered image counts, not the image: here the kernel covers both with one window.
    let spec = Conv {
        padding: Padding {
            top: 1,
            left: 0,
            bottom: 0,
            right: 2,
        },
        kernel: [5, 6],
        ..Conv::square(3, 9, 1)
    };
    check(b, spec, [3, 4, 4], true, false);
}

pub fn kernels_larger_than_the_image_reach_into_the_padding<B: Backend>(b: &B) {
    check(b, Conv::square(3, 9, 7).padding(3), [2, 2, 3], true, false);
    check(
        b,
        Conv::square(4, 4, 7).padding(3).groups(4),
        [2, 1, 1],
        true,
        false,
    );
    check(b, Conv::square(2, 3, 1).padding(2), [1, 3, 3], true, false);
}

pub fn concat_of_tensors_convolutions_and_pools<B: Backend>(b: &B) {
    for (n, c, h, w) in [(1, 3, 6, 5), (3, 17, 9, 8), (2, 130, 6, 5)] {
        let x = random("x", [n, c, h, w]);
        let y = random("y", [n, 5, h, w]);
        let specs = [
            Conv::square(c, 10, 1).activation(Activation::Relu),
            Conv::square(c, 19, 3).padding(1),
            Conv::square(c, c, 3)
                .padding(1)
                .groups(c)
                .activation(Activation::Silu),
        ];
        let pools = [Pool::max(3, 1).padding(1), Pool::mean(3, 1).padding(1)];
        let (tx, ty) = (up(b, &x), up(b, &y));
        let prepared: Vec<_> = specs
            .iter()
            .map(|spec| {
                let (weight, bias) = weights(spec, true);
                b.prepare(*spec, &weight, &bias).unwrap()
            })
            .collect();
        let parts = [
            Part::Conv(&tx, &prepared[0]),
            Part::Tensor(&ty),
            Part::Pool(&tx, pools[0]),
            Part::Conv(&tx, &prepared[1]),
            Part::Conv(&tx, &prepared[2]),
            Part::Pool(&ty, pools[1]),
            Part::Tensor(&tx),
        ];
        let got = b.concat(&parts).unwrap();
        let whole = down(b, &got);
        assert_eq!(whole.c, 10 + 5 + c + 19 + c + 5 + c);

        // Each part is the operation on its own, to the bit…
        let alone = [
            b.conv(&tx, &prepared[0], None).unwrap(),
            ty.clone(),
            b.pool(&tx, pools[0]).unwrap(),
            b.conv(&tx, &prepared[1], None).unwrap(),
            b.conv(&tx, &prepared[2], None).unwrap(),
            b.pool(&ty, pools[1]).unwrap(),
            tx.clone(),
        ];
        let mut first = 0;
        for (i, part) in alone.iter().enumerate() {
            let part = down(b, part);
            let piece = Host::build([n, part.c, h, w], |n, k, y, x| whole.at(n, first + k, y, x));
            assert_equal(&format!("part {i}"), &piece, &part);
            first += part.c;
        }
        // …and one of each kind is checked against the reference here too.
        let (weight, bias) = weights(&specs[0], true);
        let (expected, magnitudes) = conv_f64(&Host::from(&x), &specs[0], &weight, &bias, None);
        assert_close("convolution", &down(b, &alone[0]), &expected, |i| {
            tolerance(b) * magnitudes.data[i]
        });
        let expected = pool_f64(&Host::from(&x), pools[0]);
        assert_equal("pool", &down(b, &alone[2]), &expected);
    }
}
