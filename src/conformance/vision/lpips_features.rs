//! An LPIPS network of the golden data with the features of all pictures its cases name, each computed once.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Result;
use super::super::check::Check;
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::pictures::{Album, Picture, upload};
use super::super::weight_table::{merge_stored, regenerate};
use crate::metrics::lpips::{Lpips, LpipsDistance, LpipsNet};
use crate::tensor::{Backend, StateDict};

/// Pictures in one pass: bounds the memory of VGG's activations.
const BATCH: usize = 8;

/// The network of the folder: backbone from the formula table or the stored file (which must agree), heads
/// from the stored file. None, noted as absent, if a part is missing.
pub fn network<B: Backend + 'static>(
    backend: &B,
    folder: &Folder,
    net: LpipsNet,
    check: &mut Check,
) -> Result<Option<Lpips<B>>> {
    let name = net.name();
    let table = regenerate(folder, &format!("lpips_{name}_weights_table.json"), check)?;
    let mut dict = table.unwrap_or_default();
    for file in [
        format!("lpips_{name}.safetensors"),
        format!("lpips_{name}_heads.safetensors"),
    ] {
        if let Some(stored) = folder.tensors(&file)? {
            merge_stored(&mut dict, &stored, check)?;
        }
    }
    let heads = heads(&mut dict, "");
    if heads.is_empty() || dict.is_empty() {
        check.absent(format!(
            "LPIPS {name}: all cases (its heads or backbone are absent)"
        ));
        return Ok(None);
    }
    let lpips = Lpips::new(backend, net, &dict, heads).of(format!("lpips_{name} weights"))?;
    Ok(Some(lpips))
}

/// Takes the heads `<prefix>lin0.model.1.weight`, … out of a state dict.
pub fn heads(dict: &mut StateDict, prefix: &str) -> Vec<Vec<f32>> {
    (0..)
        .map_while(|k| dict.remove(&format!("{prefix}lin{k}.model.1.weight")))
        .map(|array| array.data)
        .collect()
}

/// How pixels become the network's input.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Range {
    /// `pixel / 127.5 − 1`, as LPIPS wants it.
    Right,
    /// `pixel / 255` given as if it were in [-1, 1]: the usual mistake.
    Wrong,
}

/// Features by picture.
pub struct Features<'a, B: Backend> {
    pub lpips: &'a Lpips<B>,
    backend: &'a B,
    taps: BTreeMap<(Range, String), Vec<B::Tensor>>,
}

impl<'a, B: Backend + 'static> Features<'a, B> {
    pub fn new(backend: &'a B, lpips: &'a Lpips<B>) -> Self {
        Self {
            lpips,
            backend,
            taps: BTreeMap::new(),
        }
    }

    /// Computes the features of pictures, batched by size. All must be in the album.
    pub fn add(&mut self, range: Range, names: &BTreeSet<&str>, album: &Album) -> Result<()> {
        let mut sizes: BTreeMap<(usize, usize), Vec<(&str, &Picture)>> = BTreeMap::new();
        for name in names {
            if let Some(picture) = album.get(name) {
                sizes
                    .entry(picture.size())
                    .or_default()
                    .push((name, picture));
            }
        }
        let (factor, offset) = match range {
            Range::Right => (1.0 / 127.5, -1.0),
            Range::Wrong => (1.0 / 255.0, 0.0),
        };
        for batch in sizes.values().flat_map(|pictures| pictures.chunks(BATCH)) {
            let pictures: Vec<&Picture> = batch.iter().map(|(_, p)| *p).collect();
            let images = upload(self.backend, &pictures)?;
            let taps = self
                .lpips
                .features(self.backend, &images, factor, offset)
                .of("LPIPS features")?;
            for (i, (name, _)) in batch.iter().enumerate() {
                let own = taps.iter().map(|t| self.backend.select(t, i)).collect();
                self.taps.insert((range, (*name).into()), own);
            }
        }
        Ok(())
    }

    pub fn of(&self, range: Range, name: &str) -> Option<&[B::Tensor]> {
        let taps = self.taps.get(&(range, name.to_string()));
        taps.map(Vec::as_slice)
    }

    /// Distance of two pictures; none if one is absent.
    pub fn distance(&self, range: Range, a: &str, b: &str) -> Result<Option<LpipsDistance>> {
        let (Some(x), Some(y)) = (self.of(range, a), self.of(range, b)) else {
            return Ok(None);
        };
        let distances = self.lpips.distances(self.backend, x, y);
        Ok(distances.of(format!("LPIPS of {a} and {b}"))?.pop())
    }

    /// Distances of all pairs of pictures; none if one is absent.
    pub fn all_pairs(&self, range: Range, names: &[&str]) -> Result<Option<Vec<LpipsDistance>>> {
        let taps: Option<Vec<&[B::Tensor]>> = names.iter().map(|n| self.of(range, n)).collect();
        let Some(taps) = taps else {
            return Ok(None);
        };
        let distances = self.lpips.all_pairs(self.backend, &taps);
        distances.of("LPIPS of a set").map(Some)
    }
}
