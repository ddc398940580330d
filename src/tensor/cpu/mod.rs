//! The CPU device: own kernels, NHWC, parallel over images and bands of rows, nothing to install.
//!
//! One file per group of operations; the instruction set is chosen at run time (`simd`).

#[cfg(any(target_arch = "x86_64", test))]
mod amx;
mod arena;
mod attention;
pub(super) mod buffer;
pub(super) mod conv;
mod depthwise;
pub mod differences;
mod direct;
mod distance;
pub(super) mod elementwise;
pub(super) mod functions;
mod layout;
pub mod near_rows;
mod norm;
pub mod perceptron;
pub(super) mod pool;
mod probe;
pub mod relu_rows;
mod resize;
pub(super) mod simd;
mod softmax;
mod tensor;
mod tile;
mod transfer;
mod units;
mod winograd;

pub use buffer::memory;
pub use conv::Packed;
pub use probe::copy_speed;
pub use simd::{Isa, allow_fast, forced};
pub use tensor::Tensor;

use buffer::Buffer;
use conv::Target;

use super::{
    Activation, Array, Attention, Backend, Conv, Norm, Part, Pool, Resize, Shape, TensorError,
    rules,
};

/// The CPU device. Work runs on rayon's current thread pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

/// Instruction set and number of threads, for people.
pub fn describe() -> String {
    format!(
        "{}, {} threads",
        Isa::detected().name(),
        rayon::current_num_threads()
    )
}

impl Backend for Cpu {
    type Tensor = Tensor;
    type Conv = Packed;

    fn describe(&self) -> String {
        format!("cpu ({})", Isa::detected().name())
    }

