//! Ranks with ties, missing values last.

/// Which end is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Larger,
    Smaller,
}

/// Ranks of one block: 1 is best, equal values share the mean of their ranks, and all missing values (NaN) share that of the last places.
pub fn rank_block(values: &[f64], better: Better) -> Vec<f64> {
    let sign = if better == Better::Larger { -1.0 } else { 1.0 };
    let mut order: Vec<usize> = (0..values.len()).collect();
    let key = |at: usize| {
        if values[at].is_nan() {
            f64::INFINITY
        } else {
            sign * values[at]
        }
    };
    let missing = |at: usize| values[at].is_nan();
    order.sort_by(|&a, &b| missing(a).cmp(&missing(b)).then(key(a).total_cmp(&key(b))));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let first = order[start];
        let same = |&&at: &&usize| missing(at) == missing(first) && key(at) == key(first);
        let end = start + order[start..].iter().take_while(same).count().max(1);
        let rank = (start + 1 + end) as f64 / 2.0;
        order[start..end].iter().for_each(|&at| ranks[at] = rank);
        start = end;
    }
    ranks
}

/// Mean rank of each treatment over blocks, from the ranks of each block.
pub fn mean_ranks(blocks: &[Vec<f64>]) -> Vec<f64> {
    let k = blocks.first().map_or(0, Vec::len);
    let mean = |j: usize| blocks.iter().map(|b| b[j]).sum::<f64>() / blocks.len() as f64;
    (0..k).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_and_missing_values_come_last() {
        let nan = f64::NAN;
        assert_eq!(
            rank_block(&[3.0, 1.0, nan, 1.0, nan], Better::Smaller),
            [3.0, 1.5, 4.5, 1.5, 4.5]
        );
        assert_eq!(
            rank_block(&[3.0, 1.0, nan, 1.0], Better::Larger),
            [1.0, 2.5, 4.0, 2.5]
        );
    }
}
