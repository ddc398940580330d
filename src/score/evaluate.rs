//! One batch of decoded pairs → records: every metric in one pass over the images.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::journal::{Journal, JournalError, Opinion, PairRecord, Record, stamp};
use super::judges::{Judge, JudgeError, Views};
use super::retry::Shortage;
use super::settings::{Family, FidFeatures, Protocol, Settings};
use super::shown::{Shown, in_order};
use super::taps::TapCache;
use super::work::Work;
use crate::images::{Image, ImageError};
use crate::metrics::inception_features::InceptionFeatures;
use crate::metrics::lpips::Lpips;
use crate::metrics::{
    JudgeLogits, Matrix, MetricBackend, MetricError, Opinions, lp, published, validity,
};
use crate::nets::NetError;
use crate::tensor::{Array, Backend, TensorError};

/// Why a batch cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("{judge}: {source}")]
    Judge {
        judge: String,
        source: Box<JudgeError>,
    },
    #[error(transparent)]
    Metric(#[from] MetricError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("{0}")]
    Label(String),
}

impl EvaluateError {
    /// What an operation of the device said.
    pub fn of_device(&self) -> Option<&TensorError> {
        let net = match self {
            EvaluateError::Net(net) => net,
            EvaluateError::Judge { source, .. } => match &**source {
                JudgeError::Net(net) => net,
                _ => return None,
            },
            EvaluateError::Metric(MetricError::Device { source, .. }) => return Some(source),
            _ => return None,
        };
        match net {
            NetError::Tensor(error) => Some(error),
            _ => None,
        }
    }
}

impl Shortage for EvaluateError {
    fn is_shortage(&self) -> bool {
        matches!(self.of_device(), Some(TensorError::OutOfMemory { .. }))
    }
}

/// The networks of a run on their device.
pub struct Models<B: Backend> {
    pub classifier: Option<(String, Judge<B>)>,
    pub oracles: Vec<(String, Judge<B>)>,
    pub lpips: Option<Lpips<B>>,
    pub inception: Option<InceptionFeatures<B>>,
}

/// A pair whose two images are decoded and of one size.
pub struct Decoded {
    pub pair: usize,
    /// See [`super::journal::stamp`].
    pub stamp: u64,
    pub original: Arc<Image>,
    pub counterfactual: Image,
}

/// Darkest and brightest pixel value over all originals, and over all counterfactuals, of a group.
#[derive(Clone, Copy, Debug)]
pub struct Extremes {
    pub original: [u8; 2],
    pub counterfactual: [u8; 2],
}

/// Computes records, batch after batch.
pub struct Evaluator<'a, B: Backend> {
    pub backend: &'a B,
    pub settings: &'a Settings,
    pub work: &'a Work,
    pub models: Models<B>,
    /// One per group, in the published protocol.
    pub extremes: Vec<Extremes>,
    pub cache: TapCache<B>,
    /// Class of each original that was looked at.
    pub original_class: HashMap<usize, Option<usize>>,
    pub skipped: HashSet<usize>,
}

impl<B: MetricBackend + 'static> Evaluator<'_, B> {
    /// Records of a batch; rows go to the journal, the records are returned for appending. After an error nothing is
    /// there of it.
    pub fn batch(
        &mut self,
        batch: &[Decoded],
        journal: &mut Journal,
    ) -> Result<Vec<Record>, EvaluateError> {
        let kept = self.cache.bytes();
        let found = self.try_batch(batch, journal);
        match &found {
            // What is kept for other batches goes before this one is made smaller. Where that helps, less is kept from now on.
            Err(error) if error.is_shortage() && kept > 0 => {
                let limit = self.cache.restart(kept / 2);
                self.backend.release();
                let again = self.try_batch(batch, journal);
                if again.is_err() {
                    self.cache.restart(limit);
                }
                again
            }
            _ => found,
        }
    }

