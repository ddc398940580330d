//! What an invertible network does without weights: Haar and cosine transforms, rotations, the order of values.

use candle_core::{Device, Tensor as Values};

use super::{Result, candle};
use crate::stats::random::{Draws, Stream};
use crate::tensor::Array;

/// Half of `++++`, `+-+-`, `++--`, `+--+` over the pixels of a 2×2 block: orthogonal, and its own inverse.
const HAAR: [[f32; 4]; 4] = [
    [0.5, 0.5, 0.5, 0.5],
    [0.5, -0.5, 0.5, -0.5],
    [0.5, 0.5, -0.5, -0.5],
    [0.5, -0.5, -0.5, 0.5],
];

/// 2×2 blocks of pixels into the channels: `[n, h, w, c]` to `[n, h/2, w/2, 4c]`.
pub fn to_depth(x: &Values) -> Result<Values> {
    let (n, h, w, c) = candle(x.dims4())?;
    let run = || {
        x.reshape(&[n, h / 2, 2, w / 2, 2, c])?
            .permute(vec![0, 1, 3, 2, 4, 5])?
            .contiguous()?
            .reshape((n, h / 2, w / 2, 4 * c))
    };
    candle(run())
}

/// Undoes [`to_depth`].
pub fn to_space(x: &Values) -> Result<Values> {
    let (n, h, w, c) = candle(x.dims4())?;
    let run = || {
        x.reshape(&[n, h, w, 2, 2, c / 4])?
            .permute(vec![0, 1, 3, 2, 4, 5])?
            .contiguous()?
            .reshape((n, 2 * h, 2 * w, c / 4))
    };
    candle(run())
}

/// The four coefficients of 2×2 blocks, each of all channels.
pub fn haar(x: &Values) -> Result<Values> {
    let x = to_depth(x)?;
    mixed(&x)
}

/// Undoes [`haar`].
pub fn haar_back(x: &Values) -> Result<Values> {
    to_space(&mixed(x)?)
}

/// The Haar matrix over quarters of the channels.
fn mixed(x: &Values) -> Result<Values> {
    let (n, h, w, c) = candle(x.dims4())?;
    let run = || {
        let matrix = Values::new(&HAAR, &Device::Cpu)?;
        let quarters = x.reshape((n * h * w, 4, c / 4))?;
        matrix
            .broadcast_matmul(&quarters)?
            .reshape((n, h, w, c))?
            .contiguous()
    };
    candle(run())
}

/// Values of a vector in a fixed random order, or back from it.
pub fn ordered(x: &Values, back: bool) -> Result<Values> {
    let d = candle(x.dim(1))?;
    let order = Draws::new(0, Stream::INVERTIBLE_LAYOUT, u64::MAX).permutation(d);
    let mut places = vec![0u32; d];
    for (to, &from) in order.iter().enumerate() {
        if back {
            places[from] = to as u32;
        } else {
            places[to] = from as u32;
        }
    }
    let run = || x.index_select(&Values::from_vec(places, d, &Device::Cpu)?, 1);
    candle(run())
}

/// A random rotation of `n` axes for the block at a place, as the weights of a 1×1 convolution, and its inverse: normal values,
/// made orthogonal one row after the other in f64, with determinant 1.
pub fn rotation(n: usize, place: usize) -> [Array; 2] {
    let mut draws = Draws::new(0, Stream::INVERTIBLE_LAYOUT, place as u64);
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(n);
    while rows.len() < n {
        let mut row: Vec<f64> = (0..n).map(|_| draws.normal()).collect();
        // Twice, because once leaves rounding errors of the size of the parts that cancel.
        for _ in 0..2 {
            for before in &rows {
                let along: f64 = row.iter().zip(before).map(|(a, b)| a * b).sum();
                row.iter_mut()
                    .zip(before)
                    .for_each(|(a, b)| *a -= along * b);
            }
        }
        let length = row.iter().map(|v| v * v).sum::<f64>().sqrt();
        if length > 1e-6 {
            row.iter_mut().for_each(|v| *v /= length);
            rows.push(row);
        }
    }
    if determinant(&rows) < 0.0
        && let Some(last) = rows.last_mut()
    {
        last.iter_mut().for_each(|v| *v = -*v);
    }
    let shape = vec![n, n, 1, 1];
    let array = |value: &dyn Fn(usize, usize) -> f64| Array {
        shape: shape.clone(),
        data: (0..n * n).map(|k| value(k / n, k % n) as f32).collect(),
    };
    [array(&|i, k| rows[i][k]), array(&|i, k| rows[k][i])]
}

/// By elimination with pivots.
fn determinant(rows: &[Vec<f64>]) -> f64 {
    let mut m = rows.to_vec();
    let mut product = 1.0;
    for k in 0..m.len() {
        let size = |i: &usize| m[*i][k].abs();
        let pivot = (k..m.len()).max_by(|a, b| size(a).total_cmp(&size(b)));
        let pivot = pivot.unwrap_or(k);
        if pivot != k {
            m.swap(pivot, k);
            product = -product;
        }
        product *= m[k][k];
        let (done, below) = m.split_at_mut(k + 1);
        for row in below {
            let factor = row[k] / done[k][k];
            row.iter_mut()
                .zip(&done[k])
                .for_each(|(a, b)| *a -= factor * b);
        }
    }
    product
}

/// The cosine transform (DCT-II) of small maps, scaled by `0.5 / (2 (h + 1))`.
pub struct Cosine {
    h: usize,
    w: usize,
    /// `[hw, hw]`.
    forward: Values,
    inverse: Values,
    log_determinant: f64,
}

