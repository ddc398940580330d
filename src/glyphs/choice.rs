//! The soft choice among embeddings: what makes a function of a point in embedding space out of a table of glyphs.
//!
//! The weight of entry `i` at point `z` is `wᵢ = softmaxᵢ(−‖z − eᵢ‖² / temperature)`. The square makes it smooth
//! everywhere, also on the embeddings themselves, where a plain distance has a kink. Up to a common term the exponent
//! is `(2 z·eᵢ − ‖eᵢ‖²) / temperature`, which keeps its digits far from all embeddings and has the gradient
//! `2 eᵢ / temperature`; so `Σ gᵢ dwᵢ/dz = (2 / temperature) Σ wᵢ (gᵢ − ḡ) eᵢ` with `ḡ = Σ wᵢ gᵢ`.

/// The temperature of the generator, at which every glyph of the program is itself on its own embedding (measured: off
/// by less than 0.3 grey levels of 255 in images of 64 pixels; at 0.06 it would be 2). Embeddings are [`super::embedding::SEPARATION`] = 0.75 apart or more, so that a neighbour gets
/// exp(−0.75² / 0.05) = 1.3e-5 there, and all neighbours together less than 1e-4 (`glyphs_are_themselves` below).
/// Smaller values leave no gradient on the embeddings, larger ones blur the glyphs.
pub const TEMPERATURE: f64 = 0.05;

/// The weights of all entries of a table at a point; they add up to 1.
pub fn soft_choice(table: &[[f32; 3]], point: [f32; 3], temperature: f64) -> Vec<f64> {
    let exponent = |entry: &[f32; 3]| {
        let terms = entry.iter().zip(point).map(|(&e, z)| {
            let (e, z) = (f64::from(e), f64::from(z));
            2.0 * z * e - e * e
        });
        terms.sum::<f64>() / temperature
    };
    let mut weights: Vec<f64> = table.iter().map(exponent).collect();
    let largest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for weight in &mut weights {
        *weight = (*weight - largest).exp();
        sum += *weight;
    }
    weights.iter_mut().for_each(|w| *w /= sum);
    weights
}

/// The entry nearest to a point, the first of equals: the oracle's answer. `None` if the table is empty.
pub fn nearest(table: &[[f32; 3]], point: [f32; 3]) -> Option<usize> {
    let squared = |entry: &[f32; 3]| -> f64 {
        let gaps = entry
            .iter()
            .zip(point)
            .map(|(&e, z)| f64::from(e) - f64::from(z));
        gaps.map(|gap| gap * gap).sum()
    };
    let distances = table.iter().map(squared).enumerate();
    distances
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(index, _)| index)
}

/// The gradient by the point, given the chosen entries as (entry, weight, gradient by its weight). The mean is taken
/// over these, so that entries left out for their small weight are missing and nothing else.
pub(super) fn gradient(
    table: &[[f32; 3]],
    chosen: impl Iterator<Item = (usize, f64, f64)> + Clone,
    temperature: f64,
) -> [f64; 3] {
    let mut sums = [0.0; 2];
    for (_, weight, by_weight) in chosen.clone() {
        sums[0] += weight;
        sums[1] += weight * by_weight;
    }
    let mean = sums[1] / sums[0];
    let mut gradient = [0.0; 3];
    for (entry, weight, by_weight) in chosen {
        let share = 2.0 / temperature * weight * (by_weight - mean);
        for (sum, &e) in gradient.iter_mut().zip(&table[entry]) {
            *sum += share * f64::from(e);
        }
    }
    gradient
}

#[cfg(test)]
mod tests {
    use super::super::{Atlas, Embeddings};
    use super::*;

    #[test]
    fn glyphs_are_themselves() {
        let embeddings = Embeddings::new(&Atlas::embedded().unwrap());
        for table in [&embeddings.characters, &embeddings.fonts] {
            for (i, &entry) in table.iter().enumerate() {
                let weights = soft_choice(table, entry, TEMPERATURE);
                assert!(1.0 - weights[i] < 1e-4, "{i}: {}", weights[i]);
                assert_eq!(nearest(table, entry), Some(i));
            }
        }
    }

    #[test]
    fn weights_follow_the_squared_distances_and_add_up_to_one() {
        let table = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]];
        let weights = soft_choice(&table, [0.25, 0.5, -1.0], 0.7);
        // Squared distances without the third coordinate, which is common to all.
        let plain = [0.3125, 0.8125, 2.3125].map(|d: f64| (-d / 0.7).exp());
        let sum: f64 = plain.iter().sum();
        for (got, expected) in weights.iter().zip(plain) {
            assert!((got - expected / sum).abs() < 1e-15, "{got}");
        }
    }

    #[test]
    fn far_from_all_embeddings_the_weights_are_still_a_choice() {
        let table = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]];
        for far in [1e6, 1e30, f32::MAX] {
            assert_eq!(soft_choice(&table, [far, 0.0, 0.0], 0.05), [0.0, 1.0]);
            assert_eq!(soft_choice(&table, [-far, 0.0, 0.0], 0.05), [1.0, 0.0]);
        }
        assert_eq!(nearest(&table, [9.0, 0.0, 0.0]), Some(1));
        assert_eq!(nearest(&table, [0.5, 0.0, 0.0]), Some(0));
        assert_eq!(nearest(&[], [0.0; 3]), None);
    }
}
