//! Scoring a folder of image counterfactuals: pairs in, `scores.json` and `pairs.csv` out.
//!
//! [`score`] decodes every image once, computes all requested metrics in that pass, keeps partial results in a
//! [`journal`] and aggregates them by group. Results do not depend on batch size, number of threads, or on whether
//! the run was interrupted.

mod aggregate;
mod evaluate;
mod fingerprint;
pub mod journal;
mod judges;
mod labels;
pub mod logits;
mod originals;
mod perceptual;
pub mod realism;
mod retry;
mod run;
pub mod samples;
mod scores;
mod settings;
mod shown;
mod taps;
mod work;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

pub use evaluate::EvaluateError;
pub use journal::{JournalError, write_atomically};
pub use judges::JudgeError;
pub use labels::Labels;
pub use retry::Losses;
pub use run::{HeatMaps, MAPS, Maps, PAIRS, Progress, REFERENCES, RunError};
pub use scores::{Fingerprint, Group, Left, SCHEMA, Score, Scores, SkippedFile, Summary, Tool};
pub use settings::{Family, FidFeatures, Protocol, Selection, Settings};
pub use work::{PlanError, order};

use crate::images::Pairing;
use crate::metrics::MetricBackend;
use crate::metrics::inception_features::InceptionFeatures;
use crate::metrics::lpips::Lpips;
use crate::nets::{FidTap, NetError};
use crate::tensor::{Array, Backend, TensorError};
use crate::weights::{Card, Loaded, Registry, WeightsError};
use evaluate::{Evaluator, Models};
use judges::{Judge, Network};
use taps::TapCache;
use work::Work;

/// A classifier or oracle as the user gave it.
pub enum JudgeSource {
    Network {
        card: Box<Card>,
        loaded: Box<Loaded>,
    },
    /// Logits in the order of the pairs, and what they came from.
    Logits { logits: Array, sha256: String },
}

/// A judge with the name its scores carry.
pub struct NamedJudge {
    pub name: String,
    pub source: JudgeSource,
}

/// What to score.
pub struct Inputs {
    /// Sorted by [`order`].
    pub pairing: Pairing,
    pub classifier: Option<NamedJudge>,
    pub oracles: Vec<NamedJudge>,
    pub labels: Labels,
    /// Classes of pairs that do not say their own.
    pub source: Option<String>,
    pub target: Option<String>,
    /// Real images that FID and its kin compare with, instead of the originals.
    pub reference: Option<PathBuf>,
}

/// Why scoring failed.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error("{network}: {source}")]
    Net { network: String, source: NetError },
    #[error("{network}: {source}")]
    Judge {
        network: String,
        source: Box<JudgeError>,
    },
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{0}")]
    Usage(String),
    #[error("cannot write the results: {0}")]
    Report(String),
}

impl ScoreError {
    /// Whether the device was lost. What was computed before is in the journal, and the device may be opened again.
    pub fn is_lost_device(&self) -> bool {
        let net = match self {
            ScoreError::Run(RunError::Evaluate(error)) => {
                return matches!(error.of_device(), Some(TensorError::Lost(_)));
            }
            ScoreError::Net { source, .. } => source,
            ScoreError::Judge { source, .. } => match &**source {
                JudgeError::Net(net) => net,
                _ => return false,
            },
            _ => return false,
        };
        matches!(net, NetError::Tensor(TensorError::Lost(_)))
    }
}

/// One row of `pairs.csv`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairRow {
    pub index: usize,
    pub name: String,
    pub group: String,
    pub method: Option<String>,
    pub original: String,
    pub counterfactual: String,
    pub source: Option<String>,
    pub target: Option<String>,
    pub verdict: Option<String>,
    pub classifier: Option<String>,
    pub target_probability: Option<f64>,
    pub source_probability: Option<f64>,
    pub oracles: Vec<String>,
    pub committee: Option<String>,
    pub l1: Option<f64>,
    pub l1_5: Option<f64>,
    pub l2: Option<f64>,
    pub elastic_net: Option<f64>,
    pub lpips: Option<f64>,
    pub lpips_layers: Vec<f64>,
    pub skipped: Option<String>,
}

