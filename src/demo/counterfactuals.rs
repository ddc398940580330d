//! The kinds of counterfactuals that are made by construction.

use image::RgbImage;

use super::originals::{Original, batch, classes, grey_image};
use super::{Demo, DemoError, guided};
use crate::glyphs::{Atlas, Attributes, CHARACTERS, Drawing};
use crate::nets::Classifier;
use crate::score;
use crate::stats::random::{Draws, Stream};
use crate::tensor::candle::Candle;
use crate::tensor::cpu::Cpu;
use crate::train::{Attack, losses::cross_entropy, to_pixels};

/// Radii of the attack in the L2 norm over pixel values from 0 to 1: an image gets the least noise that fools the
/// classifier, hence the least that could fool anybody else.
const RADII: [f64; 6] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0];
/// Steps of the attack.
const STEPS: usize = 20;
/// Deviation of the blur in pixels.
const BLUR: f32 = 1.5;

/// How a counterfactual is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The character becomes one of the other parity; all else, down to the noise of the pixels, stays.
    TrueChange,
    /// A guided diffusion, towards the other parity.
    GuidedDiffusion,
    /// The least noise that makes the classifier change its mind (PGD in the L2 norm).
    AdversarialNoise,
    NoChange,
    Blurred,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::TrueChange,
        Kind::GuidedDiffusion,
        Kind::AdversarialNoise,
        Kind::NoChange,
        Kind::Blurred,
    ];

    /// As tables and sheets call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::TrueChange => "true change",
            Kind::GuidedDiffusion => "guided diffusion",
            Kind::AdversarialNoise => "adversarial noise",
            Kind::NoChange => "no change",
            Kind::Blurred => "blurred",
        }
    }

    /// Where its images lie.
    pub fn folder(self) -> &'static str {
        match self {
            Kind::TrueChange => "true_change",
            Kind::GuidedDiffusion => "guided_diffusion",
            Kind::AdversarialNoise => "adversarial_noise",
            Kind::NoChange => "no_change",
            Kind::Blurred => "blurred",
        }
    }
}

/// What makes them.
pub(super) struct Networks<'a> {
    /// The classifier, and the same with gradients.
    pub classifier: &'a dyn Classifier<Cpu>,
    pub open: &'a dyn Classifier<Candle>,
    pub guides: &'a guided::Networks,
}

/// A counterfactual of every original.
pub(super) fn make(
    kind: Kind,
    demo: &Demo,
    atlas: &Atlas,
    originals: &[Original],
    networks: &Networks<'_>,
    progress: score::Progress<'_>,
) -> Result<Vec<RgbImage>, DemoError> {
    Ok(match kind {
        Kind::GuidedDiffusion => guided::make(demo, originals, networks.guides, progress)?,
        Kind::TrueChange => originals
            .iter()
            .map(|original| grey_image(&changed(demo, atlas, original)))
            .collect(),
        Kind::AdversarialNoise => adversarial(originals, networks.classifier, networks.open)?,
        Kind::NoChange => originals.iter().map(Original::image).collect(),
        Kind::Blurred => originals
            .iter()
            .map(|original| grey_image(&blurred(&original.pixels)))
            .collect(),
    })
}

/// The original with a character of the other parity.
fn changed(demo: &Demo, atlas: &Atlas, original: &Original) -> Vec<u8> {
    let mut draws = Draws::new(demo.seed, Stream::DEMO_CHARACTERS, original.index);
    let half = CHARACTERS.len() / 2;
    let attributes = Attributes {
        character: 2 * draws.index_below(half).unwrap_or(0) + (1 - original.label),
        ..original.attributes
    };
    let mut noise = Draws::new(demo.seed, Stream::GLYPH_NOISE, original.index);
    let pixels = Drawing::default().pixels(atlas, &attributes, &mut noise);
    pixels.unwrap_or_else(|| original.pixels.clone())
}

