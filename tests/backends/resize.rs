//! The three bilinear resizes.
//!
//! Tolerance: the originals compute source coordinates in f32, so a coordinate near `size` is off by up to
//! `size · 6e-8`; interpolation of values in [-1, 1) has slopes up to 2. Together with the roundings of the sums:
//! `size · 2.5e-7 + 1e-6`.

use foil::tensor::{Backend, Resize};

use crate::host::{Host, assert_close, assert_equal, down, random, up};

pub const MODES: [Resize; 3] = [Resize::Tf1, Resize::HalfPixel, Resize::Antialias];

/// The weight of every source pixel in every output pixel, along one axis.
fn weights(input: usize, output: usize, mode: Resize) -> Vec<Vec<f64>> {
    let scale = input as f64 / output as f64;
    (0..output)
        .map(|i| {
            let mut row = vec![0.0; input];
            let mut between = |at: f64| {
                let low = (at.floor() as usize).min(input - 1);
                let fraction = (at - low as f64).min(1.0);
                row[low] += 1.0 - fraction;
                row[(low + 1).min(input - 1)] += fraction;
            };
            match mode {
                Resize::Tf1 => between(i as f64 * scale),
                Resize::HalfPixel => between(((i as f64 + 0.5) * scale - 0.5).max(0.0)),
                Resize::Antialias => {
                    let (centre, support) = ((i as f64 + 0.5) * scale, scale.max(1.0));
                    for (j, w) in row.iter_mut().enumerate() {
                        *w = (1.0 - ((j as f64 + 0.5 - centre) / support).abs()).max(0.0);
                    }
                    let total: f64 = row.iter().sum();
                    row.iter_mut().for_each(|w| *w /= total);
                }
            }
            row
        })
        .collect()
}

pub fn resize_f64(x: &Host, h: usize, w: usize, mode: Resize) -> Host {
    let (ys, xs) = (weights(x.h, h, mode), weights(x.w, w, mode));
    Host::build([x.n, x.c, h, w], |n, c, oy, ox| {
        let mut sum = 0.0;
        for (y, wy) in ys[oy].iter().enumerate().filter(|(_, w)| **w != 0.0) {
            for (column, wx) in xs[ox].iter().enumerate().filter(|(_, w)| **w != 0.0) {
                sum += wy * wx * x.at(n, c, y, column);
            }
        }
        sum
    })
}

pub fn three_modes<B: Backend>(b: &B) {
    for (shape, [h, w]) in [
        ([1, 3, 8, 8], [16, 16]),
        ([2, 3, 32, 45], [29, 29]),
        ([7, 1, 5, 9], [13, 4]),
        ([1, 3, 70, 90], [33, 47]),
        ([1, 3, 64, 64], [75, 75]),
        ([2, 17, 4, 4], [1, 1]),
        ([1, 2, 1, 1], [6, 5]),
        ([1, 1, 100, 3], [9, 31]),
    ] {
        let x = random("resize", shape);
        for mode in MODES {
            let got = down(b, &b.resize(&up(b, &x), h, w, mode).unwrap());
            let expected = resize_f64(&Host::from(&x), h, w, mode);
            let size = shape[2].max(shape[3]) as f64;
            let what = format!("{mode:?} of {shape:?} to {h}x{w}");
            assert_close(&what, &got, &expected, |_| size * 2.5e-7 + 1e-6);
        }
    }
}

pub fn equal_sizes_change_nothing<B: Backend>(b: &B) {
    for shape in [[1, 3, 7, 5], [2, 1, 33, 64], [1, 2, 299, 2]] {
        let x = random("identity", shape);
        for mode in MODES {
            let got = down(b, &b.resize(&up(b, &x), shape[2], shape[3], mode).unwrap());
            assert_equal(&format!("{mode:?} of {shape:?}"), &got, &Host::from(&x));
        }
    }
}

pub fn a_flat_image_stays_flat<B: Backend>(b: &B) {
    // Weights sum to one up to rounding: 200 keeps within 3 units in its last place.
    let x = foil::tensor::Array::new([1, 1, 37, 53], vec![200.0; 37 * 53]).unwrap();
    for mode in MODES {
        for [h, w] in [[29, 31], [74, 106], [11, 200]] {
            let got = down(b, &b.resize(&up(b, &x), h, w, mode).unwrap());
            let expected = Host::build([1, 1, h, w], |_, _, _, _| 200.0);
            assert_close(&format!("{mode:?}"), &got, &expected, |_| 5e-5);
        }
    }
}
