//! Statistics of encoded columns that methods and metrics take from data.

/// Median of values, the mean of the two middle ones of an even number.
pub fn median(values: &mut [f64]) -> f64 {
    let n = values.len();
    if n == 0 {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    match n % 2 {
        1 => values[n / 2],
        _ => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Median of |value − median|, without any factor.
pub fn median_absolute_deviation(values: &[f64]) -> f64 {
    let middle = median(&mut values.to_vec());
    let mut away: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    median(&mut away)
}

/// Statistics of encoded rows, column by column.
#[derive(Clone, Debug)]
pub struct Statistics {
    pub mean: Vec<f64>,
    /// Median absolute deviation.
    pub mad: Vec<f64>,
    pub min: Vec<f64>,
    pub max: Vec<f64>,
    /// Sample covariance (divisor n − 1), row-major.
    pub covariance: Vec<f64>,
}

impl Statistics {
    /// Of rows of one width; there must be at least two.
    pub fn of(rows: &[Vec<f64>]) -> Self {
        let width = rows.first().map_or(0, Vec::len);
        let column = |c: usize| -> Vec<f64> { rows.iter().map(|r| r[c]).collect() };
        let columns: Vec<Vec<f64>> = (0..width).map(column).collect();
        let mean: Vec<f64> = columns
            .iter()
            .map(|c| super::encoding::compensated_mean(c))
            .collect();
        let fold = |f: fn(f64, f64) -> f64| -> Vec<f64> {
            let each = columns.iter().map(|c| c.iter().copied().reduce(f));
            each.map(|v| v.unwrap_or(0.0)).collect()
        };
        Self {
            mad: columns
                .iter()
                .map(|c| median_absolute_deviation(c))
                .collect(),
            min: fold(f64::min),
            max: fold(f64::max),
            covariance: covariance(&columns, &mean),
            mean,
        }
    }
}

fn covariance(columns: &[Vec<f64>], mean: &[f64]) -> Vec<f64> {
    use rayon::prelude::*;
    let (m, n) = (columns.len(), columns.first().map_or(0, Vec::len));
    let divisor = n.saturating_sub(1).max(1) as f64;
    let centred: Vec<Vec<f64>> = columns
        .iter()
        .zip(mean)
        .map(|(c, mean)| c.iter().map(|v| v - mean).collect())
        .collect();
    let row = |i: usize| -> Vec<f64> {
        let dot = |j: usize| -> f64 {
            let products = centred[i].iter().zip(&centred[j]).map(|(a, b)| a * b);
            products.sum::<f64>() / divisor
        };
        (0..=i).map(dot).collect()
    };
    let lower: Vec<Vec<f64>> = (0..m).into_par_iter().map(row).collect();
    let entry = |at: usize| {
        let (i, j) = (at / m.max(1), at % m.max(1));
        lower[i.max(j)][i.min(j)]
    };
    (0..m * m).map(entry).collect()
}
