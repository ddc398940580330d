//! MACE beside exhaustive search: all categories, all sets of numbers, all patterns of ReLUs, all corners of what each pattern leaves.

use serde_json::{Value, json};

use super::line::Margin;
use super::mace::{Distance, MaceParams, correct, minimal_change};
use super::{Clock, Limits, Problem, Space};
use crate::stats::random::{Draws, Stream};
use crate::tabular::{Encoding, Network, Schema, Table};

const LEAST: f64 = 1e-6;
/// What two roundings of the same corner differ by.
const ROUNDING: f64 = 1e-9;

struct World {
    encoding: Encoding,
    rows: Vec<Vec<f64>>,
}

fn between(draws: &mut Draws, low: f64, high: f64) -> f64 {
    low + (high - low) * draws.uniform()
}

/// Two numbers, a feature of three categories and a binary one; 12 rows.
fn world(rules: &Value) -> World {
    let mut text = String::from("colour,member,a,b,class\n");
    let mut draws = Draws::new(3, Stream::TABULAR_SEARCH, 0);
    for i in 0..12 {
        let (a, b) = (
            between(&mut draws, -2.0, 2.0),
            between(&mut draws, -2.0, 2.0),
        );
        let colour = ["red", "green", "blue"][i % 3];
        text.push_str(&format!("{colour},{},{a},{b},{}\n", i / 3 % 2, i % 2));
    }
    let schema = json!({
        "class": "class",
        "features": [
            {"name": "colour", "kind": "categorical", "categories": ["red", "green", "blue"]},
            {"name": "member", "kind": "binary", "values": ["0", "1"]},
            {"name": "a", "kind": "numerical"},
            {"name": "b", "kind": "numerical"},
        ],
        "rules": rules,
    });
    let schema = Schema::from_json("test", &schema).unwrap();
    let table = Table::from_csv("test", text.as_bytes(), &schema, true).unwrap();
    let encoding = Encoding::new(&table).unwrap();
    let rows = encoding.encode_all(&table.rows);
    World { encoding, rows }
}

/// A network of four hidden values.
fn network(inputs: usize, draws: &mut Draws) -> Network {
    let hidden = 4;
    let mut list = |n: usize| -> Vec<f32> { (0..n).map(|_| draws.normal() as f32).collect() };
    let (w1, b1, w2) = (list(inputs * hidden), list(hidden), list(hidden * 2));
    let last = list(2);
    Network::new(inputs, w1, b1, w2, [last[0], last[1]])
}

/// A half space: normal · move ≤ bound.
type Half = (Vec<f64>, f64);

/// The exhaustive search for the free columns of one point.
struct Corners<'a> {
    margin: &'a Margin,
    from: &'a [f64],
    low: &'a [f64],
    high: &'a [f64],
    free: &'a [usize],
    least: f64,
}

impl Corners<'_> {
    /// Every corner of every pattern that reaches the margin and meets `also` (in moves of the free columns); corners with "this column does not move" count as well.
    fn all(&self, also: &[Half]) -> Vec<Vec<f64>> {
        let hidden = self.margin.hidden(self.from);
        let d = self.free.len();
        let unit = |j: usize, sign: f64| -> Vec<f64> {
            (0..d).map(|i| if i == j { sign } else { 0.0 }).collect()
        };
        let mut found = Vec::new();
        for pattern in 0..1usize << hidden.len() {
            let mut halves: Vec<Half> = also.to_vec();
            for (j, &c) in self.free.iter().enumerate() {
                halves.push((unit(j, 1.0), self.high[c] - self.from[c]));
                halves.push((unit(j, -1.0), self.from[c] - self.low[c]));
            }
            let (mut slope, mut constant) = (vec![0.0; d], self.margin.bias);
            for (h, &value) in hidden.iter().enumerate() {
                let rates: Vec<f64> = self.free.iter().map(|&c| self.margin.row(c)[h]).collect();
                let on = pattern >> h & 1 == 1;
                let sign = if on { -1.0 } else { 1.0 };
                halves.push((rates.iter().map(|r| sign * r).collect(), -sign * value));
                if on {
                    let v = self.margin.weights[h];
                    constant += v * value;
                    slope.iter_mut().zip(&rates).for_each(|(s, r)| *s += v * r);
                }
            }
            halves.push((slope.iter().map(|s| -s).collect(), constant - self.least));
            let mut lines = halves.clone();
            (0..d).for_each(|j| lines.push((unit(j, 1.0), 0.0)));
            for point in crossings(&lines, d) {
                let inside = |(normal, bound): &Half| {
                    let at: f64 = normal.iter().zip(&point).map(|(n, m)| n * m).sum();
                    at <= bound + ROUNDING
                };
                if halves.iter().all(inside) {
                    found.push(point);
                }
            }
        }
        found
    }
}

