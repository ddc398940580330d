//! The evaluator published with \[quantitative-evaluations\] (EvaluatingCounterfactuals), over arrays.
//!
//! Every metric is a mean over kept samples with 1.96 × population std/√n. A sample is skipped when the counterfactual failed
//! (prediction −1) or when the mean of its counterfactual equals the lowest value `xmin` (an all-black image); TCV skips nothing.
//! EN = L1 + L2 norm of the change; TCV = 1 when the prediction changed (to any class; −1 counts as 0);
//! Oracle = 1 when the oracle predicts the target; LVS = Jensen–Shannon divergence of label probabilities.
//! `n_samples` stops the loop after so many kept samples: −1 means all, 0 processes one (the test follows the first sample).

use serde::Serialize;

use crate::stats::interval::{Z_95_PRINTED, mean, std_population};

use super::error::{MetricError, Result};
use super::jensen_shannon::{Probabilities, Protocol, jensen_shannon};
use super::lp;

/// Mean with the published interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    pub mean: f64,
    /// 1.96 × population std/√n.
    pub ci95: f64,
    pub n: usize,
}

/// The arrays of one evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    pub values_per_image: usize,
    /// Originals and counterfactuals, [n, values_per_image].
    pub x: &'a [f32],
    pub x_cf: &'a [f32],
    /// Prediction on the original and on the counterfactual (−1: failed).
    pub y_hat: &'a [i64],
    pub y_hat_cf: &'a [i64],
    /// Class the counterfactual was made for.
    pub y_cf_target: &'a [i64],
    /// Lowest possible pixel value.
    pub xmin: f32,
    /// Kept samples after which to stop: −1 for all.
    pub n_samples: i64,
}

impl Samples<'_> {
    /// Number of samples, after a check that all arrays agree.
    fn count(&self) -> Result<usize> {
        let n = self.y_hat_cf.len();
        let images = |what: &str, data: &[f32]| match data.len() == n * self.values_per_image {
            true => Ok(()),
            false => Err(MetricError::shape(
                what,
                format!("{n} x {} values", self.values_per_image),
                format!("{} values", data.len()),
            )),
        };
        images("originals", self.x)?;
        images("counterfactuals", self.x_cf)?;
        for (what, labels) in [
            ("predictions of the originals", self.y_hat),
            ("target classes", self.y_cf_target),
        ] {
            check_length(what, labels.len(), n)?;
        }
        if n == 0 || self.values_per_image == 0 {
            return Err(no_samples());
        }
        Ok(n)
    }

    /// Samples that a metric with skip rules sees, in order.
    pub fn kept(&self) -> Result<Vec<usize>> {
        let n = self.count()?;
        Ok(self.limited((0..n).filter(|&i| !self.skipped(i))))
    }

    fn skipped(&self, i: usize) -> bool {
        let image = &self.x_cf[i * self.values_per_image..(i + 1) * self.values_per_image];
        let sum: f64 = image.iter().map(|&v| f64::from(v)).sum();
        self.y_hat_cf[i] == -1
            || sum / image.len() as f64 == f64::from(self.xmin)
            // A sum can round where the values are all equal.
            || image.iter().all(|&v| v == self.xmin)
    }

    fn limited(&self, rows: impl Iterator<Item = usize>) -> Vec<usize> {
        match usize::try_from(self.n_samples) {
            Ok(limit) => rows.take(limit.max(1)).collect(),
            Err(_) => rows.collect(),
        }
    }

    /// Elastic net L1 + L2 of every sample, in order (none skipped).
    pub fn elastic_net_per_sample(&self) -> Result<Vec<f64>> {
        self.count()?;
        let sums = lp::per_image(self.x, self.x_cf, self.values_per_image)?;
        Ok(sums.iter().map(|s| s.elastic_net_published()).collect())
    }

    /// EN.
    pub fn elastic_net(&self) -> Result<Score> {
        let values = self.elastic_net_per_sample()?;
        score(self.kept()?.iter().map(|&i| values[i]))
    }

    /// TCV: the prediction changed.
    pub fn target_class_validity(&self) -> Result<Score> {
        let n = self.count()?;
        let changed = |i: usize| self.y_hat_cf[i] != -1 && self.y_hat_cf[i] != self.y_hat[i];
        score(self.limited(0..n).iter().map(|&i| indicator(changed(i))))
    }

    /// Oracle: `oracle_prediction` `[n]` on the counterfactuals equals the target class.
    pub fn oracle(&self, oracle_prediction: &[i64]) -> Result<Score> {
        check_length("oracle predictions", oracle_prediction.len(), self.count()?)?;
        let agrees = |i: usize| oracle_prediction[i] == self.y_cf_target[i];
        score(self.kept()?.iter().map(|&i| indicator(agrees(i))))
    }

    /// LVS: divergence of the label probabilities of originals and counterfactuals.
    ///
    /// A kept row that is not a probability (NaN in the published code) is an error: its mean would be NaN.
    pub fn label_variation(
        &self,
        original: Probabilities<'_>,
        counterfactual: Probabilities<'_>,
    ) -> Result<Score> {
        check_length("label probabilities", original.rows(), self.count()?)?;
        let rows = jensen_shannon(original, counterfactual, Protocol::Published)?;
        let values = self
            .kept()?
            .into_iter()
            .map(|row| {
                rows[row].ok_or_else(|| MetricError::NotAProbability {
                    what: "label probabilities".to_owned(),
                    row,
                    column: 0,
                    value: f64::NAN,
                })
            })
            .collect::<Result<Vec<f64>>>()?;
        score(values.into_iter())
    }
}

