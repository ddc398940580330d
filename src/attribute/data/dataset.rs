//! A whole data set: training and test rows of known features with labels.

use super::{Features, Given, LabelFunction, Labels, Normalisation, Task};
use crate::attribute::error::Result;
use crate::attribute::rows::Rows;
use crate::attribute::{Variant, streams};
use crate::stats::random::Draws;

/// What a data set is drawn from.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub features: Features,
    pub labels: Labels,
    /// Standard deviation of the noise on raw labels.
    pub noise: f64,
    pub train: usize,
    pub test: usize,
    pub seed: u64,
}

impl Recipe {
    /// Gaussian features with equal correlations, 1000 training and 100 test rows, noise 0.01: the paper's.
    pub fn gaussian(labels: LabelFunction, d: usize, rho: f64, seed: u64) -> Result<Self> {
        Ok(Self {
            features: Features::Normal(super::Normal::equicorrelated(d, rho)?),
            labels: Labels::new(labels, d, Task::Regression, Variant::Correct)?,
            noise: 0.01,
            train: 1000,
            test: 100,
            seed,
        })
    }

    /// Draws the rows. Labels are normalised with the training statistics; `as-released` normalises training and test rows each
    /// with their own, and draws ONE component of a mixture for all rows of a part.
    pub fn make(&self) -> Dataset {
        let parts = [(self.train, 0u64), (self.test, 1 << 32)];
        let [train, test] = parts.map(|(n, first)| {
            let x = self.rows(n, first);
            let raw: Vec<f64> = (0..n)
                .map(|i| {
                    let mut draws = Draws::new(self.seed, streams::NOISE, first + i as u64);
                    self.labels.raw(x.row(i)) + self.noise * draws.normal()
                })
                .collect();
            (x, raw)
        });
        let own = Normalisation::of(&train.1, self.labels.variant);
        let of_test = match self.labels.variant {
            Variant::Correct => own,
            Variant::AsReleased => Normalisation::of(&test.1, self.labels.variant),
        };
        let split = |(x, raw): (Rows, Vec<f64>), normalisation: Normalisation| {
            let y = match self.labels.task {
                Task::Regression => normalisation.apply(&raw),
                Task::Classification => {
                    let class = |y: &f64| f64::from(u8::from(*y >= 0.0));
                    raw.iter().map(class).collect()
                }
            };
            Split { x, y }
        };
        Dataset {
            features: self.features.clone(),
            labels: self.labels.clone(),
            normalisation: own,
            noise: self.noise,
            seed: self.seed,
            train: split(train, own),
            test: split(test, of_test),
        }
    }

    fn rows(&self, n: usize, first: u64) -> Rows {
        let d = self.features.dimension();
        let given = self.features.given(0, false);
        let zeros = vec![0.0; d];
        let mut rows = Rows::zeros(n, d);
        let one_part = match (&given, self.labels.variant) {
            (Given::Normal(g), Variant::AsReleased) => {
                let mut draws = Draws::new(self.seed, streams::FEATURES, first + (1 << 31));
                draws.index_below(g.parts())
            }
            _ => None,
        };
        for i in 0..n {
            let mut draws = Draws::new(self.seed, streams::FEATURES, first + i as u64);
            let out = rows.row_mut(i);
            match (&given, one_part) {
                (Given::Normal(g), Some(part)) => g.draw_part(part, &zeros, &mut draws, out),
                _ => given.draw(&zeros, &mut draws, out),
            }
        }
        rows
    }
}

/// Rows with labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub x: Rows,
    pub y: Vec<f64>,
}

/// A data set with what it was drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    pub features: Features,
    pub labels: Labels,
    /// Of the training labels.
    pub normalisation: Normalisation,
    pub noise: f64,
    pub seed: u64,
    pub train: Split,
    pub test: Split,
}

impl Dataset {
    pub fn dimension(&self) -> usize {
        self.features.dimension()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Component, Normal};
    use super::*;

    #[test]
    fn labels_have_the_training_statistics_and_rows_do_not_depend_on_their_number() {
        let recipe = Recipe::gaussian(LabelFunction::NonlinearAdditive, 5, 0.5, 3).unwrap();
        let made = recipe.make();
        let (mean, std) = crate::attribute::mean_and_std(&made.train.y, 0);
        assert!(mean.abs() < 1e-12 && (std - 1.0).abs() < 1e-12);
        let fewer = Recipe {
            train: 10,
            ..recipe
        }
        .make();
        assert_eq!(made.train.x.head(10), fewer.train.x);
        assert_ne!(made.train.x.row(0), made.test.x.row(0));
    }

    #[test]
    fn a_mixture_draws_its_component_for_each_row_and_as_released_once() {
        let component = |mean: f64| Component {
            weight: 1.0,
            mean: vec![mean; 3],
            covariance: vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        };
        let features = Normal::mixture(vec![component(10.0), component(-10.0)]).unwrap();
        let mut recipe = Recipe {
            features: Features::Normal(features),
            ..Recipe::gaussian(LabelFunction::Linear, 3, 0.0, 5).unwrap()
        };
        let above = |d: &Dataset| d.train.x.iter().filter(|r| r[0] > 0.0).count();
        assert!((400..600).contains(&above(&recipe.make())));
        recipe.labels.variant = Variant::AsReleased;
        assert!([0, 1000].contains(&above(&recipe.make())));
    }
}
