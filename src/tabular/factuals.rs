//! The rows to explain, as the benchmark chose them with pandas.

use super::Split;
use crate::stats::legacy_numpy::LegacyNumpy;

/// Most factuals of a class.
pub const MOST_FACTUALS: usize = 100;

/// The benchmark's seed for choosing factuals.
const SEED: u32 = 42;

/// Rows that the network puts into `class` (`predicted` of each row): a sample of the test rows if there are enough, else all of them and a
/// sample of the validation rows, then of the training rows.
pub fn choose_factuals(
    split: &Split,
    predicted: &[usize],
    class: usize,
    most: usize,
) -> Vec<usize> {
    let of = |rows: &[usize]| -> Vec<usize> {
        let hits = rows.iter().copied().filter(|&r| predicted[r] == class);
        hits.collect()
    };
    let mut chosen = Vec::with_capacity(most);
    for part in [&split.test, &split.validation, &split.train] {
        let wanted = most - chosen.len();
        chosen.extend(sample(of(part), wanted));
    }
    chosen
}

/// All rows in their order if they are no more than wanted, else a sample without replacement.
fn sample(rows: Vec<usize>, wanted: usize) -> Vec<usize> {
    if rows.len() < wanted {
        return rows;
    }
    let order = LegacyNumpy::new(SEED).permutation(rows.len() as u32);
    order[..wanted].iter().map(|&i| rows[i]).collect()
}
