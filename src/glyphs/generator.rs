//! The generator g(z): the renderer as a function of a latent vector, with gradients by all of its coordinates.
//!
//! A latent vector is laid out as [`Embeddings::latent`] does. Where [`super::render`] takes one glyph, the generator
//! takes the mean of all glyphs of the atlas, distance images and half sides alike, with weights `w_character · w_font`
//! from the [soft choice](super::choice) among the embeddings. The rest is the renderer's formula: the place from
//! scale, position and rotation, a bilinear sample, the smooth edge, and `v + (1 − 2v) q` with inverse colour `v` as
//! any real number (it is not clipped: outside of [0, 1] the contrast grows beyond that of ink and ground). On the
//! embeddings of a character and a typeface the generator draws what the renderer draws.
//!
//! Everything is computed image by image in a fixed order: neither batch nor threads change a bit.

use rayon::prelude::*;

use super::atlas::{GRID, REACH, SPACING};
use super::choice::{TEMPERATURE, nearest, soft_choice};
use super::embedding::LATENT;
use super::mixture::Mixture;
use super::render::{EDGE, SIZES, coverage};
use super::warp::{PixelSums, Sample, Warp};
use super::{Atlas, CHARACTERS, Embeddings, GlyphError};

/// Names of the coordinates of a latent vector, for messages.
const COORDINATES: [&str; LATENT] = [
    "character 1",
    "character 2",
    "character 3",
    "font 1",
    "font 2",
    "font 3",
    "inverse",
    "scale",
    "x",
    "y",
    "rotation",
];

/// The differentiable renderer. It keeps the distance images of all glyphs in one piece (38 MB for 48 typefaces); share
/// it by reference or `Arc`.
#[derive(Debug, Clone)]
pub struct Generator {
    pub(super) embeddings: Embeddings,
    /// Characters × typefaces × nodes.
    pub(super) distances: Vec<[f32; GRID * GRID]>,
    pub(super) half_extents: Vec<[f32; 2]>,
    pub(super) temperature: f64,
}

impl Generator {
    /// A generator of the glyphs of an atlas, which is computed as a whole, at [`TEMPERATURE`].
    pub fn new(atlas: &Atlas, embeddings: &Embeddings) -> Result<Self, GlyphError> {
        let tables = [embeddings.characters.len(), embeddings.fonts.len()];
        let expected = [CHARACTERS.len(), atlas.font_count()];
        if tables != expected || tables.contains(&0) {
            return Err(wrong(
                format!("embeddings of {expected:?} characters and typefaces"),
                format!("{tables:?}"),
            ));
        }
        let values = [&embeddings.characters, &embeddings.fonts];
        if values
            .into_iter()
            .flatten()
            .flatten()
            .any(|v| !v.is_finite())
        {
            return Err(wrong("finite embeddings", "one that is not finite"));
        }
        let mut distances = Vec::with_capacity(tables[0] * tables[1]);
        for glyph in atlas.glyphs() {
            let image = glyph.distances.first_chunk();
            distances.push(*image.ok_or_else(|| wrong("whole distance images", "a shorter one"))?);
        }
        Ok(Self {
            embeddings: embeddings.clone(),
            distances,
            half_extents: atlas.half_extents(),
            temperature: TEMPERATURE,
        })
    }

