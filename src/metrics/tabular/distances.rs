//! How far a counterfactual is from its factual.

use faer::{Mat, Side};

use crate::metrics::{MetricError, Result};
use crate::tabular::{Encoding, Kind};

/// v1 and v2 round both vectors to this many digits before they compare.
const DIGITS: f64 = 10_000.0;

/// What v1 and v2 add to a deviation of 0.
const EPSILON: f64 = 1e-8;

fn rounded(value: f64) -> f64 {
    (value * DIGITS).round_ties_even() / DIGITS
}

/// Share of encoded columns that are equal to four digits.
pub fn sparsity_columns(factual: &[f64], other: &[f64]) -> f64 {
    let each = factual.iter().zip(other);
    let same = each.filter(|(a, b)| rounded(**a) == rounded(**b)).count();
    same as f64 / factual.len() as f64
}

/// Share of features that are equal (to 1e-9 of a standard deviation): a category that changes is one change.
pub fn sparsity_features(encoding: &Encoding, factual: &[f64], other: &[f64]) -> f64 {
    let same = |columns: &&Vec<usize>| {
        columns
            .iter()
            .all(|&c| (factual[c] - other[c]).abs() <= 1e-9)
    };
    let n = encoding.of_feature.len();
    encoding.of_feature.iter().filter(same).count() as f64 / n as f64
}

/// Euclidean distance; `round` as v1 and v2 do.
pub fn l2(factual: &[f64], other: &[f64], round: bool) -> f64 {
    let keep = |v: f64| if round { rounded(v) } else { v };
    let squares = factual
        .iter()
        .zip(other)
        .map(|(a, b)| (keep(*a) - keep(*b)).powi(2));
    squares.sum::<f64>().sqrt()
}

/// v1 and v2: mean over 0/1 columns of \[differs\] + mean over numerical columns of |d| / (MAD + 1e-8).
pub fn madd_columns(encoding: &Encoding, mad: &[f64], factual: &[f64], other: &[f64]) -> f64 {
    let (zero_one, numerical) = (encoding.zero_one(), encoding.numerical());
    let differing = zero_one.iter().filter(|&&c| factual[c] != other[c]).count();
    let moved = |&c: &usize| (factual[c] - other[c]).abs() / (mad[c] + EPSILON);
    mean(differing as f64, zero_one.len())
        + mean(numerical.iter().map(moved).sum(), numerical.len())
}

/// The paper's formula over features; `deviation` is never 0.
pub fn madd_features(
    encoding: &Encoding,
    deviation: &[f64],
    factual: &[f64],
    other: &[f64],
) -> f64 {
    let (mut differing, mut words, mut moved, mut numbers) = (0.0, 0, 0.0, 0);
    for (feature, columns) in encoding.schema.features.iter().zip(&encoding.of_feature) {
        match feature.kind {
            Kind::Numerical => {
                let c = columns[0];
                moved += (factual[c] - other[c]).abs() / deviation[c];
                numbers += 1;
            }
            _ => {
                let differs = columns
                    .iter()
                    .any(|&c| (factual[c] - other[c]).abs() > 1e-9);
                differing += f64::from(u8::from(differs));
                words += 1;
            }
        }
    }
    mean(differing, words) + mean(moved, numbers)
}

fn mean(sum: f64, n: usize) -> f64 {
    if n == 0 { 0.0 } else { sum / n as f64 }
}

/// v1 and v2: √(dᵀ C d), the covariance where its inverse belongs.
pub fn mahalanobis_not_inverted(covariance: &[f64], factual: &[f64], other: &[f64]) -> f64 {
    let d: Vec<f64> = factual.iter().zip(other).map(|(a, b)| b - a).collect();
    quadratic(covariance, &d).max(0.0).sqrt()
}

fn quadratic(matrix: &[f64], d: &[f64]) -> f64 {
    let row = |(row, di): (&[f64], &f64)| di * row.iter().zip(d).map(|(c, dj)| c * dj).sum::<f64>();
    matrix.chunks_exact(d.len().max(1)).zip(d).map(row).sum()
}

/// Mahalanobis distance with the pseudo-inverse of a covariance, which may be singular (one-hot groups always are).
pub struct Mahalanobis {
    inverse: Vec<f64>,
    width: usize,
    /// Rank of the covariance: eigenvalues above 1e-10 of the largest.
    pub rank: usize,
}

impl Mahalanobis {
    /// Eigenvalues below this share of the largest count as 0.
    const CUTOFF: f64 = 1e-10;

    /// From a row-major covariance.
    pub fn new(covariance: &[f64], width: usize) -> Result<Self> {
        let matrix = Mat::from_fn(width, width, |i, j| covariance[i * width + j]);
        let decomposed =
            matrix
                .self_adjoint_eigen(Side::Lower)
                .map_err(|_| MetricError::Shape {
                    what: "Mahalanobis distance".into(),
                    expected: "a covariance whose eigenvalues converge".into(),
                    found: "one whose do not; check the data for huge values".into(),
                })?;
        let (values, vectors) = (decomposed.S(), decomposed.U());
        let largest = (0..width).map(|i| values[i].abs()).fold(0.0, f64::max);
        let kept: Vec<usize> = (0..width)
            .filter(|&i| values[i] > Self::CUTOFF * largest)
            .collect();
        let entry = |at: usize| -> f64 {
            let (i, j) = (at / width, at % width);
            let terms = kept
                .iter()
                .map(|&e| vectors[(i, e)] * vectors[(j, e)] / values[e]);
            terms.sum()
        };
        Ok(Self {
            inverse: (0..width * width).map(entry).collect(),
            width,
            rank: kept.len(),
        })
    }

    /// Distance of two points.
    pub fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        let d: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        quadratic(&self.inverse, &d).max(0.0).sqrt()
    }

    /// True if some direction has no variance: the pseudo-inverse stands in for the inverse.
    pub fn is_singular(&self) -> bool {
        self.rank < self.width
    }
}
