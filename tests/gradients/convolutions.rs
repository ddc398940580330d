//! Convolutions: input, residual, weight and bias.

use candle_core::Var;
use foil::tensor::candle::{Candle, Differentiable, Tensor};
use foil::tensor::{Activation, Array, Backend, Conv, Padding};

use crate::conv::{ACTIVATIONS, conv_f64};
use crate::difference::{
    Step, array, assert_gradient, check, coarse, difference, dot, gradient_of, weighted_sum,
};
use crate::host::Host;

fn step(activation: Activation) -> Step {
    match activation {
        Activation::Silu | Activation::Gelu | Activation::Tanh => Step::Smooth,
        _ => Step::Straight,
    }
}

fn weight_shape(spec: &Conv) -> [usize; 4] {
    let [kh, kw] = spec.kernel;
    [spec.outputs, spec.inputs / spec.groups, kh, kw]
}

/// Geometries: kernels, strides, paddings (also wider than the kernel), groups, depthwise, linear.
fn geometries() -> Vec<(Conv, [usize; 3])> {
    let asymmetric = Padding {
        top: 1,
        left: 0,
        bottom: 2,
        right: 1,
    };
    let wide = Padding {
        top: 3,
        left: 1,
        bottom: 0,
        right: 4,
    };
    vec![
        (Conv::square(3, 4, 3).padding(1), [2, 5, 4]),
        (Conv::square(2, 3, 3), [1, 4, 7]),
        (Conv::square(2, 3, 3).stride(2).padding(1), [1, 7, 5]),
        (Conv::square(2, 3, 3).stride(2).padding(1), [2, 6, 7]),
        (Conv::square(2, 3, 3).stride(2), [1, 8, 7]),
        (Conv::square(2, 2, 5).stride(3).padding(2), [1, 8, 10]),
        (Conv::square(2, 2, 4).stride(4), [1, 9, 8]),
        (Conv::square(1, 2, 11).stride(4).padding(2), [1, 12, 15]),
        (Conv::square(3, 2, 1), [2, 3, 4]),
        (Conv::square(3, 2, 1).stride(2), [1, 5, 4]),
        (
            Conv {
                padding: asymmetric,
                ..Conv::square(2, 3, 3)
            },
            [1, 5, 6],
        ),
        (
            Conv {
                padding: asymmetric,
                ..Conv::square(2, 3, 3).stride(2)
            },
            [1, 5, 6],
        ),
        (
            Conv {
                padding: wide,
                ..Conv::square(2, 3, 3)
            },
            [1, 4, 5],
        ),
        (
            Conv {
                padding: wide,
                ..Conv::square(2, 2, 2).stride(2)
            },
            [1, 5, 4],
        ),
        (
            Conv {
                kernel: [1, 7],
                padding: Padding::symmetric(0, 3),
                ..Conv::square(2, 3, 1)
            },
            [1, 3, 8],
        ),
        (
            Conv {
                kernel: [3, 2],
                ..Conv::square(2, 3, 1).stride(2)
            },
            [2, 6, 5],
        ),
        (Conv::square(4, 6, 3).padding(1).groups(2), [1, 4, 5]),
        (
            Conv::square(4, 4, 3).padding(1).stride(2).groups(2),
            [1, 5, 6],
        ),
        (Conv::square(5, 5, 3).padding(1).groups(5), [2, 4, 5]),
        (
            Conv::square(3, 3, 3).padding(1).stride(2).groups(3),
            [1, 7, 6],
        ),
        (Conv::square(3, 6, 3).padding(1).groups(3), [1, 4, 4]),
        // Enough channels and pixels for the fast way of 3×3 windows, back and forth.
        (Conv::square(16, 16, 3).padding(1), [1, 5, 8]),
        // More outputs than a block of the weight gradient, and more channels than two registers.
        (Conv::square(3, 70, 3).stride(2), [1, 5, 5]),
        // The same with sums in registers: strides, groups, linear layers.
        (Conv::square(16, 70, 3).padding(1).stride(2), [1, 5, 4]),
        (Conv::square(32, 6, 3).padding(1).groups(2), [1, 4, 3]),
        (Conv::linear(16, 70), [3, 1, 1]),
        (Conv::square(40, 40, 3).padding(1).groups(40), [1, 3, 4]),
        (Conv::linear(5, 7), [4, 1, 1]),
        (
            Conv {
                kernel: [3, 4],
                ..Conv::square(2, 5, 1)
            },
            [3, 3, 4],
        ),
    ]
}

pub fn input_of_every_geometry(on: &impl Differentiable) {
    for (spec, [n, h, w]) in geometries() {
        let what = format!("{spec:?} on {h}x{w}");
        let weight = coarse("weight", weight_shape(&spec));
        let bias = coarse("bias", [spec.outputs]).data;
        let conv = on.prepare(spec, &weight, &bias).expect(&what);
        check(
            on,
            &what,
            &[coarse("x", [n, spec.inputs, h, w])],
            Step::Straight,
            |x| on.conv(&x[0], &conv, None),
            |x| conv_f64(&x[0], &spec, &weight, &bias, None).0,
        );
    }
}

