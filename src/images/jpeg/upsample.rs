//! The samples of a component and their upsampling to the image's size, to the bit as
//! libjpeg-turbo's "fancy" upsampling: halved components are interpolated with the weights
//! 3/4 and 1/4 towards each neighbour (edges repeat), all others repeat their samples.
//! The rounding alternates between neighbouring outputs so that no drift arises.

use super::frame::{Component, Frame};

/// The samples of a component, in whole blocks.
pub struct Plane {
    /// Row by row, `stride` apart.
    data: Vec<u8>,
    /// Distance of the rows.
    pub stride: usize,
    /// Samples in a row that belong to the image.
    width: usize,
    /// Rows that belong to the image.
    height: usize,
}

impl Plane {
    /// A plane of zeros for `component`.
    pub fn new(component: &Component) -> Self {
        Self {
            data: vec![0; component.blocks() * 64],
            stride: component.blocks_x * 8,
            width: component.width,
            height: component.height,
        }
    }

    /// The samples from the block at column `x` and row `y` on, if it is within the plane.
    #[inline]
    pub fn block_mut(&mut self, x: usize, y: usize) -> Option<&mut [u8]> {
        if x * 8 >= self.stride {
            return None;
        }
        self.data.get_mut(y * 8 * self.stride + x * 8..)
    }

    /// Row `y`, without the padding.
    fn row(&self, y: usize) -> &[u8] {
        &self.data[y * self.stride..][..self.width]
    }
}

/// How a component is brought to the image's size.
#[derive(Clone, Copy)]
enum Method {
    /// It has that size.
    Same,
    /// Interpolated horizontally.
    Across,
    /// Interpolated vertically.
    Down,
    /// Interpolated both ways.
    Both,
    /// Every sample repeated that often horizontally and vertically.
    Repeat(usize, usize),
}

/// Makes rows of a component at the image's size.
pub struct Upsampler<'a> {
    plane: &'a Plane,
    method: Method,
    /// The source row, or weighted sum of two, with each end repeated once.
    sums: Vec<u16>,
    out: Vec<u8>,
}

impl<'a> Upsampler<'a> {
    /// An upsampler of the samples `plane` of `component`.
    pub fn new(plane: &'a Plane, component: &Component, frame: &Frame) -> Self {
        let (x, y) = (frame.max_h / component.h, frame.max_v / component.v);
        let wide = plane.width > 2;
        let method = match (x, y) {
            (1, 1) => Method::Same,
            (2, 1) if wide => Method::Across,
            (1, 2) => Method::Down,
            (2, 2) if wide => Method::Both,
            _ => Method::Repeat(x, y),
        };
        Self {
            plane,
            method,
            sums: vec![0; plane.width + 2],
            out: vec![0; plane.width * x],
        }
    }

    /// Row `y` of the image, at least as wide as it.
    pub fn row(&mut self, y: usize) -> &[u8] {
        let plane = self.plane;
        match self.method {
            Method::Same => return plane.row(y),
            Method::Repeat(times_x, times_y) => {
                let row = plane.row(y / times_y);
                for (group, &value) in self.out.chunks_exact_mut(times_x).zip(row) {
                    group.fill(value);
                }
            }
            Method::Across => {
                for (sum, &value) in self.sums[1..].iter_mut().zip(plane.row(y)) {
                    *sum = u16::from(value);
                }
                self.spread::<1, 2, 2>();
            }
            Method::Down => {
                let (near, far) = self.two_rows(y);
                let bias = if y.is_multiple_of(2) { 1 } else { 2 };
                for ((out, &n), &f) in self.out.iter_mut().zip(near).zip(far) {
                    *out = ((u16::from(n) * 3 + u16::from(f) + bias) >> 2) as u8;
                }
            }
            Method::Both => {
                let (near, far) = self.two_rows(y);
                for ((sum, &n), &f) in self.sums[1..].iter_mut().zip(near).zip(far) {
                    *sum = u16::from(n) * 3 + u16::from(f);
                }
                self.spread::<8, 7, 4>();
            }
        }
        &self.out
    }

    /// For row `y` of twice the rows: the source row it lies in, and the nearest other one.
    fn two_rows(&self, y: usize) -> (&'a [u8], &'a [u8]) {
        let near = y / 2;
        let far = if y.is_multiple_of(2) {
            near.saturating_sub(1)
        } else {
            (near + 1).min(self.plane.height - 1)
        };
        (self.plane.row(near), self.plane.row(far))
    }

    /// Interpolates the sums horizontally to twice their number, adding `LEFT` or `RIGHT`
    /// and dropping `SHIFT` bits.
    #[inline]
    fn spread<const LEFT: u16, const RIGHT: u16, const SHIFT: u32>(&mut self) {
        let last = self.sums.len() - 1;
        self.sums[0] = self.sums[1];
        self.sums[last] = self.sums[last - 1];
        let (left, right) = (&self.sums[..], &self.sums[2..]);
        let sources = self.sums[1..].iter().zip(left).zip(right);
        for (pair, ((&here, &l), &r)) in self.out.as_chunks_mut::<2>().0.iter_mut().zip(sources) {
            *pair = [
                ((here * 3 + l + LEFT) >> SHIFT) as u8,
                ((here * 3 + r + RIGHT) >> SHIFT) as u8,
            ];
        }
    }
}
