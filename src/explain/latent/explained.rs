//! What an explainer sees of a world (\[bex\] eq. 1): standardised latents, ĥ = f∘g, g, and gradients.

use super::{LATENT, Latent, LatentError, Looked, Networks, Pull, Result};
use crate::metrics::latent::space::Space;

/// The explained classifier of standardised latents. Latents are clipped to the limits of the world before they are
/// drawn, and inverse colour is rounded to 0 or 1, so that no gradient comes from it.
#[derive(Clone, Copy)]
pub struct Explained<'a> {
    space: &'a Space,
    networks: &'a dyn Networks,
    train: &'a [Latent],
}

/// A loss at latents.
#[derive(Clone, Debug)]
pub struct Pulled {
    pub logits: Vec<[f32; 2]>,
    /// Each latent's part.
    pub losses: Vec<f64>,
    /// The derivative by each latent.
    pub gradient: Vec<Latent>,
}

impl<'a> Explained<'a> {
    pub fn new(space: &'a Space, networks: &'a dyn Networks, train: &'a [Latent]) -> Self {
        Self {
            space,
            networks,
            train,
        }
    }

    /// ĥ.
    pub fn logits(&self, z: &[Latent]) -> Result<Vec<[f32; 2]>> {
        let logits = self.networks.logits(&self.raw(z))?;
        finite("a logit", logits.as_flattened(), 2)?;
        Ok(logits)
    }

    /// g and ĥ.
    pub fn look(&self, z: &[Latent]) -> Result<Looked> {
        let looked = self.networks.look(&self.raw(z))?;
        finite("a logit", looked.logits.as_flattened(), 2)?;
        Ok(looked)
    }

    /// The gradient of a loss by latents.
    pub fn gradient(&self, z: &[Latent], pull: &Pull<'_>) -> Result<Pulled> {
        let (logits, losses, mut gradient) = self.networks.pull(&self.raw(z), pull)?;
        finite("a logit", logits.as_flattened(), 2)?;
        finite("the gradient", gradient.as_flattened(), LATENT)?;
        for (row, z) in gradient.iter_mut().zip(z) {
            let slope = self.space.slope(z);
            row.iter_mut().zip(slope).for_each(|(g, s)| *g *= s);
        }
        Ok(Pulled {
            logits,
            losses,
            gradient,
        })
    }

    /// Smallest and largest numbers that the generator is shown.
    pub fn limits(&self) -> [&'a Latent; 2] {
        [&self.space.low, &self.space.high]
    }

    /// Raw training latents.
    pub fn training_raw(&self) -> &'a [Latent] {
        self.train
    }

    /// Standardised training latents.
    pub fn training(&self) -> Vec<Latent> {
        self.train
            .iter()
            .map(|raw| self.space.standardise(raw))
            .collect()
    }

    /// Values of one image, and the equal channels that each stands for.
    pub fn image(&self) -> (usize, f64) {
        (self.networks.pixels(), self.networks.channels_per_value())
    }

    pub(super) fn batch_by_thread(&self) -> bool {
        self.networks.batch_by_thread()
    }

    fn raw(&self, z: &[Latent]) -> Vec<Latent> {
        z.iter().map(|z| self.space.raw(z)).collect()
    }
}

fn finite(what: &'static str, values: &[f32], columns: usize) -> Result<()> {
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(at) => Err(LatentError::NotFinite {
            what,
            row: at / columns,
        }),
    }
}
