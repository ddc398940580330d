//! Linear maps along rows and columns: means of pools and grids, resizes. Each is a matrix for the rows and one for the
//! columns; a gradient goes back through the transposes.

use candle_core::{DType, Device, Result, Tensor};

use super::taped::taped;
use crate::cpu::pool::{Span, cell_range};
use crate::resampling::{half_pixel_neighbours, tf1_neighbours, triangle_filters};
use crate::{Pool, PoolKind, Resize};

/// What one output is along an axis: the sum of these inputs with these weights.
type Row = Vec<(usize, f64)>;

fn even(range: std::ops::Range<usize>, count: usize) -> Row {
    range.map(|i| (i, 1.0 / count as f64)).collect()
}

/// Rows of a pool to means along an axis of `from` values.
pub fn pooled(pool: Pool, from: usize, to: usize) -> Vec<Row> {
    let row = |i: usize| {
        let span = Span::new(i, pool, from);
        let count = match pool.kind {
            PoolKind::Mean {
                count_padding: true,
            } => span.padded,
            _ => span.range().len(),
        };
        even(span.range(), count)
    };
    (0..to).map(row).collect()
}

/// Rows of the means over `to` cells.
pub fn cells(from: usize, to: usize) -> Vec<Row> {
    let row = |i: usize| {
        let cell = cell_range(i, to, from);
        let count = cell.len();
        even(cell, count)
    };
    (0..to).map(row).collect()
}

/// Rows of a resize.
pub fn resized(mode: Resize, from: usize, to: usize) -> Vec<Row> {
    let neighbours = match mode {
        Resize::Tf1 => tf1_neighbours(from, to),
        Resize::HalfPixel => half_pixel_neighbours(from, to),
        Resize::Antialias => {
            let filters = triangle_filters(from, to).into_iter();
            return filters
                .map(|f| (f.first..).zip(f.weights.into_iter().map(f64::from)))
                .map(Iterator::collect)
                .collect();
        }
    };
    let two = neighbours.into_iter().map(|n| {
        vec![
            (n.low, f64::from(n.low_weight)),
            (n.high, f64::from(n.high_weight)),
        ]
    });
    two.collect()
}

/// The rows as a matrix `[to, from]`.
fn matrix(rows: &[Row], from: usize, kind: DType, device: &Device) -> Result<Tensor> {
    let mut values = vec![0.0f64; rows.len() * from];
    for (i, row) in rows.iter().enumerate() {
        for &(at, weight) in row {
            values[i * from + at] += weight;
        }
    }
    Tensor::from_vec(values, (rows.len(), from), device)?.to_dtype(kind)
}

/// `matrix · x` along the rows of images; every image is a product of its own, so that its bits are its own.
fn along_rows(x: &Tensor, matrix: &Tensor) -> Result<Tensor> {
    let (n, h, w, c) = x.dims4()?;
    let to = matrix.dim(0)?;
    matrix
        .broadcast_as((n, to, h))?
        .matmul(&x.reshape((n, h, w * c))?)?
        .reshape((n, to, w, c))
}

fn along_columns(x: &Tensor, matrix: &Tensor) -> Result<Tensor> {
    let (n, h, w, c) = x.dims4()?;
    let to = matrix.dim(0)?;
    matrix
        .broadcast_as((n * h, to, w))?
        .matmul(&x.reshape((n * h, w, c))?)?
        .reshape((n, h, to, c))
}

/// Applies the maps of rows and columns, in f32 or f64.
pub fn mapped(x: &Tensor, rows: &[Row], columns: &[Row], kind: DType) -> Result<Tensor> {
    let (_, h, w, _) = x.dims4()?;
    let rows = matrix(rows, h, kind, x.device())?;
    let columns = matrix(columns, w, kind, x.device())?;
    let y = along_rows(&x.detach().to_dtype(kind)?, &rows)?;
    let kept = x.dtype();
    let y = along_columns(&y, &columns)?.to_dtype(kept)?;
    taped([x], y, move |_, gradient| {
        let [rows, columns] = [rows.t()?.contiguous()?, columns.t()?.contiguous()?];
        let back = along_columns(&gradient.to_dtype(kind)?, &columns)?;
        Ok([Some(along_rows(&back, &rows)?.to_dtype(kept)?)])
    })
}
