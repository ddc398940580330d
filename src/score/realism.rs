//! FID, KID, Inception Score and precision/recall/density/coverage of a group.

use std::collections::{BTreeMap, BTreeSet};

use super::aggregate::Index;
use super::evaluate::EvaluateError;
use super::journal::{Journal, JournalError, PairRecord, Rows};
use super::scores::Score;
use super::settings::{Family, Settings};
use super::work::{GroupPlan, Work};
use crate::metrics::fid::{FrechetDistance, frechet_from_moments};
use crate::metrics::fid_bootstrap::frechet_bootstrap;
use crate::metrics::inception_score::{Order, inception_score};
use crate::metrics::kernel_sums::PolynomialKernel;
use crate::metrics::kid::{RandomSubsets, kid_bootstrap, kid_random};
use crate::metrics::moments::Moments;
use crate::metrics::prdc::{Rim, prdc};
use crate::metrics::{Matrix, MetricBackend, MetricError, RunningMoments};
use crate::stats::interval::{Bootstrap, Interval, mean_interval, wilson};
use crate::tensor::cpu::Cpu;

/// Features of both sets that are still held in memory; above it they are streamed from disk.
const IN_MEMORY: usize = 64 << 20;
/// Rows read at once when streaming.
const CHUNK: usize = 256;

/// A score, or why these images have none. A device that failed is no such reason: the run ends, and what it has stays in
/// the journal.
fn or_missing(found: Result<Score, MetricError>, n: usize) -> Result<Score, MetricError> {
    match found {
        Err(error @ MetricError::Device { .. }) => Err(error),
        found => Ok(found.unwrap_or_else(|e| Score::missing(n, e.to_string()))),
    }
}

/// Adds the realism scores that were asked for.
#[allow(clippy::too_many_arguments)]
pub fn scores<B: MetricBackend>(
    backend: &B,
    plan: &GroupPlan,
    work: &Work,
    kept: &[&PairRecord],
    index: &Index<'_>,
    settings: &Settings,
    journal: &mut Journal,
    scores: &mut BTreeMap<String, Score>,
) -> Result<(), EvaluateError> {
    let wants = |f: Family| settings.selection.has(f);
    let fake: Vec<usize> = kept.iter().filter_map(|r| r.features).collect();
    let real: Vec<usize> = match &plan.references {
        Some(members) => members
            .iter()
            .filter_map(|i| index.reference_rows.get(i).copied())
            .collect(),
        None => {
            let originals: BTreeSet<usize> =
                kept.iter().map(|r| work.pairs[r.pair].original).collect();
            originals
                .iter()
                .filter_map(|o| index.original_rows.get(o).copied())
                .collect()
        }
    };
    let width = journal.features.width();
    if wants(Family::Fid) && (real.len() + fake.len()) * width > IN_MEMORY {
        let moments = [&real, &fake].map(|rows| streamed(backend, &mut journal.features, rows));
        let [real, fake] = moments;
        let (real, fake) = (real?, fake?);
        let n = fake.as_ref().map_or(0, Moments::count);
        let score = real.and_then(|real| {
            let distance = frechet_from_moments(&real, &fake?)?;
            Ok(fid_score(&distance, n).noted(Some(
                "no bootstrap interval: the sets are too large to be drawn again".into(),
            )))
        });
        scores.insert("fid".into(), or_missing(score, n)?);
    } else if wants(Family::Fid) {
        let (r, f) = (journal.features.read(&real)?, journal.features.read(&fake)?);
        let score = sets(&r, &f, width).and_then(|(r, f)| fid(backend, r, f, settings));
        scores.insert("fid".into(), or_missing(score, fake.len())?);
    }
    if wants(Family::Kid) || wants(Family::Prdc) {
        let (r, f) = (journal.features.read(&real)?, journal.features.read(&fake)?);
        if wants(Family::Kid) {
            let score = sets(&r, &f, width)
                .and_then(|(r, f)| kid(r, f, settings))
                .unwrap_or_else(|e| Score::missing(fake.len(), e.to_string()));
            scores.insert("kid".into(), score);
        }
        if wants(Family::Prdc) {
            match sets(&r, &f, width).and_then(|(r, f)| prdc_scores(r, f, settings, Rim::Strict)) {
                Ok(found) => scores.extend(found),
                Err(e) => scores.extend(
                    ["precision", "recall", "density", "coverage"]
                        .map(|n| (n.into(), Score::missing(fake.len(), e.to_string()))),
                ),
            }
        }
    }
    if wants(Family::InceptionScore) {
        let rows: Vec<usize> = kept.iter().filter_map(|r| r.logits).collect();
        let logits = journal.logits.read(&rows)?;
        let score = Matrix::new("logits", rows.len(), journal.logits.width(), &logits)
            .and_then(|m| is_score(m, settings))
            .unwrap_or_else(|e| Score::missing(rows.len(), e.to_string()));
        scores.insert("inception_score".into(), score);
    }
    Ok(())
}

