//! Kernel Inception distance: unbiased squared maximum mean discrepancy of features (Bińkowski et al. 2018).
//!
//! For m real rows x and k generated rows y:
//! Σ_{i≠j} k(xᵢ,xⱼ)/(m(m−1)) + Σ_{i≠j} k(yᵢ,yⱼ)/(k(k−1)) − 2 Σᵢⱼ k(xᵢ,yⱼ)/(mk). Unbiased, so it can be negative.
//! The published protocol averages over random subsets (mean, population standard deviation). Agrees with torchmetrics 1.9
//! computed in double precision to 1e-9 relative.

use rayon::prelude::*;
use serde::Serialize;

use crate::stats::interval::{
    Bootstrap, BootstrapInterval, MIN_REPLICATES, bootstrap_replicates, mean, std_population,
    summarise_replicates,
};
use crate::stats::random::{Draws, Stream};

use super::error::{MetricError, Result};
use super::kernel_matrices::{KernelMatrices, unbiased};

pub use super::kernel_matrices::Subset;
use super::kernel_sums::{Chosen, PolynomialKernel, cross_sum, within_sum};
use super::matrix::Matrix;

/// Largest kernel matrices that are kept in memory (values, all three together): one gigabyte.
const KEPT_VALUES: usize = 1 << 27;

/// Kernel values that all bootstrap replicates together may visit.
pub const BOOTSTRAP_BUDGET: f64 = 1e10;

/// The distance over subsets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelDistance {
    pub mean: f64,
    /// Population standard deviation over the subsets; they overlap, so this is not the error of the mean.
    pub std_population: f64,
    pub per_subset: Vec<f64>,
}

/// Random subsets without replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RandomSubsets {
    pub count: usize,
    /// `None` means min(1000, rows of the smaller set).
    pub size: Option<usize>,
    pub seed: u64,
}

impl Default for RandomSubsets {
    fn default() -> Self {
        Self {
            count: 100,
            size: None,
            seed: 0,
        }
    }
}

impl RandomSubsets {
    /// Draws the subsets for sets of `n_real` and `n_fake` rows.
    pub fn draw(&self, n_real: usize, n_fake: usize) -> Result<Vec<Subset>> {
        let smaller = n_real.min(n_fake);
        let size = self.size.unwrap_or(smaller.min(1000));
        if size > smaller {
            return Err(MetricError::TooFew {
                metric: "KID with this subset size",
                what: "images in each set".to_owned(),
                needed: size,
                found: smaller,
            });
        }
        Ok((0..self.count as u64)
            .map(|index| {
                let mut draws = Draws::new(self.seed, Stream::KID_SUBSETS, index);
                Subset {
                    real: draws.sample_without_replacement(n_real, size),
                    fake: draws.sample_without_replacement(n_fake, size),
                }
            })
            .collect())
    }
}

/// KID over random subsets.
pub fn kid_random(
    real: Matrix<'_>,
    fake: Matrix<'_>,
    kernel: &PolynomialKernel,
    subsets: RandomSubsets,
) -> Result<KernelDistance> {
    check_sets(real, fake, kernel)?;
    let subsets = subsets.draw(real.rows(), fake.rows())?;
    kid_subsets(real, fake, kernel, &subsets)
}

/// KID of the two whole sets as one block (`std_population` is 0).
pub fn kid_full(
    real: Matrix<'_>,
    fake: Matrix<'_>,
    kernel: &PolynomialKernel,
) -> Result<KernelDistance> {
    let all = Subset {
        real: (0..real.rows()).collect(),
        fake: (0..fake.rows()).collect(),
    };
    kid_subsets(real, fake, kernel, &[all])
}

