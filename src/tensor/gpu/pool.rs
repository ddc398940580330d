//! Pooling over windows and over the cells of a grid.

use std::ops::Range;

use super::Gpu;
use super::conv::Target;
use super::kernels::{Kernel, POOL_CELL, POOL_LARGEST, POOL_MEAN};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use crate::{Pool, PoolKind, Shape, TensorError, rules};

/// What the three kernels are told besides sizes.
struct Window {
    kernel: &'static Kernel,
    size: usize,
    stride: usize,
    padding: usize,
    count_padding: bool,
}

impl Gpu {
    /// Pools into a run of channels of a larger output.
    pub(super) fn pool_into(
        &self,
        x: &Tensor,
        pool: Pool,
        target: &Target<'_>,
    ) -> Result<(), TensorError> {
        let (from, out) = (x.shape(), rules::pool(x.shape(), pool)?);
        let (kernel, count_padding) = match pool.kind {
            PoolKind::Max => (&POOL_LARGEST, false),
            PoolKind::Mean { count_padding } => (&POOL_MEAN, count_padding),
        };
        let window = Window {
            kernel,
            size: pool.kernel,
            stride: pool.stride,
            padding: pool.padding,
            count_padding,
        };
        self.pool_rows(x, out, &window, target, |rows| {
            let first = (rows.start * pool.stride).saturating_sub(pool.padding);
            let end = (rows.end - 1) * pool.stride + pool.kernel;
            let first = first.min(from.h - 1);
            first..end.saturating_sub(pool.padding).clamp(first + 1, from.h)
        })
    }

    /// Means over the cells of a `rows × columns` grid.
    pub(super) fn means_of_cells(
        &self,
        x: &Tensor,
        rows: usize,
        columns: usize,
    ) -> Result<Tensor, TensorError> {
        let from = x.shape();
        let y = self.tensor(rules::adaptive_mean(from, rows, columns)?)?;
        let window = Window {
            kernel: &POOL_CELL,
            size: 0,
            stride: 0,
            padding: 0,
            count_padding: false,
        };
        self.pool_rows(x, y.shape(), &window, &Target::whole(&y), |cells| {
            cells.start * from.h / rows..(cells.end * from.h).div_ceil(rows)
        })?;
        Ok(y)
    }

    /// `read` says which rows of the input some rows of the output need.
    fn pool_rows(
        &self,
        x: &Tensor,
        out: Shape,
        window: &Window,
        target: &Target<'_>,
        read: impl Fn(&Range<usize>) -> Range<usize>,
    ) -> Result<(), TensorError> {
        let from = x.shape();
        if out.is_empty() {
            return Ok(());
        }
        let rows = |piece: &Piece| match piece.images() {
            1 => read(&piece.rows),
            _ => 0..from.h,
        };
        let all = pieces("pooling", out.n, out.h, |piece| {
            let pixels = piece.images() * piece.rows() * out.w;
            self.fits(piece.images() * rows(piece).len() * from.w * from.c)
                && self.fits(pixels * target.channels)
        })?;
        for piece in &all {
            let rows = rows(piece);
            let line = from.w * from.c;
            let first = (piece.images.start * from.h + rows.start) * line;
            let values = first..first + piece.images() * rows.len() * line;
            let x = self.reads(x, values)?;
            let first = (piece.images.start * out.h + piece.rows.start) * out.w;
            let pixels = piece.images() * piece.rows() * out.w;
            let channels = target.channels;
            let y = self.writes(target.tensor, first * channels..(first + pixels) * channels)?;
            let count = pixels * out.c;
            let mut params = vec![
                x.at(rows.start * line),
                y.at(piece.rows.start * out.w * channels),
            ];
            let sizes = [
                from.h,
                from.w,
                from.c,
                out.h,
                out.w,
                piece.rows.start,
                piece.rows(),
                count,
                window.size,
                window.stride,
                window.padding,
                usize::from(window.count_padding),
                channels,
                target.first,
                0,
            ];
            params.extend(sizes.map(|v| v as u32));
            self.launch_values(window.kernel, count, &params, &[x.binding, y.binding])?;
        }
        Ok(())
    }
}
