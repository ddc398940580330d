//! A network small enough to write down: a softmax of linear logits, on candle and in f64.

use foil::explain::pixel::Networks;
use foil::nets::{Classifier, NetError, Prediction};
use foil::stats::random::{Draws, Stream};
use foil::tensor::candle::Candle;
use foil::tensor::{Array, Backend, Conv, Shape};

pub const CLASSES: usize = 3;
/// Two channels of 3×4 pixels.
pub const SHAPE: [usize; 3] = [2, 3, 4];
pub const LEN: usize = 24;

/// Weights `[class][value]` over values channel by channel.
pub fn weights() -> Vec<Vec<f64>> {
    let mut draws = Draws::new(11, Stream(9001), 0);
    (0..CLASSES)
        .map(|_| (0..LEN).map(|_| 1.5 * draws.normal()).collect())
        .collect()
}

pub fn images(n: usize) -> Array {
    let mut draws = Draws::new(12, Stream(9001), 1);
    Array {
        shape: vec![n, SHAPE[0], SHAPE[1], SHAPE[2]],
        data: (0..n * LEN)
            .map(|_| (draws.uniform() - 0.5) as f32)
            .collect(),
    }
}

struct Linear(<Candle as Backend>::Conv);

impl Classifier<Candle> for Linear {
    fn predict(
        &self,
        b: &Candle,
        x: &foil::tensor::candle::Tensor,
    ) -> Result<Prediction<Candle>, NetError> {
        let n = b.shape(x).n;
        let flat = b.view(x, Shape::new(n, 1, 1, LEN))?;
        Ok(Prediction {
            logits: b.conv(&flat, &self.0, None)?,
            embedding: flat,
        })
    }
}

/// The network on candle, whose values are ordered by rows, columns, channels.
pub fn networks() -> Networks {
    let [c, h, w] = SHAPE;
    let rows = weights();
    let mut data = Vec::new();
    for row in &rows {
        for pixel in 0..h * w {
            data.extend((0..c).map(|channel| row[channel * h * w + pixel] as f32));
        }
    }
    let weight = Array {
        shape: vec![CLASSES, LEN, 1, 1],
        data,
    };
    let conv = Candle
        .prepare(Conv::linear(LEN, CLASSES), &weight, &[])
        .unwrap();
    Networks {
        backend: Candle,
        classifier: Box::new(Linear(conv)),
        autoencoder: None,
    }
}

/// Probabilities in f64.
pub fn probabilities(x: &[f64]) -> Vec<f64> {
    let logits: Vec<f64> = weights()
        .iter()
        .map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum())
        .collect();
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = logits.iter().map(|l| (l - most).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

/// The gradient of `Σ_k v_k p_k`.
pub fn gradient(x: &[f64], v: &[f64]) -> Vec<f64> {
    let (p, rows) = (probabilities(x), weights());
    let mean: f64 = p.iter().zip(v).map(|(p, v)| p * v).sum();
    (0..LEN)
        .map(|i| {
            (0..CLASSES)
                .map(|k| p[k] * (v[k] - mean) * rows[k][i])
                .sum()
        })
        .collect()
}

pub fn argmax(row: &[f64]) -> usize {
    (0..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best })
}

/// The most likely class but one.
pub fn other(row: &[f64], own: usize) -> usize {
    let others: Vec<usize> = (0..row.len()).filter(|&k| k != own).collect();
    others.iter().copied().fold(
        others[0],
        |best, k| if row[k] > row[best] { k } else { best },
    )
}
