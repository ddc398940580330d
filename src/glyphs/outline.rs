//! Outlines of glyphs: closed contours of lines and Bézier curves, y upwards, in the units of their typeface.

use super::boundary::Edge;

/// Largest distance between a curve and its chords, as a share of the longest side of the control points' box.
const FLATNESS: f64 = 4e-4;

/// Most chords of one curve.
const CHORDS: f64 = 64.0;

/// A point (x, y).
pub type Point = [f64; 2];

/// A piece of a contour; it starts where the piece before ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Piece {
    Line(Point),
    Quadratic(Point, Point),
    Cubic(Point, Point, Point),
}

/// A closed contour; the last piece is joined to `start` by a line if it does not end there.
#[derive(Debug, Clone, PartialEq)]
pub struct Contour {
    pub start: Point,
    pub pieces: Vec<Piece>,
}

/// The contours of a glyph. A point is inside if the contours wind around it a number of times other than zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outline {
    pub contours: Vec<Contour>,
}

impl Piece {
    pub(super) fn points(&self) -> impl Iterator<Item = Point> + use<> {
        let (points, count) = match *self {
            Piece::Line(end) => ([end; 3], 1),
            Piece::Quadratic(control, end) => ([control, end, end], 2),
            Piece::Cubic(first, second, end) => ([first, second, end], 3),
        };
        points.into_iter().take(count)
    }

    fn end(&self) -> Point {
        match *self {
            Piece::Line(end) | Piece::Quadratic(_, end) | Piece::Cubic(_, _, end) => end,
        }
    }
}

impl Outline {
    /// The contours as straight edges; the edges of a contour follow one another.
    pub fn flatten(&self) -> Vec<Vec<Edge>> {
        let tolerance = FLATNESS * self.longest_side();
        let contours = self.contours.iter();
        contours
            .map(|contour| contour.flatten(tolerance))
            .filter(|edges| edges.len() > 1)
            .collect()
    }

    fn longest_side(&self) -> f64 {
        let mut low = [f64::INFINITY; 2];
        let mut high = [f64::NEG_INFINITY; 2];
        for contour in &self.contours {
            let pieces = contour.pieces.iter().flat_map(Piece::points);
            for point in std::iter::once(contour.start).chain(pieces) {
                for axis in 0..2 {
                    low[axis] = low[axis].min(point[axis]);
                    high[axis] = high[axis].max(point[axis]);
                }
            }
        }
        (high[0] - low[0]).max(high[1] - low[1]).max(0.0)
    }
}

impl Contour {
    /// A contour in the way of TrueType: points on the curve and off it, where two points off the curve have one on it
    /// midway between them. `None` for fewer than two points.
    pub fn from_quadratic_points(points: &[(Point, bool)]) -> Option<Self> {
        if points.len() < 2 {
            return None;
        }
        let middle = |a: Point, b: Point| [0.5 * (a[0] + b[0]), 0.5 * (a[1] + b[1])];
        let first_on = points.iter().position(|&(_, on)| on);
        let (start, skip) = match first_on {
            Some(at) => (points[at].0, at + 1),
            None => (middle(points[points.len() - 1].0, points[0].0), 0),
        };
        let rest = points.len() - usize::from(first_on.is_some());
        let mut pieces = Vec::with_capacity(points.len());
        let mut control: Option<Point> = None;
        for k in 0..rest {
            let (point, on) = points[(skip + k) % points.len()];
            match (control.take(), on) {
                (None, true) => pieces.push(Piece::Line(point)),
                (None, false) => control = Some(point),
                (Some(before), true) => pieces.push(Piece::Quadratic(before, point)),
                (Some(before), false) => {
                    pieces.push(Piece::Quadratic(before, middle(before, point)));
                    control = Some(point);
                }
            }
        }
        if let Some(before) = control {
            pieces.push(Piece::Quadratic(before, start));
        }
        Some(Self { start, pieces })
    }

