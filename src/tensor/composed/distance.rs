//! The feature distance of LPIPS.

use candle_core::{Result, Tensor};

/// What a vector's length must exceed to count, as in the original.
const LEAST: f64 = 1e-10;

/// `Σ_c head[c] · (â_c − b̂_c)²` of each pixel, `[n, h, w, 1]`.
pub fn feature_distance(a: &Tensor, b: &Tensor, head: &Tensor) -> Result<Tensor> {
    let apart = (unit(a)? - unit(b)?)?;
    apart.sqr()?.broadcast_mul(head)?.sum_keepdim(3)
}

/// `x / (‖x‖ + 1e-10)` of each pixel. A dead one has no direction: it stays zero, and gets no gradient.
fn unit(x: &Tensor) -> Result<Tensor> {
    let squares = x.sqr()?.sum_keepdim(3)?;
    let dead = squares.le(0.0)?;
    // Not zero where the slope of the root would be infinite.
    let length = dead.where_cond(&squares.ones_like()?, &squares)?.sqrt()?;
    let unit = x.broadcast_div(&(length + LEAST)?)?;
    let dead = dead.broadcast_as(x.shape())?.contiguous()?;
    dead.where_cond(&x.zeros_like()?, &unit)
}
