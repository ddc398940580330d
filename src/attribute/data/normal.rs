//! Gaussian features and mixtures of them, with exact conditional distributions.
//!
//! Given x₂ the rest is normal with mean μ₁ + Σ₁₂Σ₂₂⁻¹(x₂ − μ₂) and covariance Σ₁₁ − Σ₁₂Σ₂₂⁻¹Σ₂₁ ([xai-bench] eq. 5, whose plus is
//! a misprint). A mixture weighs its components by how well they explain x₂.

use crate::attribute::error::{AttributionError, Result};
use crate::attribute::small_matrix::{cholesky, cholesky_semidefinite, solve_cholesky, times};
use crate::attribute::subsets::{Subset, contains};
use crate::stats::random::Draws;

/// One component.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    pub weight: f64,
    pub mean: Vec<f64>,
    /// Row-major, d × d.
    pub covariance: Vec<f64>,
}

/// A mixture of Gaussians; one component is a Gaussian.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    components: Vec<Component>,
    dimension: usize,
}

impl Normal {
    pub fn gaussian(mean: Vec<f64>, covariance: Vec<f64>) -> Result<Self> {
        Self::mixture(vec![Component {
            weight: 1.0,
            mean,
            covariance,
        }])
    }

    /// Zero mean, unit variances, `rho` between any two features.
    pub fn equicorrelated(d: usize, rho: f64) -> Result<Self> {
        let covariance = (0..d * d)
            .map(|i| if i % (d + 1) == 0 { 1.0 } else { rho })
            .collect();
        Self::gaussian(vec![0.0; d], covariance)
    }

    pub fn mixture(mut components: Vec<Component>) -> Result<Self> {
        let d = components.first().map_or(0, |c| c.mean.len());
        if d == 0 || d > 63 {
            return Err(AttributionError::setting(
                "number of features",
                "1 to 63",
                d.to_string(),
            ));
        }
        for (k, component) in components.iter().enumerate() {
            let what = format!("covariance of component {}", k + 1);
            let size = component.covariance.len();
            if component.mean.len() != d || size != d * d {
                let expected = format!("{d} means and {d} x {d} covariances");
                let found = format!("{} means and {size} covariances", component.mean.len());
                return Err(AttributionError::mismatch(what, expected, found));
            }
            check_positive_definite(&what, &component.covariance, d)?;
            if let Some(wrong) = component.mean.iter().find(|m| !m.is_finite()) {
                let what = format!("means of component {}", k + 1);
                let found = wrong.to_string();
                return Err(AttributionError::setting(what, "finite numbers", found));
            }
            if !(component.weight > 0.0 && component.weight.is_finite()) {
                return Err(AttributionError::setting(
                    format!("weight of component {}", k + 1),
                    "a positive number",
                    component.weight.to_string(),
                ));
            }
        }
        let total: f64 = components.iter().map(|c| c.weight).sum();
        components.iter_mut().for_each(|c| c.weight /= total);
        Ok(Self {
            components,
            dimension: d,
        })
    }

    pub fn dimension(&self) -> usize {
        self.dimension
    }

    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// Everything about the other features that does not depend on the values of those in `subset`. With `independent` the known
    /// features say nothing about the others (the interventional conditional).
    pub fn given(&self, subset: Subset, independent: bool) -> NormalGiven {
        let parts = self
            .components
            .iter()
            .map(|c| Part::new(c, subset, independent))
            .collect();
        NormalGiven {
            dimension: self.dimension,
            independent,
            parts,
        }
    }
}

fn check_positive_definite(what: &str, s: &[f64], d: usize) -> Result<()> {
    let fail = |found: String| AttributionError::NotPositiveDefinite {
        what: what.into(),
        found,
    };
    for i in 0..d {
        for j in 0..i {
            let (a, b) = (s[i * d + j], s[j * d + i]);
            if (a - b).abs() > 1e-9 * (a.abs() + b.abs() + 1.0) || !a.is_finite() {
                let found = format!("{a} at row {}, column {} and {b} mirrored", i + 1, j + 1);
                return Err(fail(found));
            }
        }
    }
    if cholesky(s, d).is_none() {
        let at = (1..=d).find(|&k| {
            let corner: Vec<f64> = (0..k * k).map(|i| s[i / k * d + i % k]).collect();
            cholesky(&corner, k).is_none()
        });
        let at = at.unwrap_or(d);
        let variance = s[(at - 1) * d + at - 1];
        let why = match variance > 0.0 {
            true => {
                "correlations this strong contradict each other; take a smaller --rho or another matrix"
                    .into()
            }
            false => format!("feature {at} has the variance {variance}"),
        };
        return Err(fail(format!(
            "one whose first {at} rows and columns have no Cholesky factor: {why}"
        )));
    }
    Ok(())
}

