//! Categories as numbers, so that a search over numbers can move between them.
//!
//! Two categories are near if the other features look alike where they stand: the sum over the other features of the symmetric Kullback–Leibler divergence of
//! their distributions (numbers in quartiles; association-based distance, Le & Ho 2005). Classical scaling lays the categories on the main axis of these
//! distances; the axis is stretched to [0, 1] and centred. (The original scales iteratively to two dimensions with a random start.)

use faer::{Mat, Side};

use super::{Problem, Space};
use crate::tabular::Kind;

/// For each feature of a table how it becomes one number.
pub struct Numbers {
    /// Numbers of the categories; empty for numerical and binary features.
    categories: Vec<Vec<f64>>,
    /// Columns of each feature.
    columns: Vec<Vec<usize>>,
    kinds: Vec<Kind>,
    pub mutable: Vec<bool>,
}

impl Numbers {
    /// From the training rows.
    pub fn new(space: &Space<'_>) -> Self {
        let features = space.features();
        let binned = binned(space);
        let categories = (0..features)
            .map(|f| match space.kind(f) {
                Kind::Categorical => scaled(&distances(&binned, f, space.columns(f).len())),
                _ => Vec::new(),
            })
            .collect();
        Self {
            categories,
            columns: (0..features).map(|f| space.columns(f).to_vec()).collect(),
            kinds: (0..features).map(|f| space.kind(f)).collect(),
            mutable: space.mutable.clone(),
        }
    }

    /// The numbers of an encoded row.
    pub fn of(&self, row: &[f64]) -> Vec<f64> {
        let number = |f: usize| match self.kinds[f] {
            Kind::Categorical => {
                let at = self.columns[f].iter().position(|&c| row[c] == 1.0);
                at.map_or(0.0, |i| self.categories[f][i])
            }
            _ => row[self.columns[f][0]],
        };
        (0..self.columns.len()).map(number).collect()
    }

    /// The encoded row of numbers: of a categorical feature the category with the nearest number.
    pub fn back(&self, numbers: &[f64], factual: &[f64]) -> Vec<f64> {
        let mut row = factual.to_vec();
        for (f, &value) in numbers.iter().enumerate() {
            match self.kinds[f] {
                Kind::Categorical => {
                    let nearest = nearest(&self.categories[f], value);
                    for (i, &c) in self.columns[f].iter().enumerate() {
                        row[c] = f64::from(u8::from(i == nearest));
                    }
                }
                Kind::Binary => row[self.columns[f][0]] = f64::from(u8::from(value > 0.5)),
                Kind::Numerical => row[self.columns[f][0]] = value,
            }
        }
        row
    }

    /// By how much encoded columns move as one number does.
    pub fn moves(&self, f: usize, from: f64, to: f64) -> Vec<(usize, f64)> {
        let columns = &self.columns[f];
        match self.kinds[f] {
            Kind::Categorical => {
                let ends = [from, to].map(|v| nearest(&self.categories[f], v));
                match ends[0] == ends[1] {
                    true => Vec::new(),
                    false => vec![(columns[ends[0]], -1.0), (columns[ends[1]], 1.0)],
                }
            }
            Kind::Binary => {
                let [from, to] = [from, to].map(|v| f64::from(u8::from(v > 0.5)));
                match from == to {
                    true => Vec::new(),
                    false => vec![(columns[0], to - from)],
                }
            }
            Kind::Numerical => vec![(columns[0], to - from)],
        }
    }

    /// Lowest and highest number of each feature.
    pub fn bounds(&self, problem: &Problem<'_>) -> [Vec<f64>; 2] {
        let end = |f: usize, high: bool| match self.kinds[f] {
            Kind::Categorical => {
                let fold = if high { f64::max } else { f64::min };
                self.categories[f]
                    .iter()
                    .copied()
                    .reduce(fold)
                    .unwrap_or(0.0)
            }
            Kind::Binary => f64::from(u8::from(high)),
            Kind::Numerical => {
                let c = self.columns[f][0];
                let statistics = &problem.space.statistics;
                let [low, top] = problem.space.box_of(c, problem.factual);
                match high {
                    true => statistics.max[c].min(top),
                    false => statistics.min[c].max(low),
                }
            }
        };
        [false, true].map(|high| (0..self.columns.len()).map(|f| end(f, high)).collect())
    }

