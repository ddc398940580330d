//! Training of the networks of [`super::dense`]: cross-entropy, RMSprop as in Keras, one batch at a time.
//!
//! v ← 0.9 v + 0.1 g²; w ← w − rate · g / √(v + 1e-7). It lies beside the networks so that dev builds optimise it.

const RHO: f32 = 0.9;
const EPSILON: f32 = 1e-7;

/// A row without its zeros (most of a one-hot vector), and its class.
pub struct SparseRow {
    pub entries: Vec<(usize, f32)>,
    pub label: usize,
}

/// Weights with their gradients and running squares.
struct Rms {
    values: Vec<f32>,
    gradient: Vec<f32>,
    squares: Vec<f32>,
}

impl Rms {
    fn new(values: Vec<f32>) -> Self {
        let n = values.len();
        Self {
            values,
            gradient: vec![0.0; n],
            squares: vec![0.0; n],
        }
    }

    fn step(&mut self, rate: f32) {
        let each = self
            .values
            .iter_mut()
            .zip(&mut self.gradient)
            .zip(&mut self.squares);
        for ((value, gradient), square) in each {
            *square = RHO * *square + (1.0 - RHO) * *gradient * *gradient;
            *value -= rate * *gradient / (*square + EPSILON).sqrt();
            *gradient = 0.0;
        }
    }
}

/// A network in training.
pub struct Fitting {
    w1: Rms,
    b1: Rms,
    w2: Rms,
    b2: Rms,
    hidden: Vec<f32>,
    back: Vec<f32>,
}

impl Fitting {
    /// From first weights `[inputs, hidden]`, `[hidden]`, `[hidden, 2]`, `[2]`.
    pub fn new(w1: Vec<f32>, b1: Vec<f32>, w2: Vec<f32>, b2: [f32; 2]) -> Self {
        let hidden = b1.len();
        Self {
            w1: Rms::new(w1),
            b1: Rms::new(b1),
            w2: Rms::new(w2),
            b2: Rms::new(b2.to_vec()),
            hidden: vec![0.0; hidden],
            back: vec![0.0; hidden],
        }
    }

    /// One step on the mean cross-entropy of a batch.
    pub fn step<'a>(&mut self, batch: impl ExactSizeIterator<Item = &'a SparseRow>, rate: f32) {
        let share = 1.0 / batch.len() as f32;
        for row in batch {
            self.add(row, share);
        }
        for parameters in [&mut self.w1, &mut self.b1, &mut self.w2, &mut self.b2] {
            parameters.step(rate);
        }
    }

    /// Adds one row's gradient.
    fn add(&mut self, row: &SparseRow, share: f32) {
        let Self {
            w1,
            b1,
            w2,
            b2,
            hidden: h,
            back,
        } = self;
        let hidden = h.len();
        h.copy_from_slice(&b1.values);
        for &(i, value) in &row.entries {
            let weights = &w1.values[i * hidden..(i + 1) * hidden];
            h.iter_mut().zip(weights).for_each(|(h, w)| *h += value * w);
        }
        let mut z = [b2.values[0], b2.values[1]];
        for (&h, w) in h.iter().zip(w2.values.chunks_exact(2)) {
            if h > 0.0 {
                z[0] += h * w[0];
                z[1] += h * w[1];
            }
        }
        let most = z[0].max(z[1]);
        let e = z.map(|v| (v - most).exp());
        let mut d = e.map(|v| share * v / (e[0] + e[1]));
        d[row.label] -= share;
        let each = h
            .iter()
            .zip(back.iter_mut())
            .zip(w2.values.chunks_exact(2))
            .zip(w2.gradient.chunks_exact_mut(2));
        for (((&h, back), w), gradient) in each {
            let active = f32::from(u8::from(h > 0.0));
            *back = active * (d[0] * w[0] + d[1] * w[1]);
            gradient[0] += active * h * d[0];
            gradient[1] += active * h * d[1];
        }
        b2.gradient[0] += d[0];
        b2.gradient[1] += d[1];
        b1.gradient
            .iter_mut()
            .zip(&*back)
            .for_each(|(g, b)| *g += b);
        for &(i, value) in &row.entries {
            let gradient = &mut w1.gradient[i * hidden..(i + 1) * hidden];
            gradient
                .iter_mut()
                .zip(&*back)
                .for_each(|(g, b)| *g += value * b);
        }
    }

    /// The weights as they are.
    pub fn weights(self) -> (Vec<f32>, Vec<f32>, Vec<f32>, [f32; 2]) {
        let last = [self.b2.values[0], self.b2.values[1]];
        (self.w1.values, self.b1.values, self.w2.values, last)
    }
}
