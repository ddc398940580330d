//! Friedman's test of k treatments on N blocks, Iman and Davenport's F, and Nemenyi's critical difference (Demšar 2006).
//!
//! χ² = 12N/(k(k+1)) Σ (R̄ − (k+1)/2)²; with ties divided by 1 − Σ(t³−t)/(N(k³−k)). F = (N−1)χ²/(N(k−1)−χ²).
//! CD = q √(k(k+1)/(6N)), q the 5 % point of the studentised range over √2. Two treatments differ if their mean ranks are further apart than CD.

use serde::Serialize;

use super::distributions::{
    chi_squared_upper, f_critical, f_upper, studentized_range_critical, studentized_range_upper,
};
use super::interval::{Bootstrap, Interval, bootstrap_replicates, quantile};
use super::random::{Draws, Stream};
use super::ranks::mean_ranks;

/// What a test needs to be rejected at.
pub const LEVEL: f64 = 0.05;

/// Printed 5 % points of Nemenyi's test for 2 to 20 treatments.
const PRINTED: [f64; 19] = [
    1.960, 2.344, 2.569, 2.728, 2.850, 2.948, 3.031, 3.102, 3.164, 3.219, 3.268, 3.313, 3.354,
    3.391, 3.426, 3.458, 3.489, 3.517, 3.544,
];

/// The test with everything that is printed of it.
#[derive(Clone, Debug, Serialize)]
pub struct Friedman {
    pub blocks: usize,
    pub mean_ranks: Vec<f64>,
    /// Without tie correction, as the benchmark computed it.
    pub chi_squared: f64,
    pub p_chi_squared: f64,
    /// Corrected for ties; none where only mean ranks are known or all values are tied.
    pub chi_squared_ties: Option<f64>,
    pub p_chi_squared_ties: Option<f64>,
    pub iman_davenport: f64,
    pub p_iman_davenport: f64,
    /// 5 % point of F with (k−1, (k−1)(N−1)) degrees of freedom.
    pub critical_f: f64,
    /// The same with (k−1, N−1), as the benchmark took it.
    pub critical_f_as_published: f64,
    pub rejected: bool,
    pub critical_difference: f64,
    /// With q rounded to three digits, as in printed tables; none beyond 20 treatments.
    pub critical_difference_printed: Option<f64>,
    /// Treatments within the critical difference of the best, if the test is rejected; else all.
    pub best: Vec<usize>,
}

impl Friedman {
    /// From the ranks of each block. `None` for fewer than two blocks or treatments.
    pub fn of_ranks(blocks: &[Vec<f64>]) -> Option<Self> {
        let means = mean_ranks(blocks);
        let mut test = Self::of_mean_ranks(&means, blocks.len())?;
        let (n, k) = (blocks.len() as f64, means.len() as f64);
        let tied: f64 = blocks.iter().map(|b| tie_sum(b)).sum();
        let correction = 1.0 - tied / (n * (k * k * k - k));
        if correction > 0.0 {
            let corrected = test.chi_squared / correction;
            test.chi_squared_ties = Some(corrected);
            test.p_chi_squared_ties = Some(chi_squared_upper(corrected, k - 1.0));
        }
        Some(test)
    }

    /// From mean ranks over `blocks` blocks.
    pub fn of_mean_ranks(means: &[f64], blocks: usize) -> Option<Self> {
        if means.len() < 2 || blocks < 2 {
            return None;
        }
        let (n, k) = (blocks as f64, means.len() as f64);
        // By deviations: rounded mean ranks need not add up.
        let squares: f64 = means.iter().map(|r| (r - (k + 1.0) / 2.0).powi(2)).sum();
        let chi = 12.0 * n / (k * (k + 1.0)) * squares;
        let f = (n - 1.0) * chi / (n * (k - 1.0) - chi);
        let (df1, df2) = (k - 1.0, (k - 1.0) * (n - 1.0));
        let critical_as_published = f_critical(LEVEL, df1, n - 1.0);
        let spread = (k * (k + 1.0) / (6.0 * n)).sqrt();
        let q = studentized_range_critical(LEVEL, means.len()) / 2f64.sqrt();
        let printed = PRINTED.get(means.len() - 2).map(|q| q * spread);
        let rejected = f > critical_as_published;
        let smallest = means.iter().copied().fold(f64::INFINITY, f64::min);
        let reach = printed.unwrap_or(q * spread);
        let close = |&j: &usize| !rejected || means[j] - smallest <= reach;
        Some(Self {
            blocks,
            mean_ranks: means.to_vec(),
            chi_squared: chi,
            p_chi_squared: chi_squared_upper(chi, df1),
            chi_squared_ties: None,
            p_chi_squared_ties: None,
            iman_davenport: f,
            p_iman_davenport: f_upper(f, df1, df2),
            critical_f: f_critical(LEVEL, df1, df2),
            critical_f_as_published: critical_as_published,
            rejected,
            critical_difference: q * spread,
            critical_difference_printed: printed,
            best: (0..means.len()).filter(close).collect(),
        })
    }

    /// Nemenyi's p value of each pair, row by row.
    pub fn nemenyi(&self) -> Vec<Vec<f64>> {
        let k = self.mean_ranks.len();
        let scale = ((k * (k + 1)) as f64 / (6.0 * self.blocks as f64)).sqrt();
        let p = |i: usize, j: usize| match i == j {
            true => 1.0,
            false => {
                let q = (self.mean_ranks[i] - self.mean_ranks[j]).abs() / scale * 2f64.sqrt();
                studentized_range_upper(q, k)
            }
        };
        (0..k).map(|i| (0..k).map(|j| p(i, j)).collect()).collect()
    }
}

fn tie_sum(ranks: &[f64]) -> f64 {
    let mut sorted = ranks.to_vec();
    sorted.sort_by(f64::total_cmp);
    let groups = sorted.chunk_by(|a, b| a == b).map(|g| g.len() as f64);
    groups.map(|t| t * t * t - t).sum()
}

/// Percentile intervals of mean ranks: blocks are resampled.
pub fn rank_intervals(blocks: &[Vec<f64>], plan: Bootstrap) -> Vec<Interval> {
    let k = blocks.first().map_or(0, Vec::len);
    let interval = |j: usize| {
        let statistic = |draws: &mut Draws| -> Result<f64, std::convert::Infallible> {
            let counts = draws.resample_counts(blocks.len());
            let each = blocks
                .iter()
                .zip(&counts)
                .map(|(b, &c)| b[j] * f64::from(c));
            Ok(each.sum::<f64>() / blocks.len() as f64)
        };
        let mut values = match bootstrap_replicates(plan, Stream::RANK_BOOTSTRAP, statistic) {
            Ok(values) => values,
            Err(never) => match never {},
        };
        values.sort_by(f64::total_cmp);
        let at = |q: f64| quantile(&values, q).unwrap_or(f64::NAN);
        Interval {
            low: at(0.025),
            high: at(0.975),
        }
    };
    (0..k).map(interval).collect()
}
