//! Originals: glyphs that the classifier gets right, so that a changed answer is the counterfactual's doing.

use image::{Rgb, RgbImage};

use super::{Demo, DemoError};
use crate::glyphs::{Atlas, Attributes, Drawing, GlyphError, Model, World, dataset};
use crate::metrics::validity::argmax;
use crate::nets::Classifier;
use crate::tensor::{Array, Backend, cpu::Cpu};
use crate::train::to_values;

/// Glyphs that are looked at together.
const BATCH: usize = 64;

/// Glyphs that are looked at for each original that is wanted; the classifier is right about nearly all.
const TRIES: usize = 4;

/// A glyph with its causes.
#[derive(Debug, Clone, PartialEq)]
pub struct Original {
    /// Its number in the world of the demonstration's seed.
    pub index: u64,
    pub attributes: Attributes,
    /// Parity of its character.
    pub label: usize,
    /// Grey, row by row.
    pub pixels: Vec<u8>,
}

impl Original {
    /// Its picture.
    pub fn image(&self) -> RgbImage {
        grey_image(&self.pixels)
    }
}

/// A picture of three equal channels.
pub(super) fn grey_image(pixels: &[u8]) -> RgbImage {
    let size = Drawing::default().size as u32;
    let at = |x: u32, y: u32| pixels.get((y * size + x) as usize).copied().unwrap_or(0);
    RgbImage::from_fn(size, size, |x, y| Rgb([at(x, y); 3]))
}

/// Pictures as NCHW values from −1 to 1.
pub(super) fn batch<'a>(images: impl ExactSizeIterator<Item = &'a RgbImage>) -> Array {
    let raw = images.map(|image| image.as_raw().as_slice());
    to_values(raw, Drawing::default().size)
}

/// The class that a network gives to each image.
pub(super) fn classes(net: &dyn Classifier<Cpu>, images: &Array) -> Result<Vec<usize>, DemoError> {
    let x = Cpu.upload(images).map_err(crate::nets::NetError::from)?;
    let logits = Cpu
        .download(&net.predict(&Cpu, &x)?.logits)
        .map_err(crate::nets::NetError::from)?;
    let n = images.shape.first().copied().unwrap_or(0);
    Ok((0..n).map(|i| argmax(logits.row(i))).collect())
}

/// The world of the demonstration: no typeface tied to a class, no wrong label.
pub(super) fn world(demo: &Demo, atlas: &Atlas) -> Result<World, GlyphError> {
    let model = Model {
        spurious: 0,
        label_noise: 0.0,
        ..Model::default()
    };
    World::new(model, demo.seed, atlas)
}

/// The first glyphs of the world that the classifier gets right.
pub(super) fn choose(
    demo: &Demo,
    atlas: &Atlas,
    net: &dyn Classifier<Cpu>,
) -> Result<Vec<Original>, DemoError> {
    let world = world(demo, atlas)?;
    let drawing = Drawing::default();
    let mut chosen = Vec::with_capacity(demo.originals);
    let most = (TRIES * demo.originals).next_multiple_of(BATCH);
    for start in (0..most).step_by(BATCH) {
        let drawn: Vec<Original> = (start as u64..(start + BATCH) as u64)
            .filter_map(|index| {
                let (example, pixels) = dataset::image(atlas, &world, &drawing, index)?;
                Some(Original {
                    index,
                    attributes: example.attributes,
                    label: usize::from(example.parity),
                    pixels,
                })
            })
            .collect();
        let images: Vec<RgbImage> = drawn.iter().map(Original::image).collect();
        let found = classes(net, &batch(images.iter()))?;
        let right = drawn.into_iter().zip(found);
        chosen.extend(right.filter(|(o, class)| o.label == *class).map(|(o, _)| o));
        if chosen.len() >= demo.originals {
            chosen.truncate(demo.originals);
            return Ok(chosen);
        }
    }
    Err(DemoError::Originals {
        found: chosen.len(),
        tried: most,
    })
}