fn sets<'a>(
    real: &'a [f32],
    fake: &'a [f32],
    width: usize,
) -> Result<(Matrix<'a>, Matrix<'a>), MetricError> {
    let rows = |data: &[f32]| data.len().checked_div(width).unwrap_or(0);
    Ok((
        Matrix::new("features of real images", rows(real), width, real)?,
        Matrix::new("features of counterfactuals", rows(fake), width, fake)?,
    ))
}

/// Moments of rows of the journal, by the device unless the host has to.
fn streamed<B: MetricBackend>(
    backend: &B,
    features: &mut Rows,
    rows: &[usize],
) -> Result<Result<Moments, MetricError>, JournalError> {
    let width = features.width();
    match pushed(backend.moments(width), features, rows)? {
        Err(e) if e.is_for_the_host() => pushed(Cpu.moments(width), features, rows),
        found => Ok(found),
    }
}

fn pushed(
    running: Result<Box<dyn RunningMoments + '_>, MetricError>,
    features: &mut Rows,
    rows: &[usize],
) -> Result<Result<Moments, MetricError>, JournalError> {
    let width = features.width();
    let mut running = match running {
        Ok(running) => running,
        Err(e) => return Ok(Err(e)),
    };
    for chunk in rows.chunks(CHUNK) {
        let data = features.read(chunk)?;
        let pushed = Matrix::new("features", chunk.len(), width, &data)
            .and_then(|m| running.push("features", m));
        if let Err(e) = pushed {
            return Ok(Err(e));
        }
    }
    Ok(running.finish())
}

fn fid_score(distance: &FrechetDistance, n: usize) -> Score {
    Score {
        value: Some(distance.value),
        n,
        note: distance.rank_note.clone(),
        ..Score::default()
    }
}

/// Fréchet distance with its bootstrap interval.
pub fn fid<B: MetricBackend>(
    backend: &B,
    real: Matrix<'_>,
    fake: Matrix<'_>,
    settings: &Settings,
) -> Result<Score, MetricError> {
    fid_with_interval(&backend.frechet(real, fake)?, real, fake, settings)
}

/// A Fréchet distance of these features as a score with its bootstrap interval.
pub fn fid_with_interval(
    distance: &FrechetDistance,
    real: Matrix<'_>,
    fake: Matrix<'_>,
    settings: &Settings,
) -> Result<Score, MetricError> {
    let score = fid_score(distance, fake.rows());
    if settings.bootstrap == 0 {
        return Ok(score);
    }
    let plan = Bootstrap {
        replicates: settings.bootstrap,
        seed: settings.seed,
    };
    let found = frechet_bootstrap(real, fake, distance.value, plan)?;
    Ok(score
        .with_interval(found.interval.map(|b| b.centred))
        .noted(found.note))
}

/// Kernel distance over random subsets with the bootstrap interval of the whole-set value.
pub fn kid(real: Matrix<'_>, fake: Matrix<'_>, settings: &Settings) -> Result<Score, MetricError> {
    let kernel = PolynomialKernel::default();
    let subsets = RandomSubsets {
        count: settings.kid_subsets,
        size: settings.kid_subset_size,
        seed: settings.seed,
    };
    let distance = kid_random(real, fake, &kernel, subsets)?;
    let score = Score {
        value: Some(distance.mean),
        n: fake.rows(),
        std: Some(distance.std_population),
        ..Score::default()
    };
    if settings.bootstrap == 0 {
        return Ok(score);
    }
    let plan = Bootstrap {
        replicates: settings.bootstrap,
        seed: settings.seed,
    };
    let (interval, note) = kid_bootstrap(real, fake, &kernel, plan)?;
    Ok(score.with_interval(interval.map(|b| b.centred)).noted(note))
}

/// Precision, recall, density and coverage.
pub fn prdc_scores(
    real: Matrix<'_>,
    fake: Matrix<'_>,
    settings: &Settings,
    rim: Rim,
) -> Result<BTreeMap<String, Score>, MetricError> {
    let found = prdc(real, fake, settings.neighbours, rim)?;
    let share = |value: f64, count: usize, n: usize| {
        Score {
            value: Some(value),
            n,
            ..Score::default()
        }
        .with_interval(wilson(count, n))
    };
    let (nr, nf) = (found.n_real, found.n_fake);
    Ok([
        ("precision", share(found.precision, found.precise, nf)),
        ("recall", share(found.recall, found.recalled, nr)),
        (
            "density",
            Score {
                value: Some(found.density),
                n: nf,
                ..Score::default()
            }
            .with_interval(found.density_interval),
        ),
        ("coverage", share(found.coverage, found.covered, nr)),
    ]
    .map(|(name, score)| (name.to_string(), score))
    .into())
}

/// Inception Score; the interval is the normal one over chunks.
pub fn is_score(logits: Matrix<'_>, settings: &Settings) -> Result<Score, MetricError> {
    let found = inception_score(logits, settings.splits, Order::Seed(settings.seed))?;
    let interval: Option<Interval> = mean_interval(&found.per_chunk).and_then(|m| m.interval());
    Ok(Score {
        value: Some(found.mean),
        n: logits.rows(),
        std: found.std_sample,
        ..Score::default()
    }
    .with_interval(interval))
}
