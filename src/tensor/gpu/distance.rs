//! The feature distance of LPIPS.

use super::driver::Driver;
use super::kernels::{LPIPS_DISTANCES, LPIPS_MEAN};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use super::{Gpu, bits};
use crate::tensor::{Shape, TensorError, rules};

/// Pixels that a workgroup of `distances` and one of `mean` take.
const PIXELS: usize = 16;
const PART: usize = 64;

impl<D: Driver> Gpu<D> {
    /// The map of weighted squared differences, one value per pixel.
    pub(super) fn distance_map(
        &self,
        a: &Tensor<D>,
        b: &Tensor<D>,
        head: &[f32],
    ) -> Result<Tensor<D>, TensorError> {
        let out = rules::feature_distance(a.shape(), b.shape(), head)?;
        let y = self.tensor(out)?;
        if a.shape().is_empty() {
            return Ok(y);
        }
        let head = self.constant(&bits(head).collect::<Vec<_>>())?;
        let c = a.shape().c;
        let all = pieces("feature distance", 1, out.len(), |p| {
            self.fits(p.rows() * c)
        })?;
        for Piece { rows, .. } in all {
            let a = self.reads(a, rows.start * c..rows.end * c)?;
            let b = self.reads(b, rows.start * c..rows.end * c)?;
            let to = self.writes(&y, rows.clone())?;
            let params = [
                a.at(0),
                b.at(0),
                to.at(0),
                c as u32,
                rows.len() as u32,
                0,
                0,
                0,
            ];
            let [gx, gy] = self.grid(rows.len().div_ceil(PIXELS));
            let bindings = [a.binding, b.binding, head.binding(), to.binding];
            self.launch(&LPIPS_DISTANCES, [gx, gy, 1], &params, &bindings)?;
        }
        Ok(y)
    }

    /// The mean of each image's map: sums of 64 pixels come back in two f32 each and are added in f64.
    pub(super) fn mean_distances(
        &self,
        a: &Tensor<D>,
        b: &Tensor<D>,
        head: &[f32],
    ) -> Result<Vec<f64>, TensorError> {
        let out = rules::feature_distance(a.shape(), b.shape(), head)?;
        let pixels = out.image();
        if out.n == 0 {
            return Ok(Vec::new());
        }
        if a.shape().is_empty() {
            return Ok(vec![0.0 / pixels as f64; out.n]);
        }
        let head = self.constant(&bits(head).collect::<Vec<_>>())?;
        let c = a.shape().c;
        // Pieces of whole parts: a part is summed in one order, wherever a launch begins.
        let parts = pixels.div_ceil(PART);
        let sums = self.tensor(Shape::new(out.n, 1, parts, 2))?;
        let all = pieces("feature distance", out.n, parts, |p| {
            self.fits(p.images() * p.rows() * PART * c)
        })?;
        for piece in &all {
            let here = (piece.rows.end * PART).min(pixels) - piece.rows.start * PART;
            let first = piece.images.start * pixels + piece.rows.start * PART;
            let values = first * c..(first + piece.images() * here) * c;
            let a = self.reads(a, values.clone())?;
            let b = self.reads(b, values)?;
            let count = piece.images() * piece.rows();
            let first = piece.images.start * parts + piece.rows.start;
            let to = self.writes(&sums, 2 * first..2 * (first + count))?;
            let params = [
                a.at(0),
                b.at(0),
                to.at(0),
                c as u32,
                here as u32,
                piece.rows() as u32,
                count as u32,
                0,
            ];
            let [gx, gy] = self.grid(count);
            let bindings = [a.binding, b.binding, head.binding(), to.binding];
            self.launch(&LPIPS_MEAN, [gx, gy, 1], &params, &bindings)?;
        }
        let sums = self.download_array(&sums.view(Shape::new(out.n, 1, 1, 2 * parts))?)?;
        Ok((0..out.n)
            .map(|n| {
                let total: f64 = sums.row(n).iter().map(|&v| f64::from(v)).sum();
                total / pixels as f64
            })
            .collect())
    }
}
