//! The candle device: the same operations with gradients.
//!
//! Networks run on it where a gradient is needed: guidance, and training of small networks. Forward passes are the
//! CPU engine's; every operation states its own way back, because candle's gradients of several operations are wrong
//! or missing. Call `backward` on a candle tensor ([`Tensor::candle`]) and look up the gradient of a
//! [`candle_core::Var`] as usual. Gradients do not depend on the number of threads.

mod activation;
mod attention;
mod batch_norm;
mod checkpoint;
mod conv;
mod differentiable;
mod distance;
mod input_gradient;
mod layer_norm;
mod layout;
mod linear_map;
mod matmul;
mod max_pool;
mod modulate;
mod norm;
mod operation;
mod outer;
mod slope;
mod tensor;
mod trainable_conv;
mod trainable_norm;
mod training;
mod weight_gradient;

pub use conv::Prepared;
pub use differentiable::Differentiable;
pub use operation::{Gradient, Operation, Output, unary};
pub use tensor::Tensor;
pub use tensor::View;
pub use training::{Trained, Training};

use candle_core::Var;

use super::cpu::Cpu;
use super::{
    Activation, Array, Attention, Backend, Conv, Kept, Norm, Part, Piece, Pool, PoolKind, Resize,
    Shape, TensorError,
};
use layout::Move;
use linear_map::LinearMap;
use operation::binary;
use tensor::{dims, from_candle};

/// Devices of candle that the operations have kernels for: the CPU. Work runs on rayon's current thread pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Candle;

impl Candle {
    /// A convolution whose weights are being trained: OIHW (or `[o, i]`) and, if any, `[o]`.
    pub fn prepare_trainable(
        &self,
        conv: Conv,
        weight: &Var,
        bias: Option<&Var>,
    ) -> Result<Prepared, TensorError> {
        Prepared::trainable(conv, weight, bias)
    }

    /// [`Backend::layer_norm`] with scale and shift `[c]` that are being trained.
    pub fn trainable_layer_norm(
        &self,
        x: &Tensor,
        weight: &Var,
        bias: &Var,
        epsilon: f32,
    ) -> Result<Tensor, TensorError> {
        trainable_norm::layer_norm(x, weight, bias, epsilon)
    }

    /// [`Backend::group_norm`] with scale and shift `[c]` that are being trained.
    pub fn trainable_group_norm(
        &self,
        x: &Tensor,
        norm: trainable_norm::TrainableNorm<'_>,
        modulation: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        trainable_norm::group_norm(x, norm, modulation, activation)
    }
}

pub use trainable_norm::TrainableNorm;

impl Differentiable for Candle {
    fn device(&self) -> candle_core::Device {
        candle_core::Device::Cpu
    }
}

/// For operations that the trait promises to succeed: they can only fail if candle itself is broken.
fn sound(result: Result<Tensor, TensorError>) -> Tensor {
    match result {
        Ok(tensor) => tensor,
        Err(error) => unreachable!("{error}"),
    }
}

impl Backend for Candle {
    type Tensor = Tensor;
    type Conv = Prepared;

    fn describe(&self) -> String {
        format!("candle on {}", Cpu.describe())
    }

