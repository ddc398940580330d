//! What the attribute encoder reads off images.

use super::error::{Result, TrainError};
use super::target::NUMBERS;
use crate::glyphs::CHARACTERS;
use crate::metrics::validity::{argmax, softmax};
use crate::nets::{Architecture, Classifier, UnetEncoderConfig, build};
use crate::tensor::{Array, Backend, StateDict};

/// The attributes of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The likeliest character and its probability.
    pub character: (usize, f64),
    /// The same of the typeface.
    pub font: (usize, f64),
    /// Inverse colour, scale, x, y and rotation, in the units of `attributes.csv`.
    pub numbers: [f32; NUMBERS],
}

/// A trained attribute encoder.
pub struct Reader<B: Backend> {
    net: Box<dyn Classifier<B>>,
    mean: Vec<f32>,
    deviation: Vec<f32>,
}

impl<B: Backend + 'static> Reader<B> {
    /// Builds it from weights of `foil train encoder`.
    pub fn new(backend: &B, architecture: Architecture, dict: &StateDict) -> Result<Self> {
        let numbers = |name: &str| match dict.get(name) {
            Some(array) if array.len() == NUMBERS => Ok(array.data.clone()),
            _ => Err(TrainError::Data(format!(
                "these weights have no {NUMBERS} numbers {name}: they are no attribute encoder of `foil train encoder`"
            ))),
        };
        Ok(Self {
            net: build(architecture, backend, dict, &UnetEncoderConfig::default())?,
            mean: numbers("attributes.mean")?,
            deviation: numbers("attributes.deviation")?,
        })
    }

    /// Reads images (NCHW, −1 to 1).
    pub fn read(&self, backend: &B, images: &Array) -> Result<Vec<Reading>> {
        let outputs = self.net.predict(backend, &backend.upload(images)?)?.logits;
        let outputs = backend.download(&outputs)?;
        let n = images.shape.first().copied().unwrap_or(0);
        let width = outputs.len() / n.max(1);
        let Some(fonts) = width
            .checked_sub(NUMBERS + CHARACTERS.len())
            .filter(|&f| f > 0)
        else {
            return Err(TrainError::Data(format!(
                "an attribute encoder has {NUMBERS} outputs and one for each typeface and of {} characters; this one \
                 has {width}",
                CHARACTERS.len()
            )));
        };
        let best = |logits: &[f32]| {
            let at = argmax(logits);
            (at, softmax(logits)[at])
        };
        let read = |row: &[f32]| Reading {
            font: best(&row[NUMBERS..NUMBERS + fonts]),
            character: best(&row[NUMBERS + fonts..]),
            numbers: std::array::from_fn(|k| self.mean[k] + self.deviation[k] * row[k]),
        };
        Ok(outputs.data.chunks(width.max(1)).map(read).collect())
    }
}

/// Share of images whose character is read with more than this probability.
pub fn readable(readings: &[Reading], above: f64) -> f64 {
    let sure = readings.iter().filter(|r| r.character.1 > above).count();
    sure as f64 / readings.len().max(1) as f64
}
