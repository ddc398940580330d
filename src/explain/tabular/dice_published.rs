//! DiCE 0.4 as the benchmark ran it.
//!
//! (a) In tables of numbers the query is broken: \[x₀, 0, 0, …\] is explained, and the wished class is the other one of that point. (b) Groups are found by the start of
//! a column's name, so that `1` also holds `10_…`; a binary column is a group of one, pulled to 1 and rounded to 1. (c) The last step, which moves numbers back towards
//! the factual, edits the column whose number is the feature's number among the numerical ones: another column in mixed tables.
//! Numbers are clipped to the range of an inner 80 % split (seed 17) and rounded to the decimals of their most frequent value, as if they were scaled to [0, 1].
//! A group with gaps is taken as all columns from its first to its last, both where its sum is pulled to 1 and where its largest entry is looked for; that entry's
//! place among all these columns then counts as a place in the group, and where the group has fewer columns none of them is set. Everything is in single
//! precision: where a number rests at its bound, the last bits decide when it leaves.

use super::dice::DiceParams;
use super::{Found, Problem, Result};
use crate::stats::interval::quantile;
use crate::stats::legacy_numpy::LegacyNumpy;
use crate::tabular::{Kind, Kinds, Network, Toward, median, median_absolute_deviation};
use crate::tensor::dense::{Dense32, Pass32};

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
    x: Vec<f32>,
    numbers: Vec<Number>,
    groups: Vec<Vec<usize>>,
    weights: Vec<f32>,
    /// +1 if the wished class is the target, −1 if it is the factual's own.
    sign: f32,
}

/// The variant of the benchmark.
pub fn as_benchmarked(problem: &Problem<'_>, params: DiceParams) -> Result<Found> {
    let network = problem.network("dice")?;
    let mut toward = Toward::new(network, problem.target);
    let query = Query::new(problem, &mut toward);
    let mut model = Model::new(network, problem.target);
    let (mut x, mut gradient) = (query.x.clone(), vec![0.0; query.x.len()]);
    let mut adam = Adam::new(x.len(), params.rate);
    let mut last_loss = 0.0;
    let mut backup: Option<(f32, Vec<f32>)> = None;
    let mut rounded = query.rounded(&x);
    for step in 0..params.most_steps {
        if problem.clock.is_over() {
            break;
        }
        let loss = query.loss(&mut model, &x, params, &mut gradient);
        adam.step(&mut x, &gradient);
        query.clip(&mut x);
        rounded = query.rounded(&x);
        let p = query.wished(model.probability(&rounded));
        if p >= 0.5
            && backup
                .as_ref()
                .is_none_or(|(known, _)| (p - 0.5).abs() < (known - 0.5).abs())
        {
            backup = Some((p, rounded.clone()));
        }
        let still = f64::from((loss - last_loss).abs()) <= params.still;
        last_loss = loss;
        let shown = (f64::from(p) * 1000.0).round_ties_even() / 1000.0;
        if step + 1 >= params.least_steps && still && shown >= 0.5 {
            break;
        }
    }
    if query.wished(model.probability(&rounded)) < 0.5
        && let Some((_, kept)) = backup
    {
        rounded = kept;
    }
    let mut result: Vec<f64> = rounded.iter().map(|&v| f64::from(v)).collect();
    query.move_back(&mut toward, &mut result);
    Ok(Found::one(Some(result), &problem.clock))
}

/// The network in single precision.
struct Model<'a> {
    network: &'a Dense32,
    pass: Pass32,
    /// By which logits grow the margin of the target.
    direction: [f32; 2],
}

impl<'a> Model<'a> {
    fn new(network: &'a Network, target: usize) -> Self {
        let mut direction = [-1.0; 2];
        direction[target] = 1.0;
        Self {
            network: &network.single,
            pass: network.single.pass(),
            direction,
        }
    }

    /// Probability of the target.
    fn probability(&mut self, x: &[f32]) -> f32 {
        self.network.forward(x, &mut self.pass);
        let [a, b] = self.pass.logits;
        let margin = self.direction[0] * a + self.direction[1] * b;
        1.0 / (1.0 + (-margin).exp())
    }

    /// Gradient of the margin at the point that was asked last.
    fn margin_gradient(&mut self, out: &mut [f32]) {
        self.network.backward(&mut self.pass, self.direction, out);
    }
}

/// Adam in single precision.
struct Adam {
    rate: f64,
    first: Vec<f32>,
    second: Vec<f32>,
    step: i32,
}

impl Adam {
    fn new(width: usize, rate: f64) -> Self {
        Self {
            rate,
            first: vec![0.0; width],
            second: vec![0.0; width],
            step: 0,
        }
    }

