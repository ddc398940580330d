//! What a device does for metrics beyond running networks. The defaults are the host's exact routines, which are
//! also what a device's own kernels have to agree with.

use super::error::Result;
use super::matrix::Matrix;
use super::moments::MomentsAccumulator;
use super::orthogonal_set::{OrthogonalSet, OrthogonalSetParams, orthogonal_sets};
use super::validity::{Judgement, Validity, validity};
use crate::tensor::{Backend, cpu::Cpu};

/// Moments of features, votes of a committee, selection of orthogonal sets.
pub trait MetricBackend: Backend {
    /// Adds rows of features to running moments, strictly in order.
    fn push_moments(
        &self,
        moments: &mut MomentsAccumulator,
        what: &str,
        rows: Matrix<'_>,
    ) -> Result<()> {
        moments.push(what, rows)
    }

    /// Predictions, agreement and votes of a classifier and its oracles.
    fn committee(&self, judgement: Judgement<'_>) -> Result<Validity> {
        validity(judgement)
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

impl MetricBackend for Cpu {}
