//! The scores as the paper defines them (\[bex\] eq. 2 to 7).
//!
//! P: the change lies within all three radii (a filter: what is too far counts for nothing). EF = P and ĥ flips. NCF = EF
//! and h_causal keeps. CF = P and ĥ keeps and h_causal flips. SCE = NCF ∪ CF. Trivial = EF and h_causal flips as well.
//! S# of a sample is the size of the set of its successful perturbations that are pairwise orthogonal or complementary
//! ([`crate::metrics::orthogonal_set`] with [`Complement::Each`] and without zeros); a sample without success counts 0.

use serde::Serialize;

use super::super::error::Result;
use super::super::orthogonal_set::{Complement, OrthogonalSetParams, ZeroPerturbations};
use super::super::{Matrix, MetricBackend};
use super::perturbation::{dimensions, perturbation};
use super::space::Space;
use super::{Explanations, class, mean};

/// Rounding of latents that an f32 file holds: a change to the farthest entry of a table is still proximal.
const SLACK: f64 = 1e-5;

/// What one counterfactual is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Within all radii.
    pub proximal: bool,
    /// ĥ changes.
    pub estimator: bool,
    /// h_causal changes.
    pub causal: bool,
}

impl Flags {
    pub fn estimator_flip(self) -> bool {
        self.proximal && self.estimator
    }

    pub fn non_causal_flip(self) -> bool {
        self.estimator_flip() && !self.causal
    }

    pub fn causal_flip(self) -> bool {
        self.proximal && !self.estimator && self.causal
    }

    pub fn successful(self) -> bool {
        self.non_causal_flip() || self.causal_flip()
    }

    pub fn trivial(self) -> bool {
        self.estimator_flip() && self.causal
    }
}

/// Scores of all counterfactuals together; shares are from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExactScores {
    pub samples: usize,
    pub explanations: usize,
    /// Share within the radii.
    pub proximal: f64,
    /// EF: share of all.
    pub estimator_flip: f64,
    /// SCE: share of all.
    pub successful: f64,
    /// NCF and CF: shares of the successful ones; 0 if there are none.
    pub non_causal_flip: f64,
    pub causal_flip: f64,
    /// Share of all that flip classifier and oracle.
    pub trivial: f64,
    /// S#: mean size of the orthogonal sets over all samples.
    pub cardinality: f64,
    /// Each sample's set: numbers of its counterfactuals in the order of admission.
    #[serde(skip)]
    pub selected: Vec<Vec<usize>>,
    #[serde(skip)]
    pub flags: Vec<Flags>,
}

/// τ and the readings of the listing that the text asks for.
pub fn selection() -> OrthogonalSetParams {
    OrthogonalSetParams {
        complement: Complement::Each,
        zeros: ZeroPerturbations::Excluded,
        ..OrthogonalSetParams::default()
    }
}

/// What each counterfactual is.
pub fn flags(space: &Space, given: &Explanations<'_>) -> Result<Vec<Flags>> {
    let n = given.per_sample()?;
    let r = space.radii;
    let mut all = Vec::with_capacity(given.z_cf.len());
    for (i, (z_cf, &logits)) in given.z_cf.iter().zip(given.logits_cf).enumerate() {
        let z = &given.z[i / n];
        let lengths = Space::lengths(z, z_cf);
        let radii = [r.character, r.font, r.continuous];
        all.push(Flags {
            proximal: lengths
                .iter()
                .zip(radii)
                .all(|(l, r)| *l <= r * (1.0 + SLACK)),
            estimator: class(logits) != class(given.logits[i / n]),
            causal: space.oracle(z_cf) != space.oracle(z),
        });
    }
    Ok(all)
}

/// Scores counterfactuals; sets are selected on `backend`.
pub fn score<B: MetricBackend>(
    backend: &B,
    space: &Space,
    given: &Explanations<'_>,
) -> Result<ExactScores> {
    let n = given.per_sample()?;
    let flags = flags(space, given)?;
    let d = dimensions(space);
    // What is not successful is a zero vector, which is never admitted.
    let mut vectors = Vec::with_capacity(given.z_cf.len() * d);
    for (i, z_cf) in given.z_cf.iter().enumerate() {
        match flags[i].successful() {
            true => perturbation(space, &given.z[i / n], z_cf, &mut vectors),
            false => vectors.extend(std::iter::repeat_n(0.0, d)),
        }
    }
    let samples = given.z.len();
    let origins = vec![0.0; samples * d];
    let origins = Matrix::new("origins", samples, d, &origins)?;
    let rows = Matrix::new("perturbations", given.z_cf.len(), d, &vectors)?;
    let sets = backend.orthogonal_sets(origins, rows, &selection())?;
    let share =
        |holds: fn(Flags) -> bool| mean(flags.iter().map(|&f| f64::from(u8::from(holds(f)))));
    let successful = share(Flags::successful);
    let of_successful = |share: f64| match successful > 0.0 {
        true => share / successful,
        false => 0.0,
    };
    Ok(ExactScores {
        samples,
        explanations: flags.len(),
        proximal: share(|f| f.proximal),
        estimator_flip: share(Flags::estimator_flip),
        successful,
        non_causal_flip: of_successful(share(Flags::non_causal_flip)),
        causal_flip: of_successful(share(Flags::causal_flip)),
        trivial: share(Flags::trivial),
        cardinality: mean(sets.iter().map(|s| s.size() as f64)),
        selected: sets.into_iter().map(|s| s.selected).collect(),
        flags,
    })
}
