//! Named arrays: the weights of a network under the names of its public checkpoint.

use std::collections::BTreeMap;

use super::Array;

/// Named arrays, and the order in which a file held them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDict {
    arrays: BTreeMap<String, Array>,
    order: Vec<String>,
}

impl StateDict {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an array, or replaces the one of that name.
    pub fn insert(&mut self, name: impl Into<String>, array: Array) {
        let name = name.into();
        if self.arrays.insert(name.clone(), array).is_none() {
            self.order.push(name);
        }
    }

    pub fn get(&self, name: &str) -> Option<&Array> {
        self.arrays.get(name)
    }

    pub fn remove(&mut self, name: &str) -> Option<Array> {
        self.order.retain(|n| n != name);
        self.arrays.remove(name)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.arrays.contains_key(name)
    }

    /// Names and arrays, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.arrays.iter().map(|(n, a)| (n.as_str(), a))
    }

    /// Names in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    pub fn len(&self) -> usize {
        self.arrays.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }

    /// The first value that is NaN or infinite: tensor, index, value.
    pub fn first_not_finite(&self) -> Option<(&str, usize, f32)> {
        self.iter().find_map(|(name, array)| {
            let index = array.data.iter().position(|v| !v.is_finite())?;
            Some((name, index, array.data[index]))
        })
    }
}
