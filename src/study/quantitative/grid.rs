//! Figure 1: originals in the first column, the counterfactuals of each method beside them. PNG.

use super::QuantitativeError;
use crate::glyphs::{Atlas, lettering};
use crate::score::samples::Pixels;

/// A column of the grid: images of one source in the order of the samples.
pub struct GridColumn<'a> {
    /// Stands above it, in small letters; the typefaces of the program have no digits.
    pub name: &'a str,
    pub pixels: &'a Pixels,
    /// Of values that are no 8-bit pixels.
    pub range: [f64; 2],
}

/// Images are enlarged by a whole factor to about this many pixels.
const SIDE: usize = 84;
const GAP: usize = 4;
/// Of the names: height of the line, and of its letter x.
const HEAD: usize = 20;
const X_HEIGHT: f32 = 9.0;

/// Rows of the grid are `samples`; a white gap stands between images.
pub fn counterfactual_grid(
    columns: &[GridColumn<'_>],
    samples: &[usize],
) -> Result<Vec<u8>, QuantitativeError> {
    let Some(first) = columns.first() else {
        return Err(QuantitativeError::Usage("a grid needs images".into()));
    };
    let [_, _, h, w] = first.pixels.shape;
    let factor = (SIDE / h.max(w).max(1)).max(1);
    let [cell_w, cell_h] = [w * factor + GAP, h * factor + GAP];
    let [width, height] = [
        cell_w * columns.len() + GAP,
        HEAD + cell_h * samples.len() + GAP,
    ];
    let mut canvas = vec![255u8; width * height * 3];
    let atlas = Atlas::embedded().map_err(|e| QuantitativeError::File {
        place: "the typefaces inside the program".into(),
        reason: e.to_string(),
    })?;
    for (column, of) in columns.iter().enumerate() {
        let [n, channels, rows, cols] = of.pixels.shape;
        if [rows, cols] != [h, w] {
            return Err(QuantitativeError::Usage(format!(
                "images of one grid must have one size: {h}x{w} and {rows}x{cols}"
            )));
        }
        let name = of.name.to_lowercase();
        if let Some(line) = lettering::line(&atlas, 0, &name, X_HEIGHT) {
            for (at, &share) in line.coverage.iter().enumerate() {
                let (x, y) = (at % line.width, at / line.width);
                if x < cell_w && y < HEAD {
                    let pixel = (y * width + column * cell_w + GAP + x) * 3;
                    canvas[pixel..pixel + 3].fill((255.0 * (1.0 - share)).round() as u8);
                }
            }
        }
        for (row, &sample) in samples.iter().enumerate().filter(|(_, s)| **s < n) {
            let image = of.pixels.image(sample);
            for y in 0..h * factor {
                for x in 0..w * factor {
                    let at =
                        ((HEAD + row * cell_h + GAP + y) * width + column * cell_w + GAP + x) * 3;
                    for k in 0..3 {
                        let plane = if channels == 3 { k } else { 0 };
                        let value = image[plane * h * w + y / factor * w + x / factor];
                        canvas[at + k] = byte(value, of);
                    }
                }
            }
        }
    }
    let mut png = Vec::new();
    let size = |v: usize| u32::try_from(v).unwrap_or(u32::MAX);
    let encoder = image::codecs::png::PngEncoder::new(&mut png);
    let written = image::ImageEncoder::write_image(
        encoder,
        &canvas,
        size(width),
        size(height),
        image::ExtendedColorType::Rgb8,
    );
    written.map_err(|e| QuantitativeError::File {
        place: "the grid of counterfactuals".into(),
        reason: e.to_string(),
    })?;
    Ok(png)
}

fn byte(value: f32, of: &GridColumn<'_>) -> u8 {
    let [low, high] = of.range;
    let pixel = match of.pixels.eight_bit {
        true => f64::from(value),
        false => (f64::from(value) - low) / (high - low) * 255.0,
    };
    pixel.round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn images_stand_beside_each_other_enlarged() {
        let pixels = Pixels::grey(2, 2, &[0, 50, 100, 200, 7, 7, 7, 7]);
        let of = |pixels| GridColumn {
            name: "GB",
            pixels,
            range: [0.0, 1.0],
        };
        let png = counterfactual_grid(&[of(&pixels), of(&pixels)], &[1, 0]).unwrap();
        let image = crate::images::decode(&png, Path::new("grid"), &Default::default()).unwrap();
        let side = 2 * (84 + 4) + 4;
        assert_eq!([image.width, image.height], [side, HEAD + side]);
        let at = |x: usize, y: usize| image.pixels[((HEAD + y) * image.width + x) * 3];
        // The names are written above the images.
        let head = &image.pixels[..HEAD * image.width * 3];
        assert!(head.iter().filter(|v| **v < 128).count() > 60);
        assert_eq!(
            [at(0, 0), at(5, 5), at(93, 93), at(5, 93 + 42)],
            [255, 7, 0, 100]
        );
    }
}
