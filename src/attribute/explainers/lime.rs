//! LIME for tables (\[lime\]): rows are drawn bin by bin from the training distribution, each feature becomes "in the point's quartile or
//! not", and a ridge regression weighted by nearness reads off the weights.

use super::each;
use crate::attribute::models::Model;
use crate::attribute::rows::{Rows, mean_and_std};
use crate::attribute::small_matrix::ridge;
use crate::attribute::{normal_curve, streams};
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
}

/// Strips that each bin is cut into, for drawing.
const STRIPS: usize = 64;
/// Standard deviations beyond which a normal has nothing left.
const FARTHEST: f64 = 9.0;

/// Draws a bin by its frequency and in it a normal value cut to the bin: by rejection below steps, one for each strip, that are chosen by an alias table.
/// A try takes three uniform numbers, and few need the density itself.
struct Sampler {
    strips: Vec<Strip>,
    /// Of each strip the share of its turns that it keeps, and the strip that gets the others.
    alias: Vec<(f64, usize)>,
}

#[derive(Clone, Copy)]
struct Strip {
    bin: usize,
    from: f64,
    to: f64,
    mean: f64,
    std: f64,
    /// Largest logarithm of the density, and the least density over the largest.
    most: f64,
    least: f64,
}

impl Strip {
    fn log_density(&self, value: f64) -> f64 {
        let z = (value - self.mean) / self.std;
        -0.5 * z * z
    }
}

impl Sampler {
    fn new(bins: &Bins) -> Self {
        let (mut strips, mut shares) = (Vec::new(), Vec::new());
        for bin in 0..bins.mins.len() {
            let (mean, std) = (bins.means[bin], bins.stds[bin]);
            let (low, high) = (bins.mins[bin], bins.maxs[bin]);
            let from = low.max(mean - FARTHEST * std);
            let to = high.min(mean + FARTHEST * std);
            // Rounding would decide where in so narrow a bin a value falls: all values of it are the same.
            if from >= to || std <= 1e-9 * (1.0 + mean.abs()) {
                let at = mean.clamp(low, high.max(low));
                let (most, least) = (0.0, 1.0);
                strips.push(Strip {
                    bin,
                    from: at,
                    to: at,
                    mean,
                    std,
                    most,
                    least,
                });
                shares.push(bins.frequency[bin]);
                continue;
            }
            let below = |v: f64| normal_curve::cumulative((v - mean) / std);
            // Of all tries in a bin this share is kept, so a bin that loses many is tried more often.
            let mass = std * std::f64::consts::TAU.sqrt() * (below(to) - below(from));
            let width = (to - from) / STRIPS as f64;
            for k in 0..STRIPS {
                let mut strip = Strip {
                    bin,
                    from: from + width * k as f64,
                    to: if k + 1 == STRIPS {
                        to
                    } else {
                        from + width * (k + 1) as f64
                    },
                    mean,
                    std,
                    most: 0.0,
                    least: 0.0,
                };
                let ends = [strip.log_density(strip.from), strip.log_density(strip.to)];
                if !(strip.from..=strip.to).contains(&mean) {
                    strip.most = ends[0].max(ends[1]);
                }
                strip.least = (ends[0].min(ends[1]) - strip.most).exp();
                shares.push(bins.frequency[bin] * width * strip.most.exp() / mass);
                strips.push(strip);
            }
        }
        Self {
            alias: alias(&shares),
            strips,
        }
    }

    /// Bin and value.
    fn draw(&self, draws: &mut Draws) -> (usize, f64) {
        loop {
            let at = draws.uniform() * self.strips.len() as f64;
            let (kept, other) = self.alias[at as usize];
            let strip = match at.fract() < kept {
                true => &self.strips[at as usize],
                false => &self.strips[other],
            };
            let value = strip.from + (strip.to - strip.from) * draws.uniform();
            let height = draws.uniform();
            if height <= strip.least || height.ln() <= strip.log_density(value) - strip.most {
                return (strip.bin, value.min(strip.to));
            }
        }
    }
}

