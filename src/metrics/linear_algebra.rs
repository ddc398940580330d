//! The few dense `f64` routines that the set metrics share, on top of `faer`.
//!
//! Every routine cuts its work into pieces of a fixed size, or asks `faer` for a fixed number of tasks, so that the
//! result has the same bits for any number of threads.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt_pivoting::factor as pivoted_cholesky;
use faer::linalg::matmul::matmul;
use faer::linalg::svd;
use faer::{Accum, Mat, MatMut, MatRef, Par, Spec};
use rayon::prelude::*;

use super::error::{MetricError, Result};

/// Rows of a result that one task computes.
const PANEL_ROWS: usize = 64;

/// Tasks that `faer` splits a decomposition into, whatever the number of threads.
const DECOMPOSITION_TASKS: usize = 8;

/// Whether a decomposition may use all threads, or runs inside a task that is already one of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// Stay on the calling thread.
    One,
    /// Use the rayon pool.
    All,
}

impl Threads {
    fn par(self) -> Par {
        match self {
            Threads::One => Par::Seq,
            Threads::All => Par::rayon(DECOMPOSITION_TASKS),
        }
    }
}

/// `a` bᵀ for row-major `a` [m, d] and `b` [n, d]; the result is row-major [m, n].
pub fn product_with_transpose(a: &[f64], b: &[f64], d: usize) -> Vec<f64> {
    let (m, n) = (a.len() / d, b.len() / d);
    let mut out = vec![0.0; m * n];
    if out.is_empty() {
        return out;
    }
    let right = MatRef::from_row_major_slice(b, n, d).transpose();
    out.par_chunks_mut(PANEL_ROWS * n)
        .zip(a.par_chunks(PANEL_ROWS * d))
        .for_each(|(out, a)| {
            let rows = a.len() / d;
            matmul(
                MatMut::from_row_major_slice_mut(out, rows, n),
                Accum::Replace,
                MatRef::from_row_major_slice(a, rows, d),
                right,
                1.0,
                Par::Seq,
            );
        });
    out
}

/// Adds bᵀ`b` to the lower triangle of the row-major `d` × `d` matrix `sum`, for row-major `b` [k, d].
///
/// Elements above the diagonal inside the diagonal panels are also touched; call [`mirror_lower`] at the end.
pub fn add_gram_to_lower(sum: &mut [f64], b: &[f64], d: usize) {
    let k = b.len() / d;
    let rows = MatRef::from_row_major_slice(b, k, d);
    sum.par_chunks_mut(PANEL_ROWS * d)
        .enumerate()
        .with_max_len(1)
        .for_each(|(panel, out)| {
            let first = panel * PANEL_ROWS;
            let height = out.len() / d;
            let width = first + height;
            matmul(
                MatMut::from_row_major_slice_mut(out, height, d).subcols_mut(0, width),
                Accum::Add,
                rows.subcols(first, height).transpose(),
                rows.subcols(0, width),
                1.0,
                Par::Seq,
            );
        });
}

/// Copies the lower triangle of a row-major `d` × `d` matrix to the upper one.
pub fn mirror_lower(matrix: &mut [f64], d: usize) {
    for i in 0..d {
        for j in 0..i {
            matrix[j * d + i] = matrix[i * d + j];
        }
    }
}

/// Sum of the singular values of a row-major [m, n] matrix.
pub fn nuclear_norm(what: &str, data: &[f64], m: usize, n: usize, threads: Threads) -> Result<f64> {
    if m == 0 || n == 0 {
        return Ok(0.0);
    }
    // Finite input that overflowed in a product would send the iteration into NaN.
    if data.iter().any(|v| !v.is_finite()) {
        return Err(numeric(
            what,
            "the product of the two sets overflows; scale the features down",
        ));
    }
    let mut values = faer::diag::Diag::<f64>::zeros(m.min(n));
    let no = svd::ComputeSvdVectors::No;
    let par = threads.par();
    let mut memory = MemBuffer::new(svd::svd_scratch::<f64>(m, n, no, no, par, Spec::default()));
    svd::svd(
        MatRef::from_row_major_slice(data, m, n),
        values.as_mut(),
        None,
        None,
        par,
        MemStack::new(&mut memory),
        Spec::default(),
    )
    .map_err(|e| numeric(what, &format!("singular values did not converge ({e:?})")))?;
    // Ascending order: small terms first.
    Ok(values.column_vector().iter().rev().sum())
}

