//! How much noise each step adds, and what follows from it. All in f64.

use serde::{Deserialize, Serialize};

use super::error::{DiffusionError, Result};

/// Kinds of schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Betas {
    /// From 0.0001 to 0.02 in a thousand steps (Ho et al. 2020), scaled for other numbers.
    Linear,
    /// By a squared cosine of the signal left (Nichol & Dhariwal 2021).
    Cosine,
}

impl Betas {
    pub fn name(self) -> &'static str {
        match self {
            Betas::Linear => "linear",
            Betas::Cosine => "cosine",
        }
    }

    /// Variances of the noise of all steps.
    pub fn values(self, steps: usize) -> Vec<f64> {
        let n = steps as f64;
        match self {
            Betas::Linear => {
                let (first, last) = (1000.0 / n * 0.0001, 1000.0 / n * 0.02);
                let stride = if steps > 1 {
                    (last - first) / (n - 1.0)
                } else {
                    0.0
                };
                (0..steps)
                    .map(|i| {
                        if i + 1 == steps && i > 0 {
                            last
                        } else {
                            first + i as f64 * stride
                        }
                    })
                    .collect()
            }
            Betas::Cosine => {
                let left = |t: f64| {
                    let angle = (t + 0.008) / 1.008 * std::f64::consts::PI / 2.0;
                    angle.cos().powi(2)
                };
                (0..steps)
                    .map(|i| (1.0 - left((i + 1) as f64 / n) / left(i as f64 / n)).min(0.999))
                    .collect()
            }
        }
    }
}

/// A schedule and its coefficients, one of each per step.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Steps of the full schedule that this one keeps: what the network is told.
    pub steps: Vec<usize>,
    pub betas: Vec<f64>,
    /// Product of `1 − beta` so far: the share of the signal's variance that is left.
    pub alphas: Vec<f64>,
    /// The same before the step.
    pub earlier_alphas: Vec<f64>,
    /// Variance of the image before the step, given the one after it and the clean one.
    pub posterior_variance: Vec<f64>,
    /// Its logarithm; that of the first step, which is that of nothing, is replaced by the second's.
    pub posterior_log_variance: Vec<f64>,
    /// Weights of the clean and of the noisy image in the mean of that distribution.
    pub posterior_mean: [Vec<f64>; 2],
}

impl Schedule {
    /// All steps of a schedule.
    pub fn new(betas: Betas, steps: usize) -> Result<Self> {
        Self::from_betas(betas.values(steps), (0..steps).collect())
    }

    fn from_betas(betas: Vec<f64>, steps: Vec<usize>) -> Result<Self> {
        if betas.is_empty() {
            return Err(DiffusionError::NoSteps);
        }
        let mut product = 1.0;
        let alphas: Vec<f64> = betas
            .iter()
            .map(|b| {
                product *= 1.0 - b;
                product
            })
            .collect();
        let earlier_alphas: Vec<f64> = std::iter::once(1.0)
            .chain(alphas.iter().copied())
            .take(betas.len())
            .collect();
        let each = |f: &dyn Fn(f64, f64, f64) -> f64| -> Vec<f64> {
            let all = betas.iter().zip(&alphas).zip(&earlier_alphas);
            all.map(|((&beta, &now), &earlier)| f(beta, now, earlier))
                .collect()
        };
        let posterior_variance = each(&|beta, now, earlier| beta * (1.0 - earlier) / (1.0 - now));
        let mut posterior_log_variance: Vec<f64> =
            posterior_variance.iter().map(|v| v.ln()).collect();
        // A schedule of one step has no second; its only variance is the noise itself.
        posterior_log_variance[0] = match posterior_variance.get(1) {
            Some(v) => v.ln(),
            None => betas[0].ln(),
        };
        let posterior_mean = [
            each(&|beta, now, earlier| beta * earlier.sqrt() / (1.0 - now)),
            each(&|beta, now, earlier| (1.0 - earlier) * (1.0 - beta).sqrt() / (1.0 - now)),
        ];
        Ok(Self {
            steps,
            betas,
            alphas,
            earlier_alphas,
            posterior_variance,
            posterior_log_variance,
            posterior_mean,
        })
    }

    /// The logarithm of the variance of a step whose network predicts none: that of the noise, except in the first step,
    /// which takes the posterior's of the second (`FIXED_LARGE` in the public code).
    pub fn fixed_large_log_variance(&self, t: usize) -> f64 {
        match t {
            0 => self.posterior_log_variance[0],
            _ => self.betas[t].ln(),
        }
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.betas.len()
    }

    pub fn is_empty(&self) -> bool {
        self.betas.is_empty()
    }

    /// The same process in some of its steps (ascending indices): noise of those left out is added by the next.
    pub fn respaced(&self, keep: &[usize]) -> Result<Self> {
        let mut last = 1.0;
        let betas = keep.iter().map(|&i| {
            let beta = 1.0 - self.alphas[i] / last;
            last = self.alphas[i];
            beta
        });
        Self::from_betas(
            betas.collect(),
            keep.iter().map(|&i| self.steps[i]).collect(),
        )
    }
}

/// The steps that a respacing keeps of `steps`: `"25"` spreads 25 over all, `"10,5"` takes 10 of the first half and 5
/// of the second, `"ddim25"` takes every n-th such that there are 25.
pub fn spaced(steps: usize, text: &str) -> Result<Vec<usize>> {
    let wrong = |why: String| DiffusionError::Respacing {
        text: text.into(),
        steps,
        why,
    };
    let number = |part: &str| {
        let number = part.trim().parse::<usize>();
        number.map_err(|_| wrong(format!("{part:?} is not a number of steps")))
    };
    if let Some(count) = text.strip_prefix("ddim") {
        let count = number(count)?;
        return (1..steps)
            .find(|&stride| steps.div_ceil(stride) == count)
            .map(|stride| (0..steps).step_by(stride).collect())
            .ok_or_else(|| wrong(format!("no whole stride leaves {count}")));
    }
    let counts = text.split(',').map(number).collect::<Result<Vec<_>>>()?;
    let sections = counts.len();
    let mut kept = Vec::new();
    let mut first = 0;
    for (i, count) in counts.into_iter().enumerate() {
        let size = steps / sections + usize::from(i < steps % sections);
        if size < count {
            return Err(wrong(format!(
                "a section of {size} steps cannot keep {count}"
            )));
        }
        let stride = if count <= 1 {
            1.0
        } else {
            (size - 1) as f64 / (count - 1) as f64
        };
        let mut at = 0.0f64;
        for _ in 0..count {
            kept.push(first + at.round_ties_even() as usize);
            at += stride;
        }
        first += size;
    }
    kept.dedup();
    Ok(kept)
}
