//! MACE (Karimi et al. 2020): the smallest change there is, with a proof.
//!
//! The cost is the number of changed features (the benchmark's zero norm) or, for numbers, the mean or largest |d| over the range. Sets of features are tried by
//! size. Categories are enumerated; along one number the network is piecewise linear and solved exactly; several numbers are a linear program with branches over
//! the signs of the ReLUs (`mace_branch`). What a change can add to the margin at most is known, so most sets are dismissed without being tried. When the time is
//! up, every size below the current one is proven impossible: that is the gap.
//!
//! What is proven: no row within the ranges whose margin is at least [`MaceParams::least_margin`] changes fewer features. A set of features is dismissed by enumeration, by
//! the exact line search, or by certificates; where neither a point nor a certificate is found, and where rules refuse the one point that was found among numbers
//! that could take others, the size is left unproven and so is everything that is found at a larger one.
//!
//! As benchmarked: the last training row is explained in place of the factual, and the decision is z₁ > 0 for the wished output instead of z₁ > z₀.

use super::line::Margin;
use super::mace_branch::{Boxes, Cheapest, Cost, SLACK, cheapest};
use super::{Ended, Found, Problem, Proof, Result};
use crate::tabular::Kind;

/// What a change costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// Number of changed features.
    Features,
    /// Mean over features of |d| / range.
    MeanShift,
    /// Largest |d| / range.
    LargestShift,
}

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct MaceParams {
    /// Margin (difference of logits) that a counterfactual must have.
    pub least_margin: f64,
    /// Most changed features that are tried.
    pub most_features: usize,
}

impl Default for MaceParams {
    fn default() -> Self {
        Self {
            least_margin: 1e-6,
            most_features: usize::MAX,
        }
    }
}

/// The `correct` variant.
pub fn correct(problem: &Problem<'_>, params: MaceParams) -> Result<Found> {
    let margin = Margin::new(problem.network("mace")?, problem.target);
    let ranges = Boxes::of(problem);
    let search = Search {
        problem,
        margin: &margin,
        factual: problem.factual,
        boxes: &ranges,
        params,
    };
    search.run(&|x| problem.space.allows(problem.factual, x) && problem.reached(x))
}

/// The variant of the benchmark.
pub fn as_benchmarked(problem: &Problem<'_>, params: MaceParams) -> Result<Found> {
    let margin = Margin::of_output(problem.network("mace")?, problem.target);
    let Some(row) = problem.space.train.last() else {
        return Ok(Found::one(None, &problem.clock));
    };
    let ranges = Boxes::of(problem);
    let search = Search {
        problem,
        margin: &margin,
        factual: row,
        boxes: &ranges,
        params,
    };
    if margin.at(row) > params.least_margin {
        // The row as it is satisfies what was asked.
        return Ok(Found::one(Some(row.clone()), &problem.clock));
    }
    search.run(&|x| margin.at(x) > 0.0)
}

/// The smallest cost for which numbers alone reach a margin of at least 0, and the point; for tables of numbers.
pub fn minimal_change(
    problem: &Problem<'_>,
    distance: Distance,
    free: &[usize],
) -> Result<Cheapest> {
    let margin = Margin::new(problem.network("mace")?, problem.target);
    let ranges = Boxes::of(problem);
    let cost = match distance {
        Distance::LargestShift => Cost::Largest,
        _ => Cost::Mean,
    };
    Ok(cheapest(
        problem,
        &margin,
        problem.factual,
        &ranges,
        free,
        cost,
        0.0,
    ))
}

struct Search<'a, 'b> {
    problem: &'a Problem<'b>,
    margin: &'a Margin,
    factual: &'a [f64],
    boxes: &'a Boxes,
    params: MaceParams,
}

/// A set of features in the making.
struct Chosen {
    x: Vec<f64>,
    hidden: Vec<f64>,
    /// Columns of numbers that are free to move.
    numbers: Vec<usize>,
}

/// A counterfactual: changed features, distance, point.
type Candidate = (usize, f64, Vec<f64>);

/// What the sets of one size came to, and what was found before.
struct Progress {
    found: Vec<Candidate>,
    /// Whether every set that was dismissed was dismissed by a proof.
    certain: bool,
}

