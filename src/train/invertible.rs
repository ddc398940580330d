//! Training of the invertible network: first weights, noise, and the loss of IB-INN (Ardizzone et al. 2020).

use candle_core::{D, Device, Tensor};

use super::data::Data;
use super::error::Result;
use super::initial::Initial;
use crate::metrics::validity::argmax;
use crate::nets::invertible::{InvertibleNet, Latent, Parameters};
use crate::stats::random::{Draws, Stream};
use crate::tensor::candle::Candle;
use crate::tensor::{Array, StateDict};

/// Layout of an invertible network for square images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvertibleLayout {
    pub size: usize,
    pub channels: usize,
    pub classes: usize,
    /// Coupling blocks at half and at a quarter of the size; the paper has 24 of each.
    pub blocks: [usize; 2],
    /// Channels inside their networks; the paper has 32 and 64.
    pub widths: [usize; 2],
    /// Width of the networks of the last coupling; the paper has 1024.
    pub dense: usize,
}

/// Scale of every channel after a coupling, to begin with.
const SCALE: f32 = 0.8;

impl InvertibleLayout {
    pub fn values(&self) -> usize {
        self.channels * self.size * self.size
    }

    /// First weights: Kaiming's; class means are spread evenly over the axes, each class on its own.
    pub fn initial(&self, seed: u64) -> StateDict {
        let mut net = Initial::new(seed);
        let c = self.channels;
        net.constant("input_channels", &[1], c as f32);
        let [first, second] = self.widths;
        for (level, channels, width, blocks) in [
            ("first", 4 * c, first, self.blocks[0]),
            ("second", 16 * c, second, self.blocks[1]),
        ] {
            for k in 0..blocks {
                let at = format!("{level}.{k}");
                let kept = channels.div_ceil(2);
                let subnet = format!("{at}.subnet");
                convolutional(&mut net, &subnet, kept, width, 2 * (channels - kept));
                net.constant(&format!("{at}.scale"), &[channels], SCALE.ln());
                net.constant(&format!("{at}.offset"), &[channels], 0.0);
            }
        }
        let kept = (4 * c).div_ceil(2);
        let rest = 4 * c - kept;
        convolutional(&mut net, "down.high", kept, second, 8 * rest);
        convolutional(&mut net, "down.low", 4 * rest, second, 8 * kept);
        let d = self.values();
        let half = d / 2;
        for (name, inputs, outputs) in [
            ("first", d - half, 2 * half),
            ("second", half, 2 * (d - half)),
        ] {
            let gain = 0.1 * 2f64.sqrt();
            for (k, shape) in [(1, [self.dense, inputs]), (2, [outputs, self.dense])] {
                let at = format!("glow.{name}.linear{k}");
                net.weight(&format!("{at}.weight"), &shape, gain);
                net.constant(&format!("{at}.bias"), &shape[..1], 0.0);
            }
        }
        net.constant("frequencies", &[self.classes], 0.0);
        let mut dict = net.finish();
        let height = 5.0 / ((2 * d / self.classes.max(1)) as f32).sqrt();
        let mean = |k: usize| match k % d % self.classes.max(1) == k / d {
            true => height,
            false => 0.0,
        };
        let means = Array {
            shape: vec![self.classes, d],
            data: (0..self.classes * d).map(mean).collect(),
        };
        dict.insert("means", means);
        dict
    }
}

fn convolutional(net: &mut Initial, at: &str, inputs: usize, width: usize, outputs: usize) {
    let conv = |k: usize| [format!("{at}.conv{k}"), format!("{at}.norm{k}")];
    let [first, norm] = conv(1);
    net.conv_bn(&first, &norm, &[width, inputs, 3, 3]);
    let [second, norm] = conv(2);
    net.conv_bn(&second, &norm, &[width, width, 3, 3]);
    net.layer(&conv(3)[0], &[outputs, width, 1, 1]);
}

/// Images −1 to 1 with the noise that makes densities of 8-bit values finite: uniform over one of 256 grey levels, and normal
/// of 0.01, both of values from 0 to 1. Noise belongs to (seed, step).
pub fn dequantised(images: &Array, seed: u64, step: u64) -> Array {
    let mut draws = Draws::new(seed, Stream::INVERTIBLE_NOISE, step);
    let mut noisy = images.clone();
    for value in &mut noisy.data {
        let noise = draws.uniform() / 256.0 + 0.01 * draws.normal();
        *value += (2.0 * noise) as f32;
    }
    noisy
}

