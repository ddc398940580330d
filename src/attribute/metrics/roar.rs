//! Remove and retrain ([xai-bench] section 3.2, after Hooker et al. 2019): the most important features of each row are replaced, the model is
//! trained again, and its error on test rows tells how much was lost.

use rayon::prelude::*;

use super::{Conditional, absolute, ascending, pearson};
use crate::attribute::data::{Features, Given, Split, Task};
use crate::attribute::models::{Kind, Model};
use crate::attribute::rows::Rows;
use crate::attribute::subsets::{Subset, all};
use crate::attribute::{Variant, streams};
use crate::stats::random::Draws;

/// What stands in the place of a removed feature.
#[derive(Clone, Copy, Debug)]
pub enum Removal<'a> {
    /// Its expectation given the others: f\*(E\[x'\]) of the paper.
    Mean(&'a Features, Conditional),
    /// One draw given the others: the released code's.
    Draw(&'a Features, u64),
    /// A fixed value for each feature: the released code's interventional variant has the mean of the test rows.
    Baseline(&'a [f64]),
}

impl Removal<'_> {
    /// The row with only `known` features left as they are; `number` keys the draw.
    fn apply(&self, x: &[f64], known: Subset, number: u64) -> Vec<f64> {
        match self {
            Self::Mean(features, conditional) => {
                let independent = *conditional == Conditional::Interventional;
                features.given(known, independent).mean(x)
            }
            Self::Draw(features, seed) => {
                let mut row = x.to_vec();
                if known != all(x.len()) {
                    let given: Given = features.given(known, false);
                    let mut draws = Draws::new(*seed, streams::ROAR, number);
                    given.draw(x, &mut draws, &mut row);
                }
                row
            }
            Self::Baseline(values) => x
                .iter()
                .zip(*values)
                .enumerate()
                .map(|(j, (x, b))| if known >> j & 1 == 1 { *x } else { *b })
                .collect(),
        }
    }
}

/// The data and what is trained again.
#[derive(Clone, Copy)]
pub struct Retraining<'a> {
    pub kind: Kind,
    pub task: Task,
    pub train: &'a Split,
    pub test: &'a Split,
    pub train_weights: &'a Rows,
    pub test_weights: &'a Rows,
    pub seed: u64,
}

/// Error of the retrained model for each share of removed features, and the area below.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Roar {
    pub shares: Vec<f64>,
    /// Mean absolute errors on the test rows.
    pub losses: Vec<f64>,
    /// By trapezoids; larger is better.
    pub area: f64,
}

/// Shares at which the released code removes features.
const RELEASED_SHARES: [f64; 6] = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9];