impl Search<'_, '_> {
    /// Sets of features by size, until one has a counterfactual.
    fn run(&self, accept: &dyn Fn(&[f64]) -> bool) -> Result<Found> {
        let space = self.problem.space;
        // A change that adds nothing to the margin may still be what a rule asks for.
        let ruled = !space.encoding.schema.rules.is_empty();
        let mut gains: Vec<(f64, usize)> = (0..space.features())
            .filter(|&f| space.mutable[f])
            .map(|f| (self.most_gain(f), f))
            .filter(|(gain, _)| *gain > 0.0 || ruled)
            .collect();
        gains.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let most = self.params.most_features.min(gains.len());
        let mut progress = Progress {
            found: Vec::new(),
            certain: true,
        };
        // Every smaller size is proven impossible.
        let mut at_least = 1;
        let fewest = |progress: &Progress| progress.found.iter().map(|c| c.0).min();
        for size in 1..=most {
            if self.problem.clock.is_over() || fewest(&progress).is_some_and(|n| n <= at_least) {
                break;
            }
            let start = Chosen {
                x: self.factual.to_vec(),
                hidden: self.margin.hidden(self.factual),
                numbers: Vec::new(),
            };
            self.extend(&gains, 0, size, start, accept, &mut progress)?;
            let there = fewest(&progress).is_some_and(|n| n <= size);
            if progress.certain && !there && !self.problem.clock.is_over() {
                at_least = size + 1;
            }
            if there {
                break;
            }
        }
        let over = self.problem.clock.is_over();
        let fewest = fewest(&progress);
        let exhausted = most == gains.len() && at_least > most;
        let proof = Proof {
            found: fewest.map(|n| n as f64),
            at_least: at_least as f64,
            // A counterfactual of the first size that is not proven impossible is optimal, even if time ends the choice among them.
            optimal: fewest.map_or(exhausted, |n| n <= at_least),
        };
        let mut found: Vec<Candidate> = progress
            .found
            .into_iter()
            .filter(|c| Some(c.0) == fewest)
            .collect();
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        let points = found
            .into_iter()
            .take(self.problem.k.max(1))
            .map(|(_, _, x)| x)
            .collect();
        Ok(Found {
            counterfactuals: points,
            ended: if over { Ended::Budget } else { Ended::Complete },
            proof: Some(proof),
        })
    }

    /// The most that changing one feature can add to the margin.
    fn most_gain(&self, feature: usize) -> f64 {
        let space = self.problem.space;
        let columns = space.columns(feature);
        let most = |list: &mut dyn Iterator<Item = f64>| list.fold(0.0, f64::max);
        match space.kind(feature) {
            Kind::Numerical => {
                let c = columns[0];
                let ends = [self.boxes.low[c], self.boxes.high[c]];
                let each = ends.iter().map(|end| {
                    let by = end - self.factual[c];
                    self.margin
                        .most_gain(self.margin.row(c).iter().map(|w| w * by))
                });
                most(&mut each.into_iter())
            }
            Kind::Binary => {
                let c = columns[0];
                let by = 1.0 - 2.0 * self.factual[c];
                self.margin
                    .most_gain(self.margin.row(c).iter().map(|w| w * by))
            }
            Kind::Categorical => {
                let here = columns.iter().copied().find(|&c| self.factual[c] == 1.0);
                let Some(here) = here else {
                    return f64::INFINITY;
                };
                let others = columns.iter().filter(|&&c| c != here);
                let each = others.map(|&c| {
                    let pairs = self.margin.row(c).iter().zip(self.margin.row(here));
                    self.margin.most_gain(pairs.map(|(a, b)| a - b))
                });
                most(&mut each.into_iter())
            }
        }
    }

