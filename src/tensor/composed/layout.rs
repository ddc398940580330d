//! Operations that move pixels, by reshapes and permutations.

use candle_core::{Result, Tensor};

/// Rows of zeros before and after the values of an axis; a negative number of rows is cut off.
pub fn border(x: &Tensor, axis: usize, before: isize, after: isize) -> Result<Tensor> {
    let [add_before, add_after] = [before, after].map(|v| v.max(0) as usize);
    let [cut_before, cut_after] = [before, after].map(|v| (-v).max(0) as usize);
    // First what is added: what is cut may be more than there was.
    let x = x.pad_with_zeros(axis, add_before, add_after)?;
    if cut_before + cut_after == 0 {
        return Ok(x);
    }
    let length = x.dim(axis)? - cut_before - cut_after;
    x.narrow(axis, cut_before, length)
}

/// Windows after padding to a multiple of `size` and a cyclic shift.
pub fn windows(x: &Tensor, size: usize, shift: [usize; 2]) -> Result<Tensor> {
    let (n, h, w, c) = x.dims4()?;
    let (rows, columns) = (h.div_ceil(size), w.div_ceil(size));
    let x = x.pad_with_zeros(1, 0, rows * size - h)?;
    let x = x.pad_with_zeros(2, 0, columns * size - w)?;
    let x = rolled(&x, 1, shift[0])?;
    rolled(&x, 2, shift[1])?
        .reshape((n, rows, size, columns, size, c))?
        .permute((0, 1, 3, 2, 4, 5))?
        .contiguous()?
        .reshape((n * rows * columns, 1, size * size, c))
}

/// Undoes [`windows`] for images of `h × w`.
pub fn unwindows(x: &Tensor, size: usize, shift: [usize; 2], h: usize, w: usize) -> Result<Tensor> {
    let (all, _, _, c) = x.dims4()?;
    let (rows, columns) = (h.div_ceil(size), w.div_ceil(size));
    let n = all / (rows * columns).max(1);
    let x = x
        .reshape((n, rows, columns, size, size, c))?
        .permute((0, 1, 3, 2, 4, 5))?
        .contiguous()?
        .reshape((n, rows * size, columns * size, c))?;
    let back = |shift: usize, all: usize| all - shift % all;
    let x = rolled(&x, 1, back(shift[0], rows * size))?;
    let x = rolled(&x, 2, back(shift[1], columns * size))?;
    x.narrow(1, 0, h)?.narrow(2, 0, w)?.contiguous()
}

/// Position `i` of the result is position `i + shift` of `x`, round and round.
fn rolled(x: &Tensor, axis: usize, shift: usize) -> Result<Tensor> {
    let length = x.dim(axis)?;
    let shift = shift % length.max(1);
    if shift == 0 {
        return Ok(x.clone());
    }
    let [head, tail] = [(0, shift), (shift, length - shift)];
    let tail = x.narrow(axis, tail.0, tail.1)?.contiguous()?;
    let head = x.narrow(axis, head.0, head.1)?.contiguous()?;
    Tensor::cat(&[&tail, &head], axis)
}

/// Each 2×2 block, column by column, side by side in the channels.
pub fn merge_patches(x: &Tensor) -> Result<Tensor> {
    let (n, h, w, c) = x.dims4()?;
    let (rows, columns) = (h.div_ceil(2), w.div_ceil(2));
    x.pad_with_zeros(1, 0, 2 * rows - h)?
        .pad_with_zeros(2, 0, 2 * columns - w)?
        .reshape((n, rows, 2, columns, 2, c))?
        .permute((0, 1, 3, 4, 2, 5))?
        .contiguous()?
        .reshape((n, rows, columns, 4 * c))
}

/// Each pixel `factor` times along rows and columns.
pub fn upsample(x: &Tensor, factor: usize) -> Result<Tensor> {
    let (n, h, w, c) = x.dims4()?;
    x.reshape((n, h, 1, w, 1, c))?
        .broadcast_as((n, h, factor, w, factor, c))?
        .contiguous()?
        .reshape((n, h * factor, w * factor, c))
}

/// Zeros between the values of both axes of pixels: value `i` comes to `i · stride`.
pub fn spread(x: &Tensor, stride: usize) -> Result<Tensor> {
    if stride == 1 {
        return Ok(x.clone());
    }
    let (n, h, w, c) = x.dims4()?;
    x.reshape((n, h, 1, w, 1, c))?
        .pad_with_zeros(2, 0, stride - 1)?
        .pad_with_zeros(4, 0, stride - 1)?
        .reshape((n, h * stride, w * stride, c))?
        .narrow(1, 0, (h - 1) * stride + 1)?
        .narrow(2, 0, (w - 1) * stride + 1)
}

/// Every `stride`-th of `length` values of an axis, from `first` on.
pub fn sampled(
    x: &Tensor,
    axis: usize,
    first: usize,
    stride: usize,
    length: usize,
) -> Result<Tensor> {
    if stride == 1 {
        return x.narrow(axis, first, length);
    }
    let places: Vec<u32> = (0..length).map(|i| (first + i * stride) as u32).collect();
    let places = Tensor::from_vec(places, length, x.device())?;
    x.contiguous()?.index_select(&places, axis)
}
