//! Aligned memory that is used again: a network in steady state asks the system for nothing.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::arena::{Arena, LINE};

/// `len` values of f32, aligned to a cache line, given back to its arena when dropped.
pub struct Buffer {
    start: NonNull<f32>,
    len: usize,
    arena: &'static Mutex<Arena>,
}

// SAFETY: a buffer owns its memory; shared access is read-only.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// Activations and scratch, which come and go.
static PASSING: Mutex<Arena> = Mutex::new(Arena::passing());
/// Weights, which last as long as their network and would lie in the way of the others.
static LASTING: Mutex<Arena> = Mutex::new(Arena::lasting());

/// Gives memory that no tensor uses back to the system.
pub fn release() {
    let arena = PASSING.lock();
    arena.unwrap_or_else(PoisonError::into_inner).release();
}

/// Bytes of memory asked of the system for activations and scratch, and for weights.
pub fn memory() -> [usize; 2] {
    [&PASSING, &LASTING].map(|arena| {
        let arena = arena.lock().unwrap_or_else(PoisonError::into_inner);
        arena.held()
    })
}

/// Bytes of a buffer in its arena.
fn size(len: usize) -> Option<usize> {
    let bytes = len.max(1).checked_mul(size_of::<f32>())?;
    bytes.checked_next_multiple_of(LINE)
}

impl Buffer {
    /// A buffer whose values are left over from earlier use: for what is written in full.
    pub fn take(len: usize) -> Self {
        Self::from_arena(&PASSING, len)
    }

    /// A buffer of zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut buffer = Self::take(len);
        buffer.fill(0.0);
        buffer
    }

    /// A buffer of zeros for weights.
    pub fn lasting(len: usize) -> Self {
        let mut buffer = Self::from_arena(&LASTING, len);
        buffer.fill(0.0);
        buffer
    }

    fn from_arena(arena: &'static Mutex<Arena>, len: usize) -> Self {
        let Some(size) = size(len) else {
            panic!("a tensor of {len} values does not fit in memory");
        };
        // A panic elsewhere cannot leave an arena half changed.
        let take = || {
            let mut arena = arena.lock().unwrap_or_else(PoisonError::into_inner);
            arena.take(size)
        };
        // What the arena of activations keeps may be enough.
        let Some(start) = take().or_else(|| {
            release();
            take()
        }) else {
            // As every other allocation of the program fails: it ends with a message.
            let layout = Layout::from_size_align(size, LINE);
            handle_alloc_error(layout.unwrap_or(Layout::new::<f32>()));
        };
        Self {
            start: start.cast(),
            len,
            arena,
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut arena = self.arena.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(size) = size(self.len) {
            arena.give(self.start.cast(), size);
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `len` values (zeros at first, as the system gave them) that this buffer owns.
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
            assert_eq!(a.as_ptr() as usize % LINE, 0);
            assert!(a.iter().all(|&v| v == 0.0) && a.len() == len);
            a.fill(3.0);
            let b = Buffer::from(&a[..]);
            drop(a);
            assert!(b.iter().all(|&v| v == 3.0));
        }
    }
}