/// Points where as many lines cross as there are dimensions (at most two).
fn crossings(lines: &[Half], d: usize) -> Vec<Vec<f64>> {
    match d {
        0 => vec![Vec::new()],
        1 => lines
            .iter()
            .filter(|(n, _)| n[0].abs() > 1e-12)
            .map(|(n, b)| vec![b / n[0]])
            .collect(),
        _ => {
            let mut points = Vec::new();
            for (i, (p, a)) in lines.iter().enumerate() {
                for (q, b) in &lines[..i] {
                    let det = p[0] * q[1] - p[1] * q[0];
                    if det.abs() > 1e-12 {
                        points.push(vec![
                            (a * q[1] - p[1] * b) / det,
                            (p[0] * b - a * q[0]) / det,
                        ]);
                    }
                }
            }
            points
        }
    }
}

fn ends(rows: &[Vec<f64>], fold: fn(f64, f64) -> f64) -> Vec<f64> {
    let first = rows[0].clone();
    rows.iter().fold(first, |acc, row| {
        acc.iter().zip(row).map(|(a, b)| fold(*a, *b)).collect()
    })
}

#[test]
fn moves_of_numbers_cost_what_all_corners_say() {
    let world = world(&json!([]));
    let space = Space::new(&world.encoding, &world.rows, &Limits::default()).unwrap();
    let numbers = world.encoding.numerical();
    let (low, high) = (ends(&world.rows, f64::min), ends(&world.rows, f64::max));
    let mut draws = Draws::new(11, Stream::TABULAR_SEARCH, 0);
    let (mut reached, mut none) = (0, 0);
    for trial in 0..150 {
        let network = network(world.encoding.width(), &mut draws);
        let factual = &world.rows[trial % world.rows.len()];
        let margin = Margin::new(&network, 1);
        if margin.at(factual) >= 0.0 {
            continue;
        }
        let problem = Problem {
            space: &space,
            predictor: &network,
            factual,
            target: 1,
            row: 0,
            k: 1,
            seed: 0,
            clock: Clock::start(None),
        };
        let corners = Corners {
            margin: &margin,
            from: factual,
            low: &low,
            high: &high,
            free: &numbers,
            least: 0.0,
        };
        let points = corners.all(&[]);
        let shares = |point: &[f64]| -> Vec<f64> {
            let each = point.iter().zip(&numbers);
            each.map(|(m, &c)| m.abs() / (high[c] - low[c])).collect()
        };
        let mean = points
            .iter()
            .map(|p| shares(p).iter().sum::<f64>() / space.features() as f64)
            .reduce(f64::min);
        let got = minimal_change(&problem, Distance::MeanShift, &numbers).unwrap();
        assert!(got.certain, "{trial}");
        match (mean, &got.best) {
            (Some(mean), Some((cost, x))) => {
                assert!((mean - cost).abs() < 1e-6, "{trial}: {mean} {cost}");
                assert!(margin.at(x) >= -1e-8);
                reached += 1;
            }
            (None, None) => none += 1,
            (mean, best) => panic!("{trial}: {mean:?} {:?}", best.as_ref().map(|b| b.0)),
        }
        let largest = minimal_change(&problem, Distance::LargestShift, &numbers).unwrap();
        assert!(largest.certain);
        // No corner has a smaller largest share, and one number alone is never better than both.
        if let Some((cost, _)) = largest.best {
            let bound = points
                .iter()
                .map(|p| shares(p).iter().copied().fold(0.0, f64::max))
                .fold(f64::INFINITY, f64::min);
            assert!(cost <= bound + 1e-6, "{trial}: {cost} {bound}");
        }
    }
    assert!(reached > 20 && none > 5, "{reached} {none}");
}

/// What a rule asks of the moves of the free columns, from a point.
type Also<'a> = &'a dyn Fn(&[f64], &[usize]) -> Vec<Half>;

