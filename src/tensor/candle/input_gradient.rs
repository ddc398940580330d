//! The gradient of a convolution's input: again a convolution, with flipped and transposed weights.
//!
//! With a stride `s` the input rows fall into `s` phases. Row `y` is read through kernel rows `k ≡ y + top (mod s)`
//! only, so each phase of rows and columns is a stride-1 convolution of the gradient with every s-th weight:
//! `dx[p − top + s·q] = Σ_j w[p + s·j] · g[q − j]`. No zeros are multiplied.

use std::sync::OnceLock;

use super::tensor::View;
use crate::cpu::{Packed, conv};
use crate::{Activation, Array, Conv, Padding, Shape, TensorError};

/// Backward weights, packed when they are first needed.
pub struct InputGradient {
    spec: Conv,
    /// OIHW.
    weight: Vec<f32>,
    whole: OnceLock<Packed>,
    flat: OnceLock<Packed>,
    phases: OnceLock<Vec<Phase>>,
}

/// Rows and columns of one phase: where they start in the kernel, and their own kernel.
struct Phase {
    at: [usize; 2],
    packed: Packed,
}

impl InputGradient {
    /// `weight` is OIHW and fits `spec`.
    pub fn new(spec: Conv, weight: Vec<f32>) -> Self {
        Self {
            spec: spec.activation(Activation::None),
            weight,
            whole: OnceLock::new(),
            flat: OnceLock::new(),
            phases: OnceLock::new(),
        }
    }

    /// The gradient of an input of shape `x`, given that of the output (before the activation).
    pub fn run(&self, g: View<'_>, x: Shape) -> Result<Vec<f32>, TensorError> {
        let spec = &self.spec;
        let [kh, kw] = spec.kernel;
        let p = spec.padding;
        let mut dx = vec![0.0; x.len()];
        if dx.is_empty() {
            return Ok(dx);
        }
        if spec.groups == 1 && p == Padding::default() && [kh, kw] == [x.h, x.w] && kh * kw > 1 {
            let packed = conv::once(&self.flat, || self.pack_flat())?;
            let shape = Shape::new(g.shape.n, 1, 1, g.shape.c);
            conv::run_slice(g.data, shape, packed, None, &mut dx)?;
        } else if spec.stride == 1 && p.top.max(p.bottom) < kh && p.left.max(p.right) < kw {
            let packed = conv::once(&self.whole, || {
                let padding = Padding {
                    top: kh - 1 - p.top,
                    left: kw - 1 - p.left,
                    bottom: kh - 1 - p.bottom,
                    right: kw - 1 - p.right,
                };
                self.pack_phase([0, 0], [kh, kw], padding)
            })?;
            conv::run_slice(g.data, g.shape, packed, None, &mut dx)?;
        } else {
            for phase in conv::once(&self.phases, || self.pack_phases())? {
                self.run_phase(phase, g, x, &mut dx)?;
            }
        }
        Ok(dx)
    }

    /// A window as large as the image is a linear layer; so is its transpose.
    fn pack_flat(&self) -> Result<Packed, TensorError> {
        let (o, i) = (self.spec.outputs, self.spec.inputs);
        let taps = self.spec.kernel[0] * self.spec.kernel[1];
        let mut weight = Array::zeros([taps * i, o]);
        for output in 0..o {
            for input in 0..i {
                for tap in 0..taps {
                    weight.data[(tap * i + input) * o + output] =
                        self.weight[(output * i + input) * taps + tap];
                }
            }
        }
        Packed::new(Conv::linear(o, taps * i), &weight, &[])
    }

    fn pack_phases(&self) -> Result<Vec<Phase>, TensorError> {
        let s = self.spec.stride;
        let [kh, kw] = self.spec.kernel;
        let mut phases = Vec::new();
        for py in 0..s.min(kh) {
            for px in 0..s.min(kw) {
                let kernel = [(kh - py).div_ceil(s), (kw - px).div_ceil(s)];
                phases.push(Phase {
                    at: [py, px],
                    packed: self.pack_phase([py, px], kernel, Padding::default())?,
                });
            }
        }
        Ok(phases)
    }

