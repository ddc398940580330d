//! The largest value of each window, by comparisons of shifted images.

use candle_core::{Result, Tensor};

use crate::Pool;

/// Pools `x` to `rows × columns`. The first of equal values gets the gradient, and NaN stays NaN.
///
/// A place of a window outside of the image stands for the nearest inside. That one lies in the window too, as its
/// padding is at most half of it, so the largest value and the first place that has it are the same.
pub fn max_pool(x: &Tensor, pool: Pool, rows: usize, columns: usize) -> Result<Tensor> {
    let (_, h, w, _) = x.dims4()?;
    let places = |offset: usize, length: usize, size: usize| {
        let places: Vec<u32> = (0..length)
            .map(|i| (i * pool.stride + offset).saturating_sub(pool.padding))
            .map(|at| at.min(size - 1) as u32)
            .collect();
        Tensor::from_vec(places, length, x.device())
    };
    let mut largest: Option<Tensor> = None;
    for ky in 0..pool.kernel {
        let lines = x.index_select(&places(ky, rows, h)?, 1)?;
        for kx in 0..pool.kernel {
            let next = lines.index_select(&places(kx, columns, w)?, 2)?;
            largest = Some(match largest {
                None => next,
                Some(before) => {
                    let larger = next.gt(&before)?.where_cond(&next, &before)?;
                    next.eq(&next)?.where_cond(&larger, &next)?
                }
            });
        }
    }
    largest.ok_or_else(|| candle_core::Error::Msg("a window without a pixel".into()))
}
