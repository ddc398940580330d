//! The operations, with gradients, on any device of candle: compositions of candle's own.
//!
//! This is what guidance runs on where the CPU engine has no kernels, an NVIDIA GPU (feature `cuda`). Only those of
//! candle's operations are used whose gradients are right; `taped.rs` says what of them comes on the tape. On the CPU
//! it passes the suites of operations and of gradients, and [`super::candle`] is faster.
//!
//! On the CPU an image's bits do not depend on its batch. On a GPU they may, in the last places: cuBLAS picks its
//! kernels by the size of a product, and candle's convolution takes a batch as one.

mod attention;
mod axis;
mod conv;
mod distance;
mod function;
mod layout;
mod max_pool;
mod norm;
mod taped;
pub(super) mod torso;

pub use conv::Prepared;

use candle_core::{DType, Device};

use super::candle::{Candle, Differentiable, Tensor, constant};
use super::cpu::Cpu;
use super::{
    Activation, Array, Attention, Backend, Conv, DeviceError, Kept, Norm, Part, Piece, Pool,
    PoolKind, Resize, Shape, TensorError, rules,
};
use taped::{composed, recomputed};

/// A device of candle.
#[derive(Clone, Debug)]
pub struct Composed {
    device: Device,
}

impl Composed {
    pub fn on_cpu() -> Self {
        Self {
            device: Device::Cpu,
        }
    }

    /// The NVIDIA GPU of this number. A program built without the feature `cuda` has none.
    pub fn on_cuda(number: usize) -> Result<Self, DeviceError> {
        let absent = |why: String| DeviceError::Absent {
            device: format!("cuda:{number}"),
            why,
        };
        if !cfg!(feature = "cuda") {
            return Err(absent(
                "this program computes no gradients on GPUs; build it with `cargo install --path . --features cuda` \
                 where the CUDA toolkit is installed, or use --device cpu"
                    .into(),
            ));
        }
        let device = Device::new_cuda(number).map_err(|e| absent(e.to_string()))?;
        Ok(Self { device })
    }

    fn constants(&self, norm: &Norm) -> candle_core::Result<norm::Constants> {
        Ok(norm::Constants {
            weight: self.values(&norm.weight)?,
            bias: self.values(&norm.bias)?,
            epsilon: f64::from(norm.epsilon),
        })
    }

    fn values(&self, values: &[f32]) -> candle_core::Result<candle_core::Tensor> {
        candle_core::Tensor::from_slice(values, values.len(), &self.device)
    }

    fn places(
        &self,
        places: impl Iterator<Item = usize>,
    ) -> candle_core::Result<candle_core::Tensor> {
        let places: Vec<u32> = places.map(|at| at as u32).collect();
        let count = places.len();
        candle_core::Tensor::from_vec(places, count, &self.device)
    }

    /// The result of a composition, whose shape is known; of nothing it is nothing.
    fn made(
        &self,
        shape: Shape,
        made: impl FnOnce() -> candle_core::Result<candle_core::Tensor>,
    ) -> Result<Tensor, TensorError> {
        let made = match shape.is_empty() {
            true => candle_core::Tensor::zeros(sides(shape), DType::F32, &self.device),
            false => made(),
        };
        let tensor = Tensor::new(&made.map_err(failure)?)?;
        rules::equal("composition", shape, tensor.shape())?;
        Ok(tensor)
    }
}

fn sides(shape: Shape) -> (usize, usize, usize, usize) {
    (shape.n, shape.h, shape.w, shape.c)
}

/// What candle says, as our error.
fn failure(error: candle_core::Error) -> TensorError {
    let said = error.to_string();
    TensorError::Device(match said.contains("OUT_OF_MEMORY") {
        true => format!("the GPU has no memory left; use a smaller --batch ({said})"),
        false => said,
    })
}

/// For operations that cannot refuse: what went wrong goes with the tensor, to whatever uses it next.
fn carried(shape: Shape, result: Result<Tensor, TensorError>) -> Tensor {
    result.unwrap_or_else(|error| Tensor::failed(shape, error))
}

impl Differentiable for Composed {
    fn device(&self) -> Device {
        self.device.clone()
    }
}

impl Backend for Composed {
    type Tensor = Tensor;
    type Conv = Prepared;

    fn describe(&self) -> String {
        match self.device.location() {
            candle_core::DeviceLocation::Cuda { gpu_id } => format!("candle on cuda:{gpu_id}"),
            _ => "candle's own operations on the CPU".into(),
        }
    }

