//! Memory that is kept: large slabs from the system, cut into pieces that join their free neighbours again when they
//! are given back. Those of activations lie on huge pages where the system allows it: the kernels of this room touch another
//! page with every pixel they write.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;

/// Alignment of every piece, and what its size is a multiple of: one cache line, one AVX-512 register.
pub const LINE: usize = 64;
/// Size of a slab; larger pieces have their own.
const SLAB: usize = 32 << 20;
/// A huge page of Linux on x86-64 and most 64-bit ARM.
const HUGE_PAGE: usize = 2 << 20;

/// Slabs and what is free in them, all in bytes.
pub struct Arena {
    /// Start and size of every slab.
    slabs: BTreeMap<usize, Slab>,
    /// Size of every free piece by its start, and the same the other way round.
    free: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
    held: usize,
    live: usize,
    most_live: usize,
    /// Whether as many empty slabs are kept as were ever in use, or the last one.
    keeps: bool,
    huge: bool,
}

impl Arena {
    /// An arena of what comes and goes. It keeps about as much as was ever in use at once, on huge pages.
    pub const fn passing() -> Self {
        Self::new(true, true)
    }

    /// An arena of what lasts. It keeps the last slab when it is empty, for the weights of a training, which are packed anew in every
    /// step. Small pages: a short run ends sooner, because systems take longer to give large ones.
    pub const fn lasting() -> Self {
        Self::new(false, false)
    }

    const fn new(keeps: bool, huge: bool) -> Self {
        Self {
            slabs: BTreeMap::new(),
            free: BTreeMap::new(),
            by_size: BTreeSet::new(),
            held: 0,
            live: 0,
            most_live: 0,
            keeps,
            huge,
        }
    }

    /// A piece of `size` bytes, a multiple of [`LINE`], which hold zeros or what was left there. `None` if the system
    /// has no more.
    pub fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        // The smallest piece that is large enough, and of these the first.
        let found = self.by_size.range((size, 0)..).next().copied();
        let (room, start) = match found {
            Some(piece) => piece,
            None => {
                // Slabs that are empty are all too small. They are kept only if there is room for both.
                let wanted = slab_size(size)?;
                if self.held + wanted > self.most_live.max(self.live + wanted) / 4 * 5 {
                    self.release_empty();
                }
                let slab = self.map(wanted, size)?;
                let start = slab.start.as_ptr() as usize;
                self.held += slab.size;
                let room = slab.size;
                self.slabs.insert(start, slab);
                self.insert(start, room);
                (room, start)
            }
        };
        self.remove(start, room);
        if room > size {
            self.insert(start + size, room - size);
        }
        self.live += size;
        self.most_live = self.most_live.max(self.live);
        let slab = self.slabs.range(..=start).next_back();
        let (&first, slab) = slab.expect("every piece lies in a slab");
        // SAFETY: the piece lies inside this slab.
        Some(unsafe { slab.start.add(start - first) })
    }

    /// Gives a piece back.
    pub fn give(&mut self, piece: NonNull<u8>, size: usize) {
        let (mut start, mut room) = (piece.as_ptr() as usize, size);
        self.live -= size;
        let slab = self.slabs.range(..=start).next_back();
        let (
            &first,
            &Slab {
                size: slab_size, ..
            },
        ) = slab.expect("every piece lies in a slab");
        // Neighbours of other slabs may touch by chance and must not be joined.
        let end = first + slab_size;
        if let Some((&before, &size)) = self.free.range(first..start).next_back()
            && before + size == start
        {
            self.remove(before, size);
            (start, room) = (before, room + size);
        }
        if start + room < end
            && let Some(&size) = self.free.get(&(start + room))
        {
            self.remove(start + room, size);
            room += size;
        }
        let enough = if self.keeps {
            // More than was ever in use is kept for bad fits.
            self.held - slab_size >= self.most_live / 4 * 5
        } else {
            self.slabs.len() > 1 || slab_size > SLAB
        };
        if room == slab_size
            && enough
            && let Some(slab) = self.slabs.remove(&first)
        {
            self.held -= slab.size;
        } else {
            self.insert(start, room);
        }
    }

    /// A slab of `wanted` bytes; one with room for `size` where the system is short of memory.
    fn map(&mut self, wanted: usize, size: usize) -> Option<Slab> {
        let huge = self.huge;
        if let Some(slab) = Slab::new(wanted, huge) {
            return Some(slab);
        }
        self.release_empty();
        Slab::new(wanted, huge).or_else(|| Slab::new(size, huge))
    }

    /// Gives empty slabs back to the system, and begins anew to learn how much is in use at once.
    pub fn release(&mut self) {
        self.release_empty();
        self.most_live = self.live;
    }

    fn release_empty(&mut self) {
        let empty = |start: &usize, slab: &mut Slab| self.free.get(start) == Some(&slab.size);
        let empty: Vec<(usize, Slab)> = self.slabs.extract_if(.., empty).collect();
        for (start, slab) in empty {
            self.held -= slab.size;
            self.remove(start, slab.size);
        }
    }

    /// Bytes of all slabs, whether they were ever touched or not.
    pub fn held(&self) -> usize {
        self.held
    }

    fn insert(&mut self, start: usize, size: usize) {
        self.free.insert(start, size);
        self.by_size.insert((size, start));
    }

    fn remove(&mut self, start: usize, size: usize) {
        self.free.remove(&start);
        self.by_size.remove(&(size, start));
    }
}

