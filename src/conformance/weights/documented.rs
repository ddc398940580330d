//! `documented_values`: the examples in torchmetrics' documentation, reproduced to all printed digits.
//!
//! Its doctests run after `torch.manual_seed(42)`. Building the metric initialises an Inception network, which takes one
//! random number per weight; then come 100 images of values 0..199 and 100 of 100..254, 299×299 (so that no resize
//! matters), and for the KID the permutations that draw its subsets.

use super::super::Result;
use super::super::check::{Check, Tolerance};
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::json::Node;
use super::super::pictures::{Picture, upload};
use super::super::real_weights::full_weights;
use super::super::torch_random::TorchRandom;
use super::inception::{FULL, STEM};
use super::{not_installed, weights};
use crate::metrics::Matrix;
use crate::metrics::fid::frechet_from_features;
use crate::metrics::inception_features::InceptionFeatures;
use crate::metrics::kernel_matrices::Subset;
use crate::metrics::kernel_sums::PolynomialKernel;
use crate::metrics::kid::kid_subsets;
use crate::nets::FidTap;
use crate::tensor::{Backend, Resize, StateDict};

const SEED: u32 = 42;
/// Weights of the 94 convolutions and of the 1008-way layer with its bias.
const NETWORK_WEIGHTS: usize = 21_751_136 + 2048 * 1008 + 1008;
const IMAGES: usize = 100;
const SIDE: usize = 299;
const KID_SUBSETS: usize = 100;
const KID_SUBSET_SIZE: usize = 50;
/// Half a unit of the fourth decimal printed.
const PRINTED: Tolerance = Tolerance::absolute(0.5e-4);
/// The penalty 1 − cos of 0.004 is left by cancellation in f32 features: their last bit moves the score by about 3e-6.
const MIFID: Tolerance = Tolerance::relative(1e-5);
const BATCH: usize = 10;

pub fn run<B: Backend>(
    backend: &B,
    folder: &Folder,
    root: &Node<'_>,
    check: &mut Check,
) -> Result<()> {
    let Some(values) = root.get("documented_values") else {
        return Ok(());
    };
    check.group("documented values");
    let kid = values.get("kid_2048_torchmetrics_mean_std");
    let full = match &kid {
        Some(_) => full_weights(FULL)?,
        None => None,
    };
    let stem = weights(folder, STEM, check)?;
    let mut example = None;
    if let Some(dict) = full.as_ref().or(stem.as_ref()) {
        let taps: &[FidTap] = match full {
            Some(_) => &[FidTap::F64, FidTap::F2048],
            None => &[FidTap::F64],
        };
        example = Some(Example::new(backend, dict, taps)?);
    }
    for (name, value) in values.fields()? {
        match (name, &mut example) {
            ("fid_feature64_torchmetrics", Some(example)) => {
                check.close(name, value.f64()?, example.fid()?, PRINTED);
            }
            ("mifid_feature64_torchmetrics", Some(example)) => {
                let got = example.fid()? / example.memorisation()?;
                check.close(name, value.f64()?, got, MIFID);
            }
            ("kid_2048_torchmetrics_mean_std", Some(example)) if full.is_some() => {
                check.close_all(name, &value.f64s()?, &example.kid()?, PRINTED);
            }
            ("kid_2048_torchmetrics_mean_std", _) => {
                value.skip();
                check.absent(not_installed(name, FULL));
            }
            ("dists_vgg16_torchmetrics", _) => {
                value.skip();
                check.unused(
                    format!("expected.json: {name}"),
                    "DISTS is not a metric of foil",
                );
            }
            ("lpips_squeeze_torchmetrics_not_reproducible_here", _) => {
                value.skip();
                let reason =
                    "torchvision's SqueezeNet 1.1 weights are in no public package (README)";
                check.unused(format!("expected.json: {name}"), reason);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The images of the examples by their features, and the generator after they were drawn.
struct Example {
    random: TorchRandom,
    /// Per tap: features of the real and of the fake images.
    features: Vec<(usize, [Vec<f32>; 2])>,
}

impl Example {
    fn new<B: Backend>(backend: &B, dict: &StateDict, taps: &[FidTap]) -> Result<Self> {
        let mut random = TorchRandom::new(SEED);
        random.skip(NETWORK_WEIGHTS);
        let deepest = taps.iter().max().copied().unwrap_or(FidTap::F64);
        let extractor =
            InceptionFeatures::new(backend, dict, deepest, Resize::Antialias).of(FULL)?;
        let mut features: Vec<(usize, [Vec<f32>; 2])> = taps
            .iter()
            .map(|tap| (tap.size(), Default::default()))
            .collect();
        for (side, (low, high)) in [(0, 200), (100, 255)].into_iter().enumerate() {
            for _ in 0..IMAGES / BATCH {
                let images: Vec<Picture> = (0..BATCH)
                    .map(|_| {
                        let planes = random.randint_u8(low, high, 3 * SIDE * SIDE);
                        Picture::from_planes(&planes, SIDE, SIDE)
                    })
                    .collect();
                let x = upload(backend, &images.iter().collect::<Vec<_>>())?;
                let found = extractor.extract_at(backend, &x, taps).of(FULL)?;
                for ((_, sides), found) in features.iter_mut().zip(&found) {
                    sides[side].extend(backend.download(found).of(FULL)?.data);
                }
            }
        }
        Ok(Self { random, features })
    }

    fn sets(&self, size: usize) -> Result<[Matrix<'_>; 2]> {
        let empty = &[];
        let found = self.features.iter().find(|(s, _)| *s == size);
        let set = |side: usize| {
            let data: &[f32] = found.map_or(empty, |(_, sides)| &sides[side]);
            Matrix::new("example", data.len() / size, size, data).of("documented example")
        };
        Ok([set(0)?, set(1)?])
    }

    fn fid(&self) -> Result<f64> {
        let [real, fake] = self.sets(64)?;
        Ok(frechet_from_features(real, fake)
            .of("documented FID")?
            .value)
    }

    /// Mean over real images of the smallest cosine distance to a fake one (MiFID's penalty, Bai et al. 2021).
    fn memorisation(&self) -> Result<f64> {
        let [real, fake] = self.sets(64)?;
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter()
                .zip(b)
                .map(|(&a, &b)| f64::from(a) * f64::from(b))
                .sum()
        };
        let nearest = |i: usize| {
            let a = real.row(i);
            (0..fake.rows())
                .map(|j| {
                    let b = fake.row(j);
                    1.0 - (dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).abs()
                })
                .fold(f64::INFINITY, f64::min)
        };
        Ok((0..real.rows()).map(nearest).sum::<f64>() / real.rows() as f64)
    }

    /// Mean and population std over the subsets.
    fn kid(&mut self) -> Result<Vec<f64>> {
        let subsets: Vec<Subset> = (0..KID_SUBSETS)
            .map(|_| {
                let mut draw = || {
                    let mut order = self.random.randperm(IMAGES);
                    order.truncate(KID_SUBSET_SIZE);
                    order
                };
                Subset {
                    real: draw(),
                    fake: draw(),
                }
            })
            .collect();
        let [real, fake] = self.sets(2048)?;
        let got =
            kid_subsets(real, fake, &PolynomialKernel::default(), &subsets).of("documented KID")?;
        Ok(vec![got.mean, got.std_population])
    }
}
