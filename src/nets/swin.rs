//! Swin Transformer as in torchvision (Liu et al. 2021): attention in windows, every second block shifted.

use std::sync::{Mutex, PoisonError};

use super::batch::one_by_one;
use super::layers::Scope;
use super::{Classifier, NetError, Prediction};
use crate::tensor::{
    Activation, Array, Attention, Backend, Conv, Norm, QkvLayout, Shape, StateDict,
};

const EPSILON: f32 = 1e-5;
/// Side of an attention window in patches.
const WINDOW: usize = 7;
/// What torchvision adds to the score of two tokens that the shift brought together.
const MASK: f32 = -100.0;

struct Block<B: Backend> {
    norm1: Norm,
    qkv: B::Conv,
    projection: B::Conv,
    /// `[(2·7−1)², heads]`.
    position_bias: Array,
    /// Position bias and mask on the device for the last size of images, rows and columns of patches.
    score_bias: Mutex<Option<([usize; 2], B::Tensor)>>,
    norm2: Norm,
    widen: B::Conv,
    narrow: B::Conv,
}

struct Stage<B: Backend> {
    /// Patch merging before the blocks.
    merge: Option<(Norm, B::Conv)>,
    heads: usize,
    blocks: Vec<Block<B>>,
}

/// A Swin Transformer; depths, widths and heads are read off the weights.
pub struct Swin<B: Backend> {
    stem: B::Conv,
    stem_norm: Norm,
    stages: Vec<Stage<B>>,
    norm: Norm,
    head: B::Conv,
}

impl<B: Backend> Swin<B> {
    pub fn new(backend: &B, dict: &StateDict) -> Result<Self, NetError> {
        let scope = Scope::new(dict);
        let features = scope.at("features");
        let width = features.array("0.0.weight")?.shape[0];
        let stem = Conv::square(3, width, 4).stride(4);
        let mut stages = Vec::new();
        let mut channels = width;
        for stage in 0..4 {
            let merge = if stage == 0 {
                None
            } else {
                let at = features.at(2 * stage);
                let norm = at.at("norm").norm(4 * channels, EPSILON)?;
                let reduce = Conv::linear(4 * channels, 2 * channels);
                channels *= 2;
                Some((norm, at.at("reduction").unbiased_conv(backend, reduce)?))
            };
            let at = features.at(2 * stage + 1);
            let heads = at
                .array("0.attn.relative_position_bias_table")?
                .shape
                .get(1)
                .copied()
                .unwrap_or(1);
            let mut blocks = Vec::new();
            while at.has(&format!("{}.norm1.weight", blocks.len())) {
                blocks.push(block(backend, &at.at(blocks.len()), channels, heads)?);
            }
            stages.push(Stage {
                merge,
                heads,
                blocks,
            });
        }
        let classes = scope.array("head.weight")?.shape[0];
        Ok(Self {
            stem: features.at("0.0").conv(backend, stem)?,
            stem_norm: features.at("0.2").norm(width, EPSILON)?,
            stages,
            norm: scope.at("norm").norm(channels, EPSILON)?,
            head: scope
                .at("head")
                .conv(backend, Conv::linear(channels, classes))?,
        })
    }
}

fn block<B: Backend>(
    backend: &B,
    at: &Scope<'_>,
    c: usize,
    heads: usize,
) -> Result<Block<B>, NetError> {
    let attn = at.at("attn");
    let side = 2 * WINDOW - 1;
    let widen = Conv::linear(c, 4 * c).activation(Activation::Gelu);
    Ok(Block {
        norm1: at.at("norm1").norm(c, EPSILON)?,
        qkv: attn.at("qkv").conv(backend, Conv::linear(c, 3 * c))?,
        projection: attn.at("proj").conv(backend, Conv::linear(c, c))?,
        position_bias: attn
            .shaped("relative_position_bias_table", &[side * side, heads])?
            .clone(),
        score_bias: Mutex::new(None),
        norm2: at.at("norm2").norm(c, EPSILON)?,
        widen: at.at("mlp.0").conv(backend, widen)?,
        narrow: at.at("mlp.3").conv(backend, Conv::linear(4 * c, c))?,
    })
}

