//! The space of standardised latents: its statistics, embeddings, the oracle, and how far is near.

use super::super::error::{MetricError, Result};
use super::{CONTINUOUS, LATENT, Latent};

/// Place of inverse colour, which is 0 or 1 before standardisation.
pub const INVERSE: usize = CONTINUOUS;

/// Largest L1 distances of a proximal change (\[bex\] A.3.2): of the character's and the typeface's embedding any two
/// entries may be exchanged, of the continuous numbers together 1 standard deviation may be spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Radii {
    pub character: f64,
    pub font: f64,
    pub continuous: f64,
}

/// Statistics of a world's latents.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// Of raw training latents.
    pub mean: Latent,
    /// Of raw training latents, with divisor n − 1; 1 where all are equal.
    pub std: Latent,
    /// Smallest and largest standardised values that the generator is shown.
    pub low: Latent,
    pub high: Latent,
    /// Standardised embeddings.
    pub characters: Vec<[f32; 3]>,
    pub fonts: Vec<[f32; 3]>,
    pub radii: Radii,
}

/// Statistics of raw latents: mean, and standard deviation with divisor n − 1 (1 where there is none).
pub fn moments(raw: &[Latent]) -> (Latent, Latent) {
    let n = raw.len() as f64;
    let column = |k: usize| raw.iter().map(move |z| f64::from(z[k]));
    let mean: [f64; LATENT] = std::array::from_fn(|k| column(k).sum::<f64>() / n.max(1.0));
    let std = std::array::from_fn(|k| {
        let squares: f64 = column(k).map(|v| (v - mean[k]).powi(2)).sum();
        let std = (squares / (n - 1.0).max(1.0)).sqrt();
        match std > 0.0 {
            true => std as f32,
            false => 1.0,
        }
    });
    (mean.map(|v| v as f32), std)
}

/// Smallest and largest values of latents.
pub fn limits(latents: &[Latent]) -> (Latent, Latent) {
    let fold = |start: f32, f: fn(f32, f32) -> f32| {
        std::array::from_fn(|k| latents.iter().fold(start, |m, z| f(m, z[k])))
    };
    (
        fold(f32::INFINITY, f32::min),
        fold(f32::NEG_INFINITY, f32::max),
    )
}

impl Space {
    /// From raw embeddings, statistics of raw latents, and limits of standardised ones.
    pub fn new(
        tables: [&[[f32; 3]]; 2],
        (mean, std): (Latent, Latent),
        (low, high): (Latent, Latent),
    ) -> Result<Self> {
        let whole = [mean, std, low, high]
            .as_flattened()
            .iter()
            .all(|v| v.is_finite());
        if !whole || std.iter().any(|&s| s <= 0.0) || (0..LATENT).any(|k| low[k] > high[k]) {
            return Err(MetricError::shape(
                "statistics of latents",
                "finite means, positive standard deviations, limits in order",
                format!("mean {mean:?}, std {std:?}, limits {low:?} to {high:?}"),
            ));
        }
        let standardised = |table: &[[f32; 3]], first: usize| -> Vec<[f32; 3]> {
            let row =
                |e: &[f32; 3]| std::array::from_fn(|k| (e[k] - mean[first + k]) / std[first + k]);
            table.iter().map(row).collect()
        };
        let (characters, fonts) = (standardised(tables[0], 0), standardised(tables[1], 3));
        for (what, table) in [("characters", &characters), ("typefaces", &fonts)] {
            if table.is_empty() || table.as_flattened().iter().any(|v| !v.is_finite()) {
                let found = format!("{} entries, or one that is not finite", table.len());
                return Err(MetricError::shape(
                    format!("embeddings of {what}"),
                    "finite ones",
                    found,
                ));
            }
        }
        let radii = Radii {
            character: widest(&characters),
            font: widest(&fonts),
            continuous: 1.0,
        };
        Ok(Self {
            mean,
            std,
            low,
            high,
            characters,
            fonts,
            radii,
        })
    }

