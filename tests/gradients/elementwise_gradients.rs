//! Sums, activations, affine maps, log softmax.

use foil::tensor::Activation;
use foil::tensor::candle::Differentiable;

use crate::conv::ACTIVATIONS;
use crate::difference::{Step, check, coarse};
use crate::elementwise::activation_f64;
use crate::host::Host;

pub fn add_with_broadcasting(on: &impl Differentiable) {
    let shape = [3, 4, 2, 5];
    for other in [shape, [1, 4, 2, 5], [3, 4, 1, 1], [1, 4, 1, 1]] {
        check(
            on,
            &format!("add {other:?}"),
            &[coarse("a", shape), coarse("b", other)],
            Step::Straight,
            |x| on.add(&x[0], &x[1]),
            |x| {
                let (a, b) = (&x[0], &x[1]);
                Host::build(shape, |n, c, y, k| {
                    let (y_b, k_b) = if b.h * b.w == 1 { (0, 0) } else { (y, k) };
                    a.at(n, c, y, k) + b.at(n.min(b.n - 1), c, y_b, k_b)
                })
            },
        );
    }
}

pub fn activations(on: &impl Differentiable) {
    let mut x = coarse("activations", [2, 3, 5, 7]);
    // Into the tails, and past 6.
    x.data.iter_mut().for_each(|v| *v *= 8.0);
    for activation in ACTIVATIONS {
        if activation == Activation::None {
            continue;
        }
        let step = match activation {
            Activation::Silu | Activation::Gelu | Activation::Tanh => Step::Smooth,
            _ => Step::Straight,
        };
        check(
            on,
            &format!("{activation:?}"),
            std::slice::from_ref(&x),
            step,
            |x| Ok(on.activate(&x[0], activation)),
            |x| x[0].map(|v| activation_f64(activation, v)),
        );
    }
}

pub fn affine_with_dropped_and_repeated_channels(on: &impl Differentiable) {
    let order = vec![2, 0, 2, 2, 1];
    let scale = coarse("scale", [5]).data;
    let shift = coarse("shift", [5]).data;
    check(
        on,
        "affine",
        &[coarse("x", [2, 4, 3, 2])],
        Step::Straight,
        |x| on.affine(&x[0], &order, &scale, &shift),
        |x| {
            Host::build([2, 5, 3, 2], |n, c, y, k| {
                x[0].at(n, order[c], y, k) * f64::from(scale[c]) + f64::from(shift[c])
            })
        },
    );
}

pub fn log_softmax(on: &impl Differentiable) {
    check(
        on,
        "log softmax",
        &[coarse("logits", [3, 7])],
        Step::Smooth,
        |x| on.log_softmax(&x[0]),
        |x| {
            let x = &x[0];
            Host::build([x.n, x.c, 1, 1], |n, c, _, _| {
                let total: f64 = (0..x.c).map(|k| x.at(n, k, 0, 0).exp()).sum();
                x.at(n, c, 0, 0) - total.ln()
            })
        },
    );
}
