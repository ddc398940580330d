//! Moments, committees and orthogonal sets by the kernels of a GPU.
//!
//! Classes, agreement and votes are whole numbers, the same on every device; probabilities are the host's, in f64.
//! Moments are sums and products of differences from the first row in two f32 (48 bits), from which mean and covariance are
//! taken in f64: FID agrees with the host's to 1e-5 relative and better; features so large or so small that their products
//! leave the range of f32 are the host's. Orthogonal sets are those of the host, exactly: a sample in which a decision is
//! closer than rounding allows is decided by the host. So is what a device has no memory for.

use rayon::prelude::*;

use super::committee::{CountedCommittee, classes_of_ballots};
use super::device::{JudgeLogits, MetricBackend, Opinions, RunningMoments, opinions};
use super::error::{MetricError, Result};
use super::fid::{FrechetDistance, frechet_with};
use super::matrix::Matrix;
use super::moments::Moments;
use super::orthogonal_set::{
    Complement, OrthogonalSet, OrthogonalSetParams, ZeroPerturbations, candidates_of_a_sample,
    check_sample, orthogonal_set, orthogonal_sets,
};
use super::validity::{Counted, Judgement, Validity, Wanted, judged, judges, validity};
use super::votes::{Ballot, Vote, counts};
use crate::tensor::gpu::{
    FeatureSums, Gpu, Logits, LogitsAt, MOST_CANDIDATES, MOST_JUDGES, Said, Selection, Totals,
};
use crate::tensor::{Precision, TensorError};

fn failed(what: &'static str) -> impl Fn(TensorError) -> MetricError {
    move |source| MetricError::Device {
        what: what.into(),
        source,
    }
}

/// Sums on the device.
struct OnDevice<'a> {
    gpu: &'a Gpu,
    dims: usize,
    sums: FeatureSums,
    /// The largest difference from the first row of each feature.
    largest: Vec<f32>,
}

/// Differences whose products, and what is left of them after 48 bits, are numbers that every device has.
const DIFFERENCES: std::ops::Range<f32> = 1e-10..1e15;

