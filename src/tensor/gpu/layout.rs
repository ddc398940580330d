//! Windows, patches, up-sampling, crops, stacks: copies. A launch takes whole images, or some rows of one; of windows, which
//! shifts bring from one edge of an image to the other, whole images only.

use std::ops::Range;

use super::Gpu;
use super::conv::Target;
use super::kernels::{CHANNELS, CROP, Kernel, PATCHES, UNWINDOWS, UPSAMPLE, WINDOWS};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use crate::{Shape, TensorError, rules};

/// What a copy is told, besides shapes.
#[derive(Default)]
struct Copy {
    channels: usize,
    first: usize,
    size: usize,
    shift: [usize; 2],
    /// Windows along rows and columns.
    windows: [usize; 2],
}

impl Copy {
    /// The kernels' parameters.
    fn words(&self, at: [u32; 2], count: usize, size: [usize; 3], out: [usize; 2]) -> Vec<u32> {
        let mut params = vec![at[0], at[1], count as u32];
        params.extend(size.map(|v| v as u32));
        params.extend(out.map(|v| v as u32));
        params.extend([self.channels, self.first, self.size].map(|v| v as u32));
        params.extend(self.shift.map(|v| v as u32));
        params.extend(self.windows.map(|v| v as u32));
        params
    }
}

impl Gpu {
    /// A copy kernel over `images` of `from` and `to` values each. `size` and `out` are rows, columns and channels of
    /// the image and rows and columns of the result, `count` the values that are copied for each image.
    #[allow(clippy::too_many_arguments)]
    fn copy_images(
        &self,
        kernel: &'static Kernel,
        images: usize,
        (x, from): (&Tensor, usize),
        (y, to): (&Tensor, usize),
        size: [usize; 3],
        out: [usize; 2],
        count: usize,
        copy: &Copy,
    ) -> Result<(), TensorError> {
        let all = pieces("copy of an image", images, 1, |p| {
            self.fits(p.images() * from.max(to))
        })?;
        for Piece { images, .. } in all {
            let x = self.reads(x, images.start * from..images.end * from)?;
            let y = self.writes(y, images.start * to..images.end * to)?;
            let count = images.len() * count;
            let params = copy.words([x.at(0), y.at(0)], count, size, out);
            self.launch_values(kernel, count, &params, &[x.binding, y.binding])?;
        }
        Ok(())
    }

    /// A kernel that fills a tensor of `out` from the images of `x`.
    fn copied(
        &self,
        kernel: &'static Kernel,
        x: &Tensor,
        out: Shape,
        copy: &Copy,
    ) -> Result<Tensor, TensorError> {
        let from = x.shape();
        let y = self.tensor(out)?;
        if out.is_empty() {
            return Ok(y);
        }
        let to = out.len() / from.n;
        let size = [from.h, from.w, from.c];
        self.copy_images(
            kernel,
            from.n,
            (x, from.image()),
            (&y, to),
            size,
            [out.h, out.w],
            to,
            copy,
        )?;
        Ok(y)
    }

    /// The same for a kernel that finds every `unit` rows of the result, the first of which is a multiple of it, in the rows
    /// `needs` of the image. To the kernel, rows of an image are an image.
    fn copied_by_rows(
        &self,
        kernel: &'static Kernel,
        x: &Tensor,
        out: Shape,
        unit: usize,
        needs: impl Fn(Range<usize>) -> Range<usize>,
        copy: &Copy,
    ) -> Result<Tensor, TensorError> {
        let from = x.shape();
        if out.is_empty() || self.fits(from.image().max(out.image())) {
            return self.copied(kernel, x, out, copy);
        }
        let y = self.tensor(out)?;
        let (line, out_line) = (from.w * from.c, out.w * out.c);
        let rows_of = |piece: &Piece| {
            let to = piece.rows.start * unit..piece.rows.end * unit;
            (needs(to.clone()), to)
        };
        let all = pieces("copy of an image", from.n, out.h / unit, |piece| {
            let (needed, to) = rows_of(piece);
            piece.images() == 1 && self.fits((needed.len() * line).max(to.len() * out_line))
        })?;
        for piece in &all {
            let (needed, to) = rows_of(piece);
            let [from_at, to_at] =
                [from, out].map(|shape: Shape| piece.images.start * shape.image());
            let part = from_at + needed.start * line..from_at + needed.end * line;
            let x = self.reads(x, part)?;
            let part = to_at + to.start * out_line..to_at + to.end * out_line;
            let y = self.writes(&y, part)?;
            let count = to.len() * out_line;
            let copy = Copy {
                // `needs` has begun with it.
                shift: [0, copy.shift[1]],
                ..*copy
            };
            let size = [needed.len(), from.w, from.c];
            let params = copy.words([x.at(0), y.at(0)], count, size, [to.len(), out.w]);
            self.launch_values(kernel, count, &params, &[x.binding, y.binding])?;
        }
        Ok(y)
    }

