//! Networks on candle's tape: the glyph generator or the package's, and any classifier that foil knows.

use std::sync::Arc;

use candle_core::{Tensor as Values, Var};
use rayon::prelude::*;

use super::{LATENT, Latent, LatentError, Looked, Networks, Pull, RawPulled, Result, Seen};
use crate::glyphs::Generator;
use crate::nets::{BexGenerator, Classifier};
use crate::tensor::candle::{Differentiable, Tensor};
use crate::tensor::{Array, Backend};
use crate::weights::Preprocessing;

/// g.
pub enum Decoder<B: Backend> {
    /// The renderer with gradients; grey images of this side.
    Glyphs(Arc<Generator>, usize),
    /// The generator of the package bex.
    Bex(Box<BexGenerator<B>>),
}

/// g and f on a device with gradients.
pub struct Taped<B: Differentiable> {
    backend: B,
    decoder: Decoder<B>,
    classifier: Box<dyn Classifier<B>>,
    /// What the classifier is shown of an image from −1 to 1: input channel, factor and shift of each of its channels.
    shown: (Vec<usize>, Vec<f32>, Vec<f32>),
    pixels: usize,
    size: [usize; 2],
    /// Latents that go through the networks at once.
    piece: usize,
}

/// On the CPU a thread takes so many latents at a time; results do not depend on it.
const PIECE: usize = 20;
/// On a GPU.
const LARGE_PIECE: usize = 2048;

impl<B: Differentiable> Taped<B> {
    /// Networks that fit together; the classifier gets images as its card's preprocessing says, without resizing.
    pub fn new(
        backend: B,
        decoder: Decoder<B>,
        classifier: Box<dyn Classifier<B>>,
        preprocessing: &Preprocessing,
    ) -> Result<Self> {
        let order = preprocessing.channel_order();
        let mut shown = (Vec::new(), Vec::new(), Vec::new());
        for (c, &from) in order.iter().enumerate() {
            let (mean, std) = (preprocessing.mean[c], preprocessing.std[c]);
            // Pixels are 255 (x + 1) / 2.
            let half = 127.5 * preprocessing.scale;
            shown.0.push(from);
            shown.1.push(half / std);
            shown.2.push((half - mean) / std);
        }
        let on_cpu = matches!(backend.device(), candle_core::Device::Cpu);
        let mut networks = Self {
            backend,
            decoder,
            classifier,
            shown,
            pixels: 0,
            size: [0; 2],
            piece: if on_cpu { PIECE } else { LARGE_PIECE },
        };
        // One image tells its size, and whether the networks fit.
        let probe = networks.variable(&[[0.5; LATENT]])?;
        let (image, logits) = networks.run(&Tensor::new(probe.as_tensor())?)?;
        let shape = image.shape();
        let classes = logits.shape().c;
        if classes != 2 {
            return Err(LatentError::setting("the classifier", "2 classes", classes));
        }
        networks.pixels = shape.h * shape.w * shape.c;
        networks.size = [shape.h, shape.w];
        Ok(networks)
    }

    fn variable(&self, raw: &[Latent]) -> Result<Var> {
        let array = Array::new([raw.len(), LATENT], raw.as_flattened().to_vec())?;
        Ok(self.backend.variable(&array)?)
    }

    /// Images NHWC from −1 to 1, and logits.
    fn run(&self, raw: &Tensor) -> Result<(Tensor, Tensor)> {
        let b = &self.backend;
        let (image, grey) = match &self.decoder {
            Decoder::Glyphs(generator, size) => {
                // The renderer runs on the host.
                let here = raw.on(&candle_core::Device::Cpu)?;
                let drawn = generator.tensor(&here, *size, 1)?.on(&b.device())?;
                (b.affine(&drawn, &[0], &[2.0], &[-1.0])?, true)
            }
            Decoder::Bex(generator) => (generator.generate(b, raw)?, false),
        };
        let (order, scale, shift) = &self.shown;
        let order: Vec<usize> = order.iter().map(|&c| if grey { 0 } else { c }).collect();
        let input = b.affine(&image, &order, scale, shift)?;
        let logits = self.classifier.predict(b, &input)?.logits;
        Ok((image, logits))
    }

