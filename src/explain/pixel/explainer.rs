//! A method with its networks, opened from their cards.

use super::{Alpha, Ecinn, Networks, Outcome, PixelError, Prototype, Prototypes, Result, Wachter};
use crate::images::Image;
use crate::nets::{Autoencoder, build};
use crate::tensor::candle::{Candle, Differentiable};
use crate::tensor::composed::Composed;
use crate::tensor::{Array, WithGradients};
use crate::weights::{Card, Channels, Loaded, Preprocessing, Registry, Role};

/// A method with its settings; `range` of them is that of the explained network's card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    Gb(Wachter),
    Gl(Prototype),
    Gen(Alpha),
}

impl Method {
    pub fn name(&self) -> &'static str {
        match self {
            Method::Gb(_) => "gb",
            Method::Gl(_) => "gl",
            Method::Gen(_) => "gen",
        }
    }
}

/// What the networks of a method agree on.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// Values of black and white pixels.
    pub range: [f32; 2],
    /// 1 for grey images, 3 for coloured ones.
    pub channels: usize,
    /// Height and width.
    pub size: [usize; 2],
    /// Class names.
    pub labels: Vec<String>,
}

enum Kind {
    Gb(Wachter, Device),
    Gl(Prototype, Device, Option<Prototypes>),
    Gen(Alpha, Box<Ecinn>),
}

/// Networks of GB and GL on the device they are on.
enum Device {
    Engine(Networks<Candle>),
    Composed(Networks<Composed>),
}

/// Runs a function of networks on whichever device they are.
macro_rules! on {
    ($device:expr, $networks:ident => $run:expr) => {
        match $device {
            Device::Engine($networks) => $run,
            Device::Composed($networks) => $run,
        }
    };
}

/// A method that is ready.
pub struct Explainer {
    pub format: Format,
    kind: Kind,
    /// Names and checksums of the networks, and the settings.
    pub identity: serde_json::Value,
}

impl Explainer {
    /// Opens the explained network (GEN: the invertible one) and, for GL, an auto-encoder, by name or path of their cards.
    pub fn open(
        registry: &Registry,
        method: &Method,
        explained: &str,
        autoencoder: Option<&str>,
        device: &WithGradients,
    ) -> Result<Self> {
        let card = registry.card(explained)?;
        let loaded = registry.load(&card)?;
        let format = format(&card)?;
        let identity = |settings: String, second: Option<&Loaded>| {
            serde_json::json!({
                "method": method.name(),
                "settings": settings,
                "networks": [loaded.content_sha256(), second.map(Loaded::content_sha256)],
                "arithmetic": device.arithmetic(),
            })
        };
        if let Method::Gen(alpha) = method {
            if card.role != Role::Invertible {
                return Err(wrong(
                    &card,
                    "method gen wants an invertible network (`foil train inn`)",
                ));
            }
            return Ok(Self {
                identity: identity(format!("{alpha:?}"), None),
                kind: Kind::Gen(*alpha, Box::new(Ecinn::new(&loaded.dict)?)),
                format,
            });
        }
        if card.role != Role::Classifier {
            return Err(wrong(&card, "methods gb and gl explain a classifier"));
        }
        let second = match (method, autoencoder) {
            (Method::Gl(gl), Some(name)) if gl.gamma != 0.0 || gl.theta != 0.0 => {
                let other = registry.card(name)?;
                let weights = registry.load(&other)?;
                let its = self::format(&other)?;
                let same = |f: &Format| (f.range, f.channels, f.size);
                if other.role != Role::Autoencoder || same(&its) != same(&format) {
                    let why = format!(
                        "method gl wants an auto-encoder of images as {} takes them: {:?} with {} channels from {} to {}",
                        card.name, format.size, format.channels, format.range[0], format.range[1]
                    );
                    return Err(wrong(&other, &why));
                }
                Some(weights)
            }
            (Method::Gl(gl), None) if gl.gamma != 0.0 || gl.theta != 0.0 => {
                return Err(PixelError::Setting(
                    "method gl needs an auto-encoder, or weights of 0 for it and for prototypes"
                        .into(),
                ));
            }
            _ => None,
        };
        let networks = match device {
            WithGradients::Engine(b) => Device::Engine(open(b, &card, &loaded, second.as_ref())?),
            WithGradients::Composed(b) => {
                Device::Composed(open(b, &card, &loaded, second.as_ref())?)
            }
        };
        let range = format.range;
        let (kind, settings) = match method {
            Method::Gb(gb) => {
                let gb = Wachter { range, ..*gb };
                (Kind::Gb(gb, networks), format!("{gb:?}"))
            }
            Method::Gl(gl) => {
                let gl = Prototype { range, ..*gl };
                (Kind::Gl(gl, networks, None), format!("{gl:?}"))
            }
            Method::Gen(_) => return Err(wrong(&card, "not a classifier")),
        };
        Ok(Self {
            identity: identity(settings, second.as_ref()),
            kind,
            format,
        })
    }

