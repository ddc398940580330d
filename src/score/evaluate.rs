//! One batch of decoded pairs → records: every metric in one pass over the images.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::journal::{Journal, JournalError, Opinion, PairRecord, Record};
use super::judges::{Judge, JudgeError, Views, by_size};
use super::settings::{Family, FidFeatures, Protocol, Settings};
use super::taps::{Key, TapCache, Taps};
use super::work::{Planned, Work};
use crate::images::{self, Image, ImageError, Limits};
use crate::metrics::inception_features::InceptionFeatures;
use crate::metrics::lpips::Lpips;
use crate::metrics::{Matrix, MetricError, lp, published, validity};
use crate::nets::NetError;
use crate::tensor::{Array, Backend};

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

impl<B: Backend + 'static> Evaluator<'_, B> {
    /// Records of a batch; rows go to the journal, the records are returned for appending.
    pub fn batch(
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
            let opinion = |views: &Views| opinion(views.logits.row(at), planned.target, source);
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
                classifier: classifier.as_ref().map(opinion).transpose()?,
                oracles: oracles.iter().map(opinion).collect::<Result<_, _>>()?,
                mean_probability: mean_probability(&oracles, at),
                difference,
                values: decoded.original.pixels.len(),
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
        let unknown_source = self.work.pairs.iter().any(|p| p.source.is_none());
        let views = match &self.models.classifier {
            Some((name, Judge::Network(net))) if unknown_source || embedding => Some(
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
        let rows = self.features(&pixels, views.as_ref(), journal)?;
        Ok(images
            .iter()
            .enumerate()
            .map(|(at, (reference, _))| Record::Reference {
                reference: *reference,
                features: rows.as_ref().map(|r| r[at]),
                reason: None,
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
            let out = self.backend.download(&run(&x)?);
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

    fn lpips(&mut self, batch: &[Decoded]) -> Result<Option<Vec<SetDistance>>, EvaluateError> {
        if self.models.lpips.is_none() {
            return Ok(None);
        }
        let originals = self.original_taps(batch)?;
        let images: Vec<&Image> = batch.iter().map(|d| &d.counterfactual).collect();
        let groups: Vec<usize> = batch
            .iter()
            .map(|d| self.work.pairs[d.pair].group)
            .collect();
        let taps = self.taps_of(&images, &groups, Side::Counterfactual)?;
        let mut distances = Vec::with_capacity(batch.len());
        for (at, decoded) in batch.iter().enumerate() {
            let planned = &self.work.pairs[decoded.pair];
            let distance = self.distance(&originals[at], &taps[at])?;
            let diverse = self.settings.selection.has(Family::Diversity);
            let to_earlier = if diverse && self.in_set(planned, decoded.pair) {
                self.distances_to_earlier(planned.set, decoded.pair, &taps[at])?
            } else {
                Vec::new()
            };
            distances.push(SetDistance {
                value: distance.value,
                layers: distance.layers,
                to_earlier,
            });
        }
        Ok(Some(distances))
    }

    fn in_set(&self, planned: &Planned, pair: usize) -> bool {
        let next = self.work.pairs.get(pair + 1);
        planned.set != pair || next.is_some_and(|n| n.set == planned.set)
    }

    fn distance(
        &self,
        a: &Taps<B>,
        b: &Taps<B>,
    ) -> Result<crate::metrics::lpips::LpipsDistance, EvaluateError> {
        let lpips = self.models.lpips.as_ref().ok_or(NetError::MissingPart {
            network: "LPIPS",
            part: "backbone",
        })?;
        let mut found = lpips.distances(self.backend, a, b)?;
        found.pop().ok_or(EvaluateError::Net(NetError::MissingPart {
            network: "LPIPS",
            part: "heads",
        }))
    }

    /// Distances to the earlier members of a set; features that are not kept any more are computed again.
    fn distances_to_earlier(
        &mut self,
        set: usize,
        pair: usize,
        taps: &Taps<B>,
    ) -> Result<Vec<f64>, EvaluateError> {
        let mut distances = Vec::new();
        for earlier in (set..pair)
            .filter(|p| !self.skipped.contains(p))
            .collect::<Vec<_>>()
        {
            let key = Key::Pair(earlier);
            let other = match self.cache.get(key) {
                Some(taps) => taps,
                None => {
                    let planned = &self.work.pairs[earlier];
                    let limits = Limits {
                        max_pixels: self.settings.max_pixels,
                    };
                    let image = images::read(&planned.pair.counterfactual, &limits)?;
                    let taps = self.taps_of(&[&image], &[planned.group], Side::Counterfactual)?;
                    let own = self.owned(&taps[0])?;
                    self.cache.put(self.backend, key, &own);
                    own
                }
            };
            distances.push(self.distance(&other, taps)?.value);
        }
        // Kept for the later members; after the last one the whole set is done with.
        let next = self.work.pairs.get(pair + 1);
        if next.is_some_and(|n| n.set == set) {
            let own = self.owned(taps)?;
            self.cache.put(self.backend, Key::Pair(pair), &own);
        } else {
            (set..pair).for_each(|member| self.cache.forget(Key::Pair(member)));
        }
        Ok(distances)
    }

    /// Features of the originals of a batch, from the cache or computed together.
    fn original_taps(&mut self, batch: &[Decoded]) -> Result<Vec<Taps<B>>, EvaluateError> {
        let published = self.settings.protocol == Protocol::Published;
        let keys: Vec<Key> = batch
            .iter()
            .map(|d| {
                let p = &self.work.pairs[d.pair];
                Key::Original(p.original, if published { p.group } else { 0 })
            })
            .collect();
        let mut found: HashMap<Key, Taps<B>> = HashMap::new();
        let mut missing: Vec<usize> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if found.contains_key(key) || missing.iter().any(|&m| keys[m] == *key) {
                continue;
            }
            match self.cache.get(*key) {
                Some(taps) => drop(found.insert(*key, taps)),
                None => missing.push(at),
            }
        }
        let images: Vec<&Image> = missing.iter().map(|&at| &*batch[at].original).collect();
        let groups: Vec<usize> = missing
            .iter()
            .map(|&at| self.work.pairs[batch[at].pair].group)
            .collect();
        for (taps, &at) in self
            .taps_of(&images, &groups, Side::Original)?
            .iter()
            .zip(&missing)
        {
            let last = batch.last().map_or(0, |d| d.pair);
            let used_again = self.work.last_use[self.work.pairs[batch[at].pair].original] > last;
            if used_again {
                let own = self.owned(taps)?;
                self.cache.put(self.backend, keys[at], &own);
                found.insert(keys[at], own);
            } else {
                found.insert(keys[at], Arc::clone(taps));
            }
        }
        Ok(keys.iter().map(|k| Arc::clone(&found[k])).collect())
    }

    /// A copy that does not keep the rest of its batch alive.
    fn owned(&self, taps: &Taps<B>) -> Result<Taps<B>, EvaluateError> {
        let copies = taps
            .iter()
            .map(|t| self.backend.stack(std::slice::from_ref(t)));
        let copies: Result<Vec<_>, _> = copies.collect();
        Ok(Arc::new(copies.map_err(NetError::from)?))
    }

    fn taps_of(
        &self,
        images: &[&Image],
        groups: &[usize],
        side: Side,
    ) -> Result<Vec<Taps<B>>, EvaluateError> {
        let Some(lpips) = &self.models.lpips else {
            return Ok(Vec::new());
        };
        let mut all: Vec<Option<Taps<B>>> = vec![None; images.len()];
        for ([h, w], members) in by_size(images) {
            // Images of one rescaling go together; in the exact protocol that is all of them.
            let mut parts: Vec<([f32; 2], Vec<usize>)> = Vec::new();
            for &i in &members {
                let map = self.to_unit(groups[i], side);
                match parts.iter_mut().find(|(m, _)| *m == map) {
                    Some((_, part)) => part.push(i),
                    None => parts.push((map, vec![i])),
                }
            }
            for ([factor, offset], part) in parts {
                let pixels: Vec<&[u8]> = part.iter().map(|&i| &images[i].pixels[..]).collect();
                let x = self
                    .backend
                    .upload_pixels(&pixels, h, w)
                    .map_err(NetError::from)?;
                let taps = lpips.features(self.backend, &x, factor, offset)?;
                for (at, &i) in part.iter().enumerate() {
                    let own = taps.iter().map(|t| self.backend.select(t, at)).collect();
                    all[i] = Some(Arc::new(own));
                }
            }
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// The map of pixels 0..255 to [-1, 1]: fixed, or from the extremes of the group (published protocol).
    fn to_unit(&self, group: usize, side: Side) -> [f32; 2] {
        let Some(extremes) = self.extremes.get(group) else {
            return [1.0 / 127.5, -1.0];
        };
        let [low, high] = match side {
            Side::Original => extremes.original,
            Side::Counterfactual => extremes.counterfactual,
        };
        let span = f32::from(high.saturating_sub(low)).max(1.0);
        [2.0 / span, -2.0 * f32::from(low) / span - 1.0]
    }

    /// Heat map of the LPIPS of one pair, values per pixel.
    pub fn map(&self, decoded: &Decoded) -> Result<Option<Vec<f32>>, EvaluateError> {
        let Some(lpips) = &self.models.lpips else {
            return Ok(None);
        };
        let group = [self.work.pairs[decoded.pair].group];
        let a = self.taps_of(&[&*decoded.original], &group, Side::Original)?;
        let b = self.taps_of(&[&decoded.counterfactual], &group, Side::Counterfactual)?;
        let (h, w) = (decoded.original.height, decoded.original.width);
        let map = lpips.map(self.backend, &a[0], &b[0], h, w)?;
        Ok(Some(self.backend.download(&map).data))
    }
}

#[derive(Clone, Copy)]
enum Side {
    Original,
    Counterfactual,
}

struct SetDistance {
    value: f64,
    layers: Vec<f64>,
    to_earlier: Vec<f64>,
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
    logits: &[f32],
    target: Option<usize>,
    source: Option<usize>,
) -> Result<Opinion, EvaluateError> {
    let matrix = Matrix::new("logits", 1, logits.len(), logits)?;
    let class = validity::predictions("logits", matrix)?[0];
    let probabilities = validity::softmax(logits);
    let of = |role: &str, label: Option<usize>| {
        label
            .map(|l| {
                probabilities.get(l).copied().ok_or_else(|| {
                    EvaluateError::Label(format!(
                        "{role} class {l} is out of range: the logits have {} classes",
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
