//! SHAPR ([aas et al.]): Shapley values of v(S) = E\[f(X) | X_S = x_S\], with the conditional estimated from the training rows.
//!
//! - `gaussian`: a normal distribution fitted to the rows; exact where the model allows it, else by draws;
//! - `copula`: the same after each feature was made normal by its ranks;
//! - `empirical`: rows weighted by exp(−D²/(2σ²)), D² the Mahalanobis distance of the known features over their number; σ for
//!   each subset by the corrected Akaike criterion of the kernel regression of f on the known features; only the nearest rows that hold a share `nearest` of the weight count;
//! - `as-released` is empirical with σ = 0.4, equal weights where fewer than two features are known, no cut, and the kernel regression with weight 10⁴ at its ends.

use super::{check_enumerable, each};
use crate::attribute::data::{Features, Normal};
use crate::attribute::error::{AttributionError, Result};
use crate::attribute::expectation::Expectation;
use crate::attribute::models::Model;
use crate::attribute::rows::Rows;
use crate::attribute::small_matrix::pseudo_inverse;
use crate::attribute::subsets::{Subset, kernel_regression, members, shapley};
use crate::attribute::{Variant, normal_curve, streams};
use crate::stats::random::Draws;
use crate::tensor::cpu::near_rows::{Products, nearness, pair};

/// How the conditional is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Approach {
    Gaussian,
    Copula,
    Empirical,
    /// The released code's.
    AsReleased,
}

#[derive(Clone, Copy, Debug)]
pub struct Shapr {
    pub approach: Approach,
    /// σ of `as-released`.
    pub width: f64,
    /// Share of the weight that the rows of `empirical` hold together.
    pub nearest: f64,
    /// Draws for each subset, where they are needed.
    pub draws: usize,
}

/// Widths among which the criterion chooses.
const WIDTHS: [f64; 8] = [0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0];
/// Rows that the criterion looks at.
const CRITERION_ROWS: usize = 200;
/// Weight of the empty and the full subset in the released regression.
const ENDS: f64 = 1e4;

impl Shapr {
    pub fn of(variant: Variant) -> Self {
        Self {
            approach: match variant {
                Variant::Correct => Approach::Empirical,
                Variant::AsReleased => Approach::AsReleased,
            },
            width: 0.4,
            nearest: 0.95,
            draws: 1000,
        }
    }

    pub fn explain(&self, model: &Model, train: &Rows, points: &Rows, seed: u64) -> Result<Rows> {
        check_enumerable("shapr", train.columns)?;
        match self.approach {
            Approach::Gaussian => self.gaussian(model, train, points, seed),
            Approach::Copula => self.copula(model, train, points, seed),
            Approach::Empirical => {
                let plans = self.empirical_plans(model, train);
                Ok(each(points, |_, x| {
                    shapley(&self.weighted(model, train, x, &plans), x.len())
                }))
            }
            Approach::AsReleased => {
                let plans = self.released_plans(train);
                Ok(each(points, |_, x| {
                    let values = self.weighted(model, train, x, &plans);
                    kernel_regression(&values, x.len(), ENDS, true).1
                }))
            }
        }
    }

    /// Intercept and weights of one point, as released.
    pub fn released(&self, model: &Model, train: &Rows, x: &[f64]) -> (f64, Vec<f64>) {
        let values = self.weighted(model, train, x, &self.released_plans(train));
        let (first, weights) = kernel_regression(&values, x.len(), ENDS, true);
        (first.unwrap_or(0.0), weights)
    }

    fn released_plans(&self, train: &Rows) -> Vec<Plan> {
        let covariance = train.covariance(1);
        let d = train.columns;
        (0..1u64 << d)
            .map(|subset| Plan {
                distance: Distance::new(&covariance, d, subset),
                width: (subset.count_ones() > 1).then_some(self.width),
                nearest: 1.0,
            })
            .collect()
    }

    fn empirical_plans(&self, model: &Model, train: &Rows) -> Vec<Plan> {
        use rayon::prelude::*;
        let covariance = train.covariance(1);
        let d = train.columns;
        let some = super::shap::background(train, CRITERION_ROWS);
        let response = model.predict(&some);
        let apart: Vec<Products> = some
            .iter()
            .map(|row| Products::of(&some.values, row))
            .collect();
        (0..1u64 << d)
            .into_par_iter()
            .map(|subset| {
                let distance = Distance::new(&covariance, d, subset);
                let known = subset.count_ones() as usize;
                let chosen = || best_width(&distance, &apart, &response);
                Plan {
                    width: (known > 0 && known < d).then(chosen),
                    distance,
                    nearest: self.nearest,
                }
            })
            .collect()
    }

