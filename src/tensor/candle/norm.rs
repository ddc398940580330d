//! Group norms with modulation and activation, forth and back; layer norms are in `layer_norm.rs`.
//!
//! With `x̂ = (x − μ)/σ` over a group, `z = x̂·A + B`, `A = w·(1 + s)`, `B = b·(1 + s) + t` and `y = f(z)`:
//! `dz = dy·f′(z)`, `dA = Σ dz·x̂`, `dB = Σ dz`, and
//! `dx = (dz·A − mean(dz·A) − x̂·mean(dz·A·x̂))/σ` with means over the group.

use rayon::prelude::*;

use super::operation::{Gradient, Operation, Output};
use super::slope::multiply_in_place;
use super::tensor::View;
use crate::cpu::simd::{flushed, for_each_isa};
use crate::{Activation, Backend, Norm, Shape, TensorError, cpu::Cpu};

/// Pixels per piece of parallel work.
const BAND: usize = 256;
/// Pixels whose sums are taken in f32 before they are added in f64.
const RUN: usize = 32;

/// A group norm. Scale and shift are constants, or one argument `[2c]` if they are being trained.
pub struct GroupNorm {
    pub groups: usize,
    pub epsilon: f32,
    pub activation: Activation,
    /// Scale and shift if they are constants.
    pub norm: Option<Norm>,
}

/// Everything that flows back.
struct Gradients {
    x: Vec<f32>,
    /// `[2c]`: scales, then shifts.
    affine: Vec<f32>,
    /// `[n, 2c]`: scales, then shifts.
    modulation: Vec<f32>,
}

impl GroupNorm {
    /// The constant scale and shift, or those of an argument.
    fn affine(&self, argument: Option<View<'_>>) -> Norm {
        match (argument, &self.norm) {
            (Some(affine), _) => {
                let (weight, bias) = affine.data.split_at(affine.data.len() / 2);
                Norm {
                    weight: weight.to_vec(),
                    bias: bias.to_vec(),
                    epsilon: self.epsilon,
                    ..Default::default()
                }
            }
            (None, Some(norm)) => norm.clone(),
            (None, None) => Norm {
                weight: Vec::new(),
                bias: Vec::new(),
                epsilon: self.epsilon,
                ..Default::default()
            },
        }
    }

    fn forward(&self, x: View<'_>, norm: &Norm, modulation: Option<View<'_>>) -> Output {
        let modulation = modulation.map(|m| m.for_engine());
        let y = Cpu.group_norm(
            &x.for_engine(),
            self.groups,
            norm,
            modulation.as_ref(),
            self.activation,
        )?;
        Ok((x.shape, y.into_data()))
    }

    fn backward(
        &self,
        x: View<'_>,
        norm: &Norm,
        modulation: Option<View<'_>>,
        g: View<'_>,
    ) -> Gradients {
        let c = x.shape.c;
        let images: Vec<Image> = (0..x.shape.n)
            .into_par_iter()
            .map(|n| {
                let modulation = modulation.map(|m| m.image(n));
                self.image(x.image(n), x.shape, norm, modulation, g.image(n))
            })
            .collect();
        let mut affine = vec![0.0f64; 2 * c];
        let mut to_modulation = Vec::with_capacity(x.shape.n * 2 * c);
        for (n, image) in images.iter().enumerate() {
            let factor = |i: usize| modulation.map_or(1.0, |m| 1.0 + f64::from(m.image(n)[i]));
            for i in 0..c {
                affine[i] += factor(i) * image.scale[i];
                affine[c + i] += factor(i) * image.shift[i];
            }
            let scale = |i: usize| {
                f64::from(norm.weight[i]) * image.scale[i]
                    + f64::from(norm.bias[i]) * image.shift[i]
            };
            to_modulation.extend((0..c).map(|i| scale(i) as f32));
            to_modulation.extend(image.shift.iter().map(|&v| v as f32));
        }
        let mut dx = Vec::with_capacity(x.data.len());
        match <[Image; 1]>::try_from(images) {
            Ok([image]) => dx = image.x,
            Err(images) => images.iter().for_each(|i| dx.extend_from_slice(&i.x)),
        }
        Gradients {
            x: dx,
            affine: affine.into_iter().map(|v| v as f32).collect(),
            modulation: to_modulation,
        }
    }

