//! The scores as the package bex 0.5.2 computes them, mistakes included, to reproduce its numbers.
//!
//! - Proximity is a projection: the continuous part is scaled down to length 1, then all of the change once more by the same
//!   factor; each length has 1e-6 added.
//! - Success = (ĥ flips, or only h_causal does) and not (right before and after): a flip of both from wrong to wrong counts.
//! - Sets: probabilities of characters and typefaces together are one part with a cosine ≥ 0, the continuous differences
//!   another; their SUM is compared with ±τ. A vector is admitted when complementary to ANY member.
//! - The order is that of the k successful ones, but it picks from ALL explanations of the sample, so that the first k are compared
//!   ([`Order::Released`]); [`Order::Intended`] compares the successful ones.
//! - S# of a batch is the mean over samples that have a success, 0 if none has; a run is the plain mean over batches.

use serde::Serialize;

use super::super::error::Result;
use super::perturbation::softmax;
use super::space::Space;
use super::{CONTINUOUS, Explanations, LATENT, Latent, class, mean};

/// Samples in a batch.
pub const BATCH: usize = 12;
/// 1/t of eq. 12 as the package has it.
const SCALE: f64 = 3.0;
const TAU: f64 = 0.15;
/// Smallest norm a cosine divides by.
const FLOOR: f64 = 1e-8;

/// Which vectors are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first k explanations, in the order of the k successful ones.
    Released,
    /// The successful ones.
    Intended,
}

/// The package's step towards the sample, for one counterfactual.
pub fn bounded(space: &Space, z: &Latent, z_cf: &Latent) -> Latent {
    let mut delta: [f64; LATENT] = std::array::from_fn(|k| f64::from(z_cf[k] - z[k]));
    let shrink = |delta: &mut [f64; LATENT], by: std::ops::Range<usize>, radius: f64| -> f64 {
        let norm = delta[by.clone()].iter().map(|d| d.abs()).sum::<f64>() + 1e-6;
        let factor = norm.min(radius) / norm;
        delta[by].iter_mut().for_each(|d| *d *= factor);
        factor
    };
    let factor = shrink(&mut delta, CONTINUOUS..LATENT, space.radii.continuous);
    delta.iter_mut().for_each(|d| *d *= factor);
    shrink(&mut delta, 0..3, space.radii.character);
    shrink(&mut delta, 3..6, space.radii.font);
    std::array::from_fn(|k| (f64::from(z[k]) + delta[k]) as f32)
}

/// What one counterfactual is to the package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    pub flip: bool,
    pub causal: bool,
    /// Classifier and oracle agree before and after.
    pub agree: bool,
}

impl Flags {
    pub fn successful(self) -> bool {
        (self.flip || self.causal) && !self.agree
    }
}

/// What each counterfactual is; `z_cf` after the step of [`bounded`].
pub fn flags(space: &Space, given: &Explanations<'_>) -> Result<Vec<Flags>> {
    let n = given.per_sample()?;
    let of = |(i, (z_cf, &logits)): (usize, (&Latent, &[f32; 2]))| {
        let sample = i / n;
        let (before, after) = (class(given.logits[sample]), class(logits));
        let (oracle, oracle_after) = (space.oracle(&given.z[sample]), space.oracle(z_cf));
        let flip = before != after;
        Flags {
            flip,
            causal: !flip && oracle != oracle_after,
            agree: before == oracle && after == oracle_after,
        }
    };
    Ok(given
        .z_cf
        .iter()
        .zip(given.logits_cf)
        .enumerate()
        .map(of)
        .collect())
}

/// Probabilities of characters and typefaces, then the continuous numbers.
pub fn transformed(space: &Space, z: &Latent) -> Vec<f64> {
    let mut all = softmax(&space.characters, &z[..3], SCALE);
    all.extend(softmax(&space.fonts, &z[3..6], SCALE));
    all.extend(z[CONTINUOUS..].iter().map(|&v| f64::from(v)));
    all
}

/// The same with 1 for the nearest character and typeface and 0 for the others.
pub fn one_hot(space: &Space, z: &Latent) -> Vec<f64> {
    let [character, font] = space.nearest(z);
    let mut all = vec![0.0; space.characters.len() + space.fonts.len()];
    all[character] = 1.0;
    all[space.characters.len() + font] = 1.0;
    all.extend(z[CONTINUOUS..].iter().map(|&v| f64::from(v)));
    all
}

