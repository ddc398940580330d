//! Activations in the memory of a GPU: NHWC, shared, sliced by image.

use std::sync::Arc;

use super::any_driver::AnyBuffer;
use crate::{Precision, Shape, TensorError, rules};

/// An NHWC activation. Clones, views and single images of a batch share one buffer.
pub struct Tensor {
    storage: Storage,
    /// First value in the buffer.
    offset: usize,
    shape: Shape,
    precision: Precision,
}

enum Storage {
    Buffer(Arc<AnyBuffer>),
    /// No value at all.
    Empty,
    /// What an operation that cannot refuse came to: whoever uses it is told.
    Failed(Arc<TensorError>),
}

impl Clone for Storage {
    fn clone(&self) -> Self {
        match self {
            Storage::Buffer(buffer) => Storage::Buffer(Arc::clone(buffer)),
            Storage::Empty => Storage::Empty,
            Storage::Failed(error) => Storage::Failed(Arc::clone(error)),
        }
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        Self {
            storage: self.storage.clone(),
            ..*self
        }
    }
}

impl Tensor {
    pub(super) fn new(shape: Shape, precision: Precision, buffer: AnyBuffer) -> Self {
        Self {
            storage: Storage::Buffer(Arc::new(buffer)),
            offset: 0,
            shape,
            precision,
        }
    }

    pub(super) fn empty(shape: Shape) -> Self {
        Self {
            storage: Storage::Empty,
            offset: 0,
            shape,
            precision: Precision::F32,
        }
    }

    pub(super) fn failed(shape: Shape, error: TensorError) -> Self {
        Self {
            storage: Storage::Failed(Arc::new(error)),
            offset: 0,
            shape,
            precision: Precision::F32,
        }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What its values are in memory.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// First value in the buffer.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The buffer, unless there is no value or an earlier operation failed.
    pub(super) fn buffer(&self) -> Result<&AnyBuffer, TensorError> {
        match &self.storage {
            Storage::Buffer(buffer) => Ok(buffer),
            Storage::Empty => Err(TensorError::Device(format!(
                "a kernel was to run on the empty tensor {:?}",
                self.shape
            ))),
            Storage::Failed(error) => Err(TensorError::clone(error)),
        }
    }

    pub fn select(&self, index: usize) -> Self {
        assert!(index < self.shape.n, "image {index} of {:?}", self.shape);
        Self {
            storage: self.storage.clone(),
            offset: self.offset + index * self.shape.image(),
            shape: Shape { n: 1, ..self.shape },
            precision: self.precision,
        }
    }

    pub fn view(&self, shape: Shape) -> Result<Self, TensorError> {
        rules::view(self.shape, shape)?;
        Ok(Self {
            shape,
            ..self.clone()
        })
    }
}
