//! Activations as candle tensors: `[n, h, w, c]`, contiguous f32.

use candle_core::{CpuStorage, DType, Layout, Storage};

use crate::tensor::{Shape, TensorError, cpu};

/// An NHWC activation that remembers how it was computed, so that gradients can flow back through it.
#[derive(Clone, Debug)]
pub struct Tensor {
    inner: candle_core::Tensor,
    shape: Shape,
}

impl Tensor {
    /// Wraps a candle tensor `[n, h, w, c]` (or `[n, c]`) of type f32; gradients flow through to it.
    pub fn new(tensor: &candle_core::Tensor) -> Result<Self, TensorError> {
        let shape = match *tensor.dims() {
            [n, h, w, c] => Shape::new(n, h, w, c),
            [n, c] => Shape::new(n, 1, 1, c),
            _ => return Err(unexpected(tensor)),
        };
        if tensor.dtype() != DType::F32 || !tensor.device().is_cpu() {
            return Err(unexpected(tensor));
        }
        let inner = match tensor.rank() {
            4 => tensor.contiguous(),
            _ => tensor.reshape(dims(shape)).and_then(|t| t.contiguous()),
        };
        Ok(Self {
            inner: inner.map_err(from_candle)?,
            shape,
        })
    }

    /// The candle tensor `[n, h, w, c]`.
    pub fn candle(&self) -> &candle_core::Tensor {
        &self.inner
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The same values for the CPU engine.
    pub(super) fn for_engine(&self) -> cpu::Tensor {
        read(&self.inner, |view| view.for_engine())
            .unwrap_or_else(|error| unreachable!("checked when it was made: {error}"))
    }
}

fn unexpected(tensor: &candle_core::Tensor) -> TensorError {
    TensorError::Shape {
        operation: "candle tensor",
        expected: "[n, h, w, c] or [n, c] of F32 on the CPU".into(),
        found: format!("{:?} of {:?}", tensor.dims(), tensor.dtype()),
    }
}

/// The four lengths as candle wants them.
pub fn dims(shape: Shape) -> (usize, usize, usize, usize) {
    (shape.n, shape.h, shape.w, shape.c)
}

/// What candle says, as our error.
pub fn from_candle(error: candle_core::Error) -> TensorError {
    TensorError::Device(error.to_string())
}

/// Our error, as candle's.
pub fn to_candle(error: TensorError) -> candle_core::Error {
    candle_core::Error::Msg(error.to_string())
}

/// The values of one argument of an operation.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub shape: Shape,
    pub data: &'a [f32],
}

impl<'a> View<'a> {
    pub fn new(storage: &'a CpuStorage, layout: &Layout) -> candle_core::Result<Self> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            return Err(candle_core::Error::Msg("values are not contiguous".into()));
        };
        let shape = match *layout.dims() {
            [n, h, w, c] => Shape::new(n, h, w, c),
            [n, w, c] => Shape::new(n, 1, w, c),
            [n, c] => Shape::new(n, 1, 1, c),
            _ => Shape::new(1, 1, 1, end - start),
        };
        Ok(Self {
            shape,
            data: &storage.as_slice::<f32>()?[start..end],
        })
    }

    /// The same values for the CPU engine.
    pub fn for_engine(&self) -> cpu::Tensor {
        cpu::Tensor::new(self.shape, self.data.into())
    }

    /// The values of one image.
    pub fn image(&self, index: usize) -> &'a [f32] {
        let size = self.shape.image();
        &self.data[index * size..(index + 1) * size]
    }
}

/// Looks at the values of a candle tensor, which must be contiguous and on the CPU.
pub fn read<T>(
    tensor: &candle_core::Tensor,
    look: impl FnOnce(View<'_>) -> T,
) -> candle_core::Result<T> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => Ok(look(View::new(storage, layout)?)),
        _ => Err(candle_core::Error::Msg(
            "this operation has no kernel for this device; use the CPU".into(),
        )),
    }
}