    fn try_batch(
        &mut self,
        batch: &[Decoded],
        journal: &mut Journal,
    ) -> Result<Vec<Record>, EvaluateError> {
        let before = journal.mark();
        let originals = batch.iter().map(|d| self.work.pairs[d.pair].original);
        let new: Vec<usize> = originals
            .filter(|original| !self.original_class.contains_key(original))
            .collect();
        let found = self.whole_batch(batch, journal);
        if found.is_err() {
            for original in new {
                self.original_class.remove(&original);
            }
            journal.back_to(before)?;
            self.backend.release();
        }
        found
    }

    fn whole_batch(
        &mut self,
        batch: &[Decoded],
        journal: &mut Journal,
    ) -> Result<Vec<Record>, EvaluateError> {
        let originals = self.originals_of(batch);
        let mut records = self.look_at_originals(&originals, journal)?;
        let shown = Shown::new(batch.iter().map(|d| &d.counterfactual).collect());
        let all = shown.all();
        let pairs: Vec<usize> = batch.iter().map(|d| d.pair).collect();
        let classifier = self
            .models
            .classifier
            .as_ref()
            .map(|judge| self.look(judge, &shown, &pairs, self.embeds()))
            .transpose()?;
        let oracles = self
            .models
            .oracles
            .iter()
            .map(|judge| self.look(judge, &shown, &pairs, false))
            .collect::<Result<Vec<_>, _>>()?;
        let judges = self.models.classifier.iter().chain(&self.models.oracles);
        let views: Vec<&Views<B>> = classifier.iter().chain(&oracles).collect();
        let judged = judges
            .zip(&views)
            .map(|((name, _), views)| {
                let Array { shape, data } = &views.logits;
                Ok(JudgeLogits {
                    name,
                    logits: Matrix::new(name, shape[0], shape[1], data)?,
                    on_device: views.on_device.as_ref(),
                })
            })
            .collect::<Result<Vec<_>, MetricError>>()?;
        let Opinions { classes, votes } = self.backend.opinions(&judged)?;
        let mut classes = classes.into_iter();
        let classifier_classes = classifier.as_ref().and_then(|_| classes.next());
        let oracle_classes: Vec<Vec<usize>> = classes.collect();
        drop(judged);
        let distances = self.lpips(batch, &originals, &shown)?;
        let features = self.features(&shown, &all, classifier.as_ref(), journal)?;
        let logits = self.inception_logits(&shown, classifier.as_ref(), journal)?;
        for (at, decoded) in batch.iter().enumerate() {
            let planned = &self.work.pairs[decoded.pair];
            let source = planned.source.or_else(|| {
                self.original_class
                    .get(&planned.original)
                    .copied()
                    .flatten()
            });
            let opinion = |views: &Views<B>, (name, _): &(String, Judge<B>), class: usize| {
                opinion(name, class, views.logits.row(at), planned.target, source)
            };
            let needs_difference = [Family::Lp, Family::ElasticNet]
                .iter()
                .any(|f| self.settings.selection.has(*f));
            let difference = if needs_difference {
                let (a, b) = (&decoded.original.pixels, &decoded.counterfactual.pixels);
                lp::per_image(a, b, a.len())?.first().copied()
            } else {
                None
            };
            let distance = distances.as_ref().map(|d| &d[at]);
            records.push(Record::Pair(Box::new(PairRecord {
                pair: decoded.pair,
                source,
                classifier: classifier
                    .as_ref()
                    .zip(self.models.classifier.as_ref())
                    .zip(classifier_classes.as_ref())
                    .map(|((views, judge), classes)| opinion(views, judge, classes[at]))
                    .transpose()?,
                oracles: oracles
                    .iter()
                    .zip(&self.models.oracles)
                    .zip(&oracle_classes)
                    .map(|((views, judge), classes)| opinion(views, judge, classes[at]))
                    .collect::<Result<_, _>>()?,
                committee: votes.get(at).copied(),
                mean_probability: mean_probability(&oracles, at),
                difference,
                stamp: decoded.stamp,
                lpips: distance.map(|d| d.value),
                lpips_layers: distance.map(|d| d.layers.clone()).unwrap_or_default(),
                to_earlier: distance.map(|d| d.to_earlier.clone()).unwrap_or_default(),
                features: features.as_ref().map(|rows| rows[at]),
                logits: logits.as_ref().map(|rows| rows[at]),
            })));
        }
        Ok(records)
    }