/// Walker's alias table of shares (Vose 1991): entry k keeps a share of its turns and gives the others to one more.
fn alias(shares: &[f64]) -> Vec<(f64, usize)> {
    let n = shares.len();
    let total: f64 = shares.iter().sum();
    let mut left: Vec<f64> = shares.iter().map(|s| s / total * n as f64).collect();
    let mut table: Vec<(f64, usize)> = (0..n).map(|k| (1.0, k)).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&k| left[k] < 1.0);
    while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
        table[poor] = (left[poor], rich);
        left[rich] -= 1.0 - left[poor];
        if left[rich] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    table
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
        let samplers: Vec<Sampler> = bins.iter().map(Sampler::new).collect();
        each(points, |i, x| {
            let mut draws = Draws::new(seed, streams::LIME, i as u64);
            let own: Vec<usize> = bins.iter().zip(x).map(|(b, v)| b.bin(*v)).collect();
            let (binary, rows) = self.perturb(&samplers, &own, x, &mut draws);
            let mut response = vec![0.0; rows.len()];
            model.predict_into(&rows.values, &mut response);
            self.fit(&binary, &response).coefficients
        })
    }

    /// Rows around a point, and for each feature whether it stayed in the point's bin. The first row is the point.
    fn perturb(
        &self,
        samplers: &[Sampler],
        own: &[usize],
        x: &[f64],
        draws: &mut Draws,
    ) -> (Rows, Rows) {
        let d = x.len();
        let mut binary = Rows::zeros(self.samples, d);
        let mut rows = Rows::zeros(self.samples, d);
        binary.row_mut(0).fill(1.0);
        rows.row_mut(0).copy_from_slice(x);
        for i in 1..self.samples {
            for (j, sampler) in samplers.iter().enumerate() {
                let (bin, value) = sampler.draw(draws);
                binary.row_mut(i)[j] = f64::from(u8::from(bin == own[j]));
                rows.row_mut(i)[j] = value;
            }
        }
        (binary, rows)
    }

    /// Distance of each row of zeros and ones to the first, and its weight √exp(−d²/width²).
    pub fn kernel(&self, binary: &Rows) -> (Vec<f64>, Vec<f64>) {
        let width = self.width(binary.columns);
        let first = binary.row(0);
        // Of zeros and ones a squared distance is a number of features.
        let known: Vec<(f64, f64)> = (0..=binary.columns)
            .map(|count| (count as f64).sqrt())
            .map(|d| (d, (-(d * d) / (width * width)).exp().sqrt()))
            .collect();
        let of_row = |row: &[f64]| {
            let apart = row.iter().zip(first).filter(|(a, b)| a != b);
            known[apart.count()]
        };
        binary.iter().map(of_row).unzip()
    }

    /// The weighted ridge regression of responses on the zeros and ones.
    pub fn fit(&self, binary: &Rows, response: &[f64]) -> Fit {
        let d = binary.columns;
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
        let sampler = Sampler::new(&bins);
        let drawn: Vec<(usize, f64)> = (0..8000).map(|_| sampler.draw(&mut draws)).collect();
        for bin in 0..4 {
            let own = drawn.iter().filter(|(b, _)| *b == bin).map(|(_, v)| *v);
            let own: Vec<f64> = own.collect();
            // Each bin has a quarter of the rows; five standard errors are 0.024.
            assert!((own.len() as f64 / 8000.0 - 0.25).abs() < 0.024, "{bin}");
            let (low, high) = (bins.mins[bin], bins.maxs[bin]);
            assert!(own.iter().all(|v| (low..=high).contains(v)), "{bin}");
            // Mean and deviation of a normal cut to the bin, by the midpoints of 1000 strips.
            let (m, s) = (bins.means[bin], bins.stds[bin]);
            let at: Vec<f64> = (0..1000)
                .map(|k| low + (high - low) * (f64::from(k) + 0.5) / 1000.0)
                .collect();
            let density = |v: f64| (-0.5 * ((v - m) / s).powi(2)).exp();
            let moment = |f: &dyn Fn(f64) -> f64| -> f64 {
                let total: f64 = at.iter().map(|v| density(*v)).sum();
                at.iter().map(|v| density(*v) * f(*v)).sum::<f64>() / total
            };
            let mean = moment(&|v| v);
            let std = moment(&|v| (v - mean).powi(2)).sqrt();
            let (found_mean, found_std) = mean_and_std(&own, 1);
            let error = std / (own.len() as f64).sqrt();
            assert!(
                (found_mean - mean).abs() < 5.0 * error,
                "{bin}: {found_mean} {mean}"
            );
            assert!(
                (found_std - std).abs() < 5.0 * error,
                "{bin}: {found_std} {std}"
            );
        }
        let tail = Bins {
            quartiles: Vec::new(),
            mins: vec![5.0],
            maxs: vec![6.0],
            means: vec![0.0],
            stds: vec![1.0],
            frequency: vec![1.0],
        };
        let sampler = Sampler::new(&tail);
        let sum: f64 = (0..2000).map(|_| sampler.draw(&mut draws).1).sum();
        let mean = sum / 2000.0;
        // The mean of a normal cut to [5, 6] is 5.186.
        assert!((mean - 5.186).abs() < 0.02, "{mean}");
        // Most values the same, as in counts: bins of one value give that value.
        let counts: Vec<f64> = (0..100).map(|i| f64::from(u8::from(i >= 90))).collect();
        let bins = Bins::of(&counts);
        let sampler = Sampler::new(&bins);
        for _ in 0..1000 {
            let (bin, value) = sampler.draw(&mut draws);
            let low_or_high =
                (bin == 0 && value.abs() < 1e-9) || (bin > 0 && (value - 1.0).abs() < 1e-9);
            assert!(low_or_high, "{bin} {value}");
        }
    }
}
