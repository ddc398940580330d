//! [`Backend`]: shapes are checked here, the rest is in the file of the operation.

use super::Gpu;
use super::conv::{Packed, Target};
use super::driver::Driver;
use super::tensor::Tensor;
use crate::tensor::{
    Activation, Array, Attention, Backend, Compared, Conv, Norm, Part, Pool, Precision, Resize,
    Shape, TensorError, rules,
};

/// Result of an operation that cannot refuse: what went wrong goes with the tensor.
fn carried<D: Driver>(shape: Shape, result: Result<Tensor<D>, TensorError>) -> Tensor<D> {
    result.unwrap_or_else(|error| Tensor::failed(shape, error))
}

impl<D: Driver> Backend for Gpu<D> {
    type Tensor = Tensor<D>;
    type Conv = Packed<D>;

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

    fn release(&self) {
        self.constants.clear();
        self.driver.release();
    }

    fn upload(&self, array: &Array) -> Result<Tensor<D>, TensorError> {
        self.upload_array(array)
    }

    fn upload_pixels(
        &self,
        images: &[&[u8]],
        height: usize,
        width: usize,
    ) -> Result<Tensor<D>, TensorError> {
        self.upload_bytes(images, rules::pixels(images, height, width)?)
    }

    fn download(&self, tensor: &Tensor<D>) -> Result<Array, TensorError> {
        self.download_array(tensor)
    }

    fn shape(&self, tensor: &Tensor<D>) -> Shape {
        tensor.shape()
    }

    fn select(&self, tensor: &Tensor<D>, index: usize) -> Tensor<D> {
        tensor.select(index)
    }

    fn stack(&self, tensors: &[Tensor<D>]) -> Result<Tensor<D>, TensorError> {
        self.stacked(tensors)
    }

    fn prepare(&self, conv: Conv, weight: &Array, bias: &[f32]) -> Result<Packed<D>, TensorError> {
        Packed::new(self, conv, weight, bias)
    }

    fn conv(
        &self,
        x: &Tensor<D>,
        conv: &Packed<D>,
        residual: Option<&Tensor<D>>,
    ) -> Result<Tensor<D>, TensorError> {
        let out = rules::conv(x.shape(), conv.spec())?;
        if let Some(residual) = residual {
            rules::equal("residual of a convolution", out, residual.shape())?;
        }
        let y = self.tensor(out)?;
        self.conv_into(x, conv, residual, &Target::whole(&y))?;
        Ok(y)
    }

    fn concat(&self, parts: &[Part<'_, Self>]) -> Result<Tensor<D>, TensorError> {
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

    fn pool(&self, x: &Tensor<D>, pool: Pool) -> Result<Tensor<D>, TensorError> {
        let y = self.tensor(rules::pool(x.shape(), pool)?)?;
        self.pool_into(x, pool, &Target::whole(&y))?;
        Ok(y)
    }

    fn global_mean(&self, x: &Tensor<D>) -> Tensor<D> {
        let shape = Shape {
            h: 1,
            w: 1,
            ..x.shape()
        };
        carried(shape, self.means_of_cells(x, 1, 1))
    }

    fn adaptive_mean(
        &self,
        x: &Tensor<D>,
        rows: usize,
        columns: usize,
    ) -> Result<Tensor<D>, TensorError> {
        self.means_of_cells(x, rows, columns)
    }

    fn layer_norm(&self, x: &Tensor<D>, norm: &Norm) -> Result<Tensor<D>, TensorError> {
        self.layer_normed(x, norm)
    }

    fn group_norm(
        &self,
        x: &Tensor<D>,
        groups: usize,
        norm: &Norm,
        modulation: Option<&Tensor<D>>,
        activation: Activation,
    ) -> Result<Tensor<D>, TensorError> {
        self.group_normed(x, groups, norm, modulation, activation)
    }

    fn modulate(
        &self,
        x: &Tensor<D>,
        modulation: &Tensor<D>,
        activation: Activation,
    ) -> Result<Tensor<D>, TensorError> {
        self.modulated(x, modulation, activation)
    }

    fn attention(
        &self,
        qkv: &Tensor<D>,
        attention: Attention,
        bias: Option<&Tensor<D>>,
    ) -> Result<Tensor<D>, TensorError> {
        self.attended(qkv, attention, bias)
    }

    fn add(&self, a: &Tensor<D>, b: &Tensor<D>) -> Result<Tensor<D>, TensorError> {
        self.sum(a, b)
    }

    fn activate(&self, x: &Tensor<D>, activation: Activation) -> Tensor<D> {
        carried(x.shape(), self.activated(x, activation))
    }

    fn affine(
        &self,
        x: &Tensor<D>,
        order: &[usize],
        scale: &[f32],
        shift: &[f32],
    ) -> Result<Tensor<D>, TensorError> {
        self.affine_map(x, order, scale, shift)
    }

    fn windows(&self, x: &Tensor<D>, size: usize, shift: [usize; 2]) -> Tensor<D> {
        let (shape, result) = self.cut_windows(x, size, shift);
        carried(shape, result)
    }

    fn unwindows(
        &self,
        x: &Tensor<D>,
        size: usize,
        shift: [usize; 2],
        h: usize,
        w: usize,
    ) -> Tensor<D> {
        let (shape, result) = self.joined_windows(x, size, shift, h, w);
        carried(shape, result)
    }

    fn merge_patches(&self, x: &Tensor<D>) -> Tensor<D> {
        let (shape, result) = self.merged_patches(x);
        carried(shape, result)
    }

    fn view(&self, x: &Tensor<D>, shape: Shape) -> Result<Tensor<D>, TensorError> {
        x.view(shape)
    }

    fn upsample(&self, x: &Tensor<D>, factor: usize) -> Result<Tensor<D>, TensorError> {
        self.upsampled(x, factor)
    }

    fn resize(
        &self,
        x: &Tensor<D>,
        height: usize,
        width: usize,
        mode: Resize,
    ) -> Result<Tensor<D>, TensorError> {
        self.resized(x, height, width, mode)
    }

    fn crop(
        &self,
        x: &Tensor<D>,
        top: usize,
        left: usize,
        height: usize,
        width: usize,
    ) -> Result<Tensor<D>, TensorError> {
        self.cropped(
            x,
            [top, left],
            rules::crop(x.shape(), top, left, height, width)?,
        )
    }

    fn feature_distance(
        &self,
        a: &Tensor<D>,
        b: &Tensor<D>,
        head: &[f32],
    ) -> Result<Tensor<D>, TensorError> {
        self.distance_map(a, b, head)
    }

    fn mean_feature_distance(
        &self,
        a: &Tensor<D>,
        b: &Tensor<D>,
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

    fn all_pairs_feature_distance(
        &self,
        x: &Tensor<D>,
        head: &[f32],
    ) -> Result<Vec<f64>, TensorError> {
        if let Some(distances) = self.all_pairs(x, head)? {
            return Ok(distances);
        }
        // A batch that is too large for one kernel: pair after pair, waited for at the end.
        let images: Vec<Tensor<D>> = (0..x.shape().n).map(|i| x.select(i)).collect();
        let pairs = images.iter().enumerate().flat_map(|(i, a)| {
            let later = images[i + 1..].iter();
            later.map(move |b| Compared { a, b, head })
        });
        let means = self.mean_distances(&pairs.collect::<Vec<_>>())?;
        Ok(means.into_iter().flatten().collect())
    }
}
