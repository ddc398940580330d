//! Multinomial features: counts of `trials` draws among d kinds. Given some counts, the rest is multinomial again, with the trials
//! that are left and the probabilities pⱼ/(1 − Σ p of the known).

use super::normal::pick;
use crate::attribute::error::{AttributionError, Result};
use crate::attribute::subsets::{Subset, contains};
use crate::stats::random::Draws;

#[derive(Clone, Debug, PartialEq)]
pub struct Multinomial {
    trials: usize,
    probabilities: Vec<f64>,
}

impl Multinomial {
    pub fn new(trials: usize, probabilities: Vec<f64>) -> Result<Self> {
        let d = probabilities.len();
        if trials == 0 || !(2..=63).contains(&d) {
            return Err(AttributionError::setting(
                "multinomial features",
                "at least 1 trial and 2 to 63 kinds",
                format!("{trials} trials and {d} kinds"),
            ));
        }
        let total: f64 = probabilities.iter().sum();
        let wrong = probabilities.iter().find(|p| !(**p > 0.0 && **p < 1.0));
        if wrong.is_some() || (total - 1.0).abs() > 1e-6 {
            return Err(AttributionError::setting(
                "probabilities of the kinds",
                "numbers between 0 and 1 that add up to 1",
                format!("{probabilities:?}"),
            ));
        }
        let probabilities = probabilities.iter().map(|p| p / total).collect();
        Ok(Self {
            trials,
            probabilities,
        })
    }

    pub fn dimension(&self) -> usize {
        self.probabilities.len()
    }

    pub fn trials(&self) -> usize {
        self.trials
    }

    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    pub fn given(&self, subset: Subset, independent: bool) -> MultinomialGiven {
        MultinomialGiven {
            trials: self.trials,
            probabilities: self.probabilities.clone(),
            subset,
            independent,
        }
    }

    /// Refuses a row that is no row of counts.
    pub fn check(&self, x: &[f64]) -> Result<()> {
        let whole = x.iter().all(|v| *v >= 0.0 && v.fract() == 0.0);
        let sum: f64 = x.iter().sum();
        match whole && sum == self.trials as f64 {
            true => Ok(()),
            false => Err(AttributionError::mismatch(
                "a row of multinomial features",
                format!("whole counts that add up to {}", self.trials),
                format!("{x:?}"),
            )),
        }
    }
}

/// The other counts, given some.
#[derive(Clone, Debug)]
pub struct MultinomialGiven {
    trials: usize,
    probabilities: Vec<f64>,
    subset: Subset,
    independent: bool,
}

impl MultinomialGiven {
    /// Trials that are left, and the probability of each unknown kind.
    fn rest(&self, x: &[f64]) -> (f64, Vec<f64>) {
        let known = |j: usize| contains(self.subset, j);
        let d = self.probabilities.len();
        if self.independent {
            return (self.trials as f64, self.probabilities.clone());
        }
        let taken: f64 = (0..d).filter(|&j| known(j)).map(|j| x[j]).sum();
        let free = |j: &usize| !known(*j);
        // Added up over the free kinds: 1 − Σ of the known loses all digits when one kind is left.
        let total: f64 = (0..d).filter(free).map(|j| self.probabilities[j]).sum();
        let shares = (0..d)
            .map(|j| match known(j) {
                true => 0.0,
                false => self.probabilities[j] / total,
            })
            .collect();
        ((self.trials as f64 - taken).max(0.0), shares)
    }

    pub fn mean(&self, x: &[f64]) -> Vec<f64> {
        let (left, shares) = self.rest(x);
        let value = |(j, q): (usize, &f64)| match contains(self.subset, j) {
            true => x[j],
            false => left * q,
        };
        shares.iter().enumerate().map(value).collect()
    }

    pub fn covariance(&self, x: &[f64]) -> Vec<f64> {
        let (left, q) = self.rest(x);
        let d = q.len();
        (0..d * d)
            .map(|k| {
                let (i, j) = (k / d, k % d);
                if contains(self.subset, i) || contains(self.subset, j) {
                    return 0.0;
                }
                let own = if i == j { q[i] } else { 0.0 };
                left * (own - q[i] * q[j])
            })
            .collect()
    }

    pub fn draw(&self, x: &[f64], draws: &mut Draws, out: &mut [f64]) {
        let (left, shares) = self.rest(x);
        let mut counts = vec![0.0; shares.len()];
        for _ in 0..left as usize {
            counts[pick(&shares, draws)] += 1.0;
        }
        for (j, out) in out.iter_mut().enumerate() {
            *out = match contains(self.subset, j) {
                true => x[j],
                false => counts[j],
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_count_is_determined_by_the_others() {
        let data = Multinomial::new(20, vec![0.2, 0.3, 0.1, 0.1, 0.3]).unwrap();
        let given = data.given(0b01111, false);
        let x = [6.0, 4.0, 0.0, 2.0, 0.0];
        assert_eq!(given.mean(&x)[4], 8.0);
        assert!(given.covariance(&x).iter().all(|v| *v == 0.0));
        let mut out = [0.0; 5];
        let stream = crate::stats::random::Stream(0);
        given.draw(&x, &mut Draws::new(1, stream, 0), &mut out);
        assert_eq!(out, [6.0, 4.0, 0.0, 2.0, 8.0]);
    }

    #[test]
    fn probabilities_and_counts_that_make_no_sense_are_refused() {
        assert!(Multinomial::new(5, vec![0.5, 0.6]).is_err());
        let data = Multinomial::new(5, vec![0.5, 0.5]).unwrap();
        assert!(data.check(&[2.0, 3.0]).is_ok());
        let error = data.check(&[2.5, 2.5]).unwrap_err().to_string();
        assert!(error.contains("add up to 5"), "{error}");
    }
}
