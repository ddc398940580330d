//! Images as arrays, and how their values come to the range of a score.

use super::SamplesError;
use crate::score::Protocol;

/// Images of one size, NCHW.
#[derive(Clone, Debug)]
pub struct Pixels {
    /// Images, channels, rows, columns.
    pub shape: [usize; 4],
    pub values: Vec<f32>,
    /// Values are 0..255; otherwise they are in the range already.
    pub eight_bit: bool,
}

/// `(v − subtract) / divide · factor + add`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    subtract: f64,
    divide: f64,
    factor: f64,
    add: f64,
}

impl Scale {
    pub fn apply(&self, value: f32) -> f64 {
        (f64::from(value) - self.subtract) / self.divide * self.factor + self.add
    }
}

impl Pixels {
    /// Takes images `[n, h, w]`, `[n, h, w, c]` or `[n, c, h, w]` of one or three channels. Whole numbers from 0 to 255,
    /// some above 1, are 8-bit pixels.
    pub fn new(place: &str, shape: &[usize], values: Vec<f32>) -> Result<Self, SamplesError> {
        let [n, c, h, w, last] = match *shape {
            [n, h, w] => [n, 1, h, w, 0],
            [n, h, w, c @ (1 | 3)] => [n, c, h, w, 1],
            [n, c @ (1 | 3), h, w] => [n, c, h, w, 0],
            _ => {
                return Err(SamplesError::input(
                    place,
                    "images [n, rows, columns], with 1 or 3 channels as the last or the second dimension",
                    format!("an array of shape {shape:?}"),
                    "reshape it",
                ));
            }
        };
        if c * h * w == 0 {
            return Err(SamplesError::input(
                place,
                "images with pixels",
                format!("an array of shape {shape:?}"),
                "correct the file",
            ));
        }
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(SamplesError::input(
                format!("{place}, image {}", at / (c * h * w).max(1)),
                "finite values",
                values[at].to_string(),
                "correct the file",
            ));
        }
        let whole = |v: &f32| (0.0..=255.0).contains(v) && v.fract() == 0.0;
        let eight_bit = values.iter().all(whole) && values.iter().any(|&v| v > 1.0);
        let values = if last == 1 && c > 1 {
            let images = values.chunks_exact(h * w * c);
            let planes = |image: &[f32]| -> Vec<f32> {
                let plane = |k: usize| image.iter().skip(k).step_by(c).copied().collect::<Vec<_>>();
                (0..c).flat_map(plane).collect()
            };
            images.flat_map(planes).collect()
        } else {
            values
        };
        Ok(Self {
            shape: [n, c, h, w],
            values,
            eight_bit,
        })
    }

    /// 8-bit pixels, if they can be: zeros and ones alone do not tell, but the kind of file or the other side of a pair may.
    pub fn as_eight_bit(mut self) -> Self {
        self.eight_bit |= self.values.iter().all(|v| [0.0, 1.0].contains(v));
        self
    }

    /// Grey 8-bit images one after the other.
    pub fn grey(height: usize, width: usize, values: &[u8]) -> Self {
        Self {
            shape: [values.len() / (height * width).max(1), 1, height, width],
            values: values.iter().map(|&v| f32::from(v)).collect(),
            eight_bit: true,
        }
    }

    pub fn len(&self) -> usize {
        self.shape[0]
    }

    pub fn is_empty(&self) -> bool {
        self.shape[0] == 0
    }

    /// Values of one image.
    pub fn size(&self) -> usize {
        self.shape[1] * self.shape[2] * self.shape[3]
    }

    pub fn image(&self, i: usize) -> &[f32] {
        let size = self.size();
        &self.values[i * size..(i + 1) * size]
    }

    pub fn first(&self, n: usize) -> Self {
        let [_, c, h, w] = self.shape;
        Self {
            shape: [n, c, h, w],
            values: self.values[..n * self.size()].to_vec(),
            eight_bit: self.eight_bit,
        }
    }

    /// The smallest and the largest value.
    pub fn extremes(&self) -> [f64; 2] {
        let ends = [f64::INFINITY, f64::NEG_INFINITY];
        { self.values.iter() }.fold(ends, |[least, most], &v| {
            [least.min(f64::from(v)), most.max(f64::from(v))]
        })
    }

    /// How values come to `range`. Exact: pixels by their own 0..255, other values as they are. Published: by the smallest
    /// and the largest value of the whole array, whatever they are.
    pub fn scale(
        &self,
        place: &str,
        range: [f64; 2],
        protocol: Protocol,
    ) -> Result<Scale, SamplesError> {
        let [low, high] = range;
        if protocol == Protocol::Published || !self.eight_bit {
            let [least, most] = self.extremes();
            if protocol == Protocol::Published {
                if least >= most {
                    return Err(SamplesError::input(
                        place,
                        "values that differ: the published code scales by the smallest and the largest",
                        format!("{least} everywhere"),
                        "leave --protocol published out",
                    ));
                }
                return Ok(Scale {
                    subtract: least,
                    divide: most - least,
                    factor: high - low,
                    add: low,
                });
            }
            // What rounding to f32 can add.
            let slack = 1e-5 * (high - low);
            if least < low - slack || most > high + slack {
                return Err(SamplesError::input(
                    place,
                    format!(
                        "8-bit pixels (whole numbers from 0 to 255), or values from {low} to {high}"
                    ),
                    format!("values from {least} to {most}"),
                    "give the range of the array with --range LO,HI, or 8-bit pixels",
                ));
            }
            return Ok(Scale {
                subtract: 0.0,
                divide: 1.0,
                factor: 1.0,
                add: 0.0,
            });
        }
        Ok(Scale {
            subtract: 0.0,
            divide: 255.0,
            factor: high - low,
            add: low,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_may_be_last_or_second() {
        let last = Pixels::new("a", &[1, 1, 2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(last.shape, [1, 3, 1, 2]);
        assert_eq!(last.values, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let second = Pixels::new("a", &[1, 3, 1, 2], last.values.clone()).unwrap();
        assert_eq!((second.shape, &second.values), (last.shape, &last.values));
        assert!(Pixels::new("a", &[1, 6], last.values).is_err());
    }

    #[test]
    fn pixels_are_scaled_by_255_and_as_published_by_their_own_extremes() {
        let pixels = Pixels::new("a", &[1, 1, 3], vec![51.0, 102.0, 204.0]).unwrap();
        assert!(pixels.eight_bit);
        let of = |protocol| {
            let scale = pixels.scale("a", [-0.5, 0.5], protocol).unwrap();
            [51.0, 102.0, 204.0].map(|v| (scale.apply(v) * 1e9).round() / 1e9)
        };
        assert_eq!(of(Protocol::Exact), [-0.3, -0.1, 0.3]);
        assert_eq!(of(Protocol::Published), [-0.5, -0.166666667, 0.5]);
        let values = Pixels::new("a", &[1, 1, 2], vec![0.0, 0.75]).unwrap();
        assert!(!values.eight_bit);
        assert!(values.scale("a", [-0.5, 0.5], Protocol::Exact).is_err());
        let flat = Pixels::new("a", &[1, 1, 2], vec![3.0, 3.0]).unwrap();
        assert!(flat.scale("a", [0.0, 1.0], Protocol::Published).is_err());
    }
}
