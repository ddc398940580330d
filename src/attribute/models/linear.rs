//! Linear regression, and logistic regression for two classes.

use super::Link;
use crate::attribute::rows::Rows;
use crate::attribute::small_matrix::{cholesky, least_squares, solve_cholesky};

#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    pub coefficients: Vec<f64>,
    pub intercept: f64,
    pub link: Link,
}

impl Linear {
    /// Least squares; of equally good coefficients the shortest (constant or collinear columns). With a logistic link: the
    /// likelihood with scikit-learn's default penalty ½‖w‖².
    pub fn fit(x: &Rows, y: &[f64], link: Link) -> Self {
        match link {
            Link::Identity => Self::fit_squares(x, y),
            Link::Logistic => Self::fit_logistic(x, y),
        }
    }

    fn fit_squares(x: &Rows, y: &[f64]) -> Self {
        let (d, means) = (x.columns, x.means());
        let mean = y.iter().sum::<f64>() / y.len().max(1) as f64;
        let centred: Vec<f64> = x
            .iter()
            .flat_map(|row| row.iter().zip(&means).map(|(v, m)| v - m))
            .collect();
        let right: Vec<f64> = y.iter().map(|v| v - mean).collect();
        let coefficients = least_squares(&centred, d, &right);
        let at_mean: f64 = coefficients.iter().zip(&means).map(|(c, m)| c * m).sum();
        Self {
            coefficients,
            intercept: mean - at_mean,
            link: Link::Identity,
        }
    }

    /// Newton's steps; the intercept is not penalised.
    fn fit_logistic(x: &Rows, y: &[f64]) -> Self {
        let d = x.columns;
        let k = d + 1;
        let mut w = vec![0.0; k];
        for _ in 0..100 {
            let mut gradient = vec![0.0; k];
            let mut hessian = vec![0.0; k * k];
            for (row, &y) in x.iter().zip(y) {
                let z = w[d] + row.iter().zip(&w).map(|(x, w)| x * w).sum::<f64>();
                let p = Link::Logistic.of(z);
                let value = |j: usize| if j < d { row[j] } else { 1.0 };
                for i in 0..k {
                    gradient[i] += (p - y) * value(i);
                    for j in 0..k {
                        hessian[i * k + j] += p * (1.0 - p) * value(i) * value(j);
                    }
                }
            }
            for j in 0..d {
                gradient[j] += w[j];
                hessian[j * k + j] += 1.0;
            }
            // Labels of one class only: the intercept has no finite optimum.
            hessian[d * k + d] += 1e-9;
            let Some(lower) = cholesky(&hessian, k) else {
                break;
            };
            solve_cholesky(&lower, k, &mut gradient);
            let step = gradient.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            let scale = if step > 5.0 { 5.0 / step } else { 1.0 };
            w.iter_mut()
                .zip(&gradient)
                .for_each(|(w, g)| *w -= scale * g);
            if step < 1e-10 {
                break;
            }
        }
        let intercept = w.pop().unwrap_or(0.0);
        Self {
            coefficients: w,
            intercept,
            link: Link::Logistic,
        }
    }

    pub fn predict_into(&self, rows: &[f64], out: &mut [f64]) {
        let rows = rows.chunks_exact(self.coefficients.len().max(1));
        for (out, row) in out.iter_mut().zip(rows) {
            let sum: f64 = row.iter().zip(&self.coefficients).map(|(x, c)| x * c).sum();
            *out = self.link.of(sum + self.intercept);
        }
    }
}
