//! LPIPS, Lp norms and elastic net of two arrays of images.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::json;

use super::Found;
use crate::metrics::lp::{DifferenceSums, per_image, whole_batch};
use crate::metrics::lpips::{Lpips, LpipsNet};
use crate::metrics::published::rescale_batch_by_min_max;
use crate::score::{Protocol, Score};
use crate::tensor::{Array, Backend, StateDict, TypedArrays, Values};
use crate::weights::{self, Registry};

/// Images whose features are computed together.
const BATCH: usize = 8;

/// How LPIPS is to be computed.
pub struct Setup<'a> {
    pub net: LpipsNet,
    pub weights: Option<&'a Path>,
    pub range: [f64; 2],
    pub protocol: Protocol,
}

impl Setup<'_> {
    fn build<B: Backend>(&self, backend: &B) -> anyhow::Result<(Lpips<B>, String)> {
        let registry = Registry::open()?;
        let loaded = match self.weights {
            Some(path) => registry.lpips_from_file(self.net.name(), path)?,
            None => registry.lpips(self.net.name())?,
        };
        let lpips = Lpips::new(backend, self.net, &loaded.backbone, loaded.heads)
            .with_context(|| format!("lpips_{}", self.net.name()))?;
        Ok((lpips, loaded.sha256))
    }

    /// Images in [-1, 1].
    fn images(&self, arrays: &TypedArrays, name: &str) -> anyhow::Result<Array> {
        let mut images = arrays.f32_of_rank(name, 4)?;
        if images.shape[1] != 3 || images.shape[0] == 0 {
            let found = format!("shape {:?}", images.shape);
            bail!(arrays.unexpected(name, "images [n, 3, h, w]", found));
        }
        let bytes = matches!(arrays.get(name)?.values, Values::U8(_));
        let [low, high] = if bytes { [0.0, 255.0] } else { self.range };
        let span = high - low;
        // Samples may leave their range a little; other scales are a mistake that would go unnoticed.
        let slack = 0.75 * span;
        let outside = |v: &&f32| f64::from(**v) < low - slack || f64::from(**v) > high + slack;
        if let Some(value) = images.data.iter().find(outside) {
            let expected = format!("values in [{low}, {high}]; see --range");
            bail!(arrays.unexpected(name, &expected, format!("{value}")));
        }
        if [low, high] != [-1.0, 1.0] {
            for v in &mut images.data {
                *v = ((f64::from(*v) - low) / span * 2.0 - 1.0) as f32;
            }
        }
        if self.protocol == Protocol::Published {
            images.data = rescale_batch_by_min_max(&images.data)?;
        }
        Ok(images)
    }
}

/// Features of all images, in batches.
fn features<B: Backend>(
    backend: &B,
    lpips: &Lpips<B>,
    images: &Array,
    range: std::ops::Range<usize>,
) -> anyhow::Result<Vec<B::Tensor>> {
    let mut shape = images.shape.clone();
    shape[0] = range.len();
    let size: usize = shape[1..].iter().product();
    let part = Array::new(
        shape,
        images.data[range.start * size..range.end * size].to_vec(),
    )?;
    Ok(lpips.features(backend, &backend.upload(&part)?, 1.0, 0.0)?)
}

pub fn lpips<B: Backend>(
    backend: &B,
    arrays: &TypedArrays,
    setup: &Setup<'_>,
    maps: Option<&Path>,
) -> anyhow::Result<Found> {
    let (a, b) = (setup.images(arrays, "a")?, setup.images(arrays, "b")?);
    if a.shape != b.shape {
        let expected = format!("the shape of `a`, {:?}", a.shape);
        bail!(arrays.unexpected("b", &expected, format!("{:?}", b.shape)));
    }
    let (lpips, sha256) = setup.build(backend)?;
    let (n, h, w) = (a.shape[0], a.shape[2], a.shape[3]);
    let (mut values, mut layers) = (Vec::new(), Vec::new());
    let mut map_data: Vec<Vec<f32>> = vec![Vec::new(); lpips.layers()];
    for start in (0..n).step_by(BATCH) {
        let range = start..(start + BATCH).min(n);
        let (fa, fb) = (
            features(backend, &lpips, &a, range.clone())?,
            features(backend, &lpips, &b, range)?,
        );
        for d in lpips.distances(backend, &fa, &fb)? {
            values.push(d.value);
            layers.push(d.layers);
        }
        if maps.is_some() {
            let maps = lpips.maps(backend, &fa, &fb, h, w)?;
            for (data, map) in map_data.iter_mut().zip(&maps) {
                data.extend(backend.download(map)?.data);
            }
        }
    }
    if let Some(path) = maps {
        write_maps(path, map_data, [n, h, w])?;
    }
    let mut found = Found::default();
    found.score("lpips", &Score::mean(&values));
    found.add("net", json!(setup.net.name()));
    found.add("weights_sha256", json!(sha256));
    found.add("protocol", json!(setup.protocol.name()));
    found.add("per_image", json!(values));
    found.add("per_layer", json!(layers));
    Ok(found)
}

