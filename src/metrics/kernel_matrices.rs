//! Kernel matrices of two feature sets kept in memory, for many subsets or bootstrap replicates of the same rows.

use super::kernel_sums::{PolynomialKernel, kernel_matrix};
use super::matrix::Matrix;

/// Row indices of one subset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subset {
    pub real: Vec<usize>,
    pub fake: Vec<usize>,
}

/// Unbiased squared discrepancy from the three sums; diagonals are not in `xx` and `yy`.
pub(crate) fn unbiased(xx: f64, yy: f64, xy: f64, m: usize, k: usize) -> f64 {
    let (m, k) = (m as f64, k as f64);
    xx / (m * (m - 1.0)) + yy / (k * (k - 1.0)) - 2.0 * xy / (m * k)
}

/// k(x, x), k(y, y) and k(x, y) for all rows.
pub(crate) struct KernelMatrices {
    n_real: usize,
    n_fake: usize,
    xx: Vec<f64>,
    yy: Vec<f64>,
    xy: Vec<f64>,
}

impl KernelMatrices {
    pub fn new(real: Matrix<'_>, fake: Matrix<'_>, kernel: &PolynomialKernel) -> Self {
        Self {
            n_real: real.rows(),
            n_fake: fake.rows(),
            xx: kernel_matrix(kernel, real, real),
            yy: kernel_matrix(kernel, fake, fake),
            xy: kernel_matrix(kernel, real, fake),
        }
    }

    /// KID of one subset.
    pub fn distance(&self, subset: &Subset) -> f64 {
        let within = |values: &[f64], n: usize, indices: &[usize]| -> f64 {
            let mut lower = 0.0;
            for (at, &i) in indices.iter().enumerate() {
                let row = &values[i * n..(i + 1) * n];
                lower += indices[..at].iter().map(|&j| row[j]).sum::<f64>();
            }
            2.0 * lower
        };
        let mut cross = 0.0;
        for &i in &subset.real {
            let row = &self.xy[i * self.n_fake..(i + 1) * self.n_fake];
            cross += subset.fake.iter().map(|&j| row[j]).sum::<f64>();
        }
        unbiased(
            within(&self.xx, self.n_real, &subset.real),
            within(&self.yy, self.n_fake, &subset.fake),
            cross,
            subset.real.len(),
            subset.fake.len(),
        )
    }

    /// KID of the rows with multiplicities; pairs of copies of one row are left out.
    pub fn weighted_distance(&self, w: &[u32], v: &[u32]) -> f64 {
        let wide = |counts: &[u32]| -> Vec<f64> { counts.iter().map(|&c| f64::from(c)).collect() };
        let (w, v) = (wide(w), wide(v));
        let within = |values: &[f64], w: &[f64]| -> f64 {
            let (mut sum, mut pairs) = (0.0, 0.0);
            let total: f64 = w.iter().sum();
            for (i, row) in values.chunks_exact(w.len()).enumerate() {
                sum += w[i] * (weighted_sum(row, w) - row[i] * w[i]);
                pairs += w[i] * (total - w[i]);
            }
            sum / pairs
        };
        let rows = self.xy.chunks_exact(self.n_fake).zip(&w);
        let cross: f64 = rows
            .map(|(row, weight)| weight * weighted_sum(row, &v))
            .sum();
        within(&self.xx, &w) + within(&self.yy, &v)
            - 2.0 * cross / (self.n_real as f64 * self.n_fake as f64)
    }
}

/// Σ vᵢwᵢ in eight lanes, joined in a fixed order.
fn weighted_sum(values: &[f64], weights: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (values, values_rest) = values.as_chunks::<LANES>();
    let (weights, weights_rest) = weights.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (v, w) in values.iter().zip(weights) {
        for lane in 0..LANES {
            sums[lane] += v[lane] * w[lane];
        }
    }
    let rest: f64 = values_rest
        .iter()
        .zip(weights_rest)
        .map(|(v, w)| v * w)
        .sum();
    sums.iter().sum::<f64>() + rest
}
