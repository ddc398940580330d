//! Greedy orthogonal and complementary set of successful counterfactuals (\[bex\] Algorithm 1, score eq. 7).
//!
//! Perturbations δ = e − z are visited by ascending L1 norm (stable: lowest index first on ties). The first is kept; a further
//! one is admitted when it is orthogonal to all members, |cos| < τ, or complementary to a member, cos + 1 < τ. The size of the set
//! is the score. Differences and products are in `f64`; samples whose decisions are all clear of the thresholds, which is nearly every one,
//! are decided in `f32` (`screen.rs`), with the same sets.
//!
//! The listing leaves three things open:
//! * A zero perturbation explains nothing. With [`ZeroPerturbations::Excluded`] (default) it is never admitted; with `Admitted` it has
//!   cosine 0 with everything, as when each norm is floored at 1e-8 (the transcription that the golden cases follow).
//! * The text asks for "orthogonal or complementary to ALL", the listing for complementary to ANY: once +v and −v are in, every copy of
//!   either is admitted. [`Complement::Any`] is the listing (default), [`Complement::Each`] the text.
//! * No candidates: the set is empty.

use rayon::prelude::*;
use serde::Serialize;

use self::screen::Screen;
use super::error::{MetricError, Result};
use super::matrix::Matrix;

mod screen;

/// Smallest norm a cosine divides by.
const NORM_FLOOR: f64 = 1e-8;

/// What becomes of a perturbation of exactly zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ZeroPerturbations {
    #[default]
    Excluded,
    Admitted,
}

/// To which members a complementary perturbation must be complementary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Complement {
    /// To at least one member (the listing).
    #[default]
    Any,
    /// Orthogonal or complementary to each member (the text).
    Each,
}

/// Threshold and readings of the listing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OrthogonalSetParams {
    /// τ of the listing.
    pub tau: f64,
    pub zeros: ZeroPerturbations,
    pub complement: Complement,
}

impl Default for OrthogonalSetParams {
    fn default() -> Self {
        Self {
            tau: 0.15,
            zeros: ZeroPerturbations::default(),
            complement: Complement::default(),
        }
    }
}

impl OrthogonalSetParams {
    /// The listing word for word, zero perturbations included.
    pub fn as_printed() -> Self {
        Self {
            zeros: ZeroPerturbations::Admitted,
            ..Self::default()
        }
    }

    fn check(&self) -> Result<()> {
        if self.tau > 0.0 && self.tau <= 1.0 {
            return Ok(());
        }
        Err(MetricError::Parameter {
            name: "tau",
            expected: "above 0 and at most 1".to_owned(),
            found: self.tau.to_string(),
        })
    }
}

/// The selected counterfactuals of one sample; all lists hold indices of candidates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct OrthogonalSet {
    /// The whole set in the order of admission; its length is the score.
    pub selected: Vec<usize>,
    /// Members admitted as orthogonal to all earlier ones (the first included).
    pub orthogonal: Vec<usize>,
    /// Members admitted as complementary.
    pub complementary: Vec<usize>,
    /// Candidates equal to the original that were left out.
    pub zero: Vec<usize>,
}

impl OrthogonalSet {
    /// S_# of eq. 7.
    pub fn size(&self) -> usize {
        self.selected.len()
    }
}

/// Selects from `candidates` [n, d] around `original` `[d]`.
pub fn orthogonal_set(
    original: &[f32],
    candidates: Matrix<'_>,
    params: &OrthogonalSetParams,
) -> Result<OrthogonalSet> {
    select(&mut Screen::default(), original, candidates, params)
}

/// Samples that a thread takes at a time.
const SAMPLES: usize = 32;

