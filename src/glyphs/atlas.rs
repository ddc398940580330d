//! The atlas: for every character of every typeface an image of signed distances to its outline.
//!
//! A glyph is moved and scaled so that the centre of its bounding box is the origin and the longest side of the box is 1;
//! y points downwards, as in images. Its distance image has [`GRID`] × [`GRID`] nodes; node (row i, column k) is the point
//! (x, y) = (k, i) · [`SPACING`] − [`REACH`], so that the outermost nodes lie on the square |x|, |y| = [`REACH`]. The value
//! is the exact Euclidean distance to the boundary of the (flattened) glyph in the same units, positive outside and
//! negative inside, where inside is a winding number other than zero.
//!
//! All arithmetic is plain f32 and f64 with square roots only: the atlas has the same bits on every machine.

use std::sync::OnceLock;

use rayon::prelude::*;

use super::boundary::{Edge, true_boundary, winding_along};
use super::outline::Outline;
use super::{CHARACTERS, Fonts, GlyphError};

/// Nodes along a side of a distance image.
pub const GRID: usize = 64;

/// Coordinate of the outermost nodes; the glyph itself reaches 0.5.
pub const REACH: f32 = 0.5625;

/// Distance between neighbouring nodes.
pub const SPACING: f32 = 2.0 * REACH / (GRID - 1) as f32;

/// Nodes along a side of the blocks that share a list of near edges.
const BLOCK: usize = 8;

/// One character of one typeface.
#[derive(Debug, Clone, PartialEq)]
pub struct Glyph {
    /// Half the sides of the bounding box, x and y; the larger one is 0.5.
    pub half_extent: [f32; 2],
    /// Signed distances, [`GRID`] rows of [`GRID`].
    pub distances: Box<[f32]>,
}

/// All glyphs of a set of typefaces; each is computed when it is first asked for.
#[derive(Debug)]
pub struct Atlas {
    fonts: Fonts,
    glyphs: Vec<OnceLock<Glyph>>,
}

impl Atlas {
    /// An atlas of these typefaces, with nothing computed yet.
    pub fn new(fonts: Fonts) -> Self {
        let count = CHARACTERS.len() * fonts.faces.len();
        Self {
            fonts,
            glyphs: std::iter::repeat_with(OnceLock::new).take(count).collect(),
        }
    }

    /// An atlas of the typefaces inside the program.
    pub fn embedded() -> Result<Self, GlyphError> {
        Fonts::embedded().map(Self::new)
    }

    /// The typefaces.
    pub fn fonts(&self) -> &Fonts {
        &self.fonts
    }

    /// Number of typefaces.
    pub fn font_count(&self) -> usize {
        self.fonts.faces.len()
    }

    /// One glyph; `None` if there is no such character or typeface.
    pub fn glyph(&self, character: usize, font: usize) -> Option<&Glyph> {
        let outline = self.fonts.faces.get(font)?.outlines.get(character)?;
        let cell = self.glyphs.get(character * self.font_count() + font)?;
        Some(cell.get_or_init(|| Glyph::new(outline)))
    }

    /// All glyphs, computed in parallel where they are not there yet: characters outside, typefaces inside.
    pub fn glyphs(&self) -> Vec<&Glyph> {
        let fonts = self.font_count();
        (0..self.glyphs.len())
            .into_par_iter()
            .filter_map(|i| self.glyph(i / fonts, i % fonts))
            .collect()
    }

    /// The distances of all glyphs as one array, characters × typefaces × [`GRID`] × [`GRID`].
    pub fn distances(&self) -> Vec<f32> {
        let glyphs = self.glyphs();
        let mut all = Vec::with_capacity(glyphs.len() * GRID * GRID);
        for glyph in glyphs {
            all.extend_from_slice(&glyph.distances);
        }
        all
    }

    /// Half the sides of the bounding boxes of all glyphs, in the same order.
    pub fn half_extents(&self) -> Vec<[f32; 2]> {
        self.glyphs().iter().map(|g| g.half_extent).collect()
    }
}

