//! Named arrays: the weights of a network under the names of its public checkpoint.

use std::collections::BTreeMap;

use super::Array;

/// Named arrays, the order in which a file held them, and the name of that file for messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDict {
    source: String,
    arrays: BTreeMap<String, Array>,
    order: Vec<String>,
}

/// What is wrong with a dictionary of weights.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateDictError {
    #[error("{file}: two tensors are named `{tensor}`. Save the file with distinct names")]
    Duplicate { file: String, tensor: String },
    #[error(
        "{file}: no tensor `{tensor}` of shape {expected:?}. Is this the right network? It holds {held}"
    )]
    Missing {
        file: String,
        tensor: String,
        expected: Vec<usize>,
        held: String,
    },
    #[error(
        "{file}: tensor `{tensor}`: expected shape {expected:?}, found shape {found:?}. Is this the right network \
         and version?"
    )]
    Shape {
        file: String,
        tensor: String,
        expected: Vec<usize>,
        found: Vec<usize>,
    },
    #[error(
        "{file}: tensor `{tensor}`: expected finite numbers, found {value} at index {index:?}. The weights are \
         unusable: fetch them again or save them before training diverged"
    )]
    NotFinite {
        file: String,
        tensor: String,
        index: Vec<usize>,
        value: f32,
    },
}

impl StateDict {
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty dictionary that names `source` (usually a file) in its messages.
    pub fn named(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            ..Self::default()
        }
    }

    /// Where the arrays came from; empty if unknown.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Adds an array, or replaces the one of that name.
    pub fn insert(&mut self, name: impl Into<String>, array: Array) {
        let name = name.into();
        if self.arrays.insert(name.clone(), array).is_none() {
            self.order.push(name);
        }
    }

    /// Adds an array; a second one of the same name is an error.
    pub fn add(&mut self, name: impl Into<String>, array: Array) -> Result<(), StateDictError> {
        let name = name.into();
        if self.arrays.contains_key(&name) {
            return Err(StateDictError::Duplicate {
                file: self.shown(),
                tensor: shorten(&name),
            });
        }
        self.insert(name, array);
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&Array> {
        self.arrays.get(name)
    }

    /// The array of this name, which must have exactly this shape.
    pub fn expect(&self, name: &str, shape: &[usize]) -> Result<&Array, StateDictError> {
        let Some(array) = self.get(name) else {
            return Err(StateDictError::Missing {
                file: self.shown(),
                tensor: shorten(name),
                expected: shape.to_vec(),
                held: self.summary(),
            });
        };
        if array.shape != shape {
            return Err(StateDictError::Shape {
                file: self.shown(),
                tensor: shorten(name),
                expected: shape.to_vec(),
                found: array.shape.clone(),
            });
        }
        Ok(array)
    }

    pub fn remove(&mut self, name: &str) -> Option<Array> {
        self.order.retain(|n| n != name);
        self.arrays.remove(name)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.arrays.contains_key(name)
    }

    /// Names and arrays in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.order
            .iter()
            .filter_map(|name| Some((name.as_str(), self.arrays.get(name)?)))
    }

    /// Names and arrays, sorted by name.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = (&str, &Array)> {
        self.arrays.iter().map(|(n, a)| (n.as_str(), a))
    }

    /// Takes the dictionary apart, in the order of the file.
    pub fn into_pairs(self) -> impl Iterator<Item = (String, Array)> {
        let mut arrays = self.arrays;
        self.order
            .into_iter()
            .filter_map(move |name| arrays.remove(&name).map(|array| (name, array)))
    }

    /// Names in the order of the file.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    pub fn len(&self) -> usize {
        self.arrays.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }

    /// The first value, in the order of the file, that is NaN or infinite: tensor, index, value.
    pub fn first_not_finite(&self) -> Option<(&str, usize, f32)> {
        self.iter().find_map(|(name, array)| {
            let index = array.data.iter().position(|v| !v.is_finite())?;
            Some((name, index, array.data[index]))
        })
    }

    /// An error that names the first tensor and index that is NaN or infinite.
    pub fn check_finite(&self) -> Result<(), StateDictError> {
        let Some((name, at, value)) = self.first_not_finite() else {
            return Ok(());
        };
        let shape = self.get(name).map_or(&[][..], |array| &array.shape);
        let mut rest = at;
        let mut index: Vec<usize> = Vec::with_capacity(shape.len());
        for &size in shape.iter().rev() {
            index.insert(0, rest % size);
            rest /= size;
        }
        Err(StateDictError::NotFinite {
            file: self.shown(),
            tensor: shorten(name),
            index,
            value,
        })
    }

    /// "5 tensors (`a`, `b`, `c`, …)" for messages.
    pub fn summary(&self) -> String {
        let first: Vec<String> = self
            .names()
            .take(3)
            .map(|name| format!("`{}`", shorten(name)))
            .collect();
        let more = if self.len() > 3 { ", …" } else { "" };
        format!("{} tensors ({}{more})", self.len(), first.join(", "))
    }

    fn shown(&self) -> String {
        if self.source.is_empty() {
            "these weights".into()
        } else {
            self.source.clone()
        }
    }
}

/// Text out of a file, made short and printable for a message.
pub fn shorten(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut short: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}
