//! Layer and group norms; statistics in f64.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::elementwise::activate_in_place;
use super::tensor::Tensor;
use crate::tensor::{Activation, Norm, Shape, TensorError};

fn expect_channels(
    operation: &'static str,
    shape: Shape,
    norm: &Norm,
    groups: usize,
) -> Result<(), TensorError> {
    let fits = norm.weight.len() == shape.c && norm.bias.len() == shape.c;
    if fits && groups > 0 && shape.c.is_multiple_of(groups) {
        return Ok(());
    }
    Err(TensorError::Shape {
        operation,
        expected: format!("{} channels in {groups} groups", norm.weight.len()),
        found: format!("{} channels", shape.c),
    })
}

/// Normalises each pixel over its channels: `(x − μ)/√(σ² + ε) · weight + bias`.
pub fn layer(x: &Tensor, norm: &Norm) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    expect_channels("layer norm", shape, norm, 1)?;
    let mut data = Buffer::from(x.data());
    data.par_chunks_mut((shape.w * shape.c).max(1))
        .for_each(|row| {
            for pixel in row.chunks_exact_mut(shape.c) {
                let (mean, scale) = statistics(std::iter::once(&*pixel), norm.epsilon);
                for ((v, w), b) in pixel.iter_mut().zip(&norm.weight).zip(&norm.bias) {
                    *v = (*v - mean) * scale * w + b;
                }
            }
        });
    Ok(Tensor::new(shape, data))
}

/// Normalises each group of channels over all pixels of an image; modulation and activation follow.
pub fn group(
    x: &Tensor,
    groups: usize,
    norm: &Norm,
    modulation: Option<&Tensor>,
    activation: Activation,
) -> Result<Tensor, TensorError> {
    let shape = x.shape();
    expect_channels("group norm", shape, norm, groups)?;
    if let Some(m) = modulation {
        let expected = Shape::new(shape.n, 1, 1, 2 * shape.c);
        super::tensor::expect_shape("modulation of a group norm", expected, m.shape())?;
    }
    let per_group = shape.c / groups;
    let mut data = Buffer::from(x.data());
    data.par_chunks_mut(shape.image().max(1))
        .enumerate()
        .for_each(|(n, image)| {
            let mut scale = vec![0.0f32; shape.c];
            let mut shift = vec![0.0f32; shape.c];
            for g in 0..groups {
                let channels = g * per_group..(g + 1) * per_group;
                let rows = image.chunks_exact(shape.c).map(|p| &p[channels.clone()]);
                let (mean, inverse) = statistics(rows, norm.epsilon);
                for c in channels.clone() {
                    scale[c] = inverse * norm.weight[c];
                    shift[c] = norm.bias[c] - mean * scale[c];
                }
            }
            if let Some(m) = modulation.map(|m| m.image(n)) {
                for c in 0..shape.c {
                    scale[c] *= 1.0 + m[c];
                    shift[c] = shift[c] * (1.0 + m[c]) + m[shape.c + c];
                }
            }
            for pixel in image.chunks_exact_mut(shape.c) {
                for ((v, a), b) in pixel.iter_mut().zip(&scale).zip(&shift) {
                    *v = *v * a + b;
                }
                activate_in_place(pixel, activation);
            }
        });
    Ok(Tensor::new(shape, data))
}

/// Mean and `1/√(variance + ε)` over all values of the rows, in two passes.
fn statistics<'a>(rows: impl Iterator<Item = &'a [f32]> + Clone, epsilon: f32) -> (f32, f32) {
    let (mut sum, mut count) = (0.0f64, 0usize);
    for row in rows.clone() {
        sum += row.iter().map(|&v| f64::from(v)).sum::<f64>();
        count += row.len();
    }
    let mean = sum / count as f64;
    let squares: f64 = rows
        .map(|row| {
            row.iter()
                .map(|&v| (f64::from(v) - mean).powi(2))
                .sum::<f64>()
        })
        .sum();
    let inverse = 1.0 / (squares / count as f64 + f64::from(epsilon)).sqrt();
    (mean as f32, inverse as f32)
}
