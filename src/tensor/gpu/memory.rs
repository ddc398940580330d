//! Buffers, and those that are kept for further use.
//!
//! A network asks for the same sizes batch after batch; asking the driver each time is slow. Kept are at most a quarter
//! more bytes than were ever in use at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where buffers come from.
pub trait Memory: Send + Sync + 'static {
    /// What gives its memory back when it is dropped.
    type Raw: Send + Sync;

    /// New memory, or `None` if there is none left.
    fn create(&self, bytes: u64) -> Option<Self::Raw>;
    fn bytes(raw: &Self::Raw) -> u64;
}

/// A buffer that comes back to the pool.
pub struct Buffer<M: Memory> {
    raw: Option<M::Raw>,
    pool: Arc<Pool<M>>,
}

impl<M: Memory> Buffer<M> {
    pub fn raw(&self) -> &M::Raw {
        self.raw.as_ref().expect("a buffer that was not given back")
    }
}

impl<M: Memory> Drop for Buffer<M> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            self.pool.put(raw);
        }
    }
}

/// Buffers that are not in use.
pub struct Pool<M: Memory> {
    memory: M,
    kept: Mutex<Kept<M::Raw>>,
}

struct Kept<R> {
    free: BTreeMap<u64, Vec<R>>,
    free_bytes: u64,
    used_bytes: u64,
    most_used: u64,
    /// Used and free together, at most.
    peak: u64,
}

impl<R> Kept<R> {
    /// The smallest free buffer that holds `bytes` and does not waste half of itself.
    fn take(&mut self, bytes: u64) -> Option<R> {
        let (&size, _) = self.free.range(bytes..=2 * bytes).next()?;
        let of_size = self.free.get_mut(&size)?;
        let buffer = of_size.pop();
        if of_size.is_empty() {
            self.free.remove(&size);
        }
        self.free_bytes -= size;
        buffer
    }

    /// Forgets free buffers, the largest first, until all together are small enough.
    fn trim(&mut self, more: u64) {
        let most = self.most_used.max(self.used_bytes + more);
        while self.used_bytes + more + self.free_bytes > most + most / 4 {
            let Some((size, buffers)) = self.free.pop_last() else {
                return;
            };
            self.free_bytes -= size * buffers.len() as u64;
        }
    }

    fn use_more(&mut self, bytes: u64) {
        self.used_bytes += bytes;
        self.most_used = self.most_used.max(self.used_bytes);
        self.peak = self.peak.max(self.used_bytes + self.free_bytes);
    }
}

impl<M: Memory> Pool<M> {
    pub fn new(memory: M) -> Arc<Self> {
        Arc::new(Self {
            memory,
            kept: Mutex::new(Kept {
                free: BTreeMap::new(),
                free_bytes: 0,
                used_bytes: 0,
                most_used: 0,
                peak: 0,
            }),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept<M::Raw>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of at least so many bytes, or `None` if there is no memory.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Buffer<M>> {
        // Steps of 1/8 of the size, so that almost equal sizes share buffers.
        let bytes = bytes.max(4) as u64;
        let step = (bytes.next_power_of_two() / 16).max(256);
        let bytes = bytes.next_multiple_of(step);
        let mut kept = self.kept();
        let raw = match kept.take(bytes) {
            Some(raw) => raw,
            None => {
                kept.trim(bytes);
                self.memory.create(bytes)?
            }
        };
        kept.use_more(M::bytes(&raw));
        Some(Buffer {
            raw: Some(raw),
            pool: Arc::clone(self),
        })
    }

    fn put(&self, raw: M::Raw) {
        let mut kept = self.kept();
        let bytes = M::bytes(&raw);
        kept.used_bytes -= bytes;
        kept.free_bytes += bytes;
        kept.free.entry(bytes).or_default().push(raw);
        kept.trim(0);
    }

    /// Gives all free buffers back to the system.
    pub fn clear(&self) {
        let mut kept = self.kept();
        kept.free.clear();
        kept.free_bytes = 0;
        kept.most_used = kept.used_bytes;
    }

    /// The most bytes that were ever taken from the system at once.
    pub fn peak(&self) -> u64 {
        self.kept().peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system with so many bytes.
    struct System {
        left: Arc<Mutex<u64>>,
    }

    struct Piece {
        bytes: u64,
        left: Arc<Mutex<u64>>,
    }

    impl Drop for Piece {
        fn drop(&mut self) {
            *self.left.lock().unwrap() += self.bytes;
        }
    }

    impl Memory for System {
        type Raw = Piece;

        fn create(&self, bytes: u64) -> Option<Piece> {
            let mut left = self.left.lock().unwrap();
            *left = left.checked_sub(bytes)?;
            Some(Piece {
                bytes,
                left: Arc::clone(&self.left),
            })
        }

        fn bytes(raw: &Piece) -> u64 {
            raw.bytes
        }
    }

    fn pool(bytes: u64) -> (Arc<Pool<System>>, Arc<Mutex<u64>>) {
        let left = Arc::new(Mutex::new(bytes));
        let system = System {
            left: Arc::clone(&left),
        };
        (Pool::new(system), left)
    }

    #[test]
    fn what_comes_back_is_used_again() {
        let (pool, left) = pool(1 << 20);
        drop(pool.take(1000));
        assert_eq!(*left.lock().unwrap(), (1 << 20) - 1024);
        let again = pool.take(900).unwrap();
        assert_eq!(*left.lock().unwrap(), (1 << 20) - 1024);
        assert_eq!(pool.peak(), 1024);
        drop(again);
        pool.clear();
        assert_eq!(*left.lock().unwrap(), 1 << 20);
    }

    #[test]
    fn at_most_a_quarter_more_than_was_in_use_is_kept() {
        let (pool, _) = pool(1 << 30);
        for round in 1..=50 {
            // Sizes that do not fit each other.
            let sizes = [7000 * round, 100 + round, 300_000 / round];
            let held: Vec<_> = sizes.iter().map(|&s| pool.take(s)).collect();
            drop(held);
        }
        // The last round but none uses more than 7000 * 50 + 300_000 bytes, rounded up by an eighth.
        let most = (350_000 + 300_000) * 9 / 8;
        assert!(pool.peak() <= most + most / 4, "{}", pool.peak());
    }

    #[test]
    fn no_memory_is_an_answer() {
        let (pool, _) = pool(4096);
        let held = pool.take(4000).unwrap();
        assert!(pool.take(4000).is_none());
        drop(held);
        assert!(pool.take(4000).is_some());
    }
}
