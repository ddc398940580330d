//! Attention: `softmax(q·kᵀ/√d + bias) · v` for each head of each image.

use candle_core::{Result, Tensor};

use crate::{Attention, QkvLayout};

/// `bias` is `[n, heads, query, key]`, a window for each image.
pub fn attention(qkv: &Tensor, attention: Attention, bias: Option<&Tensor>) -> Result<Tensor> {
    let (n, h, w, channels) = qkv.dims4()?;
    let (tokens, heads) = (h * w, attention.heads);
    let d = channels / (3 * heads);
    // [n · heads, tokens, d] of queries, keys and values.
    let part = |i: usize| -> Result<Tensor> {
        let part = match attention.layout {
            QkvLayout::Stacked => qkv.reshape((n, tokens, 3, heads, d))?.narrow(2, i, 1)?,
            QkvLayout::PerHead => qkv.reshape((n, tokens, heads, 3, d))?.narrow(3, i, 1)?,
        };
        part.contiguous()?
            .reshape((n, tokens, heads, d))?
            .transpose(1, 2)?
            .contiguous()?
            .reshape((n * heads, tokens, d))
    };
    let [q, k, v] = [part(0)?, part(1)?, part(2)?];
    let mut scores = (q.matmul(&k.t()?)? / (d as f64).sqrt())?;
    if let Some(bias) = bias {
        scores = (scores + bias.reshape((n * heads, tokens, tokens))?)?;
    }
    // A shift of all scores of a row changes nothing, so the largest counts as a constant.
    let largest = scores.max_keepdim(2)?.detach();
    let shares = scores.broadcast_sub(&largest)?.exp()?;
    let shares = shares.broadcast_div(&shares.sum_keepdim(2)?)?;
    shares
        .matmul(&v)?
        .reshape((n, heads, tokens, d))?
        .transpose(1, 2)?
        .contiguous()?
        .reshape((n, h, w, heads * d))
}
