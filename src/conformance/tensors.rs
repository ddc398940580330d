//! Array files of golden data, with a record of which arrays were read.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::{ConformanceError, Result};
use crate::tensor::{Array, StateDict, TypedArray, TypedArrays, Values};

/// A file; arrays that no case reads are reported at the end.
pub struct Tensors {
    arrays: TypedArrays,
    seen: RefCell<BTreeSet<String>>,
}

impl Tensors {
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self> {
        Ok(Self {
            arrays: TypedArrays::from_bytes(bytes, file)?,
            seen: RefCell::default(),
        })
    }

    /// All arrays; reading one of them here leaves no trace.
    pub fn arrays(&self) -> &TypedArrays {
        &self.arrays
    }

    pub fn file(&self) -> &str {
        self.arrays.file()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arrays.names()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.arrays.contains(name)
    }

    /// Marks an array as dealt with.
    pub fn skip(&self, name: &str) {
        self.seen.borrow_mut().insert(name.into());
    }

    /// Marks all arrays as dealt with.
    pub fn skip_all(&self) {
        let names: Vec<String> = self.names().map(Into::into).collect();
        self.seen.borrow_mut().extend(names);
    }

    pub fn unread(&self) -> Vec<String> {
        let seen = self.seen.borrow();
        let unread = self.names().filter(|n| !seen.contains(*n));
        unread.map(Into::into).collect()
    }

    pub fn get(&self, name: &str) -> Result<&TypedArray> {
        self.skip(name);
        Ok(self.arrays.get(name)?)
    }

    pub fn f32(&self, name: &str) -> Result<Array> {
        self.skip(name);
        Ok(self.arrays.f32(name)?)
    }

    pub fn f32_of_rank(&self, name: &str, rank: usize) -> Result<Array> {
        self.skip(name);
        Ok(self.arrays.f32_of_rank(name, rank)?)
    }

    pub fn f64(&self, name: &str) -> Result<Vec<f64>> {
        self.skip(name);
        Ok(self.arrays.f64(name)?)
    }

    /// Single-precision values, of which some may be NaN (samples that do not count).
    pub fn f32_or_nan(&self, name: &str) -> Result<Vec<f32>> {
        match &self.get(name)?.values {
            Values::F32(values) => Ok(values.clone()),
            _ => Err(self.wrong(name, "32-bit floats", "another type".into())),
        }
    }

    pub fn i64(&self, name: &str) -> Result<Vec<i64>> {
        self.skip(name);
        Ok(self.arrays.i64(name)?)
    }

    /// 8-bit values with their shape.
    pub fn u8(&self, name: &str) -> Result<(&[usize], &[u8])> {
        let array = self.get(name)?;
        match &array.values {
            Values::U8(values) => Ok((&array.shape, values)),
            _ => Err(self.wrong(name, "8-bit values", "another type".into())),
        }
    }

    /// A table of row numbers, one list per row.
    pub fn index_rows(&self, name: &str) -> Result<Vec<Vec<usize>>> {
        let columns = match self.get(name)?.shape[..] {
            [_, columns] if columns > 0 => columns,
            ref other => return Err(self.wrong(name, "2 dimensions", format!("{other:?}"))),
        };
        let index = |&v: &i64| {
            usize::try_from(v).map_err(|_| self.wrong(name, "row numbers", v.to_string()))
        };
        let values = self.i64(name)?;
        values
            .chunks(columns)
            .map(|row| row.iter().map(index).collect())
            .collect()
    }

    /// All arrays as the weights of a network.
    pub fn state_dict(&self) -> Result<StateDict> {
        let mut dict = StateDict::new();
        for name in self.names() {
            dict.insert(name, self.f32(name)?);
        }
        Ok(dict)
    }

    pub fn wrong(&self, name: &str, expected: &str, found: String) -> ConformanceError {
        self.arrays.unexpected(name, expected, found).into()
    }
}

/// An array as rows: the first dimension, and all others together.
pub fn rows(array: &Array) -> (usize, usize) {
    let rows = array.shape.first().copied().unwrap_or(1);
    (rows, array.shape.iter().skip(1).product())
}
