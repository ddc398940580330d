//! LIME for tables ([lime]): rows are drawn bin by bin from the training distribution, each feature becomes "in the point's quartile or
//! not", and a ridge regression weighted by nearness reads off the weights.

use super::each;
use crate::attribute::models::Model;
use crate::attribute::rows::{Rows, mean_and_std};
use crate::attribute::small_matrix::ridge;
use crate::attribute::streams;
use crate::stats::random::Draws;

#[derive(Clone, Copy, Debug)]
pub struct Lime {
    /// Rows that are drawn, the point itself being the first.
    pub samples: usize,
    /// Width of the kernel over √d.
    pub relative_width: f64,
    /// Penalty of the ridge.
    pub penalty: f64,
}

impl Default for Lime {
    fn default() -> Self {
        Self {
            samples: 5000,
            relative_width: 0.5,
            penalty: 1.0,
        }
    }
}

/// The quartile bins of a feature.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    pub quartiles: Vec<f64>,
    pub mins: Vec<f64>,
    pub maxs: Vec<f64>,
    pub means: Vec<f64>,
    pub stds: Vec<f64>,
    /// Share of the training rows in each bin.
    pub frequency: Vec<f64>,
}

/// What a point's regression found.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    pub intercept: f64,
    pub coefficients: Vec<f64>,
    /// Weighted R².
    pub score: f64,
    /// The regression's value at the point.
    pub local_prediction: f64,
}

impl Bins {
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut quartiles: Vec<f64> = [0.25, 0.5, 0.75].map(|q| percentile(&sorted, q)).to_vec();
        quartiles.dedup();
        let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
        let mut bins = Self {
            mins: [&[low][..], &quartiles].concat(),
            maxs: [&quartiles[..], &[high]].concat(),
            quartiles,
            means: Vec::new(),
            stds: Vec::new(),
            frequency: Vec::new(),
        };
        for bin in 0..bins.mins.len() {
            let own: Vec<f64> = values
                .iter()
                .copied()
                .filter(|v| bins.bin(*v) == bin)
                .collect();
            let (mean, std) = match own.is_empty() {
                true => (0.0, 0.0),
                false => mean_and_std(&own, 0),
            };
            bins.means.push(mean);
            // lime keeps the deviation away from zero.
            bins.stds.push(std + 1e-11);
            bins.frequency.push(own.len() as f64 / values.len() as f64);
        }
        bins
    }

    /// A value on a quartile belongs below it.
    pub fn bin(&self, value: f64) -> usize {
        self.quartiles.iter().filter(|q| value > **q).count()
    }

    /// A normal value cut to the bin.
    fn draw(&self, bin: usize, draws: &mut Draws) -> f64 {
        let (mean, std) = (self.means[bin], self.stds[bin]);
        let (low, high) = (self.mins[bin], self.maxs[bin]);
        if high <= low {
            return low;
        }
        for _ in 0..64 {
            let value = mean + std * draws.normal();
            if (low..=high).contains(&value) {
                return value;
            }
        }
        // A bin in the tail of its own normal: uniform values, kept by their density.
        let nearest = mean.clamp(low, high);
        let log_density = |v: f64| -0.5 * ((v - mean) / std).powi(2);
        loop {
            let value = low + (high - low) * draws.uniform();
            if draws.uniform().ln() <= log_density(value) - log_density(nearest) {
                return value;
            }
        }
    }
}

/// Of sorted values, linear between neighbours (numpy's default).
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, part) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(sorted.len() - 1);
    let (a, b) = (sorted[below], sorted[above]);
    // numpy's interpolation is exact at both ends.
    match part >= 0.5 {
        true => b - (b - a) * (1.0 - part),
        false => a + (b - a) * part,
    }
}

impl Lime {
    pub fn width(&self, d: usize) -> f64 {
        self.relative_width * (d as f64).sqrt()
    }

    pub fn explain(&self, model: &Model, train: &Rows, points: &Rows, seed: u64) -> Rows {
        let bins: Vec<Bins> = (0..train.columns)
            .map(|j| Bins::of(&train.column(j)))
            .collect();
        each(points, |i, x| {
            let mut draws = Draws::new(seed, streams::LIME, i as u64);
            let (binary, rows) = self.perturb(&bins, x, &mut draws);
            let mut response = vec![0.0; rows.len()];
            model.predict_into(&rows.values, &mut response);
            self.fit(&binary, &response).coefficients
        })
    }