impl Retraining<'_> {
    /// Keeps of each row the features of `known(weights)`.
    fn removed(
        &self,
        removal: Removal<'_>,
        salt: u64,
        known: impl Fn(&[f64]) -> Subset + Sync,
    ) -> [Split; 2] {
        let parts = [
            (self.train, self.train_weights, 0u64),
            (self.test, self.test_weights, 1),
        ];
        parts.map(|(split, weights, part)| {
            let row = |(i, x): (usize, &[f64])| {
                let number = (salt << 40) | (part << 36) | i as u64;
                removal.apply(x, known(weights.row(i)), number)
            };
            let rows: Vec<Vec<f64>> = split.x.iter().enumerate().map(row).collect();
            Split {
                x: Rows::from_rows(rows, split.x.columns),
                y: split.y.clone(),
            }
        })
    }

    fn retrained(&self, train: &Split) -> Model {
        self.kind.train(train, self.task, self.seed)
    }

    /// The curve: `correct` removes 0, 1, …, d features; `as-released` shares of 0 to 0.9, rounded down.
    pub fn roar(&self, removal: Removal<'_>, variant: Variant) -> Roar {
        let d = self.train.x.columns;
        let (shares, counts): (Vec<f64>, Vec<usize>) = match variant {
            Variant::Correct => (0..=d).map(|k| (k as f64 / d as f64, k)).unzip(),
            Variant::AsReleased => RELEASED_SHARES
                .iter()
                .map(|s| (*s, (s * d as f64) as usize))
                .unzip(),
        };
        // The same number of features needs one model.
        let mut different = counts.clone();
        different.dedup();
        let found: Vec<f64> = different
            .par_iter()
            .map(|&count| {
                let known = |w: &[f64]| {
                    let order = ascending(w);
                    order[..d - count].iter().fold(0, |s: Subset, j| s | 1 << j)
                };
                let [train, test] = self.removed(removal, count as u64, known);
                let predictions = self.retrained(&train).predict(&test.x);
                let pairs = predictions.iter().zip(&test.y);
                pairs.map(|(p, y)| (p - y).abs()).sum::<f64>() / test.y.len() as f64
            })
            .collect();
        let loss = |count: &usize| {
            let at = different.iter().position(|c| c == count).unwrap_or(0);
            found[at]
        };
        let losses: Vec<f64> = counts.iter().map(loss).collect();
        let area = area_below(&shares, &losses);
        Roar {
            shares,
            losses,
            area,
        }
    }

    /// Correlation of weights with what the model that was retrained without a feature says differently, mean over test rows. `as-released`
    /// mixes up two things: changes stand in the order of importance but weights in that of features, and the weights are those of training rows.
    pub fn faithfulness(&self, removal: Removal<'_>, variant: Variant) -> f64 {
        let d = self.train.x.columns;
        let before = self.retrained(self.train).predict(&self.test.x);
        // changes[rank][row]: without the feature of that rank, the most important first.
        let changes: Vec<Vec<f64>> = (0..d)
            .into_par_iter()
            .map(|rank| {
                let known = |w: &[f64]| all(d) ^ (1 << ascending(w)[d - 1 - rank]);
                let [train, test] = self.removed(removal, 100 + rank as u64, known);
                let after = self.retrained(&train).predict(&test.x);
                after
                    .iter()
                    .zip(&before)
                    .map(|(a, b)| (a - b).abs())
                    .collect()
            })
            .collect();
        let of_row = |i: usize| {
            let own = self.test_weights.row(i);
            match variant {
                Variant::AsReleased => {
                    let mixed = self.train_weights.row(i);
                    let by_rank: Vec<f64> = (0..d).map(|r| changes[r][i]).collect();
                    pearson(&absolute(mixed), &by_rank)
                }
                Variant::Correct => {
                    let mut by_feature = vec![0.0; d];
                    for (rank, j) in ascending(own).into_iter().rev().enumerate() {
                        by_feature[j] = changes[rank][i];
                    }
                    pearson(&absolute(own), &by_feature)
                }
            }
        };
        let n = self.test.x.len().min(match variant {
            Variant::AsReleased => self.train.x.len(),
            Variant::Correct => usize::MAX,
        });
        (0..n).map(of_row).sum::<f64>() / n.max(1) as f64
    }

    /// Monotonicity of the predictions of d + 1 models, each trained with the first features of the order known.
    pub fn monotonicity(
        &self,
        removal: Removal<'_>,
        nothing: Removal<'_>,
        most_first: bool,
    ) -> f64 {
        let d = self.train.x.columns;
        let predictions: Vec<Vec<f64>> = (0..=d)
            .into_par_iter()
            .map(|count| {
                let known = |w: &[f64]| {
                    let mut order = ascending(w);
                    if most_first {
                        order.reverse();
                    }
                    order[..count].iter().fold(0, |s: Subset, j| s | 1 << j)
                };
                // What stands for a row of which nothing is known is a choice of its own.
                let by = if count == 0 { nothing } else { removal };
                let [train, test] = self.removed(by, 200 + count as u64, known);
                self.retrained(&train).predict(&test.x)
            })
            .collect();
        let of_row = |i: usize| {
            let mut changes: Vec<f64> = (0..d)
                .map(|k| (predictions[k + 1][i] - predictions[k][i]).abs())
                .collect();
            if most_first {
                changes.reverse();
            }
            let holds = changes.windows(2).filter(|w| w[1] >= w[0]).count();
            holds as f64 / (d - 1).max(1) as f64
        };
        let n = self.test.x.len();
        (0..n).map(of_row).sum::<f64>() / n.max(1) as f64
    }
}

fn area_below(shares: &[f64], losses: &[f64]) -> f64 {
    let pairs = shares.windows(2).zip(losses.windows(2));
    pairs
        .map(|(s, l)| (s[1] - s[0]) * (l[0] + l[1]) / 2.0)
        .sum()
}
