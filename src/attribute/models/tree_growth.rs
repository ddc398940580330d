//! CART for squared errors, as scikit-learn grows it: features in single precision, thresholds half way between neighbours, features
//! tried in a random order, the first of equally good splits taken.

use super::tree::{NO_CHILD, Tree};
use crate::attribute::rows::Rows;
use crate::attribute::streams;
use crate::stats::random::{Draws, Stream};

/// Values nearer than this are the same to a split (scikit-learn's constant).
const SAME: f32 = 1e-7;

/// How a tree is grown; the default grows it fully.
#[derive(Clone, Copy, Debug)]
pub struct TreeSettings {
    /// Rows that a leaf has at least.
    pub least_leaf: usize,
    /// Features tried at a node; none: all.
    pub features: Option<usize>,
    pub stream: Stream,
    /// Which sequence of the stream.
    pub index: u64,
}

impl Default for TreeSettings {
    fn default() -> Self {
        Self {
            least_leaf: 1,
            features: None,
            stream: streams::TREE,
            index: 0,
        }
    }
}

struct Growth<'a> {
    x: &'a [Vec<f32>],
    y: &'a [f64],
    weight: &'a [f64],
    /// Weight, and weight times label, of each row.
    parts: &'a [[f64; 2]],
    settings: &'a TreeSettings,
    /// For each feature the rows in its order; a node is one range in all of them.
    order: Vec<Vec<u32>>,
    goes_left: Vec<bool>,
    spare: Vec<u32>,
    draws: Draws,
}

struct Split {
    feature: usize,
    threshold: f64,
    /// Rows that go left.
    left: usize,
    gain: f64,
}

/// Grows a tree; `counts` is how often each row counts (a bootstrap), all once without.
pub fn grow(
    x: &Rows,
    y: &[f64],
    counts: Option<&[u32]>,
    settings: &TreeSettings,
    seed: u64,
) -> Tree {
    let columns = columns_of(x);
    let sorted = sorted_orders(&columns);
    grow_sorted(&columns, &sorted, y, counts, settings, seed)
}

/// Columns in single precision.
pub(super) fn columns_of(x: &Rows) -> Vec<Vec<f32>> {
    (0..x.columns)
        .map(|j| x.iter().map(|row| row[j] as f32).collect())
        .collect()
}

/// The order of rows by each column.
pub(super) fn sorted_orders(columns: &[Vec<f32>]) -> Vec<Vec<u32>> {
    columns
        .iter()
        .map(|column| {
            let mut order: Vec<u32> = (0..column.len() as u32).collect();
            order.sort_by(|&a, &b| column[a as usize].total_cmp(&column[b as usize]));
            order
        })
        .collect()
}

/// The same with orders made before, which the trees of a forest share.
pub(super) fn grow_sorted(
    columns: &[Vec<f32>],
    sorted: &[Vec<u32>],
    y: &[f64],
    counts: Option<&[u32]>,
    settings: &TreeSettings,
    seed: u64,
) -> Tree {
    let weight: Vec<f64> = match counts {
        Some(counts) => counts.iter().map(|&c| f64::from(c)).collect(),
        None => vec![1.0; y.len()],
    };
    let counted = |i: &u32| weight[*i as usize] > 0.0;
    let order: Vec<Vec<u32>> = sorted
        .iter()
        .map(|o| o.iter().copied().filter(counted).collect())
        .collect();
    let n = order.first().map_or(0, Vec::len);
    let parts: Vec<[f64; 2]> = weight.iter().zip(y).map(|(w, y)| [*w, w * y]).collect();
    let mut growth = Growth {
        x: columns,
        y,
        weight: &weight,
        parts: &parts,
        settings,
        goes_left: vec![false; y.len()],
        spare: vec![0; n],
        order,
        draws: Draws::new(seed, settings.stream, settings.index),
    };
    let mut tree = Tree {
        dimension: columns.len(),
        left: Vec::new(),
        right: Vec::new(),
        feature: Vec::new(),
        threshold: Vec::new(),
        value: Vec::new(),
        impurity: Vec::new(),
    };
    // Depth first, left before right, as scikit-learn numbers its nodes.
    let mut open = vec![(0, n, NO_CHILD, false)];
    while let Some((from, to, parent, is_left)) = open.pop() {
        let node = tree.left.len();
        if parent != NO_CHILD {
            match is_left {
                true => tree.left[parent] = node,
                false => tree.right[parent] = node,
            }
        }
        let (value, impurity) = growth.moments(from, to);
        let split = match impurity <= f64::EPSILON {
            true => None,
            false => growth.best_split(from, to),
        };
        tree.left.push(NO_CHILD);
        tree.right.push(NO_CHILD);
        tree.feature
            .push(split.as_ref().map_or(NO_CHILD, |s| s.feature));
        tree.threshold
            .push(split.as_ref().map_or(-2.0, |s| s.threshold));
        tree.value.push(value);
        tree.impurity.push(impurity);
        if let Some(split) = split {
            growth.part(from, to, &split);
            open.push((from + split.left, to, node, false));
            open.push((from, from + split.left, node, true));
        }
    }
    tree
}

