//! Proof that weights work: the network is built on the CPU and runs one grey image.

use super::card::{Card, Role};
use super::checksum::sha256;
use super::embedded;
use super::error::{Result, WeightsError};
use super::lpips;
use super::registry::Registry;
use crate::nets::{
    AlexNet, Architecture, Autoencoder, Backbone, BexGenerator, FidTap, Inception, InvertibleNet,
    NetError, SqueezeNet, Unet, UnetConfig, Vgg16, build,
};
use crate::tensor::candle::Candle;
use crate::tensor::{Array, Backend, Kept, StateDict, cpu::Cpu};

impl Registry {
    /// Loads a card's weights (with all checks), runs them once and says what was seen.
    pub fn verify(&self, card: &Card) -> Result<String> {
        let loaded = self.load(card)?;
        trial(card, &loaded.dict, &loaded.source)
    }

    /// Compares a file inside the program with the checksum in the registry.
    pub fn verify_shipped(&self) -> Result<usize> {
        for shipped in self.shipped() {
            let bytes = embedded::bytes(&shipped.file).unwrap_or_default();
            let expected = super::checksum::Expected {
                sha256: Some(shipped.sha256.clone()),
                prefix: None,
            };
            let todo = "The program is damaged: install it again";
            expected.check(&format!("embedded {}", shipped.file), &sha256(bytes), todo)?;
        }
        Ok(self.shipped().len())
    }
}

/// Builds the network and runs one grey image.
pub(super) fn trial(card: &Card, dict: &StateDict, shown: &str) -> Result<String> {
    let misfit = |source: NetError| WeightsError::Net {
        file: shown.into(),
        name: card.name.clone(),
        architecture: card.architecture.name().into(),
        source: Box::new(source),
    };
    let unfit = |expected: String, found: String| WeightsError::Misfit {
        file: shown.into(),
        name: card.name.clone(),
        expected,
        found,
    };
    let finite = |what: &str, arrays: &[Array]| {
        let bad = arrays.iter().flat_map(|a| &a.data).find(|x| !x.is_finite());
        match bad {
            None => Ok(()),
            Some(x) => Err(unfit(format!("finite {what}"), x.to_string())),
        }
    };
    match card.role {
        Role::Classifier => {
            let logits = classify(card, dict).map_err(misfit)?;
            let classes = logits.len();
            if !card.labels.is_empty() && card.labels.len() != classes {
                let expected = format!("{} classes, one per label", card.labels.len());
                return Err(unfit(expected, format!("{classes} classes")));
            }
            finite("logits", &[logits])?;
            Ok(format!("{classes} classes"))
        }
        Role::LpipsBackbone => {
            let taps = taps(card.architecture, dict).map_err(misfit)?;
            let found: Vec<usize> = taps.iter().map(|tap| tap.shape[1]).collect();
            if let Some(family) = &card.heads {
                let expected = lpips::channels(family);
                if found != expected || lpips::shipped_heads(family)?.len() != expected.len() {
                    return Err(unfit(format!("taps of {expected:?}"), format!("{found:?}")));
                }
            }
            finite("features", &taps)?;
            Ok(format!("{} taps", taps.len()))
        }
        Role::FidFeatures => {
            let features = fid_features(dict).map_err(misfit)?;
            let sizes: Vec<String> = features.iter().map(|f| f.len().to_string()).collect();
            finite("features", &features)?;
            Ok(format!("features {}", sizes.join(", ")))
        }
        Role::Encoder => {
            let outputs = classify(card, dict).map_err(misfit)?;
            let count = outputs.len();
            finite("outputs", &[outputs])?;
            Ok(format!("{count} outputs"))
        }
        Role::Autoencoder | Role::Denoiser => {
            let image = redraw(card, dict).map_err(misfit)?;
            let channels = image.shape[1];
            finite("pixels", &[image])?;
            Ok(format!("{channels} channels"))
        }
        Role::Invertible => {
            let densities = densities(card, dict).map_err(misfit)?;
            let classes = densities.len();
            finite("densities", &[densities])?;
            Ok(format!("{classes} classes"))
        }
        Role::Generator => {
            let image = generate(card.architecture, dict).map_err(misfit)?;
            let shape = format!("images {:?}", &image.shape[1..]);
            finite("pixels", &[image])?;
            Ok(shape)
        }
    }
}

