//! L2X (\[l2x\]): a network learns to choose k features from which a second network predicts the model's response; trained together
//! through a relaxed choice (Gumbel softmax), on candle.
//!
//! `correct` trains for regression until it tells features apart, with k = d/2, and gives the chooser's probabilities. `as-released` repeats
//! the benchmark's code: the response and one minus it count as probabilities of two classes, one step of training, and a weight is the
//! share of k = 1…d for which a feature is among the k chosen.

use candle_core::{DType, Device, Tensor, Var};

use crate::attribute::error::Result;
use crate::attribute::models::Model;
use crate::attribute::rows::{Rows, mean_and_std};
use crate::attribute::{Variant, streams};
use crate::stats::random::Draws;

#[derive(Clone, Copy, Debug)]
pub struct L2x {
    pub variant: Variant,
    pub epochs: usize,
    pub batch: usize,
    pub rate: f64,
    pub temperature: f64,
    pub penalty: f64,
    /// Units of the choosing network's two layers.
    pub chooser: usize,
    /// Units of the predicting network's two layers.
    pub predictor: usize,
}

impl L2x {
    pub fn of(variant: Variant) -> Self {
        let released = variant == Variant::AsReleased;
        Self {
            variant,
            epochs: if released { 1 } else { 60 },
            batch: if released { 1000 } else { 100 },
            rate: 1e-3,
            temperature: if released { 0.1 } else { 0.5 },
            penalty: if released { 1e-3 } else { 1e-4 },
            chooser: 100,
            predictor: if released { 200 } else { 100 },
        }
    }

    pub fn explain(&self, model: &Model, train: &Rows, points: &Rows, seed: u64) -> Result<Rows> {
        let d = train.columns;
        let response = model.predict(train);
        match self.variant {
            Variant::AsReleased => {
                let mut chosen = Vec::with_capacity(d);
                for k in 1..=d {
                    let chooser = self.train(train, &response, k, seed)?;
                    chosen.push(points.iter().map(|x| top(&chooser.logits(x), k)).collect());
                }
                Ok(shares(&chosen, d))
            }
            Variant::Correct => {
                let chooser = self.train(train, &response, (d / 2).max(1), seed)?;
                let rows = points.iter().map(|x| softmax(&chooser.logits(x)));
                Ok(Rows::from_rows(rows, d))
            }
        }
    }

