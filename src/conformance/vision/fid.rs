//! The Fréchet cases of `fid_expected.json`: from features and from moments, from stored statistics, and from images.
//! 1e-5 relative + 1e-6, against every public routine and against the exact low-rank terms.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::pictures::{Picture, upload};
use super::super::{Result, tensors::Tensors};
use super::inception_taps::{Network, tap_of, tolerance};
use super::{matrix, number_in};
use crate::metrics::Matrix;
use crate::metrics::fid::{
    FrechetDistance, frechet_from_features, frechet_from_gaussians, frechet_from_moments,
};
use crate::metrics::inception_features::InceptionFeatures;
use crate::metrics::moments::Moments;
use crate::nets::FidTap;
use crate::tensor::{Array, Backend, Resize};

pub const FID: Tolerance = Tolerance::both(1e-5, 1e-6);
/// Means and covariances in f64; sums may be taken in another order.
const MOMENT: Tolerance = Tolerance::both(1e-11, 1e-12);
/// Fields that are no distance.
const NOTES: [&str; 3] = [
    "rank_bound",
    "seconds",
    "sqrtm_scipy_1_10_1_finite_without_offset",
];
/// Images in one pass.
const BATCH: usize = 10;

/// The two image sets with the network; features are computed once.
pub struct Images<'a, B: Backend> {
    backend: &'a B,
    network: Option<&'a Network>,
    pub real: Vec<Picture>,
    pub fake: Vec<Picture>,
    known: RefCell<BTreeMap<(bool, FidTap, u8), Array>>,
    extractors: RefCell<BTreeMap<u8, InceptionFeatures<B>>>,
}

/// Reads the image sets and checks the stored features against them (tf1 resize).
pub fn images<'a, B: Backend>(
    backend: &'a B,
    folder: &Folder,
    network: Option<&'a Network>,
    check: &mut Check,
) -> Result<Images<'a, B>> {
    let stored = folder.tensors("fid_image_sets.safetensors")?;
    let set = |name: &str| {
        stored
            .as_ref()
            .map_or(Ok(Vec::new()), |s| pictures(s, name))
    };
    let images = Images {
        backend,
        network,
        real: set("real")?,
        fake: set("fake")?,
        known: RefCell::default(),
        extractors: RefCell::default(),
    };
    let Some(features) = folder.tensors("fid_set_features.safetensors")? else {
        return Ok(images);
    };
    check.group("features of the image sets");
    for name in features.names() {
        let (side, size) = name.split_once('.').unwrap_or((name, ""));
        let tap = size
            .split('.')
            .next()
            .and_then(|s| s.parse().ok())
            .and_then(tap_of);
        let (Some(tap), true) = (tap, side == "real" || side == "fake") else {
            continue;
        };
        let expected = features.f32(name)?;
        let n = expected.shape.first().copied().unwrap_or(0);
        match images.features(side == "real", n, tap, Resize::Tf1)? {
            Some(got) => {
                check.close_to_peak(name, &expected.data, &got.data, tolerance(tap));
            }
            None => check.absent(format!("{name} from images (images or weights are absent)")),
        }
    }
    Ok(images)
}

fn pictures(stored: &Tensors, name: &str) -> Result<Vec<Picture>> {
    let (shape, values) = stored.u8(name)?;
    let &[_, 3, height, width] = shape else {
        return Err(stored.wrong(name, "[n, 3, height, width]", format!("{shape:?}")));
    };
    let image = |planes: &[u8]| Picture::from_planes(planes, height, width);
    Ok(values
        .chunks((3 * height * width).max(1))
        .map(image)
        .collect())
}

