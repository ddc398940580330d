//! The three bilinear resizes, with the neighbours and weights of the CPU engine, and the resize of pixels in fixed point.

use std::ops::Range;

use super::Gpu;
use super::constants::Constant;
use super::kernels::{
    Kernel, RESIZE_COLUMNS, RESIZE_HALF_PIXEL, RESIZE_PIXEL_COLUMNS, RESIZE_PIXEL_ROWS,
    RESIZE_ROWS, RESIZE_TF1,
};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use crate::resampling::{
    Filter, Neighbours, half_pixel_neighbours, tf1_neighbours, triangle_filters,
};
use crate::{Along, FixedTaps, PixelPass, Resize, Shape, TensorError, rules};

fn neighbour_table(neighbours: &[Neighbours]) -> Vec<u32> {
    let words = |n: &Neighbours| {
        let weights = [n.low_weight.to_bits(), n.high_weight.to_bits()];
        [n.low as u32, n.high as u32, weights[0], weights[1]]
    };
    neighbours.iter().flat_map(words).collect()
}

/// First tap, number of taps and place of the weights for each coordinate, then the bits of all weights.
fn tap_table<'a>(taps: impl Iterator<Item = (usize, &'a [u32])> + Clone) -> Vec<u32> {
    let mut at = 3 * taps.clone().count();
    let mut table = Vec::new();
    for (first, weights) in taps.clone() {
        table.extend([first, weights.len(), at].map(|v| v as u32));
        at += weights.len();
    }
    table.extend(taps.flat_map(|(_, weights)| weights));
    table
}

fn filter_table(filters: &[Filter]) -> Vec<u32> {
    let taps = filters.iter();
    tap_table(taps.map(|f| (f.first, bytemuck::cast_slice(&f.weights))))
}

fn fixed_table(taps: &[FixedTaps]) -> Vec<u32> {
    let taps = taps.iter();
    tap_table(taps.map(|t| (t.first, bytemuck::cast_slice(&t.weights))))
}

impl Gpu {
    pub(super) fn resized(
        &self,
        x: &Tensor,
        height: usize,
        width: usize,
        mode: Resize,
    ) -> Result<Tensor, TensorError> {
        let from = x.shape();
        let out = rules::resize(from, height, width)?;
        if out.is_empty() {
            return self.tensor(out);
        }
        let (kernel, neighbours): (_, fn(usize, usize) -> Vec<Neighbours>) = match mode {
            Resize::Tf1 => (&RESIZE_TF1, tf1_neighbours),
            Resize::HalfPixel => (&RESIZE_HALF_PIXEL, half_pixel_neighbours),
            Resize::Antialias => return self.filtered(x, out),
        };
        let (ys, xs) = (neighbours(from.h, height), neighbours(from.w, width));
        let tables = [
            self.constant(&neighbour_table(&ys))?,
            self.constant(&neighbour_table(&xs))?,
        ];
        self.resampled(kernel, x, out, &tables, |rows| {
            ys[rows.start].low..ys[rows.end - 1].high + 1
        })
    }

    /// Columns first, then rows.
    fn filtered(&self, x: &Tensor, out: Shape) -> Result<Tensor, TensorError> {
        let from = x.shape();
        let (ys, xs) = (
            triangle_filters(from.h, out.h),
            triangle_filters(from.w, out.w),
        );
        let [ys_table, xs_table] = [&ys, &xs].map(|f| self.constant(&filter_table(f)));
        let tables = [ys_table?, xs_table?];
        let wide = Shape { h: from.h, ..out };
        let wide = self.resampled(&RESIZE_COLUMNS, x, wide, &tables, Range::clone)?;
        self.resampled(&RESIZE_ROWS, &wide, out, &tables, |rows| {
            let last = &ys[rows.end - 1];
            ys[rows.start].first..last.first + last.weights.len()
        })
    }

    /// One pass of a resize of pixels.
    pub(super) fn pixels_resized(
        &self,
        x: &Tensor,
        pass: &PixelPass,
    ) -> Result<Tensor, TensorError> {
        let out = rules::pixel_pass(x.shape(), pass)?;
        if out.is_empty() {
            return self.tensor(out);
        }
        let words = fixed_table(&pass.taps);
        let tables = [self.constant(&words)?, self.constant(&words)?];
        match pass.along {
            Along::Width => self.resampled(&RESIZE_PIXEL_COLUMNS, x, out, &tables, Range::clone),
            Along::Height => self.resampled(&RESIZE_PIXEL_ROWS, x, out, &tables, |rows| {
                let taps = &pass.taps[rows.clone()];
                let first = taps.iter().map(|t| t.first).min().unwrap_or(0);
                let end = taps.iter().map(|t| t.first + t.weights.len()).max();
                first..end.unwrap_or(first)
            }),
        }
    }

    /// `read` says which rows of the input some rows of the output need.
    fn resampled(
        &self,
        kernel: &'static Kernel,
        x: &Tensor,
        out: Shape,
        tables: &[Constant; 2],
        read: impl Fn(&Range<usize>) -> Range<usize>,
    ) -> Result<Tensor, TensorError> {
        let from = x.shape();
        let y = self.tensor(out)?;
        let rows = |piece: &Piece| match piece.images() {
            1 => read(&piece.rows),
            _ => 0..from.h,
        };
        let (line, out_line) = (from.w * from.c, out.w * out.c);
        let all = pieces("resize", out.n, out.h, |piece| {
            self.fits(piece.images() * rows(piece).len() * line)
                && self.fits(piece.images() * piece.rows() * out_line)
        })?;
        for piece in &all {
            let rows = rows(piece);
            let first = piece.images.start * from.image() + rows.start * line;
            let source = self.reads(x, first..first + piece.images() * rows.len() * line)?;
            let count = piece.images() * piece.rows() * out_line;
            let first = piece.images.start * out.image() + piece.rows.start * out_line;
            let to = self.writes(&y, first..first + count)?;
            let mut params = vec![
                source.at(rows.start * line),
                to.at(piece.rows.start * out_line),
            ];
            let sizes = [
                count,
                from.h,
                from.w,
                from.c,
                out.h,
                out.w,
                piece.rows.start,
                piece.rows(),
                0,
            ];
            params.extend(sizes.map(|v| v as u32));
            let bindings = [
                source.binding,
                tables[0].binding(),
                tables[1].binding(),
                to.binding,
            ];
            self.launch_values(kernel, count, &params, &bindings)?;
        }
        Ok(y)
    }
}
