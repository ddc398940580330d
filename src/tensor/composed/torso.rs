//! The way into a torso that is kept in a half type, and the way out of it.
//!
//! Gradients inside have that type too, and those of images are small: f16 would lose them. What flows back is linear, so
//! the gradient of every image is multiplied by a power of two where it enters the torso, which brings its largest value
//! near one, and divided by it where it leaves. Powers belong to an image, never to its batch.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Result, Tensor};

use super::failure;
use super::taped::taped;
use crate::{Kept, TensorError, candle};

/// Powers of two beyond these are no numbers of f32, or their inverses are none.
const LARGEST: i32 = 120;

/// One exponent for each image, set by the gradient on its way in and read on its way out.
type Lifts = Arc<Mutex<Vec<i32>>>;

/// Runs `inside` on values kept in a type; its result is f32 again.
pub fn run<E: From<TensorError>>(
    x: &candle::Tensor,
    kept: Kept,
    inside: impl FnOnce(candle::Tensor) -> std::result::Result<candle::Tensor, E>,
) -> std::result::Result<candle::Tensor, E> {
    if kept == Kept::F32 {
        return inside(x.clone());
    }
    let lifts = Lifts::default();
    let entered = enter(x.sound()?, kept, lifts.clone()).map_err(failure)?;
    let result = inside(candle::Tensor::new(&entered)?)?;
    drop(entered);
    let left = leave(result.sound()?, lifts).map_err(failure)?;
    Ok(candle::Tensor::new(&left)?)
}

fn enter(x: &Tensor, kept: Kept, lifts: Lifts) -> Result<Tensor> {
    let narrow = x.detach().to_dtype(kept.dtype())?;
    taped([x], narrow, move |[x], gradient| {
        let lifts = lifts.lock().unwrap_or_else(PoisonError::into_inner);
        let gradient = gradient.to_dtype(DType::F32)?;
        let back = scaled(&gradient, lifts.iter().map(|lift| -lift))?;
        Ok([Some(back.to_dtype(x.dtype())?)])
    })
}

fn leave(y: &Tensor, lifts: Lifts) -> Result<Tensor> {
    let wide = y.detach().to_dtype(DType::F32)?;
    taped([y], wide, move |[y], gradient| {
        let peaks = gradient.abs()?.flatten_from(1)?.max(1)?.to_vec1::<f32>()?;
        let mut lifts = lifts.lock().unwrap_or_else(PoisonError::into_inner);
        *lifts = peaks.into_iter().map(lift).collect();
        let lifted = scaled(gradient, lifts.iter().copied())?;
        Ok([Some(lifted.to_dtype(y.dtype())?)])
    })
}

/// The exponent that brings a peak between one half and two; none for zero and for what is not a number.
fn lift(peak: f32) -> i32 {
    match peak > 0.0 && peak.is_finite() {
        true => (-peak.log2().floor() as i32).clamp(-LARGEST, LARGEST),
        false => 0,
    }
}

/// Every image times two to its exponent.
fn scaled(images: &Tensor, exponents: impl Iterator<Item = i32>) -> Result<Tensor> {
    let factors: Vec<f32> = exponents.map(|e| 2.0f32.powi(e)).collect();
    let count = factors.len();
    let factors = Tensor::from_vec(factors, (count, 1, 1, 1), images.device())?;
    images.broadcast_mul(&factors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_come_near_one_and_what_has_none_stays() {
        for peak in [1e-30f32, 3e-7, 0.9, 1.0, 40.0, 1e30] {
            let lifted = peak * 2.0f32.powi(lift(peak));
            assert!((0.5..=2.0).contains(&lifted), "{peak}: {lifted}");
        }
        for odd in [0.0, f32::NAN, f32::INFINITY] {
            assert_eq!(lift(odd), 0);
        }
        assert!(2.0f32.powi(-lift(1e-45)) > 0.0);
    }
}
