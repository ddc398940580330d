//! Operations that move pixels.

use foil::tensor::candle::{Differentiable, Tensor};
use foil::tensor::{Array, Conv, Part, Pool, Shape, TensorError};

use crate::conv::conv_f64;
use crate::difference::{Step, check, coarse};
use crate::host::Host;
use crate::layout::windows_plain;
use crate::pool::pool_f64;

fn linear(
    on: &impl Differentiable,
    what: &str,
    inputs: &[Array],
    device: impl Fn(&[Tensor]) -> Result<Tensor, TensorError>,
    plain: impl Fn(&[Host]) -> Host,
) {
    check(on, what, inputs, Step::Straight, device, plain);
}

pub fn windows_and_back(on: &impl Differentiable) {
    for (shape, size) in [([2, 3, 4, 6], 2), ([1, 2, 5, 3], 4), ([1, 2, 3, 2], 3)] {
        for shift in [[0, 0], [1, 2 % size]] {
            let what = format!("{shape:?} in windows of {size}, shift {shift:?}");
            linear(
                on,
                &what,
                &[coarse("x", shape)],
                |x| Ok(on.windows(&x[0], size, shift)),
                |x| windows_plain(&x[0], size, shift),
            );
            let [n, c, h, w] = shape;
            let windows = n * h.div_ceil(size) * w.div_ceil(size);
            // Where pixel (y, x) of image n lies among the windows.
            let numbers = Host::build([n, 1, h, w], |n, _, y, x| (1 + (n * h + y) * w + x) as f64);
            let places = windows_plain(&numbers, size, shift);
            linear(
                on,
                &format!("{what}, back"),
                &[coarse("windows", [windows, c, 1, size * size])],
                |x| Ok(on.unwindows(&x[0], size, shift, h, w)),
                |x| {
                    let mut back = Host::zeros(n, c, h, w);
                    for (i, &place) in places.data.iter().enumerate() {
                        if place == 0.0 {
                            continue;
                        }
                        let pixel = place as usize - 1;
                        let (window, inner) = (i / (size * size), i % (size * size));
                        for k in 0..c {
                            *back.at_mut(pixel / (h * w), k, pixel / w % h, pixel % w) =
                                x[0].at(window, k, 0, inner);
                        }
                    }
                    back
                },
            );
        }
    }
}

pub fn patches_of_odd_sides(on: &impl Differentiable) {
    for shape in [[1, 2, 4, 6], [2, 3, 5, 3]] {
        let [n, c, h, w] = shape;
        linear(
            on,
            "merge patches",
            &[coarse("x", shape)],
            |x| Ok(on.merge_patches(&x[0])),
            |x| {
                Host::build(
                    [n, 4 * c, h.div_ceil(2), w.div_ceil(2)],
                    |n, k, y, column| {
                        let (dy, dx) = (k / c % 2, k / c / 2);
                        let (y, column) = ((2 * y + dy) as isize, (2 * column + dx) as isize);
                        x[0].inside(n, k % c, y, column).unwrap_or(0.0)
                    },
                )
            },
        );
    }
}

pub fn upsample(on: &impl Differentiable) {
    for factor in [1, 2, 3] {
        linear(
            on,
            "upsample",
            &[coarse("x", [2, 3, 3, 4])],
            |x| on.upsample(&x[0], factor),
            |x| {
                Host::build([2, 3, 3 * factor, 4 * factor], |n, c, y, k| {
                    x[0].at(n, c, y / factor, k / factor)
                })
            },
        );
    }
}

pub fn crop_view_select_and_stack(on: &impl Differentiable) {
    let x = coarse("x", [3, 2, 4, 5]);
    linear(
        on,
        "crop",
        std::slice::from_ref(&x),
        |x| on.crop(&x[0], 1, 2, 3, 2),
        |x| Host::build([3, 2, 3, 2], |n, c, y, k| x[0].at(n, c, 1 + y, 2 + k)),
    );
    linear(
        on,
        "view",
        std::slice::from_ref(&x),
        |x| on.view(&x[0], Shape::new(3, 1, 20, 2)),
        |x| Host::build([3, 2, 1, 20], |n, c, _, t| x[0].at(n, c, t / 5, t % 5)),
    );
    // A crop drops pixels, a selection images: what is not used has no gradient at all.
    linear(
        on,
        "select",
        std::slice::from_ref(&x),
        |x| Ok(on.select(&x[0], 1)),
        |x| Host::build([1, 2, 4, 5], |_, c, y, k| x[0].at(1, c, y, k)),
    );
    linear(
        on,
        "stack",
        &[x, coarse("y", [1, 2, 4, 5])],
        |x| on.stack(&[x[0].clone(), x[1].clone(), x[0].clone()]),
        |x| {
            Host::build([7, 2, 4, 5], |n, c, y, k| match n {
                0..3 => x[0].at(n, c, y, k),
                3 => x[1].at(0, c, y, k),
                _ => x[0].at(n - 4, c, y, k),
            })
        },
    );
}

pub fn concat_of_tensors_convolutions_and_pools(on: &impl Differentiable) {
    let spec = Conv::square(3, 4, 3).padding(1);
    let weight = coarse("weight", [4, 3, 3, 3]);
    let conv = on.prepare(spec, &weight, &[]).unwrap();
    let pool = Pool::mean(3, 1).padding(1);
    linear(
        on,
        "concat",
        &[coarse("x", [2, 3, 4, 5]), coarse("y", [2, 2, 4, 5])],
        |x| {
            on.concat(&[
                Part::Conv(&x[0], &conv),
                Part::Tensor(&x[1]),
                Part::Pool(&x[0], pool),
                Part::Tensor(&x[0]),
            ])
        },
        |x| {
            let (convolved, _) = conv_f64(&x[0], &spec, &weight, &[], None);
            let pooled = pool_f64(&x[0], pool);
            Host::build([2, 12, 4, 5], |n, c, y, k| match c {
                0..4 => convolved.at(n, c, y, k),
                4..6 => x[1].at(n, c - 4, y, k),
                6..9 => pooled.at(n, c - 6, y, k),
                _ => x[0].at(n, c - 9, y, k),
            })
        },
    );
}