    /// The same generator with another temperature of its soft choices.
    pub fn with_temperature(self, temperature: f64) -> Result<Self, GlyphError> {
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(wrong("a temperature above 0", temperature.to_string()));
        }
        Ok(Self {
            temperature,
            ..self
        })
    }

    /// The temperature of the soft choices.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// The embeddings that latent vectors are compared with.
    pub fn embeddings(&self) -> &Embeddings {
        &self.embeddings
    }

    /// Weights of all characters and of all typefaces at a latent vector.
    pub fn weights(&self, latent: &[f32; LATENT]) -> [Vec<f64>; 2] {
        let [character, font] = points(latent);
        [
            soft_choice(&self.embeddings.characters, character, self.temperature),
            soft_choice(&self.embeddings.fonts, font, self.temperature),
        ]
    }

    /// Numbers of the character and the typeface nearest to a latent vector: what an oracle that knows the causes sees.
    pub fn nearest(&self, latent: &[f32; LATENT]) -> [usize; 2] {
        let [character, font] = points(latent);
        [
            nearest(&self.embeddings.characters, character).unwrap_or_default(),
            nearest(&self.embeddings.fonts, font).unwrap_or_default(),
        ]
    }

    /// The images of latent vectors, `[n, size, size]`: intensities, 0 for black and 1 for white.
    pub fn forward(&self, latents: &[[f32; LATENT]], size: usize) -> Result<Vec<f32>, GlyphError> {
        check(latents, size)?;
        let mut images = vec![0.0; latents.len() * size * size];
        images
            .par_chunks_exact_mut(size * size)
            .zip(latents)
            .for_each(|(image, latent)| self.draw(latent, size, image));
        Ok(images)
    }

    /// The gradients by latent vectors, given those by their images, `[n, size, size]`. Sub-gradients at kinks are
    /// stated where the kinks are: [`super::warp`] for the place, 0 at the ends of the smooth edge, and the cell to
    /// the right of or below a node.
    pub fn backward(
        &self,
        latents: &[[f32; LATENT]],
        size: usize,
        gradients: &[f32],
    ) -> Result<Vec<[f32; LATENT]>, GlyphError> {
        check(latents, size)?;
        let expected = latents.len() * size * size;
        if gradients.len() != expected {
            return Err(wrong(
                format!("gradients of {expected} pixels"),
                gradients.len().to_string(),
            ));
        }
        Ok(latents
            .par_iter()
            .zip(gradients.par_chunks_exact(size * size))
            .map(|(latent, gradient)| self.gradient(latent, size, gradient))
            .collect())
    }

    fn draw(&self, latent: &[f32; LATENT], size: usize, image: &mut [f32]) {
        let mixture = Mixture::new(self, latent);
        let grid = mixture.grid(self);
        let warp = Warp::new(latent, mixture.half, size);
        let (side, inverse) = (warp.side as f32, latent[6]);
        let contrast = 1.0 - 2.0 * inverse;
        image.fill(inverse);
        let [columns, rows] = warp.window();
        let step = warp.step();
        for row in rows {
            let start = warp.row_start(row);
            for k in columns.clone() {
                let place = [0, 1].map(|axis| start[axis] + k as f32 * step[axis]);
                let distance = side * Sample::new(&grid, place).distance;
                image[row * size + k] = inverse + contrast * coverage(distance);
            }
        }
    }

    fn gradient(&self, latent: &[f32; LATENT], size: usize, by_image: &[f32]) -> [f32; LATENT] {
        let mixture = Mixture::new(self, latent);
        let grid = mixture.grid(self);
        let warp = Warp::new(latent, mixture.half, size);
        let (side, contrast) = (warp.side as f32, 1.0 - 2.0 * f64::from(latent[6]));
        // The ground has coverage 0 and the slope 1 by inverse colour.
        let mut inverse: f64 = by_image.iter().map(|&g| f64::from(g)).sum();
        let mut sums = PixelSums::default();
        let mut nodes = Box::new([0.0; GRID * GRID]);
        let [columns, rows] = warp.window();
        let step = warp.step();
        let spacing = f64::from(SPACING);
        for row in rows {
            let start = warp.row_start(row);
            for k in columns.clone() {
                let place = [0, 1].map(|axis| start[axis] + k as f32 * step[axis]);
                let sample = Sample::new(&grid, place);
                let t = 0.5 - side * sample.distance * (1.0 / EDGE);
                if t <= 0.0 {
                    continue;
                }
                let g = f64::from(by_image[row * size + k]);
                let t = f64::from(t.min(1.0));
                inverse -= 2.0 * g * t * t * (3.0 - 2.0 * t);
                if t >= 1.0 {
                    continue;
                }
                // By the distance in pixels, then in units of the glyph.
                let by_pixels = -g * contrast * 6.0 * t * (1.0 - t) / f64::from(EDGE);
                let by_distance = by_pixels * warp.side;
                sums.side += by_pixels * f64::from(sample.distance);
                sample.scatter(&mut nodes, by_distance);
                let [gx, gy] = sample.slope.map(|s| by_distance * f64::from(s) / spacing);
                let [ux, uy] = place.map(|v| f64::from(v) * spacing - f64::from(REACH));
                sums.shift[0] += gx;
                sums.shift[1] += gy;
                sums.stretch += gx * ux + gy * uy;
                sums.turn += gx * uy - gy * ux;
            }
        }
        let warp = warp.gradient(&sums);
        let [character, font] = mixture.gradient(self, &nodes, warp.half);
        let [c0, c1, c2] = character;
        let [f0, f1, f2] = font;
        let [x, y] = warp.position;
        [
            c0,
            c1,
            c2,
            f0,
            f1,
            f2,
            inverse,
            warp.scale,
            x,
            y,
            warp.rotation,
        ]
        .map(|v| v as f32)
    }
}

