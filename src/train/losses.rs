//! Losses over candle tensors.

use candle_core::{D, Device, Tensor};

use super::error::{Result, TrainError};
use crate::tensor::candle;

/// Mean cross-entropy of logits `[n, classes]` (or `[n, 1, 1, classes]`) with one class per row.
pub fn cross_entropy(logits: &Tensor, labels: &[usize]) -> Result<Tensor> {
    let classes = logits.dim(D::Minus1)?;
    let logits = logits.reshape(((), classes))?;
    let shifted = logits.broadcast_sub(&logits.max_keepdim(1)?.detach())?;
    let log = shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(1)?.log()?)?;
    let mut chosen = vec![0.0f32; labels.len() * classes];
    for (row, &label) in chosen.chunks_exact_mut(classes).zip(labels) {
        let Some(chosen) = row.get_mut(label) else {
            return Err(TrainError::Data(format!("class {label} of {classes}")));
        };
        *chosen = -1.0 / labels.len() as f32;
    }
    let chosen = Tensor::from_vec(chosen, (labels.len(), classes), &Device::Cpu)?;
    Ok((log * chosen)?.sum_all()?)
}

/// Mean squared difference.
pub fn mean_square(a: &candle::Tensor, b: &candle::Tensor) -> Result<Tensor> {
    Ok((a.candle() - b.candle())?.sqr()?.mean_all()?)
}
