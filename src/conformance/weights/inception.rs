//! `inception_expected_features.safetensors`: real FID features of the photographs in both conventions.
//! Largest difference over largest feature: 1e-5 at 64 and 192, 1e-4 at 768 and 2048.

use super::super::Result;
use super::super::check::Check;
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::pictures::Album;
use super::super::real_weights::full_weights;
use super::{PICTURES, not_installed, weights};
use crate::metrics::inception_features::InceptionFeatures;
use crate::nets::FidTap;
use crate::tensor::{Backend, Resize, StateDict};

pub const STEM: &str = "inception_fid_stem.safetensors";
pub const FULL: &str = "inception_v3_fid";

/// A tensor of the file with the tap it holds.
type Wanted<'a> = (&'a str, FidTap);

pub fn run<B: Backend>(
    backend: &B,
    folder: &Folder,
    order: &[&str],
    check: &mut Check,
) -> Result<()> {
    let Some(stored) = folder.tensors("inception_expected_features.safetensors")? else {
        return Ok(());
    };
    let mut album = Album::default();
    let mut complete = true;
    for photo in order {
        complete &= album.has(photo, folder, &PICTURES[..1], check)?;
    }
    if !complete {
        stored.names().for_each(|name| stored.skip(name));
        check.absent("Inception features: all cases (a photograph is absent)");
        return Ok(());
    }
    let stem = weights(folder, STEM, check)?;
    let full = full_weights(FULL)?;
    for (prefix, resize) in [
        ("pytorch_fid", Resize::HalfPixel),
        ("torch_fidelity", Resize::Tf1),
    ] {
        check.group(format!("Inception features {prefix}"));
        let wanted: Vec<Wanted<'_>> = stored
            .names()
            .filter_map(|name| {
                let size = name.strip_prefix(prefix)?.strip_prefix(".features")?;
                let tap = FidTap::ALL
                    .into_iter()
                    .find(|t| t.size().to_string() == size)?;
                Some((name, tap))
            })
            .collect();
        let (shallow, deep): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|(_, tap)| *tap <= FidTap::F192);
        for (wanted, dict) in [(shallow, &stem), (deep, &full)] {
            let Some(dict) = dict else {
                for (name, _) in wanted {
                    stored.skip(name);
                    check.absent(not_installed(name, FULL));
                }
                continue;
            };
            let taps: Vec<FidTap> = wanted.iter().map(|(_, tap)| *tap).collect();
            let got = features(backend, dict, &taps, resize, order, &album)?;
            for ((name, tap), got) in wanted.iter().zip(&got) {
                let tolerance = if *tap <= FidTap::F192 { 1e-5 } else { 1e-4 };
                check.close_to_peak(*name, &stored.f32(name)?.data, got, tolerance);
            }
        }
    }
    Ok(())
}

fn features<B: Backend>(
    backend: &B,
    dict: &StateDict,
    taps: &[FidTap],
    resize: Resize,
    order: &[&str],
    album: &Album,
) -> Result<Vec<Vec<f32>>> {
    let mut all = vec![Vec::new(); taps.len()];
    let Some(deepest) = taps.iter().max() else {
        return Ok(all);
    };
    let extractor = InceptionFeatures::new(backend, dict, *deepest, resize).of(FULL)?;
    for picture in order.iter().filter_map(|photo| album.get(photo)) {
        let x = picture.upload(backend)?;
        let found = extractor.extract_at(backend, &x, taps).of(FULL)?;
        for (all, found) in all.iter_mut().zip(&found) {
            all.extend(backend.download(found).of(FULL)?.data);
        }
    }
    Ok(all)
}
