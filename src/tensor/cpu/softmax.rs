//! The softmax of rows of scores, register by register.

use super::functions::{exp, values};
use super::simd::Lanes;

/// Adds `bias` to the first `count` values of `row` and turns them into probabilities. The row must have room for
/// whole registers; what lies behind these is left alone.
#[inline(always)]
pub fn softmax<V: Lanes>(row: &mut [f32], count: usize, bias: Option<&[f32]>) {
    let n = V::COUNT;
    let len = count.next_multiple_of(n);
    let row = &mut row[..len];
    row[count..].fill(f32::NEG_INFINITY);
    if let Some(bias) = bias {
        for (s, b) in row[..count].iter_mut().zip(&bias[..count]) {
            *s += b;
        }
    }
    let start = row.as_mut_ptr();
    // SAFETY of all blocks below: `at` is a multiple of the register below the length of the row. (No closures over
    // registers here: they would be compiled without the instruction set.)
    let mut most = V::splat(f32::NEG_INFINITY);
    for at in (0..len).step_by(n) {
        most = most.at_least(unsafe { V::load(start.add(at)) });
    }
    let most = values(most)[..n]
        .iter()
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);

    let most = V::splat(most);
    let mut sum = V::splat(0.0);
    for at in (0..len).step_by(n) {
        let e = exp(unsafe { V::load(start.add(at)) }.minus(most));
        sum = sum.plus(e);
        unsafe { e.store(start.add(at)) };
    }
    let sum: f32 = values(sum)[..n].iter().sum();

    let scale = V::splat(1.0 / sum);
    for at in (0..len).step_by(n) {
        let p = unsafe { V::load(start.add(at)) }.times(scale);
        unsafe { p.store(start.add(at)) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::Plain;
    use super::*;

    #[test]
    fn probabilities_add_up_to_one() {
        let mut row = [1.0f32, 2.0, -3.0, 500.0, 501.0, 9.0, 9.0, 9.0];
        softmax::<Plain>(&mut row, 5, Some(&[0.0, 0.0, 0.0, 0.5, 0.0]));
        let e = (-0.5f32).exp();
        for (got, expected) in row
            .iter()
            .zip([0.0, 0.0, 0.0, e / (1.0 + e), 1.0 / (1.0 + e)])
        {
            assert!((got - expected).abs() < 1e-7);
        }
        assert_eq!(row[5..], [0.0; 3]);
    }

    #[test]
    fn a_nan_spoils_its_row() {
        let mut row = [1.0f32, f32::NAN, 0.0, 2.0];
        softmax::<Plain>(&mut row, 3, None);
        assert!(row[..3].iter().all(|v| v.is_nan()));
    }
}
