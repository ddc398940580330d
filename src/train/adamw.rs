//! AdamW (Loshchilov & Hutter 2019) with a cosine schedule. Its moments are plain arrays, so that a checkpoint can hold
//! them: candle's own optimiser cannot be saved.

use std::collections::BTreeMap;

use candle_core::{Tensor, Var, backprop::GradStore};
use rayon::prelude::*;

use super::error::Result;

/// Settings of the optimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Largest learning rate.
    pub rate: f64,
    pub betas: [f64; 2],
    pub epsilon: f64,
    /// Of weights with more than one axis; scales, shifts and biases do not decay.
    pub decay: f64,
    /// Steps in which the rate rises from 0.
    pub warm_up: usize,
    /// Gradients longer than this are shortened to it; 0 for never.
    pub clip: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self {
            rate: 1e-3,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            decay: 1e-4,
            warm_up: 50,
            clip: 1.0,
        }
    }
}

impl AdamW {
    /// The learning rate of a step: up to `rate`, then down to 0 along half a cosine.
    pub fn rate(&self, step: usize, steps: usize) -> f64 {
        let warm = ((step + 1) as f64 / self.warm_up.max(1) as f64).min(1.0);
        let done = step as f64 / steps.max(1) as f64;
        self.rate * warm * 0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos())
    }
}

/// The mean of the gradients of a variable, and of their squares.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    pub first: Vec<f32>,
    pub second: Vec<f32>,
}

impl Moments {
    pub fn zeros(len: usize) -> Self {
        Self {
            first: vec![0.0; len],
            second: vec![0.0; len],
        }
    }
}

/// Moves every variable one step against its gradient.
pub fn step(
    settings: &AdamW,
    variables: &BTreeMap<String, Var>,
    moments: &mut BTreeMap<String, Moments>,
    gradients: &GradStore,
    step: usize,
    steps: usize,
) -> Result<()> {
    let mut found = BTreeMap::new();
    for (name, variable) in variables {
        if let Some(gradient) = gradients.get(variable.as_tensor()) {
            found.insert(name, gradient.flatten_all()?.to_vec1::<f32>()?);
        }
    }
    let square = |g: &Vec<f32>| g.iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>();
    let norm = found.values().map(square).sum::<f64>().sqrt();
    let shorten = if settings.clip > 0.0 && norm > settings.clip {
        settings.clip / norm
    } else {
        1.0
    };
    let rate = settings.rate(step, steps);
    let [b1, b2] = settings.betas;
    let debiased = [b1, b2].map(|b| 1.0 - b.powi(step as i32 + 1));
    for (name, gradient) in found {
        let variable = &variables[name];
        let moments = moments
            .entry(name.clone())
            .or_insert_with(|| Moments::zeros(gradient.len()));
        let decay = if variable.rank() > 1 {
            rate * settings.decay
        } else {
            0.0
        };
        let mut values = variable.flatten_all()?.to_vec1::<f32>()?;
        let chunk = 1 << 14;
        values
            .par_chunks_mut(chunk)
            .zip(gradient.par_chunks(chunk))
            .zip(moments.first.par_chunks_mut(chunk))
            .zip(moments.second.par_chunks_mut(chunk))
            .for_each(|(((values, gradient), first), second)| {
                for i in 0..values.len() {
                    let g = f64::from(gradient[i]) * shorten;
                    let m = b1 * f64::from(first[i]) + (1.0 - b1) * g;
                    let v = b2 * f64::from(second[i]) + (1.0 - b2) * g * g;
                    (first[i], second[i]) = (m as f32, v as f32);
                    let move_by = m / debiased[0] / ((v / debiased[1]).sqrt() + settings.epsilon);
                    let value = f64::from(values[i]);
                    values[i] = (value - decay * value - rate * move_by) as f32;
                }
            });
        variable.set(&Tensor::from_vec(
            values,
            variable.shape(),
            variable.device(),
        )?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    /// Two steps on Σ x² from a point, computed by hand.
    #[test]
    fn two_steps_are_those_of_the_definition() {
        let variable = Var::new(&[[1.0f32, -2.0]], &Device::Cpu).unwrap();
        let variables = BTreeMap::from([("w".to_owned(), variable.clone())]);
        let settings = AdamW {
            rate: 0.1,
            decay: 0.01,
            warm_up: 0,
            clip: 0.0,
            ..AdamW::default()
        };
        let mut moments = BTreeMap::new();
        let mut expected = [1.0f64, -2.0];
        let (mut m, mut v) = ([0.0f64; 2], [0.0f64; 2]);
        for n in 0..2 {
            let loss = variable.as_tensor().sqr().unwrap().sum_all().unwrap();
            let gradients = loss.backward().unwrap();
            step(&settings, &variables, &mut moments, &gradients, n, 10).unwrap();
            let rate = settings.rate(n, 10);
            for i in 0..2 {
                let g = 2.0 * expected[i];
                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.999 * v[i] + 0.001 * g * g;
                let unbiased = [
                    m[i] / (1.0 - 0.9f64.powi(n as i32 + 1)),
                    v[i] / (1.0 - 0.999f64.powi(n as i32 + 1)),
                ];
                expected[i] -= rate * 0.01 * expected[i];
                expected[i] -= rate * unbiased[0] / (unbiased[1].sqrt() + 1e-8);
            }
        }
        let got = variable.as_tensor().to_vec2::<f32>().unwrap();
        for (g, e) in got[0].iter().zip(expected) {
            assert!((f64::from(*g) - e).abs() < 1e-6, "{g} {e}");
        }
    }

    #[test]
    fn the_rate_rises_and_falls() {
        let settings = AdamW {
            rate: 1.0,
            warm_up: 10,
            ..AdamW::default()
        };
        assert!(settings.rate(0, 1000) < 0.11);
        assert!(settings.rate(10, 1000) > 0.99);
        assert!(settings.rate(999, 1000) < 1e-4);
    }
}
