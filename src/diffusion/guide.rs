//! The networks of a guided diffusion, each on a device with gradients: classifiers whose opinion guides it, and the
//! denoiser.

use candle_core::Device;

use super::error::Result;
use crate::metrics::validity::argmax;
use crate::nets::{Classifier, Unet, UnetEncoder};
use crate::tensor::Resize;
use crate::tensor::candle::{Candle, Differentiable, Tensor};

/// A classifier that can be asked, with gradients, about images from −1 to 1.
pub trait Guide: Send + Sync {
    /// Logits `[n, classes]` of images at diffusion steps of the full schedule, one per image. Classifiers that know
    /// no noise ignore the steps.
    fn logits(&self, images: &Tensor, steps: &[f32]) -> Result<Tensor>;
}

/// The class that a classifier calls an image by its logits: the first of the largest. `None` if they are no numbers, since
/// then it says nothing.
pub fn called(logits: &[f32]) -> Option<usize> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sound = largest.is_finite() && !logits.iter().any(|v| v.is_nan());
    sound.then(|| argmax(logits))
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
    pub fn run(&self, backend: &impl Differentiable, images: &Tensor) -> Result<Tensor> {
        let shape = images.shape();
        let sized = match self.size {
            Some(([h, w], mode)) if [h, w] != [shape.h, shape.w] => {
                backend.resize(images, h, w, mode)?
            }
            _ => images.clone(),
        };
        Ok(match &self.channels {
            Some((order, scale, shift)) => backend.affine(&sized, order, scale, shift)?,
            None => sized,
        })
    }
}

/// A network of clean images.
pub struct Clean<B: Differentiable = Candle> {
    pub backend: B,
    pub net: Box<dyn Classifier<B>>,
    pub fitting: Fitting,
}

impl<B: Differentiable> Guide for Clean<B> {
    fn logits(&self, images: &Tensor, _steps: &[f32]) -> Result<Tensor> {
        let fitted = self.fitting.run(&self.backend, images)?;
        Ok(self.net.predict(&self.backend, &fitted)?.logits)
    }
}

/// A network that was trained on noisy images and is told how noisy they are.
pub struct NoiseAware<B: Differentiable = Candle> {
    pub backend: B,
    pub net: UnetEncoder<B>,
    pub fitting: Fitting,
}

impl<B: Differentiable> Guide for NoiseAware<B> {
    fn logits(&self, images: &Tensor, steps: &[f32]) -> Result<Tensor> {
        let fitted = self.fitting.run(&self.backend, images)?;
        let found = self.net.predict_at(&self.backend, &fitted, steps)?;
        Ok(found.logits)
    }
}

/// A network that predicts noise and, if it has learnt that, variance, with gradients.
pub trait Denoiser: Send + Sync {
    /// Its output for images from −1 to 1 at diffusion steps of the full schedule, one per image.
    fn predict(&self, images: &Tensor, steps: &[f32]) -> Result<Tensor>;

    /// Where its tensors are, and with them those of the whole diffusion.
    fn device(&self) -> Device;
}

/// A UNet that is told no class.
pub struct Unconditional<B: Differentiable = Candle> {
    pub backend: B,
    pub net: Unet<B>,
}

impl<B: Differentiable> Denoiser for Unconditional<B> {
    fn predict(&self, images: &Tensor, steps: &[f32]) -> Result<Tensor> {
        Ok(self.net.predict(&self.backend, images, steps, None)?)
    }

    fn device(&self) -> Device {
        self.backend.device()
    }
}

#[cfg(test)]
mod tests {
    use super::called;

    #[test]
    fn a_class_is_the_first_of_the_largest_and_none_without_numbers() {
        assert_eq!(called(&[1.0, 3.0, 3.0]), Some(1));
        assert_eq!(called(&[f32::NEG_INFINITY, -2.0]), Some(1));
        for none in [
            &[f32::NAN, f32::NAN][..],
            &[1.0, f32::NAN],
            &[f32::NAN, 1.0],
            &[f32::INFINITY, 0.0],
            &[f32::NEG_INFINITY; 2],
            &[],
        ] {
            assert_eq!(called(none), None, "{none:?}");
        }
    }
}
