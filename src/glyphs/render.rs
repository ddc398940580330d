//! The renderer: one formula from attributes to pixels, made of operations that have gradients.
//!
//! For an image of `size` × `size` pixels, with s = scale · size (a glyph of scale 1 is as long as the image) and the
//! [`Glyph`]'s half sides (a, b) and distance image D:
//!
//! 1. half extent of the turned box  e = s · (|cos| a + |sin| b, |sin| a + |cos| b)   ([`turned_extent`])
//! 2. centre of the glyph            c = size/2 + (x, y) · max(0, size/2 − e)          ([`Placement::new`])
//! 3. pixel (k + ½, i + ½) = p in the glyph's coordinates: u = R(−rotation) (p − c) / s ([`Placement::to_glyph`])
//! 4. distance                       d = bilinear sample of D at u, in units            ([`sample`])
//! 5. coverage                       t = clamp(½ − s d / [`EDGE`], 0, 1), q = t² (3 − 2t) ([`coverage`])
//! 6. intensity                      v + (1 − 2v) q with v = 1 for inverse colour, else 0 ([`intensity`])
//! 7. noise, clip to [0, 1], times 255, truncated to u8                                ([`quantise`])
//!
//! So a glyph is white on black, and black on white if inverse. Positive rotation takes the x axis towards the y axis,
//! which points down: clockwise as seen. The three colour channels are equal. The benchmark of the paper bex also
//! stretches the contrast of each image; here ink and ground are pure from the start.

use super::atlas::{GRID, REACH, SPACING};
use super::{Atlas, Glyph, GlyphError};
use crate::stats::random::Draws;

/// Width in pixels of the ramp from inside to outside.
pub const EDGE: f32 = 1.25;

/// Sizes of images that can be drawn.
pub const SIZES: std::ops::RangeInclusive<usize> = 8..=512;

/// Pixels around the glyph's turned box that are computed; further out the formula gives the background.
const RIM: f32 = 2.0;

/// All causes of an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attributes {
    /// Number of the character in [`super::CHARACTERS`].
    pub character: usize,
    /// Number of the typeface in [`super::Fonts`].
    pub font: usize,
    /// Black on white instead of white on black.
    pub inverse: bool,
    /// Longest side of the upright glyph as a share of the image.
    pub scale: f32,
    /// Position in the free space, −1 (left) to 1 (right).
    pub x: f32,
    /// Position in the free space, −1 (top) to 1 (bottom).
    pub y: f32,
    /// Clockwise, in radians.
    pub rotation: f32,
}

/// How attributes become pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawing {
    /// Side of the image in pixels, one of [`SIZES`].
    pub size: usize,
    /// Standard deviation of the noise added to each pixel (intensities are in [0, 1]).
    pub pixel_noise: f32,
}

impl Default for Drawing {
    fn default() -> Self {
        Self {
            size: 32,
            pixel_noise: 0.01,
        }
    }
}

/// Where a glyph lies in an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// Pixels per unit of the glyph, s.
    pub side: f32,
    /// Units of the glyph per pixel, 1/s.
    pub unit: f32,
    /// Centre of the glyph in pixels.
    pub centre: [f32; 2],
    /// Half extent of the turned box in pixels.
    pub extent: [f32; 2],
    pub sin: f32,
    pub cos: f32,
}

/// Half the sides of the upright box around a box of half sides `half` that is turned.
pub fn turned_extent(half: [f32; 2], sin: f32, cos: f32) -> [f32; 2] {
    let (sin, cos) = (sin.abs(), cos.abs());
    [cos * half[0] + sin * half[1], sin * half[0] + cos * half[1]]
}

impl Placement {
    /// Places a glyph of half sides `half` in an image of `size` pixels.
    pub fn new(attributes: &Attributes, half: [f32; 2], size: usize) -> Self {
        let (sin, cos) = attributes.rotation.sin_cos();
        let side = attributes.scale * size as f32;
        let extent = turned_extent(half, sin, cos).map(|e| side * e);
        let middle = 0.5 * size as f32;
        let position = [attributes.x, attributes.y];
        let centre = [0, 1].map(|k| middle + position[k] * (middle - extent[k]).max(0.0));
        Self {
            side,
            unit: 1.0 / side,
            centre,
            extent,
            sin,
            cos,
        }
    }

    /// A point of the image, in pixels, in the coordinates of the glyph.
    pub fn to_glyph(&self, point: [f32; 2]) -> [f32; 2] {
        let [x, y] = [0, 1].map(|k| (point[k] - self.centre[k]) * self.unit);
        [self.cos * x + self.sin * y, self.cos * y - self.sin * x]
    }
}

