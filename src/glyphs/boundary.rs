//! The true boundary of a filled outline: contours may overlap, and only the edges between inside and outside count.
//!
//! Edges are cut where they meet. On either side of a piece the winding number is a count of crossings along a ray;
//! the piece is part of the boundary if it is zero on one side only. Where no two contours meet, one test decides for
//! a whole contour.

/// A directed straight edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    pub from: [f64; 2],
    pub to: [f64; 2],
}

/// Relative to the longest side of all edges: what is closer than this is taken to touch.
const TOUCH: f64 = 1e-9;

impl Edge {
    fn middle(&self) -> [f64; 2] {
        [0, 1].map(|k| 0.5 * (self.from[k] + self.to[k]))
    }

    fn at(&self, t: f64) -> [f64; 2] {
        [0, 1].map(|k| self.from[k] + t * (self.to[k] - self.from[k]))
    }

    fn low(&self, axis: usize) -> f64 {
        self.from[axis].min(self.to[axis])
    }

    fn high(&self, axis: usize) -> f64 {
        self.from[axis].max(self.to[axis])
    }

    /// Where a line along `axis` at `across` on the other axis meets the edge, and the change of winding there: +1 if
    /// the edge goes up, −1 if down. An edge holds its lower end and not its upper one.
    fn crossing(&self, axis: usize, across: f64) -> Option<(f64, i32)> {
        let other = 1 - axis;
        let (a, b) = (self.from[other], self.to[other]);
        if (a <= across) == (b <= across) {
            return None;
        }
        let t = (across - a) / (b - a);
        let at = self.from[axis] + t * (self.to[axis] - self.from[axis]);
        Some((at, if b > a { 1 } else { -1 }))
    }
}

/// The edges of the boundary of the region that the contours wind around; cut into pieces where contours overlap.
pub fn true_boundary(contours: &[Vec<Edge>]) -> Vec<Edge> {
    let edges: Vec<Edge> = contours.iter().flatten().copied().collect();
    let span = (0..2).map(|axis| {
        let low = edges.iter().map(|e| e.low(axis));
        let high = edges.iter().map(|e| e.high(axis));
        high.fold(f64::NEG_INFINITY, f64::max) - low.fold(f64::INFINITY, f64::min)
    });
    let touch = TOUCH * span.fold(0.0, f64::max);
    let Some(cuts) = meetings(contours, &edges, touch) else {
        let whole = contours.iter();
        return whole
            .filter(|contour| {
                let longest = contour
                    .iter()
                    .max_by(|a, b| length(a).total_cmp(&length(b)));
                longest.is_some_and(|edge| separates(edge, &edges, touch))
            })
            .flatten()
            .copied()
            .collect();
    };
    let mut boundary = Vec::with_capacity(edges.len());
    for (edge, mut cuts) in edges.iter().zip(cuts) {
        cuts.sort_by(f64::total_cmp);
        let mut from = 0.0;
        for t in cuts.into_iter().chain([1.0]) {
            let piece = Edge {
                from: edge.at(from),
                to: if t < 1.0 { edge.at(t) } else { edge.to },
            };
            if length(&piece) > touch && separates(&piece, &edges, touch) {
                boundary.push(piece);
            }
            from = t;
        }
    }
    boundary
}

fn length(edge: &Edge) -> f64 {
    let [x, y] = [0, 1].map(|k| edge.to[k] - edge.from[k]);
    (x * x + y * y).sqrt()
}

/// True if the winding number is zero on exactly one side of `piece`.
fn separates(piece: &Edge, edges: &[Edge], touch: f64) -> bool {
    let steep = (piece.to[1] - piece.from[1]).abs() >= (piece.to[0] - piece.from[0]).abs();
    let axis = usize::from(!steep);
    let middle = piece.middle();
    let (mut beyond, mut here) = (0, 0);
    for edge in edges {
        if let Some((at, turn)) = edge.crossing(axis, middle[1 - axis]) {
            // All edges that lie on the piece, itself among them, are crossed together.
            if (at - middle[axis]).abs() <= touch {
                here += turn;
            } else if at > middle[axis] {
                beyond += turn;
            }
        }
    }
    (beyond != 0) != (beyond + here != 0)
}

/// For each edge where others cut it, in (0, 1). `None` if no edges meet but those that follow one another.
fn meetings(contours: &[Vec<Edge>], edges: &[Edge], touch: f64) -> Option<Vec<Vec<f64>>> {
    let mut next = Vec::with_capacity(edges.len());
    for contour in contours {
        let first = next.len();
        next.extend((1..=contour.len()).map(|k| first + k % contour.len()));
    }
    let mut order: Vec<usize> = (0..edges.len()).collect();
    order.sort_by(|&a, &b| edges[a].low(0).total_cmp(&edges[b].low(0)));
    let mut cuts = vec![Vec::new(); edges.len()];
    let mut met = false;
    for (place, &i) in order.iter().enumerate() {
        let right = edges[i].high(0) + touch;
        let (low, high) = (edges[i].low(1) - touch, edges[i].high(1) + touch);
        for &j in &order[place + 1..] {
            if edges[j].low(0) > right {
                break;
            }
            if edges[j].low(1) > high || edges[j].high(1) < low {
                continue;
            }
            let neighbours = next[i] == j || next[j] == i;
            let (on_first, on_second) = meet(&edges[i], &edges[j], touch);
            met |= !neighbours && !on_first.is_empty();
            for (edge, at) in [(i, on_first), (j, on_second)] {
                let inner = touch / length(&edges[edge]);
                let inside = at.into_iter().filter(|&t| t > inner && t < 1.0 - inner);
                cuts[edge].extend(inside);
            }
        }
    }
    let overlap = met || cuts.iter().any(|cuts| !cuts.is_empty());
    overlap.then_some(cuts)
}

