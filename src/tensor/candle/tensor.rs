//! Activations as candle tensors: `[n, h, w, c]`, contiguous, in f32 or kept in a half type.

use std::borrow::Cow;

use candle_core::{CpuStorage, DType, Device, Layout, Storage};
use half::slice::HalfFloatSliceExt;
use half::vec::HalfFloatVecExt;

use crate::{Kept, Shape, TensorError, cpu};

/// An NHWC activation that remembers how it was computed, so that gradients can flow back through it.
#[derive(Clone, Debug)]
pub struct Tensor {
    inner: candle_core::Tensor,
    shape: Shape,
    /// Why there are no values: an operation that cannot refuse went wrong.
    error: Option<TensorError>,
}

impl Tensor {
    /// Wraps a candle tensor `[n, h, w, c]` (or `[n, c]`) of type f32, f16 or bf16; gradients flow through to it.
    pub fn new(tensor: &candle_core::Tensor) -> Result<Self, TensorError> {
        let shape = match *tensor.dims() {
            [n, h, w, c] => Shape::new(n, h, w, c),
            [n, c] => Shape::new(n, 1, 1, c),
            _ => return Err(unexpected(tensor)),
        };
        if kept(tensor.dtype()).is_none() {
            return Err(unexpected(tensor));
        }
        let inner = match tensor.rank() {
            4 => tensor.contiguous(),
            _ => tensor.reshape(dims(shape)).and_then(|t| t.contiguous()),
        };
        Ok(Self {
            inner: inner.map_err(from_candle)?,
            shape,
            error: None,
        })
    }

    /// What an operation gives that went wrong and cannot say so.
    pub(crate) fn failed(shape: Shape, error: TensorError) -> Self {
        let nothing = candle_core::Tensor::zeros((1, 1, 1, 1), DType::F32, &Device::Cpu);
        let inner = nothing.and_then(|zero| zero.broadcast_as(dims(shape)));
        Self {
            inner: inner.unwrap_or_else(|e| unreachable!("one zero, repeated: {e}")),
            shape,
            error: Some(error),
        }
    }

    /// The candle tensor, or what went wrong when it was to be computed.
    pub(crate) fn sound(&self) -> Result<&candle_core::Tensor, TensorError> {
        match &self.error {
            None => Ok(&self.inner),
            Some(error) => Err(error.clone()),
        }
    }

    /// The same values on a device of candle; gradients flow through.
    pub fn on(&self, device: &Device) -> Result<Self, TensorError> {
        Self::new(&self.sound()?.to_device(device).map_err(from_candle)?)
    }

    /// The candle tensor `[n, h, w, c]`.
    pub fn candle(&self) -> &candle_core::Tensor {
        &self.inner
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The type of its values in memory.
    pub fn kept(&self) -> Kept {
        kept(self.inner.dtype()).unwrap_or_default()
    }

    /// A candle tensor NCHW as an activation; gradients flow through.
    pub fn from_nchw(images: &candle_core::Tensor) -> Result<Self, TensorError> {
        Self::new(&images.permute((0, 2, 3, 1)).map_err(from_candle)?)
    }

    /// An activation as a candle tensor NCHW; gradients flow through.
    pub fn to_nchw(&self) -> Result<candle_core::Tensor, TensorError> {
        let nchw = self.sound()?.permute((0, 3, 1, 2));
        nchw.and_then(|t| t.contiguous()).map_err(from_candle)
    }

    /// `log softmax` over the channels.
    pub fn log_softmax(&self) -> Result<Self, TensorError> {
        let x = self.sound()?;
        let log = || -> candle_core::Result<candle_core::Tensor> {
            let shifted = x.broadcast_sub(&x.max_keepdim(3)?.detach())?;
            shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(3)?.log()?)
        };
        Self::new(&log().map_err(from_candle)?)
    }

    /// The same values for the CPU engine, from wherever they are.
    pub(crate) fn for_engine(&self) -> Result<cpu::Tensor, TensorError> {
        let here = self.on(&Device::Cpu)?;
        read(&here.inner, |view| view.for_engine()).map_err(from_candle)
    }
}

fn unexpected(tensor: &candle_core::Tensor) -> TensorError {
    TensorError::Shape {
        operation: "candle tensor",
        expected: "[n, h, w, c] or [n, c] of F32, F16 or BF16".into(),
        found: format!("{:?} of {:?}", tensor.dims(), tensor.dtype()),
    }
}

/// Types that an activation may have.
fn kept(dtype: DType) -> Option<Kept> {
    Kept::ALL.into_iter().find(|kept| kept.dtype() == dtype)
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

/// The values of one argument in f32; those of a half type are widened, which is exact.
pub struct Values<'a> {
    shape: Shape,
    data: Cow<'a, [f32]>,
    kept: Kept,
}

impl<'a> Values<'a> {
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
        let (data, kept) = match storage {
            CpuStorage::F16(values) => (values[start..end].to_f32_vec().into(), Kept::F16),
            CpuStorage::BF16(values) => (values[start..end].to_f32_vec().into(), Kept::Bf16),
            _ => (storage.as_slice::<f32>()?[start..end].into(), Kept::F32),
        };
        Ok(Self { shape, data, kept })
    }

    pub fn view(&self) -> View<'_> {
        View {
            shape: self.shape,
            data: &self.data,
        }
    }

    /// The type they have in memory.
    pub fn kept(&self) -> Kept {
        self.kept
    }
}

/// Values as candle keeps them in a type.
pub fn stored(values: Vec<f32>, kept: Kept) -> CpuStorage {
    match kept {
        Kept::F32 => CpuStorage::F32(values),
        Kept::F16 => CpuStorage::F16(Vec::from_f32_slice(&values)),
        Kept::Bf16 => CpuStorage::BF16(Vec::from_f32_slice(&values)),
    }
}

impl<'a> View<'a> {
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
        Storage::Cpu(storage) => Ok(look(Values::new(storage, layout)?.view())),
        _ => Err(candle_core::Error::Msg(
            "this operation has no kernel for this device; use the CPU".into(),
        )),
    }
}
