//! Quirks of the \[diffusion-vce\] study's code, kept for comparison with its published numbers only.
//!
//! * Its FID received images in [-1, 1] multiplied by 255 and cast to `uint8`: truncated toward zero, wrapped modulo 256.
//! * Its LPIPS received each batch rescaled to [-1, 1] by the minimum and maximum of the WHOLE batch.

use super::error::{MetricError, Result};

/// value × 255 in `f32`, truncated toward zero, modulo 256 (−1 → 1, −0.5 → 129, 1.02 → 4).
/// NaN gives 0; values beyond ±3.6e16 saturate before they wrap.
pub fn wrap_to_uint8(value: f32) -> u8 {
    (value * 255.0) as i64 as u8
}

/// 2·(x − min)/(max − min) − 1 over the whole batch, in `f32` and in the study's order of operations.
/// A batch of one value everywhere is an error (the study's code gives NaN).
pub fn rescale_batch_by_min_max(batch: &[f32]) -> Result<Vec<f32>> {
    if let Some(column) = batch.iter().position(|v| !v.is_finite()) {
        return Err(MetricError::NotFinite {
            what: "batch for min-max rescaling".to_owned(),
            row: 0,
            column,
            value: f64::from(batch[column]),
        });
    }
    let min = batch.iter().copied().fold(f32::INFINITY, f32::min);
    let max = batch.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = max - min;
    if batch.is_empty() || range <= 0.0 {
        return Err(MetricError::Numeric {
            what: "batch for min-max rescaling".to_owned(),
            detail:
                "all values are equal, so that there is no range to rescale; use the exact protocol"
                    .to_owned(),
        });
    }
    Ok(batch
        .iter()
        .map(|&x| 2.0 * ((x - min) / range) - 1.0)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_or_empty_batch_is_an_error() {
        assert!(rescale_batch_by_min_max(&[0.5; 4]).is_err());
        assert!(rescale_batch_by_min_max(&[]).is_err());
        assert!(rescale_batch_by_min_max(&[0.0, f32::NAN]).is_err());
    }

    #[test]
    fn rescaling_reaches_both_ends() {
        assert_eq!(
            rescale_batch_by_min_max(&[-3.0, 1.0, -1.0]).unwrap(),
            [-1.0, 1.0, 0.0]
        );
    }
}