/// Signed distance at a point of the glyph's coordinates: bilinear between the nodes. Outside of the grid it is the
/// value at the nearest point of the rim plus the way there along both axes.
pub fn sample(glyph: &Glyph, point: [f32; 2]) -> f32 {
    let inner = point.map(|v| v.clamp(-REACH, REACH));
    let beyond = (point[0] - inner[0]).abs() + (point[1] - inner[1]).abs();
    let at = inner.map(|v| (v + REACH) * (1.0 / SPACING));
    let cell = at.map(|v| (v as u32).min(GRID as u32 - 2));
    let [fx, fy] = [0, 1].map(|k| at[k] - cell[k] as f32);
    let first = cell[1] as usize * GRID + cell[0] as usize;
    let corners = &glyph.distances[first..first + GRID + 2];
    let [a, b, c, d] = [corners[0], corners[1], corners[GRID], corners[GRID + 1]];
    let top = a + fx * (b - a);
    let bottom = c + fx * (d - c);
    top + fy * (bottom - top) + beyond
}

/// How much of a pixel is covered whose centre is `distance` pixels outside of the glyph: a cubic step of width
/// [`EDGE`] with a continuous derivative.
pub fn coverage(distance: f32) -> f32 {
    let t = (0.5 - distance * (1.0 / EDGE)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Intensity of a pixel; `inverse` is 0 or 1 (between them the contrast fades).
pub fn intensity(coverage: f32, inverse: f32) -> f32 {
    inverse + (1.0 - 2.0 * inverse) * coverage
}

/// A pixel from its intensity.
pub fn quantise(intensity: f32) -> u8 {
    (intensity.clamp(0.0, 1.0) * 255.0) as u8
}

impl Drawing {
    /// Refuses sizes that cannot be drawn and noise that is no standard deviation.
    pub fn check(&self) -> Result<(), GlyphError> {
        if !SIZES.contains(&self.size) {
            return Err(GlyphError::Setting {
                name: "--size",
                expected: format!(
                    "a number of pixels from {} to {}",
                    SIZES.start(),
                    SIZES.end()
                ),
                found: self.size.to_string(),
            });
        }
        if !(0.0..=1.0).contains(&self.pixel_noise) {
            return Err(GlyphError::Setting {
                name: "--pixel-noise",
                expected: "a standard deviation from 0 to 1".to_owned(),
                found: self.pixel_noise.to_string(),
            });
        }
        Ok(())
    }

    /// Intensities without noise, row by row (steps 1 to 6). `None` if the atlas has no such glyph.
    pub fn intensities(&self, atlas: &Atlas, attributes: &Attributes) -> Option<Vec<f32>> {
        let glyph = atlas.glyph(attributes.character, attributes.font)?;
        let placement = Placement::new(attributes, glyph.half_extent, self.size);
        let inverse = f32::from(u8::from(attributes.inverse));
        let mut image = vec![intensity(0.0, inverse); self.size * self.size];
        let [columns, rows] = [0, 1].map(|k| {
            let reach = placement.extent[k] + RIM;
            let low = (placement.centre[k] - reach).max(0.0) as usize;
            let high = (placement.centre[k] + reach).ceil().max(0.0) as usize;
            low.min(self.size)..high.min(self.size)
        });
        for i in rows {
            let row = &mut image[i * self.size..][..self.size];
            for k in columns.clone() {
                let point = placement.to_glyph([k as f32 + 0.5, i as f32 + 0.5]);
                let distance = placement.side * sample(glyph, point);
                row[k] = intensity(coverage(distance), inverse);
            }
        }
        Some(image)
    }

    /// The grey pixels, row by row (steps 1 to 7), with noise from `noise`. `None` if the atlas has no such glyph.
    pub fn pixels(
        &self,
        atlas: &Atlas,
        attributes: &Attributes,
        noise: &mut Draws,
    ) -> Option<Vec<u8>> {
        let mut image = self.intensities(atlas, attributes)?;
        if self.pixel_noise > 0.0 {
            let mut normal = vec![0.0; image.len()];
            noise.fill_normal(&mut normal);
            for (value, normal) in image.iter_mut().zip(normal) {
                *value += self.pixel_noise * normal;
            }
        }
        Some(image.into_iter().map(quantise).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upright(character: usize, font: usize) -> Attributes {
        Attributes {
            character,
            font,
            inverse: false,
            scale: 0.7,
            x: 0.0,
            y: 0.0,
            rotation: 0.0,
        }
    }

    fn plain(size: usize) -> Drawing {
        Drawing {
            size,
            pixel_noise: 0.0,
        }
    }

    #[test]
    fn coverage_is_smooth_and_falls_from_one_to_zero() {
        assert_eq!(
            (coverage(-EDGE), coverage(0.0), coverage(EDGE)),
            (1.0, 0.5, 0.0)
        );
        let slope = |d: f32| (coverage(d + 1e-3) - coverage(d - 1e-3)) / 2e-3;
        // No jump of the derivative at the ends of the ramp: over 2e-3 pixels it changes by 6/EDGE² · 2e-3 at most.
        for end in [-0.5 * EDGE, 0.5 * EDGE] {
            assert!(slope(end).abs() < 0.01, "{}", slope(end));
        }
    }

    #[test]
    fn samples_equal_the_nodes_and_grow_outside_of_the_grid() {
        let atlas = Atlas::embedded().unwrap();
        let glyph = atlas.glyph(0, 0).unwrap();
        let node = super::super::atlas::node;
        for (i, k) in [(0, 0), (10, 20), (63, 63), (31, 0)] {
            let got = sample(glyph, [node(k), node(i)]);
            assert!((got - glyph.distances[i * GRID + k]).abs() < 1e-5);
        }
        let rim = sample(glyph, [REACH, 0.1]);
        assert!((sample(glyph, [REACH + 0.3, 0.1]) - rim - 0.3).abs() < 1e-5);
        assert!(sample(glyph, [100.0, -100.0]) > 190.0);
    }

    #[test]
    fn the_glyph_stays_in_the_image_at_any_position_and_rotation() {
        let atlas = Atlas::embedded().unwrap();
        for (x, y, rotation) in [(-1.0, -1.0, 0.3), (1.0, 1.0, -0.4), (1.0, -1.0, 1.2)] {
            let attributes = Attributes {
                x,
                y,
                rotation,
                ..upright(6, 3)
            };
            let image = plain(64).intensities(&atlas, &attributes).unwrap();
            let whole: f32 = image.iter().sum();
            let centred = plain(64)
                .intensities(
                    &atlas,
                    &Attributes {
                        rotation,
                        ..upright(6, 3)
                    },
                )
                .unwrap();
            // The rim of a pixel that the edge spills over the border is less than 2 % of the ink.
            let expected: f32 = centred.iter().sum();
            assert!((whole / expected - 1.0).abs() < 0.02, "{whole} {expected}");
        }
    }

    #[test]
    fn inverse_colour_swaps_ink_and_ground() {
        let atlas = Atlas::embedded().unwrap();
        let plain_image = plain(32).intensities(&atlas, &upright(1, 2)).unwrap();
        let inverse = Attributes {
            inverse: true,
            ..upright(1, 2)
        };
        let other = plain(32).intensities(&atlas, &inverse).unwrap();
        for (a, b) in plain_image.iter().zip(&other) {
            assert!((a + b - 1.0).abs() < 1e-6);
        }
        assert_eq!((plain_image[0], other[0]), (0.0, 1.0));
    }

    #[test]
    fn the_ground_outside_of_the_box_is_what_the_formula_gives() {
        let atlas = Atlas::embedded().unwrap();
        let attributes = Attributes {
            scale: 0.5,
            x: 0.4,
            y: -0.8,
            rotation: 0.7,
            ..upright(22, 9)
        };
        let image = plain(32).intensities(&atlas, &attributes).unwrap();
        let glyph = atlas.glyph(22, 9).unwrap();
        let placement = Placement::new(&attributes, glyph.half_extent, 32);
        for (at, &value) in image.iter().enumerate() {
            let pixel = [(at % 32) as f32 + 0.5, (at / 32) as f32 + 0.5];
            let distance = placement.side * sample(glyph, placement.to_glyph(pixel));
            assert_eq!(value, coverage(distance));
        }
    }

    #[test]
    fn positive_rotation_turns_clockwise() {
        let placement = Placement::new(
            &Attributes {
                rotation: std::f32::consts::FRAC_PI_2,
                scale: 1.0,
                ..upright(0, 0)
            },
            [0.5, 0.5],
            100,
        );
        // The top of the glyph is seen at the right.
        let [x, y] = placement.to_glyph([90.0, 50.0]);
        assert!((x - 0.0).abs() < 1e-6 && (y + 0.4).abs() < 1e-6, "{x} {y}");
    }

    #[test]
    fn noise_of_the_stated_size_is_added() {
        use crate::stats::random::Stream;
        let atlas = Atlas::embedded().unwrap();
        let drawing = Drawing {
            size: 64,
            pixel_noise: 0.1,
        };
        let grey = Attributes {
            scale: 0.1,
            ..upright(0, 0)
        };
        let mut draws = Draws::new(1, Stream::GLYPH_NOISE, 0);
        let pixels = drawing.pixels(&atlas, &grey, &mut draws).unwrap();
        // The ground is black, so that half of the noise is cut off: E[max(0, N)] = 0.1/√(2π) = 10.2 grey levels.
        let mean = pixels.iter().map(|&p| f64::from(p)).sum::<f64>() / pixels.len() as f64;
        assert!((8.5..14.0).contains(&mean), "{mean}");
        assert_eq!(quantise(0.999), 254);
        assert_eq!((quantise(-1.0), quantise(2.0)), (0, 255));
    }

    #[test]
    fn wrong_sizes_and_unknown_glyphs_are_refused() {
        for size in [0, 7, 513] {
            assert!(plain(size).check().is_err());
        }
        assert!(plain(8).check().is_ok());
        let noise = Drawing {
            pixel_noise: f32::NAN,
            ..Drawing::default()
        };
        assert!(noise.check().is_err());
        let atlas = Atlas::embedded().unwrap();
        assert_eq!(plain(32).intensities(&atlas, &upright(48, 0)), None);
    }
}
