//! Running sums of features and of their products, kept on the device in two f32 each.

use super::Gpu;
use super::kernels::{MOMENTS_PRODUCTS, MOMENTS_SUMS};
use super::pieces::{Piece, pieces};
use super::tensor::Tensor;
use crate::{Precision, Shape, TensorError};

/// Features or products of a tile.
const TILE: usize = 16;

/// What was summed so far of `d` features.
pub struct FeatureSums {
    d: usize,
    rows: usize,
    sums: Tensor,
    products: Tensor,
}

impl FeatureSums {
    /// Rows summed so far.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl Gpu {
    /// Sums of no rows.
    pub fn feature_sums(&self, d: usize) -> Result<FeatureSums, TensorError> {
        Ok(FeatureSums {
            d,
            rows: 0,
            sums: self.scratch(Shape::new(1, 1, d, 2))?,
            products: self.scratch(Shape::new(1, d, d, 2))?,
        })
    }

    /// Adds rows of `d` features, in their order.
    pub fn add_features(&self, to: &mut FeatureSums, rows: &[f32]) -> Result<(), TensorError> {
        let d = to.d;
        if rows.is_empty() || d == 0 {
            return Ok(());
        }
        let count = rows.len() / d;
        for Piece { rows: some, .. } in pieces("moments", 1, count, |p| self.fits(p.rows() * d))? {
            let values = &rows[some.start * d..some.end * d];
            let x = self.driver.upload(bytemuck::cast_slice(values))?;
            let x = Tensor::new(Shape::new(some.len(), 1, 1, d), Precision::F32, x);
            let fresh = u32::from(to.rows == 0);
            self.add_piece(to, &x, fresh)?;
            to.rows += some.len();
        }
        Ok(())
    }

    fn add_piece(&self, to: &FeatureSums, x: &Tensor, fresh: u32) -> Result<(), TensorError> {
        let (d, rows) = (to.d, x.shape().n);
        let from = self.reads(x, 0..rows * d)?;
        let sums = self.writes(&to.sums, 0..2 * d)?;
        let params = |y_at: u32, first: usize, count: usize| {
            let sizes = [rows, d, first, count].map(|v| v as u32);
            let [rows, d, first, count] = sizes;
            [from.at(0), y_at, rows, d, first, count, fresh, 0]
        };
        let bindings = [from.binding.clone(), sums.binding.clone()];
        self.launch_values(&MOMENTS_SUMS, d, &params(sums.at(0), 0, d), &bindings)?;
        for Piece { rows: some, .. } in pieces("moments", 1, d, |p| self.fits(p.rows() * 2 * d))? {
            let y = self.writes(&to.products, some.start * 2 * d..some.end * 2 * d)?;
            let groups = [d.div_ceil(TILE), some.len().div_ceil(TILE), 1];
            let params = params(y.at(0), some.start, some.len());
            let bindings = [from.binding.clone(), y.binding];
            self.launch(&MOMENTS_PRODUCTS, groups, &params, &bindings)?;
        }
        Ok(())
    }

    /// The sums `[d]`, and the products `[d, d]` of which those on and below the diagonal are meant.
    pub fn read_sums(&self, of: &FeatureSums) -> Result<(Vec<f64>, Vec<f64>), TensorError> {
        let d = of.d;
        if of.rows == 0 {
            return Ok((vec![0.0; d], vec![0.0; d * d]));
        }
        let read = |tensor: &Tensor| -> Result<Vec<f64>, TensorError> {
            let flat = tensor.view(Shape::new(1, 1, 1, tensor.shape().len()))?;
            let values = self.download_array(&flat)?.data;
            let pairs = values.as_chunks::<2>().0.iter();
            Ok(pairs.map(|[h, l]| f64::from(*h) + f64::from(*l)).collect())
        };
        Ok((read(&of.sums)?, read(&of.products)?))
    }
}
