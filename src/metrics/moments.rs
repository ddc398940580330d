//! Mean and covariance of features, accumulated row by row in `f64`.
//!
//! Covariance Σ = Σᵢ (xᵢ − m)(xᵢ − m)ᵀ / (n−1). Rows are gathered into blocks of [`BLOCK_ROWS`] by their absolute
//! position; each block is centred at its own mean and joined to the running moments with the pairwise update of Chan,
//! Golub and LeVeque (1979): S ← S + S_b + n·b/(n+b) δδᵀ with δ = m_b − m. Nothing is subtracted from large sums, so
//! features with a mean far from zero lose no digits.
//!
//! Promises:
//! * Rows pushed in the same order give the same bits for any split into consecutive batches and any number of threads.
//! * [`Moments::merge`] joins shards: the same shards in the same order give the same bits; against the unsharded run
//!   mean and covariance agree to rounding (relative 1e-12 of the largest variance), not to the last bit.

use serde::{Deserialize, Serialize};

use super::error::{MetricError, Result};
use super::linear_algebra::{add_gram_to_lower, mirror_lower};
use super::matrix::Matrix;

/// Rows that are joined to the running moments at once.
pub const BLOCK_ROWS: usize = 128;

/// Number of rows, mean and scatter matrix Σᵢ (xᵢ − m)(xᵢ − m)ᵀ of a set of features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    count: usize,
    mean: Vec<f64>,
    scatter: Vec<f64>,
}

impl Moments {
    /// Mean and scatter of all rows of `features`.
    pub fn of(what: &str, features: Matrix<'_>) -> Result<Self> {
        let mut accumulator = MomentsAccumulator::new(features.cols());
        accumulator.push(what, features)?;
        Ok(accumulator.finish())
    }

    /// From a stored mean `[d]` and covariance [d, d] (divisor n−1) of `count` rows.
    pub fn from_covariance(
        what: &str,
        count: usize,
        mean: Vec<f64>,
        mut covariance: Vec<f64>,
    ) -> Result<Self> {
        let d = mean.len();
        if covariance.len() != d * d {
            return Err(MetricError::shape(
                what,
                format!("a covariance of {d} x {d} values"),
                format!("{} values", covariance.len()),
            ));
        }
        if count < 2 {
            return Err(MetricError::TooFew {
                metric: "a covariance",
                what: format!("rows in {what}"),
                needed: 2,
                found: count,
            });
        }
        covariance.iter_mut().for_each(|v| *v *= (count - 1) as f64);
        Ok(Self {
            count,
            mean,
            scatter: covariance,
        })
    }

    /// From sums s = Σᵢ (xᵢ − c) `[d]` and products Σᵢ (xᵢ − c)(xᵢ − c)ᵀ [d, d], of which those on and below the diagonal
    /// are read, of `count` rows around a centre c `[d]` (none without rows): Σᵢ (xᵢ − m)(xᵢ − m)ᵀ is the products less
    /// ssᵀ/n. The subtraction costs few digits where c is as near to the mean as the rows are.
    pub(crate) fn from_sums(
        count: usize,
        centre: &[f32],
        sums: &[f64],
        products: Vec<f64>,
    ) -> Self {
        let d = sums.len();
        let n = count.max(1) as f64;
        let mut scatter = products;
        for i in 0..d {
            for j in 0..=i {
                scatter[i * d + j] -= sums[i] * sums[j] / n;
            }
        }
        mirror_lower(&mut scatter, d);
        let mut mean: Vec<f64> = sums.iter().map(|s| s / n).collect();
        for (m, c) in mean.iter_mut().zip(centre) {
            *m += f64::from(*c);
        }
        Self {
            count,
            mean,
            scatter,
        }
    }

    /// Number of rows seen.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of features.
    pub fn dims(&self) -> usize {
        self.mean.len()
    }

    /// Mean `[d]`; zeros when no row was seen.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Row-major covariance [d, d] with divisor n−1; an error below two rows.
    pub fn covariance(&self, what: &str) -> Result<Vec<f64>> {
        if self.count < 2 {
            return Err(MetricError::TooFew {
                metric: "a covariance",
                what: format!("rows in {what}"),
                needed: 2,
                found: self.count,
            });
        }
        let divisor = (self.count - 1) as f64;
        Ok(self.scatter.iter().map(|v| v / divisor).collect())
    }