/// All that a run found.
pub struct Outcome {
    pub scores: Scores,
    pub pairs: Vec<PairRow>,
    pub oracles: Vec<String>,
    pub lpips_layers: usize,
}

/// Where partial results go, and whether to continue from them.
pub struct Place<'a> {
    /// Folder of the journal.
    pub journal: &'a Path,
    pub resume: bool,
    /// Takes heat maps, if they are wanted.
    pub maps: Option<Maps<'a>>,
}

/// Scores all pairs.
pub fn score<B: MetricBackend + 'static>(
    backend: &B,
    registry: &Registry,
    mut inputs: Inputs,
    settings: &Settings,
    place: Place<'_>,
    progress: Progress<'_>,
) -> Result<Outcome, ScoreError> {
    let mut notes = Vec::new();
    let settings = fit(&inputs, settings, &mut notes)?;
    let mut fingerprints = fingerprint::Fingerprints::new(&settings, backend.arithmetic());
    let mut models = Models {
        classifier: None,
        oracles: Vec::new(),
        lpips: None,
        inception: None,
    };
    let mut widths = journal::Widths {
        features: 0,
        logits: 0,
    };
    let mut classes = None;
    if let Some(judge) = inputs.classifier.take() {
        fingerprints.judge("classifier", &judge);
        let (name, judge) = build_judge(backend, judge)?;
        let [logits, embedding] = judge_widths(backend, &name, &judge)?;
        if !inputs.labels.is_empty() && inputs.labels.len() != logits {
            return Err(ScoreError::Usage(format!(
                "{} class names are given, but the classifier {name} has {logits} classes; give the right --labels",
                inputs.labels.len()
            )));
        }
        classes = Some(logits);
        if settings.fid_features == FidFeatures::Embedding {
            widths.features = embedding;
            widths.logits = logits;
        }
        models.classifier = Some((name, judge));
    }
    for judge in std::mem::take(&mut inputs.oracles) {
        fingerprints.judge(&format!("oracle/{}", judge.name), &judge);
        models.oracles.push(build_judge(backend, judge)?);
    }
    if [Family::Lpips, Family::Diversity]
        .iter()
        .any(|f| settings.selection.has(*f))
    {
        let weights = registry.lpips(settings.lpips.name())?;
        fingerprints.lpips(&settings, &weights.sha256);
        let net = Lpips::new(backend, settings.lpips, &weights.backbone, weights.heads);
        models.lpips = Some(net.map_err(|source| ScoreError::Net {
            network: format!("lpips_{}", settings.lpips.name()),
            source,
        })?);
    }
    if let FidFeatures::Inception(size) = settings.fid_features
        && settings.selection.realism()
    {
        let needs_logits = settings.selection.has(Family::InceptionScore);
        let loaded = registry.fid(if needs_logits { 2048 } else { size })?;
        fingerprints.inception(&settings, size, &loaded.sha256);
        let tap = FidTap::ALL.into_iter().find(|t| t.size() == size);
        let tap = tap.unwrap_or(FidTap::F64);
        let fail = |source| ScoreError::Net {
            network: "inception_v3_fid".into(),
            source,
        };
        let new = if needs_logits {
            InceptionFeatures::with_logits
        } else {
            InceptionFeatures::new
        };
        let net = new(backend, &loaded.dict, tap, settings.fid_resize).map_err(fail)?;
        if needs_logits && !net.has_logits() {
            return Err(ScoreError::Usage(
                "inception_score: the Inception weights at hand have no 1008-way layer `fc`; import a complete checkpoint (`foil weights import FILE --as inception_v3_fid`), or use --fid-features embedding for the classifier's own classes".into(),
            ));
        }
        widths.features = size;
        widths.logits = if needs_logits { 1008 } else { 0 };
        models.inception = Some(net);
    }

    let work = Work::new(
        &inputs.pairing.pairs,
        &inputs.labels,
        classes,
        inputs.source.as_deref(),
        inputs.target.as_deref(),
        inputs.reference.as_deref(),
    )?;
    let plan = fingerprints.plan(&work, &settings);
    let (mut journal, mut records) =
        journal::Journal::open(place.journal, &plan, widths, place.resume)?;
    let extremes = run::extremes(&work, &settings, progress)?;
    let oracles: Vec<String> = models.oracles.iter().map(|(n, _)| n.clone()).collect();
    let classifier = models.classifier.as_ref().map(|(n, _)| n.clone());
    let lpips_layers = models.lpips.as_ref().map_or(0, Lpips::layers);
    let mut evaluator = Evaluator {
        backend,
        settings: &settings,
        work: &work,
        models,
        extremes,
        cache: TapCache::new(settings.cache_bytes),
        original_class: HashMap::new(),
        skipped: HashSet::new(),
    };
    run::run(
        &mut evaluator,
        &mut journal,
        &mut records,
        place.maps,
        progress,
    )?;
    // What follows needs memory of its own.
    drop(evaluator);
    backend.release();

    let index = aggregate::Index::new(&records);
    let mut groups = Vec::with_capacity(work.groups.len());
    for (done, plan) in work.groups.iter().enumerate() {
        let group = aggregate::group(
            backend,
            plan,
            &work,
            &index,
            &oracles,
            &settings,
            &mut journal,
        )
        .map_err(RunError::from)?;
        groups.push(group);
        progress("groups summed up", done + 1, work.groups.len());
    }
    let names = |paths: &[PathBuf]| paths.iter().map(|p| p.display().to_string()).collect();
    let scores = Scores {
        schema: SCHEMA.into(),
        tool: Tool {
            name: "foil".into(),
            version: env!("CARGO_PKG_VERSION").into(),
        },
        device: backend.describe(),
        seed: settings.seed,
        protocol: settings.protocol.name().into(),
        reject_invalid: settings.reject_invalid,
        classifier,
        oracles: oracles.clone(),
        summary: Scores::summarise(&groups),
        summary_by_method: Scores::summarise_methods(&groups),
        summary_ddof: 0,
        fingerprints: fingerprints.finish(&groups, &settings, inputs.reference.is_some()),
        groups,
        left_out: Left {
            unpaired_originals: names(&inputs.pairing.unpaired_originals),
            unpaired_counterfactuals: names(&inputs.pairing.unpaired_counterfactuals),
            skipped: aggregate::skipped_files(&work, &index),
        },
        notes,
    };
    let pairs = pair_rows(&work, &index, &inputs.labels, &settings);
    Ok(Outcome {
        scores,
        pairs,
        oracles,
        lpips_layers,
    })
}

