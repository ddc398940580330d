//! Operations that only move pixels: windows, patches, crops, up-sampling, concatenation.

use super::operation::{Gradient, Operation, Output};
use super::tensor::View;
use crate::{Backend, Shape, TensorError, cpu, cpu::Cpu};

/// Whole numbers up to this are exact in f32.
const EXACT: usize = 1 << 24;

/// An operation whose every output pixel is a copy of one input pixel, or zero.
#[derive(Clone, Copy)]
pub enum Move {
    Windows {
        size: usize,
        shift: [usize; 2],
    },
    Unwindows {
        size: usize,
        shift: [usize; 2],
        h: usize,
        w: usize,
    },
    MergePatches,
    Upsample(usize),
    Crop {
        top: usize,
        left: usize,
        h: usize,
        w: usize,
    },
}

impl Move {
    fn run(self, x: &cpu::Tensor) -> Result<cpu::Tensor, TensorError> {
        Ok(match self {
            Move::Windows { size, shift } => Cpu.windows(x, size, shift),
            Move::Unwindows { size, shift, h, w } => Cpu.unwindows(x, size, shift, h, w),
            Move::MergePatches => Cpu.merge_patches(x),
            Move::Upsample(factor) => Cpu.upsample(x, factor)?,
            Move::Crop { top, left, h, w } => Cpu.crop(x, top, left, h, w)?,
        })
    }

    /// For each output pixel one plus the input pixel it copies, or zero: what the engine makes of numbered pixels.
    fn sources(self, x: Shape) -> Result<Vec<f32>, TensorError> {
        let pixels = x.n * x.h * x.w;
        if pixels >= EXACT {
            return Err(TensorError::Shape {
                operation: "gradient of a rearrangement",
                expected: format!("fewer than {EXACT} pixels in a batch"),
                found: format!("{pixels}"),
            });
        }
        let numbered: Vec<f32> = (1..=pixels).map(|i| i as f32).collect();
        let numbered = cpu::Tensor::new(Shape { c: 1, ..x }, numbered[..].into());
        Ok(self.run(&numbered)?.into_data())
    }
}

impl Operation<1> for Move {
    const NAME: &'static str = "rearrangement";

    fn forward(&self, [x]: [View<'_>; 1]) -> Output {
        let y = self.run(&x.for_engine())?;
        Ok((y.shape(), y.into_data()))
    }

    fn backward(
        &self,
        [x]: [View<'_>; 1],
        _: View<'_>,
        g: View<'_>,
        _: [bool; 1],
    ) -> Result<[Gradient; 1], TensorError> {
        let c = x.shape.c.max(1);
        let mut dx = vec![0.0; x.data.len()];
        for (source, pixel) in self.sources(x.shape)?.iter().zip(g.data.chunks_exact(c)) {
            if let Some(source) = (*source as usize).checked_sub(1) {
                for (d, g) in dx[source * c..][..c].iter_mut().zip(pixel) {
                    *d += g;
                }
            }
        }
        Ok([Gradient::Values(dx)])
    }
}

/// Two tensors side by side in the channels.
pub struct Concat;

impl Operation<2> for Concat {
    const NAME: &'static str = "concatenation";

    fn forward(&self, [a, b]: [View<'_>; 2]) -> Output {
        let same = Shape {
            c: a.shape.c,
            ..b.shape
        };
        if same != a.shape {
            return Err(TensorError::Shape {
                operation: "concatenation",
                expected: format!("{:?} but for the channels", a.shape),
                found: format!("{:?}", b.shape),
            });
        }
        let (ca, cb) = (a.shape.c, b.shape.c);
        let shape = Shape {
            c: ca + cb,
            ..a.shape
        };
        let mut data = Vec::with_capacity(shape.len());
        for pixel in 0..shape.n * shape.h * shape.w {
            data.extend_from_slice(&a.data[pixel * ca..][..ca]);
            data.extend_from_slice(&b.data[pixel * cb..][..cb]);
        }
        Ok((shape, data))
    }

    fn backward(
        &self,
        [a, b]: [View<'_>; 2],
        _: View<'_>,
        g: View<'_>,
        wanted: [bool; 2],
    ) -> Result<[Gradient; 2], TensorError> {
        let part = |wanted: bool, first: usize, c: usize| {
            Gradient::when(wanted, || {
                let mut values = Vec::with_capacity(g.data.len() / g.shape.c.max(1) * c);
                for pixel in g.data.chunks_exact(g.shape.c.max(1)) {
                    values.extend_from_slice(&pixel[first..first + c]);
                }
                values
            })
        };
        Ok([
            part(wanted[0], 0, a.shape.c),
            part(wanted[1], a.shape.c, b.shape.c),
        ])
    }
}
