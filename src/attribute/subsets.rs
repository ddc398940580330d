//! Subsets of features: their order, the weights of Kernel SHAP, and Shapley values of a game.

/// Features that are known, as bits: bit j is feature j.
pub type Subset = u64;

/// Most features whose subsets are counted through.
pub const MOST_ENUMERATED: usize = 20;

/// The subset of all `d` features.
pub fn all(d: usize) -> Subset {
    match d {
        64.. => Subset::MAX,
        _ => (1 << d) - 1,
    }
}

pub fn contains(subset: Subset, feature: usize) -> bool {
    subset >> feature & 1 == 1
}

/// The features of a subset.
pub fn members(subset: Subset, d: usize) -> impl Iterator<Item = usize> {
    (0..d).filter(move |&j| contains(subset, j))
}

/// All subsets by size, then in lexicographic order of their members.
pub fn ordered(d: usize) -> Vec<Subset> {
    let mut subsets: Vec<Subset> = (0..=all(d)).collect();
    let lexicographic = |s: &Subset| std::cmp::Reverse(s.reverse_bits());
    subsets.sort_by_key(|s| (s.count_ones(), lexicographic(s)));
    subsets
}

/// Kernel of a coalition of `size` of `d` features (\[shap\] theorem 2), `ends` for the empty and the full one.
pub fn kernel_weight(d: usize, size: usize, ends: f64) -> f64 {
    if size == 0 || size == d {
        return ends;
    }
    (d - 1) as f64 / (binomial(d, size) * size as f64 * (d - size) as f64)
}

pub fn binomial(n: usize, k: usize) -> f64 {
    (0..k.min(n - k)).fold(1.0, |b, i| b * (n - i) as f64 / (i + 1) as f64)
}

/// |S|! (d − |S| − 1)! / d! for each size: the weight of a coalition that a feature joins.
pub fn joining_weights(d: usize) -> Vec<f64> {
    (0..d)
        .map(|size| 1.0 / (d as f64 * binomial(d - 1, size)))
        .collect()
}

/// Shapley values of a game whose value of each subset stands at the subset's number.
pub fn shapley(values: &[f64], d: usize) -> Vec<f64> {
    let weights = joining_weights(d);
    let mut shares = vec![0.0; d];
    for (subset, value) in values.iter().enumerate() {
        let size = subset.count_ones() as usize;
        for (j, share) in shares.iter_mut().enumerate() {
            match subset >> j & 1 {
                1 => *share += weights[size - 1] * value,
                _ => *share -= weights[size] * value,
            }
        }
    }
    shares
}

/// The regression of Kernel SHAP over all subsets: coefficients, and the intercept if there is one. `ends` is the weight of the
/// empty and the full subset, which stands for infinity.
pub fn kernel_regression(
    values: &[f64],
    d: usize,
    ends: f64,
    intercept: bool,
) -> (Option<f64>, Vec<f64>) {
    let subsets = ordered(d);
    let columns = d + usize::from(intercept);
    let mut design = Vec::with_capacity(subsets.len() * columns);
    for &subset in &subsets {
        if intercept {
            design.push(1.0);
        }
        design.extend((0..d).map(|j| f64::from(u8::from(contains(subset, j)))));
    }
    let weights: Vec<f64> = subsets
        .iter()
        .map(|s| kernel_weight(d, s.count_ones() as usize, ends))
        .collect();
    let right: Vec<f64> = subsets.iter().map(|&s| values[s as usize]).collect();
    let mut found = super::small_matrix::weighted_least_squares(&design, columns, &right, &weights);
    let first = intercept.then(|| found.remove(0));
    (first, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_come_by_size_and_then_by_their_members() {
        let members: Vec<Vec<usize>> = ordered(3)
            .iter()
            .map(|&s| members(s, 3).collect())
            .collect();
        let expected: [&[usize]; 8] =
            [&[], &[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
        assert_eq!(members, expected);
    }

    #[test]
    fn shapley_values_of_a_glove_game_are_known() {
        // One left glove (player 0), two right ones: a pair is worth 1.
        let value = |s: usize| f64::from(u8::from(s & 1 == 1 && s & 6 != 0));
        let values: Vec<f64> = (0..8).map(value).collect();
        let shares = shapley(&values, 3);
        for (got, expected) in shares.iter().zip([4.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0]) {
            assert!((got - expected).abs() < 1e-15, "{shares:?}");
        }
    }

    #[test]
    fn the_kernel_regression_is_the_shapley_formula() {
        let values: Vec<f64> = (0..16).map(|s| (s as f64 * 0.37).sin()).collect();
        let shares = shapley(&values, 4);
        let (first, found) = kernel_regression(&values, 4, 1e8, true);
        assert!((first.unwrap() - values[0]).abs() < 1e-6);
        for (a, b) in shares.iter().zip(&found) {
            assert!((a - b).abs() < 1e-6, "{shares:?} {found:?}");
        }
    }
}