/// Where two edges meet, as positions on the first and on the second: one each, or more if they lie on one line.
fn meet(first: &Edge, second: &Edge, touch: f64) -> (Vec<f64>, Vec<f64>) {
    let direction = |e: &Edge| [e.to[0] - e.from[0], e.to[1] - e.from[1]];
    let cross = |a: [f64; 2], b: [f64; 2]| a[0] * b[1] - a[1] * b[0];
    let (d, e) = (direction(first), direction(second));
    let (long, other) = (length(first), length(second));
    let gap = [
        second.from[0] - first.from[0],
        second.from[1] - first.from[1],
    ];
    let turn = cross(d, e);
    if turn.abs() <= touch * long.max(other) {
        if cross(gap, d).abs() > touch * long {
            return (Vec::new(), Vec::new());
        }
        return (ends_on(second, first, touch), ends_on(first, second, touch));
    }
    let (t, s) = (cross(gap, e) / turn, cross(gap, d) / turn);
    let on = |t: f64, length: f64| (-touch..=length + touch).contains(&(t * length));
    if on(t, long) && on(s, other) {
        (vec![t], vec![s])
    } else {
        (Vec::new(), Vec::new())
    }
}

/// The ends of `edge` that lie on `line`, as positions on `line`.
fn ends_on(edge: &Edge, line: &Edge, touch: f64) -> Vec<f64> {
    let d = [line.to[0] - line.from[0], line.to[1] - line.from[1]];
    let square = d[0] * d[0] + d[1] * d[1];
    let position =
        |p: [f64; 2]| ((p[0] - line.from[0]) * d[0] + (p[1] - line.from[1]) * d[1]) / square;
    let slack = touch / square.sqrt();
    let ends = [edge.from, edge.to].into_iter().map(position);
    ends.filter(|&t| t >= -slack && t <= 1.0 + slack).collect()
}

/// Winding numbers at the points (x, `y`) for ascending `xs`.
pub fn winding_along(edges: &[Edge], y: f64, xs: &[f64]) -> Vec<i32> {
    let mut crossings: Vec<(f64, i32)> = edges.iter().filter_map(|e| e.crossing(0, y)).collect();
    crossings.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut passed = crossings.iter().peekable();
    let mut winding = 0;
    xs.iter()
        .map(|&x| {
            while let Some((_, turn)) = passed.next_if(|(at, _)| *at <= x) {
                winding += turn;
            }
            winding
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polygon(points: &[[f64; 2]]) -> Vec<Edge> {
        let ends = points.iter().cycle().skip(1);
        let edges = points.iter().zip(ends);
        edges.map(|(&from, &to)| Edge { from, to }).collect()
    }

    fn square(x: f64, y: f64, side: f64) -> Vec<Edge> {
        polygon(&[[x, y], [x + side, y], [x + side, y + side], [x, y + side]])
    }

    fn total(edges: &[Edge]) -> f64 {
        edges.iter().map(length).sum()
    }

    #[test]
    fn a_hole_is_part_of_the_boundary_and_an_island_in_a_filled_place_is_not() {
        let outer = square(0.0, 0.0, 4.0);
        let island = square(1.0, 1.0, 2.0);
        let mut hole = island.clone();
        hole.reverse();
        for edge in &mut hole {
            std::mem::swap(&mut edge.from, &mut edge.to);
        }
        assert_eq!(total(&true_boundary(&[outer.clone(), hole])), 24.0);
        assert_eq!(true_boundary(&[outer.clone(), island]), outer);
    }

    #[test]
    fn overlapping_squares_keep_only_the_rim_of_their_union() {
        let boundary = true_boundary(&[square(0.0, 0.0, 2.0), square(1.0, 1.0, 2.0)]);
        assert_eq!(total(&boundary), 12.0);
        let inside = |p: [f64; 2]| p.iter().all(|&v| v > 1.0 && v < 2.0);
        assert!(boundary.iter().all(|e| !inside(e.middle())));
    }

    #[test]
    fn squares_that_share_a_side_have_no_edge_between_them() {
        let boundary = true_boundary(&[square(0.0, 0.0, 1.0), square(1.0, 0.0, 1.0)]);
        assert_eq!(total(&boundary), 6.0);
        let shifted = true_boundary(&[square(0.0, 0.0, 2.0), square(2.0, 0.5, 1.0)]);
        assert_eq!(total(&shifted), 10.0);
    }

    #[test]
    fn a_bar_that_crosses_another_is_cut_at_both_sides() {
        let upright = polygon(&[[1.0, -1.0], [2.0, -1.0], [2.0, 2.0], [1.0, 2.0]]);
        let lying = polygon(&[[0.0, 0.0], [3.0, 0.0], [3.0, 1.0], [0.0, 1.0]]);
        assert_eq!(total(&true_boundary(&[upright, lying])), 12.0);
    }

    #[test]
    fn a_bow_tie_is_filled_on_both_sides() {
        let tie = polygon(&[[0.0, 0.0], [2.0, 2.0], [2.0, 0.0], [0.0, 2.0]]);
        let boundary = true_boundary(std::slice::from_ref(&tie));
        assert!((total(&boundary) - total(&tie)).abs() < 1e-12);
        assert_eq!(
            winding_along(&tie, 0.9, &[-1.0, 0.5, 1.0, 1.5, 3.0]),
            [0, -1, 0, 1, 0]
        );
    }
}
