//! Adam (Kingma & Ba 2015) with PyTorch's defaults, one state for each number.

/// Moments of a set of numbers.
#[derive(Clone, Debug)]
pub struct Adam {
    rate: f64,
    first: Vec<f64>,
    second: Vec<f64>,
    steps: i32,
}

const BETAS: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

impl Adam {
    pub fn new(rate: f64, numbers: usize) -> Self {
        Self {
            rate,
            first: vec![0.0; numbers],
            second: vec![0.0; numbers],
            steps: 0,
        }
    }

    /// Moves numbers against their gradient.
    pub fn step(&mut self, numbers: &mut [f64], gradient: &[f64]) {
        self.steps += 1;
        let [unbiased, unbiased_square] = BETAS.map(|b| 1.0 / (1.0 - b.powi(self.steps)));
        let step = self.rate * unbiased;
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((value, &g), (m, v)) in numbers.iter_mut().zip(gradient).zip(moments) {
            *m = BETAS[0] * *m + (1.0 - BETAS[0]) * g;
            *v = BETAS[1] * *v + (1.0 - BETAS[1]) * g * g;
            let scale = (*v * unbiased_square).sqrt() + EPSILON;
            *value -= step * *m / scale;
        }
    }
}
