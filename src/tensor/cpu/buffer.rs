//! Aligned memory that is used again: activations and scratch come from one pool, so that a network in steady state
//! asks the system for nothing.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment of every buffer: one cache line, one AVX-512 register.
const ALIGN: usize = 64;
/// Values of the smallest buffer.
const SMALLEST: usize = 1024;

/// What the pool keeps beyond what was ever in use at once: buffers of sizes that come and go.
const SPARE: usize = 8 << 20;

/// `len` values of f32, 64-byte aligned, given back to the pool when dropped.
pub struct Buffer {
    start: NonNull<f32>,
    len: usize,
    capacity: usize,
    /// Weights last as long as their network and are none of the pool's business.
    pooled: bool,
}

// SAFETY: a buffer owns its memory; shared access is read-only.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// What lies unused, by capacity, each with the time it was given back, and how much is in use.
struct Pool {
    free: BTreeMap<usize, Vec<(u64, Buffer)>>,
    time: u64,
    free_values: usize,
    live_values: usize,
    most_live: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    free: BTreeMap::new(),
    time: 0,
    free_values: 0,
    live_values: 0,
    most_live: 0,
});

fn pool() -> MutexGuard<'static, Pool> {
    // A panic elsewhere cannot leave the pool half changed.
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// The smallest free buffer that holds `len` values and wastes at most half of itself.
    fn take(&mut self, len: usize) -> Option<Buffer> {
        let most = len.max(SMALLEST).saturating_mul(2);
        let mut fitting = self.free.range_mut(len..=most);
        let (_, buffer) = fitting.find_map(|(_, list)| list.pop())?;
        self.free_values -= buffer.capacity;
        Some(buffer)
    }

    /// Keeps a buffer for later. Beyond the limit the one that was not used for longest goes.
    fn give(&mut self, buffer: Buffer) -> Option<Buffer> {
        self.live_values -= buffer.capacity;
        self.free_values += buffer.capacity;
        self.time += 1;
        let list = self.free.entry(buffer.capacity).or_default();
        list.push((self.time, buffer));
        if self.free_values <= self.most_live + SPARE {
            return None;
        }
        // Lists are stacks: the oldest of each is its first.
        let lists = self.free.values_mut().filter(|list| !list.is_empty());
        let (_, oldest) = lists.min_by_key(|list| list[0].0)?.remove(0);
        self.free_values -= oldest.capacity;
        Some(oldest)
    }
}

/// Rounds up so that slightly different lengths share buffers: at most an eighth is wasted.
fn rounded(len: usize) -> usize {
    let len = len.max(SMALLEST);
    len.next_multiple_of((len.next_power_of_two() / 16).max(SMALLEST))
}

impl Buffer {
    /// A buffer whose values are left over from earlier use: for what is written in full.
    pub fn take(len: usize) -> Self {
        let found = pool().take(len);
        let mut buffer = found.unwrap_or_else(|| Self::allocate(rounded(len)));
        buffer.len = len;
        buffer.pooled = true;
        let mut pool = pool();
        pool.live_values += buffer.capacity;
        pool.most_live = pool.most_live.max(pool.live_values);
        buffer
    }

    /// A buffer of zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut buffer = Self::take(len);
        buffer.fill(0.0);
        buffer
    }

    /// A buffer of zeros that does not come from the pool and does not go back to it: for weights.
    pub fn lasting(len: usize) -> Self {
        let mut buffer = Self::allocate(len.max(1));
        buffer.len = len;
        buffer
    }

    fn layout(capacity: usize) -> Layout {
        Layout::array::<f32>(capacity)
            .and_then(|layout| layout.align_to(ALIGN))
            .unwrap_or_else(|_| panic!("a tensor of {capacity} values does not fit in memory"))
    }

    fn allocate(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) }.cast::<f32>();
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Self {
            start,
            len: capacity,
            capacity,
            pooled: false,
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let whole = Self {
            start: self.start,
            len: self.len,
            capacity: self.capacity,
            pooled: self.pooled,
        };
        let unwanted = if self.pooled {
            pool().give(whole)
        } else {
            Some(whole)
        };
        if let Some(buffer) = unwanted {
            let buffer = std::mem::ManuallyDrop::new(buffer);
            // SAFETY: allocated with this layout, and owned by nobody else.
            unsafe { dealloc(buffer.start.as_ptr().cast(), Self::layout(buffer.capacity)) }
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `len` initialised values (zeros at first) that this buffer owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl From<&[f32]> for Buffer {
    fn from(values: &[f32]) -> Self {
        let mut buffer = Self::take(values.len());
        buffer.copy_from_slice(values);
        buffer
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer of {} values", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_hold_what_is_written() {
        for len in [0, 1, 1000, 1024, 1025, 100_000] {
            let mut a = Buffer::zeroed(len);
            assert_eq!(a.as_ptr() as usize % ALIGN, 0);
            assert!(a.iter().all(|&v| v == 0.0) && a.len() == len);
            a.fill(3.0);
            let b = Buffer::from(&a[..]);
            drop(a);
            assert!(b.iter().all(|&v| v == 3.0));
        }
    }

    #[test]
    fn rounding_wastes_at_most_an_eighth() {
        for len in [1024, 5000, 123_456, 1 << 20, (1 << 20) + 1] {
            let capacity = rounded(len);
            assert!(
                capacity >= len && capacity <= len + len / 8 + SMALLEST,
                "{len}: {capacity}"
            );
        }
    }
}
