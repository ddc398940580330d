//! DiCE 0.4 as the benchmark ran it.
//!
//! (a) In tables of numbers the query is broken: \[x₀, 0, 0, …\] is explained, and the wished class is the other one of that point. (b) Groups are found by the start of
//! a column's name, so that `1` also holds `10_…`; a binary column is a group of one, pulled to 1 and rounded to 1. (c) The last step, which moves numbers back towards
//! the factual, edits the column whose number is the feature's number among the numerical ones: another column in mixed tables.
//! Numbers are clipped to the range of an inner 80 % split (seed 17) and rounded to the decimals of their most frequent value, as if they were scaled to [0, 1].

use super::adam::Adam;
use super::dice::DiceParams;
use super::{Found, Problem, Result};
use crate::stats::interval::quantile;
use crate::stats::legacy_numpy::LegacyNumpy;
use crate::tabular::{Kind, Kinds, Toward, median, median_absolute_deviation};

/// What DiCE knows of a numerical column.
struct Number {
    column: usize,
    min: f64,
    max: f64,
    decimals: i32,
    /// How far back the last step may go.
    reach: f64,
}

/// Everything about one query.
struct Query<'a, 'b> {
    problem: &'a Problem<'b>,
    x: Vec<f64>,
    numbers: Vec<Number>,
    groups: Vec<Vec<usize>>,
    weights: Vec<f64>,
    /// +1 if the wished class is the target, −1 if it is the factual's own.
    sign: f64,
}

/// The variant of the benchmark.
pub fn as_benchmarked(problem: &Problem<'_>, params: DiceParams) -> Result<Found> {
    let mut toward = Toward::new(problem.network("dice")?, problem.target);
    let query = Query::new(problem, &mut toward);
    let width = problem.factual.len();
    let mut adam = Adam::new(width, params.rate, [0.9, 0.999], 1e-8);
    let (mut x, mut gradient) = (query.x.clone(), vec![0.0; width]);
    let mut last_loss = 0.0;
    let mut backup: Option<(f64, Vec<f64>)> = None;
    let mut rounded = query.rounded(&x);
    for step in 0..params.most_steps {
        if problem.clock.is_over() {
            break;
        }
        let loss = query.loss(&mut toward, &x, params, &mut gradient);
        adam.step(&mut x, &gradient);
        query.clip(&mut x);
        rounded = query.rounded(&x);
        let p = query.wished(&mut toward, &rounded);
        if p >= 0.5
            && backup
                .as_ref()
                .is_none_or(|(known, _)| (p - 0.5).abs() < (known - 0.5).abs())
        {
            backup = Some((p, rounded.clone()));
        }
        let still = (loss - last_loss).abs() <= params.still;
        last_loss = loss;
        if step + 1 >= params.least_steps && still && (p * 1000.0).round() / 1000.0 >= 0.5 {
            break;
        }
    }
    let mut result = rounded;
    if query.wished(&mut toward, &result) < 0.5
        && let Some((_, kept)) = backup
    {
        result = kept;
    }
    query.move_back(&mut toward, &mut result);
    Ok(Found::one(Some(result), &problem.clock))
}

impl<'a, 'b> Query<'a, 'b> {
    fn new(problem: &'a Problem<'b>, toward: &mut Toward<'_>) -> Self {
        let space = problem.space;
        let encoding = space.encoding;
        let inner = inner_rows(space.train);
        let column = |c: usize| -> Vec<f64> { inner.iter().map(|r| r[c]).collect() };
        let mut weights = vec![1.0; encoding.width()];
        let numbers: Vec<Number> = encoding
            .numerical()
            .into_iter()
            .map(|c| {
                let values = column(c);
                let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or(0.0);
                let (min, max) = (fold(f64::min), fold(f64::max));
                let scaled: Vec<f64> = values.iter().map(|v| (v - min) / (max - min)).collect();
                let mad = median_absolute_deviation(&scaled);
                if mad > 0.0 {
                    weights[c] = (100.0 / mad).round_ties_even() / 100.0;
                }
                Number {
                    column: c,
                    min,
                    max,
                    decimals: decimals(&values),
                    reach: reach(&values),
                }
            })
            .collect();
        let mut x = problem.factual.to_vec();
        if encoding.kinds() == Kinds::Numerical {
            x[1..].fill(0.0);
        }
        let sign = if toward.probability(&x) > 0.5 {
            -1.0
        } else {
            1.0
        };
        Self {
            groups: groups_by_prefix(problem),
            problem,
            x,
            numbers,
            weights,
            sign,
        }
    }

    /// Probability of the class that is wished for.
    fn wished(&self, toward: &mut Toward<'_>, x: &[f64]) -> f64 {
        let p = toward.probability(x);
        if self.sign > 0.0 { p } else { 1.0 - p }
    }