    fn looked(&self, raw: &[Latent], images: bool) -> Result<Looked> {
        let array = Array::new([raw.len(), LATENT], raw.as_flattened().to_vec())?;
        let (image, logits) = self.run(&self.backend.upload(&array)?)?;
        Ok(Looked {
            images: match images {
                true => values(&image)?,
                false => Vec::new(),
            },
            logits: values(&logits)?.as_chunks().0.to_vec(),
        })
    }

    fn look_at_all(&self, raw: &[Latent], images: bool) -> Result<Looked> {
        let pieces: Result<Vec<Looked>> = { raw.par_chunks(self.piece) }
            .map(|piece| self.looked(piece, images))
            .collect();
        let mut all = Looked::default();
        for piece in pieces? {
            all.images.extend(piece.images);
            all.logits.extend(piece.logits);
        }
        Ok(all)
    }

    fn pulled(&self, first: usize, raw: &[Latent], pull: &Pull<'_>) -> Result<RawPulled> {
        let variable = self.variable(raw)?;
        let (image, logits) = self.run(&Tensor::new(variable.as_tensor())?)?;
        let seen: Vec<[f32; 2]> = values(&logits)?.as_chunks().0.to_vec();
        let images = match pull.images {
            true => values(&image)?,
            false => Vec::new(),
        };
        let (mut losses, mut by_logits) = (Vec::new(), Vec::new());
        let mut by_images = vec![0.0; images.len()];
        for (row, &logits) in seen.iter().enumerate() {
            let own = match pull.images {
                true => row * self.pixels..(row + 1) * self.pixels,
                false => 0..0,
            };
            let image = &images[own.clone()];
            let weighed = (pull.by)(first + row, &Seen { logits, image }, &mut by_images[own]);
            losses.push(weighed.loss);
            by_logits.extend(weighed.by_logits);
        }
        let device = self.backend.device();
        let weights = Values::from_vec(by_logits, logits.candle().shape(), &device)?;
        let mut total = (logits.candle() * weights)?.sum_all()?;
        if pull.images {
            let weights = Values::from_vec(by_images, image.candle().shape(), &device)?;
            total = (total + (image.candle() * weights)?.sum_all()?)?;
        }
        let gradients = total.backward()?;
        let gradient = match gradients.get(variable.as_tensor()) {
            Some(gradient) => gradient.flatten_all()?.to_vec1::<f32>()?,
            None => vec![0.0; raw.len() * LATENT],
        };
        Ok((seen, losses, gradient.as_chunks().0.to_vec()))
    }
}

fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.candle().flatten_all()?.to_vec1::<f32>()?)
}

impl<B: Differentiable> Networks for Taped<B> {
    fn pixels(&self) -> usize {
        self.pixels
    }

    fn channels_per_value(&self) -> f64 {
        match self.decoder {
            // The package's images have three channels.
            Decoder::Glyphs(..) => 3.0,
            Decoder::Bex(_) => 1.0,
        }
    }

    fn size(&self) -> [usize; 2] {
        self.size
    }

    fn look(&self, raw: &[Latent]) -> Result<Looked> {
        self.look_at_all(raw, true)
    }

    fn logits(&self, raw: &[Latent]) -> Result<Vec<[f32; 2]>> {
        Ok(self.look_at_all(raw, false)?.logits)
    }

    fn pull(&self, raw: &[Latent], pull: &Pull<'_>) -> Result<RawPulled> {
        let pieces: Result<Vec<RawPulled>> = { raw.par_chunks(self.piece).enumerate() }
            .map(|(i, piece)| self.pulled(i * self.piece, piece, pull))
            .collect();
        let mut all = (Vec::new(), Vec::new(), Vec::new());
        for (logits, losses, gradient) in pieces? {
            all.0.extend(logits);
            all.1.extend(losses);
            all.2.extend(gradient);
        }
        Ok(all)
    }
}
