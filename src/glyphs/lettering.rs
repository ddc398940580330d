//! Lines of text in one of the typefaces, for captions of pictures.
//!
//! Only the [`CHARACTERS`] can be drawn; anything else is a gap. The typefaces inside the program have no metrics: letters
//! stand one gap apart.

use super::outline::Outline;
use super::render::{coverage, sample};
use super::{Atlas, CHARACTERS};

/// Gap between two letters and width of a space, as shares of the height of an x.
const GAP: f32 = 0.28;
const SPACE: f32 = 0.75;

/// A line of text: how much of each pixel is covered, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub width: usize,
    pub height: usize,
    pub coverage: Vec<f32>,
}

/// Corners of the box around an outline: low and high.
fn bounds(outline: &Outline) -> Option<[[f64; 2]; 2]> {
    let mut found: Option<[[f64; 2]; 2]> = None;
    for edge in outline.flatten().into_iter().flatten() {
        for point in [edge.from, edge.to] {
            let [low, high] = found.get_or_insert([point; 2]);
            for axis in 0..2 {
                low[axis] = low[axis].min(point[axis]);
                high[axis] = high[axis].max(point[axis]);
            }
        }
    }
    found
}

/// Draws a line of text whose letter x is `x_height` pixels high. `None` if there is no such typeface.
pub fn line(atlas: &Atlas, font: usize, text: &str, x_height: f32) -> Option<Line> {
    let face = atlas.fonts().faces.get(font)?;
    let boxes: Vec<_> = face.outlines.iter().map(bounds).collect();
    let place = |letter: char| CHARACTERS.iter().position(|&c| c == letter);
    let [x_low, x_high] = boxes[place('x')?]?;
    let scale = x_height / (x_high[1] - x_low[1]).max(1e-9) as f32;
    // The letters without accents say how far a line reaches up and down.
    let plain = boxes[..26].iter().flatten();
    let top = plain.clone().map(|b| b[1][1]).fold(0.0, f64::max) as f32 * scale;
    let bottom = plain.map(|b| b[0][1]).fold(0.0, f64::min) as f32 * scale;
    let baseline = top.ceil() + 1.0;
    let height = (baseline - bottom).ceil() as usize + 1;
    let mut letters = Vec::new();
    let mut pen = 1.0f32;
    for letter in text.chars() {
        let known = place(letter).and_then(|c| Some((c, boxes[c]?)));
        let Some((character, [low, high])) = known else {
            pen += SPACE * x_height;
            continue;
        };
        let [wide, high_] = [0, 1].map(|k| (high[k] - low[k]) as f32 * scale);
        let middle = 0.5 * (low[1] + high[1]) as f32 * scale;
        let centre = [pen + 0.5 * wide, baseline - middle];
        letters.push((character, centre, wide.max(high_)));
        pen += wide + GAP * x_height;
    }
    let width = pen.ceil() as usize + 1;
    let mut covered = vec![0.0f32; width * height];
    for (character, centre, side) in letters {
        let glyph = atlas.glyph(character, font)?;
        let reach = 0.5 * side + 2.0;
        let range = |k: usize, end: usize| {
            let low = (centre[k] - reach).max(0.0) as usize;
            low.min(end)..((centre[k] + reach).ceil().max(0.0) as usize).min(end)
        };
        for i in range(1, height) {
            for k in range(0, width) {
                let point = [k as f32 + 0.5 - centre[0], i as f32 + 0.5 - centre[1]];
                let distance = side * sample(glyph, point.map(|v| v / side));
                let pixel = &mut covered[i * width + k];
                *pixel = pixel.max(coverage(distance));
            }
        }
    }
    Some(Line {
        width,
        height,
        coverage: covered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_on_one_line_and_keep_their_heights() {
        let atlas = Atlas::embedded().unwrap();
        let drawn = |text: &str| line(&atlas, 6, text, 12.0).unwrap();
        let rows = |l: &Line| {
            let inked = |i: usize| {
                l.coverage[i * l.width..][..l.width]
                    .iter()
                    .any(|&c| c > 0.5)
            };
            let all: Vec<usize> = (0..l.height).filter(|&i| inked(i)).collect();
            (all[0], all[all.len() - 1])
        };
        let (x, l, p) = (drawn("x"), drawn("l"), drawn("p"));
        assert_eq!((x.height, l.height), (p.height, p.height));
        let ([x_top, x_end], [l_top, l_end], [p_top, p_end]) =
            (rows(&x).into(), rows(&l).into(), rows(&p).into());
        assert!((11..=14).contains(&(x_end - x_top + 1)), "{x_top} {x_end}");
        assert!(l_top + 2 < x_top && l_end.abs_diff(x_end) <= 1);
        assert!(p_end > x_end + 2 && p_top.abs_diff(x_top) <= 1);
        assert!(drawn("a b").width > drawn("ab").width);
        assert!(line(&atlas, 48, "a", 12.0).is_none());
    }
}