/// A factor F [rank, d] (row-major) of a symmetric positive semi-definite `s` = FᵀF, by Cholesky with full pivoting
/// (Higham 1990), which stops at the numerical rank: pivots below d·ε·max(diag) count as zero.
pub fn semidefinite_factor(what: &str, s: &[f64], d: usize) -> Result<Vec<f64>> {
    if s.iter().any(|v| !v.is_finite()) {
        return Err(numeric(what, "the covariance is not finite"));
    }
    if (0..d).all(|i| s[i * d + i] == 0.0) {
        return Ok(Vec::new());
    }
    let mut lower: Mat<f64> = MatRef::from_row_major_slice(s, d, d).to_owned();
    let par = Threads::All.par();
    let (mut forward, mut inverse) = (vec![0usize; d], vec![0usize; d]);
    let mut memory = MemBuffer::new(pivoted_cholesky::cholesky_in_place_scratch::<usize, f64>(
        d,
        par,
        Spec::default(),
    ));
    let (info, _) = pivoted_cholesky::cholesky_in_place(
        lower.as_mut(),
        &mut forward,
        &mut inverse,
        par,
        MemStack::new(&mut memory),
        Spec::default(),
    )
    .map_err(|_| {
        numeric(
            what,
            "the covariance has a negative or non-finite diagonal entry",
        )
    })?;
    let rank = info.rank;
    let mut factor = vec![0.0; rank * d];
    for (k, row) in factor.chunks_exact_mut(d).enumerate() {
        let column = lower.col(k);
        for i in k..d {
            row[forward[i]] = column[i];
        }
    }
    Ok(factor)
}

fn numeric(what: &str, detail: &str) -> MetricError {
    MetricError::Numeric {
        what: what.to_owned(),
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Draws, Stream};

    fn normals(n: usize, index: u64) -> Vec<f64> {
        let mut draws = Draws::new(11, Stream::BOOTSTRAP, index);
        (0..n).map(|_| draws.normal()).collect()
    }

    fn gram(b: &[f64], d: usize) -> Vec<f64> {
        let mut sum = vec![0.0; d * d];
        add_gram_to_lower(&mut sum, b, d);
        mirror_lower(&mut sum, d);
        sum
    }

    #[test]
    fn gram_equals_the_plain_triple_loop() {
        let (k, d) = (37, 130);
        let b = normals(k * d, 0);
        let sum = gram(&b, d);
        for i in 0..d {
            for j in 0..d {
                let plain: f64 = (0..k).map(|r| b[r * d + i] * b[r * d + j]).sum();
                assert!((sum[i * d + j] - plain).abs() < 1e-12, "{i} {j}");
            }
        }
    }

    #[test]
    fn semidefinite_factor_multiplies_back_and_finds_the_rank() {
        let (k, d) = (20, 150);
        let s = gram(&normals(k * d, 1), d);
        let factor = semidefinite_factor("test", &s, d).unwrap();
        assert_eq!(factor.len() / d, k);
        for (a, b) in gram(&factor, d).iter().zip(&s) {
            assert!((a - b).abs() < 1e-10, "{a} {b}");
        }
        assert!(
            semidefinite_factor("test", &[0.0; 9], 3)
                .unwrap()
                .is_empty()
        );
        assert!(semidefinite_factor("test", &[1.0, 0.0, 0.0, -1.0], 2).is_err());
    }

    #[test]
    fn nuclear_norm_of_a_scaled_rotation_is_known() {
        let (c, s) = (0.6, 0.8);
        let matrix = [2.0 * c, -3.0 * s, 2.0 * s, 3.0 * c];
        let norm = nuclear_norm("test", &matrix, 2, 2, Threads::One).unwrap();
        assert!((norm - 5.0).abs() < 1e-14, "{norm}");
    }

    #[test]
    fn results_have_the_same_bits_on_any_number_of_threads() {
        let (m, n, d) = (300, 260, 280);
        let (a, b) = (normals(m * d, 2), normals(n * d, 3));
        let run = || {
            let product = product_with_transpose(&a, &b, d);
            let norm = nuclear_norm("test", &product, m, n, Threads::All).unwrap();
            (product, norm, semidefinite_factor("t", &gram(&a, d), d))
        };
        let reference = run();
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            assert!(pool.install(run) == reference, "{threads} threads");
        }
    }
}
