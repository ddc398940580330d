//! Multi-head scaled dot-product attention: scores, softmax, mix, in launches of as many heads or queries as fit.

use super::Gpu;
use super::kernels::{ATTENTION_MIX, ATTENTION_SCORES, SOFTMAX};
use super::pieces::pieces;
use super::tensor::Tensor;
use crate::{Attention, QkvLayout, Shape, TensorError, rules};

/// Queries, keys or channels of a tile.
const TILE: usize = 16;
/// Rows of a workgroup of the softmax.
const ROWS: usize = 16;

impl Gpu {
    pub(super) fn attended(
        &self,
        qkv: &Tensor,
        attention: Attention,
        bias: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        let shape = qkv.shape();
        let out = rules::attention(shape, attention, bias.map(Tensor::shape))?;
        let y = self.tensor(out)?;
        if out.is_empty() {
            return Ok(y);
        }
        let (heads, tokens) = (attention.heads, shape.h * shape.w);
        let d = out.c / heads;
        let (head_step, part_step) = match attention.layout {
            QkvLayout::Stacked => (d, out.c),
            QkvLayout::PerHead => (3 * d, d),
        };
        let most = self.driver.limits().groups;
        let images = pieces("attention", shape.n, 1, |p| {
            self.fits(p.images() * shape.image())
        })?;
        for some in images {
            let n = some.images();
            let (from, to) = (shape.image(), out.image());
            let qkv = self.reads(qkv, some.images.start * from..some.images.end * from)?;
            let to = self.writes(&y, some.images.start * to..some.images.end * to)?;
            let bias = bias
                .map(|b| Ok::<_, TensorError>((b.shape().n, self.reads(b, 0..b.shape().len())?)))
                .transpose()?;
            let all = pieces("attention", n * heads, tokens, |p| {
                p.images() <= most && self.fits(p.images() * p.rows() * tokens)
            })?;
            for piece in all {
                let (count, queries) = (piece.images(), piece.rows());
                let scores = self.scratch(Shape::new(count, 1, queries, tokens))?;
                let s = self.writes(&scores, 0..scores.shape().len())?;
                let sizes = [
                    piece.images.start,
                    tokens,
                    piece.rows.start,
                    queries,
                    heads,
                    d,
                    shape.c,
                    head_step,
                    part_step,
                    bias.as_ref().map_or(0, |(windows, _)| *windows),
                    some.images.start,
                ];
                let bias_at = bias.as_ref().map_or(0, |(_, b)| b.at(0));
                let mut params = vec![qkv.at(0), bias_at, to.at(0)];
                params.extend(sizes.map(|v| v as u32));
                params.push((1.0 / (d as f32).sqrt()).to_bits());
                let bindings = [
                    qkv.binding.clone(),
                    bias.as_ref().map_or(&qkv, |(_, b)| b).binding.clone(),
                    s.binding.clone(),
                    to.binding.clone(),
                ];
                let rows = queries.div_ceil(TILE);
                let groups = [tokens.div_ceil(TILE), rows, count];
                self.launch(&ATTENTION_SCORES, groups, &params, &bindings)?;
                let [gx, gy] = self.grid((count * queries).div_ceil(ROWS));
                let sizes = [(count * queries) as u32, tokens as u32];
                self.launch(&SOFTMAX, [gx, gy, 1], &sizes, &[s.binding])?;
                let groups = [d.div_ceil(TILE), rows, count];
                self.launch(&ATTENTION_MIX, groups, &params, &bindings)?;
            }
        }
        Ok(y)
    }
}
