//! 95 % intervals: Wilson for fractions, normal for means, percentile bootstrap for anything else.
//!
//! Wilson (1927): (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n).
//! Student: mean ± t s/√n with the quantile of n − 1 degrees of freedom, for few values.
//! Normal: mean ± 1.96 s/√n with the sample standard deviation s (divisor n−1).
//! Percentile bootstrap (Efron 1979): the 2.5 % and 97.5 % quantiles of the statistic over resamples.

use rayon::prelude::*;
use serde::Serialize;

use super::random::{Draws, Stream};

/// 97.5 % quantile of the standard normal distribution.
pub const Z_95: f64 = 1.959_963_984_540_054;

/// The rounded value that the papers print with means.
pub const Z_95_PRINTED: f64 = 1.96;

/// A closed interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// Wilson 95 % interval of `successes` out of `n`; `None` when `n == 0` or `successes > n`.
pub fn wilson(successes: usize, n: usize) -> Option<Interval> {
    if n == 0 || successes > n {
        return None;
    }
    let count = n as f64;
    let p = successes as f64 / count;
    let z2 = Z_95 * Z_95;
    let scale = 1.0 / (1.0 + z2 / count);
    let centre = (p + z2 / (2.0 * count)) * scale;
    let half = Z_95 * (p * (1.0 - p) / count + z2 / (4.0 * count * count)).sqrt() * scale;
    Some(Interval {
        low: if successes == 0 {
            0.0
        } else {
            (centre - half).max(0.0)
        },
        high: if successes == n {
            1.0
        } else {
            (centre + half).min(1.0)
        },
    })
}

/// A share of the images with its Wilson interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fraction {
    pub count: usize,
    pub n: usize,
    pub value: f64,
    pub interval: Option<Interval>,
}

impl Fraction {
    /// `count` of `n`.
    pub fn new(count: usize, n: usize) -> Self {
        Self {
            count,
            n,
            value: count as f64 / n as f64,
            interval: wilson(count, n),
        }
    }

    /// The share of `0..n` for which `holds`.
    pub fn of(n: usize, holds: impl Fn(usize) -> bool) -> Self {
        Self::new((0..n).filter(|&i| holds(i)).count(), n)
    }
}

/// Mean of a sample with its spread; the interval is mean ± `half_width`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanInterval {
    pub n: usize,
    pub mean: f64,
    /// Sample standard deviation (divisor n−1); `None` for one value.
    pub std_sample: Option<f64>,
    /// 1.96 s/√n; `None` for one value.
    pub half_width: Option<f64>,
}

impl MeanInterval {
    /// mean ± half width; `None` for one value.
    pub fn interval(&self) -> Option<Interval> {
        self.half_width.map(|half| Interval {
            low: self.mean - half,
            high: self.mean + half,
        })
    }
}

/// Mean, sample standard deviation and normal interval; `None` for no values.
pub fn mean_interval(values: &[f64]) -> Option<MeanInterval> {
    let mean = mean(values)?;
    let n = values.len();
    let std_sample = (n > 1).then(|| (squared_deviations(values, mean) / (n - 1) as f64).sqrt());
    Some(MeanInterval {
        n,
        mean,
        std_sample,
        half_width: std_sample.map(|s| Z_95_PRINTED * s / (n as f64).sqrt()),
    })
}

/// As [`mean_interval`], with Student's t in place of the normal quantile: for few values.
pub fn student_interval(values: &[f64]) -> Option<MeanInterval> {
    let found = mean_interval(values)?;
    let half = |s: f64| student_975(found.n - 1) * s / (found.n as f64).sqrt();
    Some(MeanInterval {
        half_width: found.std_sample.map(half),
        ..found
    })
}

