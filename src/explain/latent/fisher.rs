//! Fisher information of latents: `F_k = Σ_rows g gᵀ`, `g` the derivative of logit `k` by the standardised latent.
//!
//! DiVE draws labels from the classifier, which changes the sign of `g` only, and so nothing.

use super::{Explained, LATENT, Latent, Pull, Result, Weighed};

/// Matrices of logit 0 and logit 1, row by row.
pub fn fisher(world: &Explained<'_>, z: &[Latent]) -> Result<[Vec<f64>; 2]> {
    let mut all = [vec![0.0; LATENT * LATENT], vec![0.0; LATENT * LATENT]];
    for (k, sum) in all.iter_mut().enumerate() {
        let mut by_logits = [0.0; 2];
        by_logits[k] = 1.0;
        let pull = Pull {
            images: false,
            by: &|_, _, _| Weighed {
                loss: 0.0,
                by_logits,
            },
        };
        for part in z.chunks(512) {
            for g in world.gradient(part, &pull)?.gradient {
                for i in 0..LATENT {
                    for j in 0..LATENT {
                        sum[i * LATENT + j] += f64::from(g[i]) * f64::from(g[j]);
                    }
                }
            }
        }
    }
    Ok(all)
}

/// First of the rows that count as released: of equal chunks of at least 512 rows only the last one stays.
pub fn last_chunk(rows: usize) -> usize {
    let chunks = (rows / 512).max(1);
    let size = rows.div_ceil(chunks).max(1);
    match rows {
        0 => 0,
        _ => (rows - 1) / size * size,
    }
}
