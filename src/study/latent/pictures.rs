//! Figure 6: originals, counterfactuals and differences of each explainer, with the attribute that was changed most. PNG.

use image::{Rgb, RgbImage};

use super::LatentStudyError;
use crate::explain::latent::{Latent, World};
use crate::glyphs::Atlas;
use crate::metrics::latent::exact::Flags;
use crate::metrics::latent::profile::most_changed;
use crate::metrics::latent::space::Space;
use crate::report::contact_sheet::{Section, Triple, draw};

/// Counterfactuals of an explainer that are shown.
pub struct Shown {
    pub explainer: String,
    /// Sample, counterfactual, and what it is.
    pub chosen: Vec<(Latent, Latent, Flags)>,
}

/// How many of each explainer.
pub const PER_EXPLAINER: usize = 6;

/// Picks successful counterfactuals, one of a sample, where there are none others that were changed.
pub fn choose(
    explainer: &str,
    z: &[Latent],
    z_cf: &[Latent],
    flags: &[Flags],
    selected: &[Vec<usize>],
) -> Shown {
    let n = z_cf.len() / z.len().max(1);
    let mut chosen = Vec::new();
    let of = |sample: usize, k: usize| (z[sample], z_cf[sample * n + k], flags[sample * n + k]);
    for (sample, set) in selected.iter().enumerate() {
        if let Some(&k) = set.first() {
            chosen.push(of(sample, k));
        }
    }
    for sample in 0..z.len() {
        if chosen.len() >= PER_EXPLAINER {
            break;
        }
        let changed = (0..n).find(|k| z_cf[sample * n + k] != z[sample]);
        if let (Some(k), true) = (changed, selected[sample].is_empty()) {
            chosen.push(of(sample, k));
        }
    }
    // Spread over all samples.
    let step = (chosen.len() / PER_EXPLAINER).max(1);
    let chosen = chosen
        .into_iter()
        .step_by(step)
        .take(PER_EXPLAINER)
        .collect();
    Shown {
        explainer: explainer.into(),
        chosen,
    }
}

/// The sheet as PNG.
pub fn sheet(world: &World, shown: &[Shown]) -> Result<Vec<u8>, LatentStudyError> {
    let atlas = Atlas::embedded().map_err(crate::explain::latent::LatentError::from)?;
    let mut pairs = Vec::new();
    for own in shown {
        let latents: Vec<Latent> = own.chosen.iter().flat_map(|(z, cf, _)| [*z, *cf]).collect();
        let images = match latents.is_empty() {
            true => Vec::new(),
            false => world.explained().look(&latents)?.images,
        };
        pairs.push(pictures(&images, world));
    }
    let sections: Vec<Section<'_>> = { shown.iter().zip(&pairs) }
        .map(|(own, images)| Section {
            title: own.explainer.clone(),
            triples: { own.chosen.iter().zip(images.chunks_exact(2)) }
                .map(|((z, z_cf, flags), pair)| Triple {
                    original: &pair[0],
                    counterfactual: &pair[1],
                    caption: caption(&world.space, z, z_cf, *flags),
                    colour: match flags.successful() {
                        true => [20, 110, 40],
                        false => [150, 40, 30],
                    },
                })
                .collect(),
        })
        .collect();
    let sheet = draw(&atlas, &sections, 3);
    let mut png = std::io::Cursor::new(Vec::new());
    let written = sheet.write_to(&mut png, image::ImageFormat::Png);
    written.map_err(|e| LatentStudyError::File {
        file: "counterfactuals.png".into(),
        what: e.to_string(),
    })?;
    Ok(png.into_inner())
}

/// What was changed: another character, another typeface, or what moved most of that which is seen.
fn caption(space: &Space, z: &Latent, z_cf: &Latent, flags: Flags) -> String {
    let (from, to) = (space.nearest(z), space.nearest(z_cf));
    let attribute = match (from[0] == to[0], from[1] == to[1]) {
        (false, true) => "character",
        (false, false) => "character and font",
        (true, false) => "font",
        (true, true) => most_changed(&space.shown(z), &space.shown(z_cf)).unwrap_or("nothing"),
    };
    let what = match flags {
        f if f.causal_flip() => "causal flip",
        f if f.non_causal_flip() => "non causal flip",
        f if f.trivial() => "trivial",
        f if f.estimator && !f.proximal => "too far",
        _ => "no flip",
    };
    format!("{attribute} {what}")
}

/// Images of a world as RGB.
fn pictures(images: &[f32], world: &World) -> Vec<RgbImage> {
    let [h, w] = world.networks.size();
    let pixels = world.networks.pixels();
    let channels = pixels / (h * w).max(1);
    let byte = |v: f32| ((v + 1.0) * 127.5).round().clamp(0.0, 255.0) as u8;
    let one = |image: &[f32]| {
        RgbImage::from_fn(w as u32, h as u32, |x, y| {
            let at = (y as usize * w + x as usize) * channels;
            Rgb([0, 1, 2].map(|k| byte(image[at + if channels == 3 { k } else { 0 }])))
        })
    };
    images.chunks_exact(pixels.max(1)).map(one).collect()
}