/// The set of one sample: numbers of its explanations in the order of admission.
pub fn orthogonal_set(
    space: &Space,
    z: &Latent,
    z_cf: &[Latent],
    successful: &[bool],
    order: Order,
) -> Vec<usize> {
    let own = one_hot(space, z);
    let soft: Vec<Vec<f64>> = z_cf.iter().map(|e| transformed(space, e)).collect();
    let chosen: Vec<usize> = (0..z_cf.len()).filter(|&i| successful[i]).collect();
    let l1 = |i: usize| -> f64 { own.iter().zip(&soft[i]).map(|(a, b)| (a - b).abs()).sum() };
    let norms: Vec<f64> = chosen.iter().map(|&i| l1(i)).collect();
    let mut sorted: Vec<usize> = (0..chosen.len()).collect();
    sorted.sort_by(|&a, &b| norms[a].total_cmp(&norms[b]));
    let parts = own.len() - (LATENT - CONTINUOUS);
    let vector = |i: usize| -> Vec<f64> {
        let both = soft[i].iter().zip(&own).enumerate();
        both.map(|(k, (v, o))| match k < parts {
            true => v * (1.0 - o),
            false => o - v,
        })
        .collect()
    };
    let mut members: Vec<Vec<f64>> = Vec::new();
    let mut selected = Vec::new();
    for place in sorted {
        let compared = match order {
            Order::Released => place,
            Order::Intended => chosen[place],
        };
        let candidate = vector(compared);
        let values: Vec<f64> = { members.iter() }
            .map(|m| {
                cosine(&candidate[..parts], &m[..parts]) + cosine(&candidate[parts..], &m[parts..])
            })
            .collect();
        if values.iter().all(|v| v.abs() < TAU) || values.iter().any(|v| *v < TAU - 1.0) {
            members.push(candidate);
            selected.push(chosen[place]);
        }
    }
    selected
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a).sqrt().max(FLOOR) * dot(b, b).sqrt().max(FLOOR))
}

/// Scores of one batch, or means over the batches of a run; shares are from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ReleasedScores {
    /// S#.
    pub cardinality: f64,
    /// SCE.
    pub successful: f64,
    pub non_causal_flip: f64,
    pub causal_flip: f64,
    pub trivial: f64,
    /// Share of flips, which the package does not report.
    pub estimator_flip: f64,
}

/// Scores of a batch whose counterfactuals are bounded.
pub fn score_batch(space: &Space, given: &Explanations<'_>) -> Result<ReleasedScores> {
    let n = given.per_sample()?;
    let flags = flags(space, given)?;
    let success: Vec<bool> = flags.iter().map(|f| f.successful()).collect();
    let estimator_flip = mean(flags.iter().map(|f| f64::from(u8::from(f.flip))));
    let successes = success.iter().filter(|s| **s).count();
    if successes == 0 {
        return Ok(ReleasedScores {
            estimator_flip,
            ..ReleasedScores::default()
        });
    }
    let sizes = sets(space, given, &success, Order::Released)?;
    let count = |holds: &dyn Fn(&Flags) -> bool| flags.iter().filter(|f| holds(f)).count() as f64;
    let sets = sizes.iter().map(Vec::len).filter(|size| *size > 0);
    let sets: Vec<f64> = sets.map(|size| size as f64).collect();
    Ok(ReleasedScores {
        cardinality: mean(sets.into_iter()),
        successful: successes as f64 / (given.z.len() * n) as f64,
        non_causal_flip: count(&|f| f.flip && !f.agree) / successes as f64,
        causal_flip: count(&|f| f.causal && !f.agree) / successes as f64,
        trivial: count(&|f| f.flip && f.agree) / flags.len() as f64,
        estimator_flip,
    })
}

/// Sets of all samples of a batch; empty for a sample without success.
pub fn sets(
    space: &Space,
    given: &Explanations<'_>,
    successful: &[bool],
    order: Order,
) -> Result<Vec<Vec<usize>>> {
    let n = given.per_sample()?;
    let of = |(i, z): (usize, &Latent)| {
        let own = i * n..(i + 1) * n;
        orthogonal_set(space, z, &given.z_cf[own.clone()], &successful[own], order)
    };
    Ok(given.z.iter().enumerate().map(of).collect())
}

/// Means over batches.
pub fn run_average(batches: &[ReleasedScores]) -> ReleasedScores {
    let of = |value: fn(&ReleasedScores) -> f64| mean(batches.iter().map(value));
    ReleasedScores {
        cardinality: of(|s| s.cardinality),
        successful: of(|s| s.successful),
        non_causal_flip: of(|s| s.non_causal_flip),
        causal_flip: of(|s| s.causal_flip),
        trivial: of(|s| s.trivial),
        estimator_flip: of(|s| s.estimator_flip),
    }
}
