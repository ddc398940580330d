//! Many rows through a network on any device.

use super::{Network, Result};
use crate::tensor::{Activation, Array, Backend, Conv};

/// Rows that go through a device at a time.
const ROWS: usize = 4096;

/// Class probabilities of rows, computed by `backend` in its own arithmetic; the softmax is f32.
pub fn probabilities_on<B: Backend>(
    backend: &B,
    network: &Network,
    rows: &[Vec<f64>],
) -> Result<Vec<[f32; 2]>> {
    let (inputs, hidden) = (network.inputs(), network.hidden());
    let first = Array {
        shape: vec![hidden, inputs],
        data: transposed(&network.w1, inputs, hidden),
    };
    let last = Array {
        shape: vec![2, hidden],
        data: transposed(&network.w2, hidden, 2),
    };
    let spec = Conv::linear(inputs, hidden).activation(Activation::Relu);
    let first = backend.prepare(spec, &first, &network.b1)?;
    let last = backend.prepare(Conv::linear(hidden, 2), &last, &network.b2)?;
    let mut out = Vec::with_capacity(rows.len());
    for chunk in rows.chunks(ROWS) {
        let batch = Array {
            shape: vec![chunk.len(), inputs],
            data: chunk.iter().flatten().map(|&v| v as f32).collect(),
        };
        let x = backend.upload(&batch)?;
        let logits = backend.conv(&backend.conv(&x, &first, None)?, &last, None)?;
        let logits = backend.download(&logits)?;
        out.extend(logits.data.as_chunks::<2>().0.iter().map(|&[a, b]| {
            let most = a.max(b);
            let (a, b) = ((a - most).exp(), (b - most).exp());
            [a / (a + b), b / (a + b)]
        }));
    }
    Ok(out)
}

fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let each = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
    each.map(|at| values[at]).collect()
}
