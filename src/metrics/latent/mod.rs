//! Scores of counterfactual latents where all causes are known (\[bex\] section 3.4): flips, proximity, orthogonal sets.
//!
//! A latent `z` holds 3 numbers of the character's embedding, 3 of the typeface's, then inverse colour, scale, x, y and
//! rotation, all standardised. ĥ is the explained classifier of a latent, h_causal the oracle: the parity of the
//! character whose embedding is nearest.
//!
//! - [`space`]: standardisation, clipping, embeddings, the oracle, radii;
//! - [`perturbation`]: a counterfactual as a vector of characters, typefaces and continuous numbers (eq. 12 and 13);
//! - [`exact`]: the scores as the paper defines them;
//! - [`released`]: the scores as the package bex 0.5.2 computes them, its mistakes included;
//! - [`profile`]: how much each attribute was changed (Figure 3).

pub mod exact;
pub mod perturbation;
pub mod profile;
pub mod released;
pub mod space;

use super::error::{MetricError, Result};

/// Numbers of a latent vector.
pub const LATENT: usize = 11;

/// Where the five continuous numbers begin.
pub const CONTINUOUS: usize = 6;

/// A latent vector.
pub type Latent = [f32; LATENT];

/// Counterfactuals of samples, with what the explained classifier says.
#[derive(Clone, Copy, Debug)]
pub struct Explanations<'a> {
    /// `[b]` standardised latents of the samples.
    pub z: &'a [Latent],
    /// `[b]` logits of the samples.
    pub logits: &'a [[f32; 2]],
    /// `[b · n]` counterfactuals, those of a sample together.
    pub z_cf: &'a [Latent],
    /// `[b · n]` logits of the counterfactuals.
    pub logits_cf: &'a [[f32; 2]],
}

impl Explanations<'_> {
    /// Counterfactuals of each sample.
    pub fn per_sample(&self) -> Result<usize> {
        let (b, all) = (self.z.len(), self.z_cf.len());
        let fits = b > 0 && all.is_multiple_of(b);
        if !fits || self.logits.len() != b || self.logits_cf.len() != all {
            return Err(MetricError::shape(
                "counterfactual latents",
                "b samples with as many logits, and n counterfactuals of each with as many logits",
                format!(
                    "{b} samples with {} logits, {all} counterfactuals with {}",
                    self.logits.len(),
                    self.logits_cf.len()
                ),
            ));
        }
        let numbers = [self.z.as_flattened(), self.z_cf.as_flattened()];
        for (what, values) in ["samples", "counterfactual latents"]
            .into_iter()
            .zip(numbers)
        {
            finite(what, LATENT, values)?;
        }
        let numbers = [self.logits.as_flattened(), self.logits_cf.as_flattened()];
        for (what, values) in ["logits of samples", "logits of counterfactuals"]
            .into_iter()
            .zip(numbers)
        {
            finite(what, 2, values)?;
        }
        Ok(all / b)
    }
}

fn finite(what: &str, columns: usize, values: &[f32]) -> Result<()> {
    super::Matrix::new(what, values.len() / columns, columns, values)?.check_finite(what)
}

/// The class of the larger logit, the first of equals.
pub fn class(logits: [f32; 2]) -> usize {
    usize::from(logits[1] > logits[0])
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    match values.len() {
        0 => 0.0,
        n => values.sum::<f64>() / n as f64,
    }
}
