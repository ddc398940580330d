//! Both readings of the scores of counterfactual latents, side by side.

use serde::{Deserialize, Serialize};

use super::LatentStudyError;
use crate::explain::latent::{Latent, World};
use crate::metrics::MetricBackend;
use crate::metrics::latent::Explanations;
use crate::metrics::latent::exact::{self, ExactScores};
use crate::metrics::latent::profile::{Change, profile};
use crate::metrics::latent::released::{self, BATCH, ReleasedScores};

/// Scores of the counterfactuals of a world's samples.
#[derive(Clone, Debug, Serialize)]
pub struct Scored {
    /// As the paper defines them.
    pub exact: ExactScores,
    /// As the package computes them.
    pub as_released: ReleasedScores,
    pub profile: Vec<Change>,
}

/// The numbers that tables are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    pub cardinality: f64,
    pub trivial: f64,
    pub estimator_flip: f64,
    pub successful: f64,
    pub causal_flip: f64,
    pub non_causal_flip: f64,
}

impl From<&ExactScores> for Numbers {
    fn from(s: &ExactScores) -> Self {
        Self {
            cardinality: s.cardinality,
            trivial: s.trivial,
            estimator_flip: s.estimator_flip,
            successful: s.successful,
            causal_flip: s.causal_flip,
            non_causal_flip: s.non_causal_flip,
        }
    }
}

impl From<&ReleasedScores> for Numbers {
    fn from(s: &ReleasedScores) -> Self {
        Self {
            cardinality: s.cardinality,
            trivial: s.trivial,
            estimator_flip: s.estimator_flip,
            successful: s.successful,
            causal_flip: s.causal_flip,
            non_causal_flip: s.non_causal_flip,
        }
    }
}

/// Scores `z_cf`, as many of each sample of the world; `logits_cf` are those of the world's classifier.
pub fn score<B: MetricBackend>(
    backend: &B,
    world: &World,
    z_cf: &[Latent],
    logits_cf: &[[f32; 2]],
) -> Result<Scored, LatentStudyError> {
    let samples = &world.samples;
    let given = Explanations {
        z: &samples.z,
        logits: &samples.logits,
        z_cf,
        logits_cf,
    };
    let n = given.per_sample()?;
    let exact = exact::score(backend, &world.space, &given)?;
    let near: Vec<Latent> = { z_cf.iter().enumerate() }
        .map(|(i, z_cf)| released::bounded(&world.space, &samples.z[i / n], z_cf))
        .collect();
    let logits_near = world.explained().logits(&near)?;
    let mut batches = Vec::new();
    for first in (0..samples.z.len()).step_by(BATCH) {
        let last = samples.z.len().min(first + BATCH);
        let batch = Explanations {
            z: &samples.z[first..last],
            logits: &samples.logits[first..last],
            z_cf: &near[first * n..last * n],
            logits_cf: &logits_near[first * n..last * n],
        };
        batches.push(released::score_batch(&world.space, &batch)?);
    }
    Ok(Scored {
        exact,
        as_released: released::run_average(&batches),
        profile: profile(&given)?,
    })
}