/// An image of one grey, with as many channels as a card's network takes.
fn grey_for(card: &Card, size: [usize; 2]) -> Array {
    let [h, w] = size;
    let mut image = Array::zeros([1, card.preprocessing.channel_order().len(), h, w]);
    image.data.fill(0.1);
    image
}

fn grey(size: [usize; 2]) -> Array {
    let [h, w] = size;
    let mut image = Array::zeros([1, 3, h, w]);
    image.data.fill(0.1);
    image
}

fn classify(card: &Card, dict: &StateDict) -> std::result::Result<Array, NetError> {
    let size = card.preprocessing.input_size().unwrap_or([224, 224]);
    let network = build(card.architecture, &Cpu, dict, &card.unet)?;
    let image = Cpu.upload(&grey_for(card, size))?;
    Ok(Cpu.download(&network.predict(&Cpu, &image)?.logits)?)
}

/// Log-densities of a grey image by an invertible network, for each class.
fn densities(card: &Card, dict: &StateDict) -> std::result::Result<Array, NetError> {
    let size = card.preprocessing.input_size().unwrap_or([28, 28]);
    let network = InvertibleNet::new(&Candle, dict)?;
    let image = grey_for(card, size);
    let found = network.log_densities(&network.forward(&Candle, &image)?.z)?;
    let found = crate::tensor::candle::Tensor::new(&found)?;
    Ok(Candle.download(&found)?)
}

/// What a network that gives images makes of a grey one.
fn redraw(card: &Card, dict: &StateDict) -> std::result::Result<Array, NetError> {
    let size = card.preprocessing.input_size().unwrap_or([64, 64]);
    let image = Cpu.upload(&grey_for(card, size))?;
    let redrawn = match card.role {
        Role::Denoiser => {
            // A torso in half precision is for devices with gradients; its weights are the same.
            let config = UnetConfig {
                torso: Kept::F32,
                ..card.denoiser.clone()
            };
            let network = Unet::new(&Cpu, dict, config)?;
            network.predict(&Cpu, &image, &[0.0], None)?
        }
        _ => Autoencoder::new(&Cpu, dict)?.reconstruct(&Cpu, &image)?,
    };
    Ok(Cpu.download(&redrawn)?)
}

fn taps(architecture: Architecture, dict: &StateDict) -> std::result::Result<Vec<Array>, NetError> {
    let network: Box<dyn Backbone<Cpu>> = match architecture {
        Architecture::AlexNet => Box::new(AlexNet::new(&Cpu, dict)?),
        Architecture::Vgg16 => Box::new(Vgg16::new(&Cpu, dict)?),
        Architecture::SqueezeNet => Box::new(SqueezeNet::new(&Cpu, dict)?),
        other => {
            return Err(NetError::Config(format!(
                "{other} is no LPIPS backbone; use alexnet, vgg16 or squeezenet1_1"
            )));
        }
    };
    let image = Cpu.upload(&grey([64, 64]))?;
    let taps = network.taps(&Cpu, &image)?;
    let taps = taps.iter().map(|tap| Cpu.download(tap));
    Ok(taps.collect::<std::result::Result<_, _>>()?)
}

/// The image of the latent vector 0.
fn generate(architecture: Architecture, dict: &StateDict) -> std::result::Result<Array, NetError> {
    if architecture != Architecture::BexGenerator {
        return Err(NetError::Config(format!(
            "{architecture} is no generator; use bex_generator"
        )));
    }
    let network = BexGenerator::new(&Cpu, dict)?;
    let latent = Cpu.upload(&Array::zeros([1, network.latent()]))?;
    Ok(Cpu.download(&network.generate(&Cpu, &latent)?)?)
}

fn fid_features(dict: &StateDict) -> std::result::Result<Vec<Array>, NetError> {
    let whole = dict.names().any(|name| name.starts_with("Mixed_"));
    let taps: &[FidTap] = if whole {
        &FidTap::ALL
    } else {
        &[FidTap::F64, FidTap::F192]
    };
    let deepest = if whole { FidTap::F2048 } else { FidTap::F192 };
    let network = Inception::new(&Cpu, dict, deepest)?;
    let image = Cpu.upload(&grey([299, 299]))?;
    let features = network.features_at(&Cpu, &image, taps)?;
    let features = features.iter().map(|f| Cpu.download(f));
    Ok(features.collect::<std::result::Result<_, _>>()?)
}