    /// Gives GL its prototypes, from images NCHW; other methods need none.
    pub fn learn_prototypes(&mut self, images: &Array) -> Result<()> {
        if let Kind::Gl(settings, device, prototypes) = &mut self.kind
            && settings.theta != 0.0
        {
            let learnt = on!(device, networks => Prototypes::new(networks, images))?;
            *prototypes = Some(learnt);
        }
        Ok(())
    }

    /// Whether a target may be left open.
    pub fn takes_any_target(&self) -> bool {
        !matches!(self.kind, Kind::Gen(..))
    }

    /// Probabilities of the classes by the explained network.
    pub fn probabilities(&self, images: &Array) -> Result<Vec<Vec<f32>>> {
        match &self.kind {
            Kind::Gb(_, device) | Kind::Gl(_, device, _) => {
                on!(device, networks => networks.probabilities(images))
            }
            Kind::Gen(_, ecinn) => {
                let [_, probabilities] = ecinn.encode(images, self.format.range)?;
                Ok(probabilities)
            }
        }
    }

    /// Counterfactuals of images NCHW.
    pub fn explain(&self, images: &Array, targets: &[Option<usize>]) -> Result<Vec<Outcome>> {
        match &self.kind {
            Kind::Gb(gb, device) => on!(device, networks => gb.explain(networks, images, targets)),
            Kind::Gl(gl, device, prototypes) => {
                on!(device, networks => gl.explain(networks, prototypes.as_ref(), images, targets))
            }
            Kind::Gen(alpha, ecinn) => {
                let given: Option<Vec<usize>> = targets.iter().copied().collect();
                let given = given.ok_or_else(|| {
                    PixelError::Setting("method gen needs a target class for every image".into())
                })?;
                ecinn.explain(images, self.format.range, &given, *alpha)
            }
        }
    }
}

fn open<B: Differentiable>(
    backend: &B,
    card: &Card,
    classifier: &Loaded,
    autoencoder: Option<&Loaded>,
) -> Result<Networks<B>> {
    let autoencoder = autoencoder.map(|loaded| Autoencoder::new(backend, &loaded.dict));
    Ok(Networks {
        classifier: build(card.architecture, backend, &classifier.dict, &card.unet)?,
        autoencoder: autoencoder.transpose()?,
        backend: backend.clone(),
    })
}

fn wrong(card: &Card, what: &str) -> PixelError {
    PixelError::Network {
        name: card.name.clone(),
        what: what.to_owned(),
    }
}

/// What images a network takes.
fn format(card: &Card) -> Result<Format> {
    let Preprocessing {
        channels,
        scale,
        mean,
        std,
        ..
    } = &card.preprocessing;
    let low = [0, 1, 2].map(|c| -mean[c] / std[c]);
    let high = [0, 1, 2].map(|c| (255.0 * scale - mean[c]) / std[c]);
    let one = |values: [f32; 3]| values.iter().all(|v| (v - values[0]).abs() < 1e-6);
    if *channels == Channels::Bgr || !one(low) || !one(high) {
        return Err(wrong(
            card,
            "its channels have ranges of their own; pixel methods want one range for all (mean and std of its card)",
        ));
    }
    let size = card.preprocessing.input_size();
    let size = size.ok_or_else(|| wrong(card, "its card does not state the size of images"))?;
    Ok(Format {
        range: [round(low[0]), round(high[0])],
        channels: card.preprocessing.channel_order().len(),
        size,
        labels: card.labels.clone(),
    })
}

/// Without the last digits of a quotient, so that −0.5 is −0.5.
fn round(value: f32) -> f32 {
    (value * 1e5).round() / 1e5
}

impl Format {
    /// Images as values NCHW; images for a grey network must be grey.
    pub fn values<'a>(&self, images: impl ExactSizeIterator<Item = &'a Image>) -> Array {
        let [h, w] = self.size;
        let [low, high] = self.range;
        let mut array = Array::zeros([images.len(), self.channels, h, w]);
        let len = self.channels * h * w;
        for (values, image) in array.data.chunks_exact_mut(len.max(1)).zip(images) {
            for (at, pixel) in image.pixels.chunks_exact(3).enumerate() {
                for c in 0..self.channels.min(3) {
                    values[c * h * w + at] = f32::from(pixel[c]) / 255.0 * (high - low) + low;
                }
            }
        }
        array
    }

    /// The way back for one image: RGB, to the nearest of 256 levels.
    pub fn pixels(&self, values: &[f32]) -> Vec<u8> {
        let area = self.size[0] * self.size[1];
        let [low, high] = self.range;
        let pixel = |v: f32| ((v.clamp(low, high) - low) / (high - low) * 255.0).round() as u8;
        let channel = |c: usize| if self.channels == 1 { 0 } else { c };
        (0..area)
            .flat_map(|at| [0, 1, 2].map(|c| pixel(values[channel(c) * area + at])))
            .collect()
    }
}