/// Fits the selection to the inputs: families that cannot be computed are left out with a note, or are an error
/// where the user asked for them.
fn fit(
    inputs: &Inputs,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<Settings, ScoreError> {
    let mut settings = settings.clone();
    let explicit = settings.selection.explicit;
    let mut lacks = |family: Family, settings: &mut Settings, why: &str| {
        if !settings.selection.has(family) {
            return Ok(());
        }
        if explicit {
            return Err(ScoreError::Usage(format!("{}: {why}", family.name())));
        }
        settings.selection.families.remove(&family);
        notes.push(format!("{} left out: {why}", family.name()));
        Ok(())
    };
    if inputs.classifier.is_none() {
        lacks(
            Family::Validity,
            &mut settings,
            "no classifier; give --classifier CARD or --logits classifier=FILE",
        )?;
        if !inputs.oracles.is_empty() {
            return Err(ScoreError::Usage(
                "oracles need a classifier to agree with; give --classifier CARD or --logits classifier=FILE".into(),
            ));
        }
        if settings.reject_invalid {
            return Err(ScoreError::Usage(
                "--reject-invalid needs a classifier; give --classifier CARD or --logits classifier=FILE".into(),
            ));
        }
    }
    let network = matches!(
        inputs.classifier,
        Some(NamedJudge {
            source: JudgeSource::Network { .. },
            ..
        })
    );
    if settings.fid_features == FidFeatures::Embedding && !network && settings.selection.realism() {
        return Err(ScoreError::Usage(
            "--fid-features embedding needs a classifier network; give --classifier CARD".into(),
        ));
    }
    let defaults = Settings::default();
    let as_published =
        settings.fid_resize == defaults.fid_resize && settings.range == defaults.range;
    if settings.protocol == Protocol::Published && !as_published {
        return Err(ScoreError::Usage(
            "--protocol published fixes the range to -1,1 and the resize to tf1; leave --range and --fid-resize out".into(),
        ));
    }
    let perceptual = [Family::Lpips, Family::Diversity];
    if settings.maps && !perceptual.iter().any(|f| settings.selection.has(*f)) {
        return Err(ScoreError::Usage(
            "--maps shows LPIPS; add lpips to --metrics".into(),
        ));
    }
    Ok(settings)
}

fn build_judge<B: Backend + 'static>(
    backend: &B,
    judge: NamedJudge,
) -> Result<(String, Judge<B>), ScoreError> {
    let NamedJudge { name, source } = judge;
    let judge = match source {
        JudgeSource::Network { card, loaded } => {
            Judge::Network(Network::new(backend, &card, &loaded).map_err(|source| {
                ScoreError::Net {
                    network: name.clone(),
                    source,
                }
            })?)
        }
        JudgeSource::Logits { logits, .. } => Judge::Logits(logits),
    };
    Ok((name, judge))
}

