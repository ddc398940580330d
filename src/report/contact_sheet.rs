//! A sheet of triples, original, counterfactual and their difference, in titled rows.
//!
//! The difference is red where the counterfactual is darker and blue where it is lighter. Its strength is the square root
//! of the mean difference of the channels, so that faint noise can be seen beside a change of shape.

use image::{Rgb, RgbImage};

use crate::glyphs::{Atlas, lettering};

/// The typeface of captions: Comfortaa.
const FACE: usize = 6;
const PAPER: Rgb<u8> = Rgb([250, 250, 247]);
const INK: [f32; 3] = [45.0, 45.0, 50.0];
const FAINT: [f32; 3] = [140.0, 140.0, 145.0];
/// Pixels between the parts of the sheet.
const MARGIN: u32 = 24;
const GAP: u32 = 4;
const LINE: u32 = 26;
/// Heights of an x in captions.
const LARGE: f32 = 10.0;
const SMALL: f32 = 6.0;

/// An original and its counterfactual, of one size.
pub struct Triple<'a> {
    pub original: &'a RgbImage,
    pub counterfactual: &'a RgbImage,
    /// What is written below it, and in which colour.
    pub caption: String,
    pub colour: [u8; 3],
}

/// A titled part of the sheet.
pub struct Section<'a> {
    pub title: String,
    pub triples: Vec<Triple<'a>>,
}

