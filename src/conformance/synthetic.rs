//! Weights from an integer formula, so that golden data need not carry them.
//!
//! `seed` = 64-bit FNV-1a of `salt:name`; value `i` = `offset + (2k − 255)·scale`, rounded once to f32, with `k`
//! the top 8 bits of SplitMix64's output number `i + 1` from that seed.

use rayon::prelude::*;

use crate::tensor::Array;

/// One tensor of a weight table.
pub fn tensor(salt: &str, name: &str, shape: &[usize], offset: f64, scale: f64) -> Array {
    let seed = fnv1a(format!("{salt}:{name}").as_bytes());
    let len: usize = shape.iter().product();
    let mut data = vec![0.0f32; len];
    data.par_chunks_mut(1 << 16)
        .enumerate()
        .for_each(|(chunk, values)| {
            for (i, value) in values.iter_mut().enumerate() {
                let index = (chunk << 16) + i;
                let k = (splitmix(seed, index as u64) >> 56) as f64;
                *value = (offset + (2.0 * k - 255.0) * scale) as f32;
            }
        });
    Array {
        shape: shape.to_vec(),
        data,
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(14_695_981_039_346_656_037, |hash, &b| {
        (hash ^ u64::from(b)).wrapping_mul(1_099_511_628_211)
    })
}

fn splitmix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add((index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
