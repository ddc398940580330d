//! Classifiers whose opinion guides a diffusion.

use super::error::Result;
use crate::nets::{Classifier, UnetEncoder};
use crate::tensor::candle::{Candle, Tensor};
use crate::tensor::{Backend, Resize};

/// A classifier that can be asked, with gradients, about images from −1 to 1.
pub trait Guide: Send + Sync {
    /// Logits `[n, classes]` of images at diffusion steps of the full schedule, one per image. Classifiers that know
    /// no noise ignore the steps.
    fn logits(&self, images: &Tensor, steps: &[f32]) -> Result<Tensor>;
}

/// What becomes of images from −1 to 1 before a network sees them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fitting {
    /// Height and width the network expects, with the way to get there; `None` to take images as they are.
    pub size: Option<([usize; 2], Resize)>,
    /// Order of the channels, and by channel `x · scale + shift`.
    pub channels: Option<([usize; 3], [f32; 3], [f32; 3])>,
}

impl Fitting {
    /// Resizes where needed, then scales and shifts.
    pub fn run(&self, images: &Tensor) -> Result<Tensor> {
        let shape = Candle.shape(images);
        let sized = match self.size {
            Some(([h, w], mode)) if [h, w] != [shape.h, shape.w] => {
                Candle.resize(images, h, w, mode)?
            }
            _ => images.clone(),
        };
        Ok(match &self.channels {
            Some((order, scale, shift)) => Candle.affine(&sized, order, scale, shift)?,
            None => sized,
        })
    }
}

/// A network of clean images.
pub struct Clean {
    pub net: Box<dyn Classifier<Candle>>,
    pub fitting: Fitting,
}

impl Guide for Clean {
    fn logits(&self, images: &Tensor, _steps: &[f32]) -> Result<Tensor> {
        let fitted = self.fitting.run(images)?;
        Ok(self.net.predict(&Candle, &fitted)?.logits)
    }
}

/// A network that was trained on noisy images and is told how noisy they are.
pub struct NoiseAware {
    pub net: UnetEncoder<Candle>,
    pub fitting: Fitting,
}

impl Guide for NoiseAware {
    fn logits(&self, images: &Tensor, steps: &[f32]) -> Result<Tensor> {
        let fitted = self.fitting.run(images)?;
        Ok(self.net.predict_at(&Candle, &fitted, steps)?.logits)
    }
}