/// Class of the highest probability in each row, lowest index on ties.
pub fn predictions(probabilities: Probabilities<'_>) -> Vec<i64> {
    (0..probabilities.rows())
        .map(|i| {
            let row = probabilities.row(i);
            let best = (0..row.len()).fold(0, |best, class| match row[class] > row[best] {
                true => class,
                false => best,
            });
            best as i64
        })
        .collect()
}

fn indicator(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

fn score(values: impl Iterator<Item = f64>) -> Result<Score> {
    let values: Vec<f64> = values.collect();
    match (mean(&values), std_population(&values)) {
        (Some(mean), Some(std)) => Ok(Score {
            mean,
            ci95: Z_95_PRINTED * std / (values.len() as f64).sqrt(),
            n: values.len(),
        }),
        _ => Err(no_samples()),
    }
}

fn check_length(what: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(MetricError::shape(
        what,
        format!("{expected} rows"),
        format!("{found} rows"),
    ))
}

fn no_samples() -> MetricError {
    MetricError::TooFew {
        metric: "the evaluation",
        what: "counterfactuals that did not fail".to_owned(),
        needed: 1,
        found: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples<'a>(x_cf: &'a [f32], y_hat_cf: &'a [i64], n_samples: i64) -> Samples<'a> {
        Samples {
            values_per_image: 2,
            x: &[0.0; 6],
            x_cf,
            y_hat: &[0, 0, 0],
            y_hat_cf,
            y_cf_target: &[1, 1, 1],
            xmin: -0.1,
            n_samples,
        }
    }

    #[test]
    fn failed_and_all_black_samples_are_skipped_but_count_in_tcv() {
        let x_cf = [-0.1, -0.1, 3.0, 4.0, 0.0, 1.0];
        let s = samples(&x_cf, &[1, 1, -1], -1);
        assert_eq!(s.kept().unwrap(), [1]);
        assert_eq!(s.elastic_net().unwrap().mean, 12.0);
        let tcv = s.target_class_validity().unwrap();
        assert!((tcv.mean - 2.0 / 3.0).abs() < 1e-15 && tcv.n == 3);
    }

    #[test]
    fn a_limit_of_zero_processes_one_sample() {
        let x_cf = [3.0, 4.0, 0.0, 1.0, 2.0, 2.0];
        assert_eq!(samples(&x_cf, &[1; 3], 0).kept().unwrap(), [0]);
        assert_eq!(samples(&x_cf, &[-1, 1, 1], 1).kept().unwrap(), [1]);
        assert_eq!(samples(&x_cf, &[1; 3], 2).kept().unwrap(), [0, 1]);
    }

    #[test]
    fn nothing_kept_is_an_error() {
        let x_cf = [3.0, 4.0, 0.0, 1.0, 2.0, 2.0];
        let s = samples(&x_cf, &[-1; 3], -1);
        assert!(s.elastic_net().is_err());
        assert_eq!(s.target_class_validity().unwrap().mean, 0.0);
    }
}