    /// Records of reference images.
    pub fn references(
        &self,
        images: &[(usize, Image)],
        journal: &mut Journal,
    ) -> Result<Vec<Record>, EvaluateError> {
        let before = journal.mark();
        let found = self.rows_of_references(images, journal);
        if found.is_err() {
            journal.back_to(before)?;
            self.backend.release();
        }
        found
    }

    fn rows_of_references(
        &self,
        images: &[(usize, Image)],
        journal: &mut Journal,
    ) -> Result<Vec<Record>, EvaluateError> {
        let shown = Shown::new(images.iter().map(|(_, image)| image).collect());
        let all = shown.all();
        let views = match (&self.models.classifier, self.settings.fid_features) {
            (Some((name, Judge::Network(net))), FidFeatures::Embedding) => Some(
                net.look(self.backend, &shown, &all, true)
                    .map_err(|source| EvaluateError::Judge {
                        judge: name.clone(),
                        source: Box::new(source),
                    })?,
            ),
            _ => None,
        };
        let rows = self.features(&shown, &all, views.as_ref(), journal)?;
        Ok(images
            .iter()
            .enumerate()
            .map(|(at, (reference, _))| Record::Reference {
                reference: *reference,
                features: rows.as_ref().map(|r| r[at]),
                reason: None,
                stamp: stamp(&[&self.work.references[*reference]]),
            })
            .collect())
    }

    fn look(
        &self,
        (name, judge): &(String, Judge<B>),
        shown: &Shown<'_, B>,
        pairs: &[usize],
        embedding: bool,
    ) -> Result<Views<B>, EvaluateError> {
        match judge {
            Judge::Network(net) => net
                .look(self.backend, shown, &shown.all(), embedding)
                .map_err(|source| EvaluateError::Judge {
                    judge: name.clone(),
                    source: Box::new(source),
                }),
            Judge::Logits(all) => Ok(Views {
                logits: Array {
                    shape: vec![pairs.len(), all.shape[1]],
                    data: pairs.iter().flat_map(|&p| all.row(p)).copied().collect(),
                },
                embedding: None,
                on_device: None,
            }),
        }
    }

    /// Whether a metric needs the classifier's embeddings.
    fn embeds(&self) -> bool {
        self.settings.fid_features == FidFeatures::Embedding && self.settings.selection.realism()
    }

    /// Rows of the features of some images, if any metric needs them.
    pub(super) fn features(
        &self,
        shown: &Shown<'_, B>,
        which: &[usize],
        views: Option<&Views<B>>,
        journal: &mut Journal,
    ) -> Result<Option<Vec<usize>>, EvaluateError> {
        let needed = [Family::Fid, Family::Kid, Family::Prdc]
            .iter()
            .any(|f| self.settings.selection.has(*f));
        if !needed {
            return Ok(None);
        }
        let features = match (self.settings.fid_features, &self.models.inception) {
            (FidFeatures::Embedding, _) => views.and_then(|v| v.embedding.clone()),
            (FidFeatures::Inception(_), Some(net)) => {
                Some(self.per_size(shown, which, |x| Ok(net.extract(self.backend, x)?))?)
            }
            _ => None,
        };
        let Some(features) = features else {
            return Ok(None);
        };
        Matrix::new(
            "features",
            features.shape[0],
            features.shape[1],
            &features.data,
        )?
        .check_finite("features")?;
        let rows = (0..which.len()).map(|i| journal.features.push(features.row(i)));
        Ok(Some(rows.collect::<Result<_, _>>()?))
    }

