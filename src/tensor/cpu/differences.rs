//! Differences of rows from one origin, their lengths, and products of one with others: what cosines are made of.
//!
//! Sums run in sixteen lanes, which are added at the end, halves upon halves. Compiled for AVX-512, AVX2 with FMA, and any machine, which differ by
//! rounding.

use super::simd::{Lanes, for_each_lanes};

/// Lanes of a sum.
pub const LANES: usize = 16;

/// Differences of some rows, kept from origin to origin so that memory is not asked for again.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    /// Rows of whole lanes, the rest of the last ones zero.
    rows: Vec<[f32; LANES]>,
    /// Lanes of a row.
    lanes: usize,
    l1: Vec<f32>,
    squares: Vec<f32>,
}

impl Differences {
    /// Takes `rows`, as wide as `origin`, less the origin.
    pub fn take(&mut self, origin: &[f32], rows: &[f32]) {
        let count = rows.len() / origin.len().max(1);
        self.lanes = origin.len().div_ceil(LANES);
        self.rows.resize(count * self.lanes, [0.0; LANES]);
        self.l1.resize(count, 0.0);
        self.squares.resize(count, 0.0);
        take_rows(self, origin, rows);
    }

    /// Sums of the values' sizes, of each row.
    pub fn l1(&self) -> &[f32] {
        &self.l1
    }

    /// Sums of squares, of each row.
    pub fn squares(&self) -> &[f32] {
        &self.squares
    }

    /// Products of a row with others, in their order.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn products(&self, row: usize, others: &[usize], found: &mut Vec<f32>) {
        found.resize(others.len(), 0.0);
        products_with(self, row, others, found);
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &[[f32; LANES]] {
        &self.rows[row * self.lanes..][..self.lanes]
    }
}

for_each_lanes! {
    fn take_rows(to: &mut Differences, origin: &[f32], rows: &[f32]) => take
}

for_each_lanes! {
    fn products_with(of: &Differences, row: usize, others: &[usize], found: &mut [f32]) => products
}

/// Most registers that sixteen lanes are.
const REGISTERS: usize = 4;

/// The sum of the lanes that the first registers hold.
#[inline(always)]
fn join<V: Lanes>(mut sums: [V; REGISTERS]) -> f32 {
    let mut registers = LANES / V::COUNT;
    while registers > 1 {
        registers /= 2;
        for r in 0..registers {
            sums[r] = sums[r].plus(sums[r + registers]);
        }
    }
    sums[0].sum()
}

#[inline(always)]
fn take<V: Lanes>(to: &mut Differences, origin: &[f32], rows: &[f32]) {
    let (origins, rest) = origin.as_chunks::<LANES>();
    let last = padded(rest);
    let lengths = to.l1.iter_mut().zip(&mut to.squares);
    let kept = to.rows.chunks_exact_mut(to.lanes.max(1));
    for ((row, kept), (l1, squares)) in rows
        .chunks_exact(origin.len().max(1))
        .zip(kept)
        .zip(lengths)
    {
        let mut sums = [[V::splat(0.0); REGISTERS]; 2];
        let (values, rest) = row.as_chunks::<LANES>();
        for ((row, origin), kept) in values.iter().zip(origins).zip(&mut *kept) {
            less::<V>(row, origin, kept, &mut sums);
        }
        if !rest.is_empty() {
            less::<V>(&padded(rest), &last, &mut kept[values.len()], &mut sums);
        }
        *l1 = join(sums[0]);
        *squares = join(sums[1]);
    }
}

/// Less than sixteen values with zeros behind them.
#[inline(always)]
fn padded(rest: &[f32]) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    for (to, from) in all.iter_mut().zip(rest) {
        *to = *from;
    }
    all
}

/// Sixteen differences, whose sizes and squares are added.
#[inline(always)]
fn less<V: Lanes>(
    row: &[f32; LANES],
    origin: &[f32; LANES],
    kept: &mut [f32; LANES],
    sums: &mut [[V; REGISTERS]; 2],
) {
    let [sizes, squares] = sums;
    let registers = sizes.iter_mut().zip(squares).take(LANES / V::COUNT);
    for (r, (sizes, squares)) in registers.enumerate() {
        let at = r * V::COUNT;
        // SAFETY: registers divide sixteen lanes.
        let delta =
            unsafe { V::load(row.as_ptr().add(at)).minus(V::load(origin.as_ptr().add(at))) };
        *sizes = sizes.plus(delta.at_least(V::splat(0.0).minus(delta)));
        *squares = squares.plus_product(delta, delta);
        // SAFETY: as above.
        unsafe { delta.store(kept.as_mut_ptr().add(at)) };
    }
}

#[inline(always)]
fn products<V: Lanes>(of: &Differences, row: usize, others: &[usize], found: &mut [f32]) {
    let own = of.row(row);
    for (product, &other) in found.iter_mut().zip(others) {
        let mut sums = [V::splat(0.0); REGISTERS];
        for (a, b) in own.iter().zip(of.row(other)) {
            for (r, sum) in sums.iter_mut().enumerate().take(LANES / V::COUNT) {
                let at = r * V::COUNT;
                // SAFETY: registers divide sixteen lanes.
                let [a, b] = unsafe { [V::load(a.as_ptr().add(at)), V::load(b.as_ptr().add(at))] };
                *sum = sum.plus_product(a, b);
            }
        }
        *product = join(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::Plain;
    use super::*;

    /// Widths around whole lanes, with this machine's instructions and without any.
    #[test]
    fn lengths_and_products_are_those_of_f64() {
        for width in [1, 5, 15, 16, 17, 101] {
            let value = |i: usize| (i as f32 * 0.7).sin() * 2.0;
            let origin: Vec<f32> = (0..width).map(|i| value(i + 3)).collect();
            let rows: Vec<f32> = (0..7 * width).map(value).collect();
            let delta = |row: usize, k: usize| f64::from(rows[row * width + k] - origin[k]);
            let dot =
                |a: usize, b: usize| -> f64 { (0..width).map(|k| delta(a, k) * delta(b, k)).sum() };
            let others = [6, 0, 3, 3];
            let mut written = Differences::default();
            // What was there before must not show.
            written.take(&[0.0; 33], &[9.0; 33 * 9]);
            let mut plain = written.clone();
            written.take(&origin, &rows);
            plain.take(&origin, &rows);
            take::<Plain>(&mut plain, &origin, &rows);
            let (mut products_of, mut found) = (vec![0.0; others.len()], Vec::new());
            products::<Plain>(&plain, 2, &others, &mut products_of);
            written.products(2, &others, &mut found);
            for (kept, products) in [(&plain, &products_of), (&written, &found)] {
                assert_eq!((kept.l1().len(), kept.squares().len()), (7, 7));
                for row in 0..7 {
                    let l1: f64 = (0..width).map(|k| delta(row, k).abs()).sum();
                    let near = |got: f32, want: f64| {
                        let off = (f64::from(got) - want).abs();
                        assert!(off <= 1e-6 * (width as f64 + want.abs()), "{got} {want}");
                    };
                    near(kept.l1()[row], l1);
                    near(kept.squares()[row], dot(row, row));
                    let pairs = products.iter().zip(others);
                    pairs.for_each(|(&got, other)| near(got, dot(2, other)));
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_stays() {
        let mut kept = Differences::default();
        kept.take(&[0.0; 3], &[1.0, f32::NAN, 0.0, f32::INFINITY, 0.0, 0.0]);
        assert!(kept.squares()[0].is_nan());
        assert_eq!(kept.squares()[1], f32::INFINITY);
    }
}