/// Originals with the least noise of [`RADII`] that changes the classifier's mind, as an image file can hold it.
fn adversarial(
    originals: &[Original],
    net: &dyn Classifier<Cpu>,
    open: &dyn Classifier<Candle>,
) -> Result<Vec<RgbImage>, DemoError> {
    let mut images: Vec<RgbImage> = originals.iter().map(Original::image).collect();
    let mut left: Vec<usize> = (0..originals.len()).collect();
    for radius in RADII {
        if left.is_empty() {
            break;
        }
        let clean: Vec<RgbImage> = left.iter().map(|&i| originals[i].image()).collect();
        let labels: Vec<usize> = left.iter().map(|&i| originals[i].label).collect();
        let attack = Attack {
            radius,
            steps: STEPS,
        };
        let moved = attack.run(open, &batch(clean.iter()), |logits| {
            cross_entropy(logits, &labels)
        })?;
        let each = moved.len() / left.len();
        for (values, &i) in moved.data.chunks_exact(each).zip(&left) {
            // Same length as the image it was made from.
            images[i].copy_from_slice(&to_pixels(values));
        }
        let said = classes(net, &batch(left.iter().map(|&i| &images[i])))?;
        let fooled = |i: usize, class: usize| class != originals[i].label;
        left = left
            .into_iter()
            .zip(said)
            .filter(|&(i, class)| !fooled(i, class))
            .map(|(i, _)| i)
            .collect();
    }
    Ok(images)
}

/// Blurs a grey image by a normal distribution, along rows and then along columns; the border repeats outwards.
fn blurred(pixels: &[u8]) -> Vec<u8> {
    let size = Drawing::default().size;
    let reach = (3.0 * BLUR).ceil() as isize;
    let weight = |d: isize| (-0.5 * (d as f32 / BLUR).powi(2)).exp();
    let total: f32 = (-reach..=reach).map(weight).sum();
    let pass = |from: &[f32], stride_along: usize, stride_across: usize| {
        let mut to = vec![0.0f32; from.len()];
        for line in 0..size {
            for at in 0..size {
                let sum: f32 = (-reach..=reach)
                    .map(|d| {
                        let k = (at as isize + d).clamp(0, size as isize - 1) as usize;
                        weight(d) * from[line * stride_across + k * stride_along]
                    })
                    .sum();
                to[line * stride_across + at * stride_along] = sum / total;
            }
        }
        to
    };
    let grey: Vec<f32> = pixels.iter().map(|&p| f32::from(p)).collect();
    let both = pass(&pass(&grey, 1, size), size, 1);
    both.into_iter().map(|v| v.round() as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::originals::world;
    use crate::glyphs::dataset;

    #[test]
    fn blur_keeps_flat_images_and_spreads_a_point() {
        assert_eq!(blurred(&[77; 1024]), vec![77; 1024]);
        let mut point = vec![0u8; 1024];
        point[16 * 32 + 16] = 255;
        let spread = blurred(&point);
        // The density of a normal distribution in two dimensions: 255 / (2π · 1.5²) = 18.
        assert_eq!(spread[16 * 32 + 16], 18);
        assert_eq!(spread[16 * 32 + 18], spread[18 * 32 + 16]);
        assert!(spread[16 * 32 + 18] > 5 && spread[16 * 32 + 24] == 0);
    }

    #[test]
    fn a_true_change_has_the_other_parity_and_keeps_all_else() {
        let atlas = Atlas::embedded().unwrap();
        let demo = Demo::default();
        let world = world(&demo, &atlas).unwrap();
        for index in 0..20 {
            let (example, pixels) =
                dataset::image(&atlas, &world, &Drawing::default(), index).unwrap();
            let original = Original {
                index,
                attributes: example.attributes,
                label: usize::from(example.parity),
                pixels,
            };
            let after = changed(&demo, &atlas, &original);
            // Drawn again with every character, one of the other parity gives these pixels.
            let found = (0..CHARACTERS.len()).find(|&character| {
                let attributes = Attributes {
                    character,
                    ..original.attributes
                };
                let mut noise = Draws::new(demo.seed, Stream::GLYPH_NOISE, index);
                let drawn = Drawing::default().pixels(&atlas, &attributes, &mut noise);
                drawn.as_deref() == Some(&after[..])
            });
            assert_eq!(found.map(|c| c % 2), Some(1 - original.label), "{index}");
        }
    }
}
