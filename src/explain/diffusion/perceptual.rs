//! Features of images for DiME's perceptual distance: the third tap of a backbone of LPIPS, which for VGG is the last
//! layer of its third block, as in the public code.

use super::{GenerateError, Result};
use crate::diffusion::{DiffusionError, Features};
use crate::nets::{AlexNet, Backbone, NetError, Vgg16};
use crate::tensor::candle::{Differentiable, Tensor};
use crate::weights::Registry;

const TAP: usize = 2;

/// A backbone that looks at images with ImageNet's means and deviations.
struct Perceptual<B: Differentiable> {
    backend: B,
    net: Box<dyn Backbone<B>>,
}

/// Opens `alex` or `vgg`; the second value is the checksum of the weights.
pub fn open<B: Differentiable>(
    backend: &B,
    registry: &Registry,
    name: &str,
) -> Result<(Box<dyn Features>, String)> {
    let weights = match name {
        "alex" | "vgg" => registry.lpips(name)?,
        _ => {
            return Err(GenerateError::Network {
                name: name.into(),
                what: "no features for a perceptual distance: use alex or vgg".into(),
            });
        }
    };
    let net: Box<dyn Backbone<B>> = match name {
        "vgg" => Box::new(Vgg16::new(backend, &weights.backbone)?),
        _ => Box::new(AlexNet::new(backend, &weights.backbone)?),
    };
    let backend = backend.clone();
    Ok((Box::new(Perceptual { backend, net }), weights.sha256))
}

impl<B: Differentiable> Features for Perceptual<B> {
    fn features(&self, images: &Tensor) -> std::result::Result<Tensor, DiffusionError> {
        let mut taps = self.net.taps(&self.backend, images)?;
        if taps.len() <= TAP {
            let lacking = format!("a backbone of {} taps, expected at least 3", taps.len());
            return Err(NetError::Config(lacking).into());
        }
        Ok(taps.swap_remove(TAP))
    }
}