    /// Trains both networks and gives the one that chooses.
    fn train(&self, train: &Rows, response: &[f64], k: usize, seed: u64) -> Result<Chooser> {
        let (n, d) = (train.len(), train.columns);
        let released = self.variant == Variant::AsReleased;
        let outputs = if released { 2 } else { 1 };
        let (h, p) = (self.chooser, self.predictor);
        let mut draws = Draws::new(seed, streams::L2X, 2 * k as u64);
        let sizes = [(d, h), (h, h), (h, d), (d, p), (p, p), (p, outputs)];
        let mut layers = Vec::new();
        for (inputs, outputs) in sizes {
            layers.push(Layer::new(inputs, outputs, &mut draws)?);
        }
        // Scale and shift of two batch norms.
        let mut norms = Vec::new();
        for _ in 0..2 {
            let ones = Var::ones(p, DType::F32, &Device::Cpu)?;
            norms.push((ones, Var::zeros(p, DType::F32, &Device::Cpu)?));
        }
        let (mean, std) = mean_and_std(response, 0);
        let std = if std > 0.0 { std } else { 1.0 };
        let mut adam = Adam::new(
            layers
                .iter()
                .flat_map(|l| [&l.weights, &l.bias])
                .chain(norms.iter().flat_map(|(a, b)| [a, b]))
                .cloned()
                .collect(),
            self.rate,
        )?;
        let mut noise = Draws::new(seed, streams::L2X, 2 * k as u64 + 1);
        for _ in 0..self.epochs {
            let order = noise.permutation(n);
            for rows in order.chunks(self.batch.min(n).max(1)) {
                let x: Vec<f32> = rows
                    .iter()
                    .flat_map(|&i| train.row(i).iter().map(|v| *v as f32))
                    .collect();
                let x = Tensor::from_vec(x, (rows.len(), d), &Device::Cpu)?;
                let mask = self.relaxed(&layers, &x, k, &mut noise)?;
                let mut hidden = (&x * mask)?;
                for (at, (scale, shift)) in norms.iter().enumerate() {
                    hidden = layers[3 + at].of(&hidden)?.relu()?;
                    hidden = batch_norm(&hidden)?
                        .broadcast_mul(scale.as_tensor())?
                        .broadcast_add(shift.as_tensor())?;
                }
                let out = layers[5].of(&hidden)?;
                let own: Vec<f32> = rows.iter().map(|&i| response[i] as f32).collect();
                let own = Tensor::from_vec(own, (rows.len(), 1), &Device::Cpu)?;
                let loss = match released {
                    true => {
                        let classes = Tensor::cat(&[&own.affine(-1.0, 1.0)?, &own], 1)?;
                        (log_softmax(&out)? * classes)?.sum_all()?.neg()?
                    }
                    false => {
                        let wanted = own.affine(1.0 / std, -mean / std)?;
                        (out - wanted)?.sqr()?.sum_all()?
                    }
                };
                let mut loss = (loss / rows.len() as f64)?;
                for (at, layer) in layers.iter().enumerate() {
                    // The layer that gives the logits has no penalty.
                    if at != 2 {
                        let squares = layer.weights.sqr()?.sum_all()?;
                        loss = (loss + (squares * self.penalty)?)?;
                    }
                }
                adam.step(&loss)?;
            }
        }
        let host = |layer: &Layer| -> Result<(Vec<f32>, Vec<f32>)> {
            let weights = layer.weights.flatten_all()?.to_vec1::<f32>()?;
            Ok((weights, layer.bias.to_vec1::<f32>()?))
        };
        let [a, b, c] = [host(&layers[0])?, host(&layers[1])?, host(&layers[2])?];
        Ok(Chooser { layers: [a, b, c] })
    }

    /// The largest of k relaxed choices for each feature.
    fn relaxed(&self, layers: &[Layer], x: &Tensor, k: usize, noise: &mut Draws) -> Result<Tensor> {
        let (n, d) = x.dims2()?;
        let hidden = selu(&layers[0].of(x)?)?;
        let logits = layers[2].of(&selu(&layers[1].of(&hidden)?)?)?;
        let gumbel: Vec<f32> = (0..n * k * d)
            .map(|_| {
                let u = noise.uniform().clamp(1e-7, 1.0 - 1e-7);
                -(-u.ln()).ln() as f32
            })
            .collect();
        let gumbel = Tensor::from_vec(gumbel, (n, k, d), &Device::Cpu)?;
        let noisy = (gumbel.broadcast_add(&logits.unsqueeze(1)?)? / self.temperature)?;
        let most = noisy.max_keepdim(2)?.detach();
        let powers = noisy.broadcast_sub(&most)?.exp()?;
        let soft = powers.broadcast_div(&powers.sum_keepdim(2)?)?;
        Ok(soft.max(1)?)
    }
}

struct Layer {
    weights: Var,
    bias: Var,
}

impl Layer {
    /// Uniform within √(6/(inputs + outputs)); no bias.
    fn new(inputs: usize, outputs: usize, draws: &mut Draws) -> Result<Self> {
        let bound = (6.0 / (inputs + outputs) as f64).sqrt();
        let weights: Vec<f32> = (0..inputs * outputs)
            .map(|_| (bound * (2.0 * draws.uniform() - 1.0)) as f32)
            .collect();
        Ok(Self {
            weights: Var::from_vec(weights, (inputs, outputs), &Device::Cpu)?,
            bias: Var::zeros(outputs, DType::F32, &Device::Cpu)?,
        })
    }

    fn of(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.matmul(self.weights.as_tensor())?
            .broadcast_add(self.bias.as_tensor())?)
    }
}

const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;

fn selu(x: &Tensor) -> Result<Tensor> {
    let negative = (x.neg()?.relu()?.neg()?.exp()? - 1.0)?;
    Ok(((x.relu()? + (negative * SELU_ALPHA)?)? * SELU_SCALE)?)
}

