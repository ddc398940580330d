//! Norms, attention, the feature distance.

use candle_core::Var;
use foil::tensor::candle::{Candle, Differentiable, Tensor, TrainableNorm};
use foil::tensor::{Activation, Array, Attention, Norm, QkvLayout};

use crate::attention::attention_f64;
use crate::difference::{
    Step, array, assert_gradient, check, coarse, difference, dot, gradient_of, weighted_sum,
};
use crate::distance::distance_f64;
use crate::host::Host;
use crate::norm::{group_f64, layer_f64, modulate_f64};

const EPSILON: f32 = 1e-5;

/// Smooth activations; the ReLUs have their kinks tested elsewhere and share all code but the slope.
const ACTIVATIONS: [Activation; 3] = [Activation::None, Activation::Silu, Activation::Gelu];

fn norm(c: usize) -> Norm {
    Norm {
        weight: coarse("norm weight", [c]).data,
        bias: coarse("norm bias", [c]).data,
        epsilon: EPSILON,
        ..Default::default()
    }
}

pub fn layer_norm(on: &impl Differentiable) {
    for shape in [[1, 5, 3, 2], [2, 17, 1, 3], [3, 8, 1, 1]] {
        let norm = norm(shape[1]);
        check(
            on,
            &format!("layer norm of {shape:?}"),
            &[coarse("x", shape)],
            Step::Smooth,
            |x| on.layer_norm(&x[0], &norm),
            |x| layer_f64(&x[0], &norm),
        );
    }
}

pub fn group_norm_and_its_modulation(on: &impl Differentiable) {
    for (shape, groups) in [([2, 6, 3, 4], 3), ([1, 8, 5, 3], 2), ([2, 4, 3, 3], 4)] {
        let norm = norm(shape[1]);
        for activation in ACTIVATIONS {
            let what = format!("{groups} groups of {shape:?}, {activation:?}");
            let x = coarse("x", shape);
            check(
                on,
                &what,
                std::slice::from_ref(&x),
                Step::Smooth,
                |x| on.group_norm(&x[0], groups, &norm, None, activation),
                |x| group_f64(&x[0], groups, &norm, None, activation),
            );
            let width = [shape[0], 2 * shape[1]];
            check(
                on,
                &format!("{what}, modulated"),
                &[x, coarse("modulation", width)],
                Step::Smooth,
                |x| on.group_norm(&x[0], groups, &norm, Some(&x[1]), activation),
                |x| {
                    let modulation = array(&x[1], width);
                    group_f64(&x[0], groups, &norm, Some(&modulation), activation)
                },
            );
        }
    }
}

pub fn relu_in_a_group_norm(on: &impl Differentiable) {
    let norm = norm(6);
    for activation in [Activation::Relu, Activation::Relu6] {
        check(
            on,
            &format!("{activation:?}"),
            &[coarse("x", [2, 6, 4, 3])],
            Step::Straight,
            |x| on.group_norm(&x[0], 2, &norm, None, activation),
            |x| group_f64(&x[0], 2, &norm, None, activation),
        );
    }
}

pub fn modulation_of_each_image(on: &impl Differentiable) {
    let smooth = [Activation::None, Activation::Silu, Activation::Tanh];
    let straight = [Activation::Relu, Activation::LeakyRelu];
    let steps = smooth
        .map(|a| (a, Step::Smooth))
        .into_iter()
        .chain(straight.map(|a| (a, Step::Straight)));
    for (activation, step) in steps {
        for shape in [[2, 5, 3, 4], [1, 1, 4, 4], [3, 4, 1, 1]] {
            check(
                on,
                &format!("modulated {shape:?}, {activation:?}"),
                &[
                    coarse("x", shape),
                    coarse("modulation", [shape[0], 2 * shape[1]]),
                ],
                step,
                |x| on.modulate(&x[0], &x[1], activation),
                |x| modulate_f64(&x[0], &x[1], activation),
            );
        }
    }
}

pub fn many_pixels_are_summed_in_pieces(on: &impl Differentiable) {
    let norm = norm(2);
    check(
        on,
        "300 pixels",
        &[coarse("x", [1, 2, 20, 15])],
        Step::Smooth,
        |x| on.group_norm(&x[0], 1, &norm, None, Activation::Silu),
        |x| group_f64(&x[0], 1, &norm, None, Activation::Silu),
    );
    let norm = self::norm(7);
    check(
        on,
        "130 pixels",
        &[coarse("x", [1, 7, 13, 10])],
        Step::Smooth,
        |x| on.layer_norm(&x[0], &norm),
        |x| layer_f64(&x[0], &norm),
    );
}

#[test]
fn scale_and_shift_in_training() {
    let (shape, groups) = ([2, 6, 3, 4], 3);
    let arrays = [
        coarse("x", shape),
        coarse("weight", [1, 6]),
        coarse("bias", [1, 6]),
        coarse("modulation", [2, 12]),
    ];
    let hosts = arrays.each_ref().map(Host::from);
    let of = |hosts: &[Host]| Norm {
        weight: array(&hosts[1], [6]).data,
        bias: array(&hosts[2], [6]).data,
        epsilon: EPSILON,
        ..Default::default()
    };
    for (which, activation) in ACTIVATIONS.into_iter().enumerate() {
        for modulated in [false, true] {
            let vars = variables(&arrays);
            let [x, m] = [0, 3].map(|i| Tensor::new(vars[i].as_tensor()).unwrap());
            let norm = TrainableNorm {
                groups,
                weight: &vars[1],
                bias: &vars[2],
                epsilon: EPSILON,
            };
            let y = Candle
                .trainable_group_norm(&x, norm, modulated.then_some(&m), activation)
                .unwrap();
            let used = if modulated { 4 } else { 3 };
            compare("group norm", &vars[..used], &y, &hosts, |hosts| {
                let modulation = array(&hosts[3], [2, 12]);
                let modulation = modulated.then_some(&modulation);
                group_f64(&hosts[0], groups, &of(hosts), modulation, activation)
            });
        }
        if which == 0 {
            let vars = variables(&arrays);
            let x = Tensor::new(vars[0].as_tensor()).unwrap();
            let y = Candle
                .trainable_layer_norm(&x, &vars[1], &vars[2], EPSILON)
                .unwrap();
            compare("layer norm", &vars[..3], &y, &hosts, |hosts| {
                layer_f64(&hosts[0], &of(hosts))
            });
        }
    }
}