    fn step(&mut self, x: &mut [f32], gradient: &[f32]) {
        const BETAS: [f64; 2] = [0.9, 0.999];
        let [b1, b2] = BETAS.map(|b| b as f32);
        let [rest1, rest2] = BETAS.map(|b| (1.0 - b) as f32);
        self.step += 1;
        let corrections = BETAS.map(|b| 1.0 - b.powi(self.step));
        let rate = (self.rate * corrections[1].sqrt() / corrections[0]) as f32;
        for (i, &g) in gradient.iter().enumerate() {
            self.first[i] = b1 * self.first[i] + rest1 * g;
            self.second[i] = b2 * self.second[i] + rest2 * g * g;
            x[i] -= rate * self.first[i] / (self.second[i].sqrt() + 1e-8);
        }
    }
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
                    weights[c] = ((100.0 / mad).round_ties_even() / 100.0) as f32;
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
            x: x.iter().map(|&v| v as f32).collect(),
            numbers,
            weights,
            sign,
        }
    }

    /// Probability of the class that is wished for, where the target's is `p`.
    fn wished(&self, p: f32) -> f32 {
        if self.sign > 0.0 { p } else { 1.0 - p }
    }

    /// The loss, with its gradient.
    fn loss(
        &self,
        model: &mut Model<'_>,
        x: &[f32],
        params: DiceParams,
        gradient: &mut [f32],
    ) -> f32 {
        let p = model.probability(x);
        let q = (p - 1e-6).abs();
        let hinge = 1.0 - self.sign * (q / (1.0 - q)).ln();
        model.margin_gradient(gradient);
        let slope = -self.sign * (p - 1e-6).signum() * p * (1.0 - p) / (q * (1.0 - q));
        let scale = if hinge > 0.0 { slope } else { 0.0 };
        let (m, near, pull) = (
            x.len() as f32,
            params.proximity as f32,
            params.groups as f32,
        );
        let mut away = 0.0f32;
        for c in 0..x.len() {
            let d = x[c] - self.x[c];
            away += self.weights[c] * d.abs();
            let side = if d == 0.0 { 0.0 } else { d.signum() };
            gradient[c] = scale * gradient[c] + near * self.weights[c] * side / m;
        }
        let mut total = hinge.max(0.0) + near * away / m;
        for group in &self.groups {
            let columns = reach_of(group);
            let excess = x[columns.clone()].iter().sum::<f32>() - 1.0;
            total += pull * excess * excess;
            gradient[columns]
                .iter_mut()
                .for_each(|g| *g += 2.0 * pull * excess);
        }
        total
    }

    fn clip(&self, x: &mut [f32]) {
        for c in self.problem.space.encoding.zero_one() {
            x[c] = x[c].clamp(0.0, 1.0);
        }
        for number in &self.numbers {
            x[number.column] = x[number.column].clamp(number.min as f32, number.max as f32);
        }
    }

    /// Categories by the place of their first largest entry, group after group; numbers by their decimals.
    fn rounded(&self, x: &[f32]) -> Vec<f32> {
        let mut out = x.to_vec();
        for group in &self.groups {
            let values = &out[reach_of(group)];
            let mut best = 0;
            for (i, value) in values.iter().enumerate() {
                if *value > values[best] {
                    best = i;
                }
            }
            for (i, &c) in group.iter().enumerate() {
                out[c] = f32::from(u8::from(i == best));
            }
        }
        for number in &self.numbers {
            out[number.column] = number.rounded(f64::from(x[number.column])) as f32;
        }
        out
    }

    /// Moves numbers back towards the factual while the class stays, by the wrong column in mixed tables.
    fn move_back(&self, toward: &mut Toward<'_>, x: &mut [f64]) {
        let wished = |toward: &mut Toward<'_>, x: &[f64]| {
            let p = toward.probability(x);
            if self.sign > 0.0 { p } else { 1.0 - p }
        };
        if wished(toward, x) < 0.5 {
            return;
        }
        let mut order: Vec<usize> = (0..self.numbers.len()).collect();
        order.sort_by(|&a, &b| self.numbers[b].reach.total_cmp(&self.numbers[a].reach));
        for at in order {
            let number = &self.numbers[at];
            let c = at;
            let query = f64::from(self.x[c]);
            let away = query - x[c];
            if away.abs() > number.reach {
                continue;
            }
            let step = 10f64.powi(-number.decimals) / (number.max - number.min);
            let mut kept = x[c];
            // Steps are of the last decimal of a scaled number and do not get anywhere: the original gives up after ten.
            for _ in 0..10 {
                if (query - x[c]).abs() <= step || wished(toward, x) < 0.5 {
                    break;
                }
                kept = x[c];
                x[c] = number.rounded(x[c] + step * (query - x[c]).signum());
            }
            if wished(toward, x) < 0.5 {
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

/// All columns from the first of a group to its last.
fn reach_of(group: &[usize]) -> std::ops::Range<usize> {
    match group {
        [first, .., last] => *first..last + 1,
        [only] => *only..only + 1,
        [] => 0..0,
    }
}

/// Columns of each categorical and binary feature, as found by the start of their names: the number of the feature, so that 1 also finds 10, 11, ….
fn groups_by_prefix(problem: &Problem<'_>) -> Vec<Vec<usize>> {
    let encoding = problem.space.encoding;
    let zero_one = encoding.zero_one();
    let features = encoding.schema.features.iter().enumerate();
    features
        .filter(|(_, f)| f.kind != Kind::Numerical)
        .map(|(i, _)| {
            let prefix = i.to_string();
            let starts = |&&c: &&usize| {
                let feature = encoding.columns[c].feature.to_string();
                feature.starts_with(&prefix)
            };
            zero_one.iter().filter(starts).copied().collect()
        })
        .collect()
}
