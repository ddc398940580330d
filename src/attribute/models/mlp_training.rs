//! Training of an MLP as scikit-learn's defaults do it: Adam on batches of 200, an L2 penalty, until the loss no longer falls.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::Link;
use super::mlp::{Dense, Mlp, apply};
use crate::attribute::rows::Rows;
use crate::attribute::streams;
use crate::stats::random::Draws;

/// Settings with scikit-learn's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct MlpSettings {
    /// Units of each hidden layer.
    pub hidden: Vec<usize>,
    pub rate: f64,
    /// Weight of ½‖W‖², divided by the size of the batch.
    pub penalty: f64,
    pub batch: usize,
    /// Most epochs.
    pub epochs: usize,
    /// The loss has to fall by this much …
    pub tolerance: f64,
    /// … within so many epochs.
    pub patience: usize,
}

impl Default for MlpSettings {
    fn default() -> Self {
        Self {
            hidden: vec![100],
            rate: 1e-3,
            penalty: 1e-4,
            batch: 200,
            epochs: 200,
            tolerance: 1e-4,
            patience: 10,
        }
    }
}

const BETA: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

/// By the weights and by the bias of a layer.
type LayerGradient = (Vec<f64>, Vec<f64>);

/// First and second moments of a list of parameters.
struct Moments {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Moments {
    fn new(n: usize) -> Self {
        Self {
            first: vec![0.0; n],
            second: vec![0.0; n],
        }
    }

    fn step(&mut self, values: &mut [f64], gradient: &[f64], rate: f64) {
        for i in 0..values.len() {
            let g = gradient[i];
            self.first[i] = BETA[0] * self.first[i] + (1.0 - BETA[0]) * g;
            self.second[i] = BETA[1] * self.second[i] + (1.0 - BETA[1]) * g * g;
            values[i] -= rate * self.first[i] / (self.second[i].sqrt() + EPSILON);
        }
    }
}

impl MlpSettings {
    /// The network, and the epochs it took.
    pub fn train(&self, x: &Rows, y: &[f64], link: Link, seed: u64) -> (Mlp, usize) {
        let mut layers = self.first_weights(x.columns, seed);
        let mut moments: Vec<[Moments; 2]> = layers
            .iter()
            .map(|l| [Moments::new(l.weights.len()), Moments::new(l.bias.len())])
            .collect();
        let (n, d) = (x.len(), x.columns);
        let batch = self.batch.min(n).max(1);
        let (mut best, mut without, mut steps, mut epochs) = (f64::INFINITY, 0, 0i32, 0);
        for epoch in 0..self.epochs {
            epochs = epoch + 1;
            let order = Draws::new(seed, streams::MLP_ORDER, epoch as u64).permutation(n);
            let mut loss = 0.0;
            for rows in order.chunks(batch) {
                let mut values = Vec::with_capacity(rows.len() * d);
                rows.iter().for_each(|&i| values.extend(x.row(i)));
                let labels: Vec<f64> = rows.iter().map(|&i| y[i]).collect();
                let (batch_loss, gradients) = self.gradients(&layers, values, &labels, link);
                loss += batch_loss * rows.len() as f64;
                steps += 1;
                let rate =
                    self.rate * (1.0 - BETA[1].powi(steps)).sqrt() / (1.0 - BETA[0].powi(steps));
                for ((layer, moments), (w, b)) in
                    layers.iter_mut().zip(&mut moments).zip(&gradients)
                {
                    moments[0].step(&mut layer.weights, w, rate);
                    moments[1].step(&mut layer.bias, b, rate);
                }
            }
            loss /= n as f64;
            without = if loss > best - self.tolerance {
                without + 1
            } else {
                0
            };
            best = best.min(loss);
            if without > self.patience {
                break;
            }
        }
        (Mlp { layers, link }, epochs)
    }

    /// Uniform within √(6/(inputs + outputs)) (Glorot & Bengio), biases too.
    fn first_weights(&self, d: usize, seed: u64) -> Vec<Dense> {
        let mut draws = Draws::new(seed, streams::MLP_WEIGHTS, 0);
        let mut inputs = d;
        let sizes = self.hidden.iter().copied().chain([1]);
        sizes
            .map(|outputs| {
                let bound = (6.0 / (inputs + outputs) as f64).sqrt();
                let mut uniform = |n: usize| -> Vec<f64> {
                    (0..n)
                        .map(|_| bound * (2.0 * draws.uniform() - 1.0))
                        .collect()
                };
                let layer = Dense {
                    inputs,
                    weights: uniform(inputs * outputs),
                    bias: uniform(outputs),
                };
                inputs = outputs;
                layer
            })
            .collect()
    }

