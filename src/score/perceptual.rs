//! LPIPS of a batch: features of originals are reused, members of a set are compared with each other.

use std::collections::HashMap;
use std::sync::Arc;

use super::evaluate::{Decoded, EvaluateError, Evaluator};
use super::judges::by_size;
use super::settings::{Family, Protocol};
use super::taps::{Key, Taps};
use super::work::Planned;
use crate::images::{self, Image, Limits};
use crate::metrics::MetricBackend;
use crate::metrics::lpips::LpipsDistance;
use crate::nets::NetError;

#[derive(Clone, Copy)]
enum Side {
    Original,
    Counterfactual,
}

/// LPIPS of a pair, and to the earlier members of its set.
pub(super) struct SetDistance {
    pub value: f64,
    pub layers: Vec<f64>,
    pub to_earlier: Vec<f64>,
}

impl<B: MetricBackend + 'static> Evaluator<'_, B> {
    /// Distances of a batch, if LPIPS or diversity is wanted.
    pub(super) fn lpips(
        &mut self,
        batch: &[Decoded],
    ) -> Result<Option<Vec<SetDistance>>, EvaluateError> {
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
        let pairs: Vec<(&Taps<B>, &Taps<B>)> = originals.iter().zip(&taps).collect();
        let mut distances = Vec::with_capacity(batch.len());
        for (at, (decoded, distance)) in batch.iter().zip(self.distances(&pairs)?).enumerate() {
            let planned = &self.work.pairs[decoded.pair];
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

    /// Distances of pairs of images, asked of the device at once.
    fn distances(
        &self,
        pairs: &[(&Taps<B>, &Taps<B>)],
    ) -> Result<Vec<LpipsDistance>, EvaluateError> {
        let lpips = self.models.lpips.as_ref().ok_or(NetError::MissingPart {
            network: "LPIPS",
            part: "backbone",
        })?;
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        let found = lpips.distances_of(self.backend, &pairs)?;
        if found.len() != pairs.len() || found.iter().any(Vec::is_empty) {
            return Err(EvaluateError::Net(NetError::MissingPart {
                network: "LPIPS",
                part: "heads",
            }));
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Distances to the earlier members of a set; features that are not kept any more are computed again.
    fn distances_to_earlier(
        &mut self,
        set: usize,
        pair: usize,
        taps: &Taps<B>,
    ) -> Result<Vec<f64>, EvaluateError> {
        let mut others = Vec::new();
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
            others.push(other);
        }
        let pairs: Vec<(&Taps<B>, &Taps<B>)> = others.iter().map(|other| (other, taps)).collect();
        let distances = self.distances(&pairs)?;
        let distances = distances.iter().map(|d| d.value).collect();
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
        Ok(Some(
            self.backend.download(&map).map_err(NetError::from)?.data,
        ))
    }
}
