//! One batch of decoded pairs → records: every metric in one pass over the images.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::journal::{Journal, JournalError, Opinion, PairRecord, Record, stamp};
use super::judges::{Judge, JudgeError, Views, by_size};
use super::retry::Shortage;
use super::settings::{Family, FidFeatures, Protocol, Settings};
use super::taps::TapCache;
use super::work::Work;
use crate::images::{Image, ImageError};
use crate::metrics::inception_features::InceptionFeatures;
use crate::metrics::lpips::Lpips;
use crate::metrics::{Matrix, MetricBackend, MetricError, lp, published, validity};
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

impl Shortage for EvaluateError {
    fn is_shortage(&self) -> bool {
        let net = match self {
            EvaluateError::Net(net) => net,
            EvaluateError::Judge { source, .. } => match &**source {
                JudgeError::Net(net) => net,
                _ => return false,
            },
            EvaluateError::Metric(error) => return error.is_shortage(),
            _ => return false,
        };
        matches!(net, NetError::Tensor(TensorError::OutOfMemory { .. }))
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
        let mut records = self.originals(batch, journal)?;
        let images: Vec<&Image> = batch.iter().map(|d| &d.counterfactual).collect();
        let pairs: Vec<usize> = batch.iter().map(|d| d.pair).collect();
        let classifier = self
            .models
            .classifier
            .as_ref()
            .map(|judge| self.look(judge, &images, &pairs))
            .transpose()?;
        let oracles = self
            .models
            .oracles
            .iter()
            .map(|judge| self.look(judge, &images, &pairs))
            .collect::<Result<Vec<_>, _>>()?;
        let judges = self.models.classifier.iter().chain(&self.models.oracles);
        let views: Vec<&Views> = classifier.iter().chain(&oracles).collect();
        let named = judges
            .zip(&views)
            .map(|((name, _), views)| {
                let Array { shape, data } = &views.logits;
                Ok((name.clone(), Matrix::new(name, shape[0], shape[1], data)?))
            })
            .collect::<Result<Vec<_>, MetricError>>()?;
        let mut classes = self.backend.classes(&named)?.into_iter();
        let classifier_classes = classifier.as_ref().and_then(|_| classes.next());
        let oracle_classes: Vec<Vec<usize>> = classes.collect();
        let distances = self.lpips(batch)?;
        let features = self.features(&images, classifier.as_ref(), journal)?;
        let logits = self.inception_logits(&images, classifier.as_ref(), journal)?;
        for (at, decoded) in batch.iter().enumerate() {
            let planned = &self.work.pairs[decoded.pair];
            let source = planned.source.or_else(|| {
                self.original_class
                    .get(&planned.original)
                    .copied()
                    .flatten()
            });
            let opinion = |views: &Views, (name, _): &(String, Judge<B>), class: usize| {
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

    /// Looks at the originals of a batch that were not met before.
    fn originals(
        &mut self,
        batch: &[Decoded],
        journal: &mut Journal,
    ) -> Result<Vec<Record>, EvaluateError> {
        let mut new: Vec<(usize, Arc<Image>)> = Vec::new();
        for decoded in batch {
            let original = self.work.pairs[decoded.pair].original;
            let known = self.original_class.contains_key(&original);
            if !known && new.iter().all(|(i, _)| *i != original) {
                new.push((original, Arc::clone(&decoded.original)));
            }
        }
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let images: Vec<&Image> = new.iter().map(|(_, image)| &**image).collect();
        let real_features = self.settings.selection.realism() && self.work.references.is_empty();
        let embedding = self.settings.fid_features == FidFeatures::Embedding && real_features;
        let views = match &self.models.classifier {
            Some((name, Judge::Network(net))) if self.work.unknown_source || embedding => Some(
                net.look(self.backend, &images)
                    .map_err(|source| EvaluateError::Judge {
                        judge: name.clone(),
                        source: Box::new(source),
                    })?,
            ),
            _ => None,
        };
        let classes = match &views {
            Some(views) => argmax(&views.logits)?.into_iter().map(Some).collect(),
            None => vec![None; new.len()],
        };
        let rows = if real_features {
            self.features(&images, views.as_ref(), journal)?
        } else {
            None
        };
        let mut records = Vec::with_capacity(new.len());
        for (at, (original, _)) in new.iter().enumerate() {
            self.original_class.insert(*original, classes[at]);
            records.push(Record::Original {
                original: *original,
                features: rows.as_ref().map(|r| r[at]),
                class: classes[at],
            });
        }
        Ok(records)
    }

    /// Records of reference images.
    pub fn references(
        &self,
        images: &[(usize, Image)],
        journal: &mut Journal,
    ) -> Result<Vec<Record>, EvaluateError> {
        let pixels: Vec<&Image> = images.iter().map(|(_, image)| image).collect();
        let views = match (&self.models.classifier, self.settings.fid_features) {
            (Some((name, Judge::Network(net))), FidFeatures::Embedding) => Some(
                net.look(self.backend, &pixels)
                    .map_err(|source| EvaluateError::Judge {
                        judge: name.clone(),
                        source: Box::new(source),
                    })?,
            ),
            _ => None,
        };
        let before = journal.mark();
        let rows = self.features(&pixels, views.as_ref(), journal);
        if rows.is_err() {
            journal.back_to(before)?;
            self.backend.release();
        }
        let rows = rows?;
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
        images: &[&Image],
        pairs: &[usize],
    ) -> Result<Views, EvaluateError> {
        match judge {
            Judge::Network(net) => {
                net.look(self.backend, images)
                    .map_err(|source| EvaluateError::Judge {
                        judge: name.clone(),
                        source: Box::new(source),
                    })
            }
            Judge::Logits(all) => Ok(Views {
                logits: Array {
                    shape: vec![pairs.len(), all.shape[1]],
                    data: pairs.iter().flat_map(|&p| all.row(p)).copied().collect(),
                },
                embedding: None,
            }),
        }
    }

    /// Rows of the features of images, if any metric needs them.
    fn features(
        &self,
        images: &[&Image],
        views: Option<&Views>,
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
                Some(self.per_size(images, |x| Ok(net.extract(self.backend, x)?))?)
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
        let rows = (0..images.len()).map(|i| journal.features.push(features.row(i)));
        Ok(Some(rows.collect::<Result<_, _>>()?))
    }

    /// Rows of the logits that the Inception Score uses.
    fn inception_logits(
        &self,
        images: &[&Image],
        views: Option<&Views>,
        journal: &mut Journal,
    ) -> Result<Option<Vec<usize>>, EvaluateError> {
        if !self.settings.selection.has(Family::InceptionScore) {
            return Ok(None);
        }
        let logits = match (self.settings.fid_features, &self.models.inception) {
            (FidFeatures::Embedding, _) => views.map(|v| v.logits.clone()),
            (FidFeatures::Inception(_), Some(net)) if net.has_logits() => {
                Some(self.per_size(images, |x| Ok(net.predict(self.backend, x)?.logits))?)
            }
            _ => None,
        };
        let Some(logits) = logits else {
            return Ok(None);
        };
        let rows = (0..images.len()).map(|i| journal.logits.push(logits.row(i)));
        Ok(Some(rows.collect::<Result<_, _>>()?))
    }

    /// Runs images of any sizes through a function of pixel batches, in order.
    fn per_size(
        &self,
        images: &[&Image],
        run: impl Fn(&B::Tensor) -> Result<B::Tensor, EvaluateError>,
    ) -> Result<Array, EvaluateError> {
        let mut rows: Vec<Vec<f32>> = vec![Vec::new(); images.len()];
        for ([h, w], members) in by_size(images) {
            let wrapped: Vec<Vec<u8>>;
            let pixels: Vec<&[u8]> = if self.settings.protocol == Protocol::Published {
                wrapped = members.iter().map(|&i| wrap(&images[i].pixels)).collect();
                wrapped.iter().map(|p| &p[..]).collect()
            } else {
                members.iter().map(|&i| &images[i].pixels[..]).collect()
            };
            let x = self
                .backend
                .upload_pixels(&pixels, h, w)
                .map_err(NetError::from)?;
            let out = self.backend.download(&run(&x)?).map_err(NetError::from)?;
            for (at, &i) in members.iter().enumerate() {
                rows[i] = out.row(at).to_vec();
            }
        }
        let width = rows.first().map_or(0, Vec::len);
        Ok(Array {
            shape: vec![rows.len(), width],
            data: rows.concat(),
        })
    }
}

/// Pixels as the study's FID received them: `p/127.5 − 1`, times 255, cast to uint8 with wrap-around.
fn wrap(pixels: &[u8]) -> Vec<u8> {
    let table: Vec<u8> = (0..=255u8)
        .map(|p| published::wrap_to_uint8(f32::from(p) / 127.5 - 1.0))
        .collect();
    pixels.iter().map(|&p| table[usize::from(p)]).collect()
}

fn argmax(logits: &Array) -> Result<Vec<usize>, MetricError> {
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
fn mean_probability(oracles: &[Views], at: usize) -> Option<usize> {
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
