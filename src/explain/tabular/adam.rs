//! Adam (Kingma & Ba 2015) on a plain vector.

/// Moments and settings of one run.
pub struct Adam {
    rate: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    first: Vec<f64>,
    second: Vec<f64>,
    step: i32,
}

impl Adam {
    /// For `width` values.
    pub fn new(width: usize, rate: f64, betas: [f64; 2], epsilon: f64) -> Self {
        Self {
            rate,
            beta1: betas[0],
            beta2: betas[1],
            epsilon,
            first: vec![0.0; width],
            second: vec![0.0; width],
            step: 0,
        }
    }

    /// Moves `x` against the gradient; the bias correction is in the rate and epsilon stands outside of the root, as in TensorFlow.
    pub fn step(&mut self, x: &mut [f64], gradient: &[f64]) {
        self.step += 1;
        let correction =
            (1.0 - self.beta2.powi(self.step)).sqrt() / (1.0 - self.beta1.powi(self.step));
        let rate = self.rate * correction;
        for (i, g) in gradient.iter().enumerate() {
            self.first[i] += (g - self.first[i]) * (1.0 - self.beta1);
            self.second[i] += (g * g - self.second[i]) * (1.0 - self.beta2);
            x[i] -= rate * self.first[i] / (self.second[i].sqrt() + self.epsilon);
        }
    }
}
