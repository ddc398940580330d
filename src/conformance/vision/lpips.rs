//! `lpips_expected.json`: LPIPS of three networks over all pairs. 1e-4 relative + 1e-7; identical images exactly 0.

use std::collections::BTreeSet;

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::pictures::Album;
use super::lpips_features::{Features, Range, network};
use super::{IMAGES, lpips_parts, unit_length};
use crate::metrics::lpips::{Lpips, LpipsNet};
use crate::tensor::Backend;

pub const LPIPS: Tolerance = Tolerance::both(1e-4, 1e-7);

/// Fields that document the file.
const NOTES: [&str; 3] = ["salt", "packages", "input_convention"];

/// Runs all cases and gives back the AlexNet one, which the study's recipe also uses.
pub fn run<B: Backend + 'static>(
    backend: &B,
    folder: &Folder,
    album: &mut Album,
    check: &mut Check,
) -> Result<Option<Lpips<B>>> {
    let Some(json) = folder.json("lpips_expected.json")? else {
        return network(backend, folder, LpipsNet::Alex, check);
    };
    let root = json.root();
    root.skip_fields(&NOTES);
    let pairs: Vec<(&str, &str)> = root.at("pairs")?.list(|p| names_of(p))?;
    if let Some(case) = root.get("unit_normalisation_eps_case") {
        unit_length::run(backend, &case, check)?;
    }
    let mut alex = None;
    for (name, cases) in root.at("nets")?.fields()? {
        let Ok(net) = name.parse::<LpipsNet>() else {
            continue;
        };
        let Some(lpips) = network(backend, folder, net, check)? else {
            cases.skip();
            lpips_parts::skip_spatial(folder, name)?;
            continue;
        };
        let (in_pairs, all) = pictures(&cases, &pairs)?;
        for picture in &all {
            album.has(picture, folder, &[IMAGES], check)?;
        }
        let mut features = Features::new(backend, &lpips);
        features.add(Range::Right, &all, album)?;
        features.add(Range::Wrong, &in_pairs, album)?;
        let run = Run {
            backend,
            folder,
            net: name,
            pairs: &pairs,
            album,
            features,
        };
        run_net(&run, &cases, check)?;
        if net == LpipsNet::Alex {
            alex = Some(lpips);
        }
    }
    match alex {
        None => network(backend, folder, LpipsNet::Alex, check),
        found => Ok(found),
    }
}

fn names_of<'a>(pair: &Node<'a>) -> Result<(&'a str, &'a str)> {
    match pair.strs()?[..] {
        [a, b] => Ok((a, b)),
        _ => Err(pair.wrong("two names")),
    }
}

/// One network with the features of all pictures that its cases name.
pub struct Run<'a, B: Backend> {
    pub backend: &'a B,
    pub folder: &'a Folder,
    pub net: &'a str,
    pub pairs: &'a [(&'a str, &'a str)],
    pub album: &'a Album,
    pub features: Features<'a, B>,
}

/// The pictures of the pairs, and all pictures that the cases of a network name.
fn pictures<'a>(
    cases: &Node<'a>,
    pairs: &[(&'a str, &'a str)],
) -> Result<(BTreeSet<&'a str>, BTreeSet<&'a str>)> {
    let mut in_pairs = BTreeSet::new();
    for case in cases.at("pairs")?.items()? {
        in_pairs.extend([case.at("a")?.str()?, case.at("b")?.str()?]);
    }
    let mut all: BTreeSet<&str> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    all.extend(&in_pairs);
    for group in cases
        .get("diversity")
        .map_or(Ok(Vec::new()), |d| d.items())?
    {
        all.extend(group.at("members")?.strs()?);
    }
    if let Some(image) = cases.get("taps_of_image") {
        all.insert(image.str()?);
    }
    Ok((in_pairs, all))
}

fn run_net<B: Backend + 'static>(
    run: &Run<'_, B>,
    cases: &Node<'_>,
    check: &mut Check,
) -> Result<()> {
    let (net, features) = (run.net, &run.features);
    for (key, case) in cases.fields()? {
        check.group(format!("LPIPS {net}"));
        match key {
            "pairs" => {
                for pair in case.items()? {
                    compare_pair(net, &pair, features, check)?;
                }
            }
            "swapped_first_pair" => swapped(net, &case, run.pairs.first(), features, check)?,
            "diversity" => {
                for group in case.items()? {
                    diversity(net, &group, features, check)?;
                }
            }
            key if key.starts_with("batch") => batch(net, &case, features, check)?,
            "taps" => lpips_parts::taps(run, cases.at("taps_of_image")?.str()?, &case, check)?,
            "spatial_files" => lpips_parts::spatial(run, &case, check)?,
            _ => {}
        }
    }
    Ok(())
}

