//! Arrays with their stored number type, read from `.safetensors`: the input of `foil metric` and of golden data.

use std::{collections::BTreeMap, path::Path};

use safetensors::{Dtype, SafeTensors};

use super::Array;

/// Why an array file or one of its arrays cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    #[error("{file}: {source}")]
    Io {
        file: String,
        source: std::io::Error,
    },
    #[error("{file}: not a .safetensors file: {reason}")]
    Format { file: String, reason: String },
    #[error("{file}: no tensor `{name}`; found {found}")]
    Missing {
        file: String,
        name: String,
        found: String,
    },
    #[error("{file}: tensor `{name}`: expected {expected}, found {found}")]
    Unexpected {
        file: String,
        name: String,
        expected: String,
        found: String,
    },
    #[error("{file}: tensor `{name}` holds {value} at index {index}; every value must be finite")]
    NotFinite {
        file: String,
        name: String,
        index: usize,
        value: f64,
    },
}

/// Values in the type they are stored in; half precision is widened to f32, small integers to i64.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    U8(Vec<u8>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// One array of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedArray {
    pub shape: Vec<usize>,
    pub values: Values,
}

/// The arrays of one file by name.
#[derive(Clone, Debug)]
pub struct TypedArrays {
    file: String,
    arrays: BTreeMap<String, TypedArray>,
}

impl TypedArrays {
    pub fn read(path: &Path) -> Result<Self, ArrayError> {
        let file = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|source| ArrayError::Io {
            file: file.clone(),
            source,
        })?;
        Self::from_bytes(&bytes, &file)
    }

    /// Reads from memory; `file` stands for the source in messages.
    pub fn from_bytes(bytes: &[u8], file: &str) -> Result<Self, ArrayError> {
        let format = |reason: String| ArrayError::Format {
            file: file.into(),
            reason,
        };
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| format(e.to_string()))?;
        let mut arrays = BTreeMap::new();
        for (name, view) in tensors.iter() {
            let values = decode(view.dtype(), view.data())
                .ok_or_else(|| format(format!("tensor `{name}` has type {:?}", view.dtype())))?;
            arrays.insert(
                name.to_string(),
                TypedArray {
                    shape: view.shape().to_vec(),
                    values,
                },
            );
        }
        Ok(Self {
            file: file.into(),
            arrays,
        })
    }

    pub fn file(&self) -> &str {
        &self.file
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arrays.keys().map(String::as_str)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.arrays.contains_key(name)
    }

    pub fn get(&self, name: &str) -> Result<&TypedArray, ArrayError> {
        self.arrays.get(name).ok_or_else(|| ArrayError::Missing {
            file: self.file.clone(),
            name: name.into(),
            found: if self.arrays.is_empty() {
                "no tensors".into()
            } else {
                self.names().take(12).collect::<Vec<_>>().join(", ")
            },
        })
    }

    /// An error about the array `name`.
    pub fn unexpected(&self, name: &str, expected: &str, found: String) -> ArrayError {
        ArrayError::Unexpected {
            file: self.file.clone(),
            name: name.into(),
            expected: expected.into(),
            found,
        }
    }

    /// As finite f32 numbers.
    pub fn f32(&self, name: &str) -> Result<Array, ArrayError> {
        let array = self.get(name)?;
        let data = match &array.values {
            Values::U8(v) => v.iter().map(|&x| f32::from(x)).collect(),
            Values::I64(v) => v.iter().map(|&x| x as f32).collect(),
            Values::F32(v) => v.clone(),
            Values::F64(v) => v.iter().map(|&x| x as f32).collect(),
        };
        let array = Array {
            shape: array.shape.clone(),
            data,
        };
        if let Some(index) = array.data.iter().position(|v| !v.is_finite()) {
            return Err(ArrayError::NotFinite {
                file: self.file.clone(),
                name: name.into(),
                index,
                value: f64::from(array.data[index]),
            });
        }
        Ok(array)
    }

    /// As finite f32 numbers of a given rank.
    pub fn f32_of_rank(&self, name: &str, rank: usize) -> Result<Array, ArrayError> {
        let array = self.f32(name)?;
        if array.shape.len() != rank {
            return Err(self.unexpected(
                name,
                &format!("{rank} dimensions"),
                format!("shape {:?}", array.shape),
            ));
        }
        Ok(array)
    }

    /// As f64 numbers.
    pub fn f64(&self, name: &str) -> Result<Vec<f64>, ArrayError> {
        Ok(match &self.get(name)?.values {
            Values::U8(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Values::I64(v) => v.iter().map(|&x| x as f64).collect(),
            Values::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Values::F64(v) => v.clone(),
        })
    }

    /// As integers; whole floating-point numbers are accepted.
    pub fn i64(&self, name: &str) -> Result<Vec<i64>, ArrayError> {
        let whole = |v: f64| (v.fract() == 0.0 && v.abs() < 9.0e15).then_some(v as i64);
        let values = match &self.get(name)?.values {
            Values::U8(v) => Some(v.iter().map(|&x| i64::from(x)).collect()),
            Values::I64(v) => Some(v.clone()),
            Values::F32(v) => v.iter().map(|&x| whole(f64::from(x))).collect(),
            Values::F64(v) => v.iter().map(|&x| whole(x)).collect(),
        };
        values.ok_or_else(|| self.unexpected(name, "whole numbers", "fractions".into()))
    }
}

fn decode(dtype: Dtype, data: &[u8]) -> Option<Values> {
    fn numbers<const N: usize, T>(data: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
        data.as_chunks::<N>().0.iter().map(|b| from(*b)).collect()
    }
    Some(match dtype {
        Dtype::U8 => Values::U8(data.to_vec()),
        Dtype::BOOL => Values::I64(data.iter().map(|&b| i64::from(b != 0)).collect()),
        Dtype::I8 => Values::I64(numbers(data, |b| i64::from(i8::from_le_bytes(b)))),
        Dtype::I16 => Values::I64(numbers(data, |b| i64::from(i16::from_le_bytes(b)))),
        Dtype::U16 => Values::I64(numbers(data, |b| i64::from(u16::from_le_bytes(b)))),
        Dtype::I32 => Values::I64(numbers(data, |b| i64::from(i32::from_le_bytes(b)))),
        Dtype::U32 => Values::I64(numbers(data, |b| i64::from(u32::from_le_bytes(b)))),
        Dtype::I64 => Values::I64(numbers(data, i64::from_le_bytes)),
        Dtype::F16 => Values::F32(numbers(data, |b| half::f16::from_le_bytes(b).to_f32())),
        Dtype::BF16 => Values::F32(numbers(data, |b| half::bf16::from_le_bytes(b).to_f32())),
        Dtype::F32 => Values::F32(numbers(data, f32::from_le_bytes)),
        Dtype::F64 => Values::F64(numbers(data, f64::from_le_bytes)),
        _ => return None,
    })
}
