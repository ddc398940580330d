//! Informed search (\[bex\] section 4): it knows which typefaces are tied to the classes, and exchanges nothing else.
//!
//! As released typefaces of the other class are drawn with replacement. Correct: each of them once, in random order, and
//! again from the first when there are fewer than explanations are wanted.

use super::explainer::released_batch;
use super::{Explained, Explainer, Latent, LatentError, Noise, Result, Task, Variant};
use crate::metrics::latent::space::Space;

/// Informed search with what it knows.
#[derive(Clone, Debug)]
pub struct Informed {
    pub variant: Variant,
    /// Standardised embeddings of the typefaces.
    fonts: Vec<[f32; 3]>,
    /// Typefaces tied to class 0 and to class 1.
    tied: [Vec<usize>; 2],
}

impl Informed {
    pub fn new(space: &Space, tied: [Vec<usize>; 2], variant: Variant) -> Result<Self> {
        let known = space.fonts.len();
        let wrong = tied.iter().flatten().find(|&&f| f >= known);
        if wrong.is_some() || tied.iter().any(Vec::is_empty) {
            return Err(LatentError::setting(
                "explainer is",
                format!("a world with typefaces tied to both classes, numbered below {known}"),
                format!("{tied:?}"),
            ));
        }
        Ok(Self {
            variant,
            fonts: space.fonts.clone(),
            tied,
        })
    }

    /// The sample with other typefaces.
    pub fn with_fonts(&self, z: &Latent, fonts: &[usize]) -> Vec<Latent> {
        let with = |&font: &usize| {
            let mut changed = *z;
            changed[3..6].copy_from_slice(&self.fonts[font]);
            changed
        };
        fonts.iter().map(with).collect()
    }
}

impl Explainer for Informed {
    fn name(&self) -> &str {
        "is"
    }

    fn explain(
        &self,
        _: &Explained<'_>,
        task: &Task<'_>,
        noise: &mut dyn Noise,
    ) -> Result<Vec<Latent>> {
        let mut all = Vec::with_capacity(task.z.len() * task.n);
        for (i, (z, class)) in task.z.iter().zip(task.classes()).enumerate() {
            let others = &self.tied[1 - class];
            let drawn: Vec<usize> = match self.variant {
                Variant::AsReleased => (0..task.n)
                    .map(|_| others[noise.below(i, others.len())])
                    .collect(),
                Variant::Correct => {
                    let order = noise.order(i, others.len());
                    order
                        .iter()
                        .cycle()
                        .take(task.n)
                        .map(|&k| others[k])
                        .collect()
                }
            };
            all.extend(self.with_fonts(z, &drawn));
        }
        Ok(all)
    }

    fn batch(&self) -> usize {
        released_batch(self.variant)
    }
}
