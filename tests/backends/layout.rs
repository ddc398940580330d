//! Windows, patches, views, crops: nothing is computed, so everything is exact.

use foil::tensor::{Array, Backend, Shape};

use crate::host::{Host, assert_equal, down, random, up};

/// Pads to a multiple of `size`, rolls by `shift`, cuts: window by window, row by row, as `[windows, c, 1, size²]`.
pub fn windows_plain(x: &Host, size: usize, shift: [usize; 2]) -> Host {
    let (rows, columns) = (x.h.div_ceil(size), x.w.div_ceil(size));
    let (h, w) = (rows * size, columns * size);
    Host::build(
        [x.n * rows * columns, x.c, 1, size * size],
        |window, c, _, inner| {
            let (n, window) = (window / (rows * columns), window % (rows * columns));
            let y = (window / columns * size + inner / size + shift[0]) % h;
            let column = (window % columns * size + inner % size + shift[1]) % w;
            x.inside(n, c, y as isize, column as isize).unwrap_or(0.0)
        },
    )
}

pub fn windows_and_back<B: Backend>(b: &B) {
    for (shape, size) in [
        ([1, 1, 4, 4], 2),
        ([2, 3, 8, 12], 4),
        ([3, 17, 7, 9], 4),
        ([1, 5, 14, 14], 7),
        ([2, 2, 3, 2], 7),
    ] {
        let x = random("windows", shape);
        for shift in [[0, 0], [size / 2, size / 2], [0, 1], [size - 1, 0]] {
            let what = format!("{shape:?} in windows of {size}, shift {shift:?}");
            let cut = b.windows(&up(b, &x), size, shift);
            let expected = windows_plain(&Host::from(&x), size, shift);
            assert_equal(&what, &down(b, &cut), &expected);
            let back = b.unwindows(&cut, size, shift, shape[2], shape[3]);
            assert_equal(&format!("{what}, back"), &down(b, &back), &Host::from(&x));
        }
    }
}

pub fn windows_of_a_known_image<B: Backend>(b: &B) {
    // 0 1 2      shift (1, 0), padded to 4x4, windows of 2:
    // 3 4 5      rows become 3 4 5 ·, · · · ·, · · · ·, 0 1 2 ·
    let x = Array::new([1, 1, 2, 3], (0..6).map(|v| v as f32 + 1.0).collect()).unwrap();
    let got = down(b, &b.windows(&up(b, &x), 2, [1, 0]));
    assert_eq!([got.n, got.c, got.h, got.w], [2, 1, 1, 4]);
    assert_eq!(got.data, [4.0, 5.0, 1.0, 2.0, 6.0, 0.0, 3.0, 0.0]);
}

pub fn merge_patches<B: Backend>(b: &B) {
    for shape in [[1, 1, 2, 2], [2, 3, 6, 4], [3, 17, 5, 7], [1, 4, 1, 1]] {
        let x = random("patches", shape);
        let host = Host::from(&x);
        let got = down(b, &b.merge_patches(&up(b, &x)));
        let c = shape[1];
        let expected = Host::build(
            [shape[0], 4 * c, host.h.div_ceil(2), host.w.div_ceil(2)],
            |n, k, y, column| {
                // Down the first column of the block, then down the second.
                let (dy, dx) = (k / c % 2, k / c / 2);
                let (y, column) = ((2 * y + dy) as isize, (2 * column + dx) as isize);
                host.inside(n, k % c, y, column).unwrap_or(0.0)
            },
        );
        assert_equal(&format!("patches of {shape:?}"), &got, &expected);
    }
}

pub fn view_keeps_rows_in_order<B: Backend>(b: &B) {
    // Tokens of a grid: [n, h, w, c] seen as [n, 1, h·w, c], and pixels of a batch as one batch of vectors.
    let x = random("view", [2, 5, 3, 4]);
    let host = Host::from(&x);
    let tensor = up(b, &x);
    let tokens = down(b, &b.view(&tensor, Shape::new(2, 1, 12, 5)).unwrap());
    let expected = Host::build([2, 5, 1, 12], |n, c, _, t| host.at(n, c, t / 4, t % 4));
    assert_equal("tokens", &tokens, &expected);
    let vectors = b.view(&tensor, Shape::new(24, 1, 1, 5)).unwrap();
    let expected = Host::build([24, 5, 1, 1], |i, c, _, _| {
        host.at(i / 12, c, i % 12 / 4, i % 4)
    });
    assert_equal("vectors", &down(b, &vectors), &expected);
    // Flattening is by pixel, then channel.
    let flat = b.view(&tensor, Shape::new(2, 1, 1, 60)).unwrap();
    let expected = Host::build([2, 60, 1, 1], |n, i, _, _| {
        host.at(n, i % 5, i / 20, i / 5 % 4)
    });
    assert_equal("flat", &down(b, &flat), &expected);
    // A view of one image of a batch starts at that image.
    let second = b.select(&tensor, 1);
    let view = b.view(&second, Shape::new(1, 1, 12, 5)).unwrap();
    let expected = Host::build([1, 5, 1, 12], |_, c, _, t| host.at(1, c, t / 4, t % 4));
    assert_equal("view of a selection", &down(b, &view), &expected);
}

pub fn upsample_repeats_pixels<B: Backend>(b: &B) {
    for shape in [[1, 1, 1, 1], [2, 3, 4, 5], [3, 17, 5, 2]] {
        let x = random("upsample", shape);
        let host = Host::from(&x);
        for factor in [1, 2, 3, 5] {
            let got = down(b, &b.upsample(&up(b, &x), factor).unwrap());
            let expected = Host::build(
                [host.n, host.c, host.h * factor, host.w * factor],
                |n, c, y, column| host.at(n, c, y / factor, column / factor),
            );
            assert_equal(&format!("{shape:?} times {factor}"), &got, &expected);
        }
    }
    let x = up(b, &random("x", [1, 2, 3, 4]));
    assert!(b.upsample(&x, 0).is_err());
    assert!(b.upsample(&x, usize::MAX).is_err());
}

pub fn crop<B: Backend>(b: &B) {
    let x = random("crop", [3, 5, 7, 9]);
    let host = Host::from(&x);
    for [top, left, h, w] in [[0, 0, 7, 9], [2, 3, 4, 5], [6, 8, 1, 1], [0, 4, 7, 2]] {
        let got = down(b, &b.crop(&up(b, &x), top, left, h, w).unwrap());
        let expected = Host::build([3, 5, h, w], |n, c, y, column| {
            host.at(n, c, top + y, left + column)
        });
        assert_equal(&format!("crop {h}x{w} at {top},{left}"), &got, &expected);
    }
}
