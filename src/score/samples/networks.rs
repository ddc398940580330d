//! The networks that look at samples: auto-encoders of classes, oracles, label models.

use std::collections::BTreeMap;

use super::{Pixels, SamplesError, Scale};
use crate::nets::{Autoencoder, Classifier};
use crate::tensor::{Array, Backend, StateDict};
use crate::weights::{Channels, Preprocessing};

/// One auto-encoder for each class, and one of all classes.
pub struct Autoencoders<B: Backend> {
    pub by_class: BTreeMap<i64, Autoencoder<B>>,
    pub all: Option<Autoencoder<B>>,
    /// Channels that they take.
    pub channels: usize,
    /// Of the weights, for fingerprints.
    pub sha256: String,
}

impl<B: Backend> Autoencoders<B> {
    /// Builds networks by class; `all` is that of all classes. Each has its own state dict.
    pub fn new(
        backend: &B,
        dicts: &BTreeMap<String, StateDict>,
        sha256: String,
    ) -> Result<Self, SamplesError> {
        let mut set = Self {
            by_class: BTreeMap::new(),
            all: None,
            channels: 0,
            sha256,
        };
        for (name, dict) in dicts {
            let network = format!("auto-encoder {name}");
            let net = Autoencoder::new(backend, dict).map_err(|source| SamplesError::Net {
                network: network.clone(),
                source,
            })?;
            let inputs = dict.get("encoder.0.weight").and_then(|a| a.shape.get(1));
            let inputs = inputs.copied().unwrap_or(0);
            if set.channels != 0 && set.channels != inputs {
                return Err(SamplesError::input(
                    network,
                    format!("{} channels as the others", set.channels),
                    inputs.to_string(),
                    "give auto-encoders of the same images",
                ));
            }
            set.channels = inputs;
            match (name.as_str(), name.parse::<i64>()) {
                ("all", _) => set.all = Some(net),
                // Guides the generation of counterfactuals; no score uses it.
                ("proto", _) => {}
                (_, Ok(class @ 0..)) => drop(set.by_class.insert(class, net)),
                _ => {
                    return Err(SamplesError::input(
                        network,
                        "the number of a class, or `all`",
                        format!("{name:?}"),
                        "name auto-encoders 0, 1, … and all",
                    ));
                }
            }
        }
        Ok(set)
    }

    /// The auto-encoder of a class, which `whose` names: a prediction or target.
    pub fn of(&self, class: i64, whose: &str) -> Result<&Autoencoder<B>, SamplesError> {
        self.by_class.get(&class).ok_or_else(|| {
            let there: Vec<String> = self.by_class.keys().map(ToString::to_string).collect();
            SamplesError::input(
                format!("auto-encoders, {whose}"),
                format!("one of class {class}, which this sample has"),
                format!("those of the classes {}", there.join(", ")),
                format!("give it with --autoencoder {class}=CARD, or a complete file with --autoencoders FILE"),
            )
        })
    }

    /// The auto-encoder of all classes.
    pub fn all(&self) -> Result<&Autoencoder<B>, SamplesError> {
        self.all.as_ref().ok_or_else(|| {
            SamplesError::input(
                "auto-encoders",
                "one of all classes for IM2",
                "none",
                "give it with --autoencoder all=CARD, or leave im2 out",
            )
        })
    }
}

/// Splits one file with the names of the published set (`ae_K.encoder.conv1.weight`, …) into a dict for each network.
pub fn class_autoencoders(
    place: &str,
    dict: &StateDict,
) -> Result<BTreeMap<String, StateDict>, SamplesError> {
    let mut found: BTreeMap<String, StateDict> = BTreeMap::new();
    for (name, array) in dict.iter() {
        let parts: Vec<&str> = name.split('.').collect();
        let own = match parts[..] {
            [
                key,
                side @ ("encoder" | "decoder"),
                layer,
                leaf @ ("weight" | "bias"),
            ] => {
                let number = match layer {
                    "conv1" | "0" => Some(0),
                    "conv2" | "1" => Some(1),
                    "conv3" | "2" => Some(2),
                    _ => None,
                };
                let key = key.strip_prefix("ae_").unwrap_or(key);
                number.map(|n| (key, format!("{side}.{n}.{leaf}")))
            }
            _ => None,
        };
        let Some((key, name)) = own else {
            return Err(SamplesError::input(
                place,
                "tensors such as `ae_3.encoder.conv1.weight` or `ae_all.decoder.conv3.bias`",
                format!("`{name}`"),
                "give a file of auto-encoders, one for each class and `all`",
            ));
        };
        let own = found.entry(key.into()).or_default();
        own.insert(name, array.clone());
    }
    // The network itself would name a lacking tensor without its class, and by another number.
    for (key, own) in &found {
        for (side, layer, leaf) in PARTS {
            if !own.contains(&format!("{side}.{layer}.{leaf}")) {
                return Err(SamplesError::input(
                    place,
                    format!("the tensor `ae_{key}.{side}.conv{}.{leaf}`", layer + 1),
                    "none of that name",
                    "give all weights and biases of every auto-encoder",
                ));
            }
        }
    }
    Ok(found)
}