/// How the two parts of the loss are weighed, and how certain labels are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InformationBottleneck {
    /// The larger, the more the classes count.
    pub beta: f64,
    /// Share of a label that goes to all classes.
    pub smoothing: f64,
}

impl Default for InformationBottleneck {
    /// Of (Fake)MNIST in the paper.
    fn default() -> Self {
        Self {
            beta: 1.4265,
            smoothing: 0.01,
        }
    }
}

impl InformationBottleneck {
    /// `2/(1+β) L_x − 2β/(1+β) L_y`, where `L_x` is the negative log-likelihood of an image for each of its values and `L_y` the
    /// log-probability of its class against that by chance.
    pub fn loss<B: Parameters>(
        &self,
        net: &InvertibleNet<B>,
        latent: &Latent,
        labels: &[usize],
    ) -> Result<Tensor> {
        let densities = net.log_densities(&latent.z)?;
        let (n, classes) = densities.dims2()?;
        let d = latent.z.dim(1)? as f64;
        let frequencies = net.frequencies();
        let log_w = log_softmax(&frequencies.reshape((1, classes))?)?;
        let joint = densities.broadcast_add(&log_w)?;
        let likelihood = (log_sum(&joint)?.squeeze(1)? + &latent.log_determinant)?;
        let image = (likelihood.mean_all()? * (-1.0 / d))?;
        let log_w = log_w.detach();
        let posterior = log_softmax(&densities.broadcast_add(&log_w)?)?;
        let against_chance = posterior.broadcast_sub(&log_w)?;
        let mut targets = vec![(self.smoothing / classes as f64) as f32; n * classes];
        for (row, &label) in targets.chunks_exact_mut(classes).zip(labels) {
            if let Some(target) = row.get_mut(label) {
                *target += (1.0 - self.smoothing) as f32;
            }
        }
        let targets = Tensor::from_vec(targets, (n, classes), &Device::Cpu)?;
        let class = ((against_chance * targets)?.sum_all()? / n as f64)?;
        let (a, b) = (2.0 / (1.0 + self.beta), 2.0 * self.beta / (1.0 + self.beta));
        Ok(((image * a)? - (class * b)?)?)
    }
}

/// `log Σ exp` over the last axis, which stays with length 1.
fn log_sum(x: &Tensor) -> candle_core::Result<Tensor> {
    let most = x.max_keepdim(D::Minus1)?.detach();
    x.broadcast_sub(&most)?
        .exp()?
        .sum_keepdim(D::Minus1)?
        .log()?
        .add(&most)
}

fn log_softmax(x: &Tensor) -> candle_core::Result<Tensor> {
    x.broadcast_sub(&log_sum(x)?)
}

/// Mean code of the images that the network puts into each class, `[classes, d]`: the centres of ECINN. A class without
/// images has its mean.
pub fn class_centres(
    net: &InvertibleNet<Candle>,
    data: &Data,
    items: &[usize],
    range: [f32; 2],
) -> Result<Array> {
    let (classes, d) = net.means().dims2()?;
    let mut sums = vec![0.0f64; classes * d];
    let mut counts = vec![0usize; classes];
    for part in items.chunks(128) {
        let latent = net.forward(&Candle, &data.grey_batch(part, range))?;
        let densities = net.log_densities(&latent.z)?.to_vec2::<f32>()?;
        for (z, row) in latent.z.to_vec2::<f32>()?.iter().zip(&densities) {
            let class = argmax(row);
            counts[class] += 1;
            let sums = &mut sums[class * d..(class + 1) * d];
            sums.iter_mut()
                .zip(z)
                .for_each(|(s, &v)| *s += f64::from(v));
        }
    }
    let means = net.means().flatten_all()?.to_vec1::<f32>()?;
    let centre = |k: usize| match counts[k / d] {
        0 => means[k],
        n => (sums[k] / n as f64) as f32,
    };
    Ok(Array {
        shape: vec![classes, d],
        data: (0..classes * d).map(centre).collect(),
    })
}
