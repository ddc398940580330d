//! Bootstrap interval of the Fréchet distance: rows of both sets are drawn again with replacement.
//!
//! A replicate uses the distinct rows with their multiplicities w, by the cheaper of two exact routes:
//! * Gram: the product of the centred weighted rows is √(wᵢvⱼ)(Gᵢⱼ − Ḡᵢ − Ḡⱼ + Ḡ), where G = X₁X₂ᵀ is computed once
//!   and the bars are weighted means; then one small singular-value problem.
//! * Dense: weighted covariances and their Cholesky factors, d × d.
//!
//! Repeated rows lower the rank, so replicates lie above the value (`bias`); the centred interval corrects for it.
//! The number of replicates is a pure function of the shapes: as asked for, but no more than fit [`FLOP_BUDGET`].

use serde::Serialize;

use crate::stats::interval::{
    Bootstrap, BootstrapInterval, MIN_REPLICATES, bootstrap_replicates, summarise_replicates,
};
use crate::stats::random::{Draws, Stream};

use super::error::Result;
use super::fid::{check_sets, combine, squared_distance};
use super::linear_algebra::{
    Threads, add_gram_to_lower, mirror_lower, nuclear_norm, product_with_transpose,
    semidefinite_factor,
};
use super::matrix::Matrix;
use super::moments::column_means;

/// Floating-point operations that all replicates together may cost (some ten seconds on two cores).
pub const FLOP_BUDGET: f64 = 5e10;

/// An interval, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrechetInterval {
    pub interval: Option<BootstrapInterval>,
    pub note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplicateRoute {
    Gram,
    Dense,
}

/// How many replicates fit the budget for `n_real` and `n_fake` rows of `d` features.
pub fn planned_replicates(n_real: usize, n_fake: usize, d: usize, requested: usize) -> usize {
    let (_, cost) = cheaper_route(n_real, n_fake, d);
    requested.min((FLOP_BUDGET / cost) as usize)
}

fn cheaper_route(n_real: usize, n_fake: usize, d: usize) -> (ReplicateRoute, f64) {
    let (n1, n2, d) = (n_real as f64, n_fake as f64, d as f64);
    // A resample of n rows holds n(1 − 1/e) distinct ones.
    let distinct = 1.0 - (-1f64).exp();
    let (k1, k2) = (n1 * distinct, n2 * distinct);
    let gram = 6.0 * n1 * n2 + 4.0 * k1.max(k2) * k1.min(k2).powi(2) + 4.0 * d * (n1 + n2);
    let dense = 2.0 * (k1 + k2) * d * d + 8.0 * d.powi(3);
    if gram <= dense {
        (ReplicateRoute::Gram, gram)
    } else {
        (ReplicateRoute::Dense, dense)
    }
}

/// Interval around `value`, the Fréchet distance of the two sets.
pub fn frechet_bootstrap(
    real: Matrix<'_>,
    fake: Matrix<'_>,
    value: f64,
    plan: Bootstrap,
) -> Result<FrechetInterval> {
    check_sets(real, fake)?;
    real.check_finite("features of the real set")?;
    fake.check_finite("features of the generated set")?;
    let d = real.cols();
    let replicates = planned_replicates(real.rows(), fake.rows(), d, plan.replicates);
    if replicates < MIN_REPLICATES {
        return Ok(FrechetInterval {
            interval: None,
            note: Some(format!(
                "no bootstrap interval: {replicates} of {} replicates fit the budget for {} and {} images of {d} \
                 features, and {MIN_REPLICATES} are needed",
                plan.replicates,
                real.rows(),
                fake.rows()
            )),
        });
    }
    let (route, _) = cheaper_route(real.rows(), fake.rows(), d);
    let sets = Resampler::new(real, fake, route);
    let run = Bootstrap { replicates, ..plan };
    let values = bootstrap_replicates(run, Stream::FID_BOOTSTRAP, |draws| sets.replicate(draws))?;
    let interval = summarise_replicates(value, &values, plan.seed).map(|mut interval| {
        interval.centred.low = interval.centred.low.max(0.0);
        interval
    });
    let note = (replicates < plan.replicates).then(|| {
        format!(
            "{replicates} instead of {} bootstrap replicates: the budget for sets of this size",
            plan.replicates
        )
    });
    Ok(FrechetInterval { interval, note })
}

struct Resampler {
    d: usize,
    real: CentredRows,
    fake: CentredRows,
    /// X₁X₂ᵀ, on the Gram route.
    gram: Option<Vec<f64>>,
}

