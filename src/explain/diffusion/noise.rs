//! Noise of a run: random by seed and name of the image, or given in a file.

use std::path::Path;

use super::{GenerateError, Result};
use crate::diffusion::{Noise, Seeded};
use crate::tensor::Array;
use crate::weights::{formats, sha256};

/// Given noise: `[draws, images, channels, height, width]`, of which draw 0 is that of the start and draw k that of the
/// k-th step. Images are in the order of their names, the samples of one following each other; one image's noise serves
/// all of them, which is what the evaluated study did.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenNoise {
    values: Array,
    pub sha256: String,
}

impl GivenNoise {
    /// Reads the tensor `noise` of a file, or the only one.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |what: String| GenerateError::File {
            path: path.into(),
            what,
        };
        let bytes = std::fs::read(path).map_err(|e| wrong(format!("cannot read: {e}")))?;
        let dict = formats::read_bytes(&bytes, &path.display().to_string())
            .map_err(|e| wrong(e.to_string()))?;
        let only = || dict.iter().next().filter(|_| dict.len() == 1).map(|t| t.1);
        let found = dict.get("noise").or_else(only).cloned().ok_or_else(|| {
            wrong("expected a tensor called noise, or one tensor, found others".into())
        })?;
        let values = match found.shape.len() {
            4 => {
                let shape = [&found.shape[..1], &[1], &found.shape[1..]].concat();
                found.reshape(shape)?
            }
            _ => found,
        };
        if values.data.iter().any(|v| !v.is_finite()) {
            return Err(wrong("it holds values that are no numbers".into()));
        }
        Ok(Self {
            values,
            sha256: sha256(&bytes),
        })
    }

    /// Refuses noise that is too little for so many samples of each of `originals` of `size`, with so many draws. Noise of
    /// one image serves all originals, not several samples of one: those would be the same.
    pub fn check(
        &self,
        path: &Path,
        draws: usize,
        originals: usize,
        samples: usize,
        size: usize,
    ) -> Result<()> {
        let (shape, images) = (&self.values.shape, originals * samples);
        let alone = match samples {
            1 => " or 1",
            _ => "",
        };
        let enough = shape.len() == 5
            && shape[0] >= draws
            && (shape[1] == images || shape[1] == 1 && samples == 1)
            && shape[2..] == [3, size, size];
        match enough {
            true => Ok(()),
            false => Err(GenerateError::File {
                path: path.into(),
                what: format!(
                    "expected noise of the shape [at least {draws} draws, {images}{alone} images, 3, {size}, {size}], \
                     found {shape:?}"
                ),
            }),
        }
    }
}

/// Noise of the images of a batch.
pub(super) enum Source<'a> {
    Random(Seeded),
    /// With the place of each image of the batch among all.
    Given(&'a GivenNoise, Vec<usize>),
}

impl Noise for Source<'_> {
    fn fill(&self, image: usize, draw: usize, to: &mut [f32]) {
        match self {
            Source::Random(seeded) => seeded.fill(image, draw, to),
            Source::Given(given, places) => {
                let images = given.values.shape[1];
                let at = (draw * images + places[image] % images) * to.len();
                to.copy_from_slice(&given.values.data[at..at + to.len()]);
            }
        }
    }
}