    /// Adds features from `gains[from..]` until `left` more are chosen. `gains` is sorted, so the first ones bound what can still be gained.
    fn extend(
        &self,
        gains: &[(f64, usize)],
        from: usize,
        left: usize,
        chosen: Chosen,
        accept: &dyn Fn(&[f64]) -> bool,
        progress: &mut Progress,
    ) -> Result<()> {
        if left == 0 {
            return self.solve(chosen, accept, progress);
        }
        let now = self.margin.of_hidden(&chosen.hidden) + self.gain_of_numbers(&chosen);
        for at in from..gains.len() {
            if at + left > gains.len() || self.problem.clock.is_over() {
                break;
            }
            let hope: f64 = gains[at..at + left].iter().map(|(gain, _)| gain).sum();
            // The sums are rounded: what is just short of the margin is tried.
            if now + hope < self.params.least_margin - SLACK * (1.0 + now.abs() + hope) {
                break;
            }
            let feature = gains[at].1;
            for next in self.with(&chosen, feature) {
                self.extend(gains, at + 1, left - 1, next, accept, progress)?;
            }
        }
        Ok(())
    }

    fn gain_of_numbers(&self, chosen: &Chosen) -> f64 {
        let gain = |&c: &usize| self.most_gain(self.problem.space.encoding.columns[c].feature);
        chosen.numbers.iter().map(gain).sum()
    }

    /// A feature changed in every way there is; a number becomes free.
    fn with(&self, chosen: &Chosen, feature: usize) -> Vec<Chosen> {
        let space = self.problem.space;
        let columns = space.columns(feature);
        let moved = |changes: &[(usize, f64)]| {
            let (mut x, mut hidden) = (chosen.x.clone(), chosen.hidden.clone());
            for &(c, value) in changes {
                let by = value - x[c];
                x[c] = value;
                hidden
                    .iter_mut()
                    .zip(self.margin.row(c))
                    .for_each(|(h, w)| *h += by * w);
            }
            Chosen {
                x,
                hidden,
                numbers: chosen.numbers.clone(),
            }
        };
        match space.kind(feature) {
            Kind::Numerical => {
                let mut next = moved(&[]);
                next.numbers.push(columns[0]);
                vec![next]
            }
            Kind::Binary => vec![moved(&[(columns[0], 1.0 - chosen.x[columns[0]])])],
            Kind::Categorical => {
                let here = columns.iter().copied().find(|&c| chosen.x[c] == 1.0);
                let others = columns.iter().filter(|&&c| Some(c) != here);
                let away = |&c: &usize| match here {
                    Some(here) => moved(&[(here, 0.0), (c, 1.0)]),
                    None => moved(&[(c, 1.0)]),
                };
                others.map(away).collect()
            }
        }
    }

    /// The cheapest values of the free numbers.
    fn solve(
        &self,
        chosen: Chosen,
        accept: &dyn Fn(&[f64]) -> bool,
        progress: &mut Progress,
    ) -> Result<()> {
        let least = self.params.least_margin;
        let space = self.problem.space;
        let mut x = chosen.x;
        match chosen.numbers[..] {
            [] => {
                if self.margin.of_hidden(&chosen.hidden) < least - SLACK {
                    return Ok(());
                }
            }
            [c] => {
                let (low, high) = (self.boxes.low[c] - x[c], self.boxes.high[c] - x[c]);
                let reach = least - SLACK;
                let found = self
                    .margin
                    .nearest_move(&chosen.hidden, c, low, high, reach);
                let Some(by) = found else {
                    return Ok(());
                };
                x[c] = (x[c] + by).clamp(self.boxes.low[c], self.boxes.high[c]);
            }
            _ => {
                let solved = cheapest(
                    self.problem,
                    self.margin,
                    &x,
                    self.boxes,
                    &chosen.numbers,
                    Cost::Mean,
                    least,
                );
                let Some((_, point)) = solved.best else {
                    progress.certain &= solved.certain;
                    return Ok(());
                };
                x = point;
            }
        }
        if !accept(&x) {
            // Other values of the numbers might be accepted, unless a rule that knows none of them is broken.
            progress.certain &= space.refuses(&x, &chosen.numbers);
            // Rules may be mended by features that follow from others; such a point changes more features than were chosen.
            x = space.realise(self.problem.factual, &x);
            if !accept(&x) {
                return Ok(());
            }
        }
        let changed = space.changed(self.factual, &x).len();
        let distance = space.distance(self.factual, &x);
        progress.found.push((changed, distance, x));
        Ok(())
    }
}
