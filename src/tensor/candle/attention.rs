//! Attention, forth and back. With `P = softmax(q·kᵀ/√d + bias)` and `o = P·v`:
//! `dv = Pᵀ·do`, `dP = do·vᵀ`, `dS = P ∘ (dP − rowsum(dP ∘ P))`, `dq = dS·k/√d`, `dk = dSᵀ·q/√d`, `dbias = dS`.
//!
//! The scores are computed again on the way back, a block of queries at a time; the blocks of a head are dealt to a few
//! shares, each with its own sums, so that memory grows with the number of tokens only. Blocks and shares do not depend
//! on the number of threads, and are summed in order.

use rayon::prelude::*;

use super::matmul::{Matrix, product};
use super::operation::{Gradient, Operation, Output};
use super::tensor::View;
use crate::cpu::functions::{Single, exp};
use crate::cpu::simd::{FlushDenormals, for_each_isa};
use crate::{self as tensor, Backend, QkvLayout, TensorError, cpu::Cpu};

/// Queries whose scores are held at once.
const BLOCK: usize = 128;
/// Most pieces of parallel work that a head is cut into.
const SHARES: usize = 8;

pub struct Attention(pub tensor::Attention);

/// The gradients that some neighbouring blocks of queries give.
#[derive(Default)]
struct Share {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    /// Empty unless wanted.
    scores: Vec<f32>,
}

impl Attention {
    fn forward(&self, qkv: View<'_>, bias: Option<View<'_>>) -> Output {
        let bias = bias.map(|b| b.for_engine());
        let y = Cpu.attention(&qkv.for_engine(), self.0, bias.as_ref())?;
        Ok((y.shape(), y.into_data()))
    }

    /// The gradients of `qkv` and, if wanted, of the bias.
    fn backward(
        &self,
        qkv: View<'_>,
        bias: Option<View<'_>>,
        g: View<'_>,
        bias_wanted: bool,
    ) -> [Vec<f32>; 2] {
        let shape = qkv.shape;
        let (heads, tokens) = (self.0.heads, shape.h * shape.w);
        let c = shape.c / 3;
        let d = c / heads;
        // Queries of a share: whole blocks.
        let queries = tokens.div_ceil(BLOCK).div_ceil(SHARES) * BLOCK;
        let blocks = tokens.div_ceil(queries.max(1));
        let place = |head: usize, part: usize| match self.0.layout {
            QkvLayout::Stacked => part * c + head * d,
            QkvLayout::PerHead => (head * 3 + part) * d,
        };
        let shares: Vec<Share> = (0..shape.n * heads * blocks)
            .into_par_iter()
            .map(|task| {
                let (n, head, share) = (
                    task / (heads * blocks),
                    task / blocks % heads,
                    task % blocks,
                );
                let _flush = FlushDenormals::on();
                let image = qkv.image(n);
                let part = |part: usize, first: usize, count: usize| {
                    let at = first * shape.c + place(head, part);
                    Matrix::strided(&image[at..], count, d, shape.c)
                };
                let mut sums = Share::default();
                let end = tokens.min((share + 1) * queries);
                for first in (share * queries..end).step_by(BLOCK) {
                    let count = BLOCK.min(end - first);
                    let job = Job {
                        q: part(0, first, count),
                        k: part(1, 0, tokens),
                        v: part(2, 0, tokens),
                        gradient: Matrix::strided(&g.image(n)[first * c + head * d..], count, d, c),
                        bias: bias.map(|b| {
                            let window = b.image(n % b.shape.n);
                            &window[(head * tokens + first) * tokens..][..count * tokens]
                        }),
                    };
                    job.run(&mut sums, bias_wanted);
                }
                sums
            })
            .collect();
        let mut dqkv = vec![0.0; qkv.data.len()];
        dqkv.par_chunks_mut(shape.image().max(1))
            .enumerate()
            .for_each(|(n, image)| {
                let _flush = FlushDenormals::on();
                for (i, share) in shares[n * heads * blocks..][..heads * blocks]
                    .iter()
                    .enumerate()
                {
                    let (head, first) = (i / blocks, i % blocks * queries);
                    let mut add = |part: usize, first: usize, values: &[f32]| {
                        let rows = image[first * shape.c..].chunks_exact_mut(shape.c);
                        for (row, values) in rows.zip(values.chunks_exact(d)) {
                            let to = &mut row[place(head, part)..][..d];
                            to.iter_mut().zip(values).for_each(|(t, v)| *t += v);
                        }
                    };
                    add(0, first, &share.q);
                    add(1, 0, &share.k);
                    add(2, 0, &share.v);
                }
            });
        let mut dbias = Vec::new();
        if let (Some(bias), true) = (bias, bias_wanted) {
            dbias = vec![0.0; bias.data.len()];
            let window = bias.shape.image();
            for (task, share) in shares.iter().enumerate() {
                let (n, head, block) = (
                    task / (heads * blocks),
                    task / blocks % heads,
                    task % blocks,
                );
                let at = n % bias.shape.n * window + (head * tokens + block * queries) * tokens;
                let to = &mut dbias[at..at + share.scores.len()];
                to.iter_mut().zip(&share.scores).for_each(|(t, v)| *t += v);
            }
        }
        [dqkv, dbias]
    }
}

