//! Precision, recall, density and coverage of a generated set (Kynkäänniemi et al. 2019, Naeem et al. 2020).
//!
//! r(x) is the distance of a row to its k-th nearest neighbour within its own set, itself excluded.
//! precision: share of generated rows within r of at least one real row; recall: the same with the sets exchanged;
//! density: (1/k) × mean number of real balls around a generated row (can exceed 1); coverage: share of real rows whose ball
//! holds a generated row. Equal to the `prdc` package (strict `<`) and to torch-fidelity (`<=`); they differ on ties only.
//! Memory is O(n): distances are visited, never stored.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use crate::stats::interval::{Interval, mean_interval};

use super::error::{MetricError, Result};
use super::matrix::Matrix;
use super::squared_distance::{QUERY_ROWS, for_each_distance};

/// Whether a point exactly on the rim of a ball is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rim {
    /// distance < radius, as the `prdc` package.
    #[default]
    Strict,
    /// distance <= radius, as torch-fidelity.
    Inclusive,
}

impl Rim {
    fn holds(self, distance: f64, radius: f64) -> bool {
        match self {
            Rim::Strict => distance < radius,
            Rim::Inclusive => distance <= radius,
        }
    }
}

/// The published number of neighbours.
pub const DEFAULT_NEIGHBOURS: usize = 5;

/// The four scores with the counts behind them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prdc {
    pub precision: f64,
    pub recall: f64,
    pub density: f64,
    pub coverage: f64,
    /// Normal interval of the density, a mean over generated rows.
    pub density_interval: Option<Interval>,
    /// Generated rows inside a real ball, real rows inside a generated ball, real balls that hold a generated row.
    pub precise: usize,
    pub recalled: usize,
    pub covered: usize,
    pub n_real: usize,
    pub n_fake: usize,
    pub neighbours: usize,
    pub rim: Rim,
}

/// All four scores of `fake` against `real` with `neighbours` = k.
pub fn prdc(real: Matrix<'_>, fake: Matrix<'_>, neighbours: usize, rim: Rim) -> Result<Prdc> {
    check(real, fake, neighbours)?;
    let real_radii = neighbour_distances(real, neighbours);
    let fake_radii = neighbour_distances(fake, neighbours);
    let balls_around: Vec<AtomicU64> = (0..fake.rows()).map(|_| AtomicU64::new(0)).collect();
    // Integer counts: the order in which threads add them does not matter.
    let (recalled, covered) = panels(real.rows())
        .map(|first| {
            let mut recalled = [false; QUERY_ROWS];
            let mut covered = [false; QUERY_ROWS];
            for_each_distance(real, first, fake, |i, j, distance| {
                recalled[i - first] |= rim.holds(distance, fake_radii[j]);
                if rim.holds(distance, real_radii[i]) {
                    covered[i - first] = true;
                    balls_around[j].fetch_add(1, Ordering::Relaxed);
                }
            });
            let count = |flags: [bool; QUERY_ROWS]| flags.iter().filter(|&&f| f).count();
            (count(recalled), count(covered))
        })
        .reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let balls: Vec<u64> = balls_around
        .into_iter()
        .map(AtomicU64::into_inner)
        .collect();
    let precise = balls.iter().filter(|&&count| count > 0).count();
    let (n_real, n_fake) = (real.rows(), fake.rows());
    let densities: Vec<f64> = balls
        .iter()
        .map(|&count| count as f64 / neighbours as f64)
        .collect();
    Ok(Prdc {
        precision: precise as f64 / n_fake as f64,
        recall: recalled as f64 / n_real as f64,
        density: balls.iter().sum::<u64>() as f64 / (neighbours as f64 * n_fake as f64),
        coverage: covered as f64 / n_real as f64,
        density_interval: mean_interval(&densities).and_then(|m| m.interval()),
        precise,
        recalled,
        covered,
        n_real,
        n_fake,
        neighbours,
        rim,
    })
}

fn check(real: Matrix<'_>, fake: Matrix<'_>, neighbours: usize) -> Result<()> {
    const METRIC: &str = "precision/recall/density/coverage";
    if neighbours == 0 {
        return Err(MetricError::Parameter {
            name: "neighbours",
            expected: "at least 1".to_owned(),
            found: "0".to_owned(),
        });
    }
    real.check_same_cols(&fake, "features for precision and recall")?;
    for (set, what) in [(real, "real"), (fake, "generated")] {
        set.check_rows(
            METRIC,
            &format!("images in the {what} set for {neighbours} neighbours"),
            neighbours.saturating_add(1),
        )?;
        set.check_finite(&format!("features of the {what} set"))?;
    }
    Ok(())
}

