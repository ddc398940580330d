//! Training of the benchmark's network: RMSprop as in Keras on cross-entropy, batches of 32, Glorot uniform first weights.
//!
//! v ← 0.9 v + 0.1 g²; w ← w − rate · g / √(v + 1e-7). The grid is the benchmark's: rates 0.01, 0.001, 0.0001; 50, 100, 500 epochs; ⌊(2m+1)i/5⌋ hidden
//! values, i = 1…5, for m inputs; best validation AUC, the first on ties.

use rayon::prelude::*;

use super::{Network, Predictor, area_under_curve};
use crate::stats::random::{Draws, Stream};
use crate::tensor::dense_fit::{Fitting, SparseRow};

const BATCH: usize = 32;

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

fn glorot(draws: &mut Draws, inputs: usize, outputs: usize) -> Vec<f32> {
    let limit = (6.0 / (inputs + outputs) as f64).sqrt();
    let each = (0..inputs * outputs).map(|_| (2.0 * draws.uniform() - 1.0) * limit);
    each.map(|v| v as f32).collect()
}

fn train(rows: &[Vec<f64>], labels: &[usize], settings: FitSettings) -> Network {
    let (inputs, hidden) = (rows.first().map_or(0, Vec::len), settings.hidden);
    let mut draws = Draws::new(settings.seed, Stream::TABULAR_WEIGHTS, 0);
    let w1 = glorot(&mut draws, inputs, hidden);
    let w2 = glorot(&mut draws, hidden, 2);
    let mut fitting = Fitting::new(w1, vec![0.0; hidden], w2, [0.0; 2]);
    let sparse: Vec<SparseRow> = rows
        .iter()
        .zip(labels)
        .map(|(row, &label)| {
            let each = row.iter().enumerate().filter(|(_, v)| **v != 0.0);
            SparseRow {
                entries: each.map(|(i, &v)| (i, v as f32)).collect(),
                label,
            }
        })
        .collect();
    for epoch in 0..settings.epochs {
        let mut draws = Draws::new(settings.seed, Stream::TABULAR_ORDER, epoch as u64);
        let order = draws.permutation(rows.len());
        for batch in order.chunks(BATCH) {
            fitting.step(
                batch.iter().map(|&row| &sparse[row]),
                settings.learning_rate,
            );
        }
    }
    let (w1, b1, w2, last) = fitting.weights();
    Network::new(inputs, w1, b1, w2, last)
}