    /// Moments of both sets together: `self` first, then `other`.
    pub fn merge(&self, other: &Moments) -> Result<Moments> {
        if self.dims() != other.dims() {
            return Err(MetricError::shape(
                "moments of two shards",
                format!("{} features", self.dims()),
                format!("{} features", other.dims()),
            ));
        }
        if self.count == 0 {
            return Ok(other.clone());
        }
        if other.count == 0 {
            return Ok(self.clone());
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let delta: Vec<f64> = other
            .mean
            .iter()
            .zip(&self.mean)
            .map(|(b, a)| b - a)
            .collect();
        let weight = n * m / (n + m);
        let d = self.dims();
        let mut scatter = Vec::with_capacity(d * d);
        for i in 0..d {
            for j in 0..d {
                let at = i * d + j;
                scatter.push(self.scatter[at] + other.scatter[at] + weight * delta[i] * delta[j]);
            }
        }
        Ok(Moments {
            count: self.count + other.count,
            mean: moved_mean(&self.mean, &delta, m / (n + m)),
            scatter,
        })
    }
}

fn moved_mean(mean: &[f64], delta: &[f64], fraction: f64) -> Vec<f64> {
    mean.iter()
        .zip(delta)
        .map(|(m, d)| m + d * fraction)
        .collect()
}

/// Takes rows strictly in order, in batches of any size.
#[derive(Debug, Clone)]
pub struct MomentsAccumulator {
    dims: usize,
    count: usize,
    mean: Vec<f64>,
    /// Only the lower triangle is complete until [`MomentsAccumulator::finish`].
    scatter: Vec<f64>,
    waiting: Vec<f64>,
}

impl MomentsAccumulator {
    /// Empty moments of `dims` features.
    pub fn new(dims: usize) -> Self {
        Self {
            dims,
            count: 0,
            mean: vec![0.0; dims],
            scatter: vec![0.0; dims * dims],
            waiting: Vec::new(),
        }
    }

    /// Rows pushed so far.
    pub fn count(&self) -> usize {
        self.count + self.waiting.len() / self.dims.max(1)
    }

    /// Adds the rows of `batch`; on an error (named with the row's position in the whole set) nothing is added.
    pub fn push(&mut self, what: &str, batch: Matrix<'_>) -> Result<()> {
        if batch.cols() != self.dims {
            return Err(MetricError::shape(
                what,
                format!("{} features", self.dims),
                format!("{} features", batch.cols()),
            ));
        }
        batch.check_finite_from(what, self.count())?;
        for i in 0..batch.rows() {
            self.waiting
                .extend(batch.row(i).iter().map(|&v| f64::from(v)));
            if self.waiting.len() == BLOCK_ROWS * self.dims {
                self.join_block();
            }
        }
        Ok(())
    }

    /// The moments of all rows pushed.
    pub fn finish(mut self) -> Moments {
        self.join_block();
        mirror_lower(&mut self.scatter, self.dims);
        Moments {
            count: self.count,
            mean: self.mean,
            scatter: self.scatter,
        }
    }