impl Glyph {
    /// The distance image of an outline. An outline that encloses nothing gives an empty image: [`REACH`] everywhere.
    pub fn new(outline: &Outline) -> Self {
        let mut contours = outline.flatten();
        let boundary = true_boundary(&contours);
        let mut low = [f64::INFINITY; 2];
        let mut high = [f64::NEG_INFINITY; 2];
        for point in boundary.iter().flat_map(|e| [e.from, e.to]) {
            for axis in 0..2 {
                low[axis] = low[axis].min(point[axis]);
                high[axis] = high[axis].max(point[axis]);
            }
        }
        let sides = [0, 1].map(|axis| high[axis] - low[axis]);
        let longest = sides[0].max(sides[1]);
        if boundary.is_empty() || longest <= 0.0 {
            return Self {
                half_extent: [0.0; 2],
                distances: vec![REACH; GRID * GRID].into_boxed_slice(),
            };
        }
        let place = |p: [f64; 2]| {
            let [x, y] = [0, 1].map(|k| (p[k] - 0.5 * (low[k] + high[k])) / longest);
            [x, -y]
        };
        let placed = |e: &Edge| Edge {
            from: place(e.from),
            to: place(e.to),
        };
        for edge in contours.iter_mut().flatten() {
            *edge = placed(edge);
        }
        let edges: Vec<Edge> = contours.into_iter().flatten().collect();
        let boundary: Vec<Segment> = boundary.iter().map(|e| Segment::new(&placed(e))).collect();
        let mut distances = unsigned_distances(&boundary);
        negate_inside(&mut distances, &edges);
        Self {
            half_extent: sides.map(|side| (0.5 * side / longest) as f32),
            distances: distances.into_boxed_slice(),
        }
    }
}

/// Coordinate of node `k`.
pub fn node(k: usize) -> f32 {
    k as f32 * SPACING - REACH
}

/// An edge of the boundary, ready for distances.
#[derive(Clone, Copy)]
struct Segment {
    from: [f32; 2],
    direction: [f32; 2],
    inverse_square: f32,
}

impl Segment {
    fn new(edge: &Edge) -> Self {
        let direction = [0, 1].map(|k| (edge.to[k] - edge.from[k]) as f32);
        let square = direction[0] * direction[0] + direction[1] * direction[1];
        Self {
            from: edge.from.map(|v| v as f32),
            direction,
            inverse_square: if square > 0.0 { 1.0 / square } else { 0.0 },
        }
    }

    fn squared_distance(&self, x: f32, y: f32) -> f32 {
        let (px, py) = (x - self.from[0], y - self.from[1]);
        let along = (px * self.direction[0] + py * self.direction[1]) * self.inverse_square;
        let t = along.clamp(0.0, 1.0);
        let (dx, dy) = (px - t * self.direction[0], py - t * self.direction[1]);
        dx * dx + dy * dy
    }
}

/// The nearest edge of a node is among those that are, from the middle of its block, at most a diagonal of the block
/// further away than the nearest one.
fn unsigned_distances(boundary: &[Segment]) -> Vec<f32> {
    let mut distances = vec![0.0; GRID * GRID];
    let half = 0.5 * (BLOCK - 1) as f32 * SPACING;
    let slack = 2.0 * half * std::f32::consts::SQRT_2 + 1e-4;
    let mut from_middle = vec![0.0; boundary.len()];
    let mut near = Vec::with_capacity(boundary.len());
    for row in (0..GRID).step_by(BLOCK) {
        for column in (0..GRID).step_by(BLOCK) {
            let (x, y) = (node(column) + half, node(row) + half);
            let mut least = f32::INFINITY;
            for (distance, segment) in from_middle.iter_mut().zip(boundary) {
                *distance = segment.squared_distance(x, y);
                least = least.min(*distance);
            }
            let limit = (least.sqrt() + slack) * (least.sqrt() + slack);
            near.clear();
            let candidates = boundary.iter().zip(&from_middle);
            near.extend(candidates.filter(|(_, d)| **d <= limit).map(|(s, _)| *s));
            for i in row..row + BLOCK {
                let ys = node(i);
                let out = &mut distances[i * GRID + column..][..BLOCK];
                let xs: [f32; BLOCK] = std::array::from_fn(|k| node(column + k));
                let mut squares = [f32::INFINITY; BLOCK];
                for segment in &near {
                    for (square, &x) in squares.iter_mut().zip(&xs) {
                        *square = square.min(segment.squared_distance(x, ys));
                    }
                }
                for (value, square) in out.iter_mut().zip(squares) {
                    *value = square.sqrt();
                }
            }
        }
    }
    distances
}

