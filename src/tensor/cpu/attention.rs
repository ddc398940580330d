//! Multi-head scaled dot-product attention over token sequences.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::simd::for_each_isa;
use super::tensor::Tensor;
use crate::tensor::{Attention, QkvLayout, Shape, TensorError};

/// `softmax(q·kᵀ/√d + bias)·v` for every head; see [`crate::tensor::Backend::attention`].
pub fn run(
    qkv: &Tensor,
    attention: Attention,
    bias: Option<&Tensor>,
) -> Result<Tensor, TensorError> {
    let shape = qkv.shape();
    let heads = attention.heads;
    let tokens = shape.h * shape.w;
    if heads == 0 || !shape.c.is_multiple_of(3 * heads) {
        return Err(TensorError::Shape {
            operation: "attention",
            expected: format!("3 · {heads} heads · d channels"),
            found: format!("{}", shape.c),
        });
    }
    if let Some(bias) = bias {
        let b = bias.shape();
        let expected = Shape::new(b.n.max(1), heads, tokens, tokens);
        super::tensor::expect_shape("attention bias", expected, b)?;
    }
    let c = shape.c / 3;
    let d = c / heads;
    let out = Shape { c, ..shape };
    let mut data = Buffer::zeroed(out.len());
    data.par_chunks_mut(out.image().max(1))
        .enumerate()
        .for_each(|(n, image)| {
            let from = qkv.image(n);
            for head in 0..heads {
                let place = |part: usize| match attention.layout {
                    QkvLayout::Stacked => part * c + head * d,
                    QkvLayout::PerHead => (head * 3 + part) * d,
                };
                let [q, k, v] = [0, 1, 2].map(|part| gather(from, shape.c, place(part), d));
                let bias = bias.map(|b| {
                    let window = b.image(n % b.shape().n);
                    &window[head * tokens * tokens..(head + 1) * tokens * tokens]
                });
                head_attention(&q, &k, &v, bias, tokens, d, image, c, head * d);
            }
        });
    Ok(Tensor::new(out, data))
}

fn gather(from: &[f32], stride: usize, offset: usize, d: usize) -> Vec<f32> {
    from.chunks_exact(stride)
        .flat_map(|token| &token[offset..offset + d])
        .copied()
        .collect()
}

for_each_isa! {
    fn head_attention(
        q: &[f32],
        k: &[f32],
        v: &[f32],
        bias: Option<&[f32]>,
        tokens: usize,
        d: usize,
        out: &mut [f32],
        stride: usize,
        offset: usize,
    ) {
        let scale = 1.0 / (d as f32).sqrt();
        let mut transposed = vec![0.0f32; d * tokens];
        for t in 0..tokens {
            for i in 0..d {
                transposed[i * tokens + t] = k[t * d + i];
            }
        }
        let mut scores = vec![0.0f32; tokens];
        for t in 0..tokens {
            scores.fill(0.0);
            for i in 0..d {
                let x = q[t * d + i] * scale;
                for (s, k) in scores.iter_mut().zip(&transposed[i * tokens..][..tokens]) {
                    *s += x * k;
                }
            }
            if let Some(bias) = bias {
                for (s, b) in scores.iter_mut().zip(&bias[t * tokens..][..tokens]) {
                    *s += b;
                }
            }
            let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0f32;
            for s in scores.iter_mut() {
                *s = (*s - max).exp();
                sum += *s;
            }
            let row = &mut out[t * stride + offset..][..d];
            row.fill(0.0);
            for (s, v) in scores.iter().zip(v.chunks_exact(d)) {
                let weight = s / sum;
                for (o, v) in row.iter_mut().zip(v) {
                    *o += weight * v;
                }
            }
        }
    }
}
