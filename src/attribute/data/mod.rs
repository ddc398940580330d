//! Synthetic data whose distribution is known ([xai-bench] section 4): features, labels, whole data sets and twins of real tables.

mod dataset;
mod files;
mod labels;
mod multinomial;
mod normal;
mod numbers;
mod twin;

pub use dataset::{Dataset, Recipe, Split};
pub use files::{read, write};
pub use labels::{LabelFunction, Labels, Normalisation, Task};
pub use multinomial::Multinomial;
pub use normal::{Component, Normal, NormalGiven, pick};
pub use numbers::{Categories, Reading};
pub use twin::{Table, TwinReport, jensen_shannon_distance, nearest_neighbour};

use super::subsets::Subset;
use crate::stats::random::Draws;

/// How features are distributed.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// A Gaussian or a mixture of Gaussians.
    Normal(Normal),
    Multinomial(Multinomial),
}

impl Features {
    pub fn dimension(&self) -> usize {
        match self {
            Self::Normal(f) => f.dimension(),
            Self::Multinomial(f) => f.dimension(),
        }
    }

    /// gaussian, mixture or multinomial.
    pub fn family(&self) -> &'static str {
        match self {
            Self::Normal(f) if f.components().len() == 1 => "gaussian",
            Self::Normal(_) => "mixture",
            Self::Multinomial(_) => "multinomial",
        }
    }

    /// The features outside `subset`, given those in it; with `independent` they do not depend on them (interventional).
    pub fn given(&self, subset: Subset, independent: bool) -> Given {
        match self {
            Self::Normal(f) => Given::Normal(f.given(subset, independent)),
            Self::Multinomial(f) => Given::Multinomial(f.given(subset, independent)),
        }
    }
}

/// A conditional distribution.
#[derive(Clone, Debug)]
pub enum Given {
    Normal(NormalGiven),
    Multinomial(multinomial::MultinomialGiven),
}

impl Given {
    /// The mean; known features are those of x.
    pub fn mean(&self, x: &[f64]) -> Vec<f64> {
        match self {
            Self::Normal(g) => g.mean(x),
            Self::Multinomial(g) => g.mean(x),
        }
    }

    /// The covariance, d × d; zero for known features.
    pub fn covariance(&self, x: &[f64]) -> Vec<f64> {
        match self {
            Self::Normal(g) => g.covariance(x),
            Self::Multinomial(g) => g.covariance(x),
        }
    }

    /// One draw; known features are those of x.
    pub fn draw(&self, x: &[f64], draws: &mut Draws, out: &mut [f64]) {
        match self {
            Self::Normal(g) => g.draw(x, draws, out),
            Self::Multinomial(g) => g.draw(x, draws, out),
        }
    }
}
