//! How much explanations change each attribute (\[bex\] Figure 3).

use serde::Serialize;

use super::{Explanations, Latent};
use crate::metrics::Result;

/// Attributes and the numbers of a latent that belong to each.
pub const ATTRIBUTES: [(&str, std::ops::Range<usize>); 7] = [
    ("character", 0..3),
    ("font", 3..6),
    ("inverse", 6..7),
    ("scale", 7..8),
    ("x", 8..9),
    ("y", 9..10),
    ("rotation", 10..11),
];

/// Mean absolute change of an attribute's numbers, in standard deviations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub attribute: &'static str,
    pub change: f64,
}

/// Mean change of each attribute over all counterfactuals.
pub fn profile(given: &Explanations<'_>) -> Result<Vec<Change>> {
    let n = given.per_sample()?;
    let means = ATTRIBUTES.map(|(attribute, range)| {
        let of = |(i, z_cf): (usize, &Latent)| -> f64 {
            let z = &given.z[i / n];
            let sum: f64 = { range.clone() }
                .map(|k| (f64::from(z_cf[k]) - f64::from(z[k])).abs())
                .sum();
            sum / range.len() as f64
        };
        let sum: f64 = given.z_cf.iter().enumerate().map(of).sum();
        Change {
            attribute,
            change: sum / given.z_cf.len().max(1) as f64,
        }
    });
    Ok(means.into())
}

/// The attribute that was changed most, in standard deviations; `None` if nothing was.
pub fn most_changed(z: &Latent, z_cf: &Latent) -> Option<&'static str> {
    let mut best = (0.0, None);
    for (attribute, range) in ATTRIBUTES {
        let sum: f64 = { range.clone() }
            .map(|k| (f64::from(z_cf[k]) - f64::from(z[k])).abs())
            .sum();
        let change = sum / range.len() as f64;
        if change > best.0 {
            best = (change, Some(attribute));
        }
    }
    best.1
}