impl Growth<'_> {
    /// Mean and variance of the labels of a node.
    fn moments(&self, from: usize, to: usize) -> (f64, f64) {
        let rows = self.order.first().map_or(&[][..], |o| &o[from..to]);
        let (mut weight, mut sum) = (0.0, 0.0);
        for &i in rows {
            let [w, wy] = self.parts[i as usize];
            weight += w;
            sum += wy;
        }
        let mean = sum / weight;
        let mut squares = 0.0;
        for &i in rows {
            let from_mean = self.y[i as usize] - mean;
            squares += self.weight[i as usize] * from_mean * from_mean;
        }
        (mean, squares / weight)
    }

    fn best_split(&mut self, from: usize, to: usize) -> Option<Split> {
        let d = self.x.len();
        let least = self.settings.least_leaf;
        let wanted = self.settings.features.unwrap_or(d).clamp(1, d);
        let mut best: Option<Split> = None;
        let mut tried = 0;
        // Constant features do not count as tried.
        for feature in self.draws.permutation(d) {
            if tried == wanted {
                break;
            }
            let (rows, x) = (&self.order[feature][from..to], &self.x[feature]);
            let (first, last) = (x[rows[0] as usize], x[rows[rows.len() - 1] as usize]);
            if last <= first + SAME {
                continue;
            }
            tried += 1;
            let (mut total, mut total_weight) = (0.0, 0.0);
            for &i in rows {
                let [w, wy] = self.parts[i as usize];
                total += wy;
                total_weight += w;
            }
            let (mut sum, mut weight, mut high) = (0.0, 0.0, first);
            for at in 1..rows.len() {
                let [w, wy] = self.parts[rows[at - 1] as usize];
                sum += wy;
                weight += w;
                let low = high;
                high = x[rows[at] as usize];
                if high <= low + SAME || at < least || rows.len() - at < least {
                    continue;
                }
                let rest = total - sum;
                let gain = sum * sum / weight + rest * rest / (total_weight - weight);
                if best.as_ref().is_none_or(|b| gain > b.gain) {
                    let middle = f64::from(low) / 2.0 + f64::from(high) / 2.0;
                    let threshold = match middle >= f64::from(high) {
                        true => f64::from(low),
                        false => middle,
                    };
                    best = Some(Split {
                        feature,
                        threshold,
                        left: at,
                        gain,
                    });
                }
            }
        }
        best
    }

    /// Puts the rows that go left before the others in each order, both in their order.
    fn part(&mut self, from: usize, to: usize, split: &Split) {
        for (at, &i) in self.order[split.feature][from..to].iter().enumerate() {
            self.goes_left[i as usize] = at < split.left;
        }
        for (feature, order) in self.order.iter_mut().enumerate() {
            if feature == split.feature {
                continue;
            }
            let rows = &mut order[from..to];
            let spare = &mut self.spare[..rows.len()];
            // Each row is written to both sides, of which one goes on: no branch that a processor would guess wrong half of the time.
            let (mut at, mut right) = (0, 0);
            for k in 0..rows.len() {
                let i = rows[k];
                let left = usize::from(self.goes_left[i as usize]);
                rows[at] = i;
                spare[right] = i;
                at += left;
                right += 1 - left;
            }
            rows[at..].copy_from_slice(&spare[..right]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_tree_knows_its_rows_and_a_step_is_found_half_way() {
        let x = Rows::new((0..40).map(|i| f64::from(i) * 0.5).collect(), 2);
        let y: Vec<f64> = (0..20).map(|i| f64::from((i * 7) % 20)).collect();
        let tree = grow(&x, &y, None, &TreeSettings::default(), 0);
        let mut out = vec![0.0; 20];
        tree.predict_into(&x.values, &mut out);
        assert_eq!(out, y);
        assert_eq!((tree.leaves(), tree.left.len()), (20, 39));
        let step: Vec<f64> = (0..20).map(|i| f64::from(u8::from(i >= 8))).collect();
        let tree = grow(&x, &step, None, &TreeSettings::default(), 0);
        assert_eq!(tree.left.len(), 3);
        let expected = [7.5, 8.0][tree.feature[0]];
        assert_eq!(tree.threshold[0], expected);
        assert_eq!(tree.depth(), 1);
    }
}
