//! The cheapest move of some numbers that reaches a margin: a linear program with branches over the signs of the ReLUs.
//!
//! A hidden value h = relu(a) with a in [l, u] is a when l ≥ 0, 0 when u ≤ 0, and otherwise anything with h ≥ 0, h ≥ a, h ≤ u(a − l)/(u − l). The relaxed program bounds
//! the cost from below; its point, run through the network itself, is a counterfactual or shows which unit to branch on. Best bound first.
//!
//! A branch is cut only by a certificate of its program (`simplex`): proven impossible, or proven not to be cheaper than what is known. A program without one is
//! branched further; if all signs are fixed and still nothing is proven, the answer says that it is not certain. Programs are a little wider than the network
//! ([`SLACK`], [`EDGE`]), so that the rounding of their own numbers cuts off nothing.

use super::Problem;
use super::line::Margin;
use super::simplex::{Answer, Bound, Program, Solution, Variable};

/// By how much programs, and the points they give, may miss the margin: more than its sums are rounded by.
pub const SLACK: f64 = 1e-9;
/// By how much a hidden value may lie on the wrong side of a sign that a branch has fixed, and its bounds are widened.
const EDGE: f64 = 1e-12;
/// Costs that differ by less are the same.
const SAME: f64 = 1e-9;

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Mean over all features of |d| / range.
    Mean,
    /// Largest |d| / range.
    Largest,
}

/// Where numbers may move, and what a unit of cost is.
pub struct Boxes {
    pub low: Vec<f64>,
    pub high: Vec<f64>,
    range: Vec<f64>,
    features: f64,
}

impl Boxes {
    /// Smallest and largest value of the training rows within the allowed range, widened to hold the factual.
    pub fn of(problem: &Problem<'_>) -> Self {
        let space = problem.space;
        let width = problem.factual.len();
        let statistics = &space.statistics;
        let low: Vec<f64> = (0..width)
            .map(|c| statistics.min[c].max(space.low[c]).min(problem.factual[c]))
            .collect();
        let high: Vec<f64> = (0..width)
            .map(|c| statistics.max[c].min(space.high[c]).max(problem.factual[c]))
            .collect();
        let range = low
            .iter()
            .zip(&high)
            .map(|(l, h)| (h - l).max(1e-12))
            .collect();
        Self {
            low,
            high,
            range,
            features: space.features() as f64,
        }
    }
}

/// Signs that a node of the search has fixed: true for a ≥ 0.
type Signs = Vec<Option<bool>>;

/// What a search came to.
pub struct Cheapest {
    /// Cost and point.
    pub best: Option<(f64, Vec<f64>)>,
    /// Whether it is proven that nothing is cheaper (by more than 1e-9) or, without a point, that there is none.
    pub certain: bool,
}

/// What a node's linear program says.
enum Relaxed {
    /// A point, and what all points of this branch cost at least.
    Point { at_least: f64, moves: Vec<f64> },
    /// Proven to hold no point.
    Empty,
    /// Nothing.
    Unsure,
}

