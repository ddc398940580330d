//! [`Backend`]: shapes are checked here, the rest is in the file of the operation.

use super::Gpu;
use super::conv::{Packed, Target};
use super::tensor::Tensor;
use crate::{
    Activation, Array, Attention, Backend, Compared, Conv, Norm, Part, PixelPass, Pool, Precision,
    Resize, Shape, Tap, TensorError, rules,
};

/// Result of an operation that cannot refuse: what went wrong goes with the tensor.
fn carried(shape: Shape, result: Result<Tensor, TensorError>) -> Tensor {
    result.unwrap_or_else(|error| Tensor::failed(shape, error))
}

impl Backend for Gpu {
    type Tensor = Tensor;
    type Conv = Packed;

    fn describe(&self) -> String {
        self.driver.describe()
    }

    fn arithmetic(&self) -> &'static str {
        match self.driver.precision() {
            Precision::F32 => "f32",
            Precision::F16 => "f32, stored as f16",
        }
    }

    fn wait(&self) -> Result<(), TensorError> {
        self.driver.wait()
    }

    fn keeps_pixels(&self) -> bool {
        true
    }

    fn release(&self) {
        self.constants.clear();
        self.driver.release();
        // What went through the host's memory on its way.
        crate::cpu::buffer::release();
    }

    fn upload(&self, array: &Array) -> Result<Tensor, TensorError> {
        self.upload_array(array)
    }

    fn upload_pixels(
        &self,
        images: &[&[u8]],
        height: usize,
        width: usize,
    ) -> Result<Tensor, TensorError> {
        self.upload_bytes(images, rules::pixels(images, height, width)?)
    }

    fn download(&self, tensor: &Tensor) -> Result<Array, TensorError> {
        self.download_array(tensor)
    }

    fn shape(&self, tensor: &Tensor) -> Shape {
        tensor.shape()
    }

    fn select(&self, tensor: &Tensor, index: usize) -> Tensor {
        tensor.select(index)
    }

    fn stack(&self, tensors: &[Tensor]) -> Result<Tensor, TensorError> {
        self.stacked(tensors)
    }

    fn prepare(&self, conv: Conv, weight: &Array, bias: &[f32]) -> Result<Packed, TensorError> {
        Packed::new(self, conv, weight, bias)
    }

    fn conv(
        &self,
        x: &Tensor,
        conv: &Packed,
        residual: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        let out = rules::conv(x.shape(), conv.spec())?;
        if let Some(residual) = residual {
            rules::equal("residual of a convolution", out, residual.shape())?;
        }
        let y = self.tensor(out)?;
        self.conv_into(x, conv, residual, &Target::whole(&y))?;
        Ok(y)
    }

    fn concat(&self, parts: &[Part<'_, Self>]) -> Result<Tensor, TensorError> {
        let shapes = parts
            .iter()
            .map(|part| match part {
                Part::Tensor(x) => Ok(x.shape()),
                Part::Conv(x, conv) => rules::conv(x.shape(), conv.spec()),
                Part::Pool(x, p) => rules::pool(x.shape(), *p),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let y = self.tensor(rules::concat(&shapes)?)?;
        let mut target = Target::whole(&y);
        for (part, shape) in parts.iter().zip(&shapes) {
            match part {
                Part::Conv(x, conv) => self.conv_into(x, conv, None, &target)?,
                Part::Pool(x, p) => self.pool_into(x, *p, &target)?,
                Part::Tensor(x) => self.copy_channels(x, &target)?,
            }
            target.first += shape.c;
        }
        Ok(y)
    }

    fn pool(&self, x: &Tensor, pool: Pool) -> Result<Tensor, TensorError> {
        let y = self.tensor(rules::pool(x.shape(), pool)?)?;
        self.pool_into(x, pool, &Target::whole(&y))?;
        Ok(y)
    }

    fn global_mean(&self, x: &Tensor) -> Tensor {
        let shape = Shape {
            h: 1,
            w: 1,
            ..x.shape()
        };
        carried(shape, self.means_of_cells(x, 1, 1))
    }

    fn adaptive_mean(
        &self,
        x: &Tensor,
        rows: usize,
        columns: usize,
    ) -> Result<Tensor, TensorError> {
        self.means_of_cells(x, rows, columns)
    }

    fn layer_norm(&self, x: &Tensor, norm: &Norm) -> Result<Tensor, TensorError> {
        self.layer_normed(x, norm)
    }

    fn group_norm(
        &self,
        x: &Tensor,
        groups: usize,
        norm: &Norm,
        modulation: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        self.group_normed(x, groups, norm, modulation, activation)
    }

    fn modulate(
        &self,
        x: &Tensor,
        modulation: &Tensor,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        self.modulated(x, modulation, activation)
    }

    fn attention(
        &self,
        qkv: &Tensor,
        attention: Attention,
        bias: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        self.attended(qkv, attention, bias)
    }

    fn add(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, TensorError> {
        self.sum(a, b)
    }

    fn activate(&self, x: &Tensor, activation: Activation) -> Tensor {
        carried(x.shape(), self.activated(x, activation))
    }

    fn affine(
        &self,
        x: &Tensor,
        order: &[usize],
        scale: &[f32],
        shift: &[f32],
    ) -> Result<Tensor, TensorError> {
        self.affine_map(x, order, scale, shift)
    }

    fn windows(&self, x: &Tensor, size: usize, shift: [usize; 2]) -> Tensor {
        let (shape, result) = self.cut_windows(x, size, shift);
        carried(shape, result)
    }

    fn unwindows(&self, x: &Tensor, size: usize, shift: [usize; 2], h: usize, w: usize) -> Tensor {
        let (shape, result) = self.joined_windows(x, size, shift, h, w);
        carried(shape, result)
    }

    fn merge_patches(&self, x: &Tensor) -> Tensor {
        let (shape, result) = self.merged_patches(x);
        carried(shape, result)
    }

    fn view(&self, x: &Tensor, shape: Shape) -> Result<Tensor, TensorError> {
        x.view(shape)
    }

    fn upsample(&self, x: &Tensor, factor: usize) -> Result<Tensor, TensorError> {
        self.upsampled(x, factor)
    }

    fn resize(
        &self,
        x: &Tensor,
        height: usize,
        width: usize,
        mode: Resize,
    ) -> Result<Tensor, TensorError> {
        self.resized(x, height, width, mode)
    }

    fn crop(
        &self,
        x: &Tensor,
        top: usize,
        left: usize,
        height: usize,
        width: usize,
    ) -> Result<Tensor, TensorError> {
        self.cropped(
            x,
            [top, left],
            rules::crop(x.shape(), top, left, height, width)?,
        )
    }

    fn resize_pixels(&self, x: &Tensor, pass: &PixelPass) -> Result<Tensor, TensorError> {
        self.pixels_resized(x, pass)
    }

    fn look_up(&self, x: &Tensor, table: &[f32; 256]) -> Result<Tensor, TensorError> {
        self.looked_up(x, table)
    }

    fn feature_distance(
        &self,
        a: &Tensor,
        b: &Tensor,
        head: &[f32],
    ) -> Result<Tensor, TensorError> {
        self.distance_map(a, b, head)
    }

    fn mean_feature_distance(
        &self,
        a: &Tensor,
        b: &Tensor,
        head: &[f32],
    ) -> Result<Vec<f64>, TensorError> {
        let means = self.mean_distances(&[Compared { a, b, head }])?;
        Ok(means.into_iter().flatten().collect())
    }

    fn mean_feature_distances(
        &self,
        compared: &[Compared<'_, Self>],
    ) -> Result<Vec<Vec<f64>>, TensorError> {
        self.mean_distances(compared)
    }

    fn feature_distances_of_pairs(
        &self,
        taps: &[Tap<'_, Self>],
        pairs: &[[usize; 2]],
    ) -> Result<Vec<Vec<f64>>, TensorError> {
        self.distances_of_pairs(taps, pairs)
    }
}
