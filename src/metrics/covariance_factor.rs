//! A factor F of a covariance Σ = FᵀF, by the cheaper of two routes.
//!
//! With n ≤ d rows the centred rows divided by √(n−1) are such a factor (n × d); with more rows the pivoted Cholesky factor
//! of Σ (rank × d) is smaller. Both are exact up to rounding, and need no square root of eigenvalues that are only noise.

use super::error::Result;
use super::linear_algebra::semidefinite_factor;
use super::matrix::Matrix;
use super::moments::{Moments, column_means};

/// Mean, trace of the covariance and a factor of the covariance.
#[derive(Debug, Clone)]
pub(crate) struct CovarianceFactor {
    pub mean: Vec<f64>,
    pub trace: f64,
    /// Row-major [k, d].
    pub factor: Vec<f64>,
    pub from_rows: bool,
}

impl CovarianceFactor {
    /// Chooses the route by shape alone: rows when n ≤ d, covariance otherwise.
    pub fn of_features(
        what: &str,
        features: Matrix<'_>,
        moments: &impl Fn(&str, Matrix<'_>) -> Result<Moments>,
    ) -> Result<Self> {
        if features.rows() <= features.cols() {
            return Self::of_rows(what, features);
        }
        Self::of_moments(what, &moments(what, features)?)
    }

    /// Centred rows / √(n−1).
    pub fn of_rows(what: &str, features: Matrix<'_>) -> Result<Self> {
        features.check_finite(what)?;
        let d = features.cols();
        let mut factor: Vec<f64> = features.data().iter().map(|&v| f64::from(v)).collect();
        let mean = column_means(&factor, d);
        let scale = 1.0 / ((features.rows().max(2) - 1) as f64).sqrt();
        for row in factor.chunks_exact_mut(d) {
            for (value, mean) in row.iter_mut().zip(&mean) {
                *value = (*value - mean) * scale;
            }
        }
        Ok(Self {
            trace: factor.iter().map(|v| v * v).sum(),
            mean,
            factor,
            from_rows: true,
        })
    }

    /// Pivoted Cholesky factor of the covariance.
    pub fn of_moments(what: &str, moments: &Moments) -> Result<Self> {
        Self::of_covariance(what, moments.mean(), &moments.covariance(what)?)
    }

    /// Pivoted Cholesky factor of a given row-major covariance [d, d].
    pub fn of_covariance(what: &str, mean: &[f64], covariance: &[f64]) -> Result<Self> {
        let d = mean.len();
        Ok(Self {
            trace: (0..d).map(|i| covariance[i * d + i]).sum(),
            factor: semidefinite_factor(what, covariance, d)?,
            mean: mean.to_vec(),
            from_rows: false,
        })
    }

    /// Number of features.
    pub fn dims(&self) -> usize {
        self.mean.len()
    }

    /// Number of rows of the factor.
    pub fn rank(&self) -> usize {
        self.factor.len() / self.dims().max(1)
    }
}