/// Smallest cost and point for which the margin of `from`, with the columns `free` moved, is at least `least`.
pub fn cheapest(
    problem: &Problem<'_>,
    margin: &Margin,
    from: &[f64],
    boxes: &Boxes,
    free: &[usize],
    cost: Cost,
    least: f64,
) -> Cheapest {
    let hidden = margin.hidden(from);
    let units = hidden.len();
    let mut best: Option<(f64, Vec<f64>)> = None;
    let mut certain = true;
    let mut open: Vec<(f64, Signs)> = vec![(0.0, vec![None; units])];
    let node = Node {
        margin,
        from,
        hidden: &hidden,
        boxes,
        free,
        cost,
        least,
    };
    while !open.is_empty() {
        let at = (0..open.len())
            .min_by(|&a, &b| open[a].0.total_cmp(&open[b].0))
            .unwrap_or(0);
        let (bound, signs) = open.swap_remove(at);
        let worse = |bound: f64, best: &Option<(f64, Vec<f64>)>| {
            best.as_ref()
                .is_some_and(|(known, _)| bound >= known - SAME)
        };
        if worse(bound, &best) {
            break;
        }
        if problem.clock.is_over() {
            certain = false;
            break;
        }
        let (bound, moves) = match node.relaxed(&signs) {
            Relaxed::Empty => continue,
            Relaxed::Point { at_least, moves } => (bound.max(at_least), Some(moves)),
            Relaxed::Unsure => (bound, None),
        };
        if worse(bound, &best) {
            continue;
        }
        if let Some(moves) = &moves {
            let mut x = from.to_vec();
            free.iter().zip(moves).for_each(|(&c, by)| {
                x[c] = (x[c] + by).clamp(boxes.low[c], boxes.high[c]);
            });
            if margin.at(&x) >= least - 2.0 * SLACK {
                let paid = node.paid(&x);
                if best.as_ref().is_none_or(|(known, _)| paid < *known) {
                    best = Some((paid, x));
                }
            }
            if worse(bound, &best) {
                continue;
            }
        }
        let Some(unit) = node.branch(&signs, moves.as_deref()) else {
            // All signs are fixed, and neither a point nor a proof came of it.
            certain = false;
            continue;
        };
        for sign in [true, false] {
            let mut next = signs.clone();
            next[unit] = Some(sign);
            open.push((bound, next));
        }
    }
    Cheapest { best, certain }
}

struct Node<'a> {
    margin: &'a Margin,
    from: &'a [f64],
    hidden: &'a [f64],
    boxes: &'a Boxes,
    free: &'a [usize],
    cost: Cost,
    least: f64,
}

