//! The denoiser and the classifiers of a run, opened from their cards.

use std::path::Path;

use super::perceptual;
use super::{GenerateError, Result};
use crate::diffusion::{Clean, Denoiser, Features, Fitting, Guide, NoiseAware, Unconditional};
use crate::nets::{Architecture, Unet, UnetEncoder, build};
use crate::tensor::candle::{Candle, Differentiable, Tensor};
use crate::tensor::{Array, Backend, Kept, TensorError, WithGradients};
use crate::weights::{
    Card, Channels, DiffusionConfig, Preprocessing, Registry, ResizeTo, Role, sha256,
};

/// Names or paths of the cards of a run's networks.
#[derive(Clone, Copy, Debug)]
pub struct Cards<'a> {
    pub unet: &'a str,
    pub classifier: &'a str,
    pub robust: Option<&'a str>,
    /// Backbone of LPIPS for the perceptual distance of DiME.
    pub perceptual: Option<&'a str>,
    /// Runs blocks of the denoiser again on the way back: less memory, more time, the same bits.
    pub checkpointing: bool,
    /// Type that the denoiser's torso is kept in; `None` for what its card says.
    pub precision: Option<Kept>,
}

fn wrong(name: &str, what: &str) -> GenerateError {
    GenerateError::Network {
        name: name.into(),
        what: what.into(),
    }
}

/// What the card of a denoiser says of the images that it draws.
struct Drawing {
    card: Card,
    diffusion: DiffusionConfig,
    size: usize,
}

impl Drawing {
    fn of(registry: &Registry, unet: &str) -> Result<Self> {
        let card = registry.card(unet)?;
        let (Role::Denoiser, Some(diffusion)) = (card.role, card.diffusion) else {
            let what = "not a denoiser: its card needs role = \"denoiser\" and diffusion = { schedule = \"…\", steps = … }";
            return Err(wrong(unet, what));
        };
        let size = drawn_size(&card.preprocessing).map_err(|what| wrong(unet, &what))?;
        if !(1..=100_000).contains(&diffusion.steps) {
            let what = "its card must give diffusion.steps from 1 to 100000";
            return Err(wrong(unet, what));
        }
        Ok(Self {
            card,
            diffusion,
            size,
        })
    }
}

/// Opens every network of many runs once, one after the other, and refuses what [`Networks::open`] or a judge would refuse: weights
/// that do not fit, another schedule of noise, a classifier without gradients or with other classes than the robust one. `judges` are
/// asked without gradients only.
pub fn check(
    registry: &Registry,
    unet: &str,
    classifiers: &[&str],
    robust: Option<&str>,
    judges: &[&str],
    device: &WithGradients,
) -> Result<()> {
    match device {
        WithGradients::Engine(b) => check_on(b, registry, unet, classifiers, robust, judges),
        WithGradients::Composed(b) => check_on(b, registry, unet, classifiers, robust, judges),
    }
}

fn check_on(
    backend: &impl Differentiable,
    registry: &Registry,
    unet: &str,
    classifiers: &[&str],
    robust: Option<&str>,
    judges: &[&str],
) -> Result<()> {
    let Drawing {
        card,
        diffusion,
        size,
    } = Drawing::of(registry, unet)?;
    let loaded = registry.load(&card)?;
    let net = Unet::new(backend, &loaded.dict, card.denoiser.clone());
    drop(net.map_err(|e| wrong(unet, &e.to_string()))?);
    let known = |name: &str| -> Result<(Card, usize)> {
        let (card, _, guide) = open(backend, registry, name, size, diffusion)?;
        let classes = classes(backend, guide.as_ref(), size)?;
        Ok((card, classes))
    };
    let robust = robust.map(known).transpose()?;
    for name in classifiers {
        let (card, expected) = known(name)?;
        if let Some((robust, found)) = &robust {
            same_classes(robust, *found, &card, expected)?;
        }
    }
    for name in judges {
        let card = registry.card(name)?;
        let loaded = registry.load(&card)?;
        if card.architecture != Architecture::UnetEncoder {
            let net = build(card.architecture, backend, &loaded.dict, &card.unet);
            drop(net.map_err(|e| wrong(name, &e.to_string()))?);
        }
    }
    Ok(())
}

/// How many classes a classifier tells apart.
fn classes(backend: &impl Differentiable, guide: &dyn Guide, size: usize) -> Result<usize> {
    let image = backend.upload(&Array::zeros([1, 3, size, size]))?;
    Ok(guide.logits(&image, &[0.0])?.shape().c)
}

/// A robust classifier has to know the classes of the explained one.
fn same_classes(robust: &Card, found: usize, explained: &Card, expected: usize) -> Result<()> {
    // A network without labels gives something else than classes: whoever numbers it knows what they do.
    if found != expected && !explained.labels.is_empty() {
        let what = format!(
            "it knows {found} classes, {} knows {expected}",
            explained.name
        );
        return Err(wrong(&robust.name, &what));
    }
    Ok(())
}