impl RunningMoments for OnDevice<'_> {
    fn push(&mut self, what: &str, rows: Matrix<'_>) -> Result<()> {
        if rows.cols() != self.dims {
            return Err(MetricError::shape(
                what,
                format!("{} features", self.dims),
                format!("{} features", rows.cols()),
            ));
        }
        rows.check_finite_from(what, self.sums.rows())?;
        self.gpu
            .add_features(&mut self.sums, rows.data())
            .map_err(failed("moments"))?;
        let centre = self.sums.centre();
        for row in rows.data().chunks_exact(self.dims.max(1)) {
            let differences = row.iter().zip(centre).map(|(x, c)| (x - c).abs());
            for (largest, difference) in self.largest.iter_mut().zip(differences) {
                *largest = largest.max(difference);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Moments> {
        let within = |v: &f32| *v == 0.0 || DIFFERENCES.contains(v);
        if !self.largest.iter().all(within) {
            return Err(MetricError::BeyondDevice);
        }
        let (sums, products) = self.gpu.read_sums(&self.sums).map_err(failed("moments"))?;
        let (rows, centre) = (self.sums.rows(), self.sums.centre());
        Ok(Moments::from_sums(rows, centre, &sums, products))
    }
}

impl MetricBackend for Gpu {
    fn moments(&self, dims: usize) -> Result<Box<dyn RunningMoments + '_>> {
        Ok(Box::new(OnDevice {
            gpu: self,
            dims,
            sums: self.feature_sums(dims).map_err(failed("moments"))?,
            largest: vec![0.0; dims],
        }))
    }

    fn committee(&self, judgement: Judgement<'_>) -> Result<Validity> {
        if judgement.oracles.len() >= MOST_JUDGES {
            return validity(judgement);
        }
        let wanted = Wanted::of(&judgement)?;
        let named = judges(&judgement);
        let logits: Vec<Logits<'_>> = named.iter().map(|(_, m)| logits(*m)).collect();
        let pairs = wanted.labels.iter().zip(&wanted.targets);
        let pairs: Vec<[u32; 2]> = pairs.map(|(&l, &t)| [l, t].map(|v| v as u32)).collect();
        let (said, totals) = match self.judge(&logits, &pairs).map_err(failed("committee")) {
            Err(e) if e.is_for_the_host() => return validity(judgement),
            found => found?,
        };
        if said.iter().any(|s| s.not_finite) {
            // The host says where.
            return validity(judgement);
        }
        let counted = counted(&judgement, &wanted, &said, &totals);
        judged(&judgement, &wanted, counted)
    }

    fn opinions(&self, judges: &[JudgeLogits<'_, Self>]) -> Result<Opinions> {
        let images = judges.first().map_or(0, |j| j.logits.rows());
        let logits: Vec<LogitsAt<'_>> = judges
            .iter()
            .map(|judge| match judge.on_device {
                // The kernel compares f32.
                Some(tensor) if tensor.precision() == Precision::F32 => LogitsAt::Device(tensor),
                _ => LogitsAt::Host(logits(judge.logits)),
            })
            .collect();
        let said = self
            .judge_in_place(&logits, images)
            .map_err(failed("committee"))?;
        // Where a logit is not finite the host says where.
        let Some(said) = said.filter(|said| !said.iter().any(|s| s.not_finite)) else {
            return opinions(judges);
        };
        let oracles = judges.len() - 1;
        let vote = |s: &Said| Vote::new(s.plurality, s.tied, s.most, oracles);
        Ok(Opinions {
            classes: by_judge(&said, judges.len()),
            votes: match oracles {
                0 => Vec::new(),
                _ => said.iter().map(vote).collect(),
            },
        })
    }

    /// The covariance of more images than features comes from sums on the device. Of fewer it has no full rank: its
    /// factor are the centred rows, for which nothing is summed.
    fn frechet(&self, real: Matrix<'_>, fake: Matrix<'_>) -> Result<FrechetDistance> {
        frechet_with(real, fake, |what, rows| {
            let by_device = || {
                let mut running = MetricBackend::moments(self, rows.cols())?;
                running.push(what, rows)?;
                running.finish()
            };
            match by_device() {
                Err(e) if e.is_for_the_host() => Moments::of(what, rows),
                found => found,
            }
        })
    }

    fn orthogonal_sets(
        &self,
        originals: Matrix<'_>,
        candidates: Matrix<'_>,
        params: &OrthogonalSetParams,
    ) -> Result<Vec<OrthogonalSet>> {
        let (samples, d) = (originals.rows(), candidates.cols());
        let n = candidates_of_a_sample(originals, candidates)?;
        if n == 0 || d == 0 || n > MOST_CANDIDATES {
            return orthogonal_sets(originals, candidates, params);
        }
        let own = |i: usize| candidates.slice("candidates", i * n, (i + 1) * n);
        for i in 0..samples {
            check_sample(originals.row(i), own(i)?, params)?;
        }
        let rules = Selection {
            samples,
            n,
            d,
            tau: params.tau,
            exclude_zeros: params.zeros == ZeroPerturbations::Excluded,
            each: params.complement == Complement::Each,
        };
        let chosen = self
            .choose(originals.data(), candidates.data(), &rules)
            .map_err(failed("orthogonal sets"));
        let chosen = match chosen {
            Err(e) if e.is_for_the_host() => return orthogonal_sets(originals, candidates, params),
            found => found?,
        };
        chosen
            .into_par_iter()
            .enumerate()
            .map(|(i, chosen)| {
                let Some(chosen) = chosen else {
                    return orthogonal_set(originals.row(i), own(i)?, params);
                };
                let members = |complementary: bool| -> Vec<usize> {
                    let all = chosen.members.iter();
                    let of_kind = all.filter(|m| m.1 == complementary);
                    of_kind.map(|m| m.0).collect()
                };
                Ok(OrthogonalSet {
                    selected: chosen.members.iter().map(|m| m.0).collect(),
                    orthogonal: members(false),
                    complementary: members(true),
                    zero: chosen.zeros.clone(),
                })
            })
            .collect()
    }
}

fn logits(matrix: Matrix<'_>) -> Logits<'_> {
    Logits {
        values: matrix.data(),
        classes: matrix.cols(),
    }
}

/// The class each judge names for each image.
fn by_judge(said: &[Said], judges: usize) -> Vec<Vec<usize>> {
    (0..judges)
        .map(|k| said.iter().map(|s| s.classes[k]).collect())
        .collect()
}

/// What the device counted, as the host would have.
fn counted(judgement: &Judgement<'_>, wanted: &Wanted, said: &[Said], totals: &Totals) -> Counted {
    let classes = by_judge(said, 1 + judgement.oracles.len());
    let oracles = judgement.oracles.len();
    let width = classes_of_ballots(judgement.oracles, &wanted.targets);
    let ballot = |(i, said): (usize, &Said)| {
        let vote = Vote::new(said.plurality, said.tied, said.most, oracles);
        Ballot {
            plurality: vote.plurality,
            tied: vote.tied,
            strict_majority: vote.strict_majority,
            unanimous: vote.unanimous,
            counts: counts(&classes[1..], i, width),
        }
    };
    let committee = (oracles > 0).then(|| CountedCommittee {
        ballots: said.iter().enumerate().map(ballot).collect(),
        totals: totals.committee,
    });
    let pairs = wanted.labels.iter().zip(&wanted.targets);
    let named = pairs.zip(&classes[0]);
    let both = named.filter(|((l, t), c)| l == t && l == c).count();
    let [_, target, original] = totals.judges[0];
    Counted {
        agreement: totals.judges.iter().map(|[c, t, _]| [*c, *t]).collect(),
        original,
        // Labels that are targets are counted twice.
        neither: said.len() + both - target - original,
        committee,
        classes,
    }
}