impl Node<'_> {
    /// What a point costs.
    fn paid(&self, x: &[f64]) -> f64 {
        let each = self
            .free
            .iter()
            .map(|&c| (x[c] - self.from[c]).abs() / self.boxes.range[c]);
        match self.cost {
            Cost::Mean => each.sum::<f64>() / self.boxes.features,
            Cost::Largest => each.fold(0.0, f64::max),
        }
    }

    /// The unit whose sign is not known and matters most: where the program's value is furthest from the ReLU's or, without a point, the widest one.
    fn branch(&self, signs: &[Option<bool>], moves: Option<&[f64]>) -> Option<usize> {
        let undecided = (0..signs.len()).filter_map(|unit| {
            let [l, u] = self.bounds(unit);
            (signs[unit].is_none() && l < 0.0 && u > 0.0).then_some((unit, l, u))
        });
        let weight = |unit: usize| self.margin.weights[unit].abs();
        let gap = |(unit, l, u): (usize, f64, f64)| -> (f64, f64, usize) {
            // The triangle is widest at a = 0; a unit with a positive weight is lifted to its upper edge, others fall to the ReLU itself.
            let wide = -l * u / (u - l) * weight(unit);
            let Some(moves) = moves else {
                return (0.0, wide, unit);
            };
            let rates = self.free.iter().map(|&c| self.margin.row(c)[unit]);
            let a = self.hidden[unit] + rates.zip(moves).map(|(r, by)| r * by).sum::<f64>();
            let edge = (u * (a - l) / (u - l)).max(0.0);
            let lifted = match self.margin.weights[unit] > 0.0 {
                true => (edge - a.max(0.0)).max(0.0) * weight(unit),
                false => 0.0,
            };
            (lifted, wide, unit)
        };
        undecided
            .map(gap)
            .max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)))
            .map(|(_, _, unit)| unit)
    }

    fn relaxed(&self, signs: &[Option<bool>]) -> Relaxed {
        let mut program = Program::default();
        let features = self.boxes.features;
        let weight = |c: usize| 1.0 / self.boxes.range[c];
        // Moves up and down are variables of their own, so that |d| is their sum.
        let each = |c: usize| match self.cost {
            Cost::Mean => weight(c) / features,
            Cost::Largest => 0.0,
        };
        let moves: Vec<[Variable; 2]> = self
            .free
            .iter()
            .map(|&c| {
                let up = (self.boxes.high[c] - self.from[c]).max(0.0);
                let down = (self.from[c] - self.boxes.low[c]).max(0.0);
                [
                    program.variable(each(c), up),
                    program.variable(each(c), down),
                ]
            })
            .collect();
        if self.cost == Cost::Largest {
            let far = |&c: &usize| {
                let up = self.boxes.high[c] - self.from[c];
                weight(c) * up.max(self.from[c] - self.boxes.low[c])
            };
            let farthest = self.free.iter().map(far).fold(0.0, f64::max);
            let top = program.variable(1.0, 2.0 * farthest);
            for (&c, [up, down]) in self.free.iter().zip(&moves) {
                let row = [(*up, weight(c)), (*down, weight(c)), (top, -1.0)];
                program.row(&row, Bound::AtMost, 0.0);
            }
        }
        let mut total: Vec<(Variable, f64)> = Vec::new();
        let mut constant = self.margin.bias;
        for (unit, sign) in signs.iter().enumerate() {
            let [l, u] = self.bounds(unit);
            let v = self.margin.weights[unit];
            // a = a0 + Σ rate · (up − down).
            let terms: Vec<(Variable, f64)> = self
                .free
                .iter()
                .zip(&moves)
                .flat_map(|(&c, [up, down])| {
                    let rate = self.margin.row(c)[unit];
                    [(*up, rate), (*down, -rate)]
                })
                .collect();
            let a0 = self.hidden[unit];
            let on = *sign == Some(true) || (sign.is_none() && l >= 0.0);
            let off = *sign == Some(false) || (sign.is_none() && u <= 0.0);
            if on {
                if l < 0.0 {
                    program.row(&terms, Bound::AtLeast, -a0 - EDGE);
                }
                total.extend(terms.iter().map(|(variable, rate)| (*variable, v * rate)));
                constant += v * a0;
            } else if off {
                if u > 0.0 {
                    program.row(&terms, Bound::AtMost, -a0 + EDGE);
                }
            } else {
                let h = program.variable(0.0, u);
                let mut above = terms.clone();
                above.iter_mut().for_each(|t| t.1 = -t.1);
                above.push((h, 1.0));
                program.row(&above, Bound::AtLeast, a0);
                let slope = u / (u - l);
                let mut below = terms;
                below.iter_mut().for_each(|t| t.1 *= -slope);
                below.push((h, 1.0));
                program.row(&below, Bound::AtMost, slope * (a0 - l));
                total.push((h, v));
            }
        }
        program.row(&total, Bound::AtLeast, self.least - SLACK - constant);
        let moved = |solution: &Solution| -> Vec<f64> {
            let each = moves.iter();
            each.map(|[up, down]| solution.value(*up) - solution.value(*down))
                .collect()
        };
        match program.solve() {
            Answer::Solved(solution) => Relaxed::Point {
                at_least: solution.at_least,
                moves: moved(&solution),
            },
            Answer::Impossible => Relaxed::Empty,
            Answer::Unsure => Relaxed::Unsure,
        }
    }

    /// What a hidden value can be before its ReLU.
    fn bounds(&self, unit: usize) -> [f64; 2] {
        let mut ends = [self.hidden[unit]; 2];
        for &c in self.free {
            let rate = self.margin.row(c)[unit];
            let (down, up) = (
                self.boxes.low[c] - self.from[c],
                self.boxes.high[c] - self.from[c],
            );
            ends[0] += (rate * down).min(rate * up);
            ends[1] += (rate * down).max(rate * up);
        }
        let wider = EDGE * (1.0 + ends[0].abs() + ends[1].abs());
        [ends[0] - wider, ends[1] + wider]
    }
}
