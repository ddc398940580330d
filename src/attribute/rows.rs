//! Rows of features in double precision.

/// A table: row-major values, `columns` in each row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub values: Vec<f64>,
    pub columns: usize,
}

impl Rows {
    /// Takes values row by row; what does not fill a row is cut off.
    pub fn new(mut values: Vec<f64>, columns: usize) -> Self {
        let whole = values.len().checked_div(columns).unwrap_or(0) * columns;
        values.truncate(whole);
        Self { values, columns }
    }

    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self::new(vec![0.0; rows * columns], columns)
    }

    pub fn from_rows(rows: impl IntoIterator<Item = Vec<f64>>, columns: usize) -> Self {
        Self::new(rows.into_iter().flatten().collect(), columns)
    }

    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.columns..(i + 1) * self.columns]
    }

    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.values[i * self.columns..(i + 1) * self.columns]
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.columns.max(1))
    }

    pub fn column(&self, j: usize) -> Vec<f64> {
        self.iter().map(|row| row[j]).collect()
    }

    /// The first `n` rows, or all.
    pub fn head(&self, n: usize) -> Self {
        let n = n.min(self.len());
        Self::new(self.values[..n * self.columns].to_vec(), self.columns)
    }

    pub fn take(&self, rows: &[usize]) -> Self {
        Self::from_rows(rows.iter().map(|&i| self.row(i).to_vec()), self.columns)
    }

    /// The mean of each column.
    pub fn means(&self) -> Vec<f64> {
        let n = self.len().max(1) as f64;
        let mut sums = vec![0.0; self.columns];
        for row in self.iter() {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
        sums.iter().map(|s| s / n).collect()
    }

    /// Covariance of the columns, `columns × columns`, with the divisor n − `ddof`.
    pub fn covariance(&self, ddof: usize) -> Vec<f64> {
        let (d, means) = (self.columns, self.means());
        let mut sums = vec![0.0; d * d];
        for row in self.iter() {
            for i in 0..d {
                let from_mean = row[i] - means[i];
                for j in 0..=i {
                    sums[i * d + j] += from_mean * (row[j] - means[j]);
                }
            }
        }
        let n = self.len().saturating_sub(ddof).max(1) as f64;
        for i in 0..d {
            for j in 0..=i {
                sums[i * d + j] /= n;
                sums[j * d + i] = sums[i * d + j];
            }
        }
        sums
    }
}

/// Mean and standard deviation with the divisor n − `ddof`.
pub fn mean_and_std(values: &[f64], ddof: usize) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let sum: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let n = values.len() as f64 - ddof as f64;
    (mean, (sum / n).sqrt())
}