/// One block of queries of one head of one image.
struct Job<'a> {
    q: Matrix<'a>,
    k: Matrix<'a>,
    v: Matrix<'a>,
    gradient: Matrix<'a>,
    bias: Option<&'a [f32]>,
}

impl Job<'_> {
    fn run(&self, share: &mut Share, keep_scores: bool) {
        let (count, tokens, d) = (self.q.rows, self.k.rows, self.q.columns);
        let scale = 1.0 / (d as f32).sqrt();
        let mut weights = vec![0.0; count * tokens];
        product(
            &mut weights,
            tokens,
            false,
            self.q,
            self.k.transposed(),
            scale,
        );
        if let Some(bias) = self.bias {
            weights.iter_mut().zip(bias).for_each(|(w, b)| *w += b);
        }
        weights.chunks_exact_mut(tokens).for_each(softmax);
        let mut scores = vec![0.0; count * tokens];
        product(
            &mut scores,
            tokens,
            false,
            self.gradient,
            self.v.transposed(),
            1.0,
        );
        share.v.resize(tokens * d, 0.0);
        share.k.resize(tokens * d, 0.0);
        let dense = Matrix::dense(&weights, count, tokens);
        product(
            &mut share.v,
            d,
            true,
            dense.transposed(),
            self.gradient,
            1.0,
        );
        scores
            .chunks_exact_mut(tokens)
            .zip(weights.chunks_exact(tokens))
            .for_each(|(scores, weights)| through_softmax(scores, weights));
        let dense = Matrix::dense(&scores, count, tokens);
        let before = share.q.len();
        share.q.resize(before + count * d, 0.0);
        product(&mut share.q[before..], d, false, dense, self.k, scale);
        product(&mut share.k, d, true, dense.transposed(), self.q, scale);
        if keep_scores {
            share.scores.extend_from_slice(&scores);
        }
    }
}

for_each_isa! {
    fn softmax(row: &mut [f32]) {
        // Sixteen strands, which a compiler can keep in registers.
        let mut largest = [f32::NEG_INFINITY; 16];
        for chunk in row.chunks(16) {
            for (m, v) in largest.iter_mut().zip(chunk) {
                *m = if *v > *m { *v } else { *m };
            }
        }
        let max = largest.into_iter().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|s| *s = exp(Single(*s - max)).0);
        let mut sums = [0.0f32; 16];
        let chunks = row.chunks_exact(16);
        let rest: f32 = chunks.remainder().iter().sum();
        for chunk in chunks {
            sums.iter_mut().zip(chunk).for_each(|(s, v)| *s += v);
        }
        let inverse = 1.0 / (sums.iter().sum::<f32>() + rest);
        row.iter_mut().for_each(|s| *s *= inverse);
    }
}

for_each_isa! {
    /// `P ∘ (dP − Σ dP ∘ P)` for one query.
    fn through_softmax(gradient: &mut [f32], weights: &[f32]) {
        let mut sums = [0.0f32; 16];
        let (g, w) = (gradient.chunks_exact(16), weights.chunks_exact(16));
        let rest: f32 = g.remainder().iter().zip(w.remainder()).map(|(g, w)| g * w).sum();
        for (g, w) in g.zip(w) {
            for l in 0..16 {
                sums[l] += g[l] * w[l];
            }
        }
        let sum = sums.iter().sum::<f32>() + rest;
        gradient.iter_mut().zip(weights).for_each(|(g, w)| *g = w * (*g - sum));
    }
}

impl Operation<1> for Attention {
    const NAME: &'static str = "attention";

    fn forward(&self, [qkv]: [View<'_>; 1]) -> Output {
        self.forward(qkv, None)
    }

    fn backward(
        &self,
        [qkv]: [View<'_>; 1],
        _: View<'_>,
        g: View<'_>,
        _: [bool; 1],
    ) -> Result<[Gradient; 1], TensorError> {
        let [dqkv, _] = self.backward(qkv, None, g, false);
        Ok([Gradient::Values(dqkv)])
    }
}

impl Operation<2> for Attention {
    const NAME: &'static str = "attention with a bias";

    fn forward(&self, [qkv, bias]: [View<'_>; 2]) -> Output {
        self.forward(qkv, Some(bias))
    }

    fn backward(
        &self,
        [qkv, bias]: [View<'_>; 2],
        _: View<'_>,
        g: View<'_>,
        [_, wanted]: [bool; 2],
    ) -> Result<[Gradient; 2], TensorError> {
        let [dqkv, dbias] = self.backward(qkv, Some(bias), g, wanted);
        Ok([Gradient::Values(dqkv), Gradient::when(wanted, || dbias)])
    }
}
