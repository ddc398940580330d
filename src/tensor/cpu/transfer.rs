//! Between the host's NCHW order and the device's NHWC order.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::tensor::Tensor;
use crate::{Array, Shape};

/// Pixels and channels of a square that is turned at once.
const SIDE: usize = 16;
/// Pixels whose channels one thread writes.
const PIXELS: usize = 1 << 10;
/// Values of a piece of a plain copy.
const PIECE: usize = 1 << 15;

/// NCHW to NHWC.
pub fn upload(data: &[f32], shape: Shape) -> Tensor {
    let mut to = Buffer::take(shape.len());
    let (c, pixels) = (shape.c, shape.h * shape.w);
    for (to, from) in to
        .chunks_exact_mut(shape.image().max(1))
        .zip(data.chunks_exact(shape.image().max(1)))
    {
        to.par_chunks_mut(PIXELS * c)
            .enumerate()
            .for_each(|(i, to)| {
                let here = to.len() / c;
                turn(to, c, &from[i * PIXELS..], pixels, here, c);
            });
    }
    Tensor::new(shape, to)
}

/// NHWC to NCHW.
pub fn download(tensor: &Tensor) -> Array {
    let s = tensor.shape();
    let (c, pixels) = (s.c, s.h * s.w);
    let mut array = Array::zeros([s.n, c, s.h, s.w]);
    for (n, to) in array.data.chunks_exact_mut(s.image().max(1)).enumerate() {
        let from = tensor.image(n);
        to.par_chunks_mut(SIDE * pixels)
            .enumerate()
            .for_each(|(i, to)| {
                let channels = to.len() / pixels;
                turn(to, pixels, &from[i * SIDE..], c, channels, pixels);
            });
    }
    array
}

/// `to[r · to_row + k] = from[k · from_row + r]` for `rows × columns` values, square by square.
fn turn(to: &mut [f32], to_row: usize, from: &[f32], from_row: usize, rows: usize, columns: usize) {
    for r in (0..rows).step_by(SIDE) {
        for k in (0..columns).step_by(SIDE) {
            let width = SIDE.min(columns - k);
            for r in r..rows.min(r + SIDE) {
                let to = &mut to[r * to_row + k..][..width];
                let from = from[k * from_row + r..].iter().step_by(from_row);
                for (to, from) in to.iter_mut().zip(from) {
                    *to = *from;
                }
            }
        }
    }
}

/// Bytes to values of 0 to 255.
pub fn upload_pixels(images: &[&[u8]], shape: Shape) -> Tensor {
    let mut data = Buffer::take(shape.len());
    for (to, from) in data.chunks_exact_mut(shape.image().max(1)).zip(images) {
        to.par_chunks_mut(PIECE)
            .zip(from.par_chunks(PIECE))
            .for_each(|(to, from)| {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = f32::from(*from);
                }
            });
    }
    Tensor::new(shape, data)
}
