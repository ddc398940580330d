//! Closeness in pixel space: D_p norms of counterfactual minus original (\[diffusion-vce\] section 3, p = 1, 1.5, 2).
//!
//! The paper: D_p = mean over images of ‖x − c(x)‖_p. The study's code takes ONE norm over the whole batch tensor, which
//! [`whole_batch`] reproduces. Elastic net (\[quantitative-evaluations\]): L1 + L2 as published, L1 + L2² as usually defined.
//! Values are in the units of the input (the study: [-1, 1]); sums are in `f64`.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::error::{MetricError, Result};

/// A stored value: `u8` or `f32`.
pub trait Value: Copy + Into<f64> + Sync {}
impl Value for u8 {}
impl Value for f32 {}
impl Value for f64 {}

/// Σ|t|, Σ|t|^1.5 and Σt² of the differences of one image; sums of several images add.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DifferenceSums {
    pub absolute: f64,
    pub power_1_5: f64,
    pub squared: f64,
}

impl DifferenceSums {
    /// The L1, L1.5 and L2 norms.
    pub fn norms(&self) -> LpNorms {
        let root = self.power_1_5.cbrt();
        LpNorms {
            l1: self.absolute,
            l1_5: root * root,
            l2: self.squared.sqrt(),
        }
    }

    /// L1 + L2, as the published evaluator computes "elastic net".
    pub fn elastic_net_published(&self) -> f64 {
        self.absolute + self.squared.sqrt()
    }

    /// L1 + L2², the usual elastic net.
    pub fn elastic_net(&self) -> f64 {
        self.absolute + self.squared
    }

    fn add(self, other: Self) -> Self {
        Self {
            absolute: self.absolute + other.absolute,
            power_1_5: self.power_1_5 + other.power_1_5,
            squared: self.squared + other.squared,
        }
    }
}

/// ‖·‖₁, ‖·‖₁.₅ and ‖·‖₂.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LpNorms {
    pub l1: f64,
    pub l1_5: f64,
    pub l2: f64,
}

/// Sums of differences for each image of a batch of `values_per_image` values.
pub fn per_image<T: Value>(
    original: &[T],
    counterfactual: &[T],
    values_per_image: usize,
) -> Result<Vec<DifferenceSums>> {
    if original.len() != counterfactual.len() {
        return Err(MetricError::shape(
            "counterfactuals for D_p",
            format!("{} values, as in the originals", original.len()),
            format!("{} values", counterfactual.len()),
        ));
    }
    if values_per_image == 0 || !original.len().is_multiple_of(values_per_image) {
        return Err(MetricError::shape(
            "images for D_p",
            format!("a multiple of {values_per_image} values per image"),
            format!("{} values", original.len()),
        ));
    }
    original
        .par_chunks(values_per_image)
        .zip(counterfactual.par_chunks(values_per_image))
        .enumerate()
        .map(|(image, (x, c))| differences(image, x, c))
        .collect()
}

fn differences<T: Value>(image: usize, x: &[T], c: &[T]) -> Result<DifferenceSums> {
    let mut sums = DifferenceSums::default();
    for (&x, &c) in x.iter().zip(c) {
        let difference: f64 = (x.into() - c.into()).abs();
        sums.absolute += difference;
        sums.power_1_5 += difference * difference.sqrt();
        sums.squared += difference * difference;
    }
    if sums.squared.is_finite() {
        return Ok(sums);
    }
    let column = x
        .iter()
        .zip(c)
        .position(|(&x, &c)| !(x.into() - c.into()).is_finite())
        .unwrap_or(0);
    Err(MetricError::NotFinite {
        what: "images for D_p".to_owned(),
        row: image,
        column,
        value: x[column].into() - c[column].into(),
    })
}

/// Sums over all images, in order: their norms are the study's whole-batch D_p.
pub fn whole_batch(images: &[DifferenceSums]) -> DifferenceSums {
    images
        .iter()
        .fold(DifferenceSums::default(), |sum, &image| sum.add(image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_of_known_differences() {
        let sums = per_image(&[0u8, 0, 10], &[3, 4, 10], 3).unwrap();
        let norms = sums[0].norms();
        assert_eq!((norms.l1, norms.l2), (7.0, 5.0));
        let expected = (3f64.powf(1.5) + 8.0).powf(2.0 / 3.0);
        assert!((norms.l1_5 - expected).abs() < 1e-13);
        assert_eq!(sums[0].elastic_net_published(), 12.0);
        assert_eq!(sums[0].elastic_net(), 32.0);
    }

    #[test]
    fn identical_images_are_at_distance_zero() {
        let image = [0.1f32, -0.7, 0.3, 0.9];
        for sums in per_image(&image, &image, 2).unwrap() {
            assert_eq!(sums, DifferenceSums::default());
        }
    }

    #[test]
    fn whole_batch_norm_is_the_norm_of_the_joined_images() {
        let (a, b) = ([1.0f32, -2.0, 0.5, 4.0], [0.0f32, 1.0, 2.0, -1.0]);
        let joined = per_image(&a, &b, 4).unwrap()[0].norms();
        let whole = whole_batch(&per_image(&a, &b, 2).unwrap()).norms();
        assert!((joined.l1_5 - whole.l1_5).abs() < 1e-14);
        assert!((joined.l2 - whole.l2).abs() < 1e-14);
    }

    #[test]
    fn sizes_that_do_not_fit_and_nan_are_errors() {
        assert!(per_image(&[0.0f32; 4], &[0.0; 6], 2).is_err());
        assert!(per_image(&[0.0f32; 5], &[0.0; 5], 2).is_err());
        assert!(per_image(&[0.0f32; 4], &[0.0; 4], 0).is_err());
        let error = per_image(&[0.0, 0.0, 0.0, f32::NAN], &[0.0; 4], 2).unwrap_err();
        assert!(error.to_string().contains("row 1, column 1"), "{error}");
    }
}