/// 97.5 % quantile of Student's t with `freedom` degrees of freedom, 1 or more.
///
/// P(|T| ≤ t) is a finite sum of powers of cos θ, θ = arctan(t/√ν) (Abramowitz and Stegun 26.7.3 and 26.7.4); found by bisection.
fn student_975(freedom: usize) -> f64 {
    let inside = |t: f64| {
        let theta = (t / (freedom as f64).sqrt()).atan();
        let (sin, cos) = theta.sin_cos();
        let odd = freedom % 2 == 1;
        let mut term = if odd { cos } else { 1.0 };
        let mut sum = if freedom > 1 { term } else { 0.0 };
        let mut power = if odd { 3 } else { 2 };
        while power <= freedom.saturating_sub(2) {
            term *= cos * cos * (power as f64 - 1.0) / power as f64;
            sum += term;
            power += 2;
        }
        match odd {
            true => 2.0 / std::f64::consts::PI * (theta + sin * sum),
            false => sin * sum,
        }
    };
    let (mut low, mut high) = (0.0, 64.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        match inside(middle) < 0.95 {
            true => low = middle,
            false => high = middle,
        }
    }
    0.5 * (low + high)
}

/// Arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Population standard deviation (divisor n); `None` for no values.
pub fn std_population(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    Some((squared_deviations(values, mean) / values.len() as f64).sqrt())
}

fn squared_deviations(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|v| (v - mean) * (v - mean)).sum()
}

/// Quantile with linear interpolation between order statistics (type 7 of Hyndman and Fan 1996).
/// `sorted` must be in ascending order; `None` when empty or `q` is outside [0, 1].
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    if sorted.is_empty() || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let at = q * (sorted.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    Some(sorted[below] + (at - below as f64) * (sorted[above] - sorted[below]))
}

/// How many replicates, from which seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bootstrap {
    pub replicates: usize,
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            replicates: 200,
            seed: 0,
        }
    }
}

/// Fewer replicates than this say nothing about a 95 % interval.
pub const MIN_REPLICATES: usize = 20;

/// What the replicates of a statistic look like around its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BootstrapInterval {
    pub replicates: usize,
    pub seed: u64,
    /// Mean of the replicates minus the value: resampling repeats rows, which shifts some statistics.
    pub bias: f64,
    /// Standard deviation of the replicates (divisor n−1).
    pub standard_error: f64,
    /// 2.5 % and 97.5 % quantiles of the replicates.
    pub percentile: Interval,
    /// The same quantiles moved by −bias, so that they surround the value.
    pub centred: Interval,
}

/// Runs `statistic` on `replicates` sequences of draws; the replicate number is the index of the sequence,
/// so the result does not depend on threads or order.
pub fn bootstrap_replicates<E: Send>(
    plan: Bootstrap,
    stream: Stream,
    statistic: impl Fn(&mut Draws) -> Result<f64, E> + Sync,
) -> Result<Vec<f64>, E> {
    (0..plan.replicates)
        .into_par_iter()
        .map(|replicate| statistic(&mut Draws::new(plan.seed, stream, replicate as u64)))
        .collect()
}

/// Summary of the replicates of a statistic whose value on the full sample is `value`;
/// `None` for fewer than [`MIN_REPLICATES`] or when one is not a number.
pub fn summarise_replicates(
    value: f64,
    replicates: &[f64],
    seed: u64,
) -> Option<BootstrapInterval> {
    if replicates.len() < MIN_REPLICATES || replicates.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut sorted = replicates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let percentile = Interval {
        low: quantile(&sorted, 0.025)?,
        high: quantile(&sorted, 0.975)?,
    };
    let spread = mean_interval(replicates)?;
    let bias = spread.mean - value;
    Some(BootstrapInterval {
        replicates: replicates.len(),
        seed,
        bias,
        standard_error: spread.std_sample?,
        percentile,
        centred: Interval {
            low: percentile.low - bias,
            high: percentile.high - bias,
        },
    })
}

