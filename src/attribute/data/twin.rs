//! A synthetic twin of a real table ([xai-bench] section 5.3): a Gaussian with the table's correlations, labelled by the nearest
//! real row, and how far its marginals are from the real ones.

use std::path::Path;

use super::numbers::{Reading, numbers};
use super::{Dataset, Features, LabelFunction, Labels, Normal, Normalisation, Split, Task};
use crate::attribute::error::{AttributionError, Result};
use crate::attribute::rows::{Rows, mean_and_std};
use crate::attribute::small_matrix::cholesky;
use crate::attribute::{Variant, streams};
use crate::stats::random::Draws;

/// Histogram of the report: 119 bins of width 0.1 from −6, as in the released script.
const BINS: usize = 119;
const FIRST_EDGE: f64 = -6.0;
const BIN_WIDTH: f64 = 0.1;

/// A real table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub names: Vec<String>,
    pub x: Rows,
    pub y: Vec<f64>,
}

/// Jensen–Shannon distances (square roots of divergences, natural logarithm) between real table and twin.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TwinReport {
    pub features: Vec<(String, f64)>,
    pub mean: f64,
    /// Of the labels, over their values.
    pub target: f64,
}

impl Table {
    /// Reads a CSV file; the label is the column of that name, or the last one.
    pub fn read(path: &Path, target: Option<&str>, reading: &Reading) -> Result<Self> {
        let (mut names, rows) = numbers(path, reading)?;
        let d = rows.columns;
        let at = match target {
            None => d - 1,
            Some(name) => names.iter().position(|n| n == name).ok_or_else(|| {
                let expected = format!("one of {}", names.join(", "));
                AttributionError::setting("--target", expected, format!("{name:?}"))
            })?,
        };
        if d < 3 || rows.len() < d + 2 {
            let found = format!("{} rows of {d} columns", rows.len());
            return Err(AttributionError::file(
                path,
                format!(
                    "expected at least two features, a label, and more rows than columns, found {found}"
                ),
            ));
        }
        let y = rows.column(at);
        names.remove(at);
        let keep = |row: &[f64]| {
            let mut row = row.to_vec();
            row.remove(at);
            row
        };
        let x = Rows::from_rows(rows.iter().map(keep), d - 1);
        Ok(Self { names, x, y })
    }

    /// Features with zero mean and unit variance (divisor n).
    pub fn standardised(&self) -> Result<Rows> {
        let d = self.x.columns;
        let mut out = self.x.clone();
        for j in 0..d {
            let (mean, std) = mean_and_std(&self.x.column(j), 0);
            if std.is_nan() || std <= 0.0 {
                return Err(AttributionError::Unsupported {
                    what: self.names[j].clone(),
                    reason: "this column is constant, so it has no correlation with others; leave it out (--without)".into(),
                });
            }
            for i in 0..out.len() {
                out.row_mut(i)[j] = (out.row(i)[j] - mean) / std;
            }
        }
        Ok(out)
    }

    /// The twin: `train` and `test` rows, or as many as the table has and a tenth of that.
    pub fn twin(
        &self,
        train: Option<usize>,
        test: Option<usize>,
        seed: u64,
    ) -> Result<(Dataset, TwinReport)> {
        let real = self.standardised()?;
        let d = real.columns;
        let covariance = real.covariance(1);
        self.refuse_what_others_determine(&covariance)?;
        let normal = Normal::gaussian(vec![0.0; d], covariance)?;
        let given = normal.given(0, false);
        let zeros = vec![0.0; d];
        let make = |n: usize, first: u64| {
            let mut x = Rows::zeros(n, d);
            for i in 0..n {
                let mut draws = Draws::new(seed, streams::FEATURES, first + i as u64);
                given.draw(&zeros, &mut draws, x.row_mut(i));
            }
            let y = nearest_neighbour(&real, &self.y, &x);
            (x, y)
        };
        let n = train.unwrap_or(self.x.len());
        let (x, y) = make(n, 0);
        let (test_x, test_y) = make(test.unwrap_or(n.div_ceil(10)), 1 << 32);
        let report = self.report(&real, &x, &y);
        let normalisation = Normalisation::of(&y, Variant::Correct);
        let dataset = Dataset {
            features: Features::Normal(normal),
            labels: Labels {
                function: LabelFunction::NearestNeighbour,
                weights: Vec::new(),
                task: Task::Regression,
                variant: Variant::Correct,
            },
            normalisation,
            noise: 0.0,
            seed,
            train: Split {
                x,
                y: normalisation.apply(&y),
            },
            test: Split {
                x: test_x,
                y: normalisation.apply(&test_y),
            },
        };
        Ok((dataset, report))
    }

    /// A column that follows from those before it has no density beside them.
    fn refuse_what_others_determine(&self, covariance: &[f64]) -> Result<()> {
        let d = self.x.columns;
        let determined = (1..=d).find(|&k| {
            let corner: Vec<f64> = (0..k * k).map(|i| covariance[i / k * d + i % k]).collect();
            cholesky(&corner, k).is_none()
        });
        match determined {
            None => Ok(()),
            Some(k) => Err(AttributionError::Unsupported {
                what: self.names[k - 1].clone(),
                reason: format!(
                    "this column is a linear function of those before it ({}), so that the covariance is not positive definite; leave it out (--without)",
                    self.names[..k - 1].join(", ")
                ),
            }),
        }
    }

