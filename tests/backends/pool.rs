//! Pooling.
//!
//! Maxima are exact. Means of up to 121 values in f32 are within 2e-6 of the largest value in magnitude (1 here);
//! adaptive means are promised in f64 and rounded once: 1.2e-7.

use foil::tensor::{Backend, Pool, PoolKind};

use crate::host::{Host, assert_close, assert_equal, down, random, up};

/// Rows (or columns) of the output by torch's rule.
fn length(size: usize, pool: &Pool) -> usize {
    let span = size + 2 * pool.padding - pool.kernel;
    if !pool.ceil {
        return span / pool.stride + 1;
    }
    let n = span.div_ceil(pool.stride) + 1;
    // The last window must start inside the input or its left padding.
    if (n - 1) * pool.stride >= size + pool.padding {
        n - 1
    } else {
        n
    }
}

/// Pooling by torch's definition.
pub fn pool_f64(x: &Host, pool: Pool) -> Host {
    let (h, w) = (length(x.h, &pool), length(x.w, &pool));
    // Where window `i` starts and ends: with padding, but without what ceil mode adds beyond it.
    let window = |i: usize, size: usize| {
        let start = (i * pool.stride) as isize - pool.padding as isize;
        let end = (start + pool.kernel as isize).min((size + pool.padding) as isize);
        (start, end)
    };
    Host::build([x.n, x.c, h, w], |n, c, oy, ox| {
        let ((top, bottom), (left, right)) = (window(oy, x.h), window(ox, x.w));
        let mut inside = Vec::new();
        for y in top..bottom {
            for column in left..right {
                inside.extend(x.inside(n, c, y, column));
            }
        }
        match pool.kind {
            PoolKind::Max => inside.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            PoolKind::Mean { count_padding } => {
                let all = ((bottom - top) * (right - left)) as f64;
                let count = if count_padding {
                    all
                } else {
                    inside.len() as f64
                };
                inside.iter().sum::<f64>() / count
            }
        }
    })
}

fn check<B: Backend>(b: &B, pool: Pool, shape: [usize; 4]) {
    let x = random("pool", shape);
    let got = down(b, &b.pool(&up(b, &x), pool).unwrap());
    let expected = pool_f64(&Host::from(&x), pool);
    let what = format!("{pool:?} of {shape:?}");
    match pool.kind {
        PoolKind::Max => assert_equal(&what, &got, &expected),
        PoolKind::Mean { .. } => assert_close(&what, &got, &expected, |_| 2e-6),
    }
}

/// Kernel, stride, padding.
const GEOMETRIES: [[usize; 3]; 9] = [
    [1, 1, 0],
    [2, 2, 0],
    [3, 1, 1],
    [3, 2, 0],
    [3, 2, 1],
    [5, 3, 2],
    [2, 3, 0],
    [8, 1, 0],
    [1, 2, 0],
];

const SHAPES: [[usize; 4]; 4] = [[1, 1, 8, 8], [2, 3, 9, 11], [3, 17, 13, 8], [7, 64, 10, 9]];

fn geometry([kernel, stride, padding]: [usize; 3], kind: PoolKind) -> Pool {
    Pool {
        kind,
        ..Pool::max(kernel, stride).padding(padding)
    }
}

pub fn max<B: Backend>(b: &B) {
    for g in GEOMETRIES {
        for shape in SHAPES {
            check(b, geometry(g, PoolKind::Max), shape);
        }
    }
}

pub fn mean<B: Backend>(b: &B) {
    for g in GEOMETRIES {
        for shape in SHAPES {
            for count_padding in [true, false] {
                check(b, geometry(g, PoolKind::Mean { count_padding }), shape);
            }
        }
    }
}

pub fn ceil_mode<B: Backend>(b: &B) {
    for g in GEOMETRIES {
        for h in 8..14 {
            for kind in [
                PoolKind::Max,
                PoolKind::Mean {
                    count_padding: true,
                },
                PoolKind::Mean {
                    count_padding: false,
                },
            ] {
                check(b, geometry(g, kind).ceil(), [2, 5, h, 21 - h]);
            }
        }
    }
}

pub fn max_keeps_nan<B: Backend>(b: &B) {
    let mut x = random("nan", [1, 9, 6, 6]);
    x.data[2 * 36 + 7] = f32::NAN;
    let got = down(b, &b.pool(&up(b, &x), Pool::max(2, 2)).unwrap());
    for (i, v) in got.data.iter().enumerate() {
        assert_eq!(v.is_nan(), i == 2 * 9, "value {i} is {v}");
    }
}

pub fn adaptive_mean<B: Backend>(b: &B) {
    for (shape, [rows, columns]) in [
        ([2, 3, 6, 6], [6, 6]),
        ([2, 17, 13, 9], [6, 6]),
        ([3, 5, 7, 7], [1, 1]),
        ([1, 64, 5, 8], [7, 3]),
        ([7, 1, 3, 4], [2, 5]),
    ] {
        let x = random("adaptive", shape);
        let got = b.adaptive_mean(&up(b, &x), rows, columns).unwrap();
        let host = Host::from(&x);
        let cell = |i: usize, cells: usize, size: usize| {
            let start = (i as f64 * size as f64 / cells as f64).floor() as usize;
            let end = ((i + 1) as f64 * size as f64 / cells as f64).ceil() as usize;
            start..end
        };
        let expected = Host::build([shape[0], shape[1], rows, columns], |n, c, oy, ox| {
            let (ys, xs) = (cell(oy, rows, host.h), cell(ox, columns, host.w));
            let count = (ys.len() * xs.len()) as f64;
            let sum: f64 = ys
                .flat_map(|y| xs.clone().map(move |x| (y, x)))
                .map(|(y, x)| host.at(n, c, y, x))
                .sum();
            sum / count
        });
        let what = format!("{shape:?} to {rows}x{columns}");
        assert_close(&what, &down(b, &got), &expected, |_| 1.2e-7);
    }
}

pub fn global_mean<B: Backend>(b: &B) {
    for shape in [[1, 1, 1, 1], [2, 3, 5, 7], [7, 33, 8, 8]] {
        let x = random("global", shape);
        let got = down(b, &b.global_mean(&up(b, &x)));
        let host = Host::from(&x);
        let pixels = host.h * host.w;
        let expected = Host::build([host.n, host.c, 1, 1], |n, c, _, _| {
            let first = (n * host.c + c) * pixels;
            host.data[first..first + pixels].iter().sum::<f64>() / pixels as f64
        });
        assert_close("global mean", &got, &expected, |_| 1.2e-7);
    }
}
