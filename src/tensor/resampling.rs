//! Which source pixels an output pixel of a resize reads along one axis, and with which weights: in the arithmetic of the
//! originals, once for all devices.

/// Two neighbours and their weights for one output coordinate.
pub struct Neighbours {
    pub low: usize,
    pub high: usize,
    pub low_weight: f32,
    pub high_weight: f32,
}

/// Source coordinate `i · in/out` in f32.
pub fn tf1_neighbours(input: usize, output: usize) -> Vec<Neighbours> {
    let scale = input as f32 / output as f32;
    (0..output)
        .map(|i| {
            let at = i as f32 * scale;
            let low = (at.floor() as usize).min(input - 1);
            let fraction = at - low as f32;
            Neighbours {
                low,
                high: (low + 1).min(input - 1),
                low_weight: 1.0 - fraction,
                high_weight: fraction,
            }
        })
        .collect()
}

/// Source coordinate `(i + ½) · in/out − ½`, not below zero, in f32.
pub fn half_pixel_neighbours(input: usize, output: usize) -> Vec<Neighbours> {
    let scale = input as f32 / output as f32;
    (0..output)
        .map(|i| {
            let at = scale.mul_add(i as f32 + 0.5, -0.5).max(0.0);
            let low = (at as usize).min(input - 1);
            let fraction = (at - low as f32).clamp(0.0, 1.0);
            Neighbours {
                low,
                high: (low + 1).min(input - 1),
                low_weight: 1.0 - fraction,
                high_weight: fraction,
            }
        })
        .collect()
}

/// First source index and normalised triangle weights of one output coordinate.
pub struct Filter {
    pub first: usize,
    pub weights: Vec<f32>,
}

/// The triangle filter of each output coordinate, widened when shrinking.
pub fn triangle_filters(input: usize, output: usize) -> Vec<Filter> {
    let scale = input as f32 / output as f32;
    let support = scale.max(1.0);
    let inverse = if scale >= 1.0 { 1.0 / scale } else { 1.0 };
    (0..output)
        .map(|i| {
            let centre = scale * (i as f32 + 0.5);
            let first = ((centre - support + 0.5) as i64).max(0) as usize;
            let end = ((centre + support + 0.5) as usize).min(input);
            let mut weights: Vec<f32> = (first..end)
                .map(|j| (1.0 - ((j as f32 - centre + 0.5) * inverse).abs()).max(0.0))
                .collect();
            let total: f32 = weights.iter().sum();
            if total != 0.0 {
                weights.iter_mut().for_each(|w| *w /= total);
            }
            Filter { first, weights }
        })
        .collect()
}
