//! The originals of a batch: those that were met before are not looked at again.

use std::collections::HashMap;

use super::evaluate::{Decoded, EvaluateError, Evaluator, argmax};
use super::journal::{Journal, Record};
use super::judges::Judge;
use super::settings::{FidFeatures, Protocol};
use super::shown::Shown;
use super::taps::{Key, Taps};
use crate::images::Image;
use crate::metrics::MetricBackend;
use crate::tensor::Backend;

/// What a batch needs of its originals.
pub(super) struct Originals<'a, B: Backend> {
    /// Under which the LPIPS features of each pair's original are kept.
    pub keys: Vec<Key>,
    /// Those that are kept.
    pub kept: HashMap<Key, Taps<B>>,
    /// Images that some network still has to see.
    pub shown: Shown<'a, B>,
    /// Places of originals among them.
    pub place: HashMap<usize, usize>,
    /// Originals that were not met before, in order.
    new: Vec<usize>,
}

impl<B: MetricBackend + 'static> Evaluator<'_, B> {
    pub(super) fn originals_of<'a>(&mut self, batch: &'a [Decoded]) -> Originals<'a, B> {
        let published = self.settings.protocol == Protocol::Published;
        let mut keys = Vec::with_capacity(batch.len());
        let (mut kept, mut place, mut new) = (HashMap::new(), HashMap::new(), Vec::new());
        let mut images: Vec<&Image> = Vec::new();
        for decoded in batch {
            let planned = &self.work.pairs[decoded.pair];
            let original = planned.original;
            let key = Key::Original(original, if published { planned.group } else { 0 });
            if let Some(taps) = self.cache.get(key) {
                kept.insert(key, taps);
            }
            let first = !self.original_class.contains_key(&original);
            if first && !new.contains(&original) {
                new.push(original);
            }
            let unseen = first || (self.models.lpips.is_some() && !kept.contains_key(&key));
            if unseen && !place.contains_key(&original) {
                place.insert(original, images.len());
                images.push(&decoded.original);
            }
            keys.push(key);
        }
        Originals {
            keys,
            kept,
            shown: Shown::new(images),
            place,
            new,
        }
    }

    /// Looks at the originals that were not met before.
    pub(super) fn look_at_originals(
        &mut self,
        originals: &Originals<'_, B>,
        journal: &mut Journal,
    ) -> Result<Vec<Record>, EvaluateError> {
        if originals.new.is_empty() {
            return Ok(Vec::new());
        }
        let shown = &originals.shown;
        let which: Vec<usize> = originals.new.iter().map(|o| originals.place[o]).collect();
        let real_features = self.settings.selection.realism() && self.work.references.is_empty();
        let embedding = self.settings.fid_features == FidFeatures::Embedding && real_features;
        let views = match &self.models.classifier {
            Some((name, Judge::Network(net))) if self.work.unknown_source || embedding => Some(
                net.look(self.backend, shown, &which, embedding)
                    .map_err(|source| EvaluateError::Judge {
                        judge: name.clone(),
                        source: Box::new(source),
                    })?,
            ),
            _ => None,
        };
        let classes = match &views {
            Some(views) => argmax(&views.logits)?.into_iter().map(Some).collect(),
            None => vec![None; which.len()],
        };
        let rows = if real_features {
            self.features(shown, &which, views.as_ref(), journal)?
        } else {
            None
        };
        let mut records = Vec::with_capacity(which.len());
        for (at, &original) in originals.new.iter().enumerate() {
            self.original_class.insert(original, classes[at]);
            records.push(Record::Original {
                original,
                features: rows.as_ref().map(|r| r[at]),
                class: classes[at],
            });
        }
        Ok(records)
    }
}