    pub fn standardise(&self, raw: &Latent) -> Latent {
        std::array::from_fn(|k| (raw[k] - self.mean[k]) / self.std[k])
    }

    /// A standardised latent as its image has it: clipped, with the inverse colour that is drawn. Two latents that differ
    /// here in nothing have the same image.
    pub fn shown(&self, z: &Latent) -> Latent {
        std::array::from_fn(|k| match k {
            INVERSE => (self.raw(z)[k] - self.mean[k]) / self.std[k],
            _ => z[k].clamp(self.low[k], self.high[k]),
        })
    }

    /// What the generator is shown of a standardised latent: clipped, in its own units, inverse colour 0 or 1.
    pub fn raw(&self, z: &Latent) -> Latent {
        let mut raw: Latent = std::array::from_fn(|k| {
            // As `clamp`, which would look for limits out of order.
            let v = if z[k] < self.low[k] {
                self.low[k]
            } else {
                z[k]
            };
            let v = if v > self.high[k] { self.high[k] } else { v };
            v * self.std[k] + self.mean[k]
        });
        raw[INVERSE] = f32::from(u8::from(raw[INVERSE] >= 0.5));
        raw
    }

    /// The derivative of each number of [`Space::raw`]: nothing beyond the limits and of inverse colour, half on a limit, as
    /// PyTorch has it (embeddings that are limits lie there).
    pub fn slope(&self, z: &Latent) -> Latent {
        let mut slope: Latent = std::array::from_fn(|k| {
            let (low, high) = (self.low[k], self.high[k]);
            let not_beyond = if (z[k] >= low) & (z[k] <= high) {
                0.5
            } else {
                0.0
            };
            let within = if (z[k] > low) & (z[k] < high) {
                0.5
            } else {
                0.0
            };
            (not_beyond + within) * self.std[k]
        });
        slope[INVERSE] = 0.0;
        slope
    }

    /// Numbers of the nearest character and the nearest typeface, the first of equals.
    pub fn nearest(&self, z: &Latent) -> [usize; 2] {
        [
            nearest(&self.characters, &z[..3]),
            nearest(&self.fonts, &z[3..6]),
        ]
    }

    /// h_causal: the parity of the nearest character.
    pub fn oracle(&self, z: &Latent) -> usize {
        nearest(&self.characters, &z[..3]) % 2
    }

    /// L1 lengths of a change: of the character, of the typeface, of the continuous numbers.
    pub fn lengths(z: &Latent, z_cf: &Latent) -> [f64; 3] {
        let l1 = |range: std::ops::Range<usize>| -> f64 {
            range
                .map(|k| (f64::from(z_cf[k]) - f64::from(z[k])).abs())
                .sum()
        };
        [l1(0..3), l1(3..6), l1(6..LATENT)]
    }
}

pub(super) fn distance(entry: &[f32; 3], point: &[f32]) -> f64 {
    let squares = entry.iter().zip(point);
    squares
        .map(|(&e, &p)| (f64::from(e) - f64::from(p)).powi(2))
        .sum::<f64>()
        .sqrt()
}

fn nearest(table: &[[f32; 3]], point: &[f32]) -> usize {
    let mut best = (f64::INFINITY, 0);
    for (i, entry) in table.iter().enumerate() {
        let distance = distance(entry, point);
        if distance < best.0 {
            best = (distance, i);
        }
    }
    best.1
}

/// The largest L1 distance of two entries.
fn widest(table: &[[f32; 3]]) -> f64 {
    let l1 = |a: &[f32; 3], b: &[f32; 3]| -> f64 {
        let gaps = a.iter().zip(b);
        gaps.map(|(&a, &b)| (f64::from(a) - f64::from(b)).abs())
            .sum()
    };
    let pairs = table
        .iter()
        .flat_map(|a| table.iter().map(move |b| l1(a, b)));
    pairs.fold(0.0, f64::max)
}