/// Bytes of a slab that is to hold a piece.
fn slab_size(piece: usize) -> Option<usize> {
    let size = piece.max(SLAB).checked_next_multiple_of(HUGE_PAGE)?;
    // What Rust can have a slice of.
    (size <= isize::MAX as usize / 2).then_some(size)
}

/// Zeroed memory from the system, which has it back when the slab is dropped.
struct Slab {
    start: NonNull<u8>,
    size: usize,
    #[cfg(unix)]
    mapping: (*mut libc::c_void, usize),
}

// SAFETY: a slab owns its memory.
unsafe impl Send for Slab {}

#[cfg(unix)]
impl Slab {
    fn new(size: usize, huge: bool) -> Option<Self> {
        let size = size.checked_next_multiple_of(HUGE_PAGE)?;
        // One page more, for the alignment; what is never touched takes no memory.
        let length = size.checked_add(HUGE_PAGE)?;
        // SAFETY: asks for new memory.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        let start = address
            .cast::<u8>()
            .wrapping_add(address.cast::<u8>().align_offset(HUGE_PAGE));
        #[cfg(target_os = "linux")]
        {
            let advice = if huge {
                libc::MADV_HUGEPAGE
            } else {
                libc::MADV_NOHUGEPAGE
            };
            // SAFETY: advice about memory that this slab owns; it may be declined.
            unsafe { libc::madvise(start.cast(), size, advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = huge;
        Some(Self {
            start: NonNull::new(start)?,
            size,
            mapping: (address, length),
        })
    }
}

#[cfg(unix)]
impl Drop for Slab {
    fn drop(&mut self) {
        let (address, length) = self.mapping;
        // SAFETY: mapped by `new`, and no piece of it is in use.
        unsafe { libc::munmap(address, length) };
    }
}

#[cfg(not(unix))]
impl Slab {
    fn layout(size: usize) -> Option<std::alloc::Layout> {
        std::alloc::Layout::from_size_align(size, LINE).ok()
    }

    fn new(size: usize, _huge: bool) -> Option<Self> {
        let size = size.checked_next_multiple_of(HUGE_PAGE)?;
        // SAFETY: the layout is not empty.
        let start = unsafe { std::alloc::alloc_zeroed(Self::layout(size)?) };
        Some(Self {
            start: NonNull::new(start)?,
            size,
        })
    }
}

#[cfg(not(unix))]
impl Drop for Slab {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.size) {
            // SAFETY: allocated by `new` with this layout, and no piece of it is in use.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces that grow do not leave slabs behind that are too small for the next, nor does the last one come and go
    /// with its slab.
    #[test]
    fn growing_pieces_do_not_pile_up() {
        let mut arena = Arena::passing();
        for megabytes in [100, 110, 120, 120, 120] {
            let size = megabytes << 20;
            let piece = arena.take(size).unwrap();
            assert_eq!(arena.held, size);
            arena.give(piece, size);
            assert_eq!(arena.held, size);
        }
    }

    #[test]
    fn of_what_lasts_the_last_slab_is_kept_unless_it_is_large() {
        let mut arena = Arena::lasting();
        let pieces = [SLAB + LINE, LINE, SLAB].map(|size| (arena.take(size).unwrap(), size));
        // The second lies behind the first.
        assert_eq!(arena.held, 2 * SLAB + HUGE_PAGE);
        for (piece, size) in pieces {
            arena.give(piece, size);
        }
        assert_eq!((arena.held, arena.live), (SLAB, 0));
        let again = arena.take(LINE).unwrap();
        assert_eq!(arena.held, SLAB);
        arena.give(again, LINE);
        let large = arena.take(3 * SLAB).unwrap();
        arena.give(large, 3 * SLAB);
        assert_eq!((arena.held, arena.free.len()), (0, 0));
    }

    #[test]
    fn what_cannot_be_had_is_refused_and_the_rest_goes_on() {
        let mut arena = Arena::passing();
        let kept = arena.take(LINE).unwrap();
        for size in [1 << 60, isize::MAX as usize / LINE * LINE] {
            assert!(arena.take(size).is_none());
            assert_eq!((arena.held, arena.live), (SLAB, LINE));
        }
        let more = arena.take(LINE).unwrap();
        assert_ne!(kept, more);
        arena.give(kept, LINE);
        arena.give(more, LINE);
        assert_eq!(arena.live, 0);
    }

    /// Which pages the system was asked for, as Linux tells.
    #[cfg(target_os = "linux")]
    #[test]
    fn activations_lie_on_huge_pages_and_weights_on_small_ones() {
        let Ok(before) = std::fs::read_to_string("/proc/self/smaps") else {
            println!("skipped: this system does not tell");
            return;
        };
        if !before.contains("VmFlags:")
            || !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists()
        {
            println!("skipped: this system has no huge pages, or does not tell");
            return;
        }
        for (mut arena, flag) in [(Arena::passing(), " hg"), (Arena::lasting(), " nh")] {
            let piece = arena.take(LINE).unwrap();
            let mark = format!("{:x}-", piece.as_ptr() as usize);
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            // Advice makes a mapping of its own of the slab.
            let own = maps.split_once(&mark).expect("the slab's mapping").1;
            let flags = own.lines().find(|line| line.starts_with("VmFlags:"));
            assert!(flags.unwrap().contains(flag), "{flags:?}");
            arena.give(piece, LINE);
        }
    }

    /// Takes and gives pieces of many sizes in a mixed order; they must not overlap, and nothing may be lost.
    #[test]
    fn pieces_are_apart_and_join_again() {
        let mut arena = Arena::passing();
        let mut state = 12345u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
            (state >> 33) as usize % below
        };
        let mut taken: Vec<(NonNull<u8>, usize)> = Vec::new();
        for step in 0..4000 {
            if step < 2000 && random(5) > 1 || taken.is_empty() {
                let most = if random(50) == 0 { 1 << 20 } else { 5000 };
                let size = LINE * (1 + random(most));
                let piece = arena.take(size).unwrap();
                assert_eq!(piece.as_ptr() as usize % LINE, 0);
                let at = piece.as_ptr() as usize;
                for &(other, len) in &taken {
                    let other = other.as_ptr() as usize;
                    assert!(at + size <= other || other + len <= at);
                }
                taken.push((piece, size));
            } else {
                let (piece, size) = taken.swap_remove(random(taken.len()));
                arena.give(piece, size);
            }
            let free: usize = arena.free.values().sum();
            assert_eq!(free + arena.live, arena.held);
            assert_eq!(arena.free.len(), arena.by_size.len());
        }
        for (piece, size) in taken.drain(..) {
            arena.give(piece, size);
        }
        assert_eq!(arena.live, 0);
        assert_eq!(arena.free.len(), arena.slabs.len());
        assert!(arena.held <= arena.most_live / 4 * 5 + 2 * SLAB);

        let kept = arena.take(LINE).unwrap();
        arena.release();
        assert_eq!((arena.slabs.len(), arena.live), (1, LINE));
        arena.give(kept, LINE);
        arena.release();
        assert_eq!((arena.held, arena.free.len()), (0, 0));
    }
}