fn log_softmax(x: &Tensor) -> Result<Tensor> {
    let most = x.max_keepdim(1)?.detach();
    let shifted = x.broadcast_sub(&most)?;
    let total = shifted.exp()?.sum_keepdim(1)?.log()?;
    Ok(shifted.broadcast_sub(&total)?)
}

fn batch_norm(x: &Tensor) -> Result<Tensor> {
    let centred = x.broadcast_sub(&x.mean_keepdim(0)?)?;
    let deviation = (centred.sqr()?.mean_keepdim(0)? + 1e-3)?.sqrt()?;
    Ok(centred.broadcast_div(&deviation)?)
}

/// Adam with Keras's constants.
struct Adam {
    variables: Vec<Var>,
    moments: Vec<(Tensor, Tensor)>,
    rate: f64,
    steps: i32,
}

impl Adam {
    fn new(variables: Vec<Var>, rate: f64) -> Result<Self> {
        let mut moments = Vec::with_capacity(variables.len());
        for variable in &variables {
            moments.push((variable.zeros_like()?, variable.zeros_like()?));
        }
        Ok(Self {
            variables,
            moments,
            rate,
            steps: 0,
        })
    }

    fn step(&mut self, loss: &Tensor) -> Result<()> {
        let gradients = loss.backward()?;
        self.steps += 1;
        let [a, b] = [0.9f64, 0.999].map(|beta| 1.0 - beta.powi(self.steps));
        let rate = self.rate * b.sqrt() / a;
        for (variable, (first, second)) in self.variables.iter().zip(&mut self.moments) {
            let Some(gradient) = gradients.get(variable.as_tensor()) else {
                continue;
            };
            let gradient = gradient.detach();
            *first = ((&*first * 0.9)? + (&gradient * 0.1)?)?;
            *second = ((&*second * 0.999)? + (gradient.sqr()? * 0.001)?)?;
            let step = (&*first / (second.sqrt()? + 1e-7)?)?;
            variable.set(&(variable.as_tensor() - (step * rate)?)?.detach())?;
        }
        Ok(())
    }
}

/// The network that chooses: weights (inputs × outputs) and biases of three layers, selu between them.
pub struct Chooser {
    pub layers: [(Vec<f32>, Vec<f32>); 3],
}

impl Chooser {
    pub fn logits(&self, x: &[f64]) -> Vec<f32> {
        let mut values: Vec<f32> = x.iter().map(|v| *v as f32).collect();
        for (at, (weights, bias)) in self.layers.iter().enumerate() {
            let mut out: Vec<f64> = bias.iter().map(|b| f64::from(*b)).collect();
            for (row, value) in weights.chunks_exact(bias.len()).zip(&values) {
                for (sum, w) in out.iter_mut().zip(row) {
                    *sum += f64::from(*w) * f64::from(*value);
                }
            }
            let activated = |v: &f64| match at {
                0 | 1 if *v > 0.0 => SELU_SCALE * v,
                0 | 1 => SELU_SCALE * SELU_ALPHA * (v.exp() - 1.0),
                _ => *v,
            };
            values = out.iter().map(|v| activated(v) as f32).collect();
        }
        values
    }
}

/// 1 for the k largest (and any as large as the k-th), 0 for the others.
pub fn top(logits: &[f32], k: usize) -> Vec<f64> {
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let least = sorted[k.clamp(1, sorted.len()) - 1];
    let chosen = |v: &f32| f64::from(u8::from(*v >= least));
    logits.iter().map(chosen).collect()
}

/// What was chosen for k = 1…d, added up and divided by its sum.
pub fn shares(chosen: &[Vec<Vec<f64>>], d: usize) -> Rows {
    let points = chosen.first().map_or(0, Vec::len);
    let rows = (0..points).map(|i| {
        let sums: Vec<f64> = (0..d)
            .map(|j| chosen.iter().map(|c| c[i][j]).sum())
            .collect();
        let total: f64 = sums.iter().sum();
        sums.iter().map(|s| s / total).collect()
    });
    Rows::from_rows(rows, d)
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().fold(f32::NEG_INFINITY, |m, &v| m.max(v));
    let powers: Vec<f64> = logits.iter().map(|v| f64::from(v - most).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|p| p / total).collect()
}
