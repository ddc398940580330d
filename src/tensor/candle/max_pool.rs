//! Max pooling. A window's whole gradient goes to its first maximum in reading order, as in torch; a NaN counts
//! as the largest value.

use rayon::prelude::*;

use super::operation::{Gradient, Operation, Output};
use super::tensor::View;
use crate::cpu::pool::Span;
use crate::cpu::simd::for_each_isa;
use crate::{Backend, Pool, Shape, TensorError, cpu::Cpu};

/// Input rows per piece of parallel work.
const BAND: usize = 16;

pub struct MaxPool(pub Pool);

impl Operation<1> for MaxPool {
    const NAME: &'static str = "max pool";

    fn forward(&self, [x]: [View<'_>; 1]) -> Output {
        let y = Cpu.pool(&x.for_engine(), self.0)?;
        Ok((y.shape(), y.into_data()))
    }

    fn backward(
        &self,
        [x]: [View<'_>; 1],
        y: View<'_>,
        g: View<'_>,
        _: [bool; 1],
    ) -> Result<[Gradient; 1], TensorError> {
        let (pool, shape) = (self.0, x.shape);
        let line = shape.w * shape.c;
        let mut dx = vec![0.0; x.data.len()];
        dx.par_chunks_mut(shape.image().max(1))
            .enumerate()
            .for_each(|(n, dx)| {
                dx.par_chunks_mut((BAND * line).max(1))
                    .enumerate()
                    .for_each(|(band, dx)| {
                        let first = band * BAND;
                        let rows = first..(first + BAND).min(shape.h);
                        let image = Image {
                            x: x.image(n),
                            gradient: g.image(n),
                            shape,
                            out: y.shape,
                        };
                        image.band(pool, rows, dx);
                    });
            });
        Ok([Gradient::Values(dx)])
    }
}

struct Image<'a> {
    x: &'a [f32],
    gradient: &'a [f32],
    shape: Shape,
    out: Shape,
}

impl Image<'_> {
    /// Adds to the rows of one band what the windows that reach into it send there.
    fn band(&self, pool: Pool, rows: std::ops::Range<usize>, dx: &mut [f32]) {
        let c = self.shape.c;
        let mut best = vec![0.0f32; c];
        let mut place = vec![0u32; c];
        for oy in 0..self.out.h {
            let ys = Span::new(oy, pool, self.shape.h).range();
            if ys.end <= rows.start || ys.start >= rows.end {
                continue;
            }
            for ox in 0..self.out.w {
                let xs = Span::new(ox, pool, self.shape.w).range();
                best.fill(f32::NEG_INFINITY);
                place.fill(u32::MAX);
                let mut tap = 0;
                for y in ys.clone() {
                    for x in xs.clone() {
                        let from = &self.x[(y * self.shape.w + x) * c..][..c];
                        take_larger(&mut best, &mut place, from, tap);
                        tap += 1;
                    }
                }
                let gradient = &self.gradient[(oy * self.out.w + ox) * c..][..c];
                for (i, y) in ys.clone().enumerate() {
                    if !rows.contains(&y) {
                        continue;
                    }
                    for (j, x) in xs.clone().enumerate() {
                        let to = &mut dx[((y - rows.start) * self.shape.w + x) * c..][..c];
                        add_where(to, gradient, &place, (i * xs.len() + j) as u32);
                    }
                }
            }
        }
    }
}

for_each_isa! {
    fn take_larger(best: &mut [f32], place: &mut [u32], from: &[f32], tap: u32) {
        for ((b, p), f) in best.iter_mut().zip(place).zip(from) {
            // The first tap is always taken: a window may hold nothing but -inf.
            let larger = *f > *b || f.is_nan() || *p == u32::MAX;
            *b = if larger { *f } else { *b };
            *p = if larger { tap } else { *p };
        }
    }
}

for_each_isa! {
    fn add_where(to: &mut [f32], gradient: &[f32], place: &[u32], tap: u32) {
        for ((t, g), p) in to.iter_mut().zip(gradient).zip(place) {
            *t += if *p == tap { *g } else { 0.0 };
        }
    }
}