/// Position bias plus shift mask, `[windows, heads, 49, 49]` (one window if nothing is shifted).
fn score_bias(table: &Array, heads: usize, h: usize, w: usize, shift: [usize; 2]) -> Array {
    let tokens = WINDOW * WINDOW;
    let grid = [h.div_ceil(WINDOW), w.div_ceil(WINDOW)];
    let shifted = shift != [0, 0];
    let windows = if shifted { grid[0] * grid[1] } else { 1 };
    let mut bias = Array::zeros([windows, heads, tokens, tokens]);
    // Regions along one axis that were not neighbours before the cyclic shift.
    let region = |position: usize, size: usize, shift: usize| match shift {
        0 => 0,
        _ if position < size - WINDOW => 0,
        _ if position < size - shift => 1,
        _ => 2,
    };
    for window in 0..windows {
        let corner = [window / grid[1] * WINDOW, window % grid[1] * WINDOW];
        let region_of = |token: usize| {
            [
                region(corner[0] + token / WINDOW, grid[0] * WINDOW, shift[0]),
                region(corner[1] + token % WINDOW, grid[1] * WINDOW, shift[1]),
            ]
        };
        for query in 0..tokens {
            for key in 0..tokens {
                let dy = query / WINDOW + WINDOW - 1 - key / WINDOW;
                let dx = query % WINDOW + WINDOW - 1 - key % WINDOW;
                let masked = shifted && region_of(query) != region_of(key);
                for head in 0..heads {
                    let at = ((window * heads + head) * tokens + query) * tokens + key;
                    let position = table.data[(dy * (2 * WINDOW - 1) + dx) * heads + head];
                    bias.data[at] = position + if masked { MASK } else { 0.0 };
                }
            }
        }
    }
    bias
}

impl<B: Backend> Block<B> {
    /// What is added to the scores, `windows × heads × queries × keys`; the shift must follow from the size.
    fn bias(
        &self,
        b: &B,
        heads: usize,
        size: [usize; 2],
        shift: [usize; 2],
    ) -> Result<B::Tensor, NetError> {
        // A panic elsewhere cannot leave it half written. The lock is not held while the bias is made.
        let kept = || {
            self.score_bias
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some((_, bias)) = kept().as_ref().filter(|(of, _)| *of == size) {
            return Ok(bias.clone());
        }
        let bias = score_bias(&self.position_bias, heads, size[0], size[1], shift);
        let (windows, tokens) = (bias.shape[0], WINDOW * WINDOW);
        // The device's tensors are n×h×w×c, so it is uploaded as one row and seen as such.
        let flat = bias.reshape([1, windows * heads * tokens * tokens])?;
        let bias = b.view(
            &b.upload(&flat)?,
            Shape::new(windows, heads, tokens, tokens),
        )?;
        *kept() = Some((size, bias.clone()));
        Ok(bias)
    }
}

impl<B: Backend> Swin<B> {
    fn run(&self, b: &B, mut x: B::Tensor, stages: &[Stage<B>]) -> Result<B::Tensor, NetError> {
        for stage in stages {
            if let Some((norm, reduction)) = &stage.merge {
                x = b.conv(&b.layer_norm(&b.merge_patches(&x), norm)?, reduction, None)?;
            }
            for (i, block) in stage.blocks.iter().enumerate() {
                x = self.attend(b, &x, block, stage.heads, i % 2 == 1)?;
                let h = b.conv(&b.layer_norm(&x, &block.norm2)?, &block.widen, None)?;
                x = b.conv(&h, &block.narrow, Some(&x))?;
            }
        }
        Ok(x)
    }

    fn attend(
        &self,
        b: &B,
        x: &B::Tensor,
        block: &Block<B>,
        heads: usize,
        shifted: bool,
    ) -> Result<B::Tensor, NetError> {
        let Shape { h, w, .. } = b.shape(x);
        // An axis with a single window is not shifted.
        let shift = [h, w].map(|size| {
            if shifted && size > WINDOW {
                WINDOW / 2
            } else {
                0
            }
        });
        let bias = block.bias(b, heads, [h, w], shift)?;
        let cut = b.windows(&b.layer_norm(x, &block.norm1)?, WINDOW, shift);
        let qkv = b.conv(&cut, &block.qkv, None)?;
        let attention = Attention {
            heads,
            layout: QkvLayout::Stacked,
        };
        let mixed = b.attention(&qkv, attention, Some(&bias))?;
        let mixed = b.conv(&mixed, &block.projection, None)?;
        Ok(b.add(x, &b.unwindows(&mixed, WINDOW, shift, h, w))?)
    }
}

impl<B: Backend> Classifier<B> for Swin<B> {
    fn predict(&self, b: &B, x: &B::Tensor) -> Result<Prediction<B>, NetError> {
        let (wide, narrow) = self.stages.split_at(self.stages.len().min(2));
        let x = one_by_one(b, x, |x| {
            let x = b.layer_norm(&b.conv(x, &self.stem, None)?, &self.stem_norm)?;
            self.run(b, x, wide)
        })?;
        let x = self.run(b, x, narrow)?;
        let embedding = b.global_mean(&b.layer_norm(&x, &self.norm)?);
        let logits = b.conv(&embedding, &self.head, None)?;
        Ok(Prediction { logits, embedding })
    }
}
