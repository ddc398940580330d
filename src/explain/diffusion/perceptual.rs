//! Features of images for DiME's perceptual distance: the third tap of a backbone of LPIPS, which for VGG is the last
//! layer of its third block, as in the public code.

use super::{GenerateError, Result};
use crate::diffusion::{DiffusionError, Features};
use crate::nets::{AlexNet, Backbone, NetError, Vgg16};
use crate::tensor::candle::{Candle, Tensor};
use crate::weights::Registry;

const TAP: usize = 2;

/// A backbone that looks at images with ImageNet's means and deviations.
pub struct Perceptual {
    net: Box<dyn Backbone<Candle>>,
    pub sha256: String,
}

impl Perceptual {
    pub fn open(registry: &Registry, name: &str) -> Result<Self> {
        let weights = match name {
            "alex" | "vgg" => registry.lpips(name)?,
            _ => {
                return Err(GenerateError::Network {
                    name: name.into(),
                    what: "no features for a perceptual distance: use alex or vgg".into(),
                });
            }
        };
        Ok(Self {
            net: match name {
                "vgg" => Box::new(Vgg16::new(&Candle, &weights.backbone)?),
                _ => Box::new(AlexNet::new(&Candle, &weights.backbone)?),
            },
            sha256: weights.sha256,
        })
    }
}

impl Features for Perceptual {
    fn features(&self, images: &Tensor) -> std::result::Result<Tensor, DiffusionError> {
        let mut taps = self.net.taps(&Candle, images)?;
        if taps.len() <= TAP {
            let lacking = format!("a backbone of {} taps, expected at least 3", taps.len());
            return Err(NetError::Config(lacking).into());
        }
        Ok(taps.swap_remove(TAP))
    }
}