    /// Rows of the logits that the Inception Score uses.
    fn inception_logits(
        &self,
        shown: &Shown<'_, B>,
        views: Option<&Views<B>>,
        journal: &mut Journal,
    ) -> Result<Option<Vec<usize>>, EvaluateError> {
        if !self.settings.selection.has(Family::InceptionScore) {
            return Ok(None);
        }
        let logits = match (self.settings.fid_features, &self.models.inception) {
            (FidFeatures::Embedding, _) => views.map(|v| v.logits.clone()),
            (FidFeatures::Inception(_), Some(net)) if net.has_logits() => {
                let predict = |x: &B::Tensor| Ok(net.predict(self.backend, x)?.logits);
                Some(self.per_size(shown, &shown.all(), predict)?)
            }
            _ => None,
        };
        let Some(logits) = logits else {
            return Ok(None);
        };
        let rows = (0..logits.shape[0]).map(|i| journal.logits.push(logits.row(i)));
        Ok(Some(rows.collect::<Result<_, _>>()?))
    }

    /// Runs some images of any sizes through a function of pixel batches, in order.
    fn per_size(
        &self,
        shown: &Shown<'_, B>,
        which: &[usize],
        run: impl Fn(&B::Tensor) -> Result<B::Tensor, EvaluateError>,
    ) -> Result<Array, EvaluateError> {
        let mut parts = Vec::new();
        for batch in shown.batches(self.backend, which)? {
            let pixels = match self.settings.protocol {
                Protocol::Exact => batch.pixels,
                Protocol::Published => {
                    let wrapped = self.backend.look_up(&batch.pixels, &wrapped_pixels());
                    wrapped.map_err(NetError::from)?
                }
            };
            parts.push((batch.places, run(&pixels)?));
        }
        Ok(match in_order(self.backend, parts)? {
            Some(rows) => self.backend.download(&rows).map_err(NetError::from)?,
            None => Array::zeros([0, 0]),
        })
    }
}

/// Pixels as the study's FID received them: `p/127.5 − 1`, times 255, cast to uint8 with wrap-around.
fn wrapped_pixels() -> [f32; 256] {
    let wrapped = |p: u16| published::wrap_to_uint8(f32::from(p) / 127.5 - 1.0);
    std::array::from_fn(|p| f32::from(wrapped(p as u16)))
}

pub(super) fn argmax(logits: &Array) -> Result<Vec<usize>, MetricError> {
    let matrix = Matrix::new("logits", logits.shape[0], logits.shape[1], &logits.data)?;
    validity::predictions("logits", matrix)
}

fn opinion(
    judge: &str,
    class: usize,
    logits: &[f32],
    target: Option<usize>,
    source: Option<usize>,
) -> Result<Opinion, EvaluateError> {
    let probabilities = validity::softmax(logits);
    let of = |role: &str, label: Option<usize>| {
        label
            .map(|l| {
                probabilities.get(l).copied().ok_or_else(|| {
                    EvaluateError::Label(format!(
                        "{role} class {l} is out of range for {judge}, which has {} classes",
                        logits.len()
                    ))
                })
            })
            .transpose()
    };
    Ok(Opinion {
        class,
        target: of("target", target)?,
        source: of("source", source)?,
    })
}

/// Class of the largest mean probability over oracles with the same classes; ties: lowest index.
fn mean_probability<B: Backend>(oracles: &[Views<B>], at: usize) -> Option<usize> {
    let classes = oracles.first()?.logits.shape[1];
    if oracles.iter().any(|o| o.logits.shape[1] != classes) {
        return None;
    }
    let mut sums = vec![0.0f64; classes];
    for oracle in oracles {
        for (sum, p) in sums
            .iter_mut()
            .zip(validity::softmax(oracle.logits.row(at)))
        {
            *sum += p;
        }
    }
    let mut best = 0;
    for (i, &sum) in sums.iter().enumerate() {
        if sum > sums[best] {
            best = i;
        }
    }
    Some(best)
}