    fn join_block(&mut self) {
        let d = self.dims;
        let rows = self.waiting.len().checked_div(d).unwrap_or(0);
        if rows == 0 {
            return;
        }
        let block_mean = column_means(&self.waiting, d);
        for row in self.waiting.chunks_exact_mut(d) {
            for (value, mean) in row.iter_mut().zip(&block_mean) {
                *value -= mean;
            }
        }
        let (n, m) = (self.count as f64, rows as f64);
        let delta: Vec<f64> = block_mean
            .iter()
            .zip(&self.mean)
            .map(|(b, a)| b - a)
            .collect();
        // The shift of the mean is one more row of the rank update.
        let weight = (n * m / (n + m)).sqrt();
        self.waiting.extend(delta.iter().map(|v| v * weight));
        add_gram_to_lower(&mut self.scatter, &self.waiting, d);
        self.mean = moved_mean(&self.mean, &delta, m / (n + m));
        self.count += rows;
        self.waiting.clear();
    }
}

/// Mean of each column of row-major `rows` [n, d], rows taken in order; zeros for no rows.
pub(crate) fn column_means(rows: &[f64], d: usize) -> Vec<f64> {
    let mut sums = vec![0.0; d];
    for row in rows.chunks_exact(d) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += value;
        }
    }
    let n = (rows.len() / d).max(1) as f64;
    sums.iter_mut().for_each(|v| *v /= n);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Draws, Stream};

    fn features(rows: usize, cols: usize, offset: f64) -> Vec<f32> {
        let mut draws = Draws::new(3, Stream::BOOTSTRAP, 1);
        (0..rows * cols)
            .map(|_| (draws.normal() + offset) as f32)
            .collect()
    }

    fn matrix(data: &[f32], cols: usize) -> Matrix<'_> {
        Matrix::new("test", data.len() / cols, cols, data).unwrap()
    }

    fn in_batches(data: &[f32], cols: usize, batch: usize) -> Moments {
        let mut accumulator = MomentsAccumulator::new(cols);
        for rows in data.chunks(batch * cols) {
            accumulator.push("test", matrix(rows, cols)).unwrap();
        }
        accumulator.finish()
    }

    #[test]
    fn any_batch_split_gives_the_same_bits() {
        let (rows, cols) = (333, 70);
        let data = features(rows, cols, 2.0);
        let whole = Moments::of("test", matrix(&data, cols)).unwrap();
        for batch in [1, 7, 64, 128, 200] {
            assert!(in_batches(&data, cols, batch) == whole, "batch {batch}");
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let (rows, cols) = (300, 200);
        let data = features(rows, cols, 0.0);
        let whole = in_batches(&data, cols, 50);
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            assert!(pool.install(|| in_batches(&data, cols, 50)) == whole);
        }
    }

    /// Reference: two-pass formula in f64. 1e-12 of the variance, even though the mean is 1000 times the deviation.
    #[test]
    fn moments_equal_the_two_pass_formula() {
        let (rows, cols) = (300, 9);
        let data = features(rows, cols, 1000.0);
        let moments = Moments::of("test", matrix(&data, cols)).unwrap();
        let covariance = moments.covariance("test").unwrap();
        let wide: Vec<f64> = data.iter().map(|&v| f64::from(v)).collect();
        let mean = column_means(&wide, cols);
        for i in 0..cols {
            assert!((moments.mean()[i] - mean[i]).abs() < 1e-10);
            for j in 0..cols {
                let plain = wide
                    .chunks_exact(cols)
                    .map(|r| (r[i] - mean[i]) * (r[j] - mean[j]))
                    .sum::<f64>()
                    / (rows - 1) as f64;
                assert!((covariance[i * cols + j] - plain).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn merged_shards_agree_with_the_whole_to_rounding() {
        let (rows, cols) = (500, 30);
        let data = features(rows, cols, 5.0);
        let whole = Moments::of("test", matrix(&data, cols)).unwrap();
        let shards: Vec<Moments> = data
            .chunks(130 * cols)
            .map(|shard| Moments::of("test", matrix(shard, cols)).unwrap())
            .collect();
        let empty = MomentsAccumulator::new(cols).finish();
        let merged = shards
            .iter()
            .try_fold(empty, |sum, shard| sum.merge(shard))
            .unwrap();
        assert_eq!(merged.count(), rows);
        let (a, b) = (
            merged.covariance("t").unwrap(),
            whole.covariance("t").unwrap(),
        );
        for (a, b) in a.iter().zip(&b) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
        assert!(merged.merge(&MomentsAccumulator::new(3).finish()).is_err());
    }

    #[test]
    fn a_nan_is_named_by_its_row_in_the_whole_set_and_changes_nothing() {
        let mut accumulator = MomentsAccumulator::new(3);
        accumulator
            .push("real", matrix(&features(5, 3, 0.0), 3))
            .unwrap();
        let mut bad = features(2, 3, 0.0);
        bad[4] = f32::NAN;
        let error = accumulator.push("real", matrix(&bad, 3)).unwrap_err();
        assert!(error.to_string().contains("row 6, column 1"), "{error}");
        assert_eq!(accumulator.count(), 5);
    }

    #[test]
    fn a_covariance_of_one_row_is_an_error_that_says_how_many_are_needed() {
        let one = Moments::of("real", matrix(&[1.0, 2.0], 2)).unwrap();
        let error = one.covariance("real").unwrap_err().to_string();
        assert!(error.contains("at least 2") && error.contains("found 1"));
    }
}
