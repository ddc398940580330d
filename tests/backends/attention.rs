//! Attention.
//!
//! Tolerance: outputs are means of values of size 1; scores of size `√d` carry a relative error of about `d · 6e-8`,
//! which the softmax hands on. 2e-6 covers d ≤ 32.

use foil::tensor::{Array, Attention, Backend, QkvLayout, Shape};

use crate::host::{Host, assert_close, down, random, up, up_tokens};

/// `softmax(q·kᵀ/√d + bias)·v` for `[n, tokens, 3c]` as `[n, c, 1, tokens]`; `bias` is `[windows, heads, t, t]`.
pub fn attention_f64(qkv: &Array, attention: Attention, bias: Option<&Array>) -> Host {
    let [n, tokens, channels] = qkv.shape[..] else {
        panic!("no tokens");
    };
    let (heads, c) = (attention.heads, channels / 3);
    let d = c / heads;
    let value = |i: usize, token: usize, part: usize, head: usize, k: usize| {
        let channel = match attention.layout {
            QkvLayout::Stacked => (part * heads + head) * d + k,
            QkvLayout::PerHead => (head * 3 + part) * d + k,
        };
        f64::from(qkv.data[(i * tokens + token) * channels + channel])
    };
    let mut out = Host::zeros(n, c, 1, tokens);
    for i in 0..n {
        for head in 0..heads {
            for query in 0..tokens {
                let scores: Vec<f64> = (0..tokens)
                    .map(|key| {
                        let dot: f64 = (0..d)
                            .map(|k| value(i, query, 0, head, k) * value(i, key, 1, head, k))
                            .sum();
                        let bias = bias.map_or(0.0, |b| {
                            let window = i % b.shape[0];
                            let row = (window * heads + head) * tokens + query;
                            f64::from(b.data[row * tokens + key])
                        });
                        dot / (d as f64).sqrt() + bias
                    })
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
                let total: f64 = weights.iter().sum();
                for k in 0..d {
                    let mean: f64 = (0..tokens)
                        .map(|key| weights[key] / total * value(i, key, 2, head, k))
                        .sum();
                    *out.at_mut(i, head * d + k, 0, query) = mean;
                }
            }
        }
    }
    out
}

/// The device's bias: rows are heads, columns queries, channels keys.
fn up_bias<B: Backend>(b: &B, bias: &Array) -> B::Tensor {
    let tensor = up(b, &bias.permuted(&[0, 3, 1, 2]).expect("four axes"));
    let [windows, heads, tokens, _] = bias.shape[..] else {
        panic!("no bias");
    };
    assert_eq!(b.shape(&tensor), Shape::new(windows, heads, tokens, tokens));
    tensor
}

pub fn both_layouts_with_and_without_bias<B: Backend>(b: &B) {
    for (n, tokens, heads, d) in [
        (1, 1, 1, 4),
        (2, 49, 3, 32),
        (6, 9, 4, 8),
        (4, 5, 1, 1),
        (3, 64, 2, 5),
    ] {
        let qkv = random("qkv", [n, tokens, 3 * heads * d]);
        for layout in [QkvLayout::Stacked, QkvLayout::PerHead] {
            let attention = Attention { heads, layout };
            for windows in [0, 1, 2, 3] {
                let bias = (windows > 0).then(|| random("bias", [windows, heads, tokens, tokens]));
                let given = bias.as_ref().map(|bias| up_bias(b, bias));
                let got = b
                    .attention(&up_tokens(b, &qkv), attention, given.as_ref())
                    .unwrap();
                let expected = attention_f64(&qkv, attention, bias.as_ref());
                let what = format!("{n}x{tokens} tokens, {attention:?} of {d}, {windows} windows");
                assert_close(&what, &down(b, &got), &expected, |_| 2e-6);
            }
        }
    }
}

pub fn large_scores_do_not_overflow<B: Backend>(b: &B) {
    // Scores up to 4e4/√d: the softmax is all but one-hot. They carry an error of about 4e4 · 6e-8 = 2e-3, and so
    // do the weights of keys that tie almost; masks of -100 (Swin) ride on top.
    let attention = Attention {
        heads: 1,
        layout: QkvLayout::Stacked,
    };
    // More keys than the threads that share a row, too: the largest score is found by any of them.
    for tokens in [6, 40] {
        let mut qkv = random("large", [2, tokens, 3 * 4]);
        qkv.data.iter_mut().for_each(|v| *v *= 200.0);
        let mut bias = random("mask", [1, 1, tokens, tokens]);
        bias.data
            .iter_mut()
            .for_each(|v| *v = if *v > 0.0 { 0.0 } else { -100.0 });
        let got = b
            .attention(&up_tokens(b, &qkv), attention, Some(&up_bias(b, &bias)))
            .unwrap();
        let expected = attention_f64(&qkv, attention, Some(&bias));
        assert_close("large scores", &down(b, &got), &expected, |_| 200.0 * 1e-2);
        assert!(down(b, &got).data.iter().all(|v| v.is_finite()));
    }
}
