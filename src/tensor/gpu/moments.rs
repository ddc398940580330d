//! Running sums of features and of their products around the first row, kept on the device in two f32 each.

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
    /// The first row, on the device and here.
    centre: Option<(Tensor, Vec<f32>)>,
    sums: Tensor,
    products: Tensor,
}

impl FeatureSums {
    /// Rows summed so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The first row, which is subtracted from all; nothing before there is one.
    pub fn centre(&self) -> &[f32] {
        self.centre.as_ref().map_or(&[], |(_, row)| row)
    }
}

impl Gpu {
    /// Sums of no rows.
    pub fn feature_sums(&self, d: usize) -> Result<FeatureSums, TensorError> {
        Ok(FeatureSums {
            d,
            rows: 0,
            centre: None,
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
        let upload = |values: &[f32]| -> Result<Tensor, TensorError> {
            let buffer = self.driver.upload(bytemuck::cast_slice(values))?;
            let shape = Shape::new(values.len() / d, 1, 1, d);
            Ok(Tensor::new(shape, Precision::F32, buffer))
        };
        let centre = match to.centre.take() {
            Some((centre, row)) => (centre, row),
            None => (upload(&rows[..d])?, rows[..d].to_vec()),
        };
        let (centre, _) = to.centre.insert(centre);
        let centre = centre.clone();
        for Piece { rows: some, .. } in pieces("moments", 1, count, |p| self.fits(p.rows() * d))? {
            let x = upload(&rows[some.start * d..some.end * d])?;
            let fresh = u32::from(to.rows == 0);
            self.add_piece(to, &x, &centre, fresh)?;
            to.rows += some.len();
        }
        Ok(())
    }

    fn add_piece(
        &self,
        to: &FeatureSums,
        x: &Tensor,
        centre: &Tensor,
        fresh: u32,
    ) -> Result<(), TensorError> {
        let (d, rows) = (to.d, x.shape().n);
        let from = self.reads(x, 0..rows * d)?;
        let centre = self.reads(centre, 0..d)?;
        let sums = self.writes(&to.sums, 0..2 * d)?;
        let params = |y_at: u32, first: usize, count: usize| {
            let sizes = [rows, d, first, count].map(|v| v as u32);
            let [rows, d, first, count] = sizes;
            [
                from.at(0),
                centre.at(0),
                y_at,
                rows,
                d,
                first,
                count,
                fresh,
                0,
            ]
        };
        let inputs = [from.binding.clone(), centre.binding.clone()];
        let with = |output| {
            let [x, c] = inputs.clone();
            [x, c, output]
        };
        let bindings = with(sums.binding.clone());
        self.launch_values(&MOMENTS_SUMS, d, &params(sums.at(0), 0, d), &bindings)?;
        for Piece { rows: some, .. } in pieces("moments", 1, d, |p| self.fits(p.rows() * 2 * d))? {
            let y = self.writes(&to.products, some.start * 2 * d..some.end * 2 * d)?;
            let groups = [d.div_ceil(TILE), some.len().div_ceil(TILE), 1];
            let params = params(y.at(0), some.start, some.len());
            let bindings = with(y.binding);
            self.launch(&MOMENTS_PRODUCTS, groups, &params, &bindings)?;
        }
        Ok(())
    }

    /// The sums `[d]` of differences from the centre, and their products `[d, d]` of which those on and below the diagonal
    /// are meant.
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