/// Selects for each of `b` samples: `originals` [b, d], `candidates` [b · n, d], rows of one sample together.
pub fn orthogonal_sets(
    originals: Matrix<'_>,
    candidates: Matrix<'_>,
    params: &OrthogonalSetParams,
) -> Result<Vec<OrthogonalSet>> {
    let n = candidates_of_a_sample(originals, candidates)?;
    let mut sets = vec![OrthogonalSet::default(); originals.rows()];
    sets.par_chunks_mut(SAMPLES).enumerate().try_for_each_init(
        Screen::default,
        |screen, (piece, sets)| {
            for (k, set) in sets.iter_mut().enumerate() {
                let i = piece * SAMPLES + k;
                let own = candidates.slice("candidates", i * n, (i + 1) * n)?;
                *set = select(screen, originals.row(i), own, params)?;
            }
            Ok(())
        },
    )?;
    Ok(sets)
}

/// By the screen where that decides, else in f64.
fn select(
    screen: &mut Screen,
    original: &[f32],
    candidates: Matrix<'_>,
    params: &OrthogonalSetParams,
) -> Result<OrthogonalSet> {
    check_shape(original, candidates, params)?;
    if let Some(set) = screen.select(original, candidates, params) {
        return Ok(set);
    }
    check_sample(original, candidates, params)?;
    let d = candidates.cols();
    Ok(select_exactly(
        &perturbations(original, candidates),
        d,
        params,
    ))
}

/// How many of `candidates` each of `originals` has.
pub(super) fn candidates_of_a_sample(
    originals: Matrix<'_>,
    candidates: Matrix<'_>,
) -> Result<usize> {
    let b = originals.rows();
    if b == 0 {
        return Ok(0);
    }
    if !candidates.rows().is_multiple_of(b) {
        return Err(MetricError::shape(
            "candidates for the orthogonal sets",
            format!("the same number of rows for each of {b} samples"),
            format!("{} rows", candidates.rows()),
        ));
    }
    Ok(candidates.rows() / b)
}

/// What must hold of every sample before it is selected from.
pub(super) fn check_sample(
    original: &[f32],
    candidates: Matrix<'_>,
    params: &OrthogonalSetParams,
) -> Result<()> {
    check_shape(original, candidates, params)?;
    candidates.check_finite("candidates for the orthogonal set")?;
    let d = candidates.cols();
    Matrix::new("original", 1, d, original)?.check_finite("original for the orthogonal set")
}

fn check_shape(
    original: &[f32],
    candidates: Matrix<'_>,
    params: &OrthogonalSetParams,
) -> Result<()> {
    params.check()?;
    let d = candidates.cols();
    match original.len() == d {
        true => Ok(()),
        false => Err(MetricError::shape(
            "original for the orthogonal set",
            format!("{d} values, as in the candidates"),
            format!("{} values", original.len()),
        )),
    }
}

fn perturbations(original: &[f32], candidates: Matrix<'_>) -> Vec<f64> {
    candidates
        .data()
        .chunks_exact(original.len())
        .flat_map(|row| {
            row.iter()
                .zip(original)
                .map(|(&e, &z)| f64::from(e) - f64::from(z))
        })
        .collect()
}

fn select_exactly(deltas: &[f64], d: usize, params: &OrthogonalSetParams) -> OrthogonalSet {
    let delta = |i: usize| &deltas[i * d..(i + 1) * d];
    let n = deltas.len() / d;
    let l1: Vec<f64> = (0..n)
        .map(|i| delta(i).iter().map(|v| v.abs()).sum())
        .collect();
    let norms: Vec<f64> = (0..n)
        .map(|i| dot(delta(i), delta(i)).sqrt().max(NORM_FLOOR))
        .collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| l1[a].total_cmp(&l1[b]));

    let mut set = OrthogonalSet::default();
    for i in order {
        if l1[i] == 0.0 && params.zeros == ZeroPerturbations::Excluded {
            set.zero.push(i);
            continue;
        }
        let cosines = set
            .selected
            .iter()
            .map(|&j| dot(delta(i), delta(j)) / (norms[i] * norms[j]));
        match admission(cosines, params) {
            Some(Admitted::Orthogonal) => set.orthogonal.push(i),
            Some(Admitted::Complementary) => set.complementary.push(i),
            None => continue,
        }
        set.selected.push(i);
    }
    set
}

enum Admitted {
    Orthogonal,
    Complementary,
}

