//! Resizing of 8-bit images in fixed point: integers from the first sample to the last, so every device gives the same
//! bits. Which source pixels an output pixel has and with which weights is the caller's affair.

use super::{Array, Shape, TensorError, rules};

/// Bits of a weight after the point: 32 less 8 for the sample and 2 for sums beyond it.
pub const FIXED_BITS: u32 = 22;

/// The direction of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// Another number of rows.
    Height,
    /// Another number of columns.
    Width,
}

/// The source pixels of one output coordinate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedTaps {
    pub first: usize,
    /// In units of 2⁻²².
    pub weights: Vec<i32>,
}

/// One pass of a resize: `clip((Σ_j weight[j] · x[first + j] + ½) >> 22)` for each output coordinate, with sums modulo
/// 2³² and results clipped to 0..255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PixelPass {
    pub along: Along,
    /// One entry per output coordinate.
    pub taps: Vec<FixedTaps>,
}

impl PixelPass {
    /// An image (`h × w`, one channel, whole numbers 0..255) after this pass.
    fn of_plane(&self, plane: &[f32], w: usize, out: Shape) -> Vec<f32> {
        let sample = |y: usize, x: usize| plane[y * w + x] as i32;
        let mut to = Vec::with_capacity(out.h * out.w);
        for y in 0..out.h {
            for x in 0..out.w {
                let (taps, first) = match self.along {
                    Along::Height => (&self.taps[y], [self.taps[y].first, x]),
                    Along::Width => (&self.taps[x], [y, self.taps[x].first]),
                };
                let mut sum = 1i32 << (FIXED_BITS - 1);
                for (j, &weight) in taps.weights.iter().enumerate() {
                    let value = match self.along {
                        Along::Height => sample(first[0] + j, first[1]),
                        Along::Width => sample(first[0], first[1] + j),
                    };
                    sum = sum.wrapping_add(value.wrapping_mul(weight));
                }
                to.push((sum >> FIXED_BITS).clamp(0, 255) as f32);
            }
        }
        to
    }

    /// All planes of an NCHW array of images of this shape.
    pub(crate) fn on_host(&self, images: &Array, shape: Shape) -> Result<Array, TensorError> {
        let out = rules::pixel_pass(shape, self)?;
        let planes = images.data.chunks_exact((shape.h * shape.w).max(1));
        let data = planes.flat_map(|p| self.of_plane(p, shape.w, out));
        Array::new([out.n, out.c, out.h, out.w], data.collect::<Vec<_>>())
    }
}
