//! LORE's neighbourhood: a genetic algorithm that keeps close to the factual.
//!
//! Fitness ½·similarity (0 for a copy of the factual) + ½·\[wanted outcome\]; tournaments of 3, two-point crossover 0.5, mutation 0.2 with each gene drawn anew with
//! probability 0.2 from the feature's values among the training rows. Similarity is 1 − the mean distance of the features: another category 1, a number |d| over
//! its range.

use super::Problem;
use crate::stats::random::{Draws, Stream};

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct GenesParams {
    /// Individuals of each outcome.
    pub population: usize,
    pub generations: usize,
    pub crossover: f64,
    pub mutation: f64,
    pub gene: f64,
    pub tournament: usize,
}

impl Default for GenesParams {
    fn default() -> Self {
        Self {
            population: 500,
            generations: 10,
            crossover: 0.5,
            mutation: 0.2,
            gene: 0.2,
            tournament: 3,
        }
    }
}

/// Whether rows have the wished outcome.
pub type Outcome<'a> = &'a dyn Fn(&[Vec<f64>]) -> Vec<bool>;

/// Individuals of both outcomes. With `limited` immutable features are never touched and values stay in range.
pub fn neighbourhood(
    problem: &Problem<'_>,
    params: &GenesParams,
    outcome: Outcome<'_>,
    limited: bool,
) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for wished in [false, true] {
        let index = 2 * problem.row as u64 + u64::from(wished);
        let mut genes = Genes {
            problem,
            params,
            limited,
            draws: Draws::new(problem.seed, Stream::TABULAR_SEARCH, index),
        };
        all.extend(genes.grow(outcome, wished));
    }
    all
}

struct Genes<'a, 'b> {
    problem: &'a Problem<'b>,
    params: &'a GenesParams,
    limited: bool,
    draws: Draws,
}

impl Genes<'_, '_> {
    fn grow(&mut self, outcome: Outcome<'_>, wished: bool) -> Vec<Vec<f64>> {
        let factual = self.problem.factual;
        let mut rows: Vec<Vec<f64>> = vec![factual.to_vec(); self.params.population];
        let mut fitness = self.fitness(&rows, outcome, wished);
        let mut kept: Vec<(f64, Vec<f64>)> = Vec::new();
        for _ in 0..self.params.generations {
            if self.problem.clock.is_over() {
                break;
            }
            let mut next: Vec<Vec<f64>> = (0..rows.len())
                .map(|_| rows[self.tournament(&fitness)].clone())
                .collect();
            for pair in next.chunks_mut(2) {
                if let [a, b] = pair
                    && self.draws.uniform() < self.params.crossover
                {
                    self.cross(a, b);
                }
            }
            for row in &mut next {
                if self.draws.uniform() < self.params.mutation {
                    self.mutate(row);
                }
            }
            fitness = self.fitness(&next, outcome, wished);
            rows = next;
            kept.extend(fitness.iter().copied().zip(rows.iter().cloned()));
            kept.sort_by(|a, b| b.0.total_cmp(&a.0));
            kept.dedup_by(|a, b| a.1 == b.1);
            kept.truncate(self.params.population);
        }
        above_the_gap(kept)
    }

    fn tournament(&mut self, fitness: &[f64]) -> usize {
        let mut best = 0;
        for round in 0..self.params.tournament {
            let at = self.draws.index_below(fitness.len()).unwrap_or(0);
            if round == 0 || fitness[at] > fitness[best] {
                best = at;
            }
        }
        best
    }

    fn cross(&mut self, a: &mut [f64], b: &mut [f64]) {
        let space = self.problem.space;
        let mut ends = [0, 0].map(|_| self.draws.index_below(space.features() + 1).unwrap_or(0));
        ends.sort_unstable();
        for feature in ends[0]..ends[1] {
            space
                .columns(feature)
                .iter()
                .for_each(|&c| std::mem::swap(&mut a[c], &mut b[c]));
        }
    }

    fn mutate(&mut self, row: &mut [f64]) {
        let space = self.problem.space;
        for feature in 0..space.features() {
            if (self.limited && !space.mutable[feature]) || self.draws.uniform() >= self.params.gene
            {
                continue;
            }
            let at = self.draws.index_below(space.train.len()).unwrap_or(0);
            space.copy_feature(feature, &space.train[at], row);
            if self.limited {
                for &c in space.columns(feature) {
                    let [low, high] = space.box_of(c, self.problem.factual);
                    row[c] = row[c].clamp(low, high);
                }
            }
        }
    }

    fn fitness(&self, rows: &[Vec<f64>], outcome: Outcome<'_>, wished: bool) -> Vec<f64> {
        let hits = outcome(rows);
        let factual = self.problem.factual;
        let each = rows.iter().zip(&hits).map(|(row, hit)| {
            let same = if row == factual {
                0.0
            } else {
                1.0 - self.problem.space.distance(factual, row)
            };
            0.5 * same + 0.5 * f64::from(u8::from(*hit == wished))
        });
        each.collect()
    }
}

/// Individuals above the largest gap of fitness, at least ten of them.
fn above_the_gap(kept: Vec<(f64, Vec<f64>)>) -> Vec<Vec<f64>> {
    let gap = |i: usize| kept[i].0 - kept[i + 1].0;
    let places = 9..kept.len().saturating_sub(1);
    let cut = places.max_by(|&a, &b| gap(a).total_cmp(&gap(b)).then(b.cmp(&a)));
    let end = match cut {
        Some(at) if gap(at) > 0.1 => at + 1,
        _ => kept.len(),
    };
    kept.into_iter().take(end).map(|(_, row)| row).collect()
}
