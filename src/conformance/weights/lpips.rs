//! `lpips` of `expected.json`: real LPIPS on photographs. 1e-5 absolute; identical images exactly 0.

use std::collections::BTreeSet;

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::pictures::Album;
use super::super::real_weights::full_weights;
use super::super::vision::{Features, Range, heads};
use super::{PICTURES, not_installed, weights};
use crate::metrics::lpips::{Lpips, LpipsNet};
use crate::tensor::Backend;

const DISTANCE: Tolerance = Tolerance::absolute(1e-5);

pub fn run<B: Backend + 'static>(
    backend: &B,
    folder: &Folder,
    root: &Node<'_>,
    check: &mut Check,
) -> Result<()> {
    let Some(nets) = root.get("lpips") else {
        return Ok(());
    };
    let heads_file = "lpips_heads_v0.1.safetensors";
    let Some(all_heads) = weights(folder, heads_file, check)? else {
        nets.skip();
        check.absent(format!("LPIPS: all cases ({heads_file} is absent)"));
        return Ok(());
    };
    let mut album = Album::default();
    for (name, cases) in nets.fields()? {
        let (net, file) = match name {
            "alex_f16" => (LpipsNet::Alex, "alexnet_features_f16"),
            "alex_f32" => (LpipsNet::Alex, "alexnet_lpips_f32"),
            "vgg_f32" => (LpipsNet::Vgg, "vgg16_lpips"),
            _ => continue,
        };
        let backbone = match weights(folder, &format!("{file}.safetensors"), check)? {
            None => full_weights(file)?,
            found => found,
        };
        let Some(backbone) = backbone else {
            cases.skip();
            check.absent(not_installed(&format!("LPIPS {name}"), file));
            continue;
        };
        check.group(format!("LPIPS {name}"));
        let heads = heads(&mut all_heads.clone(), &format!("{}.", net.name()));
        let lpips = Lpips::new(backend, net, &backbone, heads).of(name)?;
        compare(backend, folder, name, &cases, &lpips, &mut album, check)?;
    }
    Ok(())
}

fn compare<B: Backend + 'static>(
    backend: &B,
    folder: &Folder,
    name: &str,
    cases: &Node<'_>,
    lpips: &Lpips<B>,
    album: &mut Album,
    check: &mut Check,
) -> Result<()> {
    let cases = cases.items()?;
    let mut pictures = BTreeSet::new();
    for case in &cases {
        pictures.extend([case.at("a")?.str()?, case.at("b")?.str()?]);
    }
    for picture in &pictures {
        album.has(picture, folder, &PICTURES, check)?;
    }
    let mut features = Features::new(backend, lpips);
    features.add(Range::Right, &pictures, album)?;
    for case in cases {
        let (a, b) = (case.at("a")?.str()?, case.at("b")?.str()?);
        let what = format!("{name} {a} / {b}");
        let Some(got) = features.distance(Range::Right, a, b)? else {
            case.skip();
            check.absent(format!("LPIPS {what}: a picture is absent"));
            continue;
        };
        for (field, expected) in case.fields()? {
            let what = format!("{what} {field}");
            match field {
                "distance" => check.close(what, expected.f64()?, got.value, DISTANCE),
                "per_layer" => check.close_all(what, &expected.f64s()?, &got.layers, DISTANCE),
                _ => {}
            }
        }
        if a == b {
            check.equal(format!("{what} exactly 0"), &0.0, &got.value);
        }
    }
    Ok(())
}