    /// v of each subset: weighted means of the predictions with the point's features put into the training rows.
    fn weighted(&self, model: &Model, train: &Rows, x: &[f64], plans: &[Plan]) -> Vec<f64> {
        let apart = Products::of(&train.values, x);
        let weights: Vec<Option<Vec<f64>>> = plans.iter().map(|p| p.weights(&apart)).collect();
        let mut sums = vec![0.0; plans.len()];
        model.coalitions(x, train, |subset, first, values| {
            sums[subset as usize] += match &weights[subset as usize] {
                None => values.iter().sum::<f64>(),
                Some(w) => w[first..].iter().zip(values).map(|(w, v)| w * v).sum(),
            };
        });
        let n = train.len() as f64;
        let total = |w: &Option<Vec<f64>>| w.as_ref().map_or(n, |w| w.iter().sum());
        sums.iter()
            .zip(&weights)
            .map(|(s, w)| s / total(w))
            .collect()
    }

    fn gaussian(&self, model: &Model, train: &Rows, points: &Rows, seed: u64) -> Result<Rows> {
        let normal = Normal::gaussian(train.means(), train.covariance(1))
            .map_err(|e| no_normal("gaussian", &e))?;
        let features = Features::Normal(normal);
        let d = train.columns;
        let values: Vec<Vec<f64>> = (0..1u64 << d)
            .map(|subset| {
                let expected = Expectation::new(model, features.given(subset, false));
                let rows: Vec<(usize, &[f64])> = points.iter().enumerate().collect();
                let exact: Option<Vec<f64>> = rows.iter().map(|(_, x)| expected.exact(x)).collect();
                exact.unwrap_or_else(|| {
                    let mut sums = vec![vec![0.0]; rows.len()];
                    expected.add_draws((seed, subset), &rows, false, 0..self.draws, &mut sums);
                    sums.iter().map(|s| s[0] / self.draws as f64).collect()
                })
            })
            .collect();
        Ok(each(points, |i, x| {
            let own: Vec<f64> = values.iter().map(|v| v[i]).collect();
            shapley(&own, x.len())
        }))
    }

    fn copula(&self, model: &Model, train: &Rows, points: &Rows, seed: u64) -> Result<Rows> {
        let margins: Vec<Margin> = (0..train.columns)
            .map(|j| Margin::of(train.column(j)))
            .collect();
        let d = train.columns;
        let scores = Rows::from_rows(train.iter().map(|row| to_scores(&margins, row)), d);
        let mut correlation = scores.covariance(1);
        let deviations: Vec<f64> = (0..d).map(|j| correlation[j * d + j].sqrt()).collect();
        for (at, value) in correlation.iter_mut().enumerate() {
            // A constant feature keeps its variance of 0, which is refused below.
            let scale = deviations[at / d] * deviations[at % d];
            *value /= if scale > 0.0 { scale } else { 1.0 };
        }
        let normal =
            Normal::gaussian(vec![0.0; d], correlation).map_err(|e| no_normal("copula", &e))?;
        let given: Vec<_> = (0..1u64 << d).map(|s| normal.given(s, false)).collect();
        Ok(each(points, |_, x| {
            let z = to_scores(&margins, x);
            let mut row = vec![0.0; d];
            let values: Vec<f64> = given
                .iter()
                .enumerate()
                .map(|(subset, given)| {
                    let mut draws = Draws::new(seed, streams::SHAPR, subset as u64);
                    let mut rows = Rows::zeros(self.draws, d);
                    for i in 0..self.draws {
                        given.draw(&z, &mut draws, &mut row);
                        for (j, out) in rows.row_mut(i).iter_mut().enumerate() {
                            *out = match subset >> j & 1 {
                                1 => x[j],
                                _ => margins[j].value(normal_curve::cumulative(row[j])),
                            };
                        }
                    }
                    let mut out = vec![0.0; self.draws];
                    model.predict_into(&rows.values, &mut out);
                    out.iter().sum::<f64>() / self.draws as f64
                })
                .collect();
            shapley(&values, d)
        }))
    }
}

fn no_normal(approach: &str, why: &AttributionError) -> AttributionError {
    AttributionError::Unsupported {
        what: format!("shapr --approach {approach}"),
        reason: format!("the training rows have no normal distribution ({why}); use empirical"),
    }
}

/// How rows are weighed for one subset; no width: all the same.
struct Plan {
    distance: Distance,
    width: Option<f64>,
    nearest: f64,
}

