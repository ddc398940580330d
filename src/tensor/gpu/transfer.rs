//! Between the host's arrays (NCHW) and pixels (bytes) and the device's NHWC.

use std::borrow::Cow;

use half::f16;

use super::Gpu;
use super::kernels::PIXELS;
use super::pieces::pieces;
use super::tensor::Tensor;
use crate::cpu::buffer::Buffer;
use crate::cpu::{self, Cpu};
use crate::{Array, Backend, Precision, Shape, TensorError, rules};

/// The bytes of values as activations and weights have them in memory.
pub(super) fn in_memory(precision: Precision, values: &[f32]) -> Cow<'_, [u8]> {
    match precision {
        Precision::F32 => Cow::Borrowed(bytemuck::cast_slice(values)),
        Precision::F16 => {
            let halves = values.iter().flat_map(|&v| f16::from_f32(v).to_ne_bytes());
            Cow::Owned(halves.collect())
        }
    }
}

impl Gpu {
    /// The order is turned on the host: what is uploaded often are pixels, and downloaded vectors.
    pub(super) fn upload_array(&self, array: &Array) -> Result<Tensor, TensorError> {
        let shape = rules::upload(array)?;
        if shape.is_empty() {
            return Ok(Tensor::empty(shape));
        }
        let turned = Cpu.upload(array)?;
        let precision = self.driver.precision();
        let buffer = self.driver.upload(&in_memory(precision, turned.data()))?;
        Ok(Tensor::new(shape, precision, buffer))
    }

    /// Bytes as values of 0 to 255; four bytes go up as one word.
    pub(super) fn upload_bytes(
        &self,
        images: &[&[u8]],
        shape: Shape,
    ) -> Result<Tensor, TensorError> {
        let y = self.tensor(shape)?;
        if shape.is_empty() {
            return Ok(y);
        }
        let line = shape.w * shape.c;
        let all = pieces("upload of an image", shape.n, shape.h, |p| {
            self.fits(p.images() * p.rows() * line)
        })?;
        for piece in all {
            let rows = piece.rows.start * line..piece.rows.end * line;
            let parts = images[piece.images.clone()]
                .iter()
                .map(|image| &image[rows.clone()]);
            let mut bytes = parts.collect::<Vec<_>>().concat();
            let count = bytes.len();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let words = Shape::new(1, 1, 1, bytes.len() / 4);
            let x = Tensor::new(words, Precision::F32, self.driver.upload(&bytes)?);
            let from = self.reads(&x, 0..words.c)?;
            let first = piece.images.start * shape.image() + rows.start;
            let to = self.writes(&y, first..first + count)?;
            let mut params = [0u32; 15];
            params[..3].copy_from_slice(&[from.at(0), to.at(0), count as u32]);
            self.launch_values(&PIXELS, count, &params, &[from.binding, to.binding])?;
        }
        Ok(y)
    }

    pub(super) fn download_array(&self, tensor: &Tensor) -> Result<Array, TensorError> {
        let shape = tensor.shape();
        let mut values = Buffer::take(shape.len());
        if !shape.is_empty() {
            let size = tensor.precision().bytes();
            let first = size * tensor.offset();
            // Whole words.
            let from = first - first % 4;
            let to = (first + size * shape.len()).next_multiple_of(4);
            let bytes = self.driver.download(tensor.buffer()?, from..to)?;
            let bytes = &bytes[first - from..][..size * shape.len()];
            match tensor.precision() {
                Precision::F32 => {
                    bytemuck::cast_slice_mut(&mut values[..]).copy_from_slice(bytes);
                }
                Precision::F16 => {
                    for (value, half) in values.iter_mut().zip(bytes.as_chunks::<2>().0) {
                        *value = f16::from_ne_bytes(*half).to_f32();
                    }
                }
            }
        }
        Cpu.download(&cpu::Tensor::new(shape, values))
    }
}
