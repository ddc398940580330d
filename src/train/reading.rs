//! What the attribute encoder reads off images.

use super::error::{Result, TrainError};
use super::target::NUMBERS;
use crate::glyphs::{Atlas, Attributes, CHARACTERS, Drawing};
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

impl<B: Backend + 'static> Reader<B> {
    /// How like images (NCHW, −1 to 1) are to the glyphs that they are read as: correlations of their pixels with those
    /// of the glyph drawn anew. How sure a network is of what it reads says less: it is sure of noise, too.
    pub fn likeness(&self, backend: &B, images: &Array, atlas: &Atlas) -> Result<Vec<f64>> {
        let size = images.shape.get(3).copied().unwrap_or(0);
        let drawing = Drawing {
            size,
            pixel_noise: 0.0,
        };
        let (area, n) = (size * size, images.shape.first().copied().unwrap_or(0));
        let each = images.len() / n.max(1);
        let readings = self.read(backend, images)?;
        let pairs = readings.iter().zip(images.data.chunks(each.max(1)));
        pairs
            .map(|(reading, image)| {
                let mut grey = vec![0.0f32; area];
                for (at, value) in image.iter().enumerate() {
                    grey[at % area.max(1)] += value;
                }
                let attributes = reading.attributes();
                let Some(drawn) = drawing.intensities(atlas, &attributes) else {
                    return Err(TrainError::Data(format!(
                        "the encoder knows typeface {}, but there are {}: it was trained on other ones",
                        attributes.font,
                        atlas.font_count()
                    )));
                };
                Ok(correlation(&drawn, &grey))
            })
            .collect()
    }
}

impl Reading {
    /// The causes of a glyph of this reading.
    pub fn attributes(&self) -> Attributes {
        let [inverse, scale, x, y, rotation] = self.numbers;
        Attributes {
            character: self.character.0,
            font: self.font.0,
            inverse: inverse > 0.5,
            scale,
            x,
            y,
            rotation,
        }
    }
}

/// Pearson's; 0 if one of the two is constant.
fn correlation(a: &[f32], b: &[f32]) -> f64 {
    let n = a.len().max(1) as f64;
    let mean = |v: &[f32]| v.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
    let from_mean = |v: &[f32]| -> Vec<f64> {
        let mean = mean(v);
        v.iter().map(|&v| f64::from(v) - mean).collect()
    };
    let (a, b) = (from_mean(a), from_mean(b));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let spread = (product(&a, &a) * product(&b, &b)).sqrt();
    if spread > 0.0 {
        product(&a, &b) / spread
    } else {
        0.0
    }
}
