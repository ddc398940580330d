//! What a device does for metrics beyond running networks. The defaults are the host's exact routines, which are
//! also what a device's own kernels have to agree with.

use super::error::Result;
use super::matrix::Matrix;
use super::moments::{Moments, MomentsAccumulator};
use super::orthogonal_set::{OrthogonalSet, OrthogonalSetParams, orthogonal_sets};
use super::validity::{Judgement, Validity, predictions, validity};
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

    /// The class each judge names for each image: of the largest logit, the lowest on ties. Judges have a name for errors.
    fn classes(&self, judges: &[(String, Matrix<'_>)]) -> Result<Vec<Vec<usize>>> {
        let all = judges.iter();
        all.map(|(what, logits)| predictions(what, *logits))
            .collect()
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