    /// The pixels of `x` into a run of channels.
    pub(super) fn copy_channels(&self, x: &Tensor, target: &Target<'_>) -> Result<(), TensorError> {
        let from = x.shape();
        if from.is_empty() {
            return Ok(());
        }
        let copy = Copy {
            channels: target.channels,
            first: target.first,
            ..Copy::default()
        };
        // Row by row, so that an image may be of any size.
        self.copy_images(
            &CHANNELS,
            from.n * from.h,
            (x, from.w * from.c),
            (target.tensor, from.w * target.channels),
            [1, from.w, from.c],
            [1, from.w],
            from.w * from.c,
            &copy,
        )
    }

    pub(super) fn cut_windows(
        &self,
        x: &Tensor,
        size: usize,
        shift: [usize; 2],
    ) -> (Shape, Result<Tensor, TensorError>) {
        let Shape { n, h, w, c } = x.shape();
        let windows = [h.div_ceil(size), w.div_ceil(size)];
        let out = Shape::new(n * windows[0] * windows[1], 1, size * size, c);
        let copy = Copy {
            size,
            shift,
            windows,
            ..Copy::default()
        };
        (out, self.copied(&WINDOWS, x, out, &copy))
    }

    pub(super) fn joined_windows(
        &self,
        x: &Tensor,
        size: usize,
        shift: [usize; 2],
        h: usize,
        w: usize,
    ) -> (Shape, Result<Tensor, TensorError>) {
        let windows = [h.div_ceil(size), w.div_ceil(size)];
        let of_image = (windows[0] * windows[1]).max(1);
        let c = x.shape().c;
        let out = Shape::new(x.shape().n / of_image, h, w, c);
        let copy = Copy {
            size,
            shift,
            windows,
            ..Copy::default()
        };
        let run = || {
            let y = self.tensor(out)?;
            if !out.is_empty() {
                let from = of_image * size * size * c;
                let (x, y) = ((x, from), (&y, out.image()));
                let (size, out_size) = ([h, w, c], [h, w]);
                self.copy_images(&UNWINDOWS, out.n, x, y, size, out_size, out.image(), &copy)?;
            }
            Ok(y)
        };
        (out, run())
    }

    pub(super) fn merged_patches(&self, x: &Tensor) -> (Shape, Result<Tensor, TensorError>) {
        let Shape { n, h, w, c } = x.shape();
        let out = Shape::new(n, h.div_ceil(2), w.div_ceil(2), 4 * c);
        let needs = |rows: Range<usize>| 2 * rows.start..(2 * rows.end).min(h);
        let copy = Copy::default();
        (out, self.copied_by_rows(&PATCHES, x, out, 1, needs, &copy))
    }

    pub(super) fn upsampled(&self, x: &Tensor, factor: usize) -> Result<Tensor, TensorError> {
        let copy = Copy {
            size: factor,
            ..Copy::default()
        };
        let out = rules::upsample(x.shape(), factor)?;
        let needs = |rows: Range<usize>| rows.start / factor..rows.end / factor;
        self.copied_by_rows(&UPSAMPLE, x, out, factor, needs, &copy)
    }

    pub(super) fn cropped(
        &self,
        x: &Tensor,
        shift: [usize; 2],
        out: Shape,
    ) -> Result<Tensor, TensorError> {
        let copy = Copy {
            shift,
            ..Copy::default()
        };
        let needs = |rows: Range<usize>| shift[0] + rows.start..shift[0] + rows.end;
        self.copied_by_rows(&CROP, x, out, 1, needs, &copy)
    }

    pub(super) fn stacked(&self, tensors: &[Tensor]) -> Result<Tensor, TensorError> {
        let shapes: Vec<Shape> = tensors.iter().map(Tensor::shape).collect();
        let y = self.tensor(rules::stack(&shapes)?)?;
        let size = y.precision().bytes();
        let mut at = 0;
        for x in tensors.iter().filter(|x| !x.shape().is_empty()) {
            let values = x.shape().len();
            let [from, to, bytes] = [x.offset(), at, values].map(|v| size * v);
            // Drivers copy whole words; halves of f16 may begin or end within one.
            if [from, to, bytes].iter().all(|v| v % 4 == 0) {
                self.driver
                    .copy((x.buffer()?, from), (y.buffer()?, to), bytes)?;
            } else {
                self.copy_values(x, &y, at)?;
            }
            at += values;
        }
        Ok(y)
    }

    /// All values of `x` to the place `at` of `y`, by a kernel.
    fn copy_values(&self, x: &Tensor, y: &Tensor, at: usize) -> Result<(), TensorError> {
        let all = pieces("stack", 1, x.shape().len(), |p| self.fits(p.rows()))?;
        for Piece { rows, .. } in all {
            let from = self.reads(x, rows.clone())?;
            let to = self.writes(y, at + rows.start..at + rows.end)?;
            let count = rows.len() as u32;
            let mut params = [0; 15];
            params[..3].copy_from_slice(&[from.at(0), to.at(0), count]);
            // One pixel of so many channels.
            (params[5], params[8]) = (count, count);
            self.launch_values(&CHANNELS, rows.len(), &params, &[from.binding, to.binding])?;
        }
        Ok(())
    }
}
