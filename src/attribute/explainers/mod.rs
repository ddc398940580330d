//! The explainers of the benchmark ([xai-bench] section 5.1): a model, its training rows and points give a weight for each feature.

#[cfg(test)]
mod axioms;
mod bf_shap;
mod breakdown;
mod kernel_shap;
pub mod l2x;
pub mod lime;
pub mod maple;
mod shap;
mod shapr;

pub use bf_shap::{BfShap, brute_force};
pub use breakdown::{Breakdown, breakdown};
pub use kernel_shap::KernelShap;
pub use l2x::L2x;
pub use lime::Lime;
pub use maple::Maple;
pub use shap::{Shap, background, coalition_means, shapley_of_background};
pub use shapr::{Approach, Shapr};

use std::str::FromStr;

use rayon::prelude::*;

use super::error::{AttributionError, Result};
use super::models::Model;
use super::rows::Rows;
use super::{Variant, streams};
use crate::stats::random::Draws;

/// A method by name, with the paper's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    Random,
    Shap,
    KernelShap,
    BfShap,
    Shapr,
    Lime,
    Maple,
    L2x,
    Breakdown,
}

impl Method {
    pub const ALL: [Self; 9] = [
        Self::Random,
        Self::Shap,
        Self::KernelShap,
        Self::BfShap,
        Self::Shapr,
        Self::Lime,
        Self::Maple,
        Self::L2x,
        Self::Breakdown,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Shap => "shap",
            Self::KernelShap => "kernel-shap",
            Self::BfShap => "bf-shap",
            Self::Shapr => "shapr",
            Self::Lime => "lime",
            Self::Maple => "maple",
            Self::L2x => "l2x",
            Self::Breakdown => "breakdown",
        }
    }

    /// The weights of `points`, a row for each. `train` are the rows the model was trained on.
    pub fn explain(
        self,
        model: &Model,
        train: &Rows,
        points: &Rows,
        variant: Variant,
        seed: u64,
    ) -> Result<Rows> {
        model.check_dimension(train.columns)?;
        model.check_dimension(points.columns)?;
        match self {
            Self::Random => Ok(random(points, seed)),
            Self::Shap => Shap::default().explain(model, train, points, seed),
            Self::KernelShap => KernelShap::default().explain(model, train, points, seed),
            Self::BfShap => BfShap {
                variant,
                ..BfShap::default()
            }
            .explain(model, train, points),
            Self::Shapr => Shapr::of(variant).explain(model, train, points, seed),
            Self::Lime => Ok(Lime::default().explain(model, train, points, seed)),
            Self::Maple if train.len() < 2 => Err(AttributionError::Unsupported {
                what: "maple".into(),
                reason: format!(
                    "grows a forest on some training rows and tries it on others: at least 2 are needed, {} is there",
                    train.len()
                ),
            }),
            Self::Maple => {
                let maple = Maple::fit(&maple::Settings::default(), model, train, seed);
                Ok(maple.explain(points))
            }
            Self::L2x => L2x::of(variant).explain(model, train, points, seed),
            Self::Breakdown => Ok(Breakdown { variant }.explain(model, train, points)),
        }
    }
}

impl FromStr for Method {
    type Err = AttributionError;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|m| m.name() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            AttributionError::setting("--method", format!("one of {names}"), format!("{text:?}"))
        })
    }
}

/// Standard normal weights: what an explainer has to beat.
fn random(points: &Rows, seed: u64) -> Rows {
    let rows = (0..points.len()).map(|i| {
        let mut draws = Draws::new(seed, streams::RANDOM_WEIGHTS, i as u64);
        (0..points.columns).map(|_| draws.normal()).collect()
    });
    Rows::from_rows(rows, points.columns)
}

/// Explains each point on its own, on all threads.
fn each(points: &Rows, explain: impl Fn(usize, &[f64]) -> Vec<f64> + Sync) -> Rows {
    let rows: Vec<Vec<f64>> = (0..points.len())
        .into_par_iter()
        .map(|i| explain(i, points.row(i)))
        .collect();
    Rows::from_rows(rows, points.columns)
}

/// Refuses to count through more subsets than can be.
fn check_enumerable(what: &str, d: usize) -> Result<()> {
    match d <= super::subsets::MOST_ENUMERATED {
        true => Ok(()),
        false => Err(AttributionError::Unsupported {
            what: what.into(),
            reason: format!(
                "{d} features have too many subsets to count through (at most {}); use kernel-shap, which samples them",
                super::subsets::MOST_ENUMERATED
            ),
        }),
    }
}
