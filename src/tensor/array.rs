//! Row-major f32 arrays on the host.

use super::TensorError;

/// A row-major f32 array on the host. Images are NCHW unless a name says otherwise.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f32>,
}

impl Array {
    /// Wraps `data`; its length must be the product of `shape`.
    pub fn new(shape: impl Into<Vec<usize>>, data: Vec<f32>) -> Result<Self, TensorError> {
        let shape = shape.into();
        let expected = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if expected != Some(data.len()) {
            return Err(TensorError::Length {
                shape,
                found: data.len(),
            });
        }
        Ok(Self { shape, data })
    }

    /// An array of zeros.
    pub fn zeros(shape: impl Into<Vec<usize>>) -> Self {
        let shape = shape.into();
        let len = shape.iter().product();
        Self {
            shape,
            data: vec![0.0; len],
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The values of row `i` along the first axis.
    pub fn row(&self, i: usize) -> &[f32] {
        let stride: usize = self.shape[1..].iter().product();
        &self.data[i * stride..(i + 1) * stride]
    }

    /// The same values under another shape of the same size.
    pub fn reshape(self, shape: impl Into<Vec<usize>>) -> Result<Self, TensorError> {
        Self::new(shape, self.data)
    }

    /// The same values with axes rearranged: axis `k` of the result is axis `order[k]` of `self`; `None` if
    /// `order` is not a permutation of the axes.
    pub fn permuted(&self, order: &[usize]) -> Option<Self> {
        let rank = self.shape.len();
        let mut seen = vec![false; rank];
        for &axis in order {
            if axis >= rank || std::mem::replace(&mut seen[axis], true) {
                return None;
            }
        }
        if order.len() != rank {
            return None;
        }
        let mut strides = vec![1; rank];
        for axis in (1..rank).rev() {
            strides[axis - 1] = strides[axis] * self.shape[axis];
        }
        let shape: Vec<usize> = order.iter().map(|&axis| self.shape[axis]).collect();
        let strides: Vec<usize> = order.iter().map(|&axis| strides[axis]).collect();
        let mut data = Vec::with_capacity(self.data.len());
        let mut counter = vec![0; rank];
        let mut at = 0;
        while data.len() < self.data.len() {
            data.push(self.data[at]);
            for axis in (0..rank).rev() {
                counter[axis] += 1;
                at += strides[axis];
                if counter[axis] < shape[axis] {
                    break;
                }
                at -= strides[axis] * shape[axis];
                counter[axis] = 0;
            }
        }
        Some(Self { shape, data })
    }
}