impl Resampler {
    fn new(real: Matrix<'_>, fake: Matrix<'_>, route: ReplicateRoute) -> Self {
        let (real, fake) = (CentredRows::new(real), CentredRows::new(fake));
        let d = real.centre.len();
        let gram = (route == ReplicateRoute::Gram)
            .then(|| product_with_transpose(&real.rows, &fake.rows, d));
        Self {
            d,
            real,
            fake,
            gram,
        }
    }

    fn replicate(&self, draws: &mut Draws) -> Result<f64> {
        let w = draws.resample_counts(self.real.count());
        let v = draws.resample_counts(self.fake.count());
        let (real, fake) = (self.real.resampled(&w), self.fake.resampled(&v));
        let trace_sqrt = match &self.gram {
            Some(gram) => self.gram_trace(gram, &w, &v)?,
            None => self.dense_trace((&w, &real), (&v, &fake))?,
        };
        let shift = |set: &CentredRows, mean: &[f64]| -> Vec<f64> {
            set.centre.iter().zip(mean).map(|(c, m)| c + m).collect()
        };
        let mean_term = squared_distance(
            &shift(&self.real, &real.mean),
            &shift(&self.fake, &fake.mean),
        );
        combine(mean_term, real.trace, fake.trace, trace_sqrt)
    }

    fn gram_trace(&self, gram: &[f64], w: &[u32], v: &[u32]) -> Result<f64> {
        let (n1, n2) = (w.len(), v.len());
        let mut by_column = vec![0.0; n2];
        let mut by_row = vec![0.0; n1];
        for (i, row) in gram.chunks_exact(n2).enumerate() {
            let weight = f64::from(w[i]) / n1 as f64;
            let mut sum = 0.0;
            for ((column, &g), &count) in by_column.iter_mut().zip(row).zip(v) {
                *column += weight * g;
                sum += f64::from(count) * g;
            }
            by_row[i] = sum / n2 as f64;
        }
        let overall: f64 = by_row
            .iter()
            .zip(w)
            .map(|(r, &w)| r * f64::from(w))
            .sum::<f64>()
            / n1 as f64;
        let columns: Vec<usize> = (0..n2).filter(|&j| v[j] > 0).collect();
        let scale = 1.0 / (((n1 - 1) * (n2 - 1)) as f64).sqrt();
        let mut product = Vec::with_capacity(n1 * columns.len());
        for i in (0..n1).filter(|&i| w[i] > 0) {
            let row = &gram[i * n2..(i + 1) * n2];
            for &j in &columns {
                let weight = (f64::from(w[i]) * f64::from(v[j])).sqrt() * scale;
                product.push(weight * (row[j] - by_column[j] - by_row[i] + overall));
            }
        }
        let rows = product.len() / columns.len();
        nuclear_norm("FID bootstrap", &product, rows, columns.len(), Threads::One)
    }

    fn dense_trace(
        &self,
        real: (&[u32], &ResampledMoments),
        fake: (&[u32], &ResampledMoments),
    ) -> Result<f64> {
        let d = self.d;
        let a = self.real.covariance_factor(real.0, &real.1.mean)?;
        let b = self.fake.covariance_factor(fake.0, &fake.1.mean)?;
        let product = product_with_transpose(&a, &b, d);
        nuclear_norm(
            "FID bootstrap",
            &product,
            a.len() / d,
            b.len() / d,
            Threads::One,
        )
    }
}

/// Rows minus their mean (`centre`), so that weighted sums lose no digits.
struct CentredRows {
    centre: Vec<f64>,
    rows: Vec<f64>,
    squared_norms: Vec<f64>,
}

struct ResampledMoments {
    /// Relative to the centre.
    mean: Vec<f64>,
    trace: f64,
}

impl CentredRows {
    fn new(features: Matrix<'_>) -> Self {
        let d = features.cols();
        let mut rows: Vec<f64> = features.data().iter().map(|&v| f64::from(v)).collect();
        let centre = column_means(&rows, d);
        for row in rows.chunks_exact_mut(d) {
            for (value, mean) in row.iter_mut().zip(&centre) {
                *value -= mean;
            }
        }
        let squared_norms = rows
            .chunks_exact(d)
            .map(|r| r.iter().map(|v| v * v).sum())
            .collect();
        Self {
            centre,
            rows,
            squared_norms,
        }
    }

    fn count(&self) -> usize {
        self.squared_norms.len()
    }

