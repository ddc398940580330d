//! The micro-kernel of all dense products: a tile of neighbouring pixels × two registers of output channels stays in
//! registers while it walks its inputs.
//!
//! Every output value is summed in the order of its taps, whatever the tile it falls in: results do not depend on how
//! the work was cut.

use std::mem::MaybeUninit;

use super::functions::activated;
use super::simd::{Lanes, Plain, prefetch};
use crate::Activation;

/// A run of input values that lie side by side: where it starts below a window, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub at: usize,
    pub len: usize,
}

/// Values of a cache line.
const LINE: usize = 16;

/// Most channels of a block: two AVX-512 registers.
pub const WIDEST: usize = 32;

/// One tile: its input, its weights, and what becomes of its sums.
#[derive(Clone, Copy)]
pub struct Tile<'a> {
    /// First input value of the first pixel, and the distance between pixels.
    pub x: *const f32,
    pub pixel: usize,
    /// Which inputs to multiply, in order, with `weights`: one block of channels for each.
    pub runs: &'a [Run],
    pub weights: *const f32,
    /// Where the sums begin.
    pub start: Start,
    pub end: End,
    /// What will be multiplied next, to be fetched meanwhile.
    pub next: Ahead,
}

/// Memory that will be read soon: some cache lines from an address on.
#[derive(Clone, Copy)]
pub struct Ahead {
    pub from: *const f32,
    pub lines: usize,
}

impl Ahead {
    pub const NOTHING: Self = Self {
        from: std::ptr::null(),
        lines: 0,
    };

    /// Share `index` of `shares` of `values` from an address on.
    pub fn share(from: *const f32, values: usize, index: usize, shares: usize) -> Self {
        let lines = values.div_ceil(LINE);
        let each = lines.div_ceil(shares.max(1));
        let first = (index * each).min(lines);
        Self {
            from: from.wrapping_add(first * LINE),
            lines: each.min(lines - first),
        }
    }

    /// Fetches it now.
    #[inline(always)]
    pub fn fetch(self) {
        for line in 0..self.lines {
            prefetch(self.from.wrapping_add(line * LINE));
        }
    }

    /// Where to begin and how many bytes to go on with each of `steps`, so that all lines are fetched on the way: in one
    /// go they would fill the queue of misses, and the products wait behind it. Those that are too many are fetched
    /// here. `near` is fetched where there is nothing to fetch.
    #[inline(always)]
    fn paced(self, steps: usize, near: *const f32) -> (*const f32, usize) {
        if self.lines == 0 || steps == 0 {
            return (near, 0);
        }
        let at_once = self.lines.saturating_sub(steps);
        let now = Self {
            lines: at_once,
            ..self
        };
        now.fetch();
        let bytes = (self.lines - at_once) * LINE * size_of::<f32>();
        (
            self.from.wrapping_add(at_once * LINE),
            bytes.div_ceil(steps),
        )
    }
}

/// What the sums of a tile begin with.
#[derive(Clone, Copy)]
pub enum Start {
    Zero,
    /// One block of biases.
    Bias(*const f32),
    /// Sums of an earlier part: blocks of channels, pixel after pixel.
    Sums(*const f32),
}

/// Where the sums of a tile go.
#[derive(Clone, Copy)]
pub enum End {
    /// To blocks of channels at this distance, as they are.
    Sums(*mut f32, usize),
    /// To their place in the output.
    Output(Place),
}

/// A block of output channels at the first pixel of a tile.
#[derive(Clone, Copy)]
pub struct Place {
    pub to: *mut f32,
    /// Distance between pixels in the output.
    pub pixel: usize,
    /// Added before the activation; null if there is none.
    pub residual: *const f32,
    pub residual_pixel: usize,
    /// Channels of the block that exist.
    pub channels: usize,
    pub activation: Activation,
}