    /// The loss, with its gradient.
    fn loss(
        &self,
        toward: &mut Toward<'_>,
        x: &[f64],
        params: DiceParams,
        gradient: &mut [f64],
    ) -> f64 {
        let p = toward.probability(x);
        let q = (p - 1e-6).abs();
        let hinge = 1.0 - self.sign * (q / (1.0 - q)).ln();
        toward.margin_gradient(gradient);
        let slope = -self.sign * (p - 1e-6).signum() * p * (1.0 - p) / (q * (1.0 - q));
        let scale = if hinge > 0.0 { slope } else { 0.0 };
        let m = x.len() as f64;
        let mut total = hinge.max(0.0);
        for c in 0..x.len() {
            let away = x[c] - self.x[c];
            total += params.proximity * self.weights[c] * away.abs() / m;
            let side = if away == 0.0 { 0.0 } else { away.signum() };
            gradient[c] = scale * gradient[c] + params.proximity * self.weights[c] * side / m;
        }
        for group in &self.groups {
            let excess = group.iter().map(|&c| x[c]).sum::<f64>() - 1.0;
            total += params.groups * excess * excess;
            group
                .iter()
                .for_each(|&c| gradient[c] += 2.0 * params.groups * excess);
        }
        total
    }

    fn clip(&self, x: &mut [f64]) {
        for c in self.problem.space.encoding.zero_one() {
            x[c] = x[c].clamp(0.0, 1.0);
        }
        for number in &self.numbers {
            x[number.column] = x[number.column].clamp(number.min, number.max);
        }
    }

    /// Categories by their first largest entry, numbers by their decimals.
    fn rounded(&self, x: &[f64]) -> Vec<f64> {
        let mut out = x.to_vec();
        for group in &self.groups {
            let mut best = group[0];
            for &c in group {
                if x[c] > x[best] {
                    best = c;
                }
            }
            group
                .iter()
                .for_each(|&c| out[c] = f64::from(u8::from(c == best)));
        }
        for number in &self.numbers {
            out[number.column] = number.rounded(x[number.column]);
        }
        out
    }

    /// Moves numbers back towards the factual while the class stays, by the wrong column in mixed tables.
    fn move_back(&self, toward: &mut Toward<'_>, x: &mut [f64]) {
        if self.wished(toward, x) < 0.5 {
            return;
        }
        let mut order: Vec<usize> = (0..self.numbers.len()).collect();
        order.sort_by(|&a, &b| self.numbers[b].reach.total_cmp(&self.numbers[a].reach));
        for at in order {
            let number = &self.numbers[at];
            let c = at;
            let away = self.x[c] - x[c];
            if away.abs() > number.reach {
                continue;
            }
            let step = 10f64.powi(-number.decimals) / (number.max - number.min);
            let mut kept = x[c];
            // Steps are of the last decimal of a scaled number and do not get anywhere: the original gives up after ten.
            for _ in 0..10 {
                if (self.x[c] - x[c]).abs() <= step || self.wished(toward, x) < 0.5 {
                    break;
                }
                kept = x[c];
                x[c] = number.rounded(x[c] + step * (self.x[c] - x[c]).signum());
            }
            if self.wished(toward, x) < 0.5 {
                x[c] = kept;
            }
        }
    }
}

impl Number {
    fn rounded(&self, value: f64) -> f64 {
        let scale = 10f64.powi(self.decimals);
        let wide = value * (self.max - self.min) + self.min;
        ((wide * scale).round_ties_even() / scale - self.min) / (self.max - self.min)
    }
}

/// The training part of DiCE's own split.
fn inner_rows(train: &[Vec<f64>]) -> Vec<&Vec<f64>> {
    let held_out = (0.2 * train.len() as f64).ceil() as usize;
    let order = LegacyNumpy::new(17).permutation(train.len() as u32);
    order[held_out..].iter().map(|&i| &train[i]).collect()
}

/// Digits behind the point of the most frequent value (the smallest of equals) in single precision.
fn decimals(values: &[f64]) -> i32 {
    let mut sorted: Vec<f32> = values.iter().map(|&v| v as f32).collect();
    sorted.sort_by(f32::total_cmp);
    let mut best: &[f32] = &[];
    for run in sorted.chunk_by(|a, b| a == b) {
        if run.len() > best.len() {
            best = run;
        }
    }
    let text = best.first().map_or(String::new(), |v| v.to_string());
    text.split_once('.')
        .map_or(0, |(_, digits)| digits.len() as i32)
}

/// min(10 % quantile of |unique − median|, MAD).
fn reach(values: &[f64]) -> f64 {
    let mut unique = values.to_vec();
    unique.sort_by(f64::total_cmp);
    unique.dedup();
    let middle = median(&mut values.to_vec());
    let mut away: Vec<f64> = unique.iter().map(|v| (v - middle).abs()).collect();
    away.sort_by(f64::total_cmp);
    let low = quantile(&away, 0.1).unwrap_or(0.0);
    low.min(median_absolute_deviation(values))
}

/// Groups as found by the start of column names.
fn groups_by_prefix(problem: &Problem<'_>) -> Vec<Vec<usize>> {
    let encoding = problem.space.encoding;
    let mixed = encoding.kinds() == Kinds::Mixed;
    let zero_one = encoding.zero_one();
    let features = encoding.schema.features.iter().enumerate();
    features
        .filter(|(_, f)| f.kind != Kind::Numerical)
        .map(|(i, _)| {
            let prefix = if mixed {
                format!("{i:04}")
            } else {
                i.to_string()
            };
            let starts = |&&c: &&usize| encoding.columns[c].name.starts_with(&prefix);
            zero_one.iter().filter(starts).copied().collect()
        })
        .collect()
}
