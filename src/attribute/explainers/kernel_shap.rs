//! Kernel SHAP ([shap]): the regression of v(S) on membership, with the ends fixed. All subsets where they are few, else the sizes that
//! weigh most completely and the others sampled.

use super::each;
use super::shap::coalition_means;
use crate::attribute::error::{AttributionError, Result};
use crate::attribute::models::Model;
use crate::attribute::rows::Rows;
use crate::attribute::small_matrix::weighted_least_squares;
use crate::attribute::streams;
use crate::attribute::subsets::{Subset, all, binomial, contains, kernel_weight};
use crate::stats::random::Draws;

#[derive(Clone, Copy, Debug)]
pub struct KernelShap {
    /// Most subsets that are evaluated; none: 2d + 2048, as `shap` does.
    pub samples: Option<usize>,
    /// Most rows of background.
    pub background: usize,
}

impl Default for KernelShap {
    fn default() -> Self {
        Self {
            samples: None,
            background: 1000,
        }
    }
}

impl KernelShap {
    pub fn explain(&self, model: &Model, train: &Rows, points: &Rows, seed: u64) -> Result<Rows> {
        let d = train.columns;
        let budget = self.samples.unwrap_or(2 * d + 2048);
        if d > 1 && budget < 2 * d {
            return Err(AttributionError::setting(
                "--samples",
                format!("at least {} subsets for {d} features", 2 * d),
                budget.to_string(),
            ));
        }
        let background = train.head(self.background);
        let every = d <= 20 && (1usize << d) - 2 <= budget;
        Ok(each(points, |i, x| {
            let (subsets, weights) = match every {
                true => enumerated(d),
                false => sampled(
                    d,
                    budget,
                    &mut Draws::new(seed, streams::KERNEL_SHAP, i as u64),
                ),
            };
            let (values, ends) = match every {
                true => {
                    let means = coalition_means(model, x, &background);
                    let of = |s: &Subset| means[*s as usize];
                    (
                        subsets.iter().map(of).collect(),
                        [means[0], means[means.len() - 1]],
                    )
                }
                false => {
                    let ends = [0, all(d)];
                    let both = [&subsets[..], &ends[..]].concat();
                    let mut values = means_of(model, x, &background, &both);
                    let full = values.pop().unwrap_or(0.0);
                    let empty = values.pop().unwrap_or(0.0);
                    (values, [empty, full])
                }
            };
            regress(&subsets, &weights, &values, ends, d)
        }))
    }
}

fn enumerated(d: usize) -> (Vec<Subset>, Vec<f64>) {
    let subsets: Vec<Subset> = (1..all(d)).collect();
    let weight = |s: &Subset| kernel_weight(d, s.count_ones() as usize, 0.0);
    let weights = subsets.iter().map(weight).collect();
    (subsets, weights)
}

/// Whole sizes from both ends while they fit; then subsets of the other sizes drawn by their weight, each with its complement.
fn sampled(d: usize, budget: usize, draws: &mut Draws) -> (Vec<Subset>, Vec<f64>) {
    let (mut subsets, mut weights) = (Vec::new(), Vec::new());
    let mut left = budget;
    let mut sizes: Vec<usize> = (1..=d / 2).collect();
    while let Some(&size) = sizes.first() {
        let pair = if 2 * size == d { 1.0 } else { 2.0 };
        let count = pair * binomial(d, size);
        if count > left as f64 {
            break;
        }
        for subset in of_size(d, size) {
            let weight = kernel_weight(d, size, 0.0);
            subsets.push(subset);
            weights.push(weight);
            if 2 * size != d {
                subsets.push(all(d) ^ subset);
                weights.push(weight);
            }
        }
        left -= count as usize;
        sizes.remove(0);
    }
    if sizes.is_empty() || left < 2 {
        return (subsets, weights);
    }
    // The kernel's total weight of a size, with its mirror image.
    let total = |&s: &usize| {
        let pair = if 2 * s == d { 1.0 } else { 2.0 };
        pair * kernel_weight(d, s, 0.0) * binomial(d, s)
    };
    let shares: Vec<f64> = sizes.iter().map(total).collect();
    let mass: f64 = shares.iter().sum();
    let pairs = left / 2;
    for _ in 0..pairs {
        let size = sizes[crate::attribute::data::pick(&shares, draws)];
        let chosen = draws.sample_without_replacement(d, size);
        let subset = chosen.iter().fold(0, |s: Subset, j| s | 1 << j);
        for subset in [subset, all(d) ^ subset] {
            subsets.push(subset);
            weights.push(mass / (2 * pairs) as f64);
        }
    }
    (subsets, weights)
}

/// All subsets of a size, in the order of their numbers.
fn of_size(d: usize, size: usize) -> Vec<Subset> {
    let mut found = Vec::new();
    let mut subset = all(size);
    while subset <= all(d) {
        found.push(subset);
        // The next number with as many bits (Gosper).
        let low = subset & subset.wrapping_neg();
        let ripple = subset + low;
        if low == 0 || ripple == 0 {
            break;
        }
        subset = ripple | (((subset ^ ripple) / low) >> 2);
    }
    found
}

fn means_of(model: &Model, x: &[f64], background: &Rows, subsets: &[Subset]) -> Vec<f64> {
    let mut mixed = background.clone();
    let mut out = vec![0.0; background.len()];
    subsets
        .iter()
        .map(|&subset| {
            for i in 0..background.len() {
                let row = mixed.row_mut(i);
                for (j, value) in row.iter_mut().enumerate() {
                    *value = match contains(subset, j) {
                        true => x[j],
                        false => background.row(i)[j],
                    };
                }
            }
            model.predict_into(&mixed.values, &mut out);
            out.iter().sum::<f64>() / out.len() as f64
        })
        .collect()
}

/// Weighted least squares with Σφ = v(all) − v(∅): the last feature is put in terms of the others.
fn regress(
    subsets: &[Subset],
    weights: &[f64],
    values: &[f64],
    [empty, full]: [f64; 2],
    d: usize,
) -> Vec<f64> {
    let change = full - empty;
    if d == 1 {
        return vec![change];
    }
    let last = d - 1;
    let member = |s: Subset, j: usize| f64::from(u8::from(contains(s, j)));
    let mut design = Vec::with_capacity(subsets.len() * last);
    let mut right = Vec::with_capacity(subsets.len());
    for (&subset, value) in subsets.iter().zip(values) {
        let own = member(subset, last);
        design.extend((0..last).map(|j| member(subset, j) - own));
        right.push(value - empty - own * change);
    }
    let mut shares = weighted_least_squares(&design, last, &right, weights);
    let rest = change - shares.iter().sum::<f64>();
    shares.push(rest);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_of_a_size_are_all_there() {
        let found = of_size(6, 3);
        assert_eq!(found.len(), 20);
        assert!(found.iter().all(|s| s.count_ones() == 3 && *s < 64));
        assert_eq!(of_size(4, 4), [15]);
    }

    #[test]
    fn a_sample_has_the_weight_of_all_subsets() {
        let mut draws = Draws::new(3, streams::KERNEL_SHAP, 0);
        let (_, all_weights) = enumerated(12);
        let (subsets, weights) = sampled(12, 600, &mut draws);
        assert!(subsets.len() <= 600 && subsets.len() > 590);
        let sums = [all_weights.iter().sum::<f64>(), weights.iter().sum()];
        assert!((sums[0] - sums[1]).abs() < 1e-9, "{sums:?}");
    }
}