fn panels(rows: usize) -> impl ParallelIterator<Item = usize> {
    (0..rows.div_ceil(QUERY_ROWS))
        .into_par_iter()
        .with_max_len(1)
        .map(|panel| panel * QUERY_ROWS)
}

/// Squared distance of every row to its k-th nearest other row of the same set.
fn neighbour_distances(set: Matrix<'_>, k: usize) -> Vec<f64> {
    panels(set.rows())
        .flat_map_iter(|first| {
            let last = (first + QUERY_ROWS).min(set.rows());
            let mut nearest: Vec<Nearest> = (first..last).map(|_| Nearest::new(k)).collect();
            for_each_distance(set, first, set, |i, j, distance| {
                if i != j {
                    nearest[i - first].offer(distance);
                }
            });
            nearest.into_iter().map(|n| n.farthest())
        })
        .collect()
}

/// The k smallest values offered, ascending.
struct Nearest {
    k: usize,
    values: Vec<f64>,
}

impl Nearest {
    fn new(k: usize) -> Self {
        Self {
            k,
            values: Vec::with_capacity(k + 1),
        }
    }

    fn offer(&mut self, value: f64) {
        if self.values.len() == self.k && value >= self.farthest() {
            return;
        }
        let at = self.values.partition_point(|&v| v <= value);
        self.values.insert(at, value);
        self.values.truncate(self.k);
    }

    fn farthest(&self) -> f64 {
        self.values.last().copied().unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Draws, Stream};

    fn features(rows: usize, cols: usize, offset: f64) -> Vec<f32> {
        let mut draws = Draws::new(51, Stream::BOOTSTRAP, 0);
        (0..rows * cols)
            .map(|_| (draws.normal() + offset) as f32)
            .collect()
    }

    fn matrix(data: &[f32], cols: usize) -> Matrix<'_> {
        Matrix::new("test", data.len() / cols, cols, data).unwrap()
    }

    #[test]
    fn a_set_against_itself_is_precise_recalled_and_covered() {
        let data = features(40, 6, 0.0);
        let set = matrix(&data, 6);
        for rim in [Rim::Strict, Rim::Inclusive] {
            let got = prdc(set, set, 5, rim).unwrap();
            assert_eq!((got.precision, got.recall, got.coverage), (1.0, 1.0, 1.0));
        }
        // Each ball holds its centre and, on the rim, its fifth neighbour.
        let strict = prdc(set, set, 5, Rim::Strict).unwrap();
        assert_eq!(strict.density, 1.0);
        let inclusive = prdc(set, set, 5, Rim::Inclusive).unwrap();
        assert!((inclusive.density - 6.0 / 5.0).abs() < 1e-15);
    }

    #[test]
    fn sets_far_apart_score_zero() {
        let (a, b) = (features(20, 4, 0.0), features(30, 4, 1000.0));
        let got = prdc(matrix(&a, 4), matrix(&b, 4), 3, Rim::Inclusive).unwrap();
        assert_eq!(
            (got.precision, got.recall, got.density, got.coverage),
            (0.0, 0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn exchanging_the_sets_exchanges_precision_and_recall() {
        let (a, b) = (features(33, 4, 0.0), features(27, 4, 0.7));
        let (a, b) = (matrix(&a, 4), matrix(&b, 4));
        let (one, other) = (
            prdc(a, b, 3, Rim::Strict).unwrap(),
            prdc(b, a, 3, Rim::Strict).unwrap(),
        );
        assert_eq!(one.precision, other.recall);
        assert_eq!(one.recall, other.precision);
        assert!(one.coverage > 0.0 && one.coverage < 1.0);
    }

    #[test]
    fn too_few_images_is_an_error_that_says_how_many_are_needed() {
        let data = features(5, 4, 0.0);
        let error = prdc(matrix(&data, 4), matrix(&data, 4), 5, Rim::Strict).unwrap_err();
        assert!(error.to_string().contains("at least 6"), "{error}");
        assert!(prdc(matrix(&data, 4), matrix(&data, 4), 0, Rim::Strict).is_err());
    }
}