    fn flatten(&self, tolerance: f64) -> Vec<Edge> {
        let mut edges = Vec::new();
        let mut at = self.start;
        let mut to = |point: Point| {
            if point != at {
                edges.push(Edge {
                    from: at,
                    to: point,
                });
                at = point;
            }
        };
        let mut from = self.start;
        for piece in &self.pieces {
            let bend = piece.second_difference(from);
            // n chords are at most (second derivative) / (8 n²) away from the curve.
            let chords = (bend / (4.0 * tolerance)).sqrt().ceil().clamp(1.0, CHORDS) as usize;
            for k in 1..chords {
                to(piece.at(from, k as f64 / chords as f64));
            }
            to(piece.end());
            from = piece.end();
        }
        to(self.start);
        edges
    }
}

impl Piece {
    /// Half the largest second derivative.
    fn second_difference(&self, from: Point) -> f64 {
        let bend = |a: Point, b: Point, c: Point| {
            let [x, y] = [0, 1].map(|k| a[k] - 2.0 * b[k] + c[k]);
            (x * x + y * y).sqrt()
        };
        match *self {
            Piece::Line(_) => 0.0,
            Piece::Quadratic(control, end) => bend(from, control, end),
            Piece::Cubic(first, second, end) => {
                3.0 * bend(from, first, second).max(bend(first, second, end))
            }
        }
    }

    /// The point at `t` in [0, 1].
    fn at(&self, from: Point, t: f64) -> Point {
        let s = 1.0 - t;
        [0, 1].map(|k| match *self {
            Piece::Line(end) => s * from[k] + t * end[k],
            Piece::Quadratic(control, end) => {
                s * s * from[k] + 2.0 * s * t * control[k] + t * t * end[k]
            }
            Piece::Cubic(first, second, end) => {
                s * s * s * from[k]
                    + 3.0 * s * s * t * first[k]
                    + 3.0 * s * t * t * second[k]
                    + t * t * t * end[k]
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_off_the_curve_have_one_on_it_between_them() {
        let off = [[1.0, 0.0], [1.0, 2.0], [-1.0, 2.0], [-1.0, 0.0]];
        let contour = Contour::from_quadratic_points(&off.map(|p| (p, false))).unwrap();
        assert_eq!(contour.start, [0.0, 0.0]);
        assert_eq!(contour.pieces[0], Piece::Quadratic(off[0], [1.0, 1.0]));
        assert_eq!(contour.pieces[3], Piece::Quadratic(off[3], [0.0, 0.0]));
        let mixed = [([0.0, 0.0], true), ([1.0, 1.0], false), ([2.0, 0.0], true)];
        let contour = Contour::from_quadratic_points(&mixed).unwrap();
        assert_eq!(contour.pieces, [Piece::Quadratic([1.0, 1.0], [2.0, 0.0])]);
        assert_eq!(Contour::from_quadratic_points(&mixed[..1]), None);
    }

    /// A circle of four cubics with the usual constant is 2.7e-4 of its radius off at most.
    #[test]
    fn chords_stay_close_to_a_circle() {
        let k = 0.552_284_75;
        let contour = Contour {
            start: [1.0, 0.0],
            pieces: vec![
                Piece::Cubic([1.0, k], [k, 1.0], [0.0, 1.0]),
                Piece::Cubic([-k, 1.0], [-1.0, k], [-1.0, 0.0]),
                Piece::Cubic([-1.0, -k], [-k, -1.0], [0.0, -1.0]),
                Piece::Cubic([k, -1.0], [1.0, -k], [1.0, 0.0]),
            ],
        };
        let outline = Outline {
            contours: vec![contour],
        };
        let edges = &outline.flatten()[0];
        for (edge, next) in edges.iter().zip(edges.iter().cycle().skip(1)) {
            assert_eq!(edge.to, next.from);
            let middle = [0, 1].map(|k| 0.5 * (edge.from[k] + edge.to[k]));
            let radius = (middle[0] * middle[0] + middle[1] * middle[1]).sqrt();
            assert!((radius - 1.0).abs() < 2.0 * FLATNESS + 3e-4, "{radius}");
        }
    }
}
