//! Training of the benchmark's network: RMSprop as in Keras on cross-entropy, batches of 32, Glorot uniform first weights.
//!
//! v ← 0.9 v + 0.1 g²; w ← w − rate · g / √(v + 1e-7). The grid is the benchmark's: rates 0.01, 0.001, 0.0001; 50, 100, 500 epochs; ⌊(2m+1)i/5⌋ hidden
//! values, i = 1…5, for m inputs; best validation AUC, the first on ties.

use rayon::prelude::*;

use super::{Network, Predictor, area_under_curve};
use crate::stats::random::{Draws, Stream};

const BATCH: usize = 32;
const RHO: f32 = 0.9;
const EPSILON: f32 = 1e-7;

/// One setting of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitSettings {
    pub learning_rate: f32,
    pub epochs: usize,
    pub hidden: usize,
    pub seed: u64,
}

/// A trained network with its validation AUC.
pub struct Fit {
    pub settings: FitSettings,
    pub network: Network,
    pub validation_auc: f64,
}

/// Encoded rows with their labels.
#[derive(Clone, Copy)]
pub struct Grid<'a> {
    pub train: &'a [Vec<f64>],
    pub train_labels: &'a [usize],
    pub validation: &'a [Vec<f64>],
    pub validation_labels: &'a [usize],
}

/// One point of the grid and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct GridPoint {
    pub settings: FitSettings,
    pub validation_auc: f64,
}

impl Grid<'_> {
    /// The benchmark's 45 settings for this number of inputs.
    pub fn settings(&self, seed: u64) -> Vec<FitSettings> {
        let m = self.train.first().map_or(0, Vec::len);
        let mut all = Vec::new();
        for learning_rate in [0.01, 0.001, 0.0001] {
            for epochs in [50, 100, 500] {
                for i in 1..=5 {
                    all.push(FitSettings {
                        learning_rate,
                        epochs,
                        hidden: ((2 * m + 1) * i / 5).max(1),
                        seed,
                    });
                }
            }
        }
        all
    }

    /// Trains one network.
    pub fn fit(&self, settings: FitSettings) -> Fit {
        let network = train(self.train, self.train_labels, settings);
        let scores: Vec<f64> = network
            .probabilities(&self.validation.concat())
            .iter()
            .map(|p| p[1])
            .collect();
        let auc = area_under_curve(&scores, self.validation_labels);
        Fit {
            settings,
            network,
            validation_auc: auc.unwrap_or(f64::NAN),
        }
    }

    /// Trains all settings, side by side; the best, and what each came to. `done` hears how many are finished.
    pub fn search(
        &self,
        all: &[FitSettings],
        done: &(dyn Fn(usize) + Sync),
    ) -> Option<(Fit, Vec<GridPoint>)> {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let fits: Vec<Fit> = all
            .par_iter()
            .map(|&settings| {
                let fit = self.fit(settings);
                done(1 + count.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
                fit
            })
            .collect();
        let points = fits
            .iter()
            .map(|fit| GridPoint {
                settings: fit.settings,
                validation_auc: fit.validation_auc,
            })
            .collect();
        let mut best: Option<Fit> = None;
        for fit in fits {
            let better = |b: &Fit| fit.validation_auc > b.validation_auc;
            if best.as_ref().is_none_or(better) {
                best = Some(fit);
            }
        }
        best.map(|best| (best, points))
    }
}

struct Rms {
    values: Vec<f32>,
    gradient: Vec<f32>,
    squares: Vec<f32>,
}

impl Rms {
    fn new(values: Vec<f32>) -> Self {
        let n = values.len();
        Self {
            values,
            gradient: vec![0.0; n],
            squares: vec![0.0; n],
        }
    }

    fn step(&mut self, rate: f32) {
        let each = self
            .values
            .iter_mut()
            .zip(&mut self.gradient)
            .zip(&mut self.squares);
        for ((value, gradient), square) in each {
            *square = RHO * *square + (1.0 - RHO) * *gradient * *gradient;
            *value -= rate * *gradient / (*square + EPSILON).sqrt();
            *gradient = 0.0;
        }
    }
}

fn glorot(draws: &mut Draws, inputs: usize, outputs: usize) -> Vec<f32> {
    let limit = (6.0 / (inputs + outputs) as f64).sqrt();
    let each = (0..inputs * outputs).map(|_| (2.0 * draws.uniform() - 1.0) * limit);
    each.map(|v| v as f32).collect()
}

fn train(rows: &[Vec<f64>], labels: &[usize], settings: FitSettings) -> Network {
    let (inputs, hidden) = (rows.first().map_or(0, Vec::len), settings.hidden);
    let mut draws = Draws::new(settings.seed, Stream::TABULAR_WEIGHTS, 0);
    let mut w1 = Rms::new(glorot(&mut draws, inputs, hidden));
    let mut b1 = Rms::new(vec![0.0; hidden]);
    let mut w2 = Rms::new(glorot(&mut draws, hidden, 2));
    let mut b2 = Rms::new(vec![0.0; 2]);
    let sparse: Vec<Vec<(usize, f32)>> = rows
        .iter()
        .map(|row| {
            let each = row.iter().enumerate().filter(|(_, v)| **v != 0.0);
            each.map(|(i, &v)| (i, v as f32)).collect()
        })
        .collect();
    let (mut h, mut back) = (vec![0.0f32; hidden], vec![0.0f32; hidden]);
    for epoch in 0..settings.epochs {
        let mut draws = Draws::new(settings.seed, Stream::TABULAR_ORDER, epoch as u64);
        let order = draws.permutation(rows.len());
        for batch in order.chunks(BATCH) {
            let share = 1.0 / batch.len() as f32;
            for &row in batch {
                h.copy_from_slice(&b1.values);
                for &(i, value) in &sparse[row] {
                    let weights = &w1.values[i * hidden..(i + 1) * hidden];
                    h.iter_mut().zip(weights).for_each(|(h, w)| *h += value * w);
                }
                let mut z = [b2.values[0], b2.values[1]];
                for (&h, w) in h.iter().zip(w2.values.chunks_exact(2)) {
                    if h > 0.0 {
                        z[0] += h * w[0];
                        z[1] += h * w[1];
                    }
                }
                let most = z[0].max(z[1]);
                let e = z.map(|v| (v - most).exp());
                let mut d = e.map(|v| share * v / (e[0] + e[1]));
                d[labels[row]] -= share;
                for j in 0..hidden {
                    let active = h[j] > 0.0;
                    back[j] = if active {
                        d[0] * w2.values[2 * j] + d[1] * w2.values[2 * j + 1]
                    } else {
                        0.0
                    };
                    if active {
                        w2.gradient[2 * j] += h[j] * d[0];
                        w2.gradient[2 * j + 1] += h[j] * d[1];
                    }
                }
                b2.gradient[0] += d[0];
                b2.gradient[1] += d[1];
                b1.gradient.iter_mut().zip(&back).for_each(|(g, b)| *g += b);
                for &(i, value) in &sparse[row] {
                    let gradient = &mut w1.gradient[i * hidden..(i + 1) * hidden];
                    gradient
                        .iter_mut()
                        .zip(&back)
                        .for_each(|(g, b)| *g += value * b);
                }
            }
            for parameters in [&mut w1, &mut b1, &mut w2, &mut b2] {
                parameters.step(settings.learning_rate);
            }
        }
    }
    let last = [b2.values[0], b2.values[1]];
    Network::new(inputs, w1.values, b1.values, w2.values, last)
}
