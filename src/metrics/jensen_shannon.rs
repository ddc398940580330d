//! Jensen–Shannon divergence of class probabilities, as the label variation score uses it (\[quantitative-evaluations\]).
//!
//! JS(P, Q) = ½ Σ p ln(p/m) + ½ Σ q ln(q/m), m = (p + q)/2; natural logarithm, 0 ln 0 = 0, range 0 to ln 2.
//! One column means a binary probability p, expanded to (1 − p, p). A value outside [0, 1] makes the published code return NaN
//! for that row; here that is an error, or `None` under [`Protocol::Published`].

use super::error::{MetricError, Result};

/// What to do with a value that is not a probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// An error that names the place; values within 1e-6 of [0, 1] are clamped.
    #[default]
    Exact,
    /// `None` for the row, where the published code has NaN.
    Published,
}

/// Probabilities within this distance of [0, 1] are rounding.
const PROBABILITY_SLACK: f64 = 1e-6;
/// Rows whose sum is farther from 1 were not probabilities (logits, say).
const SUM_SLACK: f64 = 1e-3;

/// Row-major probabilities [n, classes]; one class means binary.
#[derive(Debug, Clone, Copy)]
pub struct Probabilities<'a> {
    classes: usize,
    data: &'a [f64],
}

impl<'a> Probabilities<'a> {
    /// Views `data` as rows of `classes` values.
    pub fn new(what: &str, classes: usize, data: &'a [f64]) -> Result<Self> {
        if classes == 0 || !data.len().is_multiple_of(classes) {
            return Err(MetricError::shape(
                what,
                format!("rows of {classes} values, at least one each"),
                format!("{} values", data.len()),
            ));
        }
        Ok(Self { classes, data })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.len() / self.classes
    }

    /// Row `i`, a binary probability expanded to (1 − p, p).
    pub fn row(&self, i: usize) -> Vec<f64> {
        match &self.data[i * self.classes..(i + 1) * self.classes] {
            [p] => vec![1.0 - p, *p],
            row => row.to_vec(),
        }
    }
}

/// Divergence of each row of `p` from the same row of `q`.
pub fn jensen_shannon(
    p: Probabilities<'_>,
    q: Probabilities<'_>,
    protocol: Protocol,
) -> Result<Vec<Option<f64>>> {
    if (p.rows(), p.classes) != (q.rows(), q.classes) {
        return Err(MetricError::shape(
            "probabilities for the Jensen-Shannon divergence",
            format!("[{}, {}] as in the first set", p.rows(), p.classes),
            format!("[{}, {}]", q.rows(), q.classes),
        ));
    }
    (0..p.rows())
        .map(|i| {
            let (mut a, mut b) = (p.row(i), q.row(i));
            if protocol == Protocol::Exact {
                check_row("first probabilities", i, &mut a)?;
                check_row("second probabilities", i, &mut b)?;
            }
            Ok(row_divergence(&a, &b))
        })
        .collect()
}

fn check_row(what: &str, row: usize, values: &mut [f64]) -> Result<()> {
    for (column, value) in values.iter_mut().enumerate() {
        if !(-PROBABILITY_SLACK..=1.0 + PROBABILITY_SLACK).contains(value) {
            return Err(MetricError::NotAProbability {
                what: what.to_owned(),
                row,
                column,
                value: *value,
            });
        }
        *value = value.clamp(0.0, 1.0);
    }
    let sum: f64 = values.iter().sum();
    if (sum - 1.0).abs() > SUM_SLACK {
        return Err(MetricError::shape(
            format!("{what}, row {row}"),
            "probabilities that sum to 1",
            format!("a sum of {sum}"),
        ));
    }
    Ok(())
}

/// `None` where a negative value leaves the logarithm undefined.
fn row_divergence(p: &[f64], q: &[f64]) -> Option<f64> {
    let middle: Vec<f64> = p.iter().zip(q).map(|(p, q)| 0.5 * (p + q)).collect();
    let divergence = |of: &[f64]| -> f64 { published_kl_terms(of, &middle).iter().sum() };
    let value = 0.5 * (divergence(p) + divergence(q));
    // Rounding can leave a divergence of equal rows just below zero.
    (!value.is_nan()).then_some(value.max(0.0))
}

/// Terms p·(ln p − ln q) of the published code: where a probability is exactly 0, 1 stands inside its logarithm.
pub fn published_kl_terms(p: &[f64], q: &[f64]) -> Vec<f64> {
    let log = |v: f64| if v == 0.0 { 0.0 } else { v.ln() };
    p.iter()
        .zip(q)
        .map(|(&p, &q)| p * (log(p) - log(q)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn js(p: &[f64], q: &[f64], classes: usize, protocol: Protocol) -> Result<Vec<Option<f64>>> {
        jensen_shannon(
            Probabilities::new("p", classes, p)?,
            Probabilities::new("q", classes, q)?,
            protocol,
        )
    }

    #[test]
    fn divergence_is_zero_for_equal_and_ln_2_for_disjoint_rows() {
        let got = js(
            &[0.2, 0.8, 1.0, 0.0],
            &[0.2, 0.8, 0.0, 1.0],
            2,
            Protocol::Exact,
        )
        .unwrap();
        assert_eq!(got[0], Some(0.0));
        assert!((got[1].unwrap() - 2f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn binary_probabilities_equal_their_two_columns() {
        let one = js(&[0.3], &[0.9], 1, Protocol::Exact).unwrap();
        let two = js(&[0.7, 0.3], &[0.1, 0.9], 2, Protocol::Exact).unwrap();
        assert!((one[0].unwrap() - two[0].unwrap()).abs() < 1e-15);
    }

    #[test]
    fn a_probability_above_one_is_an_error_or_a_missing_value() {
        let error = js(&[0.5, 1.2], &[0.5, 0.3], 1, Protocol::Exact).unwrap_err();
        assert!(error.to_string().contains("row 1"), "{error}");
        let published = js(&[1.2, 0.5], &[0.3, 0.5], 1, Protocol::Published).unwrap();
        assert_eq!(published, [None, Some(0.0)]);
        assert!(js(&[f64::NAN], &[0.5], 1, Protocol::Exact).is_err());
        assert!(js(&[0.5, 0.2], &[0.5, 0.5], 2, Protocol::Exact).is_err());
    }
}
