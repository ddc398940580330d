//! A borrowed row-major matrix of `f32`: one row per image, one column per feature or class.

use super::error::{MetricError, Result};

/// Borrowed row-major matrix; `rows * cols == data.len()` is checked once, at construction.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    rows: usize,
    cols: usize,
    data: &'a [f32],
}

impl<'a> Matrix<'a> {
    /// Views `data` as `rows` × `cols`; `what` names the data in the error. At least one column is required.
    pub fn new(what: &str, rows: usize, cols: usize, data: &'a [f32]) -> Result<Self> {
        if cols == 0 {
            return Err(MetricError::shape(what, "at least one column", "0 columns"));
        }
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(MetricError::shape(
                what,
                format!("{rows} x {cols} values"),
                format!("{} values", data.len()),
            ));
        }
        Ok(Self { rows, cols, data })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row `i`; panics when out of range, as slices do.
    pub fn row(&self, i: usize) -> &'a [f32] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// All values, row after row.
    pub fn data(&self) -> &'a [f32] {
        self.data
    }

    /// Rows `start..end`.
    pub fn slice(&self, what: &str, start: usize, end: usize) -> Result<Self> {
        if start > end || end > self.rows {
            return Err(MetricError::shape(
                what,
                format!("a range inside 0..{}", self.rows),
                format!("{start}..{end}"),
            ));
        }
        Ok(Self {
            rows: end - start,
            cols: self.cols,
            data: &self.data[start * self.cols..end * self.cols],
        })
    }

    /// Errors with the row and column of the first NaN or infinity.
    pub fn check_finite(&self, what: &str) -> Result<()> {
        self.check_finite_from(what, 0)
    }

    /// As [`Matrix::check_finite`], for a batch whose first row is row `first_row` of the whole set.
    pub(crate) fn check_finite_from(&self, what: &str, first_row: usize) -> Result<()> {
        match self.data.iter().position(|v| !v.is_finite()) {
            None => Ok(()),
            Some(at) => Err(MetricError::NotFinite {
                what: what.to_owned(),
                row: first_row + at / self.cols,
                column: at % self.cols,
                value: f64::from(self.data[at]),
            }),
        }
    }

    /// Errors unless both matrices have the same number of columns.
    pub(crate) fn check_same_cols(&self, other: &Matrix<'_>, what: &str) -> Result<()> {
        if self.cols == other.cols {
            return Ok(());
        }
        Err(MetricError::shape(
            what,
            format!("{} columns as in the first set", self.cols),
            format!("{} columns", other.cols),
        ))
    }

    /// Errors unless there are `needed` rows.
    pub(crate) fn check_rows(&self, metric: &'static str, what: &str, needed: usize) -> Result<()> {
        if self.rows >= needed {
            return Ok(());
        }
        Err(MetricError::TooFew {
            metric,
            what: what.to_owned(),
            needed,
            found: self.rows,
        })
    }
}