/// The tensors of an auto-encoder: side, layer, part.
const PARTS: [(&str, usize, &str); 12] = {
    let mut parts = [("encoder", 0, "weight"); 12];
    let mut at = 0;
    while at < 12 {
        let side = if at < 6 { "encoder" } else { "decoder" };
        let leaf = if at % 2 == 0 { "weight" } else { "bias" };
        parts[at] = (side, at % 6 / 2, leaf);
        at += 1;
    }
    parts
};

/// A classifier that is asked about samples.
pub struct LabelModel<B: Backend> {
    pub name: String,
    pub net: Box<dyn Classifier<B>>,
    /// What it expects; without it, the values of the range themselves.
    pub preprocessing: Option<Preprocessing>,
    pub architecture: String,
    pub sha256: String,
}

/// What a model says of samples.
pub struct Said {
    pub logits: Array,
    pub embedding: Array,
}

impl Said {
    /// Classes that the model tells apart; one logit is that of the second of two.
    pub fn classes(&self) -> usize {
        match self.logits.shape[1] {
            1 => 2,
            n => n,
        }
    }
}

impl<B: Backend> LabelModel<B> {
    /// Runs some of the images.
    pub fn look_at(
        &self,
        backend: &B,
        images: &Pixels,
        members: &[usize],
        scale: Scale,
        [low, high]: [f64; 2],
    ) -> Result<Said, SamplesError> {
        let [_, c, h, w] = images.shape;
        let of = |pick: &dyn Fn(f64) -> f64| Array {
            shape: vec![members.len(), c, h, w],
            data: { members.iter() }
                .flat_map(|&i| images.image(i))
                .map(|&v| pick(scale.apply(v)) as f32)
                .collect(),
        };
        let pixels = || of(&|v| (v - low) / (high - low) * 255.0);
        self.look(backend, pixels, || of(&|v| v))
    }

    /// Runs a batch: `pixels` are NCHW values 0..255, `values` the same in the range.
    pub fn look(
        &self,
        backend: &B,
        pixels: impl FnOnce() -> Array,
        values: impl FnOnce() -> Array,
    ) -> Result<Said, SamplesError> {
        let fail = |source| SamplesError::Net {
            network: self.name.clone(),
            source,
        };
        let tensor = |e: crate::tensor::TensorError| fail(e.into());
        let x = match &self.preprocessing {
            None => backend.upload(&values()).map_err(tensor)?,
            Some(p) => {
                let given = pixels();
                let [_, channels, h, w] = given.shape[..] else {
                    return Err(SamplesError::input(
                        &self.name,
                        "NCHW",
                        format!("{:?}", given.shape),
                        "reshape it",
                    ));
                };
                let resized = { p.resize.as_ref() }.is_some_and(|r| r.size.of([h, w]) != [h, w]);
                if resized || p.crop.is_some_and(|c| c != [h, w]) {
                    return Err(SamplesError::input(
                        format!("the card of {}", self.name),
                        format!(
                            "a network of {h}x{w} images: `resize` and `crop` to that size, or \"none\""
                        ),
                        "one that resizes or crops to another",
                        "give a network of the size of the samples",
                    ));
                }
                let order: Vec<usize> = match (p.channels, channels) {
                    (Channels::Grey, 1) => vec![0],
                    (Channels::Grey, _) => {
                        return Err(SamplesError::input(
                            format!("the card of {}", self.name),
                            "a network of colour images",
                            "`channels = \"grey\"`",
                            "give grey samples, or a network of colour images",
                        ));
                    }
                    (_, 1) => vec![0, 0, 0],
                    (Channels::Rgb, _) => vec![0, 1, 2],
                    (Channels::Bgr, _) => vec![2, 1, 0],
                };
                let scale: Vec<f32> = (0..order.len()).map(|k| p.scale / p.std[k]).collect();
                let shift: Vec<f32> = (0..order.len()).map(|k| -p.mean[k] / p.std[k]).collect();
                let x = backend.upload(&given).map_err(tensor)?;
                backend.affine(&x, &order, &scale, &shift).map_err(tensor)?
            }
        };
        let said = self.net.predict(backend, &x).map_err(fail)?;
        let [logits, embedding] = [&said.logits, &said.embedding].map(|t| backend.download(t));
        Ok(Said {
            logits: logits.map_err(tensor)?,
            embedding: embedding.map_err(tensor)?,
        })
    }
}

/// All networks of a run.
pub struct Networks<'a, B: Backend> {
    pub autoencoders: Option<&'a Autoencoders<B>>,
    pub oracles: Vec<&'a LabelModel<B>>,
    pub labels: Vec<&'a LabelModel<B>>,
}
