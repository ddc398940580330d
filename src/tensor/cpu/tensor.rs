//! Activations in main memory: NHWC, shared, sliced by image.

use std::sync::Arc;

use super::buffer::Buffer;
use crate::{Shape, TensorError, rules};

/// An NHWC activation. Clones, views and single images of a batch share one buffer.
#[derive(Clone, Debug)]
pub struct Tensor {
    data: Arc<Buffer>,
    offset: usize,
    shape: Shape,
}

impl Tensor {
    pub fn new(shape: Shape, data: Buffer) -> Self {
        assert_eq!(shape.len(), data.len(), "tensor of shape {shape:?}");
        Self {
            data: Arc::new(data),
            offset: 0,
            shape,
        }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn data(&self) -> &[f32] {
        &self.data[self.offset..self.offset + self.shape.len()]
    }

    /// A copy of the values.
    pub fn into_data(self) -> Vec<f32> {
        self.data().to_vec()
    }

    /// The values of one image.
    pub fn image(&self, index: usize) -> &[f32] {
        let size = self.shape.image();
        &self.data()[index * size..(index + 1) * size]
    }

    pub fn select(&self, index: usize) -> Self {
        assert!(index < self.shape.n, "image {index} of {:?}", self.shape);
        Self {
            data: Arc::clone(&self.data),
            offset: self.offset + index * self.shape.image(),
            shape: Shape { n: 1, ..self.shape },
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
