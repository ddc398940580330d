//! Scales and shifts of each image's own, forth and back.
//!
//! With `y = f(x · scale + shift)` and `h = g · f′`: `dx = h · scale`, `dscale = Σ h · x`, `dshift = Σ h` over the
//! pixels of an image, in f64.

use rayon::prelude::*;

use super::operation::{Gradient, Operation, Output};
use super::slope::{shows_in_result, times_slope};
use super::tensor::View;
use crate::cpu::simd::FlushDenormals;
use crate::{Activation, Backend, TensorError, cpu::Cpu};

/// Holds the activation.
pub struct Modulate(pub Activation);

impl Operation<2> for Modulate {
    const NAME: &'static str = "modulation";

    fn forward(&self, [x, modulation]: [View<'_>; 2]) -> Output {
        let y = Cpu.modulate(&x.for_engine(), &modulation.for_engine(), self.0)?;
        Ok((y.shape(), y.into_data()))
    }

    fn backward(
        &self,
        [x, modulation]: [View<'_>; 2],
        y: View<'_>,
        g: View<'_>,
        wanted: [bool; 2],
    ) -> Result<[Gradient; 2], TensorError> {
        let h = if shows_in_result(self.0) {
            times_slope(g.data, y.data, self.0)
        } else {
            let (x, modulation) = (x.for_engine(), modulation.for_engine());
            let before = Cpu.modulate(&x, &modulation, Activation::None)?;
            times_slope(g.data, &before.into_data(), self.0)
        };
        let by_modulation = Gradient::when(wanted[1], || sums(x, &h));
        let by_x = Gradient::when(wanted[0], || scaled(h, modulation, x.shape.image()));
        Ok([by_x, by_modulation])
    }
}

/// `h · scale`.
fn scaled(mut h: Vec<f32>, modulation: View<'_>, image: usize) -> Vec<f32> {
    let c = modulation.shape.c / 2;
    h.par_chunks_mut(image.max(1))
        .enumerate()
        .for_each(|(n, image)| {
            let _flush = FlushDenormals::on();
            let scale = &modulation.image(n)[..c];
            for pixel in image.chunks_exact_mut(c.max(1)) {
                pixel.iter_mut().zip(scale).for_each(|(h, s)| *h *= s);
            }
        });
    h
}

/// For each image `Σ h · x`, then `Σ h`, channel by channel.
fn sums(x: View<'_>, h: &[f32]) -> Vec<f32> {
    let c = x.shape.c;
    let of_image = |(n, h): (usize, &[f32])| {
        let _flush = FlushDenormals::on();
        let mut sums = vec![0.0f64; 2 * c];
        let (by_scale, by_shift) = sums.split_at_mut(c);
        let pixels = h
            .chunks_exact(c.max(1))
            .zip(x.image(n).chunks_exact(c.max(1)));
        for (h, x) in pixels {
            for i in 0..c {
                by_scale[i] += f64::from(h[i]) * f64::from(x[i]);
                by_shift[i] += f64::from(h[i]);
            }
        }
        sums.into_iter().map(|s| s as f32).collect::<Vec<_>>()
    };
    let images = h.par_chunks(x.shape.image().max(1)).enumerate();
    images.flat_map_iter(of_image).collect()
}