    fn resampled(&self, counts: &[u32]) -> ResampledMoments {
        let d = self.centre.len();
        let n = counts.len() as f64;
        let mut mean = vec![0.0; d];
        let mut squares = 0.0;
        for (i, row) in self.rows.chunks_exact(d).enumerate() {
            if counts[i] == 0 {
                continue;
            }
            let weight = f64::from(counts[i]);
            squares += weight * self.squared_norms[i];
            for (mean, value) in mean.iter_mut().zip(row) {
                *mean += weight * value;
            }
        }
        mean.iter_mut().for_each(|v| *v /= n);
        let of_mean: f64 = mean.iter().map(|v| v * v).sum();
        ResampledMoments {
            trace: ((squares - n * of_mean) / (n - 1.0)).max(0.0),
            mean,
        }
    }

    fn covariance_factor(&self, counts: &[u32], mean: &[f64]) -> Result<Vec<f64>> {
        let d = self.centre.len();
        let scale = 1.0 / (counts.len() - 1) as f64;
        let mut weighted = Vec::new();
        for (i, row) in self.rows.chunks_exact(d).enumerate() {
            if counts[i] > 0 {
                let weight = (f64::from(counts[i]) * scale).sqrt();
                weighted.extend(row.iter().zip(mean).map(|(v, m)| weight * (v - m)));
            }
        }
        let mut covariance = vec![0.0; d * d];
        add_gram_to_lower(&mut covariance, &weighted, d);
        mirror_lower(&mut covariance, d);
        semidefinite_factor("FID bootstrap", &covariance, d)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fid::frechet_from_features;
    use super::*;

    fn features(rows: usize, cols: usize, index: u64) -> Vec<f32> {
        let mut draws = Draws::new(31, Stream::BOOTSTRAP, index);
        (0..rows * cols)
            .map(|_| (draws.normal() + 0.2 * index as f64) as f32)
            .collect()
    }

    fn matrix(data: &[f32], cols: usize) -> Matrix<'_> {
        Matrix::new("test", data.len() / cols, cols, data).unwrap()
    }

    /// Each replicate must be the distance of the sets with the drawn rows written out.
    #[test]
    fn a_replicate_equals_the_distance_of_the_resampled_sets_on_both_routes() {
        let d = 12;
        let (a, b) = (features(30, d, 1), features(25, d, 2));
        let written_out = |data: &[f32], counts: &[u32]| -> Vec<f32> {
            let mut out = Vec::new();
            for (row, &count) in data.chunks_exact(d).zip(counts) {
                (0..count).for_each(|_| out.extend_from_slice(row));
            }
            out
        };
        for route in [ReplicateRoute::Gram, ReplicateRoute::Dense] {
            let sets = Resampler::new(matrix(&a, d), matrix(&b, d), route);
            let mut draws = Draws::new(4, Stream::FID_BOOTSTRAP, 0);
            let got = sets.replicate(&mut draws.clone()).unwrap();
            let (w, v) = (draws.resample_counts(30), draws.resample_counts(25));
            let (ra, rb) = (written_out(&a, &w), written_out(&b, &v));
            let plain = frechet_from_features(matrix(&ra, d), matrix(&rb, d)).unwrap();
            assert!(
                (got - plain.value).abs() < 1e-10,
                "{route:?} {got} {plain:?}"
            );
        }
    }

    #[test]
    fn the_interval_is_repeatable_and_surrounds_the_value() {
        let d = 64;
        let (a, b) = (features(50, d, 1), features(50, d, 2));
        let (a, b) = (matrix(&a, d), matrix(&b, d));
        let value = frechet_from_features(a, b).unwrap().value;
        let run = |seed| {
            let plan = Bootstrap {
                replicates: 60,
                seed,
            };
            frechet_bootstrap(a, b, value, plan)
                .unwrap()
                .interval
                .unwrap()
        };
        let first = run(1);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        assert_eq!(first, pool.install(|| run(1)));
        assert_ne!(first, run(2));
        assert!(first.bias > 0.0);
        assert!(first.centred.low < value && value < first.centred.high);
    }

    #[test]
    fn the_number_of_replicates_depends_on_shapes_alone() {
        assert_eq!(planned_replicates(50, 50, 64, 200), 200);
        assert_eq!(planned_replicates(500, 500, 2048, 200), 200);
        assert!(planned_replicates(3000, 3000, 2048, 200) < MIN_REPLICATES);
        let data = vec![0.5; 8 * 4];
        let plan = Bootstrap {
            replicates: 5,
            seed: 0,
        };
        let none = frechet_bootstrap(matrix(&data, 4), matrix(&data, 4), 0.0, plan).unwrap();
        assert!(none.interval.is_none() && none.note.is_some());
    }
}
