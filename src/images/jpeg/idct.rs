//! Dequantisation and the inverse 8x8 cosine transform, to the bit as libjpeg-turbo's
//! accurate integer one: the Loeffler-Ligtenberg-Moschytz factorisation with 13-bit
//! constants, columns first with 2 extra bits, then rows.
//!
//! Sound images stay far from the limits of 16 bits. For the others the arithmetic follows
//! libjpeg-turbo's vector code for x86, which is what Pillow runs: products with the
//! quantisation table and sums of two inputs wrap at 16 bits, results of a pass saturate.

/// Extra bits kept between the passes.
const EXTRA: u32 = 2;
/// Bits of the constants.
const BITS: u32 = 13;

/// Eight neighbouring values.
type Row = [i16; 8];

/// The constant `x`, rounded to [`BITS`] bits.
const fn fixed(x: f64) -> i16 {
    (x * (1 << BITS) as f64 + 0.5) as i16
}

const C0_298: i16 = fixed(0.298_631_336);
const C0_390: i16 = fixed(0.390_180_644);
const C0_541: i16 = fixed(0.541_196_100);
const C0_765: i16 = fixed(0.765_366_865);
const C0_899: i16 = fixed(0.899_976_223);
const C1_175: i16 = fixed(1.175_875_602);
const C1_501: i16 = fixed(1.501_321_110);
const C1_847: i16 = fixed(1.847_759_065);
const C1_961: i16 = fixed(1.961_570_560);
const C2_053: i16 = fixed(2.053_119_869);
const C2_562: i16 = fixed(2.562_915_447);
const C3_072: i16 = fixed(3.072_711_026);

/// `a * x + b * y`.
#[inline(always)]
fn dot(a: i16, x: i16, b: i16, y: i16) -> i32 {
    (i32::from(a) * i32::from(x)).wrapping_add(i32::from(b) * i32::from(y))
}

/// One pass: the transform of the eight columns of `rows`, rounded to `SHIFT` bits less.
#[inline(always)]
fn pass<const SHIFT: u32>(rows: &[Row; 8]) -> [Row; 8] {
    let mut out = [[0; 8]; 8];
    for i in 0..8 {
        let [x0, x1, x2, x3, x4, x5, x6, x7] = [
            rows[0][i], rows[1][i], rows[2][i], rows[3][i], rows[4][i], rows[5][i], rows[6][i],
            rows[7][i],
        ];
        // Even half.
        let sum = i32::from(x0.wrapping_add(x4)) << BITS;
        let difference = i32::from(x0.wrapping_sub(x4)) << BITS;
        let turn_a = dot(C0_541 + C0_765, x2, C0_541, x6);
        let turn_b = dot(C0_541, x2, C0_541 - C1_847, x6);
        let even = [
            sum.wrapping_add(turn_a),
            difference.wrapping_add(turn_b),
            difference.wrapping_sub(turn_b),
            sum.wrapping_sub(turn_a),
        ];
        // Odd half.
        let z3 = x7.wrapping_add(x3);
        let z4 = x5.wrapping_add(x1);
        let mix_a = dot(C1_175 - C1_961, z3, C1_175, z4);
        let mix_b = dot(C1_175, z3, C1_175 - C0_390, z4);
        let odd = [
            dot(C1_501 - C0_899, x1, -C0_899, x7).wrapping_add(mix_b),
            dot(C3_072 - C2_562, x3, -C2_562, x5).wrapping_add(mix_a),
            dot(C2_053 - C2_562, x5, -C2_562, x3).wrapping_add(mix_b),
            dot(C0_298 - C0_899, x7, -C0_899, x1).wrapping_add(mix_a),
        ];
        for k in 0..4 {
            out[k][i] = round::<SHIFT>(even[k].wrapping_add(odd[k]));
            out[7 - k][i] = round::<SHIFT>(even[k].wrapping_sub(odd[k]));
        }
    }
    out
}

/// `x` with `SHIFT` bits less, rounded, saturated to 16 bits.
#[inline(always)]
fn round<const SHIFT: u32>(x: i32) -> i16 {
    let shifted = x.wrapping_add(1 << (SHIFT - 1)) >> SHIFT;
    shifted.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
}