/// [`Lanes`] with its kernels: compiled once for each instruction set, however many places call them.
pub trait Kernels: Lanes {
    /// Computes a tile of `pixels` (at most `PIXELS`).
    ///
    /// # Safety
    /// Every pointer of the tile must be valid for what the tile reads and writes there.
    unsafe fn run(tile: &Tile<'_>, pixels: usize);

    /// Finishes the sums of some pixels, which lie side by side at `from`, and writes them to their place.
    ///
    /// # Safety
    /// `from` must be valid for a block of channels for each pixel, `place` for its `channels` there.
    unsafe fn finish(place: &Place, from: *const f32, pixels: usize);
}

macro_rules! kernels {
    ($lanes:ty $(, $features:literal)?) => {
        impl Kernels for $lanes {
            unsafe fn run(tile: &Tile<'_>, pixels: usize) {
                $(#[target_feature(enable = $features)])?
                #[inline(never)]
                unsafe fn compiled(tile: &Tile<'_>, pixels: usize) {
                    // SAFETY: as promised by the caller.
                    unsafe { some_pixels::<$lanes>(tile, pixels) }
                }
                // SAFETY: as promised by the caller; the type is only used where its instruction set was detected.
                unsafe { compiled(tile, pixels) }
            }

            unsafe fn finish(place: &Place, from: *const f32, pixels: usize) {
                $(#[target_feature(enable = $features)])?
                #[inline(never)]
                unsafe fn compiled(place: &Place, from: *const f32, pixels: usize) {
                    for p in 0..pixels {
                        // SAFETY: as promised by the caller.
                        unsafe {
                            let from = from.add(p * 2 * <$lanes>::COUNT);
                            place.write::<$lanes>(
                                p,
                                [Lanes::load(from), Lanes::load(from.add(<$lanes>::COUNT))],
                            );
                        }
                    }
                }
                // SAFETY: as above.
                unsafe { compiled(place, from, pixels) }
            }
        }
    };
}

kernels!(Plain);
#[cfg(target_arch = "x86_64")]
kernels!(super::simd::Avx, "avx2,fma");
#[cfg(target_arch = "x86_64")]
kernels!(
    super::simd::Avx512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"
);

#[inline(always)]
unsafe fn some_pixels<V: Kernels>(tile: &Tile<'_>, pixels: usize) {
    // SAFETY: as promised by the caller.
    unsafe {
        match pixels {
            6 => sums::<V, 6>(tile),
            5 => sums::<V, 5>(tile),
            4 => sums::<V, 4>(tile),
            3 => sums::<V, 3>(tile),
            2 => sums::<V, 2>(tile),
            1 => sums::<V, 1>(tile),
            _ if V::PIXELS < 12 => unreachable!("tiles have at most {} pixels", V::PIXELS),
            12 => sums::<V, 12>(tile),
            11 => sums::<V, 11>(tile),
            10 => sums::<V, 10>(tile),
            9 => sums::<V, 9>(tile),
            8 => sums::<V, 8>(tile),
            7 => sums::<V, 7>(tile),
            _ => unreachable!("tiles have 1 to {} pixels", V::PIXELS),
        }
    }
}

#[inline(always)]
unsafe fn sums<V: Kernels, const P: usize>(tile: &Tile<'_>) {
    let n = V::COUNT;
    // SAFETY: as promised by the caller of `run`.
    unsafe {
        // Plain loops throughout: closures over registers are not always inlined into their instruction set.
        let mut acc = [[V::splat(0.0); 2]; P];
        match tile.start {
            Start::Zero => {}
            Start::Bias(bias) => acc = [[V::load(bias), V::load(bias.add(n))]; P],
            Start::Sums(from) => {
                for (p, acc) in acc.iter_mut().enumerate() {
                    let from = from.add(p * 2 * n);
                    *acc = [V::load(from), V::load(from.add(n))];
                }
            }
        }
        // These lines would otherwise be waited for one by one.
        if let End::Output(place) = tile.end {
            for p in 0..P {
                prefetch(place.to.wrapping_add(p * place.pixel));
            }
            if !place.residual.is_null() {
                for p in 0..P {
                    prefetch(place.residual.wrapping_add(p * place.residual_pixel));
                }
            }
        }
        let steps: usize = tile.runs.iter().map(|run| run.len).sum();
        let (mut ahead, stride) = tile.next.paced(steps, tile.weights);
        let mut weights = tile.weights;
        for run in tile.runs {
            let mut x = tile.x.add(run.at);
            let end = x.add(run.len);
            while x < end {
                let (w0, w1) = (V::load(weights), V::load(weights.add(n)));
                prefetch(ahead);
                ahead = ahead.wrapping_byte_add(stride);
                for (p, acc) in acc.iter_mut().enumerate() {
                    let x = V::splat(*x.add(p * tile.pixel));
                    acc[0] = acc[0].plus_product(x, w0);
                    acc[1] = acc[1].plus_product(x, w1);
                }
                weights = weights.add(2 * n);
                x = x.add(1);
            }
        }
        if let End::Output(place) = tile.end
            && place.channels == 2 * n
            && let Some(least) = place.least()
        {
            place.write_all::<V, P>(&acc, V::splat(least));
            return;
        }
        let mut left = MaybeUninit::<[[f32; WIDEST]; P]>::uninit();
        let (to, pixel) = match tile.end {
            End::Sums(to, pixel) => (to, pixel),
            End::Output(_) => (left.as_mut_ptr().cast::<f32>(), 2 * n),
        };
        for (p, acc) in acc.iter().enumerate() {
            acc[0].store(to.add(p * pixel));
            acc[1].store(to.add(p * pixel + n));
        }
        if let End::Output(place) = tile.end {
            V::finish(&place, to, P);
        }
    }
}

impl Place {
    /// What an activation that is only a lower bound has as its bound.
    #[inline(always)]
    fn least(&self) -> Option<f32> {
        match self.activation {
            Activation::None => Some(f32::NEG_INFINITY),
            Activation::Relu => Some(0.0),
            _ => None,
        }
    }

    /// Finishes whole blocks of channels from their registers: the usual case, without a way through memory.
    ///
    /// # Safety
    /// The pointers must be valid for a block of channels at each pixel.
    #[inline(always)]
    unsafe fn write_all<V: Lanes, const P: usize>(&self, sums: &[[V; 2]; P], least: V) {
        let n = V::COUNT;
        for (p, sums) in sums.iter().enumerate() {
            // SAFETY: as promised by the caller.
            unsafe {
                let to = self.to.add(p * self.pixel);
                let mut done = *sums;
                if !self.residual.is_null() {
                    let residual = self.residual.add(p * self.residual_pixel);
                    done[0] = done[0].plus(V::load(residual));
                    done[1] = done[1].plus(V::load(residual.add(n)));
                }
                done[0].at_least(least).store(to);
                done[1].at_least(least).store(to.add(n));
            }
        }
    }

    /// Finishes the sums of pixel `p` of the tile.
    ///
    /// # Safety
    /// The pointers must be valid for `channels` values at that pixel.
    #[inline(always)]
    pub unsafe fn write<V: Lanes>(&self, p: usize, mut sums: [V; 2]) {
        let n = V::COUNT;
        // SAFETY: as promised by the caller; `spare` holds the widest block.
        unsafe {
            let to = self.to.add(p * self.pixel);
            let residual = self.residual.wrapping_add(p * self.residual_pixel);
            if self.channels == 2 * n {
                if !self.residual.is_null() {
                    sums[0] = sums[0].plus(V::load(residual));
                    sums[1] = sums[1].plus(V::load(residual.add(n)));
                }
                activated(sums[0], self.activation).store(to);
                activated(sums[1], self.activation).store(to.add(n));
                return;
            }
            let mut spare = [0.0f32; WIDEST];
            if !self.residual.is_null() {
                std::ptr::copy_nonoverlapping(residual, spare.as_mut_ptr(), self.channels);
            }
            for (half, sums) in sums.iter().enumerate() {
                let place = spare.as_mut_ptr().add(half * n);
                activated(sums.plus(V::load(place)), self.activation).store(place);
            }
            std::ptr::copy_nonoverlapping(spare.as_ptr(), to, self.channels);
        }
    }
}

/// Cuts runs into chunks of at most about `most` values, so that the weights of a chunk stay in the first cache.
/// Each chunk comes with the number of values before it.
pub fn chunks(runs: impl Iterator<Item = Run>, most: usize) -> Vec<(usize, Vec<Run>)> {
    let mut chunks: Vec<(usize, Vec<Run>)> = Vec::new();
    let (mut before, mut filled) = (0, most);
    for run in runs {
        let mut done = 0;
        while done < run.len {
            if filled >= most {
                chunks.push((before, Vec::new()));
                filled = 0;
            }
            // What is left is not cut into two if it is short.
            let left = run.len - done;
            let len = if left <= most - filled + most / 4 {
                left
            } else {
                most - filled
            };
            let part = Run {
                at: run.at + done,
                len,
            };
            if let Some((_, chunk)) = chunks.last_mut() {
                chunk.push(part);
            }
            (done, before, filled) = (done + len, before + len, filled + len);
        }
    }
    chunks
}

/// Cuts `width` pixels into tiles of nearly equal size: the pixels of tile `index` of `tiles`, first and count.
#[inline(always)]
pub fn cut(width: usize, tiles: usize, index: usize) -> (usize, usize) {
    let (size, more) = (width / tiles, width % tiles);
    let first = index * size + index.min(more);
    (first, size + usize::from(index < more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_keep_every_value_in_order() {
        let runs = [(0, 100), (1000, 300), (2000, 5), (3000, 700)];
        let runs = runs.map(|(at, len)| Run { at, len });
        for most in [1, 7, 64, 256, 5000] {
            let chunks = chunks(runs.into_iter(), most);
            let list = |runs: &[Run]| -> Vec<usize> {
                runs.iter().flat_map(|r| r.at..r.at + r.len).collect()
            };
            let mut seen = Vec::new();
            for (before, chunk) in &chunks {
                assert_eq!(*before, seen.len());
                seen.extend(list(chunk));
            }
            assert_eq!(seen, list(&runs));
        }
    }

    #[test]
    fn a_cut_covers_the_row() {
        for width in 1..40usize {
            let tiles = width.div_ceil(6);
            let mut next = 0;
            for i in 0..tiles {
                let (first, count) = cut(width, tiles, i);
                assert!(first == next && (1..=6).contains(&count));
                next += count;
            }
            assert_eq!(next, width);
        }
    }
}