    fn report(&self, real: &Rows, twin: &Rows, twin_y: &[f64]) -> TwinReport {
        let distance = |j: usize| {
            jensen_shannon_distance(&histogram(&real.column(j)), &histogram(&twin.column(j)))
        };
        let features: Vec<(String, f64)> = (0..real.columns)
            .map(|j| (self.names[j].clone(), distance(j)))
            .collect();
        let mean = features.iter().map(|(_, v)| v).sum::<f64>() / features.len() as f64;
        let mut values: Vec<f64> = self.y.iter().chain(twin_y).copied().collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let counts = |y: &[f64]| -> Vec<f64> {
            let mut counts = vec![0.0; values.len()];
            for v in y {
                if let Ok(at) = values.binary_search_by(|x| x.total_cmp(v)) {
                    counts[at] += 1.0;
                }
            }
            counts
        };
        TwinReport {
            features,
            mean,
            target: jensen_shannon_distance(&counts(&self.y), &counts(twin_y)),
        }
    }
}

/// Counts in the bins of the report; values beyond the last edge are left out, one on it belongs to the last bin (as in numpy).
fn histogram(values: &[f64]) -> Vec<f64> {
    let mut counts = vec![0.0; BINS];
    let edge = |k: usize| FIRST_EDGE + BIN_WIDTH * k as f64;
    for &v in values {
        if v < FIRST_EDGE || v > edge(BINS) {
            continue;
        }
        let mut k = (((v - FIRST_EDGE) / BIN_WIDTH) as usize).min(BINS - 1);
        while k > 0 && v < edge(k) {
            k -= 1;
        }
        while k + 1 < BINS && v >= edge(k + 1) {
            k += 1;
        }
        counts[k] += 1.0;
    }
    counts
}

/// √JSD of two histograms, natural logarithm: 0 for the same shares, √ln 2 for disjoint ones.
pub fn jensen_shannon_distance(p: &[f64], q: &[f64]) -> f64 {
    let (total_p, total_q) = (p.iter().sum::<f64>(), q.iter().sum::<f64>());
    let term = |a: f64, m: f64| if a > 0.0 { a * (a / m).ln() } else { 0.0 };
    let sum: f64 = p
        .iter()
        .zip(q)
        .map(|(p, q)| {
            let (p, q) = (p / total_p, q / total_q);
            let m = (p + q) / 2.0;
            term(p, m) + term(q, m)
        })
        .sum();
    (sum / 2.0).max(0.0).sqrt()
}

/// The label of the nearest row (Euclidean; of equally near ones the first) for each point.
pub fn nearest_neighbour(rows: &Rows, labels: &[f64], points: &Rows) -> Vec<f64> {
    use rayon::prelude::*;
    let d = rows.columns;
    points
        .values
        .par_chunks_exact(d.max(1))
        .map(|point| {
            let (mut best, mut at) = (f64::INFINITY, 0);
            for (i, row) in rows.iter().enumerate() {
                let mut sum = 0.0;
                for (a, b) in row.iter().zip(point) {
                    sum += (a - b) * (a - b);
                }
                if sum < best {
                    (best, at) = (sum, i);
                }
            }
            labels.get(at).copied().unwrap_or(f64::NAN)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_histograms_are_zero_for_equal_and_largest_for_disjoint_ones() {
        assert_eq!(jensen_shannon_distance(&[1.0, 3.0], &[2.0, 6.0]), 0.0);
        let apart = jensen_shannon_distance(&[1.0, 0.0], &[0.0, 5.0]);
        assert!((apart - std::f64::consts::LN_2.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn a_category_and_a_constant_column_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let read = |target| Table::read(&path, target, &Reading::default());
        std::fs::write(&path, "a,b,c\n1,2,3\n4,jan,6\n").unwrap();
        let error = read(None).unwrap_err().to_string();
        assert!(
            error.contains("line 3, b") && error.contains("jan"),
            "{error}"
        );
        std::fs::write(&path, "a,b,c\n1,2,3\n4,2,6\n5,2,7\n6,2,1\n7,2,9\n").unwrap();
        let table = read(None).unwrap();
        let error = table.twin(None, None, 0).unwrap_err().to_string();
        assert!(error.contains("b: this column is constant"), "{error}");
        std::fs::write(&path, "a,b,c\n1,2,3\n4,8,6\n5,10,7\n6,12,1\n7,14,9\n").unwrap();
        let error = read(None).unwrap().twin(None, None, 0).unwrap_err();
        let words = "b: this column is a linear function of those before it (a)";
        assert!(error.to_string().contains(words), "{error}");
        let error = read(Some("z")).unwrap_err().to_string();
        assert!(error.contains("one of a, b, c"), "{error}");
    }
}
