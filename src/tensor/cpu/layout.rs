//! Windows, patch merging, up-sampling, cropping, stacking: copies of runs of pixels.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::tensor::Tensor;
use crate::{Shape, TensorError, rules};

/// Cuts windows after padding to a multiple of `size` and a cyclic shift; see the trait.
pub fn windows(x: &Tensor, size: usize, shift: [usize; 2]) -> Tensor {
    let shape = x.shape();
    let c = shape.c;
    let (rows, columns) = (shape.h.div_ceil(size), shape.w.div_ceil(size));
    let out = Shape::new(shape.n * rows * columns, 1, size * size, c);
    let mut data = Buffer::take(out.len());
    data.par_chunks_mut((size * size * c).max(1))
        .with_min_len(pieces(size * size * c))
        .enumerate()
        .for_each(|(window, to)| {
            let image = x.image(window / (rows * columns));
            let (row, column) = (window / columns % rows, window % columns);
            for (inner, line) in to.chunks_exact_mut(size * c).enumerate() {
                let y = (row * size + inner + shift[0]) % (rows * size);
                let mut at = 0;
                while at < size {
                    let x = (column * size + at + shift[1]) % (columns * size);
                    // Up to the edge of the image or, beyond it, of the padding.
                    let inside = y < shape.h && x < shape.w;
                    let edge = if x < shape.w { shape.w } else { columns * size };
                    let run = (size - at).min(edge - x);
                    let to = &mut line[at * c..(at + run) * c];
                    if inside {
                        to.copy_from_slice(&image[(y * shape.w + x) * c..][..run * c]);
                    } else {
                        to.fill(0.0);
                    }
                    at += run;
                }
            }
        });
    Tensor::new(out, data)
}

/// Undoes [`windows`].
pub fn unwindows(x: &Tensor, size: usize, shift: [usize; 2], h: usize, w: usize) -> Tensor {
    let (rows, columns) = (h.div_ceil(size), w.div_ceil(size));
    let c = x.shape().c;
    let shape = Shape::new(x.shape().n / (rows * columns).max(1), h, w, c);
    let mut data = Buffer::take(shape.len());
    data.par_chunks_mut((w * c).max(1))
        .with_min_len(pieces(w * c))
        .enumerate()
        .for_each(|(row, line)| {
            let (n, y) = (row / h, row % h);
            // Where the row and the pixel lie after the shift.
            let back = |at: usize, shift: usize, all: usize| (at + all - shift % all) % all;
            let y = back(y, shift[0], rows * size);
            let mut at = 0;
            while at < w {
                let x_at = back(at, shift[1], columns * size);
                let run = (size - x_at % size).min(w - at);
                let window = (n * rows + y / size) * columns + x_at / size;
                let from = (window * size + y % size) * size + x_at % size;
                line[at * c..(at + run) * c].copy_from_slice(&x.data()[from * c..][..run * c]);
                at += run;
            }
        });
    Tensor::new(shape, data)
}

/// How many pieces of `values` each are worth a thread's while.
fn pieces(values: usize) -> usize {
    (1 << 15) / values.max(1) + 1
}

/// `[x(0,0), x(1,0), x(0,1), x(1,1)]` of each 2×2 block side by side in the channels.
pub fn merge_patches(x: &Tensor) -> Tensor {
    let shape = x.shape();
    let (h, w, c) = (shape.h.div_ceil(2), shape.w.div_ceil(2), shape.c);
    let out = Shape::new(shape.n, h, w, 4 * c);
    let mut data = Buffer::take(out.len());
    data.par_chunks_mut((w * 4 * c).max(1))
        .with_min_len(pieces(w * 4 * c))
        .enumerate()
        .for_each(|(row, line)| {
            let (n, y) = (row / h, row % h);
            let image = x.image(n);
            for (column, pixel) in line.chunks_exact_mut(4 * c).enumerate() {
                let parts = [[0, 0], [1, 0], [0, 1], [1, 1]];
                for (to, [dy, dx]) in pixel.chunks_exact_mut(c).zip(parts) {
                    let (y, x) = (2 * y + dy, 2 * column + dx);
                    if y < shape.h && x < shape.w {
                        to.copy_from_slice(&image[(y * shape.w + x) * c..][..c]);
                    } else {
                        to.fill(0.0);
                    }
                }
            }
        });
    Tensor::new(out, data)
}

/// Repeats each pixel `factor` times along rows and columns.
pub fn upsample(x: &Tensor, factor: usize) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    let out = rules::upsample(shape, factor)?;
    let mut data = Buffer::take(out.len());
    let line = out.w * out.c;
    let rows = x.data().chunks_exact((shape.w * shape.c).max(1));
    for (lines, row) in data.chunks_exact_mut((factor * line).max(1)).zip(rows) {
        let (first, others) = lines.split_at_mut(line);
        let pixels = row.chunks_exact(shape.c);
        for (run, pixel) in first.chunks_exact_mut(factor * shape.c).zip(pixels) {
            run.chunks_exact_mut(shape.c)
                .for_each(|to| to.copy_from_slice(pixel));
        }
        others
            .chunks_exact_mut(line)
            .for_each(|to| to.copy_from_slice(first));
    }
    Ok(Tensor::new(out, data))
}

/// Copies pixels of `c` channels into the channels from `first` of pixels of `channels`.
pub fn copy_channels(from: &[f32], c: usize, to: &mut [f32], channels: usize, first: usize) {
    to.par_chunks_mut(channels.max(1))
        .zip(from.par_chunks(c.max(1)))
        .with_min_len(pieces(c))
        .for_each(|(to, from)| to[first..first + c].copy_from_slice(from));
}

/// A rectangle of each image.
pub fn crop(
    x: &Tensor,
    top: usize,
    left: usize,
    height: usize,
    width: usize,
) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    let out = rules::crop(shape, top, left, height, width)?;
    let mut data = Buffer::take(out.len());
    let row = width * shape.c;
    data.par_chunks_mut(row.max(1))
        .with_min_len(pieces(row))
        .enumerate()
        .for_each(|(i, line)| {
            let from = ((top + i % height) * shape.w + left) * shape.c;
            line.copy_from_slice(&x.image(i / height)[from..from + row]);
        });
    Ok(Tensor::new(out, data))
}

/// Batches tensors of one image size.
pub fn stack(tensors: &[Tensor]) -> Result<Tensor, TensorError> {
    let shapes: Vec<Shape> = tensors.iter().map(Tensor::shape).collect();
    let out = rules::stack(&shapes)?;
    let mut data = Buffer::take(out.len());
    let mut rest = &mut data[..];
    for tensor in tensors {
        let (to, after) = rest.split_at_mut(tensor.data().len());
        to.copy_from_slice(tensor.data());
        rest = after;
    }
    Ok(Tensor::new(out, data))
}
