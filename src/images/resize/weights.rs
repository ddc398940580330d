//! How much each source pixel counts for each target pixel along one direction.

use super::filter::Kernel;
use crate::tensor::FixedTaps;

/// Bits after the point.
pub const PRECISION: u32 = crate::tensor::FIXED_BITS;

/// Weights for all target pixels of one direction.
pub struct Weights {
    /// Number of weights kept for each target pixel.
    stride: usize,
    /// First source pixel and number of source pixels for each target pixel.
    spans: Vec<(usize, usize)>,
    values: Vec<i32>,
}

impl Weights {
    /// Weights for going from `source` pixels to `target` pixels.
    pub fn new(source: usize, target: usize, kernel: Kernel) -> Self {
        let scale = source as f64 / target as f64;
        let widening = scale.max(1.0);
        let support = kernel.support * widening;
        let stride = support.ceil() as usize * 2 + 1;
        let mut spans = Vec::with_capacity(target);
        let mut values = vec![0; target * stride];
        let mut exact = vec![0.0; stride];
        for (i, values) in values.chunks_exact_mut(stride).enumerate() {
            let centre = (i as f64 + 0.5) * scale;
            // Casts to integers clip at zero and cut the fraction, as in Pillow.
            let first = (centre - support + 0.5) as usize;
            let end = ((centre + support + 0.5) as usize).min(source);
            let count = end - first;
            let exact = &mut exact[..count];
            for (k, weight) in exact.iter_mut().enumerate() {
                let distance = (k + first) as f64 - centre + 0.5;
                *weight = (kernel.weight)(distance * (1.0 / widening));
            }
            let sum: f64 = exact.iter().sum();
            for (value, weight) in values.iter_mut().zip(exact.iter()) {
                let weight = if sum == 0.0 { *weight } else { *weight / sum };
                *value = fixed(weight);
            }
            spans.push((first, count));
        }
        Self {
            stride,
            spans,
            values,
        }
    }

    /// The same for a device.
    pub fn taps(&self) -> Vec<FixedTaps> {
        let all = (0..self.spans.len()).map(|i| self.of(i));
        let taps = all.map(|(first, weights)| FixedTaps {
            first,
            weights: weights.to_vec(),
        });
        taps.collect()
    }

    /// First source pixel of target pixel `i`, and the weights from there on.
    pub fn of(&self, i: usize) -> (usize, &[i32]) {
        let (first, count) = self.spans[i];
        (first, &self.values[i * self.stride..][..count])
    }
}

/// `weight` in fixed point, rounded half away from zero.
fn fixed(weight: f64) -> i32 {
    let scaled = weight * f64::from(1 << PRECISION);
    (scaled + if weight < 0.0 { -0.5 } else { 0.5 }) as i32
}
