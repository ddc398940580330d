//! Tensors that are used more than once: gradients of all uses add up.

use foil::tensor::candle::{Differentiable, Tensor};
use foil::tensor::{Activation, Conv, Part};

use crate::conv::conv_f64;
use crate::difference::{Step, check, coarse};
use crate::elementwise::activation_f64;
use crate::host::Host;

pub fn a_residual_block_with_its_own_input_as_skip(on: &impl Differentiable) {
    let spec = Conv::square(3, 3, 3).padding(1);
    let weight = coarse("weight", [3, 3, 3, 3]);
    let conv = on.prepare(spec, &weight, &[]).unwrap();
    check(
        on,
        "x + conv(silu(x))",
        &[coarse("x", [2, 3, 4, 5])],
        Step::Smooth,
        |x| {
            let h = on.activate(&x[0], Activation::Silu);
            on.conv(&h, &conv, Some(&x[0]))
        },
        |x| {
            let h = x[0].map(|v| activation_f64(Activation::Silu, v));
            conv_f64(&h, &spec, &weight, &[], Some(&x[0])).0
        },
    );
}

pub fn a_skip_connection_around_an_upsampled_tensor(on: &impl Differentiable) {
    // Both orders of the two uses: an overwritten gradient would show in one of them.
    for first in [true, false] {
        check(
            on,
            "upsample and crop of one tensor",
            &[coarse("x", [1, 2, 3, 4])],
            Step::Smooth,
            |x| {
                let square = on.activate(&x[0], Activation::Silu);
                let large = on.upsample(&square, 2)?;
                let small = on.crop(&large, 0, 0, 3, 4)?;
                let parts = [Part::Tensor(&square), Part::Tensor(&small)];
                if first {
                    on.concat(&parts)
                } else {
                    let [a, b] = parts;
                    on.concat(&[b, a])
                }
            },
            |x| {
                let square = x[0].map(|v| activation_f64(Activation::Silu, v));
                Host::build([1, 4, 3, 4], |n, c, y, k| {
                    if (c < 2) == first {
                        square.at(n, c % 2, y, k)
                    } else {
                        square.at(n, c % 2, y / 2, k / 2)
                    }
                })
            },
        );
    }
}

pub fn a_tensor_added_to_itself(on: &impl Differentiable) {
    check(
        on,
        "x + x",
        &[coarse("x", [2, 3, 2, 2])],
        Step::Straight,
        |x| on.add(&x[0], &x[0]),
        |x| x[0].map(|v| 2.0 * v),
    );
}

pub fn images_that_enter_as_nchw_and_leave_as_nchw(on: &impl Differentiable) {
    let x =
        candle_core::Var::from_slice(&coarse("x", [2, 3, 4, 5]).data, (2, 3, 4, 5), &on.device())
            .unwrap();
    let activation = Tensor::from_nchw(x.as_tensor()).unwrap();
    assert_eq!(on.download(&activation).unwrap(), coarse("x", [2, 3, 4, 5]));
    let back = activation.to_nchw().unwrap();
    let weights = coarse("v", [2, 3, 4, 5]);
    let v = candle_core::Tensor::from_slice(&weights.data, (2, 3, 4, 5), back.device()).unwrap();
    let grads = (back * v).unwrap().sum_all().unwrap().backward().unwrap();
    let got = grads.get(x.as_tensor()).unwrap().flatten_all().unwrap();
    assert_eq!(got.to_vec1::<f32>().unwrap(), weights.data);
}
