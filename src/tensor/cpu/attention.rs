//! Multi-head scaled dot-product attention over token sequences: both products on the micro-kernel of the dense
//! convolutions, with keys and values packed like weights.

use std::ops::Range;

use rayon::prelude::*;

use super::buffer::Buffer;
use super::simd::{FlushDenormals, for_each_lanes};
use super::softmax::softmax;
use super::tensor::Tensor;
use super::tile::{self, Ahead, End, Kernels, Place, Run, Start, Tile};
use crate::{Activation, Attention, QkvLayout, TensorError, rules};

/// Queries whose scores are kept at once.
const BAND: usize = 48;
/// Keys whose values are weighed in one go: their part of a block stays in the first cache.
const CHUNK: usize = 256;
/// Fewest queries that are worth packing keys and values for.
const FEWEST: usize = 64;

/// `softmax(q·kᵀ/√d + bias)·v` for every head; see [`crate::Backend::attention`].
pub fn run(
    qkv: &Tensor,
    attention: Attention,
    bias: Option<&Tensor>,
) -> Result<Tensor, TensorError> {
    let shape = qkv.shape();
    let heads = attention.heads;
    let tokens = shape.h * shape.w;
    let out = rules::attention(shape, attention, bias.map(Tensor::shape))?;
    let c = out.c;
    let mut data = Buffer::take(out.len());
    if out.is_empty() {
        return Ok(Tensor::new(out, data));
    }
    let output = Output(data.as_mut_ptr());
    let geometry = Geometry {
        tokens,
        channels: c,
        d: c / heads,
        block: super::conv::block(),
    };
    // Where there are few heads, their queries are cut too.
    let threads = rayon::current_num_threads();
    let cuts = (4 * threads)
        .div_ceil(shape.n * heads)
        .clamp(1, tokens.div_ceil(FEWEST));
    (0..shape.n * heads * cuts)
        .into_par_iter()
        .with_min_len((FEWEST / tokens).max(1))
        .for_each_init(
            || (FlushDenormals::on(), Buffer::take(geometry.scratch())),
            |(_flush, scratch), i| {
                let (n, head) = (i / cuts / heads, i / cuts % heads);
                let (first, count) = tile::cut(tokens, cuts, i % cuts);
                let place = |part: usize| match attention.layout {
                    QkvLayout::Stacked => part * c + head * geometry.d,
                    QkvLayout::PerHead => (head * 3 + part) * geometry.d,
                };
                let head = Head {
                    qkv: qkv.image(n),
                    at: [0, 1, 2].map(place),
                    bias: bias.map(|b| {
                        let window = b.image(n % b.shape().n);
                        &window[head * tokens * tokens..(head + 1) * tokens * tokens]
                    }),
                    out: n * out.image() + head * geometry.d,
                    queries: first..first + count,
                };
                attend(&geometry, &head, scratch, &output);
            },
        );
    Ok(Tensor::new(out, data))
}

/// The output, to whose tokens and channels every unit of work writes its own part.
struct Output(*mut f32);

// SAFETY: units of work write to disjoint tokens and channels.
unsafe impl Sync for Output {}

/// Sizes that all heads share.
struct Geometry {
    tokens: usize,
    /// Channels of a query, over all heads.
    channels: usize,
    /// Channels of a head.
    d: usize,
    /// Channels or keys computed together.
    block: usize,
}

impl Geometry {
    fn padded_tokens(&self) -> usize {
        self.tokens.next_multiple_of(self.block)
    }

    fn padded_d(&self) -> usize {
        self.d.next_multiple_of(self.block)
    }

    /// Lengths of the packed keys, the packed values, the scores and the sums of a band.
    fn lengths(&self) -> [usize; 4] {
        let queries = BAND.min(self.tokens);
        [
            self.padded_tokens() * self.d,
            self.tokens * self.padded_d(),
            queries * self.padded_tokens(),
            queries * self.block,
        ]
    }

    fn scratch(&self) -> usize {
        self.lengths().iter().sum()
    }
}

/// One head of one image, or some of its queries.
struct Head<'a> {
    qkv: &'a [f32],
    /// Where query, key and value lie among the channels of a token.
    at: [usize; 3],
    bias: Option<&'a [f32]>,
    /// First value in the output.
    out: usize,
    queries: Range<usize>,
}

