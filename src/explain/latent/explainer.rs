//! What every explainer has in common, and how one is run over all samples.

use serde::{Deserialize, Serialize};

use super::{Explained, Keyed, Latent, LatentError, Noise, Result, World};
use crate::metrics::latent::released::BATCH;

/// Which rules a method follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// What the method's own paper says, each sample for itself.
    #[default]
    Correct,
    /// What the package bex 0.5.2 does to a batch of 12, mistakes included.
    AsReleased,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Variant::Correct => "correct",
            Variant::AsReleased => "as-released",
        }
    }
}

/// Samples to explain.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Standardised latents.
    pub z: &'a [Latent],
    /// Their logits.
    pub logits: &'a [[f32; 2]],
    /// Their images, one after another.
    pub images: &'a [f32],
    /// Counterfactuals wanted of each.
    pub n: usize,
}

impl Task<'_> {
    /// Class that each sample is given.
    pub fn classes(&self) -> Vec<usize> {
        let class = crate::metrics::latent::class;
        self.logits.iter().map(|&l| class(l)).collect()
    }

    /// Every sample `n` times.
    pub fn copies(&self) -> Vec<Latent> {
        self.z
            .iter()
            .flat_map(|z| std::iter::repeat_n(*z, self.n))
            .collect()
    }

    /// Every sample `n` times, copy `i` moved by `0.01 i` in all numbers (as \[bex\] A.3.2 follows DiCE).
    pub fn spread(&self) -> Vec<Latent> {
        let moved = |z: &Latent, i: usize| z.map(|v| v + 0.01 * i as f32);
        let n = self.n;
        self.z
            .iter()
            .flat_map(|z| (0..n).map(move |i| moved(z, i)))
            .collect()
    }
}

/// A method that makes counterfactuals.
pub trait Explainer: Sync {
    fn name(&self) -> &str;

    /// `n` counterfactuals of each sample, those of a sample together. A counterfactual that was not found is the
    /// sample itself.
    fn explain(
        &self,
        world: &Explained<'_>,
        task: &Task<'_>,
        noise: &mut dyn Noise,
    ) -> Result<Vec<Latent>>;

    /// False if no random number is drawn: all runs are the same.
    fn is_random(&self) -> bool {
        true
    }

    /// Samples that are explained together; a method that treats each for itself gives the same for any number.
    fn batch(&self) -> usize {
        64
    }
}

/// Counterfactuals of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub z_cf: Vec<Latent>,
    pub logits_cf: Vec<[f32; 2]>,
}

/// Explains all samples of a world; `progress` hears how many are done.
pub fn explain_all(
    world: &World,
    explainer: &dyn Explainer,
    n: usize,
    seed: u64,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Made> {
    if n == 0 || n > 10_000 {
        return Err(LatentError::setting(
            "explanations of a sample",
            "1 to 10000",
            n,
        ));
    }
    let samples = &world.samples;
    let view = world.explained();
    let all = samples.z.len();
    let pixels = view.image().0;
    let mut z_cf = Vec::with_capacity(all * n);
    for first in (0..all).step_by(explainer.batch().max(1)) {
        let last = all.min(first + explainer.batch().max(1));
        let task = Task {
            z: &samples.z[first..last],
            logits: &samples.logits[first..last],
            images: &samples.images[first * pixels..last * pixels],
            n,
        };
        let mut noise = Keyed::new(seed, first, last - first);
        let found = explainer.explain(&view, &task, &mut noise)?;
        check(explainer, &task, &found)?;
        z_cf.extend(found);
        progress(last, all);
    }
    let logits_cf = view.logits(&z_cf)?;
    Ok(Made { z_cf, logits_cf })
}

/// Refuses what is not as many finite latents as were asked for.
fn check(explainer: &dyn Explainer, task: &Task<'_>, found: &[Latent]) -> Result<()> {
    let expected = task.z.len() * task.n;
    if found.len() != expected {
        return Err(LatentError::setting(
            format!("explainer {}", explainer.name()),
            format!("{expected} latents"),
            found.len(),
        ));
    }
    match found.iter().position(|z| z.iter().any(|v| !v.is_finite())) {
        None => Ok(()),
        Some(row) => Err(LatentError::NotFinite {
            what: "a counterfactual",
            row,
        }),
    }
}

/// Samples that the package explains together.
pub(super) fn released_batch(variant: Variant) -> usize {
    match variant {
        Variant::Correct => 64,
        Variant::AsReleased => BATCH,
    }
}