fn compare_pair<B: Backend + 'static>(
    net: &str,
    case: &Node<'_>,
    features: &Features<'_, B>,
    check: &mut Check,
) -> Result<()> {
    let (a, b) = (case.at("a")?.str()?, case.at("b")?.str()?);
    let what = format!("{net} {a} / {b}");
    let right = features.distance(Range::Right, a, b)?;
    let wrong = features.distance(Range::Wrong, a, b)?;
    let (Some(right), Some(wrong)) = (right, wrong) else {
        case.skip();
        check.absent(format!("LPIPS {what}: a picture is absent"));
        return Ok(());
    };
    for (field, expected) in case.fields()? {
        let what = format!("{what} {field}");
        match field {
            "lpips_package" | "torchmetrics" | "torchmetrics_normalize_true" | "float64" => {
                check.close(what, expected.f64()?, right.value, LPIPS);
            }
            "per_layer" | "per_layer_float64" => {
                check.close_all(what, &expected.f64s()?, &right.layers, LPIPS);
            }
            "wrong_range_value_if_0_1_fed_without_normalize" => {
                check.close(what, expected.f64()?, wrong.value, LPIPS);
            }
            _ => {}
        }
    }
    if a == b {
        check.equal(format!("{what} exactly 0"), &0.0, &right.value);
    }
    Ok(())
}

fn swapped<B: Backend + 'static>(
    net: &str,
    case: &Node<'_>,
    first: Option<&(&str, &str)>,
    features: &Features<'_, B>,
    check: &mut Check,
) -> Result<()> {
    let expected = case.f64()?;
    let Some((a, b)) = first else { return Ok(()) };
    match features.distance(Range::Right, b, a)? {
        Some(got) => check.close(
            format!("{net} {b} / {a} swapped"),
            expected,
            got.value,
            LPIPS,
        ),
        None => check.absent(format!("LPIPS {net} swapped pair: a picture is absent")),
    }
    Ok(())
}

/// Mean over the pairs of a set.
fn diversity<B: Backend + 'static>(
    net: &str,
    case: &Node<'_>,
    features: &Features<'_, B>,
    check: &mut Check,
) -> Result<()> {
    let members = case.at("members")?.strs()?;
    let Some(distances) = features.all_pairs(Range::Right, &members)? else {
        case.skip();
        check.absent(format!("LPIPS {net} {}: a picture is absent", case.path()));
        return Ok(());
    };
    let values: Vec<f64> = distances.iter().map(|d| d.value).collect();
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    check.close(
        format!("{net} {}", case.path()),
        case.at("mean")?.f64()?,
        mean,
        LPIPS,
    );
    for pair in case.get("pairs").map_or(Ok(Vec::new()), |p| p.items())? {
        let (a, b) = (pair.at("a")?.str()?, pair.at("b")?.str()?);
        let expected = pair.at("value")?.f64()?;
        match features.distance(Range::Right, a, b)? {
            Some(got) => check.close(format!("{net} {a} / {b}"), expected, got.value, LPIPS),
            None => check.absent(format!("LPIPS {net} {a} / {b}: a picture is absent")),
        }
    }
    Ok(())
}

/// Mean and sum over pairs.
fn batch<B: Backend + 'static>(
    net: &str,
    case: &Node<'_>,
    features: &Features<'_, B>,
    check: &mut Check,
) -> Result<()> {
    case.skip_fields(&["note"]);
    let pairs = case.at("pairs")?.list(|p| names_of(p))?;
    let mut sum = 0.0;
    for (a, b) in &pairs {
        let Some(got) = features.distance(Range::Right, a, b)? else {
            case.skip();
            check.absent(format!("LPIPS {net} {}: a picture is absent", case.path()));
            return Ok(());
        };
        sum += got.value;
    }
    let mean = sum / pairs.len().max(1) as f64;
    check.close(
        format!("{net} batch mean"),
        case.at("mean")?.f64()?,
        mean,
        LPIPS,
    );
    check.close(
        format!("{net} batch sum"),
        case.at("sum")?.f64()?,
        sum,
        LPIPS,
    );
    Ok(())
}
