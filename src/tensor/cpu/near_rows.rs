//! How near the rows of a table are to a point, in double precision: exp(−c·(q − least q)) for quadratic forms q of their differences.
//!
//! Forms on several sets of columns share the products of differences, which are made once for each point. Sixteen rows are computed at once, one in each
//! lane, and the exponential is a polynomial that fills the lanes as well.

use super::relu_rows::{LANES, fused, on_each_machine};

type Block = [f64; LANES];

/// Products of the differences between rows and a point, of each pair of columns.
#[derive(Clone, Debug, Default)]
pub struct Products {
    pairs: usize,
    rows: usize,
    /// A block of rows after the other, a pair after the other in it.
    blocks: Vec<Block>,
}

/// The number of a pair of columns among all pairs; the order of the two does not matter.
pub fn pair(a: usize, b: usize) -> usize {
    let (low, high) = (a.min(b), a.max(b));
    high * (high + 1) / 2 + low
}

impl Products {
    /// Of row-major `rows`, as wide as `point`.
    pub fn of(rows: &[f64], point: &[f64]) -> Self {
        let d = point.len().max(1);
        let pairs = d * (d + 1) / 2;
        let mut blocks = vec![[0.0; LANES]; rows.len().div_ceil(d * LANES) * pairs];
        let mut apart = vec![[0.0; LANES]; d];
        for (rows, block) in rows.chunks(d * LANES).zip(blocks.chunks_exact_mut(pairs)) {
            for (lane, row) in rows.chunks_exact(d).enumerate() {
                for ((apart, value), own) in apart.iter_mut().zip(row).zip(point) {
                    apart[lane] = value - own;
                }
            }
            for high in 0..d {
                for low in 0..=high {
                    let product = &mut block[pair(low, high)];
                    for (lane, product) in product.iter_mut().enumerate() {
                        *product = apart[low][lane] * apart[high][lane];
                    }
                }
            }
        }
        Self {
            pairs,
            rows: rows.len() / d,
            blocks,
        }
    }

    /// q of each row: the sum of coefficients times products of pairs.
    pub fn forms(&self, terms: &[(usize, f64)], q: &mut Vec<f64>) {
        q.clear();
        for block in self.blocks.chunks_exact(self.pairs.max(1)) {
            q.extend(form(block, terms));
        }
        q.truncate(self.rows);
    }
}

/// Puts exp(−c·(q − least q)) in the place of each q: the nearest row has the weight 1, so that far points do not underflow to 0/0 in a
/// mean, from which the shift cancels.
pub fn nearness(q: &mut [f64], c: f64) {
    let least = q.iter().fold(f64::INFINITY, |m, &q| m.min(q));
    let mut chunks = q.chunks_exact_mut(LANES);
    let block = |values: &mut [f64]| {
        let mut lanes = [0.0; LANES];
        for (lane, q) in lanes.iter_mut().zip(&*values) {
            *lane = -c * (q - least);
        }
        let found = exponentials(&lanes);
        values.copy_from_slice(&found[..values.len()]);
    };
    (&mut chunks).for_each(block);
    block(chunks.into_remainder());
}

on_each_machine!(form, form_of, (block: &[Block], terms: &[(usize, f64)]) -> Block);
on_each_machine!(exponentials, exponentials_of, (values: &Block) -> Block);

#[inline(always)]
fn form_of<const FMA: bool>(block: &[Block], terms: &[(usize, f64)]) -> Block {
    let mut sum = [0.0; LANES];
    for &(pair, coefficient) in terms {
        let product = &block[pair];
        for lane in 0..LANES {
            sum[lane] = fused::<FMA>(coefficient, product[lane], sum[lane]);
        }
    }
    sum
}

/// Below this the exponential is nothing beside 1.
const LEAST: f64 = -700.0;
/// Adding it rounds to a whole number, which then stands in the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// eˣ for x ≤ 0: x = k ln 2 + r, |r| ≤ ln 2 / 2, and Taylor's polynomial of degree 13, whose error (4e-18) is below rounding.
#[inline(always)]
fn exponentials_of<const FMA: bool>(values: &Block) -> Block {
    let mut result = [0.0; LANES];
    for lane in 0..LANES {
        let x = values[lane];
        let inside = if x > LEAST { x } else { LEAST };
        let shifted = fused::<FMA>(inside, std::f64::consts::LOG2_E, ROUND);
        let k = shifted - ROUND;
        let r = fused::<FMA>(-k, LN_2[1], fused::<FMA>(-k, LN_2[0], inside));
        let mut sum = 1.0 / 6_227_020_800.0;
        for coefficient in [
            1.0 / 479_001_600.0,
            1.0 / 39_916_800.0,
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5_040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ] {
            sum = fused::<FMA>(sum, r, coefficient);
        }
        let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
        result[lane] = if x > LEAST { sum * power } else { 0.0 };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_those_of_the_library() {
        let mut x = 0.0;
        while x > -690.0 {
            let lanes: Block = std::array::from_fn(|lane| x - lane as f64 * 0.013);
            for (x, got) in lanes.iter().zip(exponentials(&lanes)) {
                let expected = x.exp();
                // Three roundings of the last digit.
                assert!((got - expected).abs() <= 7e-16 * expected, "{x}: {got}");
            }
            for (x, got) in lanes.iter().zip(exponentials_of::<false>(&lanes)) {
                // Without fused products the reduction of x rounds once more.
                assert!((got - x.exp()).abs() <= 2e-15 * x.exp(), "{x}: {got}");
            }
            x -= 0.37;
        }
        assert_eq!(exponentials(&[-701.0; LANES]), [0.0; LANES]);
        assert_eq!(exponentials(&[f64::NEG_INFINITY; LANES]), [0.0; LANES]);
        assert_eq!(exponentials(&[0.0; LANES]), [1.0; LANES]);
    }

    #[test]
    fn forms_are_those_of_the_rows_whatever_their_number() {
        let d = 3;
        let point = [0.3, -1.0, 0.7];
        for n in [1, 16, 37] {
            let rows: Vec<f64> = (0..n * d).map(|i| (i as f64 * 1.1).sin()).collect();
            let products = Products::of(&rows, &point);
            let terms = [(pair(0, 0), 2.0), (pair(2, 0), -0.4), (pair(2, 2), 1.5)];
            let mut q = Vec::new();
            products.forms(&terms, &mut q);
            assert_eq!(q.len(), n);
            let plain: Vec<f64> = rows
                .chunks_exact(d)
                .map(|row| {
                    let (a, c) = (row[0] - point[0], row[2] - point[2]);
                    2.0 * a * a - 0.4 * a * c + 1.5 * c * c
                })
                .collect();
            for (got, expected) in q.iter().zip(&plain) {
                assert!((got - expected).abs() < 1e-14);
            }
            nearness(&mut q, 3.0);
            let least = plain.iter().fold(f64::INFINITY, |m, &q| m.min(q));
            for (got, plain) in q.iter().zip(&plain) {
                let expected = (-3.0 * (plain - least)).exp();
                assert!((got - expected).abs() < 1e-13);
            }
        }
    }
}
