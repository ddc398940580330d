//! How a GPU keeps activations and weights in memory.

use std::{fmt, str::FromStr};

/// What a value takes in memory. Kernels compute in f32 either way: with [`Precision::F16`] every activation and every
/// weight is rounded to 11 bits when it is written, and half as many bytes are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    #[default]
    F32,
    F16,
}

impl Precision {
    /// Bytes of a value.
    pub const fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::F16 => 2,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F16 => "f16",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Precision::F32),
            "f16" => Ok(Precision::F16),
            _ => Err(format!("unknown precision {text:?}; use f32 or f16")),
        }
    }
}
