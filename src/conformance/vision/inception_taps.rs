//! The FID Inception of the golden data and `fid_tap_features.safetensors`: features of the resized pictures.
//!
//! Largest difference over largest feature: 1e-5 at 64 and 192, 2e-4 at 768, 2e-3 at 2048 and for logits (a network of
//! random weights amplifies rounding more than a trained one).

use super::super::Result;
use super::super::check::Check;
use super::super::error::Of;
use super::super::folder::Folder;
use super::super::pictures::Album;
use super::super::weight_table::{merge_stored, regenerate};
use super::IMAGES;
use crate::metrics::inception_features::InceptionFeatures;
use crate::nets::FidTap;
use crate::tensor::{Backend, Resize, StateDict};

/// Weights, and how deep they reach.
pub struct Network {
    pub dict: StateDict,
    pub deepest: FidTap,
}

impl Network {
    /// The whole network from the formula table and the batch-norm statistics; else the stored stem.
    pub fn read(folder: &Folder, check: &mut Check) -> Result<Option<Self>> {
        let file = "inception_weights_table.json";
        let table = regenerate(folder, file, check)?;
        if let Some(json) = folder.json(file)?
            && let Some(epsilon) = json.root().get("bn_eps")
        {
            check.equal(format!("{file} bn_eps"), &1e-3, &epsilon.f64()?);
        }
        let mut dict = table.unwrap_or_default();
        for file in [
            "inception_bn_stats.safetensors",
            "inception_tap64.safetensors",
        ] {
            if let Some(stored) = folder.tensors(file)? {
                merge_stored(&mut dict, &stored, check)?;
            }
        }
        let reaches = |layer: &str| {
            let parts = ["conv.weight", "bn.weight", "bn.running_mean"];
            parts
                .iter()
                .all(|part| dict.contains(&format!("{layer}.{part}")))
        };
        let deepest = [
            ("Mixed_7c.branch1x1", FidTap::F2048),
            ("Mixed_6e.branch1x1", FidTap::F768),
            ("Conv2d_4a_3x3", FidTap::F192),
            ("Conv2d_2b_3x3", FidTap::F64),
        ]
        .into_iter()
        .find(|(layer, _)| reaches(layer));
        Ok(deepest.map(|(_, deepest)| Self { dict, deepest }))
    }

    pub fn extractor<B: Backend>(
        &self,
        backend: &B,
        resize: Resize,
    ) -> Result<InceptionFeatures<B>> {
        InceptionFeatures::new(backend, &self.dict, self.deepest, resize).of("inception weights")
    }
}

/// The tap of a number of features.
pub fn tap_of(size: usize) -> Option<FidTap> {
    FidTap::ALL.into_iter().find(|tap| tap.size() == size)
}

/// Largest difference allowed, as a share of the largest feature.
pub fn tolerance(tap: FidTap) -> f64 {
    match tap {
        FidTap::F64 | FidTap::F192 => 1e-5,
        FidTap::F768 => 2e-4,
        FidTap::F2048 => 2e-3,
    }
}

pub fn run<B: Backend>(
    backend: &B,
    folder: &Folder,
    network: Option<&Network>,
    album: &mut Album,
    check: &mut Check,
) -> Result<()> {
    let (Some(stored), Some(json)) = (
        folder.tensors("fid_tap_features.safetensors")?,
        folder.json("fid_resize_expected.json")?,
    ) else {
        return Ok(());
    };
    let images = json.root().at("images")?.strs()?;
    let conventions = [
        ("tf1", Resize::Tf1),
        ("antialias", Resize::Antialias),
        ("pytorchfid", Resize::HalfPixel),
    ];
    let mut complete = network.is_some();
    for image in &images {
        complete &= album.has(image, folder, &[IMAGES], check)?;
    }
    let Some(network) = network.filter(|_| complete) else {
        stored.names().for_each(|name| stored.skip(name));
        check.absent("Inception taps: all cases (weights or pictures are absent)");
        return Ok(());
    };
    for (prefix, resize) in conventions {
        check.group(format!("Inception taps {prefix}"));
        let logits = format!("{prefix}.logits_unbiased");
        let mut taps = Vec::new();
        for tap in FidTap::ALL {
            let name = format!("{prefix}.{}", tap.size());
            if stored.contains(&name) && tap > network.deepest {
                stored.skip(&name);
                check.absent(format!("Inception tap {name}: the weights do not reach it"));
            } else if stored.contains(&name) {
                taps.push(tap);
            }
        }
        let extractor = network.extractor(backend, resize)?;
        let with_logits = stored.contains(&logits) && extractor.has_logits();
        if stored.contains(&logits) && !with_logits {
            stored.skip(&logits);
            check.absent(format!(
                "Inception {logits}: the weights have no `fc.weight`"
            ));
        }
        if taps.is_empty() && !with_logits {
            continue;
        }
        // Logits are those of the last tap, so that the network runs once.
        let mut run = taps.clone();
        if with_logits && !run.contains(&FidTap::F2048) {
            run.push(FidTap::F2048);
        }
        let mut features: Vec<Vec<f32>> = vec![Vec::new(); FidTap::ALL.len()];
        let mut all_logits = Vec::new();
        for picture in images.iter().filter_map(|image| album.get(image)) {
            let x = picture.upload(backend)?;
            let found = extractor
                .extract_at(backend, &x, &run)
                .of("Inception features")?;
            for (tap, tensor) in run.iter().zip(&found) {
                features[*tap as usize]
                    .extend(backend.download(tensor).of("Inception features")?.data);
                if with_logits && *tap == FidTap::F2048 {
                    let logits = extractor.logits(backend, tensor).of("Inception logits")?;
                    all_logits.extend(backend.download(&logits).of("Inception logits")?.data);
                }
            }
        }
        for tap in taps {
            let name = format!("{prefix}.{}", tap.size());
            let expected = stored.f32(&name)?;
            check.close_to_peak(
                name,
                &expected.data,
                &features[tap as usize],
                tolerance(tap),
            );
        }
        if with_logits {
            let expected = stored.f32(&logits)?;
            check.close_to_peak(logits, &expected.data, &all_logits, 2e-3);
        }
    }
    Ok(())
}