impl<B: Backend> Images<'_, B> {
    /// Features of the first `n` images of a set; none if images or weights are absent.
    pub fn features(
        &self,
        real: bool,
        n: usize,
        tap: FidTap,
        resize: Resize,
    ) -> Result<Option<Array>> {
        let set = if real { &self.real } else { &self.fake };
        if n > set.len() {
            return Ok(None);
        }
        let rows = |all: &Array| Array {
            shape: vec![n, tap.size()],
            data: all.data[..n * tap.size()].to_vec(),
        };
        let known = |tap| {
            let known = self.known.borrow();
            let found = known.get(&(real, tap, resize as u8));
            found.map_or(0, |a| a.shape[0])
        };
        let first = known(tap);
        if first < n {
            // What lies before a tap is computed on the way to it.
            let taps: Vec<FidTap> = FidTap::ALL.into_iter().filter(|t| *t <= tap).collect();
            let Some(found) = self.features_at(&set[first..n], &taps, resize)? else {
                return Ok(None);
            };
            for (tap, more) in taps.into_iter().zip(found) {
                if known(tap) == first {
                    let mut known = self.known.borrow_mut();
                    let all = known.entry((real, tap, resize as u8)).or_default();
                    all.shape = vec![n, tap.size()];
                    all.data.extend(more.data);
                }
            }
        }
        let known = self.known.borrow();
        Ok(known.get(&(real, tap, resize as u8)).map(rows))
    }

    /// Features of any pictures of one size.
    pub fn features_of(
        &self,
        pictures: &[Picture],
        tap: FidTap,
        resize: Resize,
    ) -> Result<Option<Array>> {
        let found = self.features_at(pictures, &[tap], resize)?;
        Ok(found.and_then(|mut all| all.pop()))
    }

    /// The same at several taps in one pass; none if the weights do not reach the last.
    fn features_at(
        &self,
        pictures: &[Picture],
        taps: &[FidTap],
        resize: Resize,
    ) -> Result<Option<Vec<Array>>> {
        let deepest = taps.iter().max();
        let Some(network) = self.network.filter(|n| Some(&n.deepest) >= deepest) else {
            return Ok(None);
        };
        let mut extractors = self.extractors.borrow_mut();
        let extractor = match extractors.entry(resize as u8) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(free) => free.insert(network.extractor(self.backend, resize)?),
        };
        let mut data: Vec<Vec<f32>> = vec![Vec::new(); taps.len()];
        for batch in pictures.chunks(BATCH) {
            let x = upload(self.backend, &batch.iter().collect::<Vec<_>>())?;
            let found = extractor
                .extract_at(self.backend, &x, taps)
                .of("Inception features")?;
            for (rows, tensor) in data.iter_mut().zip(&found) {
                rows.extend(self.backend.download(tensor).of("Inception features")?.data);
            }
        }
        let arrays = taps.iter().zip(data).map(|(tap, data)| Array {
            shape: vec![pictures.len(), tap.size()],
            data,
        });
        Ok(Some(arrays.collect()))
    }
}

pub fn run<B: Backend>(folder: &Folder, images: &Images<'_, B>, check: &mut Check) -> Result<()> {
    let Some(json) = folder.json("fid_expected.json")? else {
        return Ok(());
    };
    let features = folder.tensors("fid_set_features.safetensors")?;
    for (name, case) in json.root().fields()? {
        if case.get("n_real").is_some() {
            check.group("FID from features");
            match &features {
                Some(features) => distance(name, &case, features, check)?,
                None => {
                    case.skip();
                    check.absent(format!(
                        "FID {name} (fid_set_features.safetensors is absent)"
                    ));
                }
            }
        } else if name.starts_with("end_to_end") {
            end_to_end(name, &case, images, check)?;
        } else if name == "one_sample" {
            case.skip();
            check.group("FID from features");
            let one = Array::zeros(vec![1, 4]);
            let refused = frechet_from_features(matrix(name, &one)?, matrix(name, &one)?).is_err();
            check.equal("one sample on a side is refused", &true, &refused);
        }
    }
    match (folder.tensors("fid_statistics.safetensors")?, features) {
        (Some(statistics), Some(features)) => {
            stored_statistics(&json.root(), &statistics, &features, check)
        }
        (Some(statistics), None) => {
            statistics.names().for_each(|name| statistics.skip(name));
            check.absent("FID statistics (fid_set_features.safetensors is absent)");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The stored features of one side with so many dimensions: `real.64` or `real.2048.first20`.
pub fn stored_features(stored: &Tensors, side: &str, dims: usize) -> Result<Array> {
    let name = format!("{side}.{dims}");
    let longer = format!("{name}.");
    let found = stored
        .names()
        .find(|n| **n == name || n.starts_with(&longer));
    stored.f32(found.unwrap_or(&name))
}

fn distance(name: &str, case: &Node<'_>, stored: &Tensors, check: &mut Check) -> Result<()> {
    let dims = case.at("dims")?.usize()?;
    let (n_real, n_fake) = (case.at("n_real")?.usize()?, case.at("n_fake")?.usize()?);
    let real = stored_features(stored, "real", dims)?;
    let fake = stored_features(stored, "fake", dims)?;
    let (all_real, all_fake) = (matrix(name, &real)?, matrix(name, &fake)?);
    let real = all_real.slice("real", 0, n_real).of(name)?;
    let fake = select_fake(name, case, all_real, all_fake, n_fake)?;
    let got = frechet_from_features(real, fake).of(name)?;
    compare(name, case, &got, check)?;
    let moments = |set| Moments::of(name, set).of(name);
    let got = frechet_from_moments(&moments(real)?, &moments(fake)?).of(name)?;
    check.group("FID from moments");
    compare(name, case, &got, check)
}

/// The file does not say which rows a case takes as its second set. The layout knows the first `n` rows of `fake`,
/// its rows from 10 on, its last `n`, and for identical sets those of `real`: the right ones have the stated trace.
fn select_fake<'a>(
    name: &str,
    case: &Node<'_>,
    real: Matrix<'a>,
    fake: Matrix<'a>,
    n: usize,
) -> Result<Matrix<'a>> {
    let trace = case.at("exact_low_rank")?.at("trace_fake")?.f64()?;
    let last = fake.rows().saturating_sub(n);
    let mut candidates = vec![(fake, 0), (fake, 10), (fake, last), (real, 0)];
    if name.starts_with("identical") {
        candidates.rotate_right(1);
    }
    let first = candidates[0].0.slice("fake", 0, n).of(name)?;
    let mut best = (first, f64::INFINITY);
    for (set, start) in candidates {
        let Ok(rows) = set.slice("fake", start, start + n) else {
            continue;
        };
        let off = (trace_of(rows) - trace).abs();
        if off < best.1 {
            best = (rows, off);
        }
    }
    Ok(best.0)
}

/// Trace of the covariance (divisor n − 1).
fn trace_of(set: Matrix<'_>) -> f64 {
    let n = set.rows() as f64;
    let column = |c: usize| (0..set.rows()).map(move |r| f64::from(set.row(r)[c]));
    (0..set.cols())
        .map(|c| {
            let mean = column(c).sum::<f64>() / n;
            column(c).map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)
        })
        .sum()
}

