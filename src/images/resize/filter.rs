//! The resampling filters and their names.

use std::f64::consts::PI;
use std::fmt;
use std::str::FromStr;

use crate::images::ImageError;

/// A resampling filter, named as in Pillow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// The pixel below the centre.
    Nearest,
    /// Mean of the pixels covered.
    Box,
    /// Triangle.
    Bilinear,
    /// Windowed sinc of one lobe.
    Hamming,
    /// Cubic convolution, a = -1/2.
    Bicubic,
    /// Windowed sinc of three lobes.
    Lanczos,
}

/// A filter as a function of the distance from the centre, in source pixels when not shrinking.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// Weight at a distance.
    pub weight: fn(f64) -> f64,
    /// Distance beyond which the weight is zero.
    pub support: f64,
}

impl Filter {
    /// All filters.
    pub const ALL: [Self; 6] = [
        Self::Nearest,
        Self::Box,
        Self::Bilinear,
        Self::Hamming,
        Self::Bicubic,
        Self::Lanczos,
    ];

    /// The filter's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::Box => "box",
            Self::Bilinear => "bilinear",
            Self::Hamming => "hamming",
            Self::Bicubic => "bicubic",
            Self::Lanczos => "lanczos",
        }
    }

    /// The filter's function; none for nearest.
    pub(super) fn kernel(self) -> Option<Kernel> {
        let (weight, support): (fn(f64) -> f64, f64) = match self {
            Self::Nearest => return None,
            Self::Box => (box_weight, 0.5),
            Self::Bilinear => (bilinear, 1.0),
            Self::Hamming => (hamming, 1.0),
            Self::Bicubic => (bicubic, 2.0),
            Self::Lanczos => (lanczos, 3.0),
        };
        Some(Kernel { weight, support })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Filter {
    type Err = ImageError;

    fn from_str(name: &str) -> Result<Self, ImageError> {
        let known = Self::ALL
            .iter()
            .find(|filter| filter.name().eq_ignore_ascii_case(name));
        known.copied().ok_or_else(|| ImageError::UnknownFilter {
            found: name.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

fn box_weight(x: f64) -> f64 {
    if x > -0.5 && x <= 0.5 { 1.0 } else { 0.0 }
}

fn bilinear(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

fn hamming(x: f64) -> f64 {
    let x = x.abs();
    if x == 0.0 {
        return 1.0;
    }
    if x >= 1.0 {
        return 0.0;
    }
    let x = x * PI;
    // Pillow has these two in single precision, which shows in the last bit of the weights.
    x.sin() / x * (f64::from(0.54_f32) + f64::from(0.46_f32) * x.cos())
}

/// <https://en.wikipedia.org/wiki/Bicubic_interpolation#Bicubic_convolution_algorithm>
fn bicubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

fn lanczos(x: f64) -> f64 {
    if (-3.0..3.0).contains(&x) {
        sinc(x) * sinc(x / 3.0)
    } else {
        0.0
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let x = x * PI;
    x.sin() / x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_found_by_name() {
        for filter in Filter::ALL {
            assert_eq!(filter.name().parse::<Filter>().unwrap(), filter);
        }
        assert_eq!("BICUBIC".parse::<Filter>().unwrap(), Filter::Bicubic);
        let message = "cubic".parse::<Filter>().unwrap_err().to_string();
        assert!(
            message.contains("\"cubic\"") && message.contains("bicubic, lanczos"),
            "{message}"
        );
    }
}
