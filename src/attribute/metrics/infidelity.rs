//! Infidelity ([xai-bench] section 3.2 after Yeh et al. 2019): E\[(Δf − β I·w)²\] over perturbations x − I, with the best scale β for the
//! weights, so that only their direction counts.
//!
//! `correct`: a random set of features is replaced by a noisy conditional expectation given the others. `as-released`: all features are replaced by
//! clip(−0.2 z, 0, 1), z standard normal, whatever the data are. Weights that are all zero explain nothing (β = 0); the released code divides 0 by 0, which scores do not repeat.

use crate::attribute::Variant;
use crate::attribute::data::{Features, Given};
use crate::attribute::subsets::{Subset, all, contains};
use crate::stats::random::Draws;

/// Standard deviation of the noise, over that of the feature.
const NOISE: f64 = 0.2;

/// Sums over perturbations that the value is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    pub count: f64,
    /// Σ Δf²
    pub change: f64,
    /// Σ Δf (I·w)
    pub both: f64,
    /// Σ (I·w)²
    pub along: f64,
}

impl Moments {
    pub fn add(&mut self, change: f64, along: f64) {
        self.count += 1.0;
        self.change += change * change;
        self.both += change * along;
        self.along += along * along;
    }

    pub fn minus(self, other: Self) -> Self {
        Self {
            count: self.count - other.count,
            change: self.change - other.change,
            both: self.both - other.both,
            along: self.along - other.along,
        }
    }

    /// E\[Δf²\] − E\[Δf (I·w)\]²/E\[(I·w)²\].
    pub fn infidelity(self, variant: Variant) -> f64 {
        let explained = match (self.along > 0.0, variant) {
            (true, _) => self.both * self.both / self.along,
            (false, Variant::Correct) => 0.0,
            (false, Variant::AsReleased) => return f64::NAN,
        };
        ((self.change - explained) / self.count).max(0.0)
    }
}

/// From changes of the prediction and perturbations, with the scale β found first, as the released code computes it.
pub fn infidelity_of(changes: &[f64], along: &[f64], variant: Variant) -> f64 {
    let mut moments = Moments::default();
    for (c, a) in changes.iter().zip(along) {
        moments.add(*c, *a);
    }
    if moments.along <= 0.0 {
        return moments.infidelity(variant);
    }
    let scale = moments.both / moments.along;
    let squares = changes
        .iter()
        .zip(along)
        .map(|(c, a)| (c - scale * a).powi(2));
    squares.sum::<f64>() / changes.len() as f64
}

/// A perturbed row as the released code makes it.
pub fn released_perturbation(draws: &mut Draws, out: &mut [f64]) {
    for value in out {
        *value = (-NOISE * draws.normal()).clamp(0.0, 1.0);
    }
}

/// Conditionals of all sets of features, for perturbations.
pub struct Replacements<'a> {
    features: &'a Features,
    independent: bool,
    deviations: Vec<f64>,
    kept: std::collections::HashMap<Subset, Given>,
}

impl<'a> Replacements<'a> {
    pub fn new(features: &'a Features, independent: bool) -> Self {
        let d = features.dimension();
        let spread = features.given(0, false).covariance(&vec![0.0; d]);
        Self {
            features,
            independent,
            deviations: (0..d).map(|j| spread[j * d + j].sqrt()).collect(),
            kept: Default::default(),
        }
    }
}

/// A perturbed row: each feature is replaced with probability ½ (at least one), by its expectation given the others plus noise of a fifth of
/// its standard deviation.
pub fn perturbation(
    replacements: &mut Replacements<'_>,
    x: &[f64],
    draws: &mut Draws,
    out: &mut [f64],
) {
    let d = x.len();
    let replaced = loop {
        let chosen = draws.next_u64() & all(d);
        if chosen != 0 {
            break chosen;
        }
    };
    let known = all(d) ^ replaced;
    let (features, independent) = (replacements.features, replacements.independent);
    let given = replacements
        .kept
        .entry(known)
        .or_insert_with(|| features.given(known, independent));
    out.copy_from_slice(&given.mean(x));
    for (j, value) in out.iter_mut().enumerate() {
        if contains(replaced, j) {
            *value += NOISE * replacements.deviations[j] * draws.normal();
        }
    }
}