    /// Loss of a batch and the gradient by each layer's weights and bias. Squared errors are halved; classes have cross-entropy.
    fn gradients(
        &self,
        layers: &[Dense],
        rows: Vec<f64>,
        labels: &[f64],
        link: Link,
    ) -> (f64, Vec<LayerGradient>) {
        let n = labels.len();
        let mut values = vec![rows];
        for (at, layer) in layers.iter().enumerate() {
            let mut out = apply(layer, &values[at], n);
            if at + 1 < layers.len() {
                out.iter_mut().for_each(|v| *v = v.max(0.0));
            }
            values.push(out);
        }
        let outputs = values.pop().unwrap_or_default();
        let count = n as f64;
        let mut loss = 0.0;
        let mut delta: Vec<f64> = outputs
            .iter()
            .zip(labels)
            .map(|(z, y)| {
                let p = link.of(*z);
                loss += match link {
                    Link::Identity => 0.5 * (p - y) * (p - y),
                    // −y ln p − (1 − y) ln(1 − p), without overflow.
                    Link::Logistic => z.max(0.0) - z * y + (-z.abs()).exp().ln_1p(),
                };
                (p - y) / count
            })
            .collect();
        loss /= count;
        let mut gradients = Vec::with_capacity(layers.len());
        for (layer, input) in layers.iter().zip(&values).rev() {
            let outputs = layer.outputs();
            let squares: f64 = layer.weights.iter().map(|w| w * w).sum();
            loss += 0.5 * self.penalty * squares / count;
            let mut weights: Vec<f64> = layer
                .weights
                .iter()
                .map(|w| self.penalty * w / count)
                .collect();
            let delta_rows = MatRef::from_row_major_slice(&delta, n, outputs);
            matmul(
                MatMut::from_row_major_slice_mut(&mut weights, outputs, layer.inputs),
                Accum::Add,
                delta_rows.transpose(),
                MatRef::from_row_major_slice(input, n, layer.inputs),
                1.0,
                Par::Seq,
            );
            let mut bias = vec![0.0; outputs];
            for row in delta.chunks_exact(outputs) {
                bias.iter_mut().zip(row).for_each(|(b, d)| *b += d);
            }
            let mut before = vec![0.0; n * layer.inputs];
            matmul(
                MatMut::from_row_major_slice_mut(&mut before, n, layer.inputs),
                Accum::Replace,
                delta_rows,
                MatRef::from_row_major_slice(&layer.weights, outputs, layer.inputs),
                1.0,
                Par::Seq,
            );
            for (b, v) in before.iter_mut().zip(input) {
                if *v <= 0.0 {
                    *b = 0.0;
                }
            }
            delta = before;
            gradients.push((weights, bias));
        }
        gradients.reverse();
        (loss, gradients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_those_of_differences() {
        let settings = MlpSettings {
            hidden: vec![4, 3],
            penalty: 0.1,
            ..MlpSettings::default()
        };
        let mut layers = settings.first_weights(2, 5);
        let x = vec![0.3, -0.2, 1.0, 0.7, -0.4, 0.9];
        for (link, y) in [
            (Link::Identity, [0.5, -1.0, 0.2]),
            (Link::Logistic, [1.0, 0.0, 1.0]),
        ] {
            let (_, gradients) = settings.gradients(&layers, x.clone(), &y, link);
            for layer in 0..3 {
                for at in [0, 1] {
                    let step = 1e-6;
                    let mut loss = |by: f64| {
                        layers[layer].weights[at] += by;
                        let loss = settings.gradients(&layers, x.clone(), &y, link).0;
                        layers[layer].weights[at] -= by;
                        loss
                    };
                    let slope = (loss(step) - loss(-step)) / (2.0 * step);
                    let found = gradients[layer].0[at];
                    assert!(
                        (slope - found).abs() < 1e-8,
                        "{layer} {at}: {slope} {found}"
                    );
                }
            }
        }
    }
}
