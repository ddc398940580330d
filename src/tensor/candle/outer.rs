//! Sums of outer products over rows, by registers: what gradients of weights are. Both matrices are read row by row as
//! they lie, so nothing is packed.

use super::matmul::Matrix;
use crate::cpu::simd::{Lanes, for_each_lanes};

/// Rows whose products are summed in registers before they are added to the result: so many of `a`, and of a strip of
/// `b`, stay in the second cache.
const RUN: usize = 256;
/// Columns of `b` must be a multiple of this.
pub const COLUMNS: usize = 16;

for_each_lanes! {
    /// `out[i][j] += Σ_p a[p][i] · b[p][j]`; the rows of `out` are as long as those of `b`, a multiple of [`COLUMNS`],
    /// and both matrices have their columns side by side.
    pub fn outer(out: &mut [f32], a: Matrix<'_>, b: Matrix<'_>) => outer_kernel
}

#[inline(always)]
fn outer_kernel<V: Lanes>(out: &mut [f32], a: Matrix<'_>, b: Matrix<'_>) {
    assert!(
        a.rows == b.rows && b.columns.is_multiple_of(COLUMNS),
        "shapes"
    );
    assert!(a.column_stride == 1 && b.column_stride == 1 && a.fits() && b.fits());
    assert_eq!(out.len(), a.columns * b.columns);
    for from in (0..a.rows).step_by(RUN) {
        let rows = from..a.rows.min(from + RUN);
        for j in (0..b.columns).step_by(2 * V::COUNT) {
            let two = j + V::COUNT < b.columns;
            let mut i = 0;
            while i < a.columns {
                let left = a.columns - i;
                let tile = Tile {
                    a: &a,
                    b: &b,
                    rows: rows.clone(),
                    i,
                    j,
                };
                // SAFETY: the asserts keep every row and column of the tile within its matrix.
                i += unsafe {
                    match (left, V::PIXELS) {
                        (12.., 12..) => tile.add::<V, 12>(out, two),
                        (8.., 12..) => tile.add::<V, 8>(out, two),
                        (6.., _) => tile.add::<V, 6>(out, two),
                        (4.., _) => tile.add::<V, 4>(out, two),
                        _ => tile.add::<V, 1>(out, two),
                    }
                };
            }
        }
    }
}

/// Part of the sum: some rows, columns from `i` of `a` and from `j` of `b`.
struct Tile<'t, 'm> {
    a: &'t Matrix<'m>,
    b: &'t Matrix<'m>,
    rows: std::ops::Range<usize>,
    i: usize,
    j: usize,
}

impl Tile<'_, '_> {
    /// Adds `I` columns of `a` times one or two registers of `b`; returns `I`.
    ///
    /// # Safety
    /// The rows, `I` columns from `i` and the registers from `j` must lie within the matrices, and `out` must hold
    /// `a.columns × b.columns` values.
    #[inline(always)]
    unsafe fn add<V: Lanes, const I: usize>(&self, out: &mut [f32], two: bool) -> usize {
        // SAFETY: as the caller promises.
        unsafe {
            match two {
                true => self.sums::<V, I, 2>(out),
                false => self.sums::<V, I, 1>(out),
            }
        }
        I
    }

    /// # Safety
    /// As of `add`.
    #[inline(always)]
    unsafe fn sums<V: Lanes, const I: usize, const J: usize>(&self, out: &mut [f32]) {
        let mut sums = [[V::splat(0.0); J]; I];
        // SAFETY: as the caller promises.
        unsafe {
            for p in self.rows.clone() {
                let a = self.a.data.as_ptr().add(p * self.a.row_stride + self.i);
                let b = self.b.data.as_ptr().add(p * self.b.row_stride + self.j);
                let mut strip = [V::splat(0.0); J];
                for (k, to) in strip.iter_mut().enumerate() {
                    *to = V::load(b.add(k * V::COUNT));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let a = V::splat(*a.add(i));
                    for (k, sum) in sums.iter_mut().enumerate() {
                        *sum = sum.plus_product(a, strip[k]);
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                let to = (self.i + i) * self.b.columns + self.j;
                let to = out.as_mut_ptr().add(to);
                for (k, sum) in sums.iter().enumerate() {
                    let to = to.add(k * V::COUNT);
                    V::load(to).plus(*sum).store(to);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that every sum of 300 products holds exactly.
    fn small(rows: usize, stride: usize, seed: usize) -> Vec<f32> {
        (0..rows * stride)
            .map(|i| ((i * 7 + seed) % 11) as f32 - 5.0)
            .collect()
    }

    #[test]
    fn all_widths_give_the_plain_sums() {
        for (columns, wide) in [
            (1, 16),
            (3, 32),
            (4, 48),
            (7, 80),
            (13, 32),
            (32, 64),
            (47, 16),
        ] {
            // Other values in every row: the stride has no factor in common with their period.
            let (rows, stride) = (300, 101);
            let (a, b) = (small(rows, stride, 1), small(rows, stride, 2));
            let mut out = vec![1.0; columns * wide];
            outer(
                &mut out,
                Matrix::strided(&a, rows, columns, stride),
                Matrix::strided(&b, rows, wide, stride),
            );
            for (at, found) in out.iter().enumerate() {
                let (i, j) = (at / wide, at % wide);
                let sum: f32 = (0..rows)
                    .map(|p| a[p * stride + i] * b[p * stride + j])
                    .sum();
                assert_eq!(*found, 1.0 + sum, "{columns}x{wide}: {i}, {j}");
            }
        }
    }
}
