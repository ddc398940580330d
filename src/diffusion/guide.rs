//! The networks of a guided diffusion, each on a device with gradients: classifiers whose opinion guides it, and the
//! denoiser.

use candle_core::Device;

use super::error::Result;
use super::tape::candle_error;
use crate::metrics::validity::argmax;
use crate::nets::{Classifier, Unet, UnetEncoder};
use crate::tensor::candle::{Candle, Differentiable, Tensor};
use crate::tensor::{Along, Array, Conv, FIXED_BITS, PixelPass};

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
pub struct Fitting<B: Differentiable = Candle> {
    /// Resize and crop, one direction at a time.
    passes: Vec<Pass<B>>,
    /// Order of the channels, and by channel `x · scale + shift`.
    pub channels: Option<([usize; 3], [f32; 3], [f32; 3])>,
}

/// A layer over the rows or columns of images of one size.
struct Pass<B: Differentiable> {
    along: Along,
    layer: B::Conv,
    /// Its weights may be negative, so that it can leave the range of its image.
    overshoots: bool,
}

impl<B: Differentiable> Default for Fitting<B> {
    /// Images as they are.
    fn default() -> Self {
        Self {
            passes: Vec::new(),
            channels: None,
        }
    }
}

impl<B: Differentiable> Fitting<B> {
    /// Resizes and crops images of this height and width by `passes`, with gradients. Values that a pass brings beyond black and
    /// white are cut off after it, as those of stored images, unless the image itself was beyond; they are not rounded to whole grey
    /// levels, which has no gradient.
    pub fn new(backend: &B, mut size: [usize; 2], passes: &[PixelPass]) -> Result<Self> {
        let mut layers = Vec::new();
        for PixelPass { along, taps } in passes {
            let side = &mut size[usize::from(*along == Along::Width)];
            let (inputs, outputs) = (*side, taps.len());
            let mut weights = Array::zeros([outputs, inputs]);
            for (row, taps) in weights.data.chunks_mut(inputs).zip(taps) {
                for (to, &weight) in row[taps.first..].iter_mut().zip(&taps.weights) {
                    *to = (f64::from(weight) / f64::from(1 << FIXED_BITS)) as f32;
                }
            }
            let layer = backend.prepare(Conv::linear(inputs, outputs), &weights, &[])?;
            layers.push(Pass {
                along: *along,
                layer,
                overshoots: taps.iter().any(|t| t.weights.iter().any(|w| *w < 0)),
            });
            *side = outputs;
        }
        Ok(Self {
            passes: layers,
            channels: None,
        })
    }

    /// Resizes and crops where needed, then scales and shifts.
    pub fn run(&self, backend: &B, images: &Tensor) -> Result<Tensor> {
        let mut fitted = images.clone();
        for pass in &self.passes {
            // The side that changes takes the place of the channels.
            let order = match pass.along {
                Along::Height => [0, 3, 2, 1],
                Along::Width => [0, 1, 3, 2],
            };
            let turned = |x: &Tensor| -> Result<Tensor> {
                let turned = x.candle().permute(order).map_err(candle_error)?;
                Ok(Tensor::new(&turned)?)
            };
            fitted = turned(&backend.conv(&turned(&fitted)?, &pass.layer, None)?)?;
            if pass.overshoots {
                let cut = cut_off(fitted.candle(), images.candle()).map_err(candle_error)?;
                fitted = Tensor::new(&cut)?;
            }
        }
        Ok(match &self.channels {
            Some((order, scale, shift)) => backend.affine(&fitted, order, scale, shift)?,
            None => fitted,
        })
    }
}

/// Brings values (NHWC) back to −1 to 1, or to the range of the image that they come from where that is wider. What is cut off has no
/// gradient.
fn cut_off(
    values: &candle_core::Tensor,
    images: &candle_core::Tensor,
) -> candle_core::Result<candle_core::Tensor> {
    let n = images.dim(0)?;
    let flat = images.detach().flatten_from(1)?;
    let low = flat.min(1)?.minimum(-1.0)?.reshape((n, 1, 1, 1))?;
    let high = flat.max(1)?.maximum(1.0)?.reshape((n, 1, 1, 1))?;
    let known = values.detach();
    let below = known.broadcast_lt(&low)?.to_dtype(known.dtype())?;
    let above = known.broadcast_gt(&high)?.to_dtype(known.dtype())?;
    let inside = (below.ones_like()? - (&below + &above)?)?;
    let ends = (below.broadcast_mul(&low)? + above.broadcast_mul(&high)?)?;
    (values * inside)? + ends
}

