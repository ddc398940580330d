//! How the activations of a network's torso are kept between forward and backward pass.

use std::{fmt, str::FromStr};

use half::{bf16, f16};

/// What a value on the tape takes in memory. Operations compute in f32 either way: with a half type every result is
/// rounded when it is kept, and half as many bytes wait for the way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    #[default]
    F32,
    /// 11 bits, from 6e-8 to 65504.
    F16,
    /// 8 bits, with the range of f32.
    Bf16,
}

impl Kept {
    pub const ALL: [Kept; 3] = [Kept::F32, Kept::F16, Kept::Bf16];

    /// Bytes of a value.
    pub const fn bytes(self) -> usize {
        match self {
            Kept::F32 => 4,
            Kept::F16 | Kept::Bf16 => 2,
        }
    }

    /// Largest relative error of a rounding.
    pub const fn rounding(self) -> f64 {
        match self {
            Kept::F32 => f32::EPSILON as f64 / 2.0,
            Kept::F16 => 1.0 / 2048.0,
            Kept::Bf16 => 1.0 / 256.0,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Kept::F32 => "f32",
            Kept::F16 => "f16",
            Kept::Bf16 => "bf16",
        }
    }

    /// The nearest value of the type.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Kept::F32 => value,
            Kept::F16 => f16::from_f32(value).to_f32(),
            Kept::Bf16 => bf16::from_f32(value).to_f32(),
        }
    }

    pub(crate) fn dtype(self) -> candle_core::DType {
        match self {
            Kept::F32 => candle_core::DType::F32,
            Kept::F16 => candle_core::DType::F16,
            Kept::Bf16 => candle_core::DType::BF16,
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Kept::ALL.into_iter().find(|kept| kept.name() == text);
        found.ok_or_else(|| format!("unknown precision {text:?}; use f32, f16 or bf16"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_to_the_nearest_of_the_type() {
        assert_eq!(Kept::F16.round(1.0 + 1.0 / 2048.0), 1.0);
        assert_eq!(Kept::F16.round(1.0 + 3.0 / 2048.0), 1.0 + 1.0 / 512.0);
        assert_eq!(Kept::F16.round(1e6), f32::INFINITY);
        assert_eq!(Kept::Bf16.round(1.0 + 3.0 / 256.0), 1.0 + 1.0 / 64.0);
        assert!(Kept::Bf16.round(1e38).is_finite());
        for kept in Kept::ALL {
            assert_eq!(kept.name().parse(), Ok(kept));
            let error = f64::from(kept.round(0.1)) / f64::from(0.1f32) - 1.0;
            assert!(error.abs() <= kept.rounding(), "{kept}: {error}");
        }
        assert!("half".parse::<Kept>().is_err());
    }
}
