//! Inception score: exp of the mean divergence of class probabilities from their average (Salimans et al. 2016).
//!
//! IS = exp( mean_i Σ_c p_ic (ln p_ic − ln p̄_c) ), per chunk of the (permuted) rows, then mean and sample standard deviation
//! over chunks. A chunk has ⌈n/splits⌉ rows, so the number of chunks can be below `splits` (42 rows, 10 splits: 9 chunks).
//! Softmax and sums in `f64`. Agrees with torchmetrics 1.9 to 1e-6.

use serde::Serialize;

use crate::stats::interval::mean_interval;
use crate::stats::random::{Draws, Stream};

use super::error::{MetricError, Result};
use super::matrix::Matrix;

/// In which order rows are dealt to chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order<'a> {
    /// A random order from this seed.
    Seed(u64),
    /// This order; every row once.
    Given(&'a [usize]),
}

/// The score over chunks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InceptionScore {
    pub mean: f64,
    /// `None` for one chunk.
    pub std_sample: Option<f64>,
    pub per_chunk: Vec<f64>,
    pub chunk_sizes: Vec<usize>,
}

/// The published number of splits.
pub const DEFAULT_SPLITS: usize = 10;

/// Inception score of `logits` [n, classes].
pub fn inception_score(
    logits: Matrix<'_>,
    splits: usize,
    order: Order<'_>,
) -> Result<InceptionScore> {
    logits.check_rows("the Inception score", "images", 1)?;
    logits.check_finite("logits for the Inception score")?;
    let n = logits.rows();
    if splits == 0 {
        return Err(MetricError::Parameter {
            name: "splits",
            expected: "at least 1".to_owned(),
            found: "0".to_owned(),
        });
    }
    let order = match order {
        Order::Seed(seed) => Draws::new(seed, Stream::INCEPTION_SCORE, 0).permutation(n),
        Order::Given(order) => checked_permutation(order, n)?,
    };
    let chunks: Vec<&[usize]> = order.chunks(n.div_ceil(splits)).collect();
    let per_chunk: Vec<f64> = chunks
        .iter()
        .map(|rows| chunk_score(logits, rows))
        .collect();
    let summary = mean_interval(&per_chunk).ok_or_else(|| MetricError::TooFew {
        metric: "the Inception score",
        what: "images".to_owned(),
        needed: 1,
        found: 0,
    })?;
    Ok(InceptionScore {
        mean: summary.mean,
        std_sample: summary.std_sample,
        chunk_sizes: chunks.iter().map(|rows| rows.len()).collect(),
        per_chunk,
    })
}

fn checked_permutation(order: &[usize], n: usize) -> Result<Vec<usize>> {
    let mut seen = vec![false; n];
    for (position, &index) in order.iter().enumerate() {
        match seen.get_mut(index) {
            None => {
                return Err(MetricError::IndexOutOfRange {
                    what: "order of the rows".to_owned(),
                    position,
                    index,
                    rows: n,
                });
            }
            Some(seen) => *seen = true,
        }
    }
    if order.len() != n || seen.contains(&false) {
        return Err(MetricError::shape(
            "order of the rows",
            format!("every row of 0..{n} once"),
            format!("{} indices with repeats or gaps", order.len()),
        ));
    }
    Ok(order.to_vec())
}

fn chunk_score(logits: Matrix<'_>, rows: &[usize]) -> f64 {
    let n = rows.len() as f64;
    let log_probabilities: Vec<Vec<f64>> =
        rows.iter().map(|&i| log_softmax(logits.row(i))).collect();
    let mut average = vec![0.0; logits.cols()];
    for row in &log_probabilities {
        for (average, log_p) in average.iter_mut().zip(row) {
            *average += log_p.exp() / n;
        }
    }
    let mut divergence = 0.0;
    for row in &log_probabilities {
        for (log_p, average) in row.iter().zip(&average) {
            // A probability that underflows to 0 contributes 0, also when its average is 0.
            let p = log_p.exp();
            if p > 0.0 {
                divergence += p * (log_p - average.ln());
            }
        }
    }
    (divergence / n).exp()
}

/// ln softmax of one row, in `f64`, shifted by the maximum.
pub fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let shift = log_sum_exp(logits);
    logits.iter().map(|&v| f64::from(v) - shift).collect()
}

/// ln Σ exp of one row.
pub(super) fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = highest(logits);
    let sum: f64 = logits.iter().map(|&v| (f64::from(v) - max).exp()).sum();
    max + sum.ln()
}

pub(super) fn highest(logits: &[f32]) -> f64 {
    let values = logits.iter().map(|&v| f64::from(v));
    values.fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_and_balanced_predictions_score_the_number_of_classes() {
        let classes = 4;
        let mut logits = vec![0.0; 8 * classes];
        for i in 0..8 {
            logits[i * classes + i % classes] = 200.0;
        }
        let logits = Matrix::new("t", 8, classes, &logits).unwrap();
        let order: Vec<usize> = (0..8).collect();
        let got = inception_score(logits, 2, Order::Given(&order)).unwrap();
        assert!((got.mean - 4.0).abs() < 1e-12);
        assert_eq!(got.chunk_sizes, [4, 4]);
        let one = inception_score(logits, 1, Order::Seed(0)).unwrap();
        assert_eq!(one.std_sample, None);
    }

    #[test]
    fn equal_predictions_score_one() {
        let logits = [0.3, -1.0, 2.0].repeat(5);
        let logits = Matrix::new("t", 5, 3, &logits).unwrap();
        let got = inception_score(logits, 10, Order::Seed(1)).unwrap();
        assert!((got.mean - 1.0).abs() < 1e-12);
        assert_eq!(got.chunk_sizes, [1; 5]);
    }

    #[test]
    fn bad_splits_and_orders_are_errors() {
        let logits = [0.0; 6];
        let logits = Matrix::new("t", 3, 2, &logits).unwrap();
        assert!(inception_score(logits, 0, Order::Seed(0)).is_err());
        assert!(inception_score(logits, 1, Order::Given(&[0, 1])).is_err());
        assert!(inception_score(logits, 1, Order::Given(&[0, 1, 1])).is_err());
        assert!(inception_score(logits, 1, Order::Given(&[0, 1, 3])).is_err());
        let bad = [0.0, f32::NAN];
        let bad = Matrix::new("t", 1, 2, &bad).unwrap();
        let error = inception_score(bad, 1, Order::Seed(0)).unwrap_err();
        assert!(error.to_string().contains("row 0, column 1"));
    }
}