    /// Steps down and up for differences: to the neighbouring categories, or `epsilon`.
    pub fn step(&self, f: usize, value: f64, epsilon: f64) -> [f64; 2] {
        match self.kinds[f] {
            Kind::Numerical => [epsilon, epsilon],
            Kind::Binary => [1.0, 1.0],
            Kind::Categorical => {
                let list = &self.categories[f];
                let here = list[nearest(list, value)];
                let gap = |up: bool| {
                    let beyond = list.iter().map(|v| if up { v - here } else { here - v });
                    beyond
                        .filter(|d| *d > 1e-12)
                        .reduce(f64::min)
                        .unwrap_or(epsilon)
                };
                [gap(false), gap(true)]
            }
        }
    }
}

fn nearest(list: &[f64], value: f64) -> usize {
    let mut best = 0;
    for (i, v) in list.iter().enumerate() {
        if (v - value).abs() < (list[best] - value).abs() {
            best = i;
        }
    }
    best
}

/// Each training row with whole numbers: categories, 0/1, quartiles.
fn binned(space: &Space<'_>) -> Vec<Vec<usize>> {
    let quartiles: Vec<[f64; 3]> = (0..space.features())
        .map(|f| {
            let mut values: Vec<f64> = space.train.iter().map(|r| r[space.columns(f)[0]]).collect();
            values.sort_by(f64::total_cmp);
            let at = |q: f64| {
                values
                    .get((q * values.len() as f64) as usize)
                    .copied()
                    .unwrap_or(0.0)
            };
            [at(0.25), at(0.5), at(0.75)]
        })
        .collect();
    let bin = |f: usize, row: &[f64]| match space.kind(f) {
        Kind::Categorical => space
            .columns(f)
            .iter()
            .position(|&c| row[c] == 1.0)
            .unwrap_or(0),
        Kind::Binary => row[space.columns(f)[0]] as usize,
        Kind::Numerical => quartiles[f]
            .iter()
            .filter(|q| row[space.columns(f)[0]] > **q)
            .count(),
    };
    let rows = space.train.iter();
    rows.map(|row| (0..space.features()).map(|f| bin(f, row)).collect())
        .collect()
}

/// Distances of the categories of feature `f`.
fn distances(rows: &[Vec<usize>], f: usize, categories: usize) -> Vec<Vec<f64>> {
    let features = rows.first().map_or(0, Vec::len);
    let mut out = vec![vec![0.0; categories]; categories];
    for other in (0..features).filter(|&o| o != f) {
        let values = rows.iter().map(|r| r[other]).max().map_or(0, |m| m + 1);
        // One count is added to each cell: a value that never stands with a category must not make the distance infinite.
        let mut shares = vec![vec![1.0; values]; categories];
        rows.iter().for_each(|r| shares[r[f]][r[other]] += 1.0);
        for row in &mut shares {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|v| *v /= sum);
        }
        for a in 0..categories {
            for b in 0..categories {
                let each = shares[a].iter().zip(&shares[b]);
                out[a][b] += each.map(|(p, q)| (p - q) * (p / q).ln()).sum::<f64>();
            }
        }
    }
    out
}

/// Places on the main axis of the distances, stretched to [0, 1] and centred.
fn scaled(distances: &[Vec<f64>]) -> Vec<f64> {
    let n = distances.len();
    let squares = |i: usize, j: usize| distances[i][j] * distances[i][j];
    let row = |i: usize| (0..n).map(|j| squares(i, j)).sum::<f64>() / n as f64;
    let all = (0..n).map(row).sum::<f64>() / n as f64;
    let centred = Mat::from_fn(n, n, |i, j| -0.5 * (squares(i, j) - row(i) - row(j) + all));
    let evenly = || (0..n).map(|i| i as f64).collect::<Vec<f64>>();
    let mut axis = match centred.self_adjoint_eigen(Side::Lower) {
        Ok(found) => (0..n).map(|i| found.U()[(i, n - 1)]).collect(),
        Err(_) => evenly(),
    };
    let ends = |axis: &[f64]| {
        let fold = |f: fn(f64, f64) -> f64| axis.iter().copied().reduce(f).unwrap_or(0.0);
        (fold(f64::min), fold(f64::max))
    };
    if ends(&axis).1 - ends(&axis).0 < 1e-12 {
        axis = evenly();
    }
    let (low, high) = ends(&axis);
    let stretched: Vec<f64> = axis.iter().map(|v| (v - low) / (high - low)).collect();
    let mean = stretched.iter().sum::<f64>() / n as f64;
    stretched.iter().map(|v| v - mean).collect()
}