/// KID over given subsets.
pub fn kid_subsets(
    real: Matrix<'_>,
    fake: Matrix<'_>,
    kernel: &PolynomialKernel,
    subsets: &[Subset],
) -> Result<KernelDistance> {
    check_sets(real, fake, kernel)?;
    check_subsets(real.rows(), fake.rows(), subsets)?;
    let per_subset = if worth_keeping(real.rows(), fake.rows(), subsets) {
        let kept = KernelMatrices::new(real, fake, kernel);
        subsets.par_iter().map(|s| kept.distance(s)).collect()
    } else {
        subsets
            .iter()
            .map(|s| streamed(real, fake, kernel, s))
            .collect::<Vec<f64>>()
    };
    match (mean(&per_subset), std_population(&per_subset)) {
        (Some(mean), Some(std_population)) if mean.is_finite() => Ok(KernelDistance {
            mean,
            std_population,
            per_subset,
        }),
        (None, _) => Err(MetricError::TooFew {
            metric: "KID",
            what: "subsets".to_owned(),
            needed: 1,
            found: 0,
        }),
        _ => Err(MetricError::Numeric {
            what: "KID".to_owned(),
            detail: "the kernel overflows; scale the features down".to_owned(),
        }),
    }
}

/// Bootstrap interval of the whole-set KID, `None` with a note when it does not fit the budget.
///
/// Rows are drawn with multiplicities w; pairs of copies of one row are left out, as the diagonal is:
/// Σ_{i≠j} wᵢwⱼ kᵢⱼ / Σ_{i≠j} wᵢwⱼ, so that repeated rows do not shift the value.
pub fn kid_bootstrap(
    real: Matrix<'_>,
    fake: Matrix<'_>,
    kernel: &PolynomialKernel,
    plan: Bootstrap,
) -> Result<(Option<BootstrapInterval>, Option<String>)> {
    check_sets(real, fake, kernel)?;
    let values = all_values(real.rows(), fake.rows());
    let replicates = plan
        .replicates
        .min((BOOTSTRAP_BUDGET / values as f64) as usize);
    if replicates < MIN_REPLICATES || values > KEPT_VALUES {
        let note = format!(
            "no bootstrap interval: {} and {} images do not fit the budget for {MIN_REPLICATES} replicates",
            real.rows(),
            fake.rows()
        );
        return Ok((None, Some(note)));
    }
    let kept = KernelMatrices::new(real, fake, kernel);
    let value = kid_full(real, fake, kernel)?.mean;
    let run = Bootstrap { replicates, ..plan };
    let values = bootstrap_replicates(run, Stream::KID_BOOTSTRAP, |draws| {
        let w = draws.resample_counts(real.rows());
        let v = draws.resample_counts(fake.rows());
        Ok::<f64, MetricError>(kept.weighted_distance(&w, &v))
    })?;
    Ok((summarise_replicates(value, &values, plan.seed), None))
}

fn check_sets(real: Matrix<'_>, fake: Matrix<'_>, kernel: &PolynomialKernel) -> Result<()> {
    kernel.check()?;
    real.check_same_cols(&fake, "features for KID")?;
    real.check_rows("KID", "images in the real set", 2)?;
    fake.check_rows("KID", "images in the generated set", 2)?;
    real.check_finite("features of the real set")?;
    fake.check_finite("features of the generated set")
}

fn check_subsets(n_real: usize, n_fake: usize, subsets: &[Subset]) -> Result<()> {
    for subset in subsets {
        let sides = [
            (&subset.real, n_real, "real"),
            (&subset.fake, n_fake, "generated"),
        ];
        for (indices, rows, set) in sides {
            if indices.len() < 2 {
                return Err(MetricError::TooFew {
                    metric: "KID",
                    what: format!("{set} images in a subset"),
                    needed: 2,
                    found: indices.len(),
                });
            }
            if let Some(position) = indices.iter().position(|&i| i >= rows) {
                return Err(MetricError::IndexOutOfRange {
                    what: format!("KID subset of the {set} set"),
                    position,
                    index: indices[position],
                    rows,
                });
            }
        }
    }
    Ok(())
}

