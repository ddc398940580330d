//! GEN: a counterfactual as a correction of an invertible network's code (ECINN: Hvilshøj, Iosifidis & Assent 2021).
//!
//! With class means `μ`, centres `m` (the mean code of the images put into a class), a code `z` of class `p` and a target `q`:
//! `Δ = m_q − m_p`, `w = (μ_q − μ_p)/‖μ_q − μ_p‖`, `b = −½ (μ_p + μ_q)·w`. The code `z + α₀ Δ` with `α₀ = (−b − z·w)/(Δ·w)` lies
//! on the boundary between the two classes; `α₁ = 0.8 + ½ α₀` is convincingly beyond it. The image is the inverse of the
//! network at the corrected code, cut to the range of pixels.

use candle_core::{Device, Tensor as Values};

use super::{Found, Outcome, PixelError, Result, check, classes, image};
use crate::metrics::validity::argmax;
use crate::nets::{InvertibleNet, NetError};
use crate::tensor::candle::Candle;
use crate::tensor::{Array, StateDict};

/// One vector for each image.
type Rows = Vec<Vec<f32>>;

/// How far to go along `Δ`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Alpha {
    /// To where both classes are equally likely: `α₀`.
    Boundary,
    /// Beyond: `α₁`, that of the paper.
    #[default]
    Convincing,
}

/// An invertible network with what corrections need of it.
pub struct Ecinn {
    pub net: InvertibleNet<Candle>,
    /// `[classes][d]`.
    means: Vec<Vec<f32>>,
    centres: Vec<Vec<f32>>,
}

/// A corrected code.
#[derive(Clone, Debug, PartialEq)]
pub struct Corrected {
    pub code: Vec<f32>,
    pub alpha: f64,
}

impl Ecinn {
    /// From the weights of `foil train inn`, which hold the centres.
    pub fn new(dict: &StateDict) -> Result<Self> {
        let net = InvertibleNet::new(&Candle, dict)?;
        let means = net.means().to_vec2::<f32>()?;
        let (classes, d) = (means.len(), means.first().map_or(0, Vec::len));
        let centres = dict.get("centres").ok_or_else(|| {
            PixelError::Setting(
                "the invertible network has no `centres`, the mean codes of its classes; `foil train inn` writes them"
                    .into(),
            )
        })?;
        if centres.shape != [classes, d] {
            return Err(NetError::Shape {
                name: "centres".into(),
                expected: format!("[{classes}, {d}]"),
                found: centres.shape.clone(),
            }
            .into());
        }
        Ok(Self {
            net,
            means,
            centres: centres
                .data
                .chunks_exact(d.max(1))
                .map(<[f32]>::to_vec)
                .collect(),
        })
    }

    pub fn classes(&self) -> usize {
        self.means.len()
    }

    /// Codes and probabilities of the classes (equally frequent ones) of images NCHW in `range`.
    pub fn encode(&self, images: &Array, range: [f32; 2]) -> Result<[Rows; 2]> {
        let latent = self
            .net
            .forward(&Candle, &rescaled(images, range, [-1.0, 1.0]))?;
        let densities = self.net.log_densities(&latent.z)?.to_vec2::<f32>()?;
        let probabilities = densities.iter().map(|row| softmax(row)).collect();
        Ok([latent.z.to_vec2::<f32>()?, probabilities])
    }

    /// The code of class `from`, corrected to become class `to`. `None` where the centres lie along the boundary of the two
    /// classes, so that no step reaches it: for one and the same class above all.
    pub fn correct(&self, code: &[f32], from: usize, to: usize, alpha: Alpha) -> Option<Corrected> {
        let (mean_p, mean_q) = (&self.means[from], &self.means[to]);
        let (centre_p, centre_q) = (&self.centres[from], &self.centres[to]);
        let wide = f64::from;
        let (mut length, mut along, mut offset, mut step) = (0.0, 0.0, 0.0, 0.0);
        for i in 0..code.len() {
            let w = wide(mean_q[i]) - wide(mean_p[i]);
            length += w * w;
            along += wide(code[i]) * w;
            offset -= 0.5 * (wide(mean_p[i]) + wide(mean_q[i])) * w;
            step += (wide(centre_q[i]) - wide(centre_p[i])) * w;
        }
        if from == to || step.abs() <= 1e-9 * length || length == 0.0 {
            return None;
        }
        // The length of w cancels.
        let boundary = (-offset - along) / step;
        let alpha = match alpha {
            Alpha::Boundary => boundary,
            Alpha::Convincing => 0.8 + 0.5 * boundary,
        };
        let moved = |i: usize| {
            let change = wide(centre_q[i]) - wide(centre_p[i]);
            (wide(code[i]) + alpha * change) as f32
        };
        Some(Corrected {
            code: (0..code.len()).map(moved).collect(),
            alpha,
        })
    }

    /// Counterfactuals of images NCHW in `range`, a target for each.
    pub fn explain(
        &self,
        images: &Array,
        range: [f32; 2],
        targets: &[usize],
        alpha: Alpha,
    ) -> Result<Vec<Outcome>> {
        let [codes, probabilities] = self.encode(images, range)?;
        let before = classes(&probabilities);
        let wanted: Vec<Option<usize>> = targets.iter().copied().map(Some).collect();
        check(images, range, &before, &wanted, self.classes())?;
        let [_, _, h, w] = *images.shape.as_slice() else {
            return Err(PixelError::Shape {
                found: images.shape.clone(),
                targets: targets.len(),
            });
        };
        let corrected: Vec<Option<Corrected>> = (0..codes.len())
            .map(|i| self.correct(&codes[i], before[i], targets[i], alpha))
            .collect();
        let reached: Vec<&Corrected> = corrected.iter().flatten().collect();
        let mut drawn = Vec::new().into_iter();
        if !reached.is_empty() {
            let d = reached[0].code.len();
            let flat: Vec<f32> = reached
                .iter()
                .flat_map(|c| c.code.iter().copied())
                .collect();
            let z = Values::from_vec(flat, (reached.len(), d), &Device::Cpu)?;
            let mut back = self.net.inverse(&Candle, &z, h, w)?;
            back.data.iter_mut().for_each(|v| *v = v.clamp(-1.0, 1.0));
            let back = rescaled(&back, [-1.0, 1.0], range);
            let [_, opinions] = self.encode(&back, range)?;
            let pairs: Vec<(Vec<f32>, Vec<f32>)> = { opinions.into_iter().enumerate() }
                .map(|(k, row)| (image(&back, k).to_vec(), row))
                .collect();
            drawn = pairs.into_iter();
        }
        let outcomes = before.iter().zip(&corrected).map(|(&before, corrected)| {
            let found = corrected.as_ref().and_then(|c| Some((c, drawn.next()?)));
            Outcome {
                before,
                evaluations: 1 + usize::from(found.is_some()),
                found: found.map(|(corrected, (image, probabilities))| Found {
                    image,
                    class: argmax(&probabilities),
                    probabilities,
                    weight: corrected.alpha,
                }),
            }
        });
        Ok(outcomes.collect())
    }
}

/// Values of one range as those of another.
pub fn rescaled(images: &Array, [low, high]: [f32; 2], [to_low, to_high]: [f32; 2]) -> Array {
    let factor = (to_high - to_low) / (high - low);
    let data = images.data.iter().map(|v| (v - low) * factor + to_low);
    Array {
        shape: images.shape.clone(),
        data: data.collect(),
    }
}

fn softmax(row: &[f32]) -> Vec<f32> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exps: Vec<f64> = row.iter().map(|v| f64::from(v - most).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| (e / sum) as f32).collect()
}
