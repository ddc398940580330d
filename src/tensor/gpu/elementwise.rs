//! Sums, activations, per-channel affine maps.

use super::kernels::{ACTIVATED, ADD, AFFINE, LOOKED_UP};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use super::{Gpu, bits, code};
use crate::{Activation, TensorError, rules};

impl Gpu {
    /// `a + b`, with `b` repeated over pixels (`h = w = 1`) or images (`n = 1`).
    pub(super) fn sum(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, TensorError> {
        let (shape, other) = (a.shape(), b.shape());
        rules::add(shape, other)?;
        let y = self.tensor(shape)?;
        if shape.is_empty() {
            return Ok(y);
        }
        let line = shape.w * shape.c;
        let has_pixels = (other.h, other.w) == (shape.h, shape.w);
        // One image for all is read anew by each.
        let repeats = other.n == 1 && shape.n > 1;
        let all = pieces("add", shape.n, shape.h, |p| {
            self.fits(p.images() * p.rows() * line)
        })?;
        for piece in &all {
            let count = piece.images() * piece.rows() * line;
            let row = piece.rows.start * line;
            let first = piece.images.start * shape.image() + row;
            let from = self.reads(a, first..first + count)?;
            let to = self.writes(&y, first..first + count)?;
            let image = if repeats { 0 } else { other.image() };
            let start = piece.images.start * image + if has_pixels { row } else { 0 };
            let values = (piece.images() - 1) * image
                + if has_pixels {
                    piece.rows() * line
                } else {
                    shape.c
                };
            let more = self.reads(b, start..start + values)?;
            let params = [
                from.at(0),
                more.at(0),
                to.at(0),
                count as u32,
                shape.c as u32,
                shape.c as u32,
                (piece.rows() * line) as u32,
                image as u32,
                u32::from(has_pixels),
                0,
            ];
            let bindings = [from.binding, more.binding, to.binding];
            self.launch_values(&ADD, count, &params, &bindings)?;
        }
        Ok(y)
    }

    pub(super) fn activated(
        &self,
        x: &Tensor,
        activation: Activation,
    ) -> Result<Tensor, TensorError> {
        let shape = x.shape();
        let y = self.tensor(shape)?;
        if shape.is_empty() {
            return Ok(y);
        }
        for Piece { rows, .. } in pieces("activation", 1, shape.len(), |p| self.fits(p.rows()))? {
            let from = self.reads(x, rows.clone())?;
            let to = self.writes(&y, rows.clone())?;
            let count = rows.len() as u32;
            let params = [
                from.at(0),
                0,
                to.at(0),
                count,
                1,
                1,
                count,
                0,
                0,
                code(activation),
            ];
            let bindings = [from.binding.clone(), from.binding, to.binding];
            self.launch_values(&ACTIVATED, rows.len(), &params, &bindings)?;
        }
        Ok(y)
    }

    /// `x[order[c]] · scale[c] + shift[c]`.
    pub(super) fn affine_map(
        &self,
        x: &Tensor,
        order: &[usize],
        scale: &[f32],
        shift: &[f32],
    ) -> Result<Tensor, TensorError> {
        let shape = x.shape();
        let out = rules::affine(shape, order, scale, shift)?;
        let y = self.tensor(out)?;
        if out.is_empty() {
            return Ok(y);
        }
        let mut table: Vec<u32> = order.iter().map(|&i| i as u32).collect();
        table.extend(bits(scale));
        table.extend(bits(shift));
        let table = self.constant(&table)?;
        let (c, out_c, pixels) = (shape.c, out.c, shape.n * shape.h * shape.w);
        let all = pieces("affine map", 1, pixels, |p| {
            self.fits(p.rows() * c.max(out_c))
        })?;
        for Piece { rows, .. } in all {
            let from = self.reads(x, rows.start * c..rows.end * c)?;
            let to = self.writes(&y, rows.start * out_c..rows.end * out_c)?;
            let count = rows.len() * out_c;
            let params = [
                from.at(0),
                0,
                to.at(0),
                count as u32,
                c as u32,
                out_c as u32,
                count as u32,
                0,
                0,
                0,
            ];
            let bindings = [from.binding, table.binding(), to.binding];
            self.launch_values(&AFFINE, count, &params, &bindings)?;
        }
        Ok(y)
    }

    /// `table[x]` for pixels.
    pub(super) fn looked_up(&self, x: &Tensor, table: &[f32; 256]) -> Result<Tensor, TensorError> {
        let shape = x.shape();
        let y = self.tensor(shape)?;
        if shape.is_empty() {
            return Ok(y);
        }
        let table = self.constant(&bits(table).collect::<Vec<_>>())?;
        for Piece { rows, .. } in pieces("table", 1, shape.len(), |p| self.fits(p.rows()))? {
            let from = self.reads(x, rows.clone())?;
            let to = self.writes(&y, rows.clone())?;
            let count = rows.len() as u32;
            let params = [from.at(0), 0, to.at(0), count, 1, 1, count, 0, 0, 0];
            let bindings = [from.binding, table.binding(), to.binding];
            self.launch_values(&LOOKED_UP, rows.len(), &params, &bindings)?;
        }
        Ok(y)
    }
}
