//! What the tile instructions do, written out in Rust: the products of AMX without AMX, for tests and for repeating
//! what was scored with `--fast` elsewhere.

use super::{DEPTH, SIDE, TILE, Tiles};

/// As aligned as what it stands for: its tiles are half words or f32.
#[repr(C, align(64))]
pub struct Written {
    tiles: [[u16; TILE]; 8],
}

/// A bf16 as f32.
#[inline(always)]
pub fn wide(value: u16) -> f32 {
    f32::from_bits(u32::from(value) << 16)
}

impl Tiles for Written {
    #[inline(always)]
    fn new() -> Self {
        Self {
            tiles: [[0; TILE]; 8],
        }
    }

    #[inline(always)]
    fn zero(&mut self, tile: usize) {
        self.tiles[tile].fill(0);
    }

    #[inline(always)]
    unsafe fn load(&mut self, tile: usize, from: *const u16, stride: usize) {
        for (row, to) in self.tiles[tile].chunks_exact_mut(DEPTH).enumerate() {
            // SAFETY: readable by the promise of the caller.
            to.copy_from_slice(unsafe {
                std::slice::from_raw_parts(from.add(row * stride), DEPTH)
            });
        }
    }

    /// Even and odd inputs are summed apart, from zero, by fused multiply-adds; then both sums are added to the tile.
    #[inline(always)]
    fn multiply(&mut self, to: usize, a: usize, b: usize) {
        let (a, b) = (self.tiles[a], self.tiles[b]);
        // The parts of a pair of inputs as f32: a row of 16 outputs for the even one and for the odd one.
        // Loops over places: builds without optimisation across units leave iterators of the standard library as calls.
        let mut rows = [[0.0f32; SIDE]; DEPTH];
        for k in 0..DEPTH / 2 {
            for n in 0..SIDE {
                rows[2 * k][n] = wide(b[k * DEPTH + 2 * n]);
                rows[2 * k + 1][n] = wide(b[k * DEPTH + 2 * n + 1]);
            }
        }
        let sums: &mut [f32] = bytemuck::cast_slice_mut(&mut self.tiles[to]);
        for row in 0..SIDE {
            let (mut even, mut odd) = ([0.0f32; SIDE], [0.0f32; SIDE]);
            for k in 0..DEPTH / 2 {
                let first = wide(a[row * DEPTH + 2 * k]);
                let second = wide(a[row * DEPTH + 2 * k + 1]);
                for n in 0..SIDE {
                    even[n] = first.mul_add(rows[2 * k][n], even[n]);
                    odd[n] = second.mul_add(rows[2 * k + 1][n], odd[n]);
                }
            }
            let sums = &mut sums[row * SIDE..][..SIDE];
            for n in 0..SIDE {
                sums[n] += even[n] + odd[n];
            }
        }
    }

    #[inline(always)]
    unsafe fn store(&self, tile: usize, to: *mut f32) {
        let values: &[f32] = bytemuck::cast_slice(&self.tiles[tile]);
        // SAFETY: writable by the promise of the caller.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, SIDE * SIDE) };
    }
}
