//! The metrics of the benchmark ([xai-bench] section 3.2): how well weights describe what a model does when features are unknown.

pub mod choice;
mod estimate;
mod faithfulness;
mod games;
mod gt_shapley;
mod infidelity;
mod monotonicity;
pub mod roar;
mod score;

pub use estimate::{Estimate, GROUPS, jackknife};
pub use faithfulness::{
    faithfulness, faithfulness_adding, faithfulness_with_aliased_baseline,
    faithfulness_with_baseline,
};
pub use games::{Games, Plan, Requests};
pub use gt_shapley::{GroundTruth, distances, ground_truth};
pub use infidelity::{Moments, Replacements, infidelity_of, perturbation, released_perturbation};
pub use monotonicity::{
    Order, Steps, monotonicity, monotonicity_of_walk, monotonicity_with_aliased_baseline,
    monotonicity_with_baseline, walk,
};
pub use roar::{Removal, Retraining, Roar};
pub use score::{Metric, Scoring, Settings};

use serde::{Deserialize, Serialize};

/// What is assumed of unknown features.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Conditional {
    /// They are distributed as they are where the known features have these values: true to the data.
    #[default]
    Observational,
    /// They do not depend on the known features: true to the model.
    Interventional,
}

impl Conditional {
    pub fn name(self) -> &'static str {
        match self {
            Self::Observational => "observational",
            Self::Interventional => "interventional",
        }
    }
}

/// Pearson's correlation; 0 where one of the lists is constant, which correlates with nothing.
pub fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let (mean_a, mean_b) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let (mut both, mut own_a, mut own_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - mean_a, y - mean_b);
        both += x * y;
        own_a += x * x;
        own_b += y * y;
    }
    let correlation = both / (own_a.sqrt() * own_b.sqrt());
    // Rounding leaves a trace of a spread in a list of equal values.
    let constant = |own: f64, mean: f64| own <= n * (1e-15 * mean).powi(2);
    if constant(own_a, mean_a) || constant(own_b, mean_b) || !correlation.is_finite() {
        return 0.0;
    }
    correlation.clamp(-1.0, 1.0)
}

/// Features by the size of their weights, the least first; equal ones in their order (numpy's for short lists).
pub fn ascending(weights: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[a].abs().total_cmp(&weights[b].abs()));
    order
}

pub(super) fn absolute(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| v.abs()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correlation_with_a_constant_is_nothing() {
        assert_eq!(pearson(&[1.0, 2.0, 3.0], &[0.1, 0.1, 0.1]), 0.0);
        assert_eq!(pearson(&[0.0; 3], &[1.0, 2.0, 4.0]), 0.0);
        assert!((pearson(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]) - 1.0).abs() < 1e-15);
        assert!((pearson(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-15);
    }
}
