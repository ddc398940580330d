//! Contact sheets: typefaces down, characters across, all upright.

use super::render::SIZES;
use super::{Atlas, Attributes, CHARACTERS, Drawing, GlyphError};

/// How a contact sheet looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sheet {
    /// Side of a glyph's cell in pixels.
    pub cell: usize,
    /// Number of typefaces, spread evenly over all of them.
    pub rows: usize,
    /// Number of characters, spread evenly over all of them.
    pub columns: usize,
}

/// Longest side of a glyph as a share of its cell.
const SCALE: f32 = 0.78;

impl Sheet {
    /// All characters of all typefaces.
    pub fn whole(atlas: &Atlas, cell: usize) -> Self {
        Self {
            cell,
            rows: atlas.font_count(),
            columns: CHARACTERS.len(),
        }
    }

    /// Draws black glyphs on white: width, height and grey pixels, row by row.
    pub fn draw(&self, atlas: &Atlas) -> Result<(usize, usize, Vec<u8>), GlyphError> {
        let drawing = Drawing {
            size: self.cell,
            pixel_noise: 0.0,
        };
        for (name, range, found) in [
            ("--cell", SIZES, self.cell),
            ("--rows", 1..=atlas.font_count(), self.rows),
            ("--columns", 1..=CHARACTERS.len(), self.columns),
        ] {
            if !range.contains(&found) {
                return Err(GlyphError::Setting {
                    name,
                    expected: format!("{} to {}", range.start(), range.end()),
                    found: found.to_string(),
                });
            }
        }
        let (width, height) = (self.columns * self.cell, self.rows * self.cell);
        let mut pixels = vec![255; width * height];
        for row in 0..self.rows {
            for column in 0..self.columns {
                let attributes = Attributes {
                    character: column * CHARACTERS.len() / self.columns,
                    font: row * atlas.font_count() / self.rows,
                    inverse: true,
                    scale: SCALE,
                    x: 0.0,
                    y: 0.0,
                    rotation: 0.0,
                };
                let glyph = drawing.intensities(atlas, &attributes).unwrap_or_default();
                for (i, line) in glyph.chunks_exact(self.cell).enumerate() {
                    let start = (row * self.cell + i) * width + column * self.cell;
                    for (pixel, value) in pixels[start..].iter_mut().zip(line) {
                        *pixel = (value * 255.0).round() as u8;
                    }
                }
            }
        }
        Ok((width, height, pixels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_a_sheet_holds_a_glyph() {
        let atlas = Atlas::embedded().unwrap();
        let sheet = Sheet {
            cell: 16,
            rows: 4,
            columns: 6,
        };
        let (width, height, pixels) = sheet.draw(&atlas).unwrap();
        assert_eq!((width, height), (96, 64));
        for (row, column) in [(0, 0), (3, 5), (2, 1)] {
            let cell = (0..256).map(|k| {
                let (y, x) = (row * 16 + k / 16, column * 16 + k % 16);
                pixels[y * width + x]
            });
            assert!(cell.filter(|p| *p < 128).count() > 5);
        }
        for wrong in [
            Sheet { rows: 49, ..sheet },
            Sheet {
                columns: 0,
                ..sheet
            },
            Sheet { cell: 4, ..sheet },
        ] {
            assert!(wrong.draw(&atlas).is_err());
        }
    }
}
