//! Adversarial examples by projected gradient ascent in a ball of the L2 norm (Madry et al. 2018).

use rayon::prelude::*;

use super::error::{Result, TrainError};
use crate::nets::Classifier;
use crate::tensor::candle::{Candle, Differentiable};
use crate::tensor::{Array, Backend};

/// The attack: images may move by `radius` in the L2 norm over pixel values from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attack {
    pub radius: f64,
    pub steps: usize,
}

impl Attack {
    /// Moves images (NCHW, −1 to 1) uphill on `loss`, a function of the logits.
    pub fn run(
        &self,
        net: &dyn Classifier<Candle>,
        images: &Array,
        loss: impl Fn(&candle_core::Tensor) -> Result<candle_core::Tensor>,
    ) -> Result<Array> {
        // The range from −1 to 1 is twice that from 0 to 1.
        let radius = 2.0 * self.radius;
        let stride = 2.5 * radius / self.steps.max(1) as f64;
        let mut moved = images.clone();
        let image = images.len() / images.shape.first().copied().unwrap_or(1).max(1);
        for _ in 0..self.steps {
            let x = Candle.variable(&moved)?;
            let input = crate::tensor::candle::Tensor::new(x.as_tensor())?;
            let logits = net.predict(&Candle, &input)?.logits;
            let gradients = loss(logits.candle())?.backward()?;
            let Some(gradient) = gradients.get(x.as_tensor()) else {
                return Err(TrainError::Data(
                    "the loss of an attack does not depend on the images".into(),
                ));
            };
            let gradient = crate::tensor::candle::Tensor::new(gradient)?;
            let gradient = Candle.download(&gradient)?;
            moved
                .data
                .par_chunks_exact_mut(image)
                .zip(images.data.par_chunks_exact(image))
                .zip(gradient.data.par_chunks_exact(image))
                .for_each(|((moved, original), gradient)| {
                    step(moved, original, gradient, stride, radius);
                });
        }
        Ok(moved)
    }
}

fn norm(values: impl Iterator<Item = f32>) -> f64 {
    values
        .map(|v| f64::from(v) * f64::from(v))
        .sum::<f64>()
        .sqrt()
}

/// One step of one image, back into the ball and into the range of pixels.
fn step(moved: &mut [f32], original: &[f32], gradient: &[f32], stride: f64, radius: f64) {
    let length = norm(gradient.iter().copied()).max(1e-12);
    let factor = (stride / length) as f32;
    for (m, g) in moved.iter_mut().zip(gradient) {
        *m += factor * g;
    }
    let away = norm(moved.iter().zip(original).map(|(m, o)| m - o));
    let shrink = (radius / away.max(1e-12)).min(1.0) as f32;
    for (m, o) in moved.iter_mut().zip(original) {
        *m = (o + shrink * (*m - o)).clamp(-1.0, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_stays_in_the_ball_and_in_the_range() {
        let original = [0.9f32, -0.2, 0.0, 0.5];
        let mut moved = original;
        for _ in 0..5 {
            step(&mut moved, &original, &[1.0, -2.0, 0.0, 1.0], 0.4, 0.5);
            let away = norm(moved.iter().zip(&original).map(|(m, o)| m - o));
            assert!(away <= 0.5 + 1e-6 && moved.iter().all(|v| v.abs() <= 1.0));
        }
        assert!(moved[0] > 0.95 && moved[1] < -0.5 && moved[2] == 0.0);
    }
}
