//! The cheapest move of some numbers that reaches a margin: a linear program with branches over the signs of the ReLUs.
//!
//! A hidden value h = relu(a) with a in [l, u] is a when l ≥ 0, 0 when u ≤ 0, and otherwise anything with h ≥ 0, h ≥ a, h ≤ u(a − l)/(u − l). The relaxed program bounds
//! the cost from below; its point, run through the network itself, is a counterfactual or shows which unit to branch on. Best bound first.

use super::Problem;
use super::line::Margin;
use super::simplex::{Bound, Program, Variable};

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

/// What a node's linear program says.
struct Relaxed {
    cost: f64,
    moves: Vec<f64>,
    /// The undecided unit whose value is furthest from its ReLU.
    branch: Option<usize>,
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
) -> Option<(f64, Vec<f64>)> {
    let hidden = margin.hidden(from);
    let units = hidden.len();
    let mut best: Option<(f64, Vec<f64>)> = None;
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
        let settled = best
            .as_ref()
            .is_some_and(|(known, _)| bound >= *known - 1e-10);
        if settled || problem.clock.is_over() {
            break;
        }
        let Some(relaxed) = node.relaxed(&signs) else {
            continue;
        };
        if best
            .as_ref()
            .is_some_and(|(known, _)| relaxed.cost >= *known - 1e-10)
        {
            continue;
        }
        let mut x = from.to_vec();
        free.iter()
            .zip(&relaxed.moves)
            .for_each(|(&c, by)| x[c] += by);
        if margin.at(&x) >= least - 1e-9 {
            best = Some((relaxed.cost, x));
            continue;
        }
        let Some(unit) = relaxed.branch else {
            // All signs are those of the point: rounding alone keeps it below.
            if margin.at(&x) >= least - 1e-7 {
                best = Some((relaxed.cost, x));
            }
            continue;
        };
        for sign in [true, false] {
            let mut next = signs.clone();
            next[unit] = Some(sign);
            open.push((relaxed.cost, next));
        }
    }
    best
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
    fn relaxed(&self, signs: &[Option<bool>]) -> Option<Relaxed> {
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
            let top = program.variable(1.0, f64::INFINITY);
            for (&c, [up, down]) in self.free.iter().zip(&moves) {
                let row = [(*up, weight(c)), (*down, weight(c)), (top, -1.0)];
                program.row(&row, Bound::AtMost, 0.0);
            }
        }
        let mut total: Vec<(Variable, f64)> = Vec::new();
        let mut constant = self.margin.bias;
        let mut undecided: Vec<(usize, Variable)> = Vec::new();
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
                    program.row(&terms, Bound::AtLeast, -a0);
                }
                total.extend(terms.iter().map(|(variable, rate)| (*variable, v * rate)));
                constant += v * a0;
            } else if off {
                if u > 0.0 {
                    program.row(&terms, Bound::AtMost, -a0);
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
                undecided.push((unit, h));
            }
        }
        program.row(&total, Bound::AtLeast, self.least - constant);
        let solution = program.solve()?;
        let moves: Vec<f64> = moves
            .iter()
            .map(|[up, down]| solution.value(*up) - solution.value(*down))
            .collect();
        let gap = |unit: usize, h: Variable| {
            let rates = self.free.iter().map(|&c| self.margin.row(c)[unit]);
            let a = self.hidden[unit] + rates.zip(&moves).map(|(r, by)| r * by).sum::<f64>();
            (solution.value(h) - a.max(0.0)).abs() * self.margin.weights[unit].abs()
        };
        let branch = undecided
            .iter()
            .map(|&(unit, h)| (gap(unit, h), unit))
            .filter(|(gap, _)| *gap > 1e-12)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        Some(Relaxed {
            cost: solution.cost,
            moves,
            branch: branch.map(|(_, unit)| unit),
        })
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
        ends
    }
}
