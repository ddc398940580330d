//! Pooling, vectorised over the channels of a pixel.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::conv::Target;
use super::simd::for_each_isa;
use super::tensor::Tensor;
use crate::tensor::{Pool, PoolKind, Shape, TensorError};

/// Pools into a new tensor.
pub fn run(x: &Tensor, pool: Pool) -> Result<Tensor, TensorError> {
    let out = output_shape(x.shape(), pool)?;
    let mut data = Buffer::take(out.len());
    run_into(
        x,
        pool,
        Target {
            data: &mut data,
            channels: out.c,
            first: 0,
        },
    )?;
    Ok(Tensor::new(out, data))
}

/// Shape of the output for an input of shape `x`.
pub fn output_shape(x: Shape, pool: Pool) -> Result<Shape, TensorError> {
    let [h, w] = pool.output(x.h, x.w)?;
    Ok(Shape { h, w, ..x })
}

/// Pools into a run of channels of a larger output.
pub fn run_into(x: &Tensor, pool: Pool, target: Target<'_>) -> Result<(), TensorError> {
    let shape = x.shape();
    let out = output_shape(shape, pool)?;
    let Target {
        data,
        channels,
        first,
    } = target;
    data.par_chunks_mut((out.w * channels).max(1))
        .enumerate()
        .for_each(|(row, line)| {
            let (n, y) = (row / out.h, row % out.h);
            let image = x.image(n);
            let rows = Span::new(y, pool, shape.h);
            for (ox, pixel) in line.chunks_exact_mut(channels).enumerate() {
                let columns = Span::new(ox, pool, shape.w);
                let pixel = &mut pixel[first..first + shape.c];
                let window = Window {
                    image,
                    width: shape.w,
                    rows: rows.range(),
                    columns: columns.range(),
                };
                match pool.kind {
                    PoolKind::Max => max_window(pixel, &window),
                    PoolKind::Mean { count_padding } => {
                        let count = if count_padding {
                            rows.padded * columns.padded
                        } else {
                            rows.range().len() * columns.range().len()
                        };
                        mean_window(pixel, &window, count as f32);
                    }
                }
            }
        });
    Ok(())
}

/// The part of a window along one axis that lies inside the input.
pub struct Span {
    start: usize,
    end: usize,
    /// Length including padding, but not what ceil mode adds beyond it (torch's divisor).
    pub padded: usize,
}

impl Span {
    pub fn new(index: usize, pool: Pool, size: usize) -> Self {
        let start = index * pool.stride;
        let end = (start + pool.kernel).min(size + 2 * pool.padding);
        Self {
            start: start.saturating_sub(pool.padding),
            end: end.saturating_sub(pool.padding).min(size),
            padded: end - start,
        }
    }

    pub fn range(&self) -> std::ops::Range<usize> {
        self.start..self.end
    }
}

struct Window<'a> {
    image: &'a [f32],
    width: usize,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
}

for_each_isa! {
    fn max_window(pixel: &mut [f32], window: &Window<'_>) {
        let c = pixel.len();
        pixel.fill(f32::NEG_INFINITY);
        for y in window.rows.clone() {
            for x in window.columns.clone() {
                let from = &window.image[(y * window.width + x) * c..][..c];
                for (p, f) in pixel.iter_mut().zip(from) {
                    // A NaN stays a NaN, as in torch.
                    *p = if *f > *p || f.is_nan() { *f } else { *p };
                }
            }
        }
    }
}

for_each_isa! {
    fn mean_window(pixel: &mut [f32], window: &Window<'_>, count: f32) {
        let c = pixel.len();
        pixel.fill(0.0);
        for y in window.rows.clone() {
            for x in window.columns.clone() {
                let from = &window.image[(y * window.width + x) * c..][..c];
                for (p, f) in pixel.iter_mut().zip(from) {
                    *p += f;
                }
            }
        }
        pixel.iter_mut().for_each(|p| *p /= count);
    }
}

/// Mean over the cells of a `rows × columns` grid, summed in f64.
pub fn adaptive_mean(x: &Tensor, rows: usize, columns: usize) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    if shape.h == 0 || shape.w == 0 || rows == 0 || columns == 0 {
        return Err(TensorError::Shape {
            operation: "adaptive mean",
            expected: "at least one pixel".into(),
            found: format!("{shape:?} to {rows}x{columns}"),
        });
    }
    let out = Shape {
        h: rows,
        w: columns,
        ..shape
    };
    let mut data = Buffer::take(out.len());
    data.par_chunks_mut(out.image().max(1))
        .enumerate()
        .for_each(|(n, image)| {
            let from = x.image(n);
            let mut sums = vec![0.0f64; shape.c];
            for (cell, pixel) in image.chunks_exact_mut(shape.c).enumerate() {
                let ys = cell_range(cell / columns, rows, shape.h);
                let xs = cell_range(cell % columns, columns, shape.w);
                let count = (ys.len() * xs.len()) as f64;
                sums.fill(0.0);
                for y in ys {
                    for x in xs.clone() {
                        let from = &from[(y * shape.w + x) * shape.c..][..shape.c];
                        for (s, f) in sums.iter_mut().zip(from) {
                            *s += f64::from(*f);
                        }
                    }
                }
                for (p, s) in pixel.iter_mut().zip(&sums) {
                    *p = (s / count) as f32;
                }
            }
        });
    Ok(Tensor::new(out, data))
}

/// The pixels of one cell along one axis.
pub fn cell_range(cell: usize, cells: usize, size: usize) -> std::ops::Range<usize> {
    cell * size / cells..((cell + 1) * size).div_ceil(cells)
}