/// Denoiser and classifiers, ready for gradients.
pub struct Networks {
    pub unet: Box<dyn Denoiser>,
    pub classifier: Box<dyn Guide>,
    pub robust: Option<Box<dyn Guide>>,
    /// Features of a perceptual distance.
    pub(super) perceptual: Option<Box<dyn Features>>,
    /// Side of the images that the denoiser draws.
    pub size: usize,
    /// Class names of the classifier.
    pub labels: Vec<String>,
    diffusion: DiffusionConfig,
    /// Names and checksums.
    identity: serde_json::Value,
    /// Type of the denoiser's torso.
    pub(super) torso: Kept,
    arithmetic: &'static str,
    side_by_side: usize,
}

impl Networks {
    /// Opens them by name or path of their cards, on one device.
    pub fn open(registry: &Registry, cards: &Cards<'_>, device: &WithGradients) -> Result<Self> {
        match device {
            WithGradients::Engine(b) => Ok(Self {
                side_by_side: rayon::current_num_threads(),
                ..Self::on(b, registry, cards)?
            }),
            WithGradients::Composed(b) => Self::on(b, registry, cards),
        }
    }

    fn on(backend: &impl Differentiable, registry: &Registry, cards: &Cards<'_>) -> Result<Self> {
        let &Cards {
            unet,
            classifier,
            robust,
            perceptual,
            checkpointing,
            precision,
        } = cards;
        let Drawing {
            card,
            diffusion,
            size,
        } = Drawing::of(registry, unet)?;
        let loaded = registry.load(&card)?;
        let mut config = card.denoiser.clone();
        config.torso = precision.unwrap_or(config.torso);
        let torso = config.torso;
        let described = described(&[&config, &card.preprocessing, &diffusion]);
        let net = Unet::new(backend, &loaded.dict, config);
        let net = net.map_err(|e| wrong(unet, &e.to_string()))?;
        let network = Unconditional {
            net: net.with_checkpointing(checkpointing),
            backend: backend.clone(),
        };
        let open = |name: &str| open(backend, registry, name, size, diffusion);
        let (classifier_card, classifier_sha, guide) = open(classifier)?;
        let robust = robust.map(open).transpose()?;
        if let Some((card, _, other)) = &robust {
            let found = classes(backend, other.as_ref(), size)?;
            let expected = classes(backend, guide.as_ref(), size)?;
            same_classes(card, found, &classifier_card, expected)?;
        }
        let perceptual = perceptual
            .map(|name| perceptual::open(backend, registry, name))
            .transpose()?;
        let identity = serde_json::json!({
            "perceptual": perceptual.as_ref().map(|(_, sha256)| sha256),
            "unet": [card.name, loaded.sha256, described],
            "torso": torso.name(),
            "classifier": named(&classifier_card, &classifier_sha),
            "robust": robust.as_ref().map(|(card, sha, _)| named(card, sha)),
        });
        Ok(Self {
            unet: Box::new(network),
            classifier: guide,
            robust: robust.map(|(_, _, guide)| guide),
            perceptual: perceptual.map(|(features, _)| features),
            size,
            labels: classifier_card.labels,
            diffusion,
            torso,
            identity,
            arithmetic: backend.arithmetic(),
            side_by_side: 1,
        })
    }

    pub fn diffusion(&self) -> DiffusionConfig {
        self.diffusion
    }

    pub fn identity(&self) -> serde_json::Value {
        self.identity.clone()
    }

