//! LPIPS from inside: statistics of the tapped activations (1e-4 relative) and spatial maps (1e-4 of the map's maximum).

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::lpips::Run;
use super::lpips_features::Range;
use crate::tensor::{Array, Backend};

const STATISTIC: Tolerance = Tolerance::both(1e-4, 1e-6);

pub fn taps<B: Backend + 'static>(
    run: &Run<'_, B>,
    image: &str,
    cases: &Node<'_>,
    check: &mut Check,
) -> Result<()> {
    let (backend, net, features) = (run.backend, run.net, &run.features);
    check.group("LPIPS taps");
    let Some(taps) = features.of(Range::Right, image) else {
        cases.skip();
        check.absent(format!("LPIPS {net} taps: picture {image} is absent"));
        return Ok(());
    };
    let cases = cases.items()?;
    check.equal(format!("{net} number of taps"), &cases.len(), &taps.len());
    for case in cases {
        let layer = case.at("layer")?.usize()?;
        let Some(tap) = taps.get(layer) else {
            continue;
        };
        let tap = backend.download(tap).of("LPIPS taps")?;
        let statistics = Statistics::of(&tap);
        for (field, expected) in case.fields()? {
            let what = format!("{net} {image} tap {layer} {field}");
            match field {
                "shape" => check.equal(what, &expected.usizes()?, &tap.shape),
                "mean" => check.close(what, expected.f64()?, statistics.mean, STATISTIC),
                "std" => check.close(what, expected.f64()?, statistics.std_sample, STATISTIC),
                "zero_fraction" => {
                    check.close(what, expected.f64()?, statistics.zero_fraction, STATISTIC);
                }
                "sum" => check.close(what, expected.f64()?, statistics.sum, STATISTIC),
                "min_channel_norm" => {
                    check.close(
                        what,
                        expected.f64()?,
                        statistics.min_channel_norm,
                        STATISTIC,
                    );
                }
                field if field.starts_with("first") => {
                    let expected: Vec<f32> = expected.f64s()?.iter().map(|&v| v as f32).collect();
                    let first = &tap.data[..expected.len().min(tap.data.len())];
                    check.close_to_peak(what, &expected, first, 1e-4);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

struct Statistics {
    mean: f64,
    std_sample: f64,
    zero_fraction: f64,
    sum: f64,
    /// Smallest length of a pixel's channel vector.
    min_channel_norm: f64,
}

impl Statistics {
    fn of(tap: &Array) -> Self {
        let n = tap.len() as f64;
        let sum: f64 = tap.data.iter().map(|&v| f64::from(v)).sum();
        let mean = sum / n;
        let squares: f64 = tap
            .data
            .iter()
            .map(|&v| (f64::from(v) - mean).powi(2))
            .sum();
        let pixels: usize = tap.shape.iter().skip(2).product();
        let norm = |pixel: usize| {
            let channels = tap.data.iter().skip(pixel).step_by(pixels.max(1));
            channels.map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt()
        };
        Self {
            mean,
            std_sample: (squares / (n - 1.0)).sqrt(),
            zero_fraction: tap.data.iter().filter(|v| **v == 0.0).count() as f64 / n,
            sum,
            min_channel_norm: (0..pixels).map(norm).fold(f64::INFINITY, f64::min),
        }
    }
}

const SPATIAL: &str = "lpips_spatial.safetensors";

/// Leaves out the maps of a network that cannot be run.
pub fn skip_spatial(folder: &Folder, net: &str) -> Result<()> {
    if let Some(maps) = folder.tensors(SPATIAL)? {
        let own = maps.names().filter(|n| n.starts_with(&format!("{net}.")));
        own.for_each(|name| maps.skip(name));
    }
    Ok(())
}

/// Maps are named `<net>.<second image>.total` or `.layerK`; the first image is that of the first such pair.
pub fn spatial<B: Backend + 'static>(
    run: &Run<'_, B>,
    case: &Node<'_>,
    check: &mut Check,
) -> Result<()> {
    let (backend, net, features) = (run.backend, run.net, &run.features);
    check.group("LPIPS spatial maps");
    let (file, keys) = (case.at("file")?.str()?, case.at("keys")?.strs()?);
    let Some(maps) = run.folder.tensors(file)? else {
        check.absent(format!("LPIPS {net} spatial maps ({file} is absent)"));
        return Ok(());
    };
    for key in keys {
        let parts = key
            .strip_prefix(&format!("{net}."))
            .and_then(|k| k.rsplit_once('.'));
        let Some((second, part)) = parts else {
            check.unknown(format!("{file}: spatial map `{key}`"));
            continue;
        };
        let expected = maps.f32_of_rank(key, 2)?;
        let pair = run.pairs.iter().find(|(_, b)| *b == second);
        let taps = pair.and_then(|(a, b)| {
            Some((
                features.of(Range::Right, a)?,
                features.of(Range::Right, b)?,
                run.album.get(b)?,
            ))
        });
        let Some((a, b, picture)) = taps else {
            check.absent(format!("LPIPS {key}: a picture is absent"));
            continue;
        };
        let (height, width) = picture.size();
        check.equal(format!("{key} size"), &expected.shape, &vec![height, width]);
        let layer = part.strip_prefix("layer").map(str::parse::<usize>);
        let got = match (part, layer) {
            ("total", _) => features.lpips.map(backend, a, b, height, width).of(key)?,
            (_, Some(Ok(layer))) if layer < features.lpips.layers() => {
                let mut all = features.lpips.maps(backend, a, b, height, width).of(key)?;
                all.swap_remove(layer)
            }
            _ => {
                check.unknown(format!("{file}: spatial map `{key}`"));
                continue;
            }
        };
        let got = backend.download(&got).of(key)?;
        check.close_to_peak(key, &expected.data, &got.data, 1e-4);
    }
    Ok(())
}