/// The other features, given some.
#[derive(Clone, Debug)]
pub struct NormalGiven {
    dimension: usize,
    independent: bool,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    weight: f64,
    mean: Vec<f64>,
    free: Vec<usize>,
    fixed: Vec<usize>,
    /// Σ₁₂Σ₂₂⁻¹, a row for each free feature.
    gain: Vec<f64>,
    covariance: Vec<f64>,
    factor: Vec<f64>,
    /// Cholesky factor of Σ₂₂.
    fixed_factor: Vec<f64>,
}

impl Part {
    fn new(component: &Component, subset: Subset, independent: bool) -> Self {
        let d = component.mean.len();
        let (fixed, free): (Vec<usize>, Vec<usize>) = (0..d).partition(|&j| contains(subset, j));
        let sigma = |i: usize, j: usize| component.covariance[i * d + j];
        let (n, m) = (free.len(), fixed.len());
        let fixed_covariance: Vec<f64> = (0..m * m)
            .map(|k| sigma(fixed[k / m], fixed[k % m]))
            .collect();
        let fixed_factor = cholesky_semidefinite(&fixed_covariance, m);
        let mut gain = vec![0.0; n * m];
        let mut covariance: Vec<f64> = (0..n * n)
            .map(|k| sigma(free[k / n], free[k % n]))
            .collect();
        if !independent && m > 0 {
            for (row, &i) in gain.chunks_exact_mut(m).zip(&free) {
                for (g, &j) in row.iter_mut().zip(&fixed) {
                    *g = sigma(i, j);
                }
                solve_cholesky(&fixed_factor, m, row);
            }
            for a in 0..n {
                for b in 0..n {
                    let taken: f64 = (0..m)
                        .map(|k| gain[a * m + k] * sigma(fixed[k], free[b]))
                        .sum();
                    covariance[a * n + b] -= taken;
                }
            }
        }
        Self {
            weight: component.weight,
            mean: component.mean.clone(),
            factor: cholesky_semidefinite(&covariance, n),
            free,
            fixed,
            gain,
            covariance,
            fixed_factor,
        }
    }

    /// Means of the free features.
    fn free_means(&self, x: &[f64]) -> impl Iterator<Item = f64> + '_ {
        let m = self.fixed.len();
        let from_mean: Vec<f64> = self.fixed.iter().map(|&j| x[j] - self.mean[j]).collect();
        self.free.iter().enumerate().map(move |(k, &i)| {
            let row = &self.gain[k * m..(k + 1) * m];
            self.mean[i] + row.iter().zip(&from_mean).map(|(g, v)| g * v).sum::<f64>()
        })
    }

    /// ln of weight times density of the known features, without the constant that all components share.
    fn log_share(&self, x: &[f64]) -> f64 {
        let m = self.fixed.len();
        let mut z: Vec<f64> = self.fixed.iter().map(|&j| x[j] - self.mean[j]).collect();
        let mut sum = self.weight.ln();
        for i in 0..m {
            let row = &self.fixed_factor[i * m..];
            let inner: f64 = (0..i).map(|k| row[k] * z[k]).sum();
            z[i] = (z[i] - inner) / row[i];
            sum -= 0.5 * z[i] * z[i] + row[i].ln();
        }
        sum
    }
}

impl NormalGiven {
    /// How probable each component is, given the known features of x.
    pub fn responsibilities(&self, x: &[f64]) -> Vec<f64> {
        if self.independent || self.parts.len() == 1 {
            return self.parts.iter().map(|p| p.weight).collect();
        }
        let logs: Vec<f64> = self.parts.iter().map(|p| p.log_share(x)).collect();
        let most = logs.iter().fold(f64::NEG_INFINITY, |m, &v| m.max(v));
        let shares: Vec<f64> = logs.iter().map(|v| (v - most).exp()).collect();
        let total: f64 = shares.iter().sum();
        shares.iter().map(|s| s / total).collect()
    }

    /// Number of components.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The mean of one component; known features are those of x.
    pub fn part_mean(&self, part: usize, x: &[f64]) -> Vec<f64> {
        let part = &self.parts[part];
        let mut mean = x.to_vec();
        for (&i, value) in part.free.iter().zip(part.free_means(x)) {
            mean[i] = value;
        }
        mean
    }

    /// Variance of Σ aᵢxᵢ within a component.
    pub fn variance_along(&self, part: usize, a: &[f64]) -> f64 {
        let part = &self.parts[part];
        let n = part.free.len();
        let free: Vec<f64> = part.free.iter().map(|&i| a[i]).collect();
        let moved = times(&part.covariance, n, &free);
        free.iter()
            .zip(&moved)
            .map(|(x, y)| x * y)
            .sum::<f64>()
            .max(0.0)
    }