    fn arithmetic(&self) -> &'static str {
        match Isa::detected() {
            Isa::Amx | Isa::AmxWritten => "bf16x3",
            _ => "f32",
        }
    }

    /// The activations of one image stay in the caches.
    fn one_by_one(&self) -> bool {
        true
    }

    fn release(&self) {
        buffer::release();
    }

    fn upload(&self, array: &Array) -> Result<Tensor, TensorError> {
        let shape = rules::upload(array)?;
        Ok(match array.shape.len() {
            2 => Tensor::new(shape, Buffer::from(&array.data[..])),
            _ => transfer::upload(&array.data, shape),
        })
    }

    fn upload_pixels(
        &self,
        images: &[&[u8]],
        height: usize,
        width: usize,
    ) -> Result<Tensor, TensorError> {
        let shape = rules::pixels(images, height, width)?;
        Ok(transfer::upload_pixels(images, shape))
    }

    fn download(&self, tensor: &Tensor) -> Result<Array, TensorError> {
        let s = tensor.shape();
        if s.h == 1 && s.w == 1 {
            return Array::new([s.n, s.c], tensor.data().to_vec());
        }
        Ok(transfer::download(tensor))
    }

    fn shape(&self, tensor: &Tensor) -> Shape {
        tensor.shape()
    }

    fn select(&self, tensor: &Tensor, index: usize) -> Tensor {
        tensor.select(index)
    }

    fn stack(&self, tensors: &[Tensor]) -> Result<Tensor, TensorError> {
        layout::stack(tensors)
    }

    fn prepare(&self, conv: Conv, weight: &Array, bias: &[f32]) -> Result<Packed, TensorError> {
        Packed::new(conv, weight, bias)
    }

    fn conv(
        &self,
        x: &Tensor,
        conv: &Packed,
        residual: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        conv::run(x, conv, residual)
    }

    fn concat(&self, parts: &[Part<'_, Self>]) -> Result<Tensor, TensorError> {
        let shapes = parts
            .iter()
            .map(|part| match part {
                Part::Tensor(x) => Ok(x.shape()),
                Part::Conv(x, conv) => rules::conv(x.shape(), &conv.spec),
                Part::Pool(x, p) => rules::pool(x.shape(), *p),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let out = rules::concat(&shapes)?;
        let channels = out.c;
        let mut data = Buffer::take(out.len());
        let mut at = 0;
        for (part, shape) in parts.iter().zip(&shapes) {
            let target = Target {
                data: &mut data,
                channels,
                first: at,
            };
            match part {
                Part::Conv(x, conv) => conv::run_into(x.data(), x.shape(), conv, None, target)?,
                Part::Pool(x, p) => pool::run_into(x, *p, target)?,
                Part::Tensor(x) => {
                    layout::copy_channels(x.data(), shape.c, target.data, channels, at);
                }
            }
            at += shape.c;
        }
        Ok(Tensor::new(out, data))
    }

    fn pool(&self, x: &Tensor, pool: Pool) -> Result<Tensor, TensorError> {
        pool::run(x, pool)
    }

    fn global_mean(&self, x: &Tensor) -> Tensor {
        pool::adaptive_mean(x, 1, 1).unwrap_or_else(|_| {
            let s = x.shape();
            let mut data = Buffer::take(s.n * s.c);
            data.fill(f32::NAN);
            Tensor::new(Shape::new(s.n, 1, 1, s.c), data)
        })
    }

    fn adaptive_mean(
        &self,
        x: &Tensor,
        rows: usize,
        columns: usize,
    ) -> Result<Tensor, TensorError> {
        pool::adaptive_mean(x, rows, columns)
    }

    fn layer_norm(&self, x: &Tensor, norm: &Norm) -> Result<Tensor, TensorError> {
        norm::layer(x, norm)
    }

    fn group_norm(
        &self,
        x: &Tensor,
        groups: usize,
        norm: &Norm,
        modulation: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        norm::group(x, groups, norm, modulation, activation)
    }

    fn modulate(
        &self,
        x: &Tensor,
        modulation: &Tensor,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        norm::modulate(x, modulation, activation)
    }

    fn attention(
        &self,
        qkv: &Tensor,
        attention: Attention,
        bias: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        attention::run(qkv, attention, bias)
    }

    fn add(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, TensorError> {
        elementwise::add(a, b)
    }

    fn activate(&self, x: &Tensor, activation: Activation) -> Tensor {
        elementwise::activate(x, activation)
    }

    fn affine(
        &self,
        x: &Tensor,
        order: &[usize],
        scale: &[f32],
        shift: &[f32],
    ) -> Result<Tensor, TensorError> {
        elementwise::affine(x, order, scale, shift)
    }

    fn windows(&self, x: &Tensor, size: usize, shift: [usize; 2]) -> Tensor {
        layout::windows(x, size, shift)
    }

    fn unwindows(&self, x: &Tensor, size: usize, shift: [usize; 2], h: usize, w: usize) -> Tensor {
        layout::unwindows(x, size, shift, h, w)
    }

    fn merge_patches(&self, x: &Tensor) -> Tensor {
        layout::merge_patches(x)
    }

    fn view(&self, x: &Tensor, shape: Shape) -> Result<Tensor, TensorError> {
        x.view(shape)
    }

    fn upsample(&self, x: &Tensor, factor: usize) -> Result<Tensor, TensorError> {
        layout::upsample(x, factor)
    }

    fn resize(
        &self,
        x: &Tensor,
        height: usize,
        width: usize,
        mode: Resize,
    ) -> Result<Tensor, TensorError> {
        resize::run(x, height, width, mode)
    }

    fn crop(
        &self,
        x: &Tensor,
        top: usize,
        left: usize,
        height: usize,
        width: usize,
    ) -> Result<Tensor, TensorError> {
        layout::crop(x, top, left, height, width)
    }

    fn look_up(&self, x: &Tensor, table: &[f32; 256]) -> Result<Tensor, TensorError> {
        Ok(elementwise::look_up(x, table))
    }

    fn feature_distance(
        &self,
        a: &Tensor,
        b: &Tensor,
        head: &[f32],
    ) -> Result<Tensor, TensorError> {
        distance::map(a, b, head)
    }

    fn mean_feature_distance(
        &self,
        a: &Tensor,
        b: &Tensor,
        head: &[f32],
    ) -> Result<Vec<f64>, TensorError> {
        distance::mean(a, b, head)
    }
}
