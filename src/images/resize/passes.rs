//! The two passes of resizing: along rows, then along columns. Each sums 8-bit samples times fixed-point weights in
//! 32-bit integers, so the result does not depend on the number of threads.

use rayon::prelude::*;

use super::weights::{PRECISION, Weights};
use crate::images::Image;

/// Fewer multiplications than this are not worth waking other threads for.
const PARALLEL_WORK: usize = 1 << 18;

const HALF: i32 = 1 << (PRECISION - 1);

/// `image` at another width.
pub fn horizontal(image: &Image, width: usize, weights: &Weights) -> Image {
    let mut pixels = vec![0; width * image.height * 3];
    let row = |(out, source): (&mut [u8], &[u8])| {
        for (x, pixel) in out.chunks_exact_mut(3).enumerate() {
            let (first, weights) = weights.of(x);
            let mut sums = [HALF; 3];
            let source = source[first * 3..].as_chunks::<3>().0;
            for (&weight, sample) in weights.iter().zip(source) {
                for (sum, &value) in sums.iter_mut().zip(sample) {
                    *sum = sum.wrapping_add(i32::from(value).wrapping_mul(weight));
                }
            }
            pixel.copy_from_slice(&sums.map(clip));
        }
    };
    let (out_row, in_row) = (width * 3, image.width * 3);
    if work(&pixels, weights) < PARALLEL_WORK {
        pixels
            .chunks_exact_mut(out_row)
            .zip(image.pixels.chunks_exact(in_row))
            .for_each(row);
    } else {
        pixels
            .par_chunks_exact_mut(out_row)
            .zip(image.pixels.par_chunks_exact(in_row))
            .for_each(row);
    }
    Image {
        width,
        height: image.height,
        pixels,
    }
}

/// `image` at another height.
pub fn vertical(image: &Image, height: usize, weights: &Weights) -> Image {
    let row_size = image.width * 3;
    let mut pixels = vec![0; row_size * height];
    let row = |sums: &mut Vec<i32>, (y, out): (usize, &mut [u8])| {
        sums.clear();
        sums.resize(row_size, HALF);
        let (first, weights) = weights.of(y);
        let source = image.pixels[first * row_size..].chunks_exact(row_size);
        for (&weight, source) in weights.iter().zip(source) {
            for (sum, &value) in sums.iter_mut().zip(source) {
                *sum = sum.wrapping_add(i32::from(value).wrapping_mul(weight));
            }
        }
        for (value, &sum) in out.iter_mut().zip(sums.iter()) {
            *value = clip(sum);
        }
    };
    if work(&pixels, weights) < PARALLEL_WORK {
        let mut sums = Vec::new();
        pixels
            .chunks_exact_mut(row_size)
            .enumerate()
            .for_each(|out| row(&mut sums, out));
    } else {
        pixels
            .par_chunks_exact_mut(row_size)
            .enumerate()
            .for_each_init(Vec::new, row);
    }
    Image {
        width: image.width,
        height,
        pixels,
    }
}

/// About how many multiplications a pass takes.
fn work(out: &[u8], weights: &Weights) -> usize {
    out.len() * weights.of(0).1.len()
}

/// A sum as a sample.
fn clip(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}