fn write_maps(path: &Path, layers: Vec<Vec<f32>>, shape: [usize; 3]) -> anyhow::Result<()> {
    let mut total = vec![0.0f32; shape.iter().product()];
    let mut dict = StateDict::default();
    for (k, layer) in layers.into_iter().enumerate() {
        for (t, v) in total.iter_mut().zip(&layer) {
            *t += v;
        }
        dict.insert(format!("layer{k}"), Array::new(shape, layer)?);
    }
    dict.insert("map", Array::new(shape, total)?);
    Ok(weights::formats::write_safetensors(
        &dict,
        path,
        &BTreeMap::new(),
    )?)
}

pub fn diversity<B: Backend>(
    backend: &B,
    arrays: &TypedArrays,
    setup: &Setup<'_>,
) -> anyhow::Result<Found> {
    let images = setup.images(arrays, "images")?;
    let n = images.shape[0];
    if n < 2 {
        let expected = "at least 2 images";
        bail!(arrays.unexpected("images", expected, format!("{n}")));
    }
    let (lpips, sha256) = setup.build(backend)?;
    let taps = (0..n)
        .map(|i| features(backend, &lpips, &images, i..i + 1))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let distances = lpips.all_pairs(backend, &taps)?;
    let values: Vec<f64> = distances.iter().map(|d| d.value).collect();
    let of_pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let pairs: Vec<_> = of_pairs
        .zip(&values)
        .map(|((i, j), value)| json!({"a": i, "b": j, "value": value}))
        .collect();
    let mut found = Found::default();
    found.score(
        "lpips_diversity",
        &Score {
            ci95: None,
            ..Score::mean(&values)
        },
    );
    found.add("weights_sha256", json!(sha256));
    found.add("pairs", json!(pairs));
    Ok(found)
}

fn differences(arrays: &TypedArrays) -> anyhow::Result<Vec<DifferenceSums>> {
    let (a, b) = (&arrays.get("a")?.shape, &arrays.get("b")?.shape);
    if a.is_empty() || a.contains(&0) {
        bail!(arrays.unexpected("a", "at least one image [n, …]", format!("{a:?}")));
    }
    if a != b {
        let expected = format!("the shape of `a`, {a:?}");
        bail!(arrays.unexpected("b", &expected, format!("{b:?}")));
    }
    let (x, y) = (arrays.f64("a")?, arrays.f64("b")?);
    for (name, values) in [("a", &x), ("b", &y)] {
        if let Some(value) = values.iter().find(|v| !v.is_finite()) {
            bail!(arrays.unexpected(name, "finite values", value.to_string()));
        }
    }
    Ok(per_image(&x, &y, x.len() / a[0])?)
}

/// Mean over images, or one number for the whole array in the published protocol.
fn put(
    found: &mut Found,
    name: &str,
    sums: &[DifferenceSums],
    protocol: Protocol,
    pick: impl Fn(&DifferenceSums) -> f64,
) {
    let per_image: Vec<f64> = sums.iter().map(&pick).collect();
    let score = match protocol {
        Protocol::Exact => Score::mean(&per_image),
        Protocol::Published => Score {
            value: Some(pick(&whole_batch(sums))),
            n: sums.len(),
            note: Some("one norm over the whole array, as published".into()),
            ..Score::default()
        },
    };
    found.score(name, &score);
    found.add(&format!("{name}_per_image"), json!(per_image));
}

pub fn lp(arrays: &TypedArrays, protocol: Protocol) -> anyhow::Result<Found> {
    let sums = differences(arrays)?;
    let mut found = Found::default();
    found.add("protocol", json!(protocol.name()));
    put(&mut found, "l1", &sums, protocol, |d| d.norms().l1);
    put(&mut found, "l1_5", &sums, protocol, |d| d.norms().l1_5);
    put(&mut found, "l2", &sums, protocol, |d| d.norms().l2);
    Ok(found)
}

pub fn elastic_net(arrays: &TypedArrays, protocol: Protocol) -> anyhow::Result<Found> {
    let sums = differences(arrays)?;
    let mut found = Found::default();
    found.add("protocol", json!(protocol.name()));
    // The published evaluator averages images too; only its formula differs.
    put(
        &mut found,
        "elastic_net",
        &sums,
        Protocol::Exact,
        |d| match protocol {
            Protocol::Exact => d.elastic_net(),
            Protocol::Published => d.elastic_net_published(),
        },
    );
    Ok(found)
}