fn judge_widths<B: Backend + 'static>(
    backend: &B,
    name: &str,
    judge: &Judge<B>,
) -> Result<[usize; 2], ScoreError> {
    match judge {
        Judge::Logits(logits) => Ok([logits.shape[1], 0]),
        Judge::Network(net) => net.widths(backend).map_err(|source| ScoreError::Judge {
            network: name.into(),
            source: Box::new(source),
        }),
    }
}

fn pair_rows(
    work: &Work,
    index: &aggregate::Index<'_>,
    labels: &Labels,
    settings: &Settings,
) -> Vec<PairRow> {
    let name = |class: usize| labels.name(class);
    work.pairs
        .iter()
        .enumerate()
        .map(|(i, planned)| {
            let mut row = PairRow {
                index: i,
                name: planned.pair.name.clone(),
                group: planned.pair.group.clone(),
                method: planned.pair.method.clone(),
                original: planned.pair.original.display().to_string(),
                counterfactual: planned.pair.counterfactual.display().to_string(),
                source: planned.source.map(name),
                target: planned.target.map(name),
                skipped: index.skipped.get(&i).map(|r| (*r).to_string()),
                ..PairRow::default()
            };
            let Some(record) = index.pairs.get(&i) else {
                return row;
            };
            row.source = record.source.map(name);
            if let Some(opinion) = &record.classifier {
                row.classifier = Some(name(opinion.class));
                row.target_probability = opinion.target;
                row.source_probability = opinion.source;
            }
            row.oracles = record.oracles.iter().map(|o| name(o.class)).collect();
            row.committee = aggregate::vote(record).map(|b| name(b.plurality));
            let verdict = aggregate::verdict(record, planned.target);
            row.verdict = verdict.map(|v| aggregate::verdict_name(v).to_string());
            if let Some(sums) = &record.difference {
                let sums = aggregate::in_range(sums, settings.range);
                let norms = sums.norms();
                if settings.selection.has(Family::Lp) {
                    (row.l1, row.l1_5, row.l2) = (Some(norms.l1), Some(norms.l1_5), Some(norms.l2));
                }
                if settings.selection.has(Family::ElasticNet) {
                    row.elastic_net = Some(match settings.protocol {
                        Protocol::Exact => sums.elastic_net(),
                        Protocol::Published => sums.elastic_net_published(),
                    });
                }
            }
            row.lpips = record.lpips;
            row.lpips_layers = record.lpips_layers.clone();
            row
        })
        .collect()
}