fn all_values(n_real: usize, n_fake: usize) -> usize {
    let squares = n_real
        .saturating_mul(n_real)
        .saturating_add(n_fake.saturating_mul(n_fake));
    squares.saturating_add(n_real.saturating_mul(n_fake))
}

/// Whole kernel matrices pay when the subsets together visit more pairs than there are.
fn worth_keeping(n_real: usize, n_fake: usize, subsets: &[Subset]) -> bool {
    let visited = subsets.iter().fold(0usize, |sum, s| {
        sum.saturating_add(all_values(s.real.len(), s.fake.len()))
    });
    let values = all_values(n_real, n_fake);
    values <= KEPT_VALUES && values < visited
}

fn streamed(real: Matrix<'_>, fake: Matrix<'_>, kernel: &PolynomialKernel, subset: &Subset) -> f64 {
    let x = Chosen {
        set: real,
        indices: &subset.real,
    };
    let y = Chosen {
        set: fake,
        indices: &subset.fake,
    };
    unbiased(
        within_sum(kernel, x),
        within_sum(kernel, y),
        cross_sum(kernel, x, y),
        subset.real.len(),
        subset.fake.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(rows: usize, cols: usize, index: u64) -> Vec<f32> {
        let mut draws = Draws::new(41, Stream::BOOTSTRAP, index);
        (0..rows * cols)
            .map(|_| (draws.normal() + 0.3 * index as f64) as f32)
            .collect()
    }

    fn matrix(data: &[f32], cols: usize) -> Matrix<'_> {
        Matrix::new("test", data.len() / cols, cols, data).unwrap()
    }

    #[test]
    fn kept_and_streamed_kernels_agree() {
        let (a, b) = (features(60, 8, 1), features(50, 8, 2));
        let (a, b) = (matrix(&a, 8), matrix(&b, 8));
        let kernel = PolynomialKernel::default();
        let subsets = RandomSubsets {
            count: 5,
            size: Some(20),
            seed: 1,
        };
        let kept = KernelMatrices::new(a, b, &kernel);
        for subset in subsets.draw(60, 50).unwrap() {
            let plain = streamed(a, b, &kernel, &subset);
            assert!((kept.distance(&subset) - plain).abs() < 1e-12);
        }
    }

    #[test]
    fn a_weighted_distance_with_unit_weights_is_the_whole_distance() {
        let (a, b) = (features(30, 8, 1), features(20, 8, 2));
        let (a, b) = (matrix(&a, 8), matrix(&b, 8));
        let kernel = PolynomialKernel::default();
        let whole = kid_full(a, b, &kernel).unwrap();
        let kept = KernelMatrices::new(a, b, &kernel);
        let unit = kept.weighted_distance(&[1; 30], &[1; 20]);
        assert!((unit - whole.mean).abs() < 1e-12);
        assert_eq!(whole.std_population, 0.0);
        let plan = Bootstrap {
            replicates: 100,
            seed: 3,
        };
        let (interval, _) = kid_bootstrap(a, b, &kernel, plan).unwrap();
        let interval = interval.unwrap();
        assert!(interval.percentile.low < whole.mean && whole.mean < interval.percentile.high);
        assert_eq!(
            Some(interval),
            kid_bootstrap(a, b, &kernel, plan).unwrap().0
        );
    }

    #[test]
    fn sets_that_are_too_small_and_indices_out_of_range_are_errors() {
        let a = features(5, 3, 1);
        let a = matrix(&a, 3);
        let kernel = PolynomialKernel::default();
        let large = RandomSubsets {
            size: Some(9),
            ..RandomSubsets::default()
        };
        let error = kid_random(a, a, &kernel, large).unwrap_err().to_string();
        assert!(error.contains("at least 9") && error.contains("found 5"));
        let outside = Subset {
            real: vec![0, 7],
            fake: vec![0, 1],
        };
        assert!(kid_subsets(a, a, &kernel, &[outside]).is_err());
        assert!(kid_subsets(a, a, &kernel, &[]).is_err());
    }
}
