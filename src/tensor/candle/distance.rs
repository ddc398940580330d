//! The feature distance of LPIPS, forth and back.
//!
//! With `u = a/(‖a‖ + ε)`, `v = b/(‖b‖ + ε)` and `m = Σ h·(u − v)²`: `r = dm/du = 2h·(u − v)` and
//! `da = r/(‖a‖ + ε) − a · (r·a)/(‖a‖·(‖a‖ + ε)²)`; `db` likewise with `−r`. A pixel that is the zero vector gets
//! no gradient: there the length has a kink, and its slope 1/ε would drown everything else.

use rayon::prelude::*;

use super::operation::{Gradient, Operation, Output};
use super::tensor::View;
use crate::cpu::simd::FlushDenormals;
use crate::{Backend, TensorError, cpu::Cpu};

const EPSILON: f64 = 1e-10;

/// Holds the head: a weight for each channel.
pub struct FeatureDistance(pub Vec<f32>);

impl Operation<2> for FeatureDistance {
    const NAME: &'static str = "feature distance";

    fn forward(&self, [a, b]: [View<'_>; 2]) -> Output {
        let map = Cpu.feature_distance(&a.for_engine(), &b.for_engine(), &self.0)?;
        Ok((map.shape(), map.into_data()))
    }

    fn backward(
        &self,
        [a, b]: [View<'_>; 2],
        _: View<'_>,
        g: View<'_>,
        wanted: [bool; 2],
    ) -> Result<[Gradient; 2], TensorError> {
        Ok([
            Gradient::when(wanted[0], || one_side(a, b, g, &self.0)),
            Gradient::when(wanted[1], || one_side(b, a, g, &self.0)),
        ])
    }
}

/// The gradient of `a`; the distance is symmetric, so that of `b` is the same with the two exchanged.
fn one_side(a: View<'_>, b: View<'_>, g: View<'_>, head: &[f32]) -> Vec<f32> {
    let c = head.len().max(1);
    let line = (a.shape.w * c).max(1);
    let mut da = vec![0.0; a.data.len()];
    da.par_chunks_mut(line).enumerate().for_each(|(row, da)| {
        let _flush = FlushDenormals::on();
        let at = row * line;
        let pixels = da
            .chunks_exact_mut(c)
            .zip(a.data[at..].chunks_exact(c))
            .zip(b.data[at..].chunks_exact(c))
            .zip(&g.data[row * a.shape.w..]);
        for (((da, a), b), g) in pixels {
            pixel(da, a, b, head, f64::from(*g));
        }
    });
    da
}

fn length(x: &[f32]) -> f64 {
    x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt()
}

fn pixel(da: &mut [f32], a: &[f32], b: &[f32], head: &[f32], g: f64) {
    let (la, lb) = (length(a), length(b) + EPSILON);
    if la == 0.0 {
        return;
    }
    let whole = la + EPSILON;
    let slope =
        |i: usize| 2.0 * f64::from(head[i]) * g * (f64::from(a[i]) / whole - f64::from(b[i]) / lb);
    let dot: f64 = (0..a.len()).map(|i| slope(i) * f64::from(a[i])).sum();
    let along = dot / (la * whole * whole);
    for (i, d) in da.iter_mut().enumerate() {
        *d = (slope(i) / whole - f64::from(a[i]) * along) as f32;
    }
}
