//! Named arrays: what every reader produces and every network takes.

use super::error::{FormatError, Result, Source};
use std::collections::BTreeMap;

/// A dense array, row-major, always `f32`.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Sizes, outermost first; empty for a single number.
    pub shape: Vec<usize>,
    /// `shape.iter().product()` numbers.
    pub data: Vec<f32>,
}

impl Array {
    /// An array, or `None` if `data` does not fill `shape` exactly.
    pub fn new(shape: Vec<usize>, data: Vec<f32>) -> Option<Self> {
        let count = shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s))?;
        (count == data.len()).then_some(Self { shape, data })
    }

    /// The same numbers with axes rearranged: axis `k` of the result is axis `order[k]` of
    /// `self`; `None` if `order` is not a permutation of the axes.
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
        let shape: Vec<usize> = order.iter().map(|&a| self.shape[a]).collect();
        let strides: Vec<usize> = order.iter().map(|&a| strides[a]).collect();
        let mut data = Vec::with_capacity(self.data.len());
        super::decode::for_each_index(&shape, &strides, 0, |at| data.push(self.data[at]));
        Some(Self { shape, data })
    }
}

/// Arrays by name, which also remembers the order in which they were stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDict {
    source: String,
    arrays: BTreeMap<String, Array>,
    order: Vec<String>,
}

impl StateDict {
    /// An empty dictionary; `source` (usually a file name) appears in its error messages.
    pub fn new(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            ..Self::default()
        }
    }

    /// Where the arrays came from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Adds an array at the end; a second array of the same name is an error.
    pub fn insert(&mut self, name: impl Into<String>, array: Array) -> Result<()> {
        let name = name.into();
        if self.arrays.contains_key(&name) {
            return Err(Source(&self.source).tensor(
                &name,
                "one tensor of this name",
                "two",
                "Save the file with distinct names",
            ));
        }
        self.order.push(name.clone());
        self.arrays.insert(name, array);
        Ok(())
    }

    /// The array of this name.
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.arrays.get(name)
    }

    /// The array of this name, which must have exactly this shape.
    pub fn expect(&self, name: &str, shape: &[usize]) -> Result<&Array> {
        let Some(array) = self.get(name) else {
            return Err(Source(&self.source).tensor(
                name,
                format!("shape {shape:?}"),
                "no tensor of this name",
                format!("Is this the right network? It holds {}", self.summary()),
            ));
        };
        if array.shape != shape {
            return Err(Source(&self.source).tensor(
                name,
                format!("shape {shape:?}"),
                format!("shape {:?}", array.shape),
                "Is this the right network and version?",
            ));
        }
        Ok(array)
    }

    /// Names in stored order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    /// Names and arrays in stored order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.order
            .iter()
            .filter_map(|name| Some((name.as_str(), self.arrays.get(name)?)))
    }

    /// Names and arrays sorted by name.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = (&str, &Array)> {
        self.arrays
            .iter()
            .map(|(name, array)| (name.as_str(), array))
    }

    /// Takes the dictionary apart, in stored order.
    pub fn into_pairs(self) -> impl Iterator<Item = (String, Array)> {
        let mut arrays = self.arrays;
        self.order
            .into_iter()
            .filter_map(move |name| arrays.remove(&name).map(|array| (name, array)))
    }

    /// How many arrays there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is no array at all.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// An error naming the first tensor (in stored order) and index that is NaN or infinite.
    pub fn check_finite(&self) -> Result<()> {
        for (name, array) in self.iter() {
            if let Some(at) = array.data.iter().position(|x| !x.is_finite()) {
                let mut rest = at;
                let mut index: Vec<usize> = array
                    .shape
                    .iter()
                    .rev()
                    .map(|&size| {
                        let here = rest % size;
                        rest /= size;
                        here
                    })
                    .collect();
                index.reverse();
                return Err(FormatError::NotFinite {
                    file: self.source.clone(),
                    tensor: name.into(),
                    index,
                    value: array.data[at],
                });
            }
        }
        Ok(())
    }

    /// "3 tensors (`a`, `b`, …)" for messages.
    pub(super) fn summary(&self) -> String {
        let first: Vec<String> = self
            .names()
            .take(3)
            .map(|n| format!("`{}`", super::error::shorten(n)))
            .collect();
        let more = if self.len() > 3 { ", …" } else { "" };
        format!("{} tensors ({}{more})", self.len(), first.join(", "))
    }
}