    /// Every s-th weight from `at`, flipped, inputs and outputs exchanged within each group.
    fn pack_phase(
        &self,
        at: [usize; 2],
        kernel: [usize; 2],
        padding: Padding,
    ) -> Result<Packed, TensorError> {
        let spec = &self.spec;
        let [kh, kw] = spec.kernel;
        let (i_group, o_group) = (spec.inputs / spec.groups, spec.outputs / spec.groups);
        let mut weight = Array::zeros([spec.inputs, o_group, kernel[0], kernel[1]]);
        let mut to = 0;
        for input in 0..spec.inputs {
            let (group, i) = (input / i_group, input % i_group);
            for o in group * o_group..(group + 1) * o_group {
                for jy in (0..kernel[0]).rev() {
                    for jx in (0..kernel[1]).rev() {
                        let (ky, kx) = (at[0] + spec.stride * jy, at[1] + spec.stride * jx);
                        weight.data[to] = self.weight[((o * i_group + i) * kh + ky) * kw + kx];
                        to += 1;
                    }
                }
            }
        }
        let back = Conv {
            inputs: spec.outputs,
            outputs: spec.inputs,
            kernel,
            stride: 1,
            padding,
            ..*spec
        };
        Packed::new(back, &weight, &[])
    }

    fn run_phase(
        &self,
        phase: &Phase,
        g: View<'_>,
        x: Shape,
        dx: &mut [f32],
    ) -> Result<(), TensorError> {
        let spec = &self.spec;
        let s = spec.stride;
        let [rows, columns] = [
            Span::new(
                x.h,
                s,
                spec.padding.top,
                phase.at[0],
                phase.packed.spec.kernel[0],
            ),
            Span::new(
                x.w,
                s,
                spec.padding.left,
                phase.at[1],
                phase.packed.spec.kernel[1],
            ),
        ];
        if rows.count == 0 || columns.count == 0 {
            return Ok(());
        }
        let window = Shape {
            h: rows.count + phase.packed.spec.kernel[0] - 1,
            w: columns.count + phase.packed.spec.kernel[1] - 1,
            ..g.shape
        };
        let bordered = cut(g, window, [rows.first, columns.first]);
        let out = Shape::new(x.n, rows.count, columns.count, x.c);
        let mut values = vec![0.0; out.len()];
        conv::run_slice(&bordered, window, &phase.packed, None, &mut values)?;
        for (i, line) in values.chunks_exact(out.w * out.c).enumerate() {
            let (n, y) = (i / out.h, rows.start + i % out.h * s);
            for (j, pixel) in line.chunks_exact(out.c).enumerate() {
                let at = ((n * x.h + y) * x.w + columns.start + j * s) * x.c;
                dx[at..at + x.c].copy_from_slice(pixel);
            }
        }
        Ok(())
    }
}

/// The inputs of one phase along one axis, and the first gradient they read.
struct Span {
    /// First input of the phase; the others follow at distance `s`.
    start: usize,
    count: usize,
    /// May be negative: gradients before the first are zero.
    first: isize,
}

impl Span {
    fn new(size: usize, s: usize, before: usize, phase: usize, kernel: usize) -> Self {
        // The least q with phase − before + s·q ≥ 0.
        let q = before.saturating_sub(phase).div_ceil(s);
        let start = phase + s * q - before;
        Self {
            start,
            count: size.saturating_sub(start).div_ceil(s),
            first: q as isize - (kernel as isize - 1),
        }
    }
}

/// The rows and columns of `g` from `first` on, with zeros beyond its sides.
fn cut(g: View<'_>, window: Shape, first: [isize; 2]) -> Vec<f32> {
    let mut out = vec![0.0; window.len()];
    let c = g.shape.c;
    let inside = |first: isize, count: usize, size: usize| {
        let start = (-first).clamp(0, count as isize) as usize;
        let end = (size as isize - first).clamp(start as isize, count as isize) as usize;
        start..end
    };
    let (rows, columns) = (
        inside(first[0], window.h, g.shape.h),
        inside(first[1], window.w, g.shape.w),
    );
    if columns.is_empty() {
        return out;
    }
    for n in 0..window.n {
        for y in rows.clone() {
            let from_y = (y as isize + first[0]) as usize;
            let from_x = (columns.start as isize + first[1]) as usize;
            let from = ((n * g.shape.h + from_y) * g.shape.w + from_x) * c;
            let to = ((n * window.h + y) * window.w + columns.start) * c;
            let len = columns.len() * c;
            out[to..to + len].copy_from_slice(&g.data[from..from + len]);
        }
    }
    out
}