    /// Conditional mean; known features are those of x.
    pub fn mean(&self, x: &[f64]) -> Vec<f64> {
        let mut mean = vec![0.0; self.dimension];
        for (k, share) in self.responsibilities(x).iter().enumerate() {
            for (sum, value) in mean.iter_mut().zip(self.part_mean(k, x)) {
                *sum += share * value;
            }
        }
        mean
    }

    /// Conditional covariance, d × d (law of total covariance); zero for known features.
    pub fn covariance(&self, x: &[f64]) -> Vec<f64> {
        let d = self.dimension;
        let mean = self.mean(x);
        let mut total = vec![0.0; d * d];
        for (k, share) in self.responsibilities(x).iter().enumerate() {
            let part = &self.parts[k];
            let own = self.part_mean(k, x);
            let n = part.free.len();
            for a in 0..n {
                for b in 0..n {
                    let (i, j) = (part.free[a], part.free[b]);
                    let between = (own[i] - mean[i]) * (own[j] - mean[j]);
                    total[i * d + j] += share * (part.covariance[a * n + b] + between);
                }
            }
        }
        total
    }

    /// One draw into `out`; known features are those of x.
    pub fn draw(&self, x: &[f64], draws: &mut Draws, out: &mut [f64]) {
        let shares = self.responsibilities(x);
        let part = match shares.len() {
            1 => 0,
            _ => pick(&shares, draws),
        };
        self.draw_part(part, x, draws, out);
    }

    /// One draw of one component.
    pub fn draw_part(&self, part: usize, x: &[f64], draws: &mut Draws, out: &mut [f64]) {
        let part = &self.parts[part];
        let n = part.free.len();
        out.copy_from_slice(x);
        let z: Vec<f64> = (0..n).map(|_| draws.normal()).collect();
        for (a, (&i, mean)) in part.free.iter().zip(part.free_means(x)).enumerate() {
            let row = &part.factor[a * n..=a * n + a];
            out[i] = mean + row.iter().zip(&z).map(|(l, z)| l * z).sum::<f64>();
        }
    }

    /// What a draw of the only component adds to the conditional mean: the same for every x.
    pub fn draw_deviation(&self, draws: &mut Draws, out: &mut [f64]) {
        let part = &self.parts[0];
        let n = part.free.len();
        out.fill(0.0);
        let z: Vec<f64> = (0..n).map(|_| draws.normal()).collect();
        for (a, &i) in part.free.iter().enumerate() {
            let row = &part.factor[a * n..=a * n + a];
            out[i] = row.iter().zip(&z).map(|(l, z)| l * z).sum::<f64>();
        }
    }
}

/// An index drawn with the given shares.
pub fn pick(shares: &[f64], draws: &mut Draws) -> usize {
    let mut rest = draws.uniform() * shares.iter().sum::<f64>();
    for (k, share) in shares.iter().enumerate() {
        rest -= share;
        if rest < 0.0 {
            return k;
        }
    }
    shares.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_that_is_no_covariance_is_refused_with_its_place() {
        let error = Normal::equicorrelated(3, -0.9).unwrap_err().to_string();
        assert!(
            error.contains("first 3 rows") && error.contains("--rho"),
            "{error}"
        );
        let lopsided = Normal::gaussian(vec![0.0; 2], vec![1.0, 0.2, 0.3, 1.0]);
        assert!(lopsided.unwrap_err().to_string().contains("mirrored"));
        let flat = Normal::gaussian(vec![0.0; 2], vec![1.0, 0.0, 0.0, 0.0]);
        let error = flat.unwrap_err().to_string();
        assert!(error.contains("feature 2 has the variance 0"), "{error}");
        let nowhere = Normal::gaussian(vec![0.0, f64::NAN], vec![1.0, 0.0, 0.0, 1.0]);
        assert!(nowhere.unwrap_err().to_string().contains("finite"));
        let short = Normal::gaussian(vec![0.0; 3], vec![1.0; 4]).unwrap_err();
        assert!(short.to_string().contains("3 x 3"), "{short}");
    }

    #[test]
    fn a_pair_has_the_textbook_conditional() {
        let pair = Normal::gaussian(vec![1.0, -1.0], vec![4.0, 1.2, 1.2, 1.0]).unwrap();
        let given = pair.given(0b10, false);
        let x = [9.0, 0.5];
        assert!((given.mean(&x)[0] - (1.0 + 1.2 * 1.5)).abs() < 1e-14);
        assert!((given.covariance(&x)[0] - (4.0 - 1.44)).abs() < 1e-14);
        let apart = pair.given(0b10, true);
        assert_eq!(apart.mean(&x), [1.0, 0.5]);
        assert_eq!(apart.covariance(&x), [4.0, 0.0, 0.0, 0.0]);
    }
}
