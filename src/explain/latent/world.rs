//! A world: networks, statistics of latents, samples to explain, and what informed search knows.

use super::selection::{Level, select, short_levels};
use super::{Explained, Latent, LatentError, Networks, Result, Variant};
use crate::metrics::latent::space::{Space, limits, moments};

/// Samples to explain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Their numbers in the validation set.
    pub index: Vec<usize>,
    /// Standardised latents.
    pub z: Vec<Latent>,
    pub logits: Vec<[f32; 2]>,
    /// One after another, values from −1 to 1.
    pub images: Vec<f32>,
    /// How many there are of each level of confidence; none of samples that were given.
    pub levels: Vec<Level>,
}

/// Latents and labels of a world's data.
#[derive(Clone, Debug, Default)]
pub struct Data {
    /// Raw.
    pub train: Vec<Latent>,
    /// Raw.
    pub validation: Vec<Latent>,
    pub labels: Vec<u8>,
}

pub struct World {
    /// For people.
    pub name: String,
    /// What it is made of, for fingerprints.
    pub identity: serde_json::Value,
    pub networks: Box<dyn Networks>,
    pub space: Space,
    /// Typefaces tied to class 0 and to class 1.
    pub tied: [Vec<usize>; 2],
    pub samples: Samples,
    data: Data,
}

impl World {
    /// A world of networks, raw embeddings and data. Correct, the limits of latents are those of the training set, as the
    /// paper says; as released those of the validation set.
    pub fn new(
        name: String,
        identity: serde_json::Value,
        networks: Box<dyn Networks>,
        tables: [&[[f32; 3]]; 2],
        data: Data,
        tied: [Vec<usize>; 2],
        variant: Variant,
    ) -> Result<Self> {
        if data.train.len() < 2 || data.validation.is_empty() {
            return Err(LatentError::setting(
                format!("world {name}"),
                "at least 2 training latents and 1 of the validation set",
                format!("{} and {}", data.train.len(), data.validation.len()),
            ));
        }
        let (mean, std) = moments(&data.train);
        let bounding = match variant {
            Variant::Correct => &data.train,
            Variant::AsReleased => &data.validation,
        };
        let standardised =
            |raw: &Latent| -> Latent { std::array::from_fn(|k| (raw[k] - mean[k]) / std[k]) };
        let bounding: Vec<Latent> = bounding.iter().map(standardised).collect();
        let space = Space::new(tables, (mean, std), limits(&bounding))?;
        Ok(Self {
            name,
            identity,
            networks,
            space,
            tied,
            samples: Samples::default(),
            data,
        })
    }

    /// Chooses the samples to explain.
    pub fn choose(&mut self, per_level: usize, variant: Variant) -> Result<()> {
        let z: Vec<Latent> = { self.data.validation.iter() }
            .map(|raw| self.space.standardise(raw))
            .collect();
        let logits = self.explained().logits(&z)?;
        let (index, levels) = select(&logits, &self.data.labels, per_level, variant)?;
        let z = index.iter().map(|&i| z[i]).collect();
        self.take(index, z)?;
        self.samples.levels = levels;
        if variant == Variant::AsReleased {
            // The package shows explainers its stored images, of 8 bits cut off.
            for v in &mut self.samples.images {
                *v = ((*v + 1.0) * 127.5).clamp(0.0, 255.0).trunc() / 127.5 - 1.0;
            }
        }
        Ok(())
    }

    /// Takes given latents as the samples.
    pub fn take(&mut self, index: Vec<usize>, z: Vec<Latent>) -> Result<()> {
        let looked = self.explained().look(&z)?;
        self.samples = Samples {
            index,
            z,
            logits: looked.logits,
            images: looked.images,
            levels: Vec::new(),
        };
        Ok(())
    }

    /// What is said where some level of confidence has fewer samples than were asked for.
    pub fn shortage(&self, per_level: usize) -> Option<String> {
        short_levels(&self.samples.levels, per_level).map(|short| {
            format!(
                "the validation set holds fewer than {per_level} samples of some levels: {short}; below 0 are those that the classifier gets wrong"
            )
        })
    }

    /// What explainers see.
    pub fn explained(&self) -> Explained<'_> {
        Explained::new(&self.space, self.networks.as_ref(), &self.data.train)
    }

    /// Share of validation labels that the classifier gives.
    pub fn accuracy(&self) -> Result<f64> {
        let z: Vec<Latent> = { self.data.validation.iter() }
            .map(|raw| self.space.standardise(raw))
            .collect();
        let logits = self.explained().logits(&z)?;
        let right = { logits.iter().zip(&self.data.labels) }
            .filter(|(l, label)| crate::metrics::latent::class(**l) == usize::from(**label));
        Ok(right.count() as f64 / logits.len().max(1) as f64)
    }
}
