//! A counterfactual as a vector whose directions mean something (\[bex\] eq. 12 and 13).
//!
//! An embedding becomes the probabilities `softmaxᵢ(−‖c′ − wᵢ‖₂ / t)` of all characters (or typefaces), of which that of
//! the original is set to 0; the continuous numbers become their differences. From the probabilities those of the sample itself
//! are subtracted: eq. 13 alone would leave the softmax's tails there, the same for every counterfactual of a sample, which would
//! make font changes look alike for their untouched character, and a character touched by a hair a direction of its own.

use super::space::{Space, distance};
use super::{CONTINUOUS, LATENT, Latent};

/// t of eq. 12.
pub const TEMPERATURE: f64 = 0.33;

/// Length of a perturbation vector: 101 with 48 characters and 48 typefaces.
pub fn dimensions(space: &Space) -> usize {
    space.characters.len() + space.fonts.len() + LATENT - CONTINUOUS
}

/// The perturbation from `z` to `z_cf`, appended to `out`.
pub fn perturbation(space: &Space, z: &Latent, z_cf: &Latent, out: &mut Vec<f32>) {
    let own = space.nearest(z);
    for (table, first, own) in [(&space.characters, 0, own[0]), (&space.fonts, 3, own[1])] {
        let [before, after] =
            [z, z_cf].map(|z| softmax(table, &z[first..first + 3], 1.0 / TEMPERATURE));
        let change = after.iter().zip(before).map(|(a, b)| (a - b) as f32);
        out.extend(
            change
                .enumerate()
                .map(|(i, v)| if i == own { 0.0 } else { v }),
        );
    }
    out.extend((CONTINUOUS..LATENT).map(|k| z_cf[k] - z[k]));
}

/// `softmaxᵢ(−scale ‖point − wᵢ‖₂)`.
pub(super) fn softmax(table: &[[f32; 3]], point: &[f32], scale: f64) -> Vec<f64> {
    let mut weights: Vec<f64> = table.iter().map(|w| -scale * distance(w, point)).collect();
    let largest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    weights.iter_mut().for_each(|w| *w = (*w - largest).exp());
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w /= sum);
    weights
}