    /// Parts of a batch that best run at once: a GPU takes it whole.
    pub(super) fn side_by_side(&self) -> usize {
        self.side_by_side
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

/// Side of the images that a denoiser draws, which its card has to say: what holds for other networks where a card says nothing is
/// a piece of an image.
fn drawn_size(p: &Preprocessing) -> std::result::Result<usize, String> {
    let brought = p.resize.as_ref().map(|resize| resize.size);
    let found = match (brought, p.crop) {
        (Some(ResizeTo::Exact(size)), None) => Some(size),
        (Some(ResizeTo::Exact(size)), Some(crop)) if size == crop => Some(size),
        (Some(ResizeTo::ShorterSide(side)), Some(crop)) if crop == [side; 2] => Some(crop),
        (None, crop) => crop,
        _ => None,
    };
    match found {
        Some([h, w]) if h == w => Ok(h),
        _ => {
            let usual = Preprocessing::default();
            let unsaid = (&p.resize, p.crop) == (&usual.resize, usual.crop);
            Err(format!(
                "expected the one square size of the images that it draws, found resize {}, crop {}{}: give its card \
                 [preprocessing] with resize = {{ size = [256, 256] }} (height and width) and crop = \"none\"",
                sides(brought),
                sides(p.crop.map(ResizeTo::Exact)),
                match unsaid {
                    true => " (as for every card that says nothing of sizes)",
                    false => "",
                },
            ))
        }
    }
}

fn sides(size: Option<ResizeTo>) -> String {
    match size {
        None => "\"none\"".into(),
        Some(ResizeTo::ShorterSide(side)) => format!("to a shorter side of {side}"),
        Some(ResizeTo::Exact(size)) => format!("to {size:?}"),
    }
}

/// What a network says depends on: its name, its weights, and what its card makes of an image.
pub fn named(card: &Card, sha256: &str) -> [String; 3] {
    let described = match card.role {
        Role::Denoiser => described(&[&card.denoiser, &card.preprocessing, &card.diffusion]),
        _ => described(&[
            &card.architecture,
            &card.preprocessing,
            &card.unet,
            &card.labels,
        ]),
    };
    [card.name.clone(), sha256.to_owned(), described]
}

/// A checksum of settings.
fn described(parts: &[&dyn std::fmt::Debug]) -> String {
    sha256(format!("{parts:?}").as_bytes())
}

/// A classifier that looks at images of the denoiser, from −1 to 1.
fn open<B: Differentiable>(
    backend: &B,
    registry: &Registry,
    name: &str,
    size: usize,
    diffusion: DiffusionConfig,
) -> Result<(Card, String, Box<dyn Guide>)> {
    let card = registry.card(name)?;
    let wrong = |what: String| GenerateError::Network {
        name: name.into(),
        what,
    };
    if card.role != Role::Classifier {
        let role = card.role.name();
        return Err(wrong(format!(
            "not a classifier: the role of its card is {role}"
        )));
    }
    if let Some(own) = card.diffusion.filter(|own| *own != diffusion) {
        return Err(wrong(format!(
            "it was trained on the noise of a {} schedule of {} steps, the denoiser has a {} one of {}: their steps mean \
             other things",
            own.schedule.name(),
            own.steps,
            diffusion.schedule.name(),
            diffusion.steps
        )));
    }
    if card.preprocessing.channels == Channels::Grey {
        return Err(wrong(
            "it takes grey images, and the denoiser draws colour ones: give a classifier of colour images".into(),
        ));
    }
    let loaded = registry.load(&card)?;
    let fitting = fitting(backend, &card.preprocessing, size).map_err(|e| {
        wrong(format!(
            "its [preprocessing] does not fit images of {size}x{size} pixels, which the denoiser draws: {e}"
        ))
    })?;
    let guide: Box<dyn Guide> = match card.architecture {
        Architecture::UnetEncoder => Box::new(NoiseAware {
            net: UnetEncoder::new(backend, &loaded.dict, card.unet.clone())
                .map_err(|e| wrong(e.to_string()))?,
            backend: backend.clone(),
            fitting,
        }),
        architecture => Box::new(Clean {
            net: build(architecture, backend, &loaded.dict, &card.unet)
                .map_err(|e| wrong(e.to_string()))?,
            backend: backend.clone(),
            fitting,
        }),
    };
    let found = has_gradient(backend, guide.as_ref(), size).map_err(|e| {
        wrong(format!(
            "it cannot look at the images that the denoiser draws, 3 channels of {size}x{size} pixels: {e}"
        ))
    })?;
    if !found {
        return Err(wrong(
            "no gradient: what it says of an image cannot be differentiated by the image, so that it cannot guide. Give a \
             network all of whose operations have gradients"
                .into(),
        ));
    }
    Ok((card, loaded.sha256, guide))
}

/// Why what a name means cannot guide, if it names no card: files of logits have no way back to an image, nor has a network of a
/// format that is only run forwards.
pub fn without_gradients(name: &str) -> Option<String> {
    let extension = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    let what = match extension.as_str() {
        "csv" | "npy" | "npz" => "a file of logits",
        "onnx" => "an ONNX network",
        _ => return None,
    };
    Some(format!(
        "{what} has no gradients, so that it cannot guide: give a model card (.toml) or one of `foil weights list`, whose \
         network foil runs itself"
    ))
}

/// Whether the opinion of a classifier is on the tape of the image it looks at; a gradient of zero is one.
fn has_gradient(backend: &impl Differentiable, guide: &dyn Guide, size: usize) -> Result<bool> {
    let image = backend.variable(&Array::zeros([1, 3, size, size]))?;
    let logits = guide.logits(&Tensor::new(image.as_tensor())?, &[0.0])?;
    let gradients = logits.candle().sum_all().and_then(|sum| sum.backward());
    let gradients = gradients.map_err(|e| TensorError::Device(e.to_string()))?;
    Ok(gradients.get(image.as_tensor()).is_some())
}

/// From values −1 to 1 to what a card's preprocessing makes of the pixels: resize with its filter and centre crop as for
/// [`Preprocessing::fit`], then `(127.5 · (x + 1) · scale − mean) / std`; with gradients.
fn fitting<B: Differentiable>(backend: &B, p: &Preprocessing, size: usize) -> Result<Fitting<B>> {
    let order = match p.channels {
        // Networks of grey images are refused before.
        Channels::Rgb | Channels::Grey => [0, 1, 2],
        Channels::Bgr => [2, 1, 0],
    };
    let half = 127.5 * p.scale;
    let passes = p.passes([size; 2])?;
    let mut fitting = Fitting::new(backend, [size; 2], &passes)?;
    fitting.channels = Some((
        order,
        p.std.map(|s| half / s),
        std::array::from_fn(|c| (half - p.mean[c]) / p.std[c]),
    ));
    Ok(fitting)
}