fn negate_inside(distances: &mut [f32], edges: &[Edge]) {
    let xs: Vec<f64> = (0..GRID).map(|k| f64::from(node(k))).collect();
    for (i, row) in distances.chunks_exact_mut(GRID).enumerate() {
        let winding = winding_along(edges, f64::from(node(i)), &xs);
        for (value, winding) in row.iter_mut().zip(winding) {
            if winding != 0 {
                *value = -*value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::outline::{Contour, Piece};
    use super::*;

    fn rectangle(x: f64, y: f64, width: f64, height: f64) -> Contour {
        Contour {
            start: [x, y],
            pieces: vec![
                Piece::Line([x + width, y]),
                Piece::Line([x + width, y + height]),
                Piece::Line([x, y + height]),
            ],
        }
    }

    /// Signed distance to a rectangle of half sides (a, b) about the origin.
    fn to_rectangle(x: f32, y: f32, a: f32, b: f32) -> f32 {
        let (qx, qy) = (x.abs() - a, y.abs() - b);
        qx.max(0.0).hypot(qy.max(0.0)) + qx.max(qy).min(0.0)
    }

    fn every_node(glyph: &Glyph, expected: impl Fn(f32, f32) -> f32) {
        for i in 0..GRID {
            for k in 0..GRID {
                let (got, want) = (glyph.distances[i * GRID + k], expected(node(k), node(i)));
                // Rounding of f32 coordinates of size 1.
                assert!((got - want).abs() < 1e-6, "({k}, {i}): {got} {want}");
            }
        }
    }

    #[test]
    fn distances_to_a_rectangle_are_exact() {
        let glyph = Glyph::new(&Outline {
            contours: vec![rectangle(100.0, -30.0, 40.0, 80.0)],
        });
        assert_eq!(glyph.half_extent, [0.25, 0.5]);
        every_node(&glyph, |x, y| to_rectangle(x, y, 0.25, 0.5));
    }

    #[test]
    fn overlapping_contours_have_no_edges_inside() {
        let whole = Glyph::new(&Outline {
            contours: vec![rectangle(0.0, 0.0, 10.0, 10.0)],
        });
        let halves = Glyph::new(&Outline {
            contours: vec![
                rectangle(0.0, 0.0, 7.0, 10.0),
                rectangle(3.0, 0.0, 7.0, 10.0),
            ],
        });
        every_node(&halves, |x, y| to_rectangle(x, y, 0.5, 0.5));
        assert_eq!(halves.half_extent, whole.half_extent);
    }

    #[test]
    fn the_first_row_is_the_top() {
        // An L: the upright on the left, the foot below.
        let glyph = Glyph::new(&Outline {
            contours: vec![
                rectangle(0.0, 0.0, 2.0, 10.0),
                rectangle(0.0, 0.0, 10.0, 2.0),
            ],
        });
        let at = |row: usize, column: usize| glyph.distances[row * GRID + column];
        assert!(at(8, 8) < 0.0 && at(55, 55) < 0.0);
        assert!(at(8, 55) > 0.3);
    }

    #[test]
    fn an_outline_of_no_area_is_empty() {
        let line = Contour {
            start: [0.0, 0.0],
            pieces: vec![Piece::Line([5.0, 5.0])],
        };
        for contours in [vec![], vec![line]] {
            let glyph = Glyph::new(&Outline { contours });
            assert!(glyph.distances.iter().all(|&d| d == REACH));
        }
    }

    #[test]
    fn every_glyph_of_the_program_is_drawn_and_fills_its_box() {
        let atlas = Atlas::embedded().unwrap();
        let glyphs = atlas.glyphs();
        assert_eq!(glyphs.len(), 48 * 48);
        for (i, glyph) in glyphs.iter().enumerate() {
            let (character, font) = (CHARACTERS[i / 48], i % 48);
            let inside = glyph.distances.iter().filter(|d| **d < 0.0).count();
            assert!(inside > 40, "{character} of {font}: {inside} nodes inside");
            let largest = glyph.half_extent[0].max(glyph.half_extent[1]);
            assert_eq!(largest, 0.5, "{character} of {font}");
            let rows = glyph.distances.chunks_exact(GRID).enumerate();
            for (i, row) in rows {
                for (k, pair) in row.windows(2).enumerate() {
                    let step = (pair[0] - pair[1]).abs();
                    assert!(
                        step <= SPACING + 1e-6,
                        "{character} of {font} at ({k}, {i})"
                    );
                }
            }
        }
        assert!(atlas.glyph(48, 0).is_none() && atlas.glyph(0, 48).is_none());
    }
}
