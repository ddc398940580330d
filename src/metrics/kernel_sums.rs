//! Polynomial kernel values between rows of two feature sets, and their sums.
//!
//! k(x, y) = (γ x·y + c)^p with products and sums in `f64`. Sums are taken over fixed tiles, joined in order, so that
//! memory stays small and the result has the same bits for any number of threads.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use serde::Serialize;

use super::error::{MetricError, Result};
use super::matrix::Matrix;

const TILE_ROWS: usize = 128;
const TILE_COLS: usize = 512;

/// The kernel of the published KID: degree 3, γ = 1/d, c = 1 (Bińkowski et al. 2018).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PolynomialKernel {
    pub degree: u32,
    /// `None` means 1/d.
    pub gamma: Option<f64>,
    pub coef: f64,
}

impl Default for PolynomialKernel {
    fn default() -> Self {
        Self {
            degree: 3,
            gamma: None,
            coef: 1.0,
        }
    }
}

impl PolynomialKernel {
    pub(crate) fn check(&self) -> Result<()> {
        let finite = self.coef.is_finite() && self.gamma.is_none_or(f64::is_finite);
        if finite && (1..=64).contains(&self.degree) {
            return Ok(());
        }
        Err(MetricError::Parameter {
            name: "polynomial kernel",
            expected: "a degree of 1 to 64 with finite gamma and coef".to_owned(),
            found: format!("{self:?}"),
        })
    }

    fn apply(&self, products: &mut [f64], d: usize) {
        let gamma = self.gamma.unwrap_or(1.0 / d as f64);
        let degree = self.degree as i32;
        for value in products {
            *value = (*value * gamma + self.coef).powi(degree);
        }
    }
}

/// Chosen rows of a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen<'a> {
    pub set: Matrix<'a>,
    pub indices: &'a [usize],
}

impl Chosen<'_> {
    fn gather(&self, start: usize, end: usize) -> Vec<f64> {
        let mut out = Vec::with_capacity((end - start) * self.set.cols());
        for &i in &self.indices[start..end] {
            out.extend(self.set.row(i).iter().map(|&v| f64::from(v)));
        }
        out
    }
}

/// Σᵢ Σⱼ k(xᵢ, yⱼ).
pub(crate) fn cross_sum(kernel: &PolynomialKernel, x: Chosen<'_>, y: Chosen<'_>) -> f64 {
    sum_of_panels(x.indices.len(), |start, end| {
        let rows = x.gather(start, end);
        let n = y.indices.len();
        let mut sum = 0.0;
        for first in (0..n).step_by(TILE_COLS) {
            let tile = kernel_tile(
                kernel,
                &rows,
                &y.gather(first, (first + TILE_COLS).min(n)),
                x,
            );
            sum += tile.iter().sum::<f64>();
        }
        sum
    })
}

/// Σ_{i≠j} k(xᵢ, xⱼ), by the lower triangle.
pub(crate) fn within_sum(kernel: &PolynomialKernel, x: Chosen<'_>) -> f64 {
    let lower = sum_of_panels(x.indices.len(), |start, end| {
        let rows = x.gather(start, end);
        let mut sum = 0.0;
        for first in (0..end).step_by(TILE_COLS) {
            let last = (first + TILE_COLS).min(end);
            let tile = kernel_tile(kernel, &rows, &x.gather(first, last), x);
            for (i, row) in tile.chunks_exact(last - first).enumerate() {
                let below_diagonal = (start + i).saturating_sub(first).min(row.len());
                sum += row[..below_diagonal].iter().sum::<f64>();
            }
        }
        sum
    });
    2.0 * lower
}

/// All kernel values, row-major [x.rows, y.rows].
pub(crate) fn kernel_matrix(kernel: &PolynomialKernel, x: Matrix<'_>, y: Matrix<'_>) -> Vec<f64> {
    let d = x.cols();
    let wide = |m: Matrix<'_>| -> Vec<f64> { m.data().iter().map(|&v| f64::from(v)).collect() };
    let mut out = super::linear_algebra::product_with_transpose(&wide(x), &wide(y), d);
    out.par_chunks_mut(1 << 14)
        .for_each(|part| kernel.apply(part, d));
    out
}

fn kernel_tile(kernel: &PolynomialKernel, a: &[f64], b: &[f64], x: Chosen<'_>) -> Vec<f64> {
    let d = x.set.cols();
    let (m, n) = (a.len() / d, b.len() / d);
    let mut tile = vec![0.0; m * n];
    matmul(
        MatMut::from_row_major_slice_mut(&mut tile, m, n),
        Accum::Replace,
        MatRef::from_row_major_slice(a, m, d),
        MatRef::from_row_major_slice(b, n, d).transpose(),
        1.0,
        Par::Seq,
    );
    kernel.apply(&mut tile, d);
    tile
}

fn sum_of_panels(rows: usize, panel_sum: impl Fn(usize, usize) -> f64 + Sync) -> f64 {
    let panels: Vec<f64> = (0..rows.div_ceil(TILE_ROWS))
        .into_par_iter()
        .with_max_len(1)
        .map(|p| panel_sum(p * TILE_ROWS, ((p + 1) * TILE_ROWS).min(rows)))
        .collect();
    panels.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Draws, Stream};

    #[test]
    fn tiled_sums_equal_the_sums_of_the_full_matrix() {
        let (n, m, d) = (300, 700, 5);
        let mut draws = Draws::new(1, Stream::BOOTSTRAP, 0);
        let mut set =
            |rows: usize| -> Vec<f32> { (0..rows * d).map(|_| draws.normal() as f32).collect() };
        let (x, y) = (set(n), set(m));
        let x = Matrix::new("x", n, d, &x).unwrap();
        let y = Matrix::new("y", m, d, &y).unwrap();
        let (xi, yi): (Vec<usize>, Vec<usize>) = ((0..n).collect(), (0..m).collect());
        let kernel = PolynomialKernel::default();
        let x_all = Chosen {
            set: x,
            indices: &xi,
        };
        let y_all = Chosen {
            set: y,
            indices: &yi,
        };
        let cross: f64 = kernel_matrix(&kernel, x, y).iter().sum();
        assert!((cross_sum(&kernel, x_all, y_all) - cross).abs() < 1e-10 * cross);
        let full = kernel_matrix(&kernel, y, y);
        let within: f64 = (0..m * m)
            .filter(|at| at / m != at % m)
            .map(|at| full[at])
            .sum();
        assert!((within_sum(&kernel, y_all) - within).abs() < 1e-10 * within);
    }
}
