//! Expected predictions where some features are known: by formula where there is one, else by draws.
//!
//! A linear model needs the conditional mean only. A network with one hidden layer sees normal features through normal sums, and
//! E\[max(0, Z)\] = m Φ(m/s) + s φ(m/s) for Z normal: exact, at the price of a prediction. Other models, and other features, take draws.

use super::data::{Given, NormalGiven};
use super::models::{Link, Mlp, Model};
use super::normal_curve::mean_rectified;
use super::rows::Rows;
use super::streams;
use super::subsets::Subset;
use crate::stats::random::Draws;

/// Draws of one block share a sequence of random numbers.
const BLOCK: usize = 64;

/// The expectation of a model over the features outside a subset.
pub struct Expectation<'a> {
    model: &'a Model,
    given: Given,
    /// Standard deviation of each unit's sum, for each component.
    spreads: Vec<Vec<f64>>,
}

impl<'a> Expectation<'a> {
    pub fn new(model: &'a Model, given: Given) -> Self {
        let spreads = match (model, &given) {
            (Model::Mlp(m), Given::Normal(g)) if m.link == Link::Identity => spreads(m, g),
            _ => Vec::new(),
        };
        Self {
            model,
            given,
            spreads,
        }
    }

    /// By formula, if there is one. Known features are those of x.
    pub fn exact(&self, x: &[f64]) -> Option<f64> {
        match (self.model, &self.given) {
            (Model::Linear(m), given) if m.link == Link::Identity => {
                Some(self.model.predict_one(&given.mean(x)))
            }
            (Model::Mlp(m), Given::Normal(g)) if !self.spreads.is_empty() => {
                let layer = m.one_hidden()?;
                let mut sum = 0.0;
                for (part, share) in g.responsibilities(x).iter().enumerate() {
                    let mean = g.part_mean(part, x);
                    let mut value = layer.out_bias;
                    let units = layer.into.chunks_exact(layer.columns).zip(layer.bias);
                    for ((unit, bias), (out, s)) in
                        units.zip(layer.out.iter().zip(&self.spreads[part]))
                    {
                        let m = bias + unit.iter().zip(&mean).map(|(w, x)| w * x).sum::<f64>();
                        value += out * mean_rectified(m, *s);
                    }
                    sum += share * value;
                }
                Some(sum)
            }
            _ => None,
        }
    }

    /// The conditional distribution.
    pub fn given(&self) -> &Given {
        &self.given
    }

    /// Adds predictions of draws `from..to` for each of `points` to the sums of `groups` groups: draw i belongs to group i mod `groups`.
    /// A draw's random numbers belong to (seed, subset, its block); points of a Gaussian share its deviations from the mean, which
    /// makes them cheap, unless each shall have its `own`.
    pub fn add_draws(
        &self,
        key: (u64, Subset),
        points: &[(usize, &[f64])],
        own: bool,
        range: std::ops::Range<usize>,
        sums: &mut [Vec<f64>],
    ) {
        let d = self.model.dimension();
        let (seed, subset) = key;
        let mut deviations = Rows::zeros(BLOCK, d);
        let mut rows = Rows::zeros(BLOCK, d);
        let mut out = vec![0.0; BLOCK];
        let shared = match &self.given {
            Given::Normal(g) if g.parts() == 1 && !own => Some(g),
            _ => None,
        };
        for first in range.clone().step_by(BLOCK) {
            let n = BLOCK.min(range.end - first);
            let index = (subset << 32) ^ first as u64;
            if let Some(g) = shared {
                let mut draws = Draws::new(seed, streams::CONDITIONAL, index);
                (0..n).for_each(|i| g.draw_deviation(&mut draws, deviations.row_mut(i)));
            }
            for ((p, point), sums) in points.iter().zip(sums.iter_mut()) {
                match shared {
                    Some(g) => {
                        let mean = g.part_mean(0, point);
                        for i in 0..n {
                            let from = deviations.row(i);
                            let to = rows.row_mut(i);
                            for ((to, mean), by) in to.iter_mut().zip(&mean).zip(from) {
                                *to = mean + by;
                            }
                        }
                    }
                    None => {
                        let index = index ^ ((*p as u64 + 1) << 44);
                        let mut draws = Draws::new(seed, streams::CONDITIONAL, index);
                        (0..n).for_each(|i| self.given.draw(point, &mut draws, rows.row_mut(i)));
                    }
                }
                self.model
                    .predict_into(&rows.values[..n * d], &mut out[..n]);
                let groups = sums.len();
                for (i, value) in out[..n].iter().enumerate() {
                    sums[(first + i) % groups] += value;
                }
            }
        }
    }
}

fn spreads(model: &Mlp, given: &NormalGiven) -> Vec<Vec<f64>> {
    let Some(layer) = model.one_hidden() else {
        return Vec::new();
    };
    (0..given.parts())
        .map(|part| {
            let units = layer.into.chunks_exact(layer.columns);
            units
                .map(|u| given.variance_along(part, u).sqrt())
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::data::{Component, Features, Normal};
    use super::super::models::{Dense, Linear};
    use super::*;

    fn mixture() -> Features {
        let part = |mean: f64, rho: f64| Component {
            weight: 1.0 + mean.abs(),
            mean: vec![mean, 0.2, -mean],
            covariance: vec![1.0, rho, 0.1, rho, 1.5, rho, 0.1, rho, 0.8],
        };
        Features::Normal(Normal::mixture(vec![part(0.5, 0.4), part(-1.0, -0.2)]).unwrap())
    }

    #[test]
    fn formulas_agree_with_draws() {
        let model = Model::Mlp(Mlp {
            layers: vec![
                Dense {
                    inputs: 3,
                    weights: (0..12).map(|i| (f64::from(i) * 1.7).sin()).collect(),
                    bias: vec![0.1, -0.3, 0.2, 0.0],
                },
                Dense {
                    inputs: 4,
                    weights: vec![1.0, -0.7, 0.4, 0.9],
                    bias: vec![0.05],
                },
            ],
            link: Link::Identity,
        });
        let features = mixture();
        let x = [0.3, -0.8, 1.2];
        for subset in 0..8 {
            for independent in [false, true] {
                let expected = Expectation::new(&model, features.given(subset, independent));
                let exact = expected.exact(&x).unwrap();
                let mut sums = vec![vec![0.0; 10]];
                let n = 20_000;
                expected.add_draws((1, subset), &[(0, &x)], false, 0..n, &mut sums);
                let mean = sums[0].iter().sum::<f64>() / n as f64;
                // Five standard errors of a prediction that varies by about one.
                assert!((mean - exact).abs() < 0.04, "{subset}: {mean} {exact}");
            }
        }
    }

    #[test]
    fn a_linear_model_needs_the_mean_only() {
        let model = Model::Linear(Linear {
            coefficients: vec![1.0, 2.0, 3.0],
            intercept: 0.5,
            link: Link::Identity,
        });
        let given = mixture().given(0b010, false);
        let x = [9.0, 0.7, 9.0];
        let mean = given.mean(&x);
        let exact = Expectation::new(&model, given).exact(&x).unwrap();
        assert!((exact - (0.5 + mean[0] + 2.0 * mean[1] + 3.0 * mean[2])).abs() < 1e-13);
    }
}