    fn image(
        &self,
        x: &[f32],
        shape: Shape,
        norm: &Norm,
        modulation: Option<&[f32]>,
        g: &[f32],
    ) -> Image {
        let c = shape.c;
        let statistics = statistics(x, c, self.groups, norm.epsilon);
        let (mut scale, mut shift) = (norm.weight.clone(), norm.bias.clone());
        if let Some(m) = modulation {
            for i in 0..c {
                scale[i] *= 1.0 + m[i];
                shift[i] = shift[i] * (1.0 + m[i]) + m[c + i];
            }
        }
        let channels = Channels {
            mean: statistics.iter().map(|s| s.0).collect(),
            inverse: statistics.iter().map(|s| s.1).collect(),
            scale,
            shift,
        };
        // dz goes where dx will be.
        let mut dx = vec![0.0f32; x.len()];
        let band = BAND * c;
        let sums: Vec<Vec<f64>> = dx
            .par_chunks_mut(band)
            .zip(x.par_chunks(band).zip(g.par_chunks(band)))
            .map(|(dz, (x, g))| {
                let mut sums = vec![0.0f64; 2 * c];
                flushed(|| before_activation(dz, x, g, &channels, self.activation, &mut sums));
                sums
            })
            .collect();
        let mut total = vec![0.0f64; 2 * c];
        for part in &sums {
            for (t, p) in total.iter_mut().zip(part) {
                *t += p;
            }
        }
        let (to_scale, to_shift) = total.split_at(c);
        let per_group = c / self.groups;
        let count = (x.len() / c * per_group) as f64;
        let mut coefficients = Coefficients {
            gradient: vec![0.0; c],
            value: vec![0.0; c],
            constant: vec![0.0; c],
        };
        for group in 0..self.groups {
            let own = group * per_group..(group + 1) * per_group;
            let mean = |sums: &[f64]| {
                let weighted = own
                    .clone()
                    .map(|i| f64::from(channels.scale[i]) * sums[i])
                    .sum::<f64>();
                weighted / count
            };
            let (of_gradient, of_product) = (mean(to_shift), mean(to_scale));
            for i in own.clone() {
                // dx = a·dz + b·x + k, collected from the formula above.
                let inverse = f64::from(channels.inverse[i]);
                let value = -of_product * inverse * inverse;
                coefficients.gradient[i] = channels.scale[i] * channels.inverse[i];
                coefficients.value[i] = value as f32;
                coefficients.constant[i] =
                    (-of_gradient * inverse - value * f64::from(channels.mean[i])) as f32;
            }
        }
        dx.par_chunks_mut(band)
            .zip(x.par_chunks(band))
            .for_each(|(dx, x)| flushed(|| combine(dx, x, &coefficients)));
        Image {
            x: dx,
            scale: to_scale.to_vec(),
            shift: to_shift.to_vec(),
        }
    }
}

/// What flows back from one image.
struct Image {
    x: Vec<f32>,
    /// `Σ dz·x̂` and `Σ dz` by channel.
    scale: Vec<f64>,
    shift: Vec<f64>,
}

/// What a channel's values are put through, by channel.
struct Channels {
    mean: Vec<f32>,
    inverse: Vec<f32>,
    scale: Vec<f32>,
    shift: Vec<f32>,
}

struct Coefficients {
    gradient: Vec<f32>,
    value: Vec<f32>,
    constant: Vec<f32>,
}

/// Mean and `1/√(variance + ε)` of its group for each channel. Sums are taken of differences from the first pixel, so
/// that a large common offset costs no digits.
fn statistics(x: &[f32], c: usize, groups: usize, epsilon: f32) -> Vec<(f32, f32)> {
    let pixels = x.len() / c;
    let first = &x[..c];
    let parts: Vec<Vec<f64>> = x
        .par_chunks(BAND * c)
        .map(|x| {
            let mut sums = vec![0.0f64; 2 * c];
            flushed(|| shifted_sums(x, first, &mut sums));
            sums
        })
        .collect();
    let mut sums = vec![0.0f64; 2 * c];
    for part in &parts {
        for (s, p) in sums.iter_mut().zip(part) {
            *s += p;
        }
    }
    let per_group = c / groups;
    let count = (pixels * per_group) as f64;
    let mut out = Vec::with_capacity(c);
    for group in 0..groups {
        let own = group * per_group..(group + 1) * per_group;
        let total: f64 = own
            .clone()
            .map(|i| sums[i] + f64::from(first[i]) * pixels as f64)
            .sum();
        let mean = total / count;
        let squares: f64 = own
            .map(|i| {
                let away = mean - f64::from(first[i]);
                sums[c + i] - 2.0 * away * sums[i] + away * away * pixels as f64
            })
            .sum();
        let inverse = 1.0 / (squares.max(0.0) / count + f64::from(epsilon)).sqrt();
        out.resize(out.len() + per_group, (mean as f32, inverse as f32));
    }
    out
}

for_each_isa! {
    /// `Σ (x − first)` and `Σ (x − first)²` by channel.
    fn shifted_sums(x: &[f32], first: &[f32], sums: &mut [f64]) {
        let c = first.len();
        let mut one = vec![0.0f32; c];
        let mut two = vec![0.0f32; c];
        for run in x.chunks(RUN * c) {
            one.fill(0.0);
            two.fill(0.0);
            for pixel in run.chunks_exact(c) {
                for i in 0..c {
                    let d = pixel[i] - first[i];
                    one[i] += d;
                    two[i] += d * d;
                }
            }
            for i in 0..c {
                sums[i] += f64::from(one[i]);
                sums[c + i] += f64::from(two[i]);
            }
        }
    }
}