/// A network of clean images.
pub struct Clean<B: Differentiable = Candle> {
    pub backend: B,
    pub net: Box<dyn Classifier<B>>,
    pub fitting: Fitting<B>,
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
    pub fitting: Fitting<B>,
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
    use super::*;
    use crate::images::{self, Image};
    use crate::tensor::Backend;
    use crate::weights::Preprocessing;

    /// A picture without a pattern.
    fn picture(height: usize, width: usize) -> Image {
        let value = |i: usize| [0, 255, 60, 190, 255][i * 7919 % 131 % 5];
        Image {
            height,
            width,
            pixels: (0..height * width * 3).map(value).collect(),
        }
    }

    /// Against the preprocessing of `foil score`, which rounds to whole grey levels after each of its two passes: half a level
    /// each, and what the second pass makes of the first.
    #[test]
    fn images_are_fitted_as_scores_fit_them() {
        let image = picture(18, 18);
        let values: Vec<f32> = (0..3)
            .flat_map(|c| image.pixels.iter().skip(c).step_by(3))
            .map(|&v| f32::from(v) / 127.5 - 1.0)
            .collect();
        let values = Array::new([1, 3, 18, 18], values).unwrap();
        for filter in [
            "nearest", "box", "bilinear", "hamming", "bicubic", "lanczos",
        ] {
            for (size, crop) in [
                ("27", "16"),
                ("[12, 15]", "10"),
                ("18", "13"),
                ("25", "\"none\""),
            ] {
                let card =
                    format!("resize = {{ size = {size}, filter = \"{filter}\" }}\ncrop = {crop}");
                let card: Preprocessing = toml::from_str(&card).unwrap();
                let expected = card.fit(&image).unwrap();
                let passes = card.passes([18, 18]).unwrap();
                let fitting = Fitting::new(&Candle, [18, 18], &passes).unwrap();
                let seen = Candle.upload(&values).unwrap();
                let found = Candle
                    .download(&fitting.run(&Candle, &seen).unwrap())
                    .unwrap();
                assert_eq!(found.shape, [1, 3, expected.height, expected.width]);
                let plane = expected.height * expected.width;
                for (i, &found) in found.data.iter().enumerate() {
                    let expected = f32::from(expected.pixels[i % plane * 3 + i / plane]);
                    let off = ((found + 1.0) * 127.5 - expected).abs();
                    assert!(off < 1.5, "{filter} {size} {crop}: {found} {expected}");
                }
            }
        }
        assert!(images::center_crop(&image, 19, 19).is_err());
    }

    #[test]
    fn gradients_go_back_through_resize_and_crop() {
        let card = "resize = { size = 9, filter = \"bicubic\" }\ncrop = 5";
        let card: Preprocessing = toml::from_str(card).unwrap();
        let passes = card.passes([6, 6]).unwrap();
        let fitting = Fitting::new(&Candle, [6, 6], &passes).unwrap();
        let start = Array::zeros([1, 3, 6, 6]);
        let image = Candle.variable(&start).unwrap();
        let weigh = |fitted: &Array| -> f32 {
            let values = fitted.data.iter().enumerate();
            values.map(|(i, v)| v * ((i % 7) as f32 - 2.0)).sum()
        };
        let fitted = fitting.run(&Candle, &Tensor::new(image.as_tensor()).unwrap());
        let fitted = fitted.unwrap();
        let shape = fitted.shape();
        let weights = Array {
            shape: vec![1, shape.c, shape.h, shape.w],
            data: (0..shape.c * shape.h * shape.w)
                .map(|i| (i % 7) as f32 - 2.0)
                .collect(),
        };
        let weights = Candle.upload(&weights).unwrap();
        let sum = (fitted.candle() * weights.candle())
            .unwrap()
            .sum_all()
            .unwrap();
        let found = crate::diffusion::tape::gradient(&sum, &image).unwrap();
        for i in 0..start.len() {
            let mut moved = start.clone();
            moved.data[i] = 1.0;
            // The map is linear.
            let moved = fitting
                .run(&Candle, &Candle.upload(&moved).unwrap())
                .unwrap();
            let expected = weigh(&Candle.download(&moved).unwrap());
            assert!((found.data[i] - expected).abs() < 1e-4, "{i}");
        }
    }

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