    fn arithmetic(&self) -> &'static str {
        Cpu.arithmetic()
    }

    fn piece(
        &self,
        inputs: &[Tensor],
        checkpointing: bool,
        piece: Piece<Self>,
    ) -> Result<Tensor, TensorError> {
        checkpoint::run(inputs, checkpointing, piece)
    }

    fn torso<E: From<TensorError>>(
        &self,
        x: &Tensor,
        kept: Kept,
        inside: impl FnOnce(Tensor) -> Result<Tensor, E>,
    ) -> Result<Tensor, E> {
        super::composed::torso::run(x, kept, inside)
    }

    fn upload(&self, array: &Array) -> Result<Tensor, TensorError> {
        constant(Cpu.upload(array)?)
    }

    fn upload_pixels(
        &self,
        images: &[&[u8]],
        height: usize,
        width: usize,
    ) -> Result<Tensor, TensorError> {
        constant(Cpu.upload_pixels(images, height, width)?)
    }

    fn download(&self, tensor: &Tensor) -> Result<Array, TensorError> {
        Cpu.download(&tensor.for_engine()?)
    }

    fn shape(&self, tensor: &Tensor) -> Shape {
        tensor.shape()
    }

    fn select(&self, tensor: &Tensor, index: usize) -> Tensor {
        let image = tensor.candle().narrow(0, index, 1).map_err(from_candle);
        sound(image.and_then(|t| Tensor::new(&t)))
    }

    fn stack(&self, tensors: &[Tensor]) -> Result<Tensor, TensorError> {
        let Some(first) = tensors.first().map(Tensor::shape) else {
            return Err(TensorError::Shape {
                operation: "stack",
                expected: "at least one tensor".into(),
                found: "none".into(),
            });
        };
        for tensor in tensors {
            let n = tensor.shape().n;
            super::rules::equal("stack", Shape { n, ..first }, tensor.shape())?;
        }
        let parts: Vec<_> = tensors.iter().map(Tensor::candle).collect();
        Tensor::new(&candle_core::Tensor::cat(&parts, 0).map_err(from_candle)?)
    }

    fn prepare(&self, conv: Conv, weight: &Array, bias: &[f32]) -> Result<Prepared, TensorError> {
        Prepared::constant(conv, weight, bias)
    }

    fn conv(
        &self,
        x: &Tensor,
        conv: &Prepared,
        residual: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        conv.run(x, residual)
    }

    fn concat(&self, parts: &[Part<'_, Self>]) -> Result<Tensor, TensorError> {
        let mut joined: Option<Tensor> = None;
        for part in parts {
            let part = match *part {
                Part::Tensor(x) => x.clone(),
                Part::Conv(x, conv) => self.conv(x, conv, None)?,
                Part::Pool(x, pool) => self.pool(x, pool)?,
            };
            joined = Some(match joined {
                None => part,
                Some(before) => binary(layout::Concat, before.candle(), part.candle())?,
            });
        }
        joined.ok_or_else(|| TensorError::Shape {
            operation: "concatenation",
            expected: "at least one part".into(),
            found: "none".into(),
        })
    }

    fn pool(&self, x: &Tensor, pool: Pool) -> Result<Tensor, TensorError> {
        match pool.kind {
            PoolKind::Max => unary(max_pool::MaxPool(pool), x),
            PoolKind::Mean { .. } => unary(LinearMap::MeanPool(pool), x),
        }
    }

    fn global_mean(&self, x: &Tensor) -> Tensor {
        let mean = self.adaptive_mean(x, 1, 1);
        let of_nothing = |_| constant(Cpu.global_mean(&x.for_engine()?));
        sound(mean.or_else(of_nothing))
    }

    fn adaptive_mean(
        &self,
        x: &Tensor,
        rows: usize,
        columns: usize,
    ) -> Result<Tensor, TensorError> {
        unary(LinearMap::Grid { rows, columns }, x)
    }

    fn layer_norm(&self, x: &Tensor, norm: &Norm) -> Result<Tensor, TensorError> {
        unary(layer_norm::LayerNorm(norm.clone()), x)
    }

    fn group_norm(
        &self,
        x: &Tensor,
        groups: usize,
        norm: &Norm,
        modulation: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        let operation = norm::GroupNorm {
            groups,
            epsilon: norm.epsilon,
            activation,
            norm: Some(norm.clone()),
        };
        match modulation {
            None => unary(operation, x),
            Some(m) => binary(operation, x.candle(), m.candle()),
        }
    }

    fn modulate(
        &self,
        x: &Tensor,
        modulation: &Tensor,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        let operation = modulate::Modulate(activation);
        binary(operation, x.candle(), modulation.candle())
    }

    fn attention(
        &self,
        qkv: &Tensor,
        attention: Attention,
        bias: Option<&Tensor>,
    ) -> Result<Tensor, TensorError> {
        let operation = attention::Attention(attention);
        match bias {
            None => unary(operation, qkv),
            Some(bias) => binary(operation, qkv.candle(), bias.candle()),
        }
    }

    fn add(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, TensorError> {
        binary(activation::Add, a.candle(), b.candle())
    }

    fn activate(&self, x: &Tensor, activation: Activation) -> Tensor {
        if activation == Activation::None {
            return x.clone();
        }
        sound(unary(activation::Activate(activation), x))
    }

    fn affine(
        &self,
        x: &Tensor,
        order: &[usize],
        scale: &[f32],
        shift: &[f32],
    ) -> Result<Tensor, TensorError> {
        let operation = activation::ChannelAffine {
            order: order.to_vec(),
            scale: scale.to_vec(),
            shift: shift.to_vec(),
        };
        unary(operation, x)
    }

    fn windows(&self, x: &Tensor, size: usize, shift: [usize; 2]) -> Tensor {
        sound(unary(Move::Windows { size, shift }, x))
    }

    fn unwindows(&self, x: &Tensor, size: usize, shift: [usize; 2], h: usize, w: usize) -> Tensor {
        sound(unary(Move::Unwindows { size, shift, h, w }, x))
    }

    fn merge_patches(&self, x: &Tensor) -> Tensor {
        sound(unary(Move::MergePatches, x))
    }

    fn view(&self, x: &Tensor, shape: Shape) -> Result<Tensor, TensorError> {
        super::rules::view(x.shape(), shape)?;
        Tensor::new(&x.candle().reshape(dims(shape)).map_err(from_candle)?)
    }

    fn upsample(&self, x: &Tensor, factor: usize) -> Result<Tensor, TensorError> {
        unary(Move::Upsample(factor), x)
    }

    fn resize(
        &self,
        x: &Tensor,
        height: usize,
        width: usize,
        mode: Resize,
    ) -> Result<Tensor, TensorError> {
        let (h, w) = (height, width);
        unary(LinearMap::Resize { h, w, mode }, x)
    }

    fn crop(
        &self,
        x: &Tensor,
        top: usize,
        left: usize,
        height: usize,
        width: usize,
    ) -> Result<Tensor, TensorError> {
        let (h, w) = (height, width);
        unary(Move::Crop { top, left, h, w }, x)
    }

    fn feature_distance(
        &self,
        a: &Tensor,
        b: &Tensor,
        head: &[f32],
    ) -> Result<Tensor, TensorError> {
        let operation = distance::FeatureDistance(head.to_vec());
        binary(operation, a.candle(), b.candle())
    }

    /// Numbers only: for a distance with a gradient take the mean of [`Backend::feature_distance`].
    fn mean_feature_distance(
        &self,
        a: &Tensor,
        b: &Tensor,
        head: &[f32],
    ) -> Result<Vec<f64>, TensorError> {
        Cpu.mean_feature_distance(&a.for_engine()?, &b.for_engine()?, head)
    }
}

/// An activation without a history.
pub(super) fn constant(tensor: super::cpu::Tensor) -> Result<Tensor, TensorError> {
    let shape = dims(tensor.shape());
    let data = tensor.into_data();
    let inner = candle_core::Tensor::from_vec(data, shape, &candle_core::Device::Cpu);
    Tensor::new(&inner.map_err(from_candle)?)
}