/// An image, scale `[c]`, shift `[c]`, modulation `[n, 2c]`.
fn variables(arrays: &[Array; 4]) -> Vec<Var> {
    let device = candle_core::Device::Cpu;
    let plain = |i: usize| Var::from_slice(&arrays[i].data, 6, &device).unwrap();
    vec![
        Candle.variable(&arrays[0]).unwrap(),
        plain(1),
        plain(2),
        Candle.variable(&arrays[3]).unwrap(),
    ]
}

fn compare(what: &str, vars: &[Var], y: &Tensor, hosts: &[Host], plain: impl Fn(&[Host]) -> Host) {
    let (loss, v) = weighted_sum(&Candle, y);
    let grads = loss.backward().unwrap();
    for (which, var) in vars.iter().enumerate() {
        let expected = difference(hosts, which, Step::Smooth, |hosts| dot(&plain(hosts), &v));
        let got = match var.rank() {
            1 => {
                let gradient = grads.get(var.as_tensor()).expect("a gradient");
                let values = gradient.to_vec1::<f32>().unwrap();
                values.into_iter().map(f64::from).collect()
            }
            _ => gradient_of(&grads, var).data,
        };
        assert_gradient(&format!("{what}, argument {which}"), &got, &expected);
    }
}

pub fn attention_with_and_without_bias(on: &impl Differentiable) {
    for (n, tokens, heads, d) in [(1, 5, 1, 3), (2, 4, 2, 2), (3, 3, 2, 4)] {
        for layout in [QkvLayout::Stacked, QkvLayout::PerHead] {
            let attention = Attention { heads, layout };
            let what = format!("{n}x{tokens} tokens, {attention:?} of {d}");
            let width = 3 * heads * d;
            // The device's [n, 1, tokens, 3c] is [n, 3c, 1, tokens] here.
            let qkv = coarse("qkv", [n, width, 1, tokens]);
            let tokens_first = |host: &Host| {
                let nchw = array(host, [n, width, tokens]);
                nchw.permuted(&[0, 2, 1]).expect("three axes")
            };
            check(
                on,
                &what,
                std::slice::from_ref(&qkv),
                Step::Smooth,
                |x| on.attention(&x[0], attention, None),
                |x| attention_f64(&tokens_first(&x[0]), attention, None),
            );
            for windows in [1, 2] {
                // [windows, heads, query, key] with keys as channels.
                let shape = [windows, tokens, heads, tokens];
                check(
                    on,
                    &format!("{what}, {windows} windows"),
                    &[qkv.clone(), coarse("bias", shape)],
                    Step::Smooth,
                    |x| on.attention(&x[0], attention, Some(&x[1])),
                    |x| {
                        let bias = array(&x[1], shape).permuted(&[0, 2, 3, 1]);
                        let bias = bias.expect("four axes");
                        attention_f64(&tokens_first(&x[0]), attention, Some(&bias))
                    },
                );
            }
        }
    }
}

pub fn more_tokens_than_a_block_of_queries(on: &impl Differentiable) {
    let attention = Attention {
        heads: 1,
        layout: QkvLayout::Stacked,
    };
    let tokens = 131;
    check(
        on,
        "131 tokens",
        &[coarse("long", [1, 3, 1, tokens])],
        Step::Smooth,
        |x| on.attention(&x[0], attention, None),
        |x| {
            let nchw = array(&x[0], [1, 3, tokens]);
            let qkv = nchw.permuted(&[0, 2, 1]).expect("three axes");
            attention_f64(&qkv, attention, None)
        },
    );
}

pub fn feature_distance(on: &impl Differentiable) {
    for shape in [[2, 5, 3, 2], [1, 17, 2, 2]] {
        let mut head = coarse("head", [shape[1]]).data;
        head.iter_mut().for_each(|w| *w = w.abs());
        check(
            on,
            &format!("distance of {shape:?}"),
            &[coarse("a", shape), coarse("b", shape)],
            Step::Smooth,
            |x| on.feature_distance(&x[0], &x[1], &head),
            |x| distance_f64(&x[0], &x[1], &head).0,
        );
    }
}

pub fn a_dead_pixel_gets_no_gradient(on: &impl Differentiable) {
    let mut a = coarse("a", [1, 3, 1, 2]);
    for c in 0..3 {
        a.data[2 * c] = 0.0;
    }
    let var = on.variable(&a).unwrap();
    let b = on.upload(&coarse("b", [1, 3, 1, 2])).unwrap();
    let x = Tensor::new(var.as_tensor()).unwrap();
    let map = on.feature_distance(&x, &b, &[1.0; 3]).unwrap();
    let grads = map.candle().sum_all().unwrap().backward().unwrap();
    let got = gradient_of(&grads, &var);
    for c in 0..3 {
        assert_eq!(got.at(0, c, 0, 0), 0.0);
        assert!(got.at(0, c, 0, 1) != 0.0);
    }
}
