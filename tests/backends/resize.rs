//! The three bilinear resizes, and the resize of pixels.
//!
//! Tolerance: the originals compute source coordinates in f32, so a coordinate near `size` is off by up to
//! `size · 6e-8`; interpolation of values in [-1, 1) has slopes up to 2. Together with the roundings of the sums:
//! `size · 2.5e-7 + 1e-6`.

use foil::images::{self, Filter, Image, Window};
use foil::tensor::{Along, Backend, FixedTaps, PixelPass, Resize};

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

/// Pixels of which half are black or white: cubic filters overshoot at their edges and are clipped.
pub fn picture(name: &str, height: usize, width: usize) -> Image {
    let values = crate::host::random_values(name, height * width * 3);
    let pixel = |v: &f32| ((v * 2.0).clamp(-1.0, 1.0) * 127.5 + 127.5) as u8;
    Image {
        width,
        height,
        pixels: values.iter().map(pixel).collect(),
    }
}

/// Pillow's resize and torchvision's crop, bit for bit: as the host does them, which golden images check.
pub fn pixels_as_the_host_resizes_them<B: Backend>(b: &B) {
    for (n, [h, w], [height, width], crop) in [
        (1, [37, 29], [16, 13], [16, 13]),
        (7, [20, 33], [41, 50], [32, 32]),
        (2, [64, 9], [8, 9], [7, 5]),
        (2, [9, 64], [9, 8], [9, 8]),
        (3, [70, 90], [32, 41], [28, 28]),
        (1, [5, 7], [5, 7], [3, 4]),
        (2, [1, 3], [4, 1], [4, 1]),
    ] {
        let pictures: Vec<Image> = (0..n).map(|i| picture(&format!("{i}"), h, w)).collect();
        let pixels: Vec<&[u8]> = pictures.iter().map(|p| &p.pixels[..]).collect();
        let uploaded = b.upload_pixels(&pixels, h, w).unwrap();
        for filter in Filter::ALL {
            let window = Window::middle([height, width], crop).unwrap();
            let mut x = uploaded.clone();
            for pass in images::passes([h, w], [height, width], filter, window) {
                x = b.resize_pixels(&x, &pass).unwrap();
            }
            let got = down(b, &x);
            let expected: Vec<Image> = pictures
                .iter()
                .map(|p| images::resize(p, width, height, filter))
                .map(|p| images::center_crop(&p, crop[1], crop[0]).unwrap())
                .collect();
            let expected = Host::build([n, 3, crop[0], crop[1]], |n, c, y, x| {
                f64::from(expected[n].pixels[(y * crop[1] + x) * 3 + c])
            });
            let what = format!("{filter} of {n} of {h}x{w} to {height}x{width}, {crop:?}");
            assert_equal(&what, &got, &expected);
        }
    }
}

pub fn pixel_passes_that_leave_the_image_are_refused<B: Backend>(b: &B) {
    let image = picture("refused", 4, 5);
    let x = b.upload_pixels(&[&image.pixels], 4, 5).unwrap();
    for (along, first) in [
        (Along::Height, 3),
        (Along::Width, 4),
        (Along::Width, usize::MAX),
    ] {
        let taps = vec![FixedTaps {
            first,
            weights: vec![1, 1],
        }];
        let error = b.resize_pixels(&x, &PixelPass { along, taps });
        let message = error.err().expect("a tap outside").to_string();
        assert!(message.contains("resize of pixels"), "{message}");
    }
}

pub fn pixels_are_looked_up_in_a_table<B: Backend>(b: &B) {
    let table: [f32; 256] = std::array::from_fn(|i| ((i * 7 + 3) % 256) as f32 - 0.5);
    let image = picture("table", 13, 31);
    let pixels = [&image.pixels[..], &image.pixels];
    let x = b.upload_pixels(&pixels, 13, 31).unwrap();
    let got = down(b, &b.look_up(&x, &table).unwrap());
    let expected = Host::build([2, 3, 13, 31], |_, c, y, x| {
        f64::from(table[usize::from(image.pixels[(y * 31 + x) * 3 + c])])
    });
    assert_equal("looked up", &got, &expected);
    // What is no pixel counts as the nearest that is one.
    let odd = foil::tensor::Array::new([1, 4], vec![-3.0, 300.0, 255.0, 0.0]).unwrap();
    let got = down(b, &b.look_up(&up(b, &odd), &table).unwrap());
    let expected = [table[0], table[255], table[255], table[0]].map(f64::from);
    assert_eq!(got.data, expected);
}