/// Rows turned into columns.
#[inline(always)]
fn transpose(rows: &[Row; 8]) -> [Row; 8] {
    let mut out = [[0; 8]; 8];
    for (y, row) in rows.iter().enumerate() {
        for (x, &value) in row.iter().enumerate() {
            out[x][y] = value;
        }
    }
    out
}

/// A transformed value as a sample.
#[inline(always)]
fn sample(x: i16) -> u8 {
    (x.clamp(-128, 127) + 128) as u8
}

/// Writes the 8x8 samples of the block `coefficients`, quantised by `quant` (both row by
/// row), to the start of `out`, whose rows are `stride` apart.
pub fn block(coefficients: &[i16; 64], quant: &[i16; 64], out: &mut [u8], stride: usize) {
    let mut rows = [[0; 8]; 8];
    for (row, (c, q)) in rows.iter_mut().zip(
        coefficients
            .as_chunks::<8>()
            .0
            .iter()
            .zip(quant.as_chunks::<8>().0),
    ) {
        for i in 0..8 {
            row[i] = c[i].wrapping_mul(q[i]);
        }
    }
    let flat = coefficients[8..].iter().fold(0, |all, &c| all | c) == 0;
    let middle = if flat {
        [rows[0].map(|x| x.wrapping_shl(EXTRA)); 8]
    } else {
        pass::<{ BITS - EXTRA }>(&rows)
    };
    let done = transpose(&pass::<{ BITS + EXTRA + 3 }>(&transpose(&middle)));
    for (row, values) in out.chunks_mut(stride).zip(&done) {
        if let Some(place) = row.first_chunk_mut::<8>() {
            *place = values.map(sample);
        }
    }
}

/// Writes the 8x8 samples of a block that has only the coefficient `dc`, quantised by
/// `quant`, to the start of `out`, whose rows are `stride` apart.
pub fn flat_block(dc: i16, quant: i16, out: &mut [u8], stride: usize) {
    let middle = dc.wrapping_mul(quant).wrapping_shl(EXTRA);
    let value = sample(round::<{ EXTRA + 3 }>(i32::from(middle)));
    for row in out.chunks_mut(stride).take(8) {
        if let Some(place) = row.first_chunk_mut::<8>() {
            *place = [value; 8];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    /// The samples of a block by the definition of the transform.
    fn by_definition(coefficients: &[i16; 64], quant: &[i16; 64]) -> [f64; 64] {
        let scale = |k: usize| if k == 0 { 0.5_f64.sqrt() } else { 1.0 };
        let wave =
            |k: usize, n: usize| scale(k) * (PI * (2 * n + 1) as f64 * k as f64 / 16.0).cos();
        std::array::from_fn(|i| {
            let sum: f64 = (0..64)
                .map(|k| {
                    let value = f64::from(coefficients[k]) * f64::from(quant[k]);
                    value * wave(k % 8, i % 8) * wave(k / 8, i / 8)
                })
                .sum();
            (sum / 4.0 + 128.0).clamp(0.0, 255.0)
        })
    }

    #[test]
    fn close_to_the_definition() {
        let mut state = 1_u32;
        let mut random = |n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % n
        };
        for round in 0..200 {
            let quant: [i16; 64] = std::array::from_fn(|_| 1 + random(20) as i16);
            let mut coefficients = [0; 64];
            for _ in 0..round % 20 {
                coefficients[random(64) as usize] = random(41) as i16 - 20;
            }
            let mut out = [0; 64];
            block(&coefficients, &quant, &mut out, 8);
            for (found, expected) in out.iter().zip(by_definition(&coefficients, &quant)) {
                assert!((f64::from(*found) - expected).abs() < 1.0, "round {round}");
            }
        }
    }

    #[test]
    fn flat_block_is_a_block() {
        for dc in -2100..2100 {
            let mut coefficients = [0; 64];
            coefficients[0] = dc;
            let (mut whole, mut flat) = ([0; 64], [1; 64]);
            block(&coefficients, &[7; 64], &mut whole, 8);
            flat_block(dc, 7, &mut flat, 8);
            assert_eq!(whole, flat, "{dc}");
        }
    }
}
