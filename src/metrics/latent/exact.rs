//! The scores as the paper defines them (\[bex\] eq. 2 to 7).
//!
//! P: the change lies within all three radii (a filter: what is too far counts for nothing). EF = P and ĥ flips. NCF = EF
//! and h_causal keeps. CF = P and ĥ keeps and h_causal flips. SCE = NCF ∪ CF. Trivial = EF and h_causal flips as well.
//! All of it is measured on what is shown ([`Space::shown`]): a change that no image has is no change.
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
        let [z, z_cf] = [&given.z[i / n], z_cf].map(|z| space.shown(z));
        let lengths = Space::lengths(&z, &z_cf);
        let radii = [r.character, r.font, r.continuous];
        all.push(Flags {
            proximal: lengths
                .iter()
                .zip(radii)
                .all(|(l, r)| *l <= r * (1.0 + SLACK)),
            estimator: class(logits) != class(given.logits[i / n]),
            causal: space.oracle(&z_cf) != space.oracle(&z),
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
            true => {
                let [z, z_cf] = [&given.z[i / n], z_cf].map(|z| space.shown(z));
                perturbation(space, &z, &z_cf, &mut vectors);
            }
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

#[cfg(test)]
mod tests {
    use super::super::{LATENT, Latent};
    use super::*;
    use crate::tensor::cpu::Cpu;

    /// Eight characters and eight typefaces on the corners of cubes.
    fn space() -> Space {
        let corner = |i: usize| [0, 1, 2].map(|k| if i >> k & 1 == 1 { 3.0 } else { -3.0 });
        let table: Vec<[f32; 3]> = (0..8).map(corner).collect();
        let wide = ([-9.0; LATENT], [9.0; LATENT]);
        Space::new([&table, &table], ([0.0; LATENT], [1.0; LATENT]), wide).unwrap()
    }

    /// A sample of character 0 and typeface 0.
    fn sample() -> Latent {
        let mut z = [0.0; LATENT];
        z[..6].fill(-3.0);
        z
    }

    fn with(changes: &[(usize, f32)]) -> Latent {
        let mut z = sample();
        for &(k, v) in changes {
            z[k] = v;
        }
        z
    }

    const EVEN: [f32; 2] = [1.0, 0.0];
    const ODD: [f32; 2] = [0.0, 1.0];

    fn scored(z_cf: &[Latent], logits_cf: &[[f32; 2]]) -> ExactScores {
        let given = Explanations {
            z: &[sample()],
            logits: &[EVEN],
            z_cf,
            logits_cf,
        };
        score(&Cpu, &space(), &given).unwrap()
    }

    #[test]
    fn flips_are_told_apart_by_what_the_oracle_does() {
        let z_cf = [
            with(&[(3, 3.0)]),           // typeface only
            with(&[(0, 3.0)]),           // character 1 is odd
            with(&[(0, 3.0)]),           // the same, and the classifier follows
            with(&[(7, 0.5)]),           // nothing flips
            with(&[(3, 3.0), (7, 1.5)]), // a flip, but too far
        ];
        let found = scored(&z_cf, &[ODD, EVEN, ODD, EVEN, ODD]);
        let kinds: Vec<[bool; 4]> = { found.flags.iter() }
            .map(|f| {
                [
                    f.estimator_flip(),
                    f.non_causal_flip(),
                    f.causal_flip(),
                    f.trivial(),
                ]
            })
            .collect();
        assert_eq!(kinds[0], [true, true, false, false]);
        assert_eq!(kinds[1], [false, false, true, false]);
        assert_eq!(kinds[2], [true, false, false, true]);
        assert_eq!(kinds[3], [false; 4]);
        assert_eq!(kinds[4], [false; 4]);
        assert_eq!(found.successful, 0.4);
        assert_eq!((found.non_causal_flip, found.causal_flip), (0.5, 0.5));
        assert_eq!(
            (found.estimator_flip, found.trivial, found.proximal),
            (0.4, 0.2, 0.8)
        );
        assert_eq!(found.selected, [vec![0, 1]]);
    }

    #[test]
    fn typefaces_are_orthogonal_and_copies_are_not() {
        let fonts = [
            with(&[(3, 3.0)]),
            with(&[(4, 3.0)]),
            with(&[(3, 3.0)]),
            with(&[(5, 3.0)]),
        ];
        let found = scored(&fonts, &[ODD; 4]);
        assert_eq!(found.cardinality, 3.0);
        assert_eq!(found.selected[0].len(), 3);
    }

    #[test]
    fn the_farthest_typeface_is_still_proximal() {
        let found = scored(&[with(&[(3, 3.0), (4, 3.0), (5, 3.0)])], &[ODD]);
        assert!(found.flags[0].proximal);
    }

    #[test]
    fn samples_without_success_count_nothing_and_give_no_nan() {
        let given = Explanations {
            z: &[sample(), sample()],
            logits: &[EVEN, EVEN],
            z_cf: &[with(&[(3, 3.0)]), sample()],
            logits_cf: &[ODD, EVEN],
        };
        assert_eq!(score(&Cpu, &space(), &given).unwrap().cardinality, 0.5);
        let none = scored(&[sample()], &[EVEN]);
        let numbers = [
            none.cardinality,
            none.non_causal_flip,
            none.causal_flip,
            none.trivial,
        ];
        assert_eq!(numbers, [0.0; 4]);
    }

    /// An explainer that repeats ±v: the listing admits every copy, the exact rule the first two.
    #[test]
    fn repeating_a_perturbation_and_its_opposite_gains_nothing() {
        let copy = |i: usize| {
            let sign = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
            with(&[(7, sign * (0.5 + 0.001 * i as f32))])
        };
        let z_cf: Vec<Latent> = (0..200).map(copy).collect();
        let exact = scored(&z_cf, &[ODD; 200]);
        assert_eq!(exact.successful, 1.0);
        assert_eq!(exact.cardinality, 2.0);
        let rows = Matrix::new("copies", 200, LATENT, z_cf.as_flattened()).unwrap();
        let listing = OrthogonalSetParams::as_printed();
        let listing = crate::metrics::orthogonal_set::orthogonal_set(&sample(), rows, &listing);
        assert_eq!(listing.unwrap().size(), 200);
    }

    /// One change many times, its copies told apart by what no image shows or by a touch of a hair of another attribute.
    #[test]
    fn dressing_up_one_change_gains_nothing() {
        let copies = |dress: &dyn Fn(usize) -> Vec<(usize, f32)>| {
            let z_cf: Vec<Latent> = (0..200)
                .map(|i| {
                    let mut changes = vec![(7, 0.004 * (1.0 + 0.001 * i as f32))];
                    changes.extend(dress(i));
                    with(&changes)
                })
                .collect();
            scored(&z_cf, &[ODD; 200]).cardinality
        };
        let sign = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        assert_eq!(copies(&|_| vec![]), 1.0);
        // Inverse colour is rounded back to 0.
        assert_eq!(copies(&|i| vec![(6, 0.4 * sign(i))]), 1.0);
        // Beyond the limits of what is shown.
        assert_eq!(
            copies(&|i| vec![(8, 9.0 + i as f32)]),
            0.0,
            "too far as far as it is shown"
        );
        for touched in [0, 3] {
            assert_eq!(copies(&|i| vec![(touched, -3.0 + 1e-6 * sign(i))]), 1.0);
        }
        let all = |i: usize| {
            vec![
                (0, -3.0 + 1e-6),
                (4, -3.0 - 1e-6 * sign(i)),
                (6, 0.3 * sign(i)),
            ]
        };
        assert_eq!(copies(&all), 1.0);
    }

    /// A way to another typeface counts as it goes: half of it is a direction, none of it is none.
    #[test]
    fn an_embedding_moves_without_a_jump() {
        let space = space();
        let length = |by: f32| {
            let mut vector = Vec::new();
            perturbation(&space, &sample(), &with(&[(3, -3.0 + by)]), &mut vector);
            vector.iter().map(|v| f64::from(*v).abs()).sum::<f64>()
        };
        assert_eq!(length(0.0), 0.0);
        assert!(length(1e-3) < 1e-3);
        assert!(length(6.0) > 0.9);
    }

    /// The golden data's case of 200 axis-aligned candidates in 11 dimensions: 189 by the listing. Here 11 of 200
    /// repeat an axis before its opposite has come.
    #[test]
    fn axis_aligned_candidates_are_counted_once_for_each_direction() {
        use crate::metrics::orthogonal_set::orthogonal_set;
        let mut data = vec![0.0f32; 200 * LATENT];
        for (i, row) in data.chunks_exact_mut(LATENT).enumerate() {
            let length = 1.0 + 0.01 * i as f32;
            // Each axis twice, then in turns with both signs.
            let sign = if i < 22 || (i / LATENT) % 2 == 1 {
                1.0
            } else {
                -1.0
            };
            row[i % LATENT] = sign * length;
        }
        let rows = Matrix::new("axes", 200, LATENT, &data).unwrap();
        let sizes = [OrthogonalSetParams::as_printed(), selection()].map(|params| {
            orthogonal_set(&[0.0; LATENT], rows, &params)
                .unwrap()
                .size()
        });
        assert_eq!(sizes, [189, 22]);
    }
}
