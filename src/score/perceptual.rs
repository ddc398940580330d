//! LPIPS of a batch: features of originals are reused, members of a set are compared with each other.

use std::ops::Range;
use std::sync::Arc;

use super::evaluate::{Decoded, EvaluateError, Evaluator};
use super::originals::Originals;
use super::retry::Shortage;
use super::settings::Family;
use super::shown::Shown;
use super::taps::{Key, Taps};
use super::work::Planned;
use crate::images::{self, Limits};
use crate::metrics::MetricBackend;
use crate::metrics::lpips::LpipsDistance;
use crate::nets::NetError;

const NO_BACKBONE: NetError = NetError::MissingPart {
    network: "LPIPS",
    part: "backbone",
};

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
        originals: &Originals<'_, B>,
        counterfactuals: &Shown<'_, B>,
    ) -> Result<Option<Vec<SetDistance>>, EvaluateError> {
        if self.models.lpips.is_none() {
            return Ok(None);
        }
        let of_originals = self.original_taps(batch, originals)?;
        let groups: Vec<usize> = batch
            .iter()
            .map(|d| self.work.pairs[d.pair].group)
            .collect();
        let all = counterfactuals.all();
        let taps = self.taps_of(counterfactuals, &all, &groups, Side::Counterfactual)?;
        let pairs: Vec<(&Taps<B>, &Taps<B>)> = of_originals.iter().zip(&taps).collect();
        let found = self.distances(&pairs)?;
        let mut distances: Vec<SetDistance> = found
            .into_iter()
            .map(|distance| SetDistance {
                value: distance.value,
                layers: distance.layers,
                to_earlier: Vec::new(),
            })
            .collect();
        if self.settings.selection.has(Family::Diversity) {
            for run in self.sets(batch) {
                let pairs: Vec<usize> = batch[run.clone()].iter().map(|d| d.pair).collect();
                let to_earlier = self.distances_within(&pairs, &taps[run.clone()])?;
                for (distance, to_earlier) in distances[run].iter_mut().zip(to_earlier) {
                    distance.to_earlier = to_earlier;
                }
            }
        }
        Ok(Some(distances))
    }

    /// The parts of a batch that belong to one set of at least two counterfactuals each.
    fn sets(&self, batch: &[Decoded]) -> Vec<Range<usize>> {
        let set = |at: usize| self.work.pairs[batch[at].pair].set;
        let mut runs: Vec<Range<usize>> = Vec::new();
        for at in 0..batch.len() {
            match runs.last_mut() {
                Some(run) if set(run.start) == set(at) => run.end = at + 1,
                _ => runs.push(at..at + 1),
            }
        }
        runs.retain(|run| {
            let pair = batch[run.start].pair;
            self.in_set(&self.work.pairs[pair], pair)
        });
        runs
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
        let lpips = self.models.lpips.as_ref().ok_or(NO_BACKBONE)?;
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

    /// Distances of consecutive members of a set to all members before each; features of earlier ones that are not kept
    /// any more are computed again.
    fn distances_within(
        &mut self,
        members: &[usize],
        taps: &[Taps<B>],
    ) -> Result<Vec<Vec<f64>>, EvaluateError> {
        let (Some(&first), Some(&last)) = (members.first(), members.last()) else {
            return Ok(Vec::new());
        };
        let set = self.work.pairs[first].set;
        let earlier: Vec<usize> = (set..first).filter(|p| !self.skipped.contains(p)).collect();
        let mut to_earlier = vec![Vec::new(); taps.len()];
        // Earlier members come a batch at a time, so that memory does not grow with the set.
        for part in earlier.chunks(taps.len().max(1)) {
            let mut images = Vec::with_capacity(part.len() + taps.len());
            for &member in part {
                images.push(self.earlier_taps(member)?);
            }
            images.extend(taps.iter().cloned());
            let pairs: Vec<[usize; 2]> = (part.len()..images.len())
                .flat_map(|later| (0..part.len()).map(move |before| [before, later]))
                .collect();
            self.append_distances(&images, &pairs, part.len(), &mut to_earlier)?;
        }
        let pairs: Vec<[usize; 2]> = (0..taps.len())
            .flat_map(|later| (0..later).map(move |before| [before, later]))
            .collect();
        self.append_distances(taps, &pairs, 0, &mut to_earlier)?;
        // Kept for the later members; after the last one the whole set is done with.
        let next = self.work.pairs.get(last + 1);
        if next.is_some_and(|n| n.set == set) {
            for (&member, taps) in members.iter().zip(taps) {
                let own = self.owned(taps)?;
                self.cache.put(self.backend, Key::Pair(set, member), &own);
            }
        } else {
            (set..last).for_each(|member| self.cache.forget(Key::Pair(set, member)));
        }
        Ok(to_earlier)
    }

    /// Asks for the distances of pairs `[before, later]` of images and appends each to those of its later member, which is
    /// numbered from `first`.
    fn append_distances(
        &self,
        images: &[Taps<B>],
        pairs: &[[usize; 2]],
        first: usize,
        to_earlier: &mut [Vec<f64>],
    ) -> Result<(), EvaluateError> {
        let lpips = self.models.lpips.as_ref().ok_or(NO_BACKBONE)?;
        let images: Vec<&Vec<B::Tensor>> = images.iter().map(|taps| &**taps).collect();
        let found = lpips.some_pairs(self.backend, &images, pairs)?;
        for (distance, [_, later]) in found.iter().zip(pairs) {
            to_earlier[later - first].push(distance.value);
        }
        Ok(())
    }

    /// Features of a counterfactual of an earlier batch.
    fn earlier_taps(&mut self, pair: usize) -> Result<Taps<B>, EvaluateError> {
        let key = Key::Pair(self.work.pairs[pair].set, pair);
        if let Some(taps) = self.cache.get(key) {
            return Ok(taps);
        }
        let planned = &self.work.pairs[pair];
        let limits = Limits {
            max_pixels: self.settings.max_pixels,
        };
        let image = images::read(&planned.pair.counterfactual, &limits)?;
        let shown = Shown::new(vec![&image]);
        let taps = self.taps_of(&shown, &[0], &[planned.group], Side::Counterfactual)?;
        let own = self.owned(&taps[0])?;
        self.cache.put(self.backend, key, &own);
        Ok(own)
    }

    /// Features of the originals of a batch: those that were kept, and those computed now, together.
    fn original_taps(
        &mut self,
        batch: &[Decoded],
        originals: &Originals<'_, B>,
    ) -> Result<Vec<Taps<B>>, EvaluateError> {
        let keys = &originals.keys;
        let mut found = originals.kept.clone();
        let mut missing: Vec<usize> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if !found.contains_key(key) && missing.iter().all(|&m| keys[m] != *key) {
                missing.push(at);
            }
        }
        let planned = |at: usize| &self.work.pairs[batch[at].pair];
        let which: Vec<usize> = missing
            .iter()
            .map(|&at| originals.place[&planned(at).original])
            .collect();
        let groups: Vec<usize> = missing.iter().map(|&at| planned(at).group).collect();
        let taps = self.taps_of(&originals.shown, &which, &groups, Side::Original)?;
        for (taps, &at) in taps.iter().zip(&missing) {
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

    /// Features of some images, each with the group whose rescaling applies.
    fn taps_of(
        &self,
        shown: &Shown<'_, B>,
        which: &[usize],
        groups: &[usize],
        side: Side,
    ) -> Result<Vec<Taps<B>>, EvaluateError> {
        let Some(lpips) = &self.models.lpips else {
            return Ok(Vec::new());
        };
        // Images of one rescaling go together; in the exact protocol that is all of them.
        let mut parts: Vec<([f32; 2], Vec<usize>)> = Vec::new();
        for (at, &group) in groups.iter().enumerate() {
            let map = self.to_unit(group, side);
            match parts.iter_mut().find(|(m, _)| *m == map) {
                Some((_, part)) => part.push(at),
                None => parts.push((map, vec![at])),
            }
        }
        let mut all: Vec<Option<Taps<B>>> = vec![None; which.len()];
        for ([factor, offset], part) in parts {
            let images: Vec<usize> = part.iter().map(|&at| which[at]).collect();
            for batch in shown.batches(self.backend, &images)? {
                let taps = lpips.features(self.backend, &batch.pixels, factor, offset)?;
                for (i, &place) in batch.places.iter().enumerate() {
                    let own = taps.iter().map(|t| self.backend.select(t, i)).collect();
                    all[part[place]] = Some(Arc::new(own));
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
    ///
    /// What is kept for later pairs goes where there is no memory for it.
    pub fn map(&mut self, decoded: &Decoded) -> Result<Option<Vec<f32>>, EvaluateError> {
        let kept = self.cache.bytes();
        match self.try_map(decoded) {
            Err(error) if error.is_shortage() && kept > 0 => {
                self.cache.restart(kept / 2);
                self.backend.release();
                self.try_map(decoded)
            }
            found => found,
        }
    }

    fn try_map(&self, decoded: &Decoded) -> Result<Option<Vec<f32>>, EvaluateError> {
        let Some(lpips) = &self.models.lpips else {
            return Ok(None);
        };
        let group = [self.work.pairs[decoded.pair].group];
        let [a, b] = [&*decoded.original, &decoded.counterfactual].map(|i| Shown::new(vec![i]));
        let a = self.taps_of(&a, &[0], &group, Side::Original)?;
        let b = self.taps_of(&b, &[0], &group, Side::Counterfactual)?;
        let (h, w) = (decoded.original.height, decoded.original.width);
        let map = lpips.map(self.backend, &a[0], &b[0], h, w)?;
        Ok(Some(
            self.backend.download(&map).map_err(NetError::from)?.data,
        ))
    }
}