fn compare(name: &str, case: &Node<'_>, got: &FrechetDistance, check: &mut Check) -> Result<()> {
    case.skip_fields(&NOTES);
    for (field, expected) in case.fields()? {
        let what = format!("{name} {field} ({:?})", got.route);
        if field == "exact_low_rank" {
            for (term, expected) in expected.fields()? {
                let value = match term {
                    "mean_term" => got.mean_term,
                    "trace_real" => got.trace_real,
                    "trace_fake" => got.trace_fake,
                    "trace_sqrt" => got.trace_sqrt,
                    "fid" => got.value,
                    _ => continue,
                };
                check.close(format!("{what} {term}"), expected.f64()?, value, FID);
            }
        } else if field.ends_with("max_imaginary") {
            expected.skip();
        } else if ["torchmetrics_", "torch_fidelity_", "pytorch_fid_", "sqrtm_"]
            .iter()
            .any(|package| field.starts_with(package))
            && !NOTES.contains(&field)
        {
            check.close(what, expected.f64()?, got.value, FID);
        }
    }
    Ok(())
}

/// `real.first50.mu` and `.sigma`, and the distance between them.
fn stored_statistics(
    expected: &Node<'_>,
    statistics: &Tensors,
    features: &Tensors,
    check: &mut Check,
) -> Result<()> {
    check.group("FID from stored statistics");
    for name in statistics.names() {
        let Some(middle) = name
            .strip_prefix("real.")
            .and_then(|n| n.strip_suffix(".mu"))
        else {
            continue;
        };
        let Some(n) = number_in(middle, "first") else {
            continue;
        };
        let mut gaussians = Vec::new();
        for side in ["real", "fake"] {
            let mean = statistics.f64(&format!("{side}.{middle}.mu"))?;
            let sigma = statistics.f64(&format!("{side}.{middle}.sigma"))?;
            let set = stored_features(features, side, mean.len())?;
            let set = matrix(side, &set)?.slice(side, 0, n).of(name)?;
            let moments = Moments::of(side, set).of(name)?;
            check.close_all(
                format!("{side}.{middle} mean"),
                &mean,
                moments.mean(),
                MOMENT,
            );
            let covariance = moments.covariance(side).of(name)?;
            check.close_all(
                format!("{side}.{middle} covariance"),
                &sigma,
                &covariance,
                MOMENT,
            );
            gaussians.push((mean, sigma));
        }
        let [real, fake] = &gaussians[..] else {
            continue;
        };
        let got = frechet_from_gaussians((&real.0, &real.1), (&fake.0, &fake.1)).of(name)?;
        for (case_name, case) in expected.fields()? {
            let of_size = |key: &str, size: usize| {
                case.get(key)
                    .is_some_and(|v| v.usize().is_ok_and(|v| v == size))
            };
            let same_size = of_size("n_real", n) && of_size("n_fake", n);
            if same_size && of_size("dims", real.0.len()) && !case_name.starts_with("identical") {
                compare(&format!("{middle} as {case_name}"), &case, &got, check)?;
            }
        }
    }
    Ok(())
}

/// From the images themselves: `end_to_end_images_first50_d64`.
fn end_to_end<B: Backend>(
    name: &str,
    case: &Node<'_>,
    images: &Images<'_, B>,
    check: &mut Check,
) -> Result<()> {
    check.group("FID from images");
    let n = number_in(name, "first").unwrap_or(images.real.len());
    let Some(tap) = number_in(name, "d").and_then(tap_of) else {
        return Ok(());
    };
    for (field, expected) in case.fields()? {
        let resize = match field {
            "tf1_resize" => Resize::Tf1,
            "antialias_default_resize" => Resize::Antialias,
            "halfpixel_resize" => Resize::HalfPixel,
            _ => continue,
        };
        let expected = expected.f64()?;
        let real = images.features(true, n, tap, resize)?;
        let fake = images.features(false, n, tap, resize)?;
        let (Some(real), Some(fake)) = (real, fake) else {
            check.absent(format!("{name} {field} (images or weights are absent)"));
            continue;
        };
        let got = frechet_from_features(matrix(name, &real)?, matrix(name, &fake)?).of(name)?;
        check.close(format!("{name} {field}"), expected, got.value, FID);
    }
    Ok(())
}