/// Fewest changed features over all rows there are.
fn fewest(
    space: &Space<'_>,
    margin: &Margin,
    factual: &[f64],
    [low, high]: [&[f64]; 2],
    allowed: &dyn Fn(&[f64]) -> bool,
    also: Also<'_>,
) -> Option<usize> {
    let numbers = space.encoding.numerical();
    let mut best: Option<usize> = None;
    for colour in 0..3 {
        for member in [0.0, 1.0] {
            let mut from = factual.to_vec();
            space.set_category(0, colour, &mut from);
            from[space.columns(1)[0]] = member;
            for mask in 0..4usize {
                let free: Vec<usize> = (0..2)
                    .filter(|j| mask >> j & 1 == 1)
                    .map(|j| numbers[j])
                    .collect();
                let corners = Corners {
                    margin,
                    from: &from,
                    low,
                    high,
                    free: &free,
                    least: LEAST,
                };
                let there = match free.is_empty() {
                    true => margin.at(&from) >= LEAST && allowed(&from),
                    false => !corners.all(&also(&from, &free)).is_empty(),
                };
                let count = space.changed(factual, &from).len() + free.len();
                if there && best.is_none_or(|n| count < n) {
                    best = Some(count);
                }
            }
        }
    }
    best
}

/// How often a minimum, a proof that there is none, and no proof came out.
fn compare(rules: &Value, sum_at_most: Option<f64>) -> [usize; 3] {
    let world = world(rules);
    let space = Space::new(&world.encoding, &world.rows, &Limits::default()).unwrap();
    let (low, high) = (ends(&world.rows, f64::min), ends(&world.rows, f64::max));
    let encoding = &world.encoding;
    // The rule a + b ≤ bound, in moves of the free columns.
    let also = |from: &[f64], free: &[usize]| -> Vec<Half> {
        let Some(most) = sum_at_most else {
            // A rule of categories holds or does not, whatever the numbers are.
            let refused = !space.allows(from, from);
            return refused
                .then(|| (vec![0.0; free.len()], -1.0))
                .into_iter()
                .collect();
        };
        let parts = encoding.numerical();
        let feature = |c: usize| encoding.columns[c].feature;
        let now: f64 = parts
            .iter()
            .map(|&c| encoding.unscaled(feature(c), from[c]))
            .sum();
        let slopes = free.iter().map(|&c| encoding.std[feature(c)]).collect();
        vec![(slopes, most - now)]
    };
    let mut draws = Draws::new(29, Stream::TABULAR_SEARCH, 0);
    let mut counts = [0; 3];
    for trial in 0..120 {
        let network = network(encoding.width(), &mut draws);
        let factual = &world.rows[trial % world.rows.len()];
        let margin = Margin::new(&network, 1);
        let problem = Problem {
            space: &space,
            predictor: &network,
            factual,
            target: 1,
            row: 0,
            k: 1,
            seed: 0,
            clock: Clock::start(None),
        };
        if margin.at(factual) >= 0.0 || !space.allows(factual, factual) {
            continue;
        }
        let allowed = |x: &[f64]| space.allows(factual, x);
        let expected = fewest(&space, &margin, factual, [&low, &high], &allowed, &also);
        let got = correct(&problem, MaceParams::default()).unwrap();
        let proof = got.proof.unwrap();
        if let Some(x) = got.best() {
            assert!(problem.accepts(x), "{trial}");
            assert_eq!(space.changed(factual, x).len() as f64, proof.found.unwrap());
        }
        let known = expected.map(|n| n as f64);
        if proof.optimal {
            assert_eq!(proof.found, known, "{trial}");
            counts[usize::from(known.is_none())] += 1;
        } else {
            counts[2] += 1;
        }
        // What is called impossible is.
        assert!(known.is_none_or(|n| proof.at_least <= n), "{trial}");
        // What was found cannot be fewer than there are.
        assert!(proof.found.is_none_or(|n| known.is_some_and(|k| n >= k)));
    }
    counts
}

#[test]
fn the_fewest_changed_features_are_those_of_an_exhaustive_search() {
    let [found, none, unproven] = compare(&json!([]), None);
    assert!(found > 20 && none > 2, "{found} {none}");
    assert_eq!(unproven, 0);
}

/// A rule among numbers can refuse the nearest point of a set that holds others: then nothing may be called proven that is not.
#[test]
fn under_a_rule_nothing_false_is_called_proven() {
    let [found, _, unproven] = compare(&json!(["a + b <= 0.5"]), Some(0.5));
    assert!(found > 5 && unproven > 0, "{found} {unproven}");
}

/// A rule of categories is enumerated with them, and a feature that only the rule asks for is changed too.
#[test]
fn rules_of_categories_are_part_of_the_proof() {
    // Blue rows (2) are members.
    let [found, _, _] = compare(&json!(["colour <= member + 1"]), None);
    assert!(found > 10, "{found}");
}