/// Draws the sheet with `columns` triples side by side, images enlarged by a whole number to about 96 pixels.
pub fn draw(atlas: &Atlas, sections: &[Section<'_>], columns: usize) -> RgbImage {
    let all = || sections.iter().flat_map(|s| &s.triples);
    let side = |f: fn(&RgbImage) -> u32| all().map(|t| f(t.original)).max().unwrap_or(1).max(1);
    let (width, height) = (side(RgbImage::width), side(RgbImage::height));
    let zoom = (96 / width.max(height)).max(1);
    let (cell_w, cell_h) = (width * zoom, height * zoom);
    let columns = columns.max(1) as u32;
    let triple = 3 * cell_w + 2 * GAP;
    let step = cell_h + LINE;
    let rows = |s: &Section<'_>| (s.triples.len() as u32).div_ceil(columns);
    let sheet_w = 2 * MARGIN + columns * triple + (columns - 1) * MARGIN;
    let sections_h: u32 = sections.iter().map(|s| LINE + 8 + rows(s) * step).sum();
    let mut sheet = RgbImage::from_pixel(sheet_w, 2 * MARGIN + LINE + sections_h, PAPER);
    for column in 0..columns {
        let left = MARGIN + column * (triple + MARGIN);
        for (k, name) in ["original", "counterfactual", "difference"]
            .into_iter()
            .enumerate()
        {
            let middle = left + k as u32 * (cell_w + GAP) + cell_w / 2;
            write(
                &mut sheet,
                atlas,
                name,
                SMALL,
                FAINT,
                (middle, MARGIN),
                true,
            );
        }
    }
    let mut top = MARGIN + LINE;
    for section in sections {
        write(
            &mut sheet,
            atlas,
            &section.title,
            LARGE,
            INK,
            (MARGIN, top),
            false,
        );
        top += LINE + 8;
        for (i, triple_) in section.triples.iter().enumerate() {
            let (column, row) = (i as u32 % columns, i as u32 / columns);
            let left = MARGIN + column * (triple + MARGIN);
            let at = top + row * step;
            let difference = difference(triple_.original, triple_.counterfactual);
            let parts = [triple_.original, triple_.counterfactual, &difference];
            for (k, part) in parts.into_iter().enumerate() {
                enlarge(
                    &mut sheet,
                    part,
                    zoom,
                    (left + k as u32 * (cell_w + GAP), at),
                );
            }
            let colour = triple_.colour.map(f32::from);
            let middle = left + cell_w + GAP + cell_w / 2;
            let below = (middle, at + cell_h + 3);
            write(
                &mut sheet,
                atlas,
                &triple_.caption,
                SMALL,
                colour,
                below,
                true,
            );
        }
        top += rows(section) * step;
    }
    sheet
}

/// Red where the second image is darker, blue where it is lighter, white where they are equal.
fn difference(original: &RgbImage, counterfactual: &RgbImage) -> RgbImage {
    RgbImage::from_fn(original.width(), original.height(), |x, y| {
        let other = counterfactual.get_pixel_checked(x, y);
        let other = other.unwrap_or(original.get_pixel(x, y));
        let sum: f32 = (0..3)
            .map(|c| f32::from(other[c]) - f32::from(original.get_pixel(x, y)[c]))
            .sum();
        let strength = (sum.abs() / 765.0).sqrt().min(1.0);
        let full = match sum < 0.0 {
            true => [190.0, 30.0, 45.0],
            false => [30.0, 80.0, 170.0],
        };
        Rgb(full.map(|c: f32| (255.0 + strength * (c - 255.0)).round() as u8))
    })
}

fn enlarge(sheet: &mut RgbImage, part: &RgbImage, zoom: u32, (left, top): (u32, u32)) {
    for (x, y, pixel) in part.enumerate_pixels() {
        for dy in 0..zoom {
            for dx in 0..zoom {
                let to = sheet.get_pixel_mut_checked(left + x * zoom + dx, top + y * zoom + dy);
                if let Some(to) = to {
                    *to = *pixel;
                }
            }
        }
    }
}

/// Writes a line of text from a point on, or centred at it.
fn write(
    sheet: &mut RgbImage,
    atlas: &Atlas,
    text: &str,
    x_height: f32,
    colour: [f32; 3],
    (x, y): (u32, u32),
    centred: bool,
) {
    let Some(line) = lettering::line(atlas, FACE, text, x_height) else {
        return;
    };
    let left = match centred {
        true => x.saturating_sub(line.width as u32 / 2),
        false => x,
    };
    for (at, &share) in line.coverage.iter().enumerate() {
        let (dx, dy) = ((at % line.width) as u32, (at / line.width) as u32);
        if let Some(pixel) = sheet.get_pixel_mut_checked(left + dx, y + dy) {
            for (value, ink) in pixel.0.iter_mut().zip(colour) {
                let paper = f32::from(*value);
                *value = (paper + share * (ink - paper)).round() as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_white_where_nothing_changed_and_coloured_by_its_sign() {
        let original = RgbImage::from_pixel(3, 1, Rgb([100; 3]));
        let mut other = original.clone();
        other.put_pixel(0, 0, Rgb([0; 3]));
        other.put_pixel(2, 0, Rgb([255; 3]));
        let shown = difference(&original, &other);
        assert_eq!(shown.get_pixel(1, 0), &Rgb([255; 3]));
        let [darker, lighter] = [0, 2].map(|x| shown.get_pixel(x, 0).0);
        assert!(darker[0] > darker[2] && lighter[2] > lighter[0]);
    }

    #[test]
    fn a_sheet_holds_every_triple_and_its_captions() {
        let atlas = Atlas::embedded().unwrap();
        let images: Vec<RgbImage> = [10, 240]
            .map(|v| RgbImage::from_pixel(32, 32, Rgb([v; 3])))
            .into();
        let triple = || Triple {
            original: &images[0],
            counterfactual: &images[1],
            caption: "adversarial".into(),
            colour: [200, 0, 0],
        };
        let sections = [Section {
            title: "noise".into(),
            triples: vec![triple(), triple(), triple()],
        }];
        let sheet = draw(&atlas, &sections, 2);
        let count = |wanted: Rgb<u8>| sheet.pixels().filter(|&&p| p == wanted).count();
        // Three images of 96 by 96 pixels each.
        assert_eq!(count(Rgb([10; 3])), 3 * 96 * 96);
        assert_eq!(count(Rgb([240; 3])), 3 * 96 * 96);
        let red = sheet
            .pixels()
            .filter(|p| p[0] > 180 && p[1] < 60 && p[2] < 60);
        assert!(red.count() > 100, "captions in their colour");
    }
}
