//! Pooling to means and resizing: weights along rows times weights along columns.
//!
//! The forward pass is the engine's; a gradient goes back through the transpose, axis by axis.

use rayon::prelude::*;

use super::operation::{Gradient, Operation, Output};
use super::tensor::View;
use crate::cpu::pool::{Span, cell_range};
use crate::cpu::simd::{FlushDenormals, for_each_isa};
use crate::{Backend, Pool, PoolKind, Resize, Shape, TensorError, cpu, cpu::Cpu};

/// Which inputs one output reads along one axis: a run from `first`, with weights.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

/// A linear map of images that is the same for each channel and works on rows and columns alone.
pub enum LinearMap {
    MeanPool(Pool),
    Grid { rows: usize, columns: usize },
    Resize { h: usize, w: usize, mode: Resize },
}

impl LinearMap {
    /// The weights along an axis of length `from`; `to` is the length of the result.
    fn taps(&self, from: usize, to: usize) -> Result<Vec<Taps>, TensorError> {
        Ok(match *self {
            LinearMap::MeanPool(pool) => (0..to)
                .map(|i| {
                    let span = Span::new(i, pool, from);
                    let count = match pool.kind {
                        PoolKind::Mean {
                            count_padding: true,
                        } => span.padded,
                        _ => span.range().len(),
                    };
                    even(span.range(), count)
                })
                .collect(),
            LinearMap::Grid { .. } => (0..to)
                .map(|i| {
                    let cell = cell_range(i, to, from);
                    let count = cell.len();
                    even(cell, count)
                })
                .collect(),
            LinearMap::Resize { mode, .. } => resize_taps(from, to, mode)?,
        })
    }
}

fn even(range: std::ops::Range<usize>, count: usize) -> Taps {
    Taps {
        first: range.start,
        weights: vec![1.0 / count as f32; range.len()],
    }
}

/// The engine's own weights: what it makes of unit vectors along the axis.
fn resize_taps(from: usize, to: usize, mode: Resize) -> Result<Vec<Taps>, TensorError> {
    let mut unit = vec![0.0; from * from];
    for i in 0..from {
        unit[i * from + i] = 1.0;
    }
    let unit = cpu::Tensor::new(Shape::new(1, from, 1, from), unit[..].into());
    let rows = Cpu.resize(&unit, to, 1, mode)?;
    Ok(rows
        .data()
        .chunks_exact(from)
        .map(|row| {
            let first = row.iter().position(|&w| w != 0.0).unwrap_or(0);
            let end = row.iter().rposition(|&w| w != 0.0).map_or(first, |i| i + 1);
            Taps {
                first,
                weights: row[first..end].to_vec(),
            }
        })
        .collect())
}

impl Operation<1> for LinearMap {
    const NAME: &'static str = "pool or resize";

    fn forward(&self, [x]: [View<'_>; 1]) -> Output {
        let x = x.for_engine();
        let y = match *self {
            LinearMap::MeanPool(pool) => Cpu.pool(&x, pool)?,
            LinearMap::Grid { rows, columns } => Cpu.adaptive_mean(&x, rows, columns)?,
            LinearMap::Resize { h, w, mode } => Cpu.resize(&x, h, w, mode)?,
        };
        Ok((y.shape(), y.into_data()))
    }

    fn backward(
        &self,
        [x]: [View<'_>; 1],
        y: View<'_>,
        g: View<'_>,
        _: [bool; 1],
    ) -> Result<[Gradient; 1], TensorError> {
        let rows = self.taps(x.shape.h, y.shape.h)?;
        let columns = self.taps(x.shape.w, y.shape.w)?;
        Ok([Gradient::Values(transposed(
            g, y.shape, x.shape, &rows, &columns,
        ))])
    }
}

/// The gradient of the input: columns first, then rows.
fn transposed(g: View<'_>, y: Shape, x: Shape, rows: &[Taps], columns: &[Taps]) -> Vec<f32> {
    let line = (x.w * x.c).max(1);
    let mut wide = vec![0.0f32; x.n * y.h * x.w * x.c];
    wide.par_chunks_mut(line)
        .zip(g.data.par_chunks((y.w * y.c).max(1)))
        .for_each(|(to, from)| {
            let _flush = FlushDenormals::on();
            for (pixel, taps) in from.chunks_exact(x.c).zip(columns) {
                for (k, &weight) in taps.weights.iter().enumerate() {
                    add_scaled(&mut to[(taps.first + k) * x.c..][..x.c], pixel, weight);
                }
            }
        });
    let mut readers = vec![Vec::new(); x.h];
    for (oy, taps) in rows.iter().enumerate() {
        for (k, &weight) in taps.weights.iter().enumerate() {
            readers[taps.first + k].push((oy, weight));
        }
    }
    let mut dx = vec![0.0f32; x.len()];
    dx.par_chunks_mut(line).enumerate().for_each(|(row, to)| {
        let _flush = FlushDenormals::on();
        let (n, at) = (row / x.h, row % x.h);
        for &(oy, weight) in &readers[at] {
            add_scaled(to, &wide[(n * y.h + oy) * line..][..line], weight);
        }
    });
    dx
}

for_each_isa! {
    fn add_scaled(to: &mut [f32], from: &[f32], weight: f32) {
        for (t, f) in to.iter_mut().zip(from) {
            *t += f * weight;
        }
    }
}