impl Plan {
    fn weights(&self, apart: &Products) -> Option<Vec<f64>> {
        let width = self.width?;
        let mut weights = Vec::new();
        apart.forms(&self.distance.terms, &mut weights);
        nearness(&mut weights, 0.5 / (width * width));
        if self.nearest < 1.0 {
            let mut sorted = weights.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let enough = self.nearest * sorted.iter().sum::<f64>();
            let mut sum = 0.0;
            let last = sorted.iter().find(|w| {
                sum += **w;
                sum >= enough
            });
            let last = last.copied().unwrap_or(0.0);
            weights
                .iter_mut()
                .filter(|w| **w < last)
                .for_each(|w| *w = 0.0);
        }
        Some(weights)
    }
}

/// Squared Mahalanobis distance on some features, over their number, as a sum over pairs of features.
struct Distance {
    terms: Vec<(usize, f64)>,
}

impl Distance {
    fn new(covariance: &[f64], d: usize, subset: Subset) -> Self {
        let features: Vec<usize> = members(subset, d).collect();
        let k = features.len();
        let own: Vec<f64> = (0..k * k)
            .map(|at| covariance[features[at / k] * d + features[at % k]])
            .collect();
        let inverse = pseudo_inverse(&own, k);
        let mut terms = Vec::new();
        for i in 0..k {
            for j in 0..=i {
                // A pair of two features stands in the form twice.
                let both = match i == j {
                    true => inverse[i * k + j],
                    false => inverse[i * k + j] + inverse[j * k + i],
                };
                terms.push((pair(features[i], features[j]), both / k as f64));
            }
        }
        Self { terms }
    }
}

/// The width whose kernel regression of the responses on the known features has the least corrected Akaike criterion
/// (Hurvich, Simonoff & Tsai 1998): ln σ̂² + 1 + 2(tr H + 1)/(n − tr H − 2). `apart` holds the differences of all rows from each.
fn best_width(distance: &Distance, apart: &[Products], response: &[f64]) -> f64 {
    let n = apart.len();
    let of_row = |products: &Products| {
        let mut own = Vec::new();
        products.forms(&distance.terms, &mut own);
        own
    };
    let distances: Vec<Vec<f64>> = apart.iter().map(of_row).collect();
    let mut best = (f64::INFINITY, WIDTHS[WIDTHS.len() - 1]);
    let mut weights = Vec::new();
    for width in WIDTHS {
        let (mut squares, mut trace) = (0.0, 0.0);
        for (own, y) in distances.iter().zip(response) {
            weights.clone_from(own);
            // A row's distance from itself is 0, the least.
            nearness(&mut weights, 0.5 / (width * width));
            let parts = weights.iter().zip(response).map(|(w, y)| w * y);
            let (sum, total) = (parts.sum::<f64>(), weights.iter().sum::<f64>());
            trace += 1.0 / total;
            squares += (y - sum / total).powi(2);
        }
        let free = n as f64 - trace - 2.0;
        if free <= 0.0 {
            continue;
        }
        let criterion = (squares / n as f64).ln() + 1.0 + 2.0 * (trace + 1.0) / free;
        if criterion < best.0 {
            best = (criterion, width);
        }
    }
    best.1
}

/// The distribution of one feature by its ranks.
struct Margin {
    sorted: Vec<f64>,
}

impl Margin {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self { sorted: values }
    }

    /// The normal value of the same rank.
    fn score(&self, value: f64) -> f64 {
        let below = self.sorted.partition_point(|v| *v < value);
        let upto = self.sorted.partition_point(|v| *v <= value);
        let n = self.sorted.len() as f64;
        let share = ((below + upto) as f64 / 2.0 + 0.5) / (n + 1.0);
        quantile(share.clamp(0.5 / (n + 1.0), 1.0 - 0.5 / (n + 1.0)))
    }

    fn value(&self, share: f64) -> f64 {
        let at = share * (self.sorted.len() - 1) as f64;
        let below = at.floor() as usize;
        let above = (below + 1).min(self.sorted.len() - 1);
        self.sorted[below] + (self.sorted[above] - self.sorted[below]) * at.fract()
    }
}

fn to_scores(margins: &[Margin], row: &[f64]) -> Vec<f64> {
    margins.iter().zip(row).map(|(m, v)| m.score(*v)).collect()
}

/// Φ⁻¹ by Newton's steps from the middle, which Φ's shape lets converge from there.
fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    let mut x = 0.0;
    for _ in 0..80 {
        let off = normal_curve::cumulative(x) - share;
        if off.abs() < 1e-15 {
            break;
        }
        if off > 0.0 {
            high = x;
        } else {
            low = x;
        }
        let step = x - off / normal_curve::density(x);
        x = if step > low && step < high {
            step
        } else {
            (low + high) / 2.0
        };
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_undo_the_distribution_function() {
        for share in [1e-6, 0.025, 0.3, 0.5, 0.9, 0.999_99] {
            assert!((normal_curve::cumulative(quantile(share)) - share).abs() < 1e-13);
        }
    }
}