/// Percentile bootstrap of any statistic: `statistic` resamples with the draws it is given.
pub fn bootstrap<E: Send>(
    value: f64,
    plan: Bootstrap,
    stream: Stream,
    statistic: impl Fn(&mut Draws) -> Result<f64, E> + Sync,
) -> Result<Option<BootstrapInterval>, E> {
    let replicates = bootstrap_replicates(plan, stream, statistic)?;
    Ok(summarise_replicates(value, &replicates, plan.seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} vs {b}");
    }

    /// Values of R's `prop.test(x, n, correct = FALSE)`, printed to 7 digits.
    #[test]
    fn wilson_gives_known_values() {
        let eight_of_ten = wilson(8, 10).unwrap();
        close(eight_of_ten.low, 0.4901625, 5e-8);
        close(eight_of_ten.high, 0.9433178, 5e-8);
        let none_of_ten = wilson(0, 10).unwrap();
        assert_eq!(none_of_ten.low, 0.0);
        close(none_of_ten.high, 0.2775328, 5e-8);
        let all = wilson(10, 10).unwrap();
        close(all.low, 1.0 - 0.2775328, 5e-8);
        assert_eq!(all.high, 1.0);
        assert_eq!(wilson(0, 0), None);
        assert_eq!(wilson(3, 2), None);
    }

    #[test]
    fn a_mean_of_one_value_has_no_interval() {
        let one = mean_interval(&[4.0]).unwrap();
        assert_eq!(
            (one.mean, one.std_sample, one.half_width),
            (4.0, None, None)
        );
        assert_eq!(one.interval(), None);
        assert_eq!(mean_interval(&[]), None);
        let three = mean_interval(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(three.std_sample, Some(1.0));
        close(three.half_width.unwrap(), 1.96 / 3f64.sqrt(), 1e-15);
    }

    /// Quantiles of R's `qt(0.975, df)`.
    #[test]
    fn few_values_have_the_interval_of_student() {
        for (freedom, t) in [
            (1, 12.706_204_736),
            (2, 4.302_652_730),
            (3, 3.182_446_305),
            (4, 2.776_445_105),
            (5, 2.570_581_836),
            (9, 2.262_157_163),
            (10, 2.228_138_852),
            (100, 1.983_971_519),
        ] {
            close(student_975(freedom), t, 1e-8);
        }
        let two = student_interval(&[1.0, 3.0]).unwrap();
        close(two.half_width.unwrap(), 12.706_204_736, 1e-8);
        assert_eq!(student_interval(&[1.0]).unwrap().half_width, None);
    }

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        let sorted = [1.0, 2.0, 4.0];
        assert_eq!(quantile(&sorted, 0.0), Some(1.0));
        assert_eq!(quantile(&sorted, 0.75), Some(3.0));
        assert_eq!(quantile(&sorted, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn bootstrap_of_a_mean_is_repeatable_and_near_the_normal_interval() {
        let values: Vec<f64> = (0..400).map(|i| ((i * 37) % 101) as f64).collect();
        let exact = mean_interval(&values).unwrap();
        let resampled = |draws: &mut Draws| -> Result<f64, Infallible> {
            let counts = draws.resample_counts(values.len());
            let total: f64 = counts
                .iter()
                .zip(&values)
                .map(|(&c, v)| f64::from(c) * v)
                .sum();
            Ok(total / values.len() as f64)
        };
        let plan = Bootstrap {
            replicates: 1000,
            seed: 9,
        };
        let run = || {
            bootstrap(exact.mean, plan, Stream::BOOTSTRAP, resampled)
                .unwrap()
                .unwrap()
        };
        let first = run();
        let one_thread = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        assert_eq!(first, one_thread.install(run));
        let normal = exact.interval().unwrap();
        // The quantile of 1000 replicates has a standard error of about 4 % of the half width.
        let tolerance = 0.2 * exact.half_width.unwrap();
        close(first.percentile.low, normal.low, tolerance);
        close(first.percentile.high, normal.high, tolerance);
    }

    #[test]
    fn too_few_replicates_give_no_interval() {
        assert_eq!(summarise_replicates(0.0, &[0.0; 19], 0), None);
        assert!(summarise_replicates(0.0, &[0.0; 20], 0).is_some());
    }
}
