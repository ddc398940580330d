//! Depthwise convolution: one filter per channel, vectorised over the channels of a pixel.

use rayon::prelude::*;

use super::conv::Target;
use super::elementwise::activate_in_place;
use super::simd::for_each_isa;
use super::tensor::Tensor;
use crate::tensor::{Conv, Shape};

/// True for one filter per channel.
pub fn applies(spec: &Conv) -> bool {
    spec.groups > 1 && spec.groups == spec.inputs && spec.inputs == spec.outputs
}

/// `[c][ky][kx]` → `[ky][kx][c]`.
pub fn pack(spec: &Conv, weight: &[f32]) -> Vec<f32> {
    let (c, taps) = (spec.outputs, spec.kernel[0] * spec.kernel[1]);
    let mut packed = vec![0.0; weight.len()];
    for channel in 0..c {
        for tap in 0..taps {
            packed[tap * c + channel] = weight[channel * taps + tap];
        }
    }
    packed
}

/// Convolves a bordered input; arguments as in the dense case.
#[allow(clippy::too_many_arguments)]
pub fn run(
    spec: &Conv,
    input: &[f32],
    x: Shape,
    out: Shape,
    weights: &[f32],
    bias: &[f32],
    residual: Option<&Tensor>,
    target: Target<'_>,
) {
    let Target {
        data,
        channels,
        first,
    } = target;
    data.par_chunks_mut(out.w * channels)
        .enumerate()
        .for_each(|(row, line)| {
            let (n, y) = (row / out.h, row % out.h);
            let mut sums = vec![0.0f32; out.c];
            for (ox, pixel) in line.chunks_exact_mut(channels).enumerate() {
                let at = n * x.image() + (y * x.w + ox) * spec.stride * x.c;
                window(
                    &mut sums,
                    &input[at..],
                    weights,
                    bias,
                    spec.kernel[0],
                    spec.kernel[1],
                    x.w * x.c,
                );
                if let Some(residual) = residual {
                    let at = (row * out.w + ox) * out.c;
                    for (s, r) in sums.iter_mut().zip(&residual.data()[at..at + out.c]) {
                        *s += r;
                    }
                }
                activate_in_place(&mut sums, spec.activation);
                pixel[first..first + out.c].copy_from_slice(&sums);
            }
        });
}

for_each_isa! {
    fn window(
        sums: &mut [f32],
        input: &[f32],
        weights: &[f32],
        bias: &[f32],
        kernel_h: usize,
        kernel_w: usize,
        input_row: usize,
    ) {
        let c = sums.len();
        sums.copy_from_slice(&bias[..c]);
        for ky in 0..kernel_h {
            for kx in 0..kernel_w {
                let x = &input[ky * input_row + kx * c..][..c];
                let w = &weights[(ky * kernel_w + kx) * c..][..c];
                for ((s, x), w) in sums.iter_mut().zip(x).zip(w) {
                    *s += x * w;
                }
            }
        }
    }
}
