//! Activations on their own, sums with broadcasting, per-channel affine maps.

use rayon::prelude::*;

use super::operation::{Gradient, Operation, Output};
use super::slope::times_slope;
use super::tensor::View;
use crate::cpu::simd::{FlushDenormals, flushed};
use crate::{Activation, Backend, Shape, TensorError, cpu::Cpu};

/// `f(x)`.
pub struct Activate(pub Activation);

impl Operation<1> for Activate {
    const NAME: &'static str = "activation";

    fn forward(&self, [x]: [View<'_>; 1]) -> Output {
        Ok((x.shape, Cpu.activate(&x.for_engine(), self.0).into_data()))
    }

    fn backward(
        &self,
        [x]: [View<'_>; 1],
        _: View<'_>,
        g: View<'_>,
        _: [bool; 1],
    ) -> Result<[Gradient; 1], TensorError> {
        Ok([Gradient::Values(times_slope(g.data, x.data, self.0))])
    }
}

/// `a + b` with `b` repeated over pixels or images.
pub struct Add;

impl Operation<2> for Add {
    const NAME: &'static str = "add";

    fn forward(&self, [a, b]: [View<'_>; 2]) -> Output {
        let sum = Cpu.add(&a.for_engine(), &b.for_engine())?;
        Ok((a.shape, sum.into_data()))
    }

    fn backward(
        &self,
        [a, b]: [View<'_>; 2],
        _: View<'_>,
        g: View<'_>,
        [_, wanted]: [bool; 2],
    ) -> Result<[Gradient; 2], TensorError> {
        let to_b = if a.shape == b.shape {
            Gradient::Same
        } else {
            Gradient::when(wanted, || sum_repeats(g, b.shape))
        };
        Ok([Gradient::Same, to_b])
    }
}

/// Sums a gradient over the pixels or images that one value was repeated to.
fn sum_repeats(g: View<'_>, to: Shape) -> Vec<f32> {
    let per_image: Vec<Vec<f32>> = (0..g.shape.n)
        .into_par_iter()
        .map(|n| flushed(|| sum_rows(g.image(n), to.image())))
        .collect();
    let images = per_image.concat();
    if to.n == g.shape.n {
        images
    } else {
        sum_rows(&images, to.image())
    }
}

/// The sum of all rows of `width` values, in f64.
pub fn sum_rows(values: &[f32], width: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; width];
    for row in values.chunks_exact(width.max(1)) {
        for (s, v) in sums.iter_mut().zip(row) {
            *s += f64::from(*v);
        }
    }
    sums.into_iter().map(|s| s as f32).collect()
}

/// `x[order[c]] · scale[c] + shift[c]`.
pub struct ChannelAffine {
    pub order: Vec<usize>,
    pub scale: Vec<f32>,
    pub shift: Vec<f32>,
}

impl Operation<1> for ChannelAffine {
    const NAME: &'static str = "affine";

    fn forward(&self, [x]: [View<'_>; 1]) -> Output {
        let y = Cpu.affine(&x.for_engine(), &self.order, &self.scale, &self.shift)?;
        Ok((y.shape(), y.into_data()))
    }

    fn backward(
        &self,
        [x]: [View<'_>; 1],
        _: View<'_>,
        g: View<'_>,
        _: [bool; 1],
    ) -> Result<[Gradient; 1], TensorError> {
        let _flush = FlushDenormals::on();
        let mut dx = vec![0.0; x.data.len()];
        let pixels = g.data.chunks_exact(self.order.len().max(1));
        for (to, from) in dx.chunks_exact_mut(x.shape.c.max(1)).zip(pixels) {
            for ((g, &c), s) in from.iter().zip(&self.order).zip(&self.scale) {
                to[c] += g * s;
            }
        }
        Ok([Gradient::Values(dx)])
    }
}