    /// Rows around a point, and for each feature whether it stayed in the point's bin. The first row is the point.
    pub fn perturb(&self, bins: &[Bins], x: &[f64], draws: &mut Draws) -> (Rows, Rows) {
        let d = x.len();
        let own: Vec<usize> = bins.iter().zip(x).map(|(b, v)| b.bin(*v)).collect();
        let ends: Vec<Vec<f64>> = bins
            .iter()
            .map(|b| {
                let mut sum = 0.0;
                b.frequency
                    .iter()
                    .map(|f| {
                        sum += f;
                        sum
                    })
                    .collect()
            })
            .collect();
        let mut binary = Rows::zeros(self.samples, d);
        let mut rows = Rows::zeros(self.samples, d);
        binary.row_mut(0).fill(1.0);
        rows.row_mut(0).copy_from_slice(x);
        for i in 1..self.samples {
            for j in 0..d {
                let share = draws.uniform();
                let last = ends[j].len() - 1;
                let bin = ends[j].iter().position(|e| share < *e).unwrap_or(last);
                binary.row_mut(i)[j] = f64::from(u8::from(bin == own[j]));
                rows.row_mut(i)[j] = bins[j].draw(bin, draws);
            }
        }
        (binary, rows)
    }

    /// Distance of each row of zeros and ones to the first, and its weight √exp(−d²/width²).
    pub fn kernel(&self, binary: &Rows) -> (Vec<f64>, Vec<f64>) {
        let width = self.width(binary.columns);
        let first = binary.row(0);
        let distances: Vec<f64> = binary
            .iter()
            .map(|row| {
                let squares: f64 = row.iter().zip(first).map(|(a, b)| (a - b) * (a - b)).sum();
                squares.sqrt()
            })
            .collect();
        let weight = |d: &f64| (-(d * d) / (width * width)).exp().sqrt();
        let weights = distances.iter().map(weight).collect();
        (distances, weights)
    }

    /// The weighted ridge regression of responses on the zeros and ones.
    pub fn fit(&self, binary: &Rows, response: &[f64]) -> Fit {
        let d = binary.columns;
        // Rows with the same zeros and ones have the same distance: at most 2^d different weights.
        let (_, weights) = self.kernel(binary);
        let (intercept, coefficients) = ridge(&binary.values, d, response, &weights, self.penalty);
        let value = |row: &[f64]| {
            intercept
                + row
                    .iter()
                    .zip(&coefficients)
                    .map(|(x, c)| x * c)
                    .sum::<f64>()
        };
        let total: f64 = weights.iter().sum();
        let mean = weights
            .iter()
            .zip(response)
            .map(|(w, y)| w * y)
            .sum::<f64>()
            / total;
        let (mut missed, mut spread) = (0.0, 0.0);
        for ((row, y), w) in binary.iter().zip(response).zip(&weights) {
            missed += w * (y - value(row)).powi(2);
            spread += w * (y - mean).powi(2);
        }
        Fit {
            score: 1.0 - missed / spread,
            local_prediction: value(binary.row(0)),
            intercept,
            coefficients,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_their_bin_and_have_its_mean() {
        let values: Vec<f64> = (0..400).map(|i| (f64::from(i) / 60.0).exp()).collect();
        let bins = Bins::of(&values);
        let mut draws = Draws::new(4, streams::LIME, 0);
        for bin in 0..4 {
            let drawn: Vec<f64> = (0..2000).map(|_| bins.draw(bin, &mut draws)).collect();
            let inside = drawn
                .iter()
                .all(|v| *v >= bins.mins[bin] && *v <= bins.maxs[bin]);
            assert!(inside, "{bin}");
        }
        let tail = Bins {
            quartiles: Vec::new(),
            mins: vec![5.0],
            maxs: vec![6.0],
            means: vec![0.0],
            stds: vec![1.0],
            frequency: vec![1.0],
        };
        let mean = (0..2000).map(|_| tail.draw(0, &mut draws)).sum::<f64>() / 2000.0;
        // The mean of a normal cut to [5, 6] is 5.186.
        assert!((mean - 5.186).abs() < 0.02, "{mean}");
    }
}
