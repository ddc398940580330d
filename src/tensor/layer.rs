//! The parameters of a layer under the names of its state dict.

use super::Array;

/// A convolution or linear layer as a state dict has it, with what follows it and can be folded into it.
pub struct Layer<'a> {
    /// What the names of its parameters begin with: `layer1.0.conv1.` for `layer1.0.conv1.weight`.
    pub name: String,
    /// OIHW.
    pub weight: Array,
    /// Empty if it has none.
    pub bias: &'a [f32],
    pub then: Then<'a>,
}

/// What follows a convolution.
pub enum Then<'a> {
    Nothing,
    /// Each output times its own number (ConvNeXt's layer scale), of this name.
    Scale(String, &'a [f32]),
    BatchNorm(BatchNorm<'a>),
}

/// A batch norm with the statistics of its training.
pub struct BatchNorm<'a> {
    /// What the names of its parameters begin with.
    pub name: String,
    pub weight: &'a [f32],
    pub bias: &'a [f32],
    pub mean: &'a [f32],
    pub variance: &'a [f32],
    pub epsilon: f64,
}

impl Layer<'_> {
    /// Weight and bias of one convolution that does it all, computed in f64.
    pub fn folded(&self) -> (Array, Vec<f32>) {
        let outputs = self.weight.shape.first().copied().unwrap_or(0);
        let (scale, shift): (Vec<f64>, Vec<f64>) = match &self.then {
            Then::Nothing => return (self.weight.clone(), self.bias.to_vec()),
            Then::Scale(_, scale) => (
                scale.iter().map(|&s| f64::from(s)).collect(),
                vec![0.0; outputs],
            ),
            Then::BatchNorm(norm) => {
                let scale = norm.weight.iter().zip(norm.variance);
                let scale: Vec<f64> = scale
                    .map(|(&g, &v)| f64::from(g) / (f64::from(v) + norm.epsilon).sqrt())
                    .collect();
                let shift = norm.bias.iter().zip(norm.mean).zip(&scale);
                let shift = shift.map(|((&b, &m), s)| f64::from(b) - f64::from(m) * s);
                let shift = shift.collect();
                (scale, shift)
            }
        };
        let per_output = self.weight.len() / scale.len().max(1);
        let mut folded = self.weight.clone();
        for (chunk, s) in folded.data.chunks_exact_mut(per_output.max(1)).zip(&scale) {
            for w in chunk {
                *w = (f64::from(*w) * s) as f32;
            }
        }
        let bias = (0..scale.len())
            .map(|i| {
                let b = self.bias.get(i).map_or(0.0, |&b| f64::from(b));
                (b * scale[i] + shift[i]) as f32
            })
            .collect();
        (folded, bias)
    }
}
