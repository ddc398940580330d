//! The LPIPS head: unit-normalise, square the difference, weigh, in one pass over both feature maps.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::simd::{FlushDenormals, for_each_isa};
use super::tensor::Tensor;
use crate::{TensorError, rules};

/// `ε` of the unit scaling `x/(‖x‖ + ε)` in the `lpips` package.
const EPSILON: f32 = 1e-10;

/// The map of weighted squared differences, one value per pixel.
pub fn map(a: &Tensor, b: &Tensor, head: &[f32]) -> Result<Tensor, TensorError> {
    let out = rules::feature_distance(a.shape(), b.shape(), head)?;
    let (c, row) = (head.len(), out.w);
    let mut data = Buffer::take(out.len());
    data.par_chunks_mut(row.max(1))
        .enumerate()
        .for_each(|(y, line)| {
            let _flush = FlushDenormals::on();
            let range = y * row * c..(y + 1) * row * c;
            row_distances(line, &a.data()[range.clone()], &b.data()[range], head);
        });
    Ok(Tensor::new(out, data))
}

/// The mean of each image's map, summed in f64 in the order of the pixels.
pub fn mean(a: &Tensor, b: &Tensor, head: &[f32]) -> Result<Vec<f64>, TensorError> {
    let map = map(a, b, head)?;
    let pixels = map.shape().image();
    Ok((0..map.shape().n)
        .map(|n| map.image(n).iter().map(|&v| f64::from(v)).sum::<f64>() / pixels as f64)
        .collect())
}

for_each_isa! {
    fn row_distances(line: &mut [f32], a: &[f32], b: &[f32], head: &[f32]) {
        let c = head.len();
        for ((value, a), b) in line.iter_mut().zip(a.chunks_exact(c)).zip(b.chunks_exact(c)) {
            let (ia, ib) = (1.0 / (norm(a) + EPSILON), 1.0 / (norm(b) + EPSILON));
            let mut sums = [0.0f32; 8];
            let (mut i, whole) = (0, c - c % 8);
            while i < whole {
                for l in 0..8 {
                    let difference = a[i + l] * ia - b[i + l] * ib;
                    sums[l] += head[i + l] * (difference * difference);
                }
                i += 8;
            }
            let mut total: f32 = sums.iter().sum();
            for i in whole..c {
                let difference = a[i] * ia - b[i] * ib;
                total += head[i] * (difference * difference);
            }
            *value = total;
        }
    }
}

/// Euclidean length of a channel vector.
#[inline(always)]
fn norm(x: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let chunks = x.chunks_exact(8);
    let rest: f32 = chunks.remainder().iter().map(|v| v * v).sum();
    for chunk in chunks {
        for (s, v) in sums.iter_mut().zip(chunk) {
            *s += v * v;
        }
    }
    (sums.iter().sum::<f32>() + rest).sqrt()
}
