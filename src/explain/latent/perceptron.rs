//! Generators and classifiers that are perceptrons: small worlds, quick on any machine.
//!
//! A layer is `tanh(W x + b)`; the classifier's last one has no tanh. The image is the generator's output.

use rayon::prelude::*;

use super::{Latent, LatentError, Looked, Networks, Pull, RawPulled, Result, Seen, Weighed};

/// A linear layer, and whether a tanh follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// `[outputs, inputs]`.
    weight: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
    tanh: bool,
}

impl Layer {
    pub fn new(weight: Vec<f32>, bias: Vec<f32>, tanh: bool) -> Result<Self> {
        let outputs = bias.len();
        if outputs == 0 || weight.is_empty() || !weight.len().is_multiple_of(outputs) {
            return Err(LatentError::setting(
                "a layer of a perceptron",
                "a weight [outputs, inputs] and a bias [outputs]",
                format!("{} and {outputs} values", weight.len()),
            ));
        }
        Ok(Self {
            inputs: weight.len() / outputs,
            weight,
            bias,
            tanh,
        })
    }

    fn forward(&self, x: &[f32], y: &mut Vec<f32>) {
        y.clear();
        let rows = self.weight.chunks_exact(self.inputs).zip(&self.bias);
        y.extend(rows.map(|(row, &b)| {
            let sum = b + dot(row, x);
            if self.tanh { sum.tanh() } else { sum }
        }));
    }

    /// The derivative by the inputs, given that by the outputs `g`, whose values were `y`.
    fn backward(&self, y: &[f32], g: &mut [f32], by_x: &mut Vec<f32>) {
        if self.tanh {
            g.iter_mut().zip(y).for_each(|(g, y)| *g *= 1.0 - y * y);
        }
        by_x.clear();
        by_x.resize(self.inputs, 0.0);
        for (row, &g) in self.weight.chunks_exact(self.inputs).zip(g.iter()) {
            by_x.iter_mut().zip(row).for_each(|(s, w)| *s += g * w);
        }
    }
}

/// `Σ a b` in eight sums, which vector units add at once.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0f32; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for k in 0..LANES {
            sums[k] += a[k] * b[k];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// A generator and a classifier.
#[derive(Clone, Debug)]
pub struct Perceptrons {
    layers: Vec<Layer>,
    /// How many of the layers are the generator's.
    generator: usize,
    size: [usize; 2],
}

impl Perceptrons {
    /// Layers must fit together, from 11 numbers to 2; `shape` is that of an image: channels, height, width.
    pub fn new(generator: Vec<Layer>, classifier: Vec<Layer>, shape: [usize; 3]) -> Result<Self> {
        let count = generator.len();
        let layers: Vec<Layer> = generator.into_iter().chain(classifier).collect();
        let mut width = super::LATENT;
        for (i, layer) in layers.iter().enumerate() {
            if layer.inputs != width {
                return Err(LatentError::setting(
                    format!("layer {} of the perceptrons", i + 1),
                    format!("{width} inputs"),
                    layer.inputs,
                ));
            }
            width = layer.bias.len();
            let pixels: usize = shape.iter().product();
            if i + 1 == count && width != pixels {
                return Err(LatentError::setting(
                    "the last layer of the generator",
                    format!("{pixels} outputs, an image of {shape:?}"),
                    width,
                ));
            }
        }
        if count == 0 || count == layers.len() || width != 2 {
            return Err(LatentError::setting(
                "perceptrons",
                "layers of a generator, then those of a classifier with 2 outputs",
                format!("{count} and {}, {width} outputs", layers.len() - count),
            ));
        }
        Ok(Self {
            layers,
            generator: count,
            size: [shape[1], shape[2]],
        })
    }

    fn forward(&self, raw: &Latent, values: &mut Vec<Vec<f32>>) {
        values.resize(self.layers.len(), Vec::new());
        for (i, layer) in self.layers.iter().enumerate() {
            let (before, now) = values.split_at_mut(i);
            let x = before.last().map_or(&raw[..], |v| v);
            layer.forward(x, &mut now[0]);
        }
    }

    fn logits(&self, values: &[Vec<f32>]) -> [f32; 2] {
        let last = &values[self.layers.len() - 1];
        [last[0], last[1]]
    }

    fn pulled(&self, row: usize, raw: &Latent, pull: &Pull<'_>) -> ([f32; 2], f64, Latent) {
        let mut values = Vec::new();
        self.forward(raw, &mut values);
        let logits = self.logits(&values);
        let image = &values[self.generator - 1];
        let mut by_image = vec![0.0; if pull.images { image.len() } else { 0 }];
        let Weighed { loss, by_logits } = (pull.by)(row, &Seen { logits, image }, &mut by_image);
        let mut g = by_logits.to_vec();
        let mut next = Vec::new();
        for (i, layer) in self.layers.iter().enumerate().rev() {
            if i + 1 == self.generator {
                g.iter_mut().zip(&by_image).for_each(|(g, b)| *g += b);
            }
            layer.backward(&values[i], &mut g, &mut next);
            std::mem::swap(&mut g, &mut next);
        }
        (logits, loss, std::array::from_fn(|k| g[k]))
    }
}

/// Latents that a thread takes at a time.
const PIECE: usize = 16;

impl Networks for Perceptrons {
    fn pixels(&self) -> usize {
        self.layers[self.generator - 1].bias.len()
    }

    fn size(&self) -> [usize; 2] {
        self.size
    }

    fn look(&self, raw: &[Latent]) -> Result<Looked> {
        let pieces: Vec<Looked> = raw
            .par_chunks(PIECE)
            .map(|piece| {
                let (mut looked, mut values) = (Looked::default(), Vec::new());
                for raw in piece {
                    self.forward(raw, &mut values);
                    looked.logits.push(self.logits(&values));
                    looked.images.extend_from_slice(&values[self.generator - 1]);
                }
                looked
            })
            .collect();
        let mut all = Looked::default();
        for piece in pieces {
            all.images.extend(piece.images);
            all.logits.extend(piece.logits);
        }
        Ok(all)
    }

    fn pull(&self, raw: &[Latent], pull: &Pull<'_>) -> Result<RawPulled> {
        let rows: Vec<_> = raw
            .par_iter()
            .with_min_len(PIECE)
            .enumerate()
            .map(|(row, raw)| self.pulled(row, raw, pull))
            .collect();
        let mut all = (Vec::new(), Vec::new(), Vec::new());
        for (logits, loss, gradient) in rows {
            all.0.push(logits);
            all.1.push(loss);
            all.2.push(gradient);
        }
        Ok(all)
    }
}
