//! Layer and group norms.
//!
//! Tolerance: statistics are promised in f64; what is left are a handful of f32 roundings of values of size
//! `|x − μ|/σ · |weight| + |bias|` ≤ 6 here: 3e-6.

use foil::tensor::{Activation, Array, Backend, Norm};

use crate::conv::ACTIVATIONS;
use crate::elementwise::activation_f64;
use crate::host::{Host, assert_close, down, random, random_values, up};

const EPSILON: f32 = 1e-5;

fn norm(channels: usize) -> Norm {
    Norm {
        weight: random_values("norm weight", channels),
        bias: random_values("norm bias", channels),
        epsilon: EPSILON,
        ..Default::default()
    }
}

/// Mean and `1/√(variance + ε)`.
fn statistics(values: &[f64], epsilon: f32) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    (mean, 1.0 / (variance + f64::from(epsilon)).sqrt())
}

pub fn layer_f64(x: &Host, norm: &Norm) -> Host {
    Host::build([x.n, x.c, x.h, x.w], |n, c, y, column| {
        let pixel: Vec<f64> = (0..x.c).map(|k| x.at(n, k, y, column)).collect();
        let (mean, inverse) = statistics(&pixel, norm.epsilon);
        (pixel[c] - mean) * inverse * f64::from(norm.weight[c]) + f64::from(norm.bias[c])
    })
}

pub fn group_f64(
    x: &Host,
    groups: usize,
    norm: &Norm,
    modulation: Option<&Array>,
    activation: Activation,
) -> Host {
    let per_group = x.c / groups;
    let mut all = Vec::new();
    for n in 0..x.n {
        for g in 0..groups {
            let first = (n * x.c + g * per_group) * x.h * x.w;
            let values = &x.data[first..first + per_group * x.h * x.w];
            all.push(statistics(values, norm.epsilon));
        }
    }
    Host::build([x.n, x.c, x.h, x.w], |n, c, y, column| {
        let (mean, inverse) = all[n * groups + c / per_group];
        let mut v = (x.at(n, c, y, column) - mean) * inverse * f64::from(norm.weight[c])
            + f64::from(norm.bias[c]);
        if let Some(m) = modulation {
            let m = m.row(n);
            v = v * (1.0 + f64::from(m[c])) + f64::from(m[x.c + c]);
        }
        activation_f64(activation, v)
    })
}

pub fn layer_norm<B: Backend>(b: &B) {
    for shape in [[1, 3, 4, 5], [2, 17, 3, 3], [7, 64, 1, 6], [2, 96, 1, 1]] {
        let x = random("layer", shape);
        let norm = norm(shape[1]);
        let got = down(b, &b.layer_norm(&up(b, &x), &norm).unwrap());
        let expected = layer_f64(&Host::from(&x), &norm);
        assert_close(&format!("layer norm of {shape:?}"), &got, &expected, |_| {
            3e-6
        });
    }
}

pub fn group_norm<B: Backend>(b: &B) {
    for (shape, groups) in [
        ([1, 4, 5, 6], 2),
        ([2, 64, 4, 4], 32),
        ([3, 17, 3, 5], 17),
        ([7, 6, 8, 3], 1),
    ] {
        let x = random("group", shape);
        let norm = norm(shape[1]);
        let modulation = random("modulation", [shape[0], 2 * shape[1]]);
        for activation in ACTIVATIONS {
            for modulation in [None, Some(&modulation)] {
                let given = modulation.map(|m| up(b, m));
                let got = b
                    .group_norm(&up(b, &x), groups, &norm, given.as_ref(), activation)
                    .unwrap();
                let expected = group_f64(&Host::from(&x), groups, &norm, modulation, activation);
                let what = format!("{groups} groups of {shape:?}, {activation:?}");
                // The modulation may double a value.
                assert_close(&what, &down(b, &got), &expected, |_| 6e-6);
            }
        }
    }
}

/// `activation(x · scale + shift)`.
pub fn modulate_f64(x: &Host, modulation: &Host, activation: Activation) -> Host {
    Host::build([x.n, x.c, x.h, x.w], |n, c, y, column| {
        let [scale, shift] = [c, x.c + c].map(|c| modulation.at(n, c, 0, 0));
        activation_f64(activation, x.at(n, c, y, column) * scale + shift)
    })
}

pub fn modulation_of_each_image<B: Backend>(b: &B) {
    for shape in [[1, 1, 4, 4], [3, 5, 3, 2], [2, 32, 8, 8], [7, 19, 1, 1]] {
        let x = random("modulated", shape);
        let modulation = random("modulation", [shape[0], 2 * shape[1]]);
        for activation in ACTIVATIONS {
            let got = b.modulate(&up(b, &x), &up(b, &modulation), activation);
            let expected = modulate_f64(&Host::from(&x), &Host::from(&modulation), activation);
            let what = format!("modulated {shape:?}, {activation:?}");
            // A product and a sum of size 1, each rounded once, and the activation.
            assert_close(&what, &down(b, &got.unwrap()), &expected, |_| 5e-7);
        }
    }
}

pub fn norms_survive_a_large_offset<B: Backend>(b: &B) {
    // Mean 1000, deviation 0.6: a one-pass variance in f32 would be noise. The input itself is rounded to 6e-5, so
    // each result may move by 6e-5 / 0.6 · |weight| per rounding of a value of that size; two are allowed.
    let mut x = random("offset", [2, 32, 4, 4]);
    x.data.iter_mut().for_each(|v| *v += 1000.0);
    let norm = norm(32);
    let host = Host::from(&x);
    let got = down(b, &b.layer_norm(&up(b, &x), &norm).unwrap());
    assert_close("layer norm", &got, &layer_f64(&host, &norm), |_| 2e-4);
    let got = b
        .group_norm(&up(b, &x), 8, &norm, None, Activation::None)
        .unwrap();
    let expected = group_f64(&host, 8, &norm, None, Activation::None);
    assert_close("group norm", &down(b, &got), &expected, |_| 2e-4);
}
