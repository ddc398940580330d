//! Windows, patch merging, up-sampling, cropping, stacking.

use super::buffer::Buffer;
use super::tensor::{Tensor, expect_shape};
use crate::tensor::{Shape, TensorError};

/// Cuts windows after padding to a multiple of `size` and a cyclic shift; see the trait.
pub fn windows(x: &Tensor, size: usize, shift: [usize; 2]) -> Tensor {
    let shape = x.shape();
    let (rows, columns) = (shape.h.div_ceil(size), shape.w.div_ceil(size));
    let out = Shape::new(shape.n * rows * columns, 1, size * size, shape.c);
    let mut data = Buffer::zeroed(out.len());
    for_each_window_pixel(shape, size, shift, |window_pixel, pixel| {
        if let Some(pixel) = pixel {
            let (to, from) = (window_pixel * shape.c, pixel * shape.c);
            data[to..to + shape.c].copy_from_slice(&x.data()[from..from + shape.c]);
        }
    });
    Tensor::new(out, data)
}

/// Undoes [`windows`].
pub fn unwindows(x: &Tensor, size: usize, shift: [usize; 2], h: usize, w: usize) -> Tensor {
    let per_image = h.div_ceil(size) * w.div_ceil(size);
    let shape = Shape::new(x.shape().n / per_image.max(1), h, w, x.shape().c);
    let mut data = Buffer::zeroed(shape.len());
    for_each_window_pixel(shape, size, shift, |window_pixel, pixel| {
        if let Some(pixel) = pixel {
            let (from, to) = (window_pixel * shape.c, pixel * shape.c);
            data[to..to + shape.c].copy_from_slice(&x.data()[from..from + shape.c]);
        }
    });
    Tensor::new(shape, data)
}

/// Calls `visit(pixel in windows, pixel in image or None if padding)` for all pixels of all windows.
fn for_each_window_pixel(
    shape: Shape,
    size: usize,
    shift: [usize; 2],
    mut visit: impl FnMut(usize, Option<usize>),
) {
    let (rows, columns) = (shape.h.div_ceil(size), shape.w.div_ceil(size));
    let (padded_h, padded_w) = (rows * size, columns * size);
    let mut at = 0;
    for n in 0..shape.n {
        for window in 0..rows * columns {
            for inner in 0..size * size {
                let y = (window / columns * size + inner / size + shift[0]) % padded_h;
                let x = (window % columns * size + inner % size + shift[1]) % padded_w;
                let inside = y < shape.h && x < shape.w;
                visit(at, inside.then(|| (n * shape.h + y) * shape.w + x));
                at += 1;
            }
        }
    }
}

/// `[x(0,0), x(1,0), x(0,1), x(1,1)]` of each 2×2 block side by side in the channels.
pub fn merge_patches(x: &Tensor) -> Tensor {
    let shape = x.shape();
    let (h, w, c) = (shape.h.div_ceil(2), shape.w.div_ceil(2), shape.c);
    let out = Shape::new(shape.n, h, w, 4 * c);
    let mut data = Buffer::zeroed(out.len());
    for (i, pixel) in data.chunks_exact_mut(4 * c).enumerate() {
        let (n, y, column) = (i / (h * w), i / w % h, i % w);
        for (part, [dy, dx]) in [[0, 0], [1, 0], [0, 1], [1, 1]].into_iter().enumerate() {
            let (y, column) = (2 * y + dy, 2 * column + dx);
            if y < shape.h && column < shape.w {
                let from = ((n * shape.h + y) * shape.w + column) * c;
                pixel[part * c..(part + 1) * c].copy_from_slice(&x.data()[from..from + c]);
            }
        }
    }
    Tensor::new(out, data)
}

/// Repeats each pixel `factor` times along rows and columns.
pub fn upsample(x: &Tensor, factor: usize) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    let sides = [shape.h, shape.w].map(|side| side.checked_mul(factor));
    let (1.., [Some(h), Some(w)]) = (factor, sides) else {
        return Err(TensorError::Shape {
            operation: "upsample",
            expected: "a factor of at least 1 that leaves a size".into(),
            found: format!("{factor} for {}x{}", shape.h, shape.w),
        });
    };
    let out = Shape { h, w, ..shape };
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

/// A rectangle of each image.
pub fn crop(
    x: &Tensor,
    top: usize,
    left: usize,
    height: usize,
    width: usize,
) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    let inside = |start: usize, size: usize, all: usize| {
        start.checked_add(size).is_some_and(|end| end <= all)
    };
    if !inside(top, height, shape.h) || !inside(left, width, shape.w) {
        return Err(TensorError::Shape {
            operation: "crop",
            expected: format!("room for {height}x{width} from ({top}, {left})"),
            found: format!("{}x{}", shape.h, shape.w),
        });
    }
    let out = Shape {
        h: height,
        w: width,
        ..shape
    };
    let mut data = Buffer::take(out.len());
    let row = width * shape.c;
    for (i, line) in data.chunks_exact_mut(row.max(1)).enumerate() {
        let from = ((top + i % height) * shape.w + left) * shape.c;
        line.copy_from_slice(&x.image(i / height)[from..from + row]);
    }
    Ok(Tensor::new(out, data))
}

/// Batches tensors of one image size.
pub fn stack(tensors: &[Tensor]) -> Result<Tensor, TensorError> {
    let Some(first) = tensors.first().map(Tensor::shape) else {
        return Err(TensorError::Shape {
            operation: "stack",
            expected: "at least one tensor".into(),
            found: "none".into(),
        });
    };
    for tensor in tensors {
        let shape = tensor.shape();
        expect_shape(
            "stack",
            Shape {
                n: shape.n,
                ..first
            },
            shape,
        )?;
    }
    let n = tensors.iter().map(|t| t.shape().n).sum();
    let out = Shape { n, ..first };
    let mut data = Buffer::take(out.len());
    let mut rest = &mut data[..];
    for tensor in tensors {
        let (to, after) = rest.split_at_mut(tensor.data().len());
        to.copy_from_slice(tensor.data());
        rest = after;
    }
    Ok(Tensor::new(out, data))
}