    fn arithmetic(&self) -> &'static str {
        match self.device.is_cpu() {
            true => "f32 of candle",
            false => "f32 of candle on CUDA",
        }
    }

    fn wait(&self) -> Result<(), TensorError> {
        self.device.synchronize().map_err(failure)
    }

    fn piece(
        &self,
        inputs: &[Tensor],
        checkpointing: bool,
        piece: Piece<Self>,
    ) -> Result<Tensor, TensorError> {
        let on = self.clone();
        let again = move |arguments: &[&candle_core::Tensor]| {
            let inputs = arguments.iter().map(|x| Tensor::new(x));
            let result = inputs
                .collect::<Result<Vec<_>, _>>()
                .and_then(|inputs| piece(&on, &inputs)?.sound().cloned());
            result.map_err(|e| candle_core::Error::Msg(e.to_string()))
        };
        let sound = inputs.iter().map(Tensor::sound);
        let made = match sound.collect::<Result<Vec<_>, _>>()?[..] {
            [x] if checkpointing => recomputed([x], move |x| again(&x)),
            [a, b] if checkpointing => recomputed([a, b], move |ab| again(&ab)),
            ref all => again(all),
        };
        Tensor::new(&made.map_err(failure)?)
    }

    fn torso<E: From<TensorError>>(
        &self,
        x: &Tensor,
        kept: Kept,
        inside: impl FnOnce(Tensor) -> Result<Tensor, E>,
    ) -> Result<Tensor, E> {
        torso::run(x, kept, inside)
    }

    fn upload(&self, array: &Array) -> Result<Tensor, TensorError> {
        Candle.upload(array)?.on(&self.device)
    }

    fn upload_pixels(
        &self,
        images: &[&[u8]],
        height: usize,
        width: usize,
    ) -> Result<Tensor, TensorError> {
        Candle
            .upload_pixels(images, height, width)?
            .on(&self.device)
    }

    fn download(&self, tensor: &Tensor) -> Result<Array, TensorError> {
        Candle.download(tensor)
    }

    fn shape(&self, tensor: &Tensor) -> Shape {
        tensor.shape()
    }

    fn select(&self, tensor: &Tensor, index: usize) -> Tensor {
        let shape = Shape {
            n: 1,
            ..tensor.shape()
        };
        let image = tensor
            .sound()
            .and_then(|x| self.made(shape, || x.narrow(0, index, 1)));
        carried(shape, image)
    }

    fn stack(&self, tensors: &[Tensor]) -> Result<Tensor, TensorError> {
        let shapes: Vec<Shape> = tensors.iter().map(Tensor::shape).collect();
        let shape = rules::stack(&shapes)?;
        let parts = tensors.iter().map(Tensor::sound);
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        self.made(shape, || candle_core::Tensor::cat(&parts, 0))
    }

    fn prepare(&self, conv: Conv, weight: &Array, bias: &[f32]) -> Result<Prepared, TensorError> {
        Prepared::new(conv, weight, bias, &self.device)
    }

    fn conv(
        &self,
        x: &Tensor,
        conv: &Prepared,
        residual: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        let shape = rules::conv(x.shape(), conv.spec())?;
        let input = x.sound()?;
        let y = self.made(shape, || conv.run(input))?;
        let y = match residual {
            None => y,
            Some(residual) => {
                rules::equal("residual", shape, residual.shape())?;
                self.add(&y, residual)?
            }
        };
        self.activated(&y, conv.spec().activation)
    }

    fn concat(&self, parts: &[Part<'_, Self>]) -> Result<Tensor, TensorError> {
        let whole = parts.iter().map(|part| match *part {
            Part::Tensor(x) => Ok(x.clone()),
            Part::Conv(x, conv) => self.conv(x, conv, None),
            Part::Pool(x, pool) => self.pool(x, pool),
        });
        let whole = whole.collect::<Result<Vec<_>, _>>()?;
        let shapes: Vec<Shape> = whole.iter().map(Tensor::shape).collect();
        let shape = rules::concat(&shapes)?;
        let parts = whole.iter().map(Tensor::sound);
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        self.made(shape, || candle_core::Tensor::cat(&parts, 3))
    }

    fn pool(&self, x: &Tensor, pool: Pool) -> Result<Tensor, TensorError> {
        let (from, to) = (x.shape(), rules::pool(x.shape(), pool)?);
        let x = x.sound()?;
        self.made(to, || match pool.kind {
            PoolKind::Max => composed([x], move |[x]| max_pool::max_pool(x, pool, to.h, to.w)),
            PoolKind::Mean { .. } => {
                let rows = axis::pooled(pool, from.h, to.h);
                let columns = axis::pooled(pool, from.w, to.w);
                axis::mapped(x, &rows, &columns, DType::F32)
            }
        })
    }

    fn global_mean(&self, x: &Tensor) -> Tensor {
        let shape = Shape {
            h: 1,
            w: 1,
            ..x.shape()
        };
        let mean = match self.adaptive_mean(x, 1, 1) {
            Err(TensorError::Shape { .. }) => {
                let mean = |x| constant(Cpu.global_mean(&x))?.on(&self.device);
                x.for_engine().and_then(mean)
            }
            mean => mean,
        };
        carried(shape, mean)
    }

    /// In f64, as everywhere.
    fn adaptive_mean(
        &self,
        x: &Tensor,
        rows: usize,
        columns: usize,
    ) -> Result<Tensor, TensorError> {
        let from = x.shape();
        let shape = rules::adaptive_mean(from, rows, columns)?;
        let x = x.sound()?;
        self.made(shape, || {
            let rows = axis::cells(from.h, rows);
            let columns = axis::cells(from.w, columns);
            axis::mapped(x, &rows, &columns, DType::F64)
        })
    }

    fn layer_norm(&self, x: &Tensor, norm: &Norm) -> Result<Tensor, TensorError> {
        rules::norm("layer norm", x.shape(), norm, 1)?;
        let input = x.sound()?;
        self.made(x.shape(), || {
            let constants = self.constants(norm)?;
            composed([input], move |[x]| norm::layer(x, &constants))
        })
    }

    fn group_norm(
        &self,
        x: &Tensor,
        groups: usize,
        norm: &Norm,
        modulation: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        rules::norm("group norm", x.shape(), norm, groups)?;
        if let Some(m) = modulation {
            rules::modulation("group norm", x.shape(), m.shape())?;
        }
        let input = x.sound()?;
        let modulation = modulation.map(Tensor::sound).transpose()?;
        self.made(x.shape(), || {
            let norm = self.constants(norm)?;
            match modulation {
                None => composed([input], move |[x]| {
                    norm::group(x, groups, &norm, None, activation)
                }),
                Some(modulation) => composed([input, modulation], move |[x, m]| {
                    norm::group(x, groups, &norm, Some(m), activation)
                }),
            }
        })
    }

    fn modulate(
        &self,
        x: &Tensor,
        modulation: &Tensor,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        rules::modulation("modulation", x.shape(), modulation.shape())?;
        let arguments = [x.sound()?, modulation.sound()?];
        self.made(x.shape(), || {
            composed(arguments, move |[x, m]| {
                function::modulate(x, m, false, activation)
            })
        })
    }

    fn attention(
        &self,
        qkv: &Tensor,
        attention: Attention,
        bias: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        let shape = rules::attention(qkv.shape(), attention, bias.map(Tensor::shape))?;
        let input = qkv.sound()?;
        let Some(bias) = bias else {
            return self.made(shape, || {
                composed([input], move |[x]| attention::attention(x, attention, None))
            });
        };
        let (windows, bias) = (bias.shape().n, bias.sound()?);
        self.made(shape, || {
            let window = self.places((0..shape.n).map(|i| i % windows))?;
            composed([input, bias], move |[x, bias]| {
                let bias = bias.index_select(&window, 0)?;
                attention::attention(x, attention, Some(&bias))
            })
        })
    }

    fn add(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, TensorError> {
        rules::add(a.shape(), b.shape())?;
        let arguments = [a.sound()?, b.sound()?];
        self.made(a.shape(), || {
            composed(arguments, |[a, b]| a.broadcast_add(b))
        })
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
        let shape = rules::affine(x.shape(), order, scale, shift)?;
        let x = x.sound()?;
        self.made(shape, || {
            let order = self.places(order.iter().copied())?;
            let (scale, shift) = (self.values(scale)?, self.values(shift)?);
            composed([x], move |[x]| function::affine(x, &order, &scale, &shift))
        })
    }

    fn windows(&self, x: &Tensor, size: usize, shift: [usize; 2]) -> Tensor {
        let s = x.shape();
        let windows = s.n * s.h.div_ceil(size) * s.w.div_ceil(size);
        let shape = Shape::new(windows, 1, size * size, s.c);
        let cut = x
            .sound()
            .and_then(|x| self.made(shape, || layout::windows(x, size, shift)));
        carried(shape, cut)
    }

    fn unwindows(&self, x: &Tensor, size: usize, shift: [usize; 2], h: usize, w: usize) -> Tensor {
        let windows = h.div_ceil(size) * w.div_ceil(size);
        let shape = Shape::new(x.shape().n / windows.max(1), h, w, x.shape().c);
        let joined = x
            .sound()
            .and_then(|x| self.made(shape, || layout::unwindows(x, size, shift, h, w)));
        carried(shape, joined)
    }

    fn merge_patches(&self, x: &Tensor) -> Tensor {
        let s = x.shape();
        let shape = Shape::new(s.n, s.h.div_ceil(2), s.w.div_ceil(2), 4 * s.c);
        let merged = x
            .sound()
            .and_then(|x| self.made(shape, || layout::merge_patches(x)));
        carried(shape, merged)
    }

    fn view(&self, x: &Tensor, shape: Shape) -> Result<Tensor, TensorError> {
        rules::view(x.shape(), shape)?;
        let x = x.sound()?;
        self.made(shape, || x.reshape(sides(shape)))
    }

    fn upsample(&self, x: &Tensor, factor: usize) -> Result<Tensor, TensorError> {
        let shape = rules::upsample(x.shape(), factor)?;
        let x = x.sound()?;
        self.made(shape, || layout::upsample(x, factor))
    }

    fn resize(
        &self,
        x: &Tensor,
        height: usize,
        width: usize,
        mode: Resize,
    ) -> Result<Tensor, TensorError> {
        let from = x.shape();
        let to = rules::resize(from, height, width)?;
        let x = x.sound()?;
        self.made(to, || {
            let rows = axis::resized(mode, from.h, to.h);
            let columns = axis::resized(mode, from.w, to.w);
            axis::mapped(x, &rows, &columns, DType::F32)
        })
    }

    fn crop(
        &self,
        x: &Tensor,
        top: usize,
        left: usize,
        height: usize,
        width: usize,
    ) -> Result<Tensor, TensorError> {
        let shape = rules::crop(x.shape(), top, left, height, width)?;
        let x = x.sound()?;
        self.made(shape, || x.narrow(1, top, height)?.narrow(2, left, width))
    }

    fn feature_distance(
        &self,
        a: &Tensor,
        b: &Tensor,
        head: &[f32],
    ) -> Result<Tensor, TensorError> {
        let shape = rules::feature_distance(a.shape(), b.shape(), head)?;
        let arguments = [a.sound()?, b.sound()?];
        self.made(shape, || {
            let head = self.values(head)?;
            composed(arguments, move |[a, b]| {
                distance::feature_distance(a, b, &head)
            })
        })
    }

    /// Numbers only: for a distance with a gradient take the mean of [`Backend::feature_distance`].
    fn mean_feature_distance(
        &self,
        a: &Tensor,
        b: &Tensor,
        head: &[f32],
    ) -> Result<Vec<f64>, TensorError> {
        let map = self.feature_distance(a, b, head)?;
        let values = self.download(&map)?.data;
        let pixels = map.shape().image().max(1);
        let means = values.chunks(pixels).map(|image| {
            let sum: f64 = image.iter().map(|&v| f64::from(v)).sum();
            sum / pixels as f64
        });
        Ok(means.collect())
    }
}

impl Composed {
    fn activated(&self, x: &Tensor, activation: Activation) -> Result<Tensor, TensorError> {
        let input = x.sound()?;
        if activation == Activation::None {
            return Ok(x.clone());
        }
        self.made(x.shape(), || {
            composed([input], move |[x]| function::activate(x, activation))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_comes_out_where_it_can() {
        let device = Composed::on_cpu();
        let shape = Shape::new(2, 3, 4, 5);
        let full = TensorError::Device("the memory is full".into());
        let failed = Tensor::failed(shape, full.clone());
        // Through operations that cannot refuse, up to the first that can.
        let later = device.global_mean(&device.activate(&failed, Activation::Silu));
        assert_eq!(device.shape(&later), Shape::new(2, 1, 1, 5));
        assert_eq!(device.download(&later).unwrap_err(), full);
        assert_eq!(device.upsample(&failed, 2).unwrap_err(), full);
    }
}