/// `2 cos(π k (2 i + 1) / 2 n)`; its rows are orthogonal, of squared lengths `4n, 2n, 2n, …`.
fn cosines(n: usize) -> Vec<Vec<f64>> {
    let value = |k: usize, i: usize| {
        2.0 * (std::f64::consts::PI * (k * (2 * i + 1)) as f64 / (2 * n) as f64).cos()
    };
    (0..n)
        .map(|k| (0..n).map(|i| value(k, i)).collect())
        .collect()
}

impl Cosine {
    pub fn new(h: usize, w: usize) -> Result<Self> {
        let (rows, columns) = (cosines(h), cosines(w));
        let scale = 0.5 / (2 * (h + 1)) as f64;
        let squared = |n: usize, k: usize| (if k == 0 { 4 * n } else { 2 * n }) as f64;
        let size = h * w;
        let mut forward = vec![0.0f32; size * size];
        let mut inverse = vec![0.0f32; size * size];
        for k in 0..size {
            for i in 0..size {
                let value = rows[k / w][i / w] * columns[k % w][i % w];
                forward[k * size + i] = (scale * value) as f32;
                let lengths = squared(h, k / w) * squared(w, k % w);
                inverse[i * size + k] = (value / lengths / scale) as f32;
            }
        }
        // |det| of a matrix with orthogonal rows is the product of their lengths.
        let log = (0..size).map(|k| {
            let lengths = squared(h, k / w) * squared(w, k % w);
            scale.ln() + 0.5 * lengths.ln()
        });
        let matrix = |values| candle(Values::from_vec(values, (size, size), &Device::Cpu));
        Ok(Self {
            h,
            w,
            log_determinant: log.sum(),
            forward: matrix(forward)?,
            inverse: matrix(inverse)?,
        })
    }

    /// Of maps with so many channels.
    pub fn log_determinant(&self, channels: usize) -> f64 {
        self.log_determinant * channels as f64
    }

    /// `[n, h, w, c]` to `[n, hwc]`, channels last.
    pub fn forward(&self, x: &Values) -> Result<Values> {
        let (n, h, w, c) = candle(x.dims4())?;
        let run = || {
            let maps = x.reshape((n, h * w, c))?;
            self.forward
                .broadcast_matmul(&maps)?
                .reshape((n, h * w * c))
        };
        candle(run())
    }

    /// Undoes [`Cosine::forward`].
    pub fn inverse(&self, x: &Values) -> Result<Values> {
        let (n, d) = candle(x.dims2())?;
        let size = self.h * self.w;
        let run = || {
            let maps = x.reshape((n, size, d / size))?;
            self.inverse
                .broadcast_matmul(&maps)?
                .reshape((n, self.h, self.w, d / size))
        };
        candle(run())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(shape: &[usize]) -> Values {
        let len: usize = shape.iter().product();
        let mut data = vec![0.0; len];
        Draws::new(5, Stream(9999), 0).fill_normal(&mut data);
        Values::from_vec(data, shape, &Device::Cpu).unwrap()
    }

    fn off(a: &Values, b: &Values) -> f32 {
        let off = (a - b).unwrap().abs().unwrap().flatten_all().unwrap();
        off.max(0).unwrap().to_scalar().unwrap()
    }

    #[test]
    fn fixed_transforms_can_be_undone() {
        let x = values(&[2, 8, 12, 3]);
        assert!(off(&haar_back(&haar(&x).unwrap()).unwrap(), &x) < 1e-6);
        assert_eq!(off(&to_space(&to_depth(&x).unwrap()).unwrap(), &x), 0.0);
        let cosine = Cosine::new(8, 12).unwrap();
        let back = cosine.inverse(&cosine.forward(&x).unwrap()).unwrap();
        assert!(off(&back, &x) < 1e-5);
        let flat = values(&[2, 40]);
        let there = ordered(&flat, false).unwrap();
        assert!(off(&there, &flat) > 0.0);
        assert_eq!(off(&ordered(&there, true).unwrap(), &flat), 0.0);
    }

    #[test]
    fn rotations_are_orthogonal_turn_and_differ() {
        for n in [1, 4, 16] {
            let [there, back] = rotation(n, 3);
            for i in 0..n {
                for k in 0..n {
                    let product: f32 = (0..n)
                        .map(|j| there.data[i * n + j] * back.data[j * n + k])
                        .sum();
                    let expected = if i == k { 1.0 } else { 0.0 };
                    assert!((product - expected).abs() < 1e-6);
                }
            }
            let rows: Vec<Vec<f64>> = { there.data.chunks(n) }
                .map(|row| row.iter().map(|&v| f64::from(v)).collect())
                .collect();
            assert!((determinant(&rows) - 1.0).abs() < 1e-5);
        }
        assert!(rotation(4, 0)[0].data != rotation(4, 1)[0].data);
    }

    /// Entries against the definition of the unnormalised DCT-II over rows and columns.
    #[test]
    fn the_cosine_transform_is_that_of_the_definition() {
        let x = values(&[1, 3, 4, 1]);
        let got = Cosine::new(3, 4).unwrap().forward(&x).unwrap();
        let got: Vec<f32> = got.flatten_all().unwrap().to_vec1().unwrap();
        let x: Vec<f32> = x.flatten_all().unwrap().to_vec1().unwrap();
        for (k, &got) in got.iter().enumerate() {
            let mut sum = 0.0;
            for (i, &v) in x.iter().enumerate() {
                let angle = |k: usize, i: usize, n: usize| {
                    std::f64::consts::PI * k as f64 * (i as f64 + 0.5) / n as f64
                };
                let (row, column) = (angle(k / 4, i / 4, 3), angle(k % 4, i % 4, 4));
                sum += f64::from(v) * 2.0 * row.cos() * 2.0 * column.cos();
            }
            assert!((f64::from(got) - sum / 16.0).abs() < 1e-5);
        }
    }
}