for_each_lanes! {
    fn attend(geometry: &Geometry, head: &Head<'_>, scratch: &mut [f32], output: &Output) => attend_kernel
}

#[inline(always)]
fn attend_kernel<V: Kernels>(
    geometry: &Geometry,
    head: &Head<'_>,
    scratch: &mut [f32],
    output: &Output,
) {
    let &Geometry {
        tokens,
        channels,
        d,
        block,
    } = geometry;
    assert_eq!(block, 2 * V::COUNT, "another instruction set");
    let token = 3 * channels;
    assert!(
        head.qkv.len() == tokens * token && head.at.iter().all(|at| at + d <= token),
        "channels of a head"
    );
    let [keys, values, scores, _] = geometry.lengths();
    let (keys, rest) = scratch.split_at_mut(keys);
    let (values, rest) = rest.split_at_mut(values);
    let (scores, sums) = rest.split_at_mut(scores);
    let padded = geometry.padded_tokens();
    pack_keys(geometry, &head.qkv[head.at[1]..], keys);
    pack_values(geometry, &head.qkv[head.at[2]..], values);

    for first in head.queries.clone().step_by(BAND) {
        let count = BAND.min(head.queries.end - first);
        let tiles = count.div_ceil(V::PIXELS);
        let queries = &head.qkv[first * token + head.at[0]..];
        for (key, packed) in keys.chunks_exact(block * d).enumerate() {
            for t in 0..tiles {
                let (q, pixels) = tile::cut(count, tiles, t);
                // SAFETY: `d` channels of queries that exist, `d` blocks of packed keys, and scores of `padded`
                // keys for each query of a band.
                unsafe {
                    let tile = Tile {
                        x: queries.as_ptr().add(q * token),
                        pixel: token,
                        runs: &[Run { at: 0, len: d }],
                        weights: packed.as_ptr(),
                        start: Start::Zero,
                        end: End::Sums(scores.as_mut_ptr().add(q * padded + key * block), padded),
                        next: Ahead::NOTHING,
                    };
                    V::run(&tile, pixels);
                }
            }
        }
        for (q, row) in scores.chunks_exact_mut(padded).take(count).enumerate() {
            let bias = head.bias.map(|b| &b[(first + q) * tokens..][..tokens]);
            softmax::<V>(row, tokens, bias);
        }
        for (b, packed) in values.chunks_exact(block * tokens).enumerate() {
            for key in (0..tokens).step_by(CHUNK) {
                let run = Run {
                    at: key,
                    len: CHUNK.min(tokens - key),
                };
                for t in 0..tiles {
                    let (q, pixels) = tile::cut(count, tiles, t);
                    // SAFETY: scores of all tokens for each query of a band, one block of packed values for each
                    // token, one block of sums for each query, and tokens and channels of the output that this
                    // unit alone writes.
                    unsafe {
                        let sums = sums.as_mut_ptr().add(q * block);
                        let place = Place {
                            to: output.0.add(head.out + (first + q) * channels + b * block),
                            pixel: channels,
                            residual: std::ptr::null(),
                            residual_pixel: 0,
                            channels: block.min(d - b * block),
                            activation: Activation::None,
                        };
                        let tile = Tile {
                            x: scores.as_ptr().add(q * padded),
                            pixel: padded,
                            runs: &[run],
                            weights: packed.as_ptr().add(key * block),
                            start: if key == 0 {
                                Start::Zero
                            } else {
                                Start::Sums(sums)
                            },
                            end: if key + run.len == tokens {
                                End::Output(place)
                            } else {
                                End::Sums(sums, block)
                            },
                            next: Ahead::NOTHING,
                        };
                        V::run(&tile, pixels);
                    }
                }
            }
        }
    }
}

/// `[block of keys][channel][key]`, times `1/√d`; zeros behind the last key.
#[inline(always)]
fn pack_keys(geometry: &Geometry, from: &[f32], to: &mut [f32]) {
    let &Geometry {
        tokens,
        channels,
        d,
        block,
    } = geometry;
    let scale = 1.0 / (d as f32).sqrt();
    for (b, to) in to.chunks_exact_mut(block * d).enumerate() {
        let from = &from[b * block * 3 * channels..];
        let count = block.min(tokens - b * block);
        if count < block {
            to.fill(0.0);
        }
        for key in 0..count {
            let from = &from[key * 3 * channels..][..d];
            for (to, from) in to[key..].iter_mut().step_by(block).zip(from) {
                *to = from * scale;
            }
        }
    }
}

/// `[block of channels][token][channel]`; zeros behind the last channel.
#[inline(always)]
fn pack_values(geometry: &Geometry, from: &[f32], to: &mut [f32]) {
    let &Geometry {
        tokens,
        channels,
        d,
        block,
    } = geometry;
    for (b, to) in to.chunks_exact_mut(block * tokens).enumerate() {
        let count = block.min(d - b * block);
        for (token, to) in to.chunks_exact_mut(block).enumerate() {
            let from = &from[token * 3 * channels + b * block..][..count];
            to[..count].copy_from_slice(from);
            to[count..].fill(0.0);
        }
    }
}
