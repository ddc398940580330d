//! The denoiser and the classifiers of a run, opened from their cards.

use super::{GenerateError, Result};
use crate::diffusion::{Clean, Denoiser, Fitting, Guide, NoiseAware, Unconditional};
use crate::nets::{Architecture, Unet, UnetEncoder, build};
use crate::tensor::candle::{Candle, Differentiable, Tensor};
use crate::tensor::{Array, Backend, Resize, WithGradients};
use crate::weights::{Card, Channels, DiffusionConfig, Preprocessing, Registry, Role};

/// Denoiser and classifiers, ready for gradients.
pub struct Networks {
    pub unet: Box<dyn Denoiser>,
    pub classifier: Box<dyn Guide>,
    pub robust: Option<Box<dyn Guide>>,
    /// Side of the images that the denoiser draws.
    pub size: usize,
    /// Class names of the classifier.
    pub labels: Vec<String>,
    diffusion: DiffusionConfig,
    /// Names and checksums.
    identity: serde_json::Value,
    arithmetic: &'static str,
}

impl Networks {
    /// Opens them by name or path of their cards, on one device.
    pub fn open(
        registry: &Registry,
        unet: &str,
        classifier: &str,
        robust: Option<&str>,
        device: &WithGradients,
    ) -> Result<Self> {
        match device {
            WithGradients::Engine(b) => Self::on(b, registry, unet, classifier, robust),
            WithGradients::Composed(b) => Self::on(b, registry, unet, classifier, robust),
        }
    }

    fn on(
        backend: &impl Differentiable,
        registry: &Registry,
        unet: &str,
        classifier: &str,
        robust: Option<&str>,
    ) -> Result<Self> {
        let wrong = |name: &str, what: &str| GenerateError::Network {
            name: name.into(),
            what: what.into(),
        };
        let card = registry.card(unet)?;
        let (Role::Denoiser, Some(diffusion)) = (card.role, card.diffusion) else {
            let what = "not a denoiser: its card needs role = \"denoiser\" and diffusion = { schedule = \"…\", steps = … }";
            return Err(wrong(unet, what));
        };
        let size = match card.preprocessing.input_size() {
            Some([h, w]) if h == w => h,
            _ => {
                let what =
                    "its card must say in [preprocessing] to which square size images are brought";
                return Err(wrong(unet, what));
            }
        };
        if !(1..=100_000).contains(&diffusion.steps) {
            return Err(wrong(
                unet,
                "its card must give diffusion.steps from 1 to 100000",
            ));
        }
        let loaded = registry.load(&card)?;
        let network = Unconditional {
            net: Unet::new(backend, &loaded.dict, card.denoiser.clone())?,
            backend: backend.clone(),
        };
        let open = |name: &str| open(backend, registry, name, size);
        let (classifier_card, classifier_sha, guide) = open(classifier)?;
        let robust = robust.map(open).transpose()?;
        let classes = |guide: &dyn Guide| -> Result<usize> {
            let image = backend.upload(&Array::zeros([1, 3, size, size]))?;
            Ok(guide.logits(&image, &[0.0])?.shape().c)
        };
        if let Some((card, _, other)) = &robust {
            let [found, expected] = [classes(other.as_ref())?, classes(guide.as_ref())?];
            if found != expected {
                let what = format!("it knows {found} classes, {classifier} knows {expected}");
                return Err(wrong(&card.name, &what));
            }
        }
        let identity = serde_json::json!({
            "unet": [card.name, loaded.sha256],
            "classifier": [classifier_card.name, classifier_sha],
            "robust": robust.as_ref().map(|(card, sha, _)| [card.name.clone(), sha.clone()]),
        });
        Ok(Self {
            unet: Box::new(network),
            classifier: guide,
            robust: robust.map(|(_, _, guide)| guide),
            size,
            labels: classifier_card.labels,
            diffusion,
            identity,
            arithmetic: backend.arithmetic(),
        })
    }

    pub fn diffusion(&self) -> DiffusionConfig {
        self.diffusion
    }

    pub fn identity(&self) -> serde_json::Value {
        self.identity.clone()
    }

    /// How their device multiplies; see [`Backend::arithmetic`].
    pub fn arithmetic(&self) -> &'static str {
        self.arithmetic
    }

    /// What the classifier says of images NCHW from −1 to 1 without noise.
    pub fn logits(&self, images: &Array) -> Result<Array> {
        let seen: Tensor = Candle.upload(images)?.on(&self.unet.device())?;
        let steps = vec![0.0; images.shape[0]];
        let logits = self.classifier.logits(&seen, &steps)?;
        Ok(Candle.download(&logits)?)
    }
}

/// A classifier that looks at images of the denoiser, from −1 to 1.
fn open<B: Differentiable>(
    backend: &B,
    registry: &Registry,
    name: &str,
    size: usize,
) -> Result<(Card, String, Box<dyn Guide>)> {
    let card = registry.card(name)?;
    if card.role != Role::Classifier {
        return Err(GenerateError::Network {
            name: name.into(),
            what: format!(
                "not a classifier: the role of its card is {}",
                card.role.name()
            ),
        });
    }
    let loaded = registry.load(&card)?;
    let fitting = fitting(&card.preprocessing, size);
    let guide: Box<dyn Guide> = match card.architecture {
        Architecture::UnetEncoder => Box::new(NoiseAware {
            net: UnetEncoder::new(backend, &loaded.dict, card.unet.clone())?,
            backend: backend.clone(),
            fitting,
        }),
        architecture => Box::new(Clean {
            net: build(architecture, backend, &loaded.dict, &card.unet)?,
            backend: backend.clone(),
            fitting,
        }),
    };
    Ok((card, loaded.sha256, guide))
}

/// From values −1 to 1 to what a card's preprocessing makes of the pixels: `(127.5 · (x + 1) · scale − mean) / std`.
/// Images of another size than the network's are resized, with gradients.
fn fitting(p: &Preprocessing, size: usize) -> Fitting {
    let order = match p.channels {
        Channels::Rgb => [0, 1, 2],
        Channels::Bgr => [2, 1, 0],
    };
    let half = 127.5 * p.scale;
    Fitting {
        size: p
            .input_size()
            .filter(|&[h, w]| [h, w] != [size; 2])
            .map(|size| (size, Resize::Antialias)),
        channels: Some((
            order,
            p.std.map(|s| half / s),
            std::array::from_fn(|c| (half - p.mean[c]) / p.std[c]),
        )),
    }
}
