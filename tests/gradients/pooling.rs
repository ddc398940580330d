//! Pools, means over grids, resizes.

use candle_core::Var;
use foil::tensor::candle::{Differentiable, Tensor};
use foil::tensor::{Array, Pool, PoolKind};

use crate::difference::{Step, check, coarse, gradient_of};
use crate::host::Host;
use crate::pool::pool_f64;
use crate::resize::{MODES, resize_f64};

/// Kernel, stride, padding; kernels differ from strides on both sides.
const GEOMETRIES: [[usize; 3]; 7] = [
    [2, 2, 0],
    [3, 1, 1],
    [3, 2, 0],
    [3, 2, 1],
    [5, 3, 2],
    [2, 3, 0],
    [1, 2, 0],
];

pub fn pools_of_every_kind(on: &impl Differentiable) {
    let kinds = [
        PoolKind::Max,
        PoolKind::Mean {
            count_padding: true,
        },
        PoolKind::Mean {
            count_padding: false,
        },
    ];
    for [kernel, stride, padding] in GEOMETRIES {
        for kind in kinds {
            for ceil in [false, true] {
                let pool = Pool {
                    kind,
                    kernel,
                    stride,
                    padding,
                    ceil,
                };
                for [h, w] in [[7, 5], [6, 8]] {
                    check(
                        on,
                        &format!("{pool:?} of {h}x{w}"),
                        &[coarse("pool", [2, 3, h, w])],
                        Step::Straight,
                        |x| on.pool(&x[0], pool),
                        |x| pool_f64(&x[0], pool),
                    );
                }
            }
        }
    }
}

pub fn a_band_of_rows_ends_inside_a_window(on: &impl Differentiable) {
    let pool = Pool::max(3, 2).padding(1);
    check(
        on,
        "a tall image",
        &[coarse("tall", [1, 2, 37, 3])],
        Step::Straight,
        |x| on.pool(&x[0], pool),
        |x| pool_f64(&x[0], pool),
    );
}

/// The gradient of the sum of a pool.
fn of_sum(on: &impl Differentiable, x: &Array, pool: Pool) -> Host {
    let var: Var = on.variable(x).unwrap();
    let y = on
        .pool(&Tensor::new(var.as_tensor()).unwrap(), pool)
        .unwrap();
    let grads = y.candle().sum_all().unwrap().backward().unwrap();
    gradient_of(&grads, &var)
}

pub fn the_first_of_equal_maxima_gets_the_whole_gradient(on: &impl Differentiable) {
    // torch's rule: the first maximum in reading order. Here all values are equal.
    let x = Array::new([1, 1, 4, 4], vec![0.5; 16]).unwrap();
    let got = of_sum(on, &x, Pool::max(2, 2));
    let expected = [
        1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ];
    assert_eq!(got.data, expected);
    // Overlapping windows: the pixel that two of them see first gets both.
    let x = Array::new([1, 1, 1, 5], vec![0.0, 1.0, 1.0, 1.0, 0.0]).unwrap();
    let pool = Pool::max(1, 1);
    assert_eq!(of_sum(on, &x, pool).data, [1.0; 5]);
    let x = Array::new(
        [1, 1, 3, 3],
        vec![0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0],
    )
    .unwrap();
    let got = of_sum(on, &x, Pool::max(2, 1));
    assert_eq!(got.data, [0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
}

pub fn a_window_of_minus_infinity_has_a_first_maximum_too(on: &impl Differentiable) {
    let x = Array::new([1, 1, 2, 2], vec![f32::NEG_INFINITY; 4]).unwrap();
    assert_eq!(of_sum(on, &x, Pool::max(2, 2)).data, [1.0, 0.0, 0.0, 0.0]);
}

pub fn means_over_grids(on: &impl Differentiable) {
    for (shape, [rows, columns]) in [
        ([2, 3, 5, 7], [1, 1]),
        ([1, 2, 6, 4], [6, 4]),
        ([1, 2, 7, 5], [3, 4]),
        ([1, 1, 2, 3], [4, 5]),
    ] {
        let cell = |i: usize, cells: usize, size: usize| {
            i * size / cells..((i + 1) * size).div_ceil(cells)
        };
        let plain = |x: &[Host]| {
            let x = &x[0];
            Host::build([x.n, x.c, rows, columns], |n, c, oy, ox| {
                let (ys, xs) = (cell(oy, rows, x.h), cell(ox, columns, x.w));
                let count = (ys.len() * xs.len()) as f64;
                let pixels = ys.flat_map(|y| xs.clone().map(move |x| (y, x)));
                pixels.map(|(y, k)| x.at(n, c, y, k)).sum::<f64>() / count
            })
        };
        let inputs = [coarse("grid", shape)];
        check(
            on,
            &format!("{shape:?} to {rows}x{columns}"),
            &inputs,
            Step::Straight,
            |x| on.adaptive_mean(&x[0], rows, columns),
            plain,
        );
        if [rows, columns] == [1, 1] {
            check(
                on,
                "global mean",
                &inputs,
                Step::Straight,
                |x| Ok(on.global_mean(&x[0])),
                plain,
            );
        }
    }
}

pub fn resizes(on: &impl Differentiable) {
    for (shape, [h, w]) in [
        ([1, 2, 5, 7], [8, 10]),
        ([2, 1, 8, 6], [3, 4]),
        ([1, 2, 4, 4], [7, 3]),
        ([1, 1, 1, 1], [3, 2]),
    ] {
        for mode in MODES {
            check(
                on,
                &format!("{mode:?} of {shape:?} to {h}x{w}"),
                &[coarse("resize", shape)],
                Step::Straight,
                |x| on.resize(&x[0], h, w, mode),
                |x| resize_f64(&x[0], h, w, mode),
            );
        }
    }
}