/// The places of a latent vector among characters and among typefaces.
fn points(latent: &[f32; LATENT]) -> [[f32; 3]; 2] {
    let [a, b, c, d, e, f, ..] = *latent;
    [[a, b, c], [d, e, f]]
}

fn check(latents: &[[f32; LATENT]], size: usize) -> Result<(), GlyphError> {
    if !SIZES.contains(&size) {
        return Err(wrong(
            format!("images of {} to {} pixels", SIZES.start(), SIZES.end()),
            size.to_string(),
        ));
    }
    for (row, latent) in latents.iter().enumerate() {
        if let Some(at) = latent.iter().position(|v| !v.is_finite()) {
            return Err(wrong(
                "finite latent vectors",
                format!("{} as {} of vector {row}", latent[at], COORDINATES[at]),
            ));
        }
    }
    Ok(())
}

fn wrong(expected: impl Into<String>, found: impl Into<String>) -> GlyphError {
    GlyphError::Generator {
        expected: expected.into(),
        found: found.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Attributes, Drawing};
    use super::*;
    use crate::stats::random::{Draws, Stream};

    fn generator() -> (Atlas, Generator) {
        let atlas = Atlas::embedded().unwrap();
        let generator = Generator::new(&atlas, &Embeddings::new(&atlas)).unwrap();
        (atlas, generator)
    }

    /// Draw `index` of attributes as wide as those of the causal model and wider; every character and every typeface
    /// comes once in 48 draws.
    fn attributes(index: usize) -> Attributes {
        let mut draws = Draws::new(7, Stream::GLYPH_NOISE, index as u64);
        let mut uniform = |low: f32, high: f32| low + (high - low) * draws.uniform() as f32;
        Attributes {
            character: index % 48,
            font: (index * 5 + index / 48) % 48,
            inverse: index.is_multiple_of(3),
            scale: uniform(0.35, 1.0),
            x: uniform(-1.0, 1.0),
            y: uniform(-1.0, 1.0),
            rotation: uniform(-1.2, 1.2),
        }
    }

    /// Points anywhere among the embeddings, most of them between several.
    fn between(count: usize) -> Vec<[f32; LATENT]> {
        let mut draws = Draws::new(8, Stream::GLYPH_NOISE, 0);
        let mut uniform = |low: f32, high: f32| low + (high - low) * draws.uniform() as f32;
        (0..count)
            .map(|_| {
                std::array::from_fn(|k| match k {
                    0..6 => uniform(-1.5, 1.5),
                    6 => uniform(0.0, 1.0),
                    7 => uniform(0.4, 0.9),
                    _ => uniform(-0.8, 0.8),
                })
            })
            .collect()
    }

    #[test]
    fn on_the_embeddings_it_draws_what_the_renderer_draws() {
        let (atlas, generator) = generator();
        for size in [32, 64] {
            let drawing = Drawing {
                size,
                pixel_noise: 0.0,
            };
            let drawn: Vec<Attributes> = (0..960).map(attributes).collect();
            let latents: Vec<_> = drawn
                .iter()
                .map(|a| generator.embeddings().latent(a).unwrap())
                .collect();
            let images = generator.forward(&latents, size).unwrap();
            let mut worst = 0.0f32;
            for (image, attributes) in images.chunks_exact(size * size).zip(&drawn) {
                let expected = drawing.intensities(&atlas, attributes).unwrap();
                let pairs = image.iter().zip(&expected);
                worst = pairs.fold(worst, |w, (a, b)| w.max(255.0 * (a - b).abs()));
            }
            println!("{size} pixels: {worst} grey levels");
            // The neighbours' weight of up to 1e-4 moves the edge of the largest glyphs by a fraction of a level.
            assert!(worst < 2.0, "{size} pixels: {worst} grey levels");
        }
    }

    #[test]
    fn neither_batch_nor_threads_change_a_bit() {
        let (_, generator) = generator();
        let latents = between(21);
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let pool = |threads| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
        };
        let all = pool(1).install(|| generator.forward(&latents, 32).unwrap());
        let by_image: Vec<f32> = all.iter().map(|v| v - 0.4).collect();
        let back = pool(1).install(|| generator.backward(&latents, 32, &by_image).unwrap());
        let again = pool(3).install(|| generator.forward(&latents, 32).unwrap());
        let back_again = pool(3).install(|| generator.backward(&latents, 32, &by_image).unwrap());
        assert_eq!(bits(&all), bits(&again));
        assert_eq!(bits(back.as_flattened()), bits(back_again.as_flattened()));
        for (i, latent) in latents.iter().enumerate() {
            let pixels = i * 1024..(i + 1) * 1024;
            let one = generator.forward(&[*latent], 32).unwrap();
            assert_eq!(bits(&one), bits(&all[pixels.clone()]), "image {i}");
            let one = generator.backward(&[*latent], 32, &by_image[pixels]);
            assert_eq!(bits(&one.unwrap()[0]), bits(&back[i]), "gradient {i}");
        }
    }

    #[test]
    fn the_oracle_sees_the_character_and_typeface_that_were_drawn() {
        let (_, generator) = generator();
        for index in 0..96 {
            let attributes = attributes(index);
            let mut latent = generator.embeddings().latent(&attributes).unwrap();
            let truth = [attributes.character, attributes.font];
            assert_eq!(generator.nearest(&latent), truth);
            // Closer than half of the least distance there is no other.
            latent[1] += 0.36;
            latent[3] -= 0.36;
            assert_eq!(generator.nearest(&latent), truth);
        }
    }

    #[test]
    fn inverse_colour_may_lie_between_and_fades_the_contrast() {
        let (_, generator) = generator();
        let mut latent = generator.embeddings().latent(&attributes(5)).unwrap();
        let mut at = |v: f32| {
            latent[6] = v;
            generator.forward(&[latent], 32).unwrap()
        };
        let (black, white, quarter, grey) = (at(0.0), at(1.0), at(0.25), at(0.5));
        for i in 0..1024 {
            assert!((black[i] + white[i] - 1.0).abs() < 1e-6);
            assert!((quarter[i] - 0.75 * black[i] - 0.25 * white[i]).abs() < 1e-6);
            assert_eq!(grey[i], 0.5);
        }
    }

    #[test]
    fn a_scale_of_nothing_is_drawn_as_the_least_one_and_far_places_are_empty() {
        let (_, generator) = generator();
        let latent = generator.embeddings().latent(&attributes(1)).unwrap();
        let with = |k: usize, value: f32| {
            let mut moved = latent;
            moved[k] = value;
            moved
        };
        let moved = [
            with(7, 0.0),
            with(7, -3.0),
            with(8, 1e30),
            with(7, 1e30),
            with(0, f32::MAX),
        ];
        let images = generator.forward(&moved, 32).unwrap();
        assert!(images.iter().all(|v| (-1e-6..=1.0 + 1e-6).contains(v)));
        assert_eq!(images[..1024], images[1024..2048]);
        let back = generator
            .backward(&moved, 32, &vec![0.3; 5 * 1024])
            .unwrap();
        assert!(
            back.as_flattened().iter().all(|v| v.is_finite()),
            "{back:?}"
        );
        assert_eq!((back[0][7], back[1][7]), (0.0, 0.0));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let (atlas, generator) = generator();
        let good = generator.embeddings().latent(&attributes(0)).unwrap();
        for (k, bad) in [(0, f32::NAN), (7, f32::INFINITY), (10, f32::NEG_INFINITY)] {
            let mut latents = [good; 3];
            latents[2][k] = bad;
            let message = generator.forward(&latents, 32).unwrap_err().to_string();
            let named = message.contains(COORDINATES[k]) && message.contains("vector 2");
            assert!(named, "{message}");
            assert!(generator.backward(&latents, 32, &[0.0; 3072]).is_err());
        }
        assert!(generator.forward(&[good], 7).is_err());
        assert!(generator.backward(&[good], 32, &[0.0; 1023]).is_err());
        assert!(generator.forward(&[], 32).unwrap().is_empty());
        let mut short = generator.embeddings().clone();
        short.fonts.pop();
        assert!(Generator::new(&atlas, &short).is_err());
        for temperature in [0.0, -1.0, f64::NAN] {
            assert!(generator.clone().with_temperature(temperature).is_err());
        }
    }
}
