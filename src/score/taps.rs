//! LPIPS features that are kept for reuse: those of originals, and of the members of a set.

use std::collections::HashMap;
use std::sync::Arc;

use crate::metrics::lpips::feature_bytes;
use crate::tensor::Backend;

/// Features of one image, or the key of another group's view of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// An original, with the group whose rescaling applies (published protocol; else 0).
    Original(usize, usize),
    /// The counterfactual of a pair, after the first pair of its set.
    Pair(usize, usize),
}

/// The taps of one image.
pub type Taps<B> = Arc<Vec<<B as Backend>::Tensor>>;

/// A cache that forgets what was used longest ago once it holds too many bytes.
pub struct TapCache<B: Backend> {
    limit: usize,
    bytes: usize,
    clock: u64,
    kept: HashMap<Key, (u64, usize, Taps<B>)>,
}

impl<B: Backend> TapCache<B> {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            clock: 0,
            kept: HashMap::new(),
        }
    }

    pub fn get(&mut self, key: Key) -> Option<Taps<B>> {
        self.clock += 1;
        let entry = self.kept.get_mut(&key)?;
        entry.0 = self.clock;
        Some(Arc::clone(&entry.2))
    }

    pub fn put(&mut self, backend: &B, key: Key, taps: &Taps<B>) {
        self.clock += 1;
        let size = feature_bytes(backend, taps);
        if size > self.limit || self.kept.contains_key(&key) {
            return;
        }
        // The members of a set are asked for in their order, again and again: if each took the place of the one before,
        // none would be there when its turn comes.
        let stays =
            |other: &Key| matches!((key, other), (Key::Pair(a, _), Key::Pair(b, _)) if a == *b);
        let staying: usize = self
            .kept
            .iter()
            .filter(|(k, _)| stays(k))
            .map(|(_, e)| e.1)
            .sum();
        if staying + size > self.limit {
            return;
        }
        while self.bytes + size > self.limit {
            let others = self.kept.iter().filter(|(k, _)| !stays(k));
            let Some(oldest) = others.min_by_key(|(_, e)| e.0).map(|(k, _)| *k) else {
                return;
            };
            self.forget(oldest);
        }
        self.bytes += size;
        self.kept.insert(key, (self.clock, size, Arc::clone(taps)));
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives up everything and keeps at most so many bytes from now on; how many it was before.
    pub fn restart(&mut self, limit: usize) -> usize {
        self.kept.clear();
        self.bytes = 0;
        std::mem::replace(&mut self.limit, limit)
    }

    pub fn forget(&mut self, key: Key) {
        if let Some((_, size, _)) = self.kept.remove(&key) {
            self.bytes -= size;
        }
    }
}