pub fn input_and_residual_through_every_activation(on: &impl Differentiable) {
    for activation in ACTIVATIONS {
        for spec in [
            Conv::square(3, 4, 3).padding(1),
            Conv::square(2, 3, 3).padding(1).stride(2),
            Conv::square(3, 4, 1),
        ] {
            let spec = spec.activation(activation);
            let what = format!("{spec:?}");
            // Scaled so that a ReLU6 meets values above 6.
            let mut weight = coarse("weight", weight_shape(&spec));
            weight.data.iter_mut().for_each(|w| *w *= 4.0);
            let bias = coarse("bias", [spec.outputs]).data;
            let conv = on.prepare(spec, &weight, &bias).expect(&what);
            let [oh, ow] = spec.output(5, 7).expect("a size");
            let inputs = [
                coarse("x", [2, spec.inputs, 5, 7]),
                coarse("residual", [2, spec.outputs, oh, ow]),
            ];
            check(
                on,
                &what,
                &inputs,
                step(activation),
                |x| on.conv(&x[0], &conv, Some(&x[1])),
                |x| conv_f64(&x[0], &spec, &weight, &bias, Some(&x[1])).0,
            );
        }
    }
}

#[test]
fn weights_and_bias_of_every_geometry() {
    for (spec, [n, h, w]) in geometries() {
        train(spec, [n, h, w], true);
    }
}

#[test]
fn weights_through_every_activation_with_and_without_bias() {
    for activation in ACTIVATIONS {
        let spec = Conv::square(3, 4, 3).padding(1).activation(activation);
        for with_bias in [true, false] {
            train(spec, [2, 4, 5], with_bias);
        }
    }
}

/// Gradients of the input, the weight, the bias and a residual in training.
fn train(spec: Conv, [n, h, w]: [usize; 3], with_bias: bool) {
    let what = format!("{spec:?} on {h}x{w} in training, bias {with_bias}");
    let [oh, ow] = spec.output(h, w).expect("a size");
    let shape = weight_shape(&spec);
    let arrays = [
        coarse("x", [n, spec.inputs, h, w]),
        coarse("weight", shape),
        coarse("residual", [n, spec.outputs, oh, ow]),
        coarse("bias", [1, spec.outputs]),
    ];
    let device = candle_core::Device::Cpu;
    let var = |array: &Array, dims: &[usize]| Var::from_slice(&array.data, dims, &device).unwrap();
    let x = Candle.variable(&arrays[0]).unwrap();
    let weight = var(&arrays[1], &shape);
    let residual = Candle.variable(&arrays[2]).unwrap();
    let bias = var(&arrays[3], &[spec.outputs]);
    let conv = Candle
        .prepare_trainable(spec, &weight, with_bias.then_some(&bias))
        .expect(&what);
    let [tx, tr] = [&x, &residual].map(|v| Tensor::new(v.as_tensor()).unwrap());
    let y = Candle.conv(&tx, &conv, Some(&tr)).expect(&what);
    let (loss, v) = weighted_sum(&Candle, &y);
    let grads = loss.backward().expect("backward");

    let hosts = arrays.each_ref().map(Host::from);
    let plain = |hosts: &[Host]| {
        let weight = array(&hosts[1], shape);
        let bias: Vec<f32> = hosts[3].data.iter().map(|&b| b as f32).collect();
        let bias = if with_bias { &bias[..] } else { &[] };
        dot(
            &conv_f64(&hosts[0], &spec, &weight, bias, Some(&hosts[2])).0,
            &v,
        )
    };
    let flat = |var: &Var| -> Vec<f64> {
        let gradient = grads.get(var.as_tensor()).expect("a gradient");
        let values = gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        values.into_iter().map(f64::from).collect()
    };
    let small = step(spec.activation);
    let expected = difference(&hosts, 0, small, plain);
    assert_gradient(&what, &gradient_of(&grads, &x).data, &expected);
    let expected = difference(&hosts, 2, small, plain);
    assert_gradient(&what, &gradient_of(&grads, &residual).data, &expected);
    if matches!(
        spec.activation,
        Activation::Relu | Activation::Relu6 | Activation::LeakyRelu
    ) {
        // The reference takes f32 weights, which allow no step small enough for a kink; the kinks themselves are
        // tested by the input above and by `input_and_residual_through_every_activation`.
        return;
    }
    let expected = difference(&hosts, 1, Step::Smooth, plain);
    assert_gradient(&format!("{what}: weight"), &flat(&weight), &expected);
    if with_bias {
        let expected = difference(&hosts, 3, Step::Smooth, plain);
        assert_gradient(&format!("{what}: bias"), &flat(&bias), &expected);
    }
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let device = candle_core::Device::Cpu;
    let var = |shape: &[usize]| Var::zeros(shape, candle_core::DType::F32, &device).unwrap();
    let spec = Conv::square(3, 4, 3);
    let right = var(&[4, 3, 3, 3]);
    assert!(Candle.prepare_trainable(spec, &right, None).is_ok());
    let narrow = var(&[4, 2, 3, 3]);
    assert!(Candle.prepare_trainable(spec, &narrow, None).is_err());
    assert!(
        Candle
            .prepare_trainable(spec, &right, Some(&var(&[5])))
            .is_err()
    );
    let double = Var::zeros((4, 3, 3, 3), candle_core::DType::F64, &device).unwrap();
    assert!(Candle.prepare_trainable(spec, &double, None).is_err());
}
