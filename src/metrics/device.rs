//! What a device does for metrics beyond running networks. The defaults are the host's exact routines, which are
//! also what a device's own kernels have to agree with.

use super::error::Result;
use super::fid::{FrechetDistance, frechet_from_features};
use super::matrix::Matrix;
use super::moments::{Moments, MomentsAccumulator};
use super::orthogonal_set::{OrthogonalSet, OrthogonalSetParams, orthogonal_sets};
use super::validity::{Judgement, Validity, predictions, validity};
use super::votes::{Vote, count_votes};
use crate::tensor::{Backend, cpu::Cpu};

/// Moments of features, votes of a committee, selection of orthogonal sets.
pub trait MetricBackend: Backend {
    /// Empty moments of `dims` features.
    fn moments(&self, dims: usize) -> Result<Box<dyn RunningMoments + '_>> {
        Ok(Box::new(MomentsAccumulator::new(dims)))
    }

    /// Predictions, agreement and votes of a classifier and its oracles.
    fn committee(&self, judgement: Judgement<'_>) -> Result<Validity> {
        validity(judgement)
    }

    /// The class each judge names for each image (of the largest logit, the lowest on ties), and what the oracles say
    /// together. The first judge is the classifier, the others are the oracles.
    fn opinions(&self, judges: &[JudgeLogits<'_, Self>]) -> Result<Opinions> {
        opinions(judges)
    }

    /// Fréchet distance of features, one row per image.
    fn frechet(&self, real: Matrix<'_>, fake: Matrix<'_>) -> Result<FrechetDistance> {
        frechet_from_features(real, fake)
    }

    /// Orthogonal and complementary sets of many samples.
    fn orthogonal_sets(
        &self,
        originals: Matrix<'_>,
        candidates: Matrix<'_>,
        params: &OrthogonalSetParams,
    ) -> Result<Vec<OrthogonalSet>> {
        orthogonal_sets(originals, candidates, params)
    }
}

/// Logits of one judge.
pub struct JudgeLogits<'a, B: Backend + ?Sized> {
    /// For errors.
    pub name: &'a str,
    pub logits: Matrix<'a>,
    /// The same where a network left them.
    pub on_device: Option<&'a B::Tensor>,
}

/// What judges say of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinions {
    /// The class each judge names for each image.
    pub classes: Vec<Vec<usize>>,
    /// What the oracles say together of each image; none without oracles.
    pub votes: Vec<Vote>,
}

/// [`MetricBackend::opinions`] by the host.
pub(super) fn opinions<B: Backend + ?Sized>(judges: &[JudgeLogits<'_, B>]) -> Result<Opinions> {
    let classes = judges
        .iter()
        .map(|judge| predictions(judge.name, judge.logits))
        .collect::<Result<Vec<_>>>()?;
    let votes = match classes.get(1..) {
        None | Some([]) => Vec::new(),
        Some(oracles) => {
            let named = oracles.iter().flatten().map(|class| class + 1).max();
            let ballots = count_votes(oracles, named.unwrap_or(1))?;
            ballots.iter().map(Vote::from).collect()
        }
    };
    Ok(Opinions { classes, votes })
}

/// Moments that rows are added to, strictly in order, wherever they are kept.
pub trait RunningMoments {
    /// Adds rows; on an error nothing is added.
    fn push(&mut self, what: &str, rows: Matrix<'_>) -> Result<()>;
    /// The moments of all rows.
    fn finish(self: Box<Self>) -> Result<Moments>;
}

impl RunningMoments for MomentsAccumulator {
    fn push(&mut self, what: &str, rows: Matrix<'_>) -> Result<()> {
        MomentsAccumulator::push(self, what, rows)
    }

    fn finish(self: Box<Self>) -> Result<Moments> {
        Ok(MomentsAccumulator::finish(*self))
    }
}

impl MetricBackend for Cpu {}