for_each_isa! {
    /// `dz = g·f′(z)`, and the sums `Σ dz·x̂`, `Σ dz` by channel.
    fn before_activation(
        dz: &mut [f32],
        x: &[f32],
        g: &[f32],
        channels: &Channels,
        activation: Activation,
        sums: &mut [f64],
    ) {
        let c = channels.mean.len();
        let (mean, inverse) = (&channels.mean[..c], &channels.inverse[..c]);
        let (scale, shift) = (&channels.scale[..c], &channels.shift[..c]);
        let mut z = vec![0.0f32; c];
        let mut one = vec![0.0f32; c];
        let mut two = vec![0.0f32; c];
        let runs = dz.chunks_mut(RUN * c).zip(x.chunks(RUN * c)).zip(g.chunks(RUN * c));
        for ((dz, x), g) in runs {
            one.fill(0.0);
            two.fill(0.0);
            let pixels = dz.chunks_exact_mut(c).zip(x.chunks_exact(c)).zip(g.chunks_exact(c));
            for ((dz, x), g) in pixels {
                dz.copy_from_slice(g);
                if activation != Activation::None {
                    for i in 0..c {
                        z[i] = (x[i] - mean[i]) * inverse[i] * scale[i] + shift[i];
                    }
                    multiply_in_place(dz, &z, activation);
                }
                for i in 0..c {
                    one[i] += dz[i];
                    two[i] += dz[i] * ((x[i] - mean[i]) * inverse[i]);
                }
            }
            for i in 0..c {
                sums[i] += f64::from(two[i]);
                sums[c + i] += f64::from(one[i]);
            }
        }
    }
}

for_each_isa! {
    /// `dx = a·dz + b·x + k`.
    fn combine(dx: &mut [f32], x: &[f32], by: &Coefficients) {
        let c = by.gradient.len();
        let (a, b, k) = (&by.gradient[..c], &by.value[..c], &by.constant[..c]);
        for (dx, x) in dx.chunks_exact_mut(c).zip(x.chunks_exact(c)) {
            for i in 0..c {
                dx[i] = a[i] * dx[i] + b[i] * x[i] + k[i];
            }
        }
    }
}

/// Constant scale and shift, no modulation.
impl Operation<1> for GroupNorm {
    const NAME: &'static str = "group norm";

    fn forward(&self, [x]: [View<'_>; 1]) -> Output {
        self.forward(x, &self.affine(None), None)
    }

    fn backward(
        &self,
        [x]: [View<'_>; 1],
        _: View<'_>,
        g: View<'_>,
        _: [bool; 1],
    ) -> Result<[Gradient; 1], TensorError> {
        let back = self.backward(x, &self.affine(None), None, g);
        Ok([Gradient::Values(back.x)])
    }
}

/// With a second argument: the modulation, or the scale and shift if they are no constants.
impl Operation<2> for GroupNorm {
    const NAME: &'static str = "group norm";

    fn forward(&self, [x, second]: [View<'_>; 2]) -> Output {
        match self.norm {
            Some(_) => self.forward(x, &self.affine(None), Some(second)),
            None => self.forward(x, &self.affine(Some(second)), None),
        }
    }

    fn backward(
        &self,
        [x, second]: [View<'_>; 2],
        _: View<'_>,
        g: View<'_>,
        [_, wanted]: [bool; 2],
    ) -> Result<[Gradient; 2], TensorError> {
        let (back, second) = match self.norm {
            Some(_) => {
                let mut back = self.backward(x, &self.affine(None), Some(second), g);
                let modulation = std::mem::take(&mut back.modulation);
                (back, modulation)
            }
            None => {
                let mut back = self.backward(x, &self.affine(Some(second)), None, g);
                let affine = std::mem::take(&mut back.affine);
                (back, affine)
            }
        };
        Ok([Gradient::Values(back.x), Gradient::when(wanted, || second)])
    }
}

/// Scale and shift, and modulation.
impl Operation<3> for GroupNorm {
    const NAME: &'static str = "group norm";

    fn forward(&self, [x, affine, modulation]: [View<'_>; 3]) -> Output {
        self.forward(x, &self.affine(Some(affine)), Some(modulation))
    }

    fn backward(
        &self,
        [x, affine, modulation]: [View<'_>; 3],
        _: View<'_>,
        g: View<'_>,
        [_, affine_wanted, modulation_wanted]: [bool; 3],
    ) -> Result<[Gradient; 3], TensorError> {
        let back = self.backward(x, &self.affine(Some(affine)), Some(modulation), g);
        Ok([
            Gradient::Values(back.x),
            Gradient::when(affine_wanted, || back.affine),
            Gradient::when(modulation_wanted, || back.modulation),
        ])
    }
}