fn admission(cosines: impl Iterator<Item = f64>, params: &OrthogonalSetParams) -> Option<Admitted> {
    let (mut all_orthogonal, mut any_complementary, mut each) = (true, false, true);
    for cosine in cosines {
        let orthogonal = cosine.abs() < params.tau;
        let complementary = cosine + 1.0 < params.tau;
        all_orthogonal &= orthogonal;
        any_complementary |= complementary;
        each &= orthogonal || complementary;
    }
    let complementary = match params.complement {
        Complement::Any => any_complementary,
        Complement::Each => each,
    };
    match (all_orthogonal, complementary) {
        (true, _) => Some(Admitted::Orthogonal),
        (false, true) => Some(Admitted::Complementary),
        (false, false) => None,
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(candidates: &[f32], params: OrthogonalSetParams) -> OrthogonalSet {
        let candidates = Matrix::new("t", candidates.len() / 2, 2, candidates).unwrap();
        orthogonal_set(&[0.0, 0.0], candidates, &params).unwrap()
    }

    #[test]
    fn orthogonal_and_complementary_members_are_told_apart() {
        let got = run(
            &[3.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, -4.0],
            OrthogonalSetParams::default(),
        );
        assert_eq!(got.selected, [2, 1, 3]);
        assert_eq!(got.orthogonal, [2, 1]);
        assert_eq!(got.complementary, [3]);
        assert_eq!(got.size(), 3);
    }

    #[test]
    fn copies_are_admitted_by_the_listing_but_not_by_the_text() {
        let copies = [1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0];
        let listing = run(&copies, OrthogonalSetParams::default());
        assert_eq!(listing.selected, [0, 1, 2, 3]);
        let text = OrthogonalSetParams {
            complement: Complement::Each,
            ..OrthogonalSetParams::default()
        };
        assert_eq!(run(&copies, text).selected, [0, 1]);
    }

    #[test]
    fn a_value_that_is_not_finite_is_named() {
        for wild in [f32::NAN, f32::INFINITY] {
            let rows = [1.0, 0.0, 0.0, wild];
            let rows = Matrix::new("t", 2, 2, &rows).unwrap();
            let params = OrthogonalSetParams::default();
            let error = orthogonal_set(&[0.0, 0.0], rows, &params).unwrap_err();
            assert!(error.to_string().contains("row 1"), "{error}");
            let good = Matrix::new("t", 1, 2, &[1.0, 0.0]).unwrap();
            assert!(orthogonal_set(&[0.0, wild], good, &params).is_err());
            let none = Matrix::new("t", 0, 2, &[]).unwrap();
            assert!(orthogonal_set(&[0.0, wild], none, &params).is_err());
        }
    }

    #[test]
    fn zero_perturbations_are_left_out_unless_asked_for() {
        let data = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
        let got = run(&data, OrthogonalSetParams::default());
        assert_eq!((got.selected, got.zero), (vec![1], vec![0, 2]));
        let printed = run(&data, OrthogonalSetParams::as_printed());
        assert_eq!(printed.selected, [0, 2, 1]);
    }

    #[test]
    fn no_candidates_give_an_empty_set() {
        assert_eq!(run(&[], OrthogonalSetParams::default()).size(), 0);
    }

    #[test]
    fn a_batch_gives_the_sets_of_its_samples() {
        let originals = [0.0, 0.0, 1.0, 1.0];
        let candidates = [1.0, 0.0, 0.0, 1.0, 2.0, 1.0, 3.0, 1.0];
        let originals = Matrix::new("z", 2, 2, &originals).unwrap();
        let rows = Matrix::new("e", 4, 2, &candidates).unwrap();
        let params = OrthogonalSetParams::default();
        let sets = orthogonal_sets(originals, rows, &params).unwrap();
        assert_eq!(sets[0].selected, [0, 1]);
        assert_eq!(sets[1].selected, [0]);
        let three = rows.slice("e", 0, 3).unwrap();
        assert!(orthogonal_sets(originals, three, &params).is_err());
        let wild = OrthogonalSetParams { tau: 0.0, ..params };
        assert!(orthogonal_sets(originals, rows, &wild).is_err());
    }
}
