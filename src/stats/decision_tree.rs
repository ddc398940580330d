//! Classification trees: CART with Gini impurity (Breiman et al. 1984), split as scikit-learn splits.
//!
//! Features are compared in single precision; a threshold is the middle of two neighbouring values; the split with the largest fall of impurity wins,
//! of equals the first feature. Values that differ by less than 1e-7 are one value.

use serde::{Deserialize, Serialize};

/// How a tree is grown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeParams {
    pub max_depth: usize,
    pub min_leaf: usize,
}

impl Default for TreeParams {
    /// The benchmark's.
    fn default() -> Self {
        Self {
            max_depth: 3,
            min_leaf: 1,
        }
    }
}

/// One node; nodes stand in the order in which a walk to the left meets them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Feature, threshold, and the nodes for ≤ and >; none for a leaf.
    pub split: Option<TreeSplit>,
    pub impurity: f64,
    pub samples: usize,
    /// Share of each class.
    pub shares: Vec<f64>,
}

/// Where a node divides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeSplit {
    pub feature: usize,
    pub threshold: f64,
    pub left: usize,
    pub right: usize,
}

/// A grown tree; node 0 is the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    pub nodes: Vec<Node>,
}

/// What is grown from.
struct Rows<'a> {
    values: &'a [Vec<f32>],
    classes: &'a [usize],
    count: usize,
    params: TreeParams,
}

const SAME: f32 = 1e-7;

impl Tree {
    /// Grows a tree on rows with their classes (numbers below `count`). `None` without rows.
    pub fn grow(
        rows: &[Vec<f64>],
        classes: &[usize],
        count: usize,
        params: TreeParams,
    ) -> Option<Self> {
        if rows.is_empty() || rows.len() != classes.len() {
            return None;
        }
        let values: Vec<Vec<f32>> = rows
            .iter()
            .map(|r| r.iter().map(|&v| v as f32).collect())
            .collect();
        let all = Rows {
            values: &values,
            classes,
            count,
            params,
        };
        let mut tree = Self { nodes: Vec::new() };
        all.grow(&mut tree, (0..rows.len()).collect(), 0);
        Some(tree)
    }

    /// The leaf of a row.
    pub fn leaf(&self, row: &[f64]) -> usize {
        let mut at = 0;
        while let Some(split) = self.nodes[at].split {
            let left = f64::from(row[split.feature] as f32) <= split.threshold;
            at = if left { split.left } else { split.right };
        }
        at
    }

    /// The class of a row: the first of the largest shares in its leaf.
    pub fn class(&self, row: &[f64]) -> usize {
        let shares = &self.nodes[self.leaf(row)].shares;
        let mut best = 0;
        for (class, share) in shares.iter().enumerate() {
            if *share > shares[best] {
                best = class;
            }
        }
        best
    }

    /// The nodes from the root to a row's leaf.
    pub fn path(&self, row: &[f64]) -> Vec<usize> {
        let (mut at, mut path) = (0, vec![0]);
        while let Some(split) = self.nodes[at].split {
            let left = f64::from(row[split.feature] as f32) <= split.threshold;
            at = if left { split.left } else { split.right };
            path.push(at);
        }
        path
    }

    /// Share of rows that get their class.
    pub fn accuracy(&self, rows: &[Vec<f64>], classes: &[usize]) -> f64 {
        let hits = rows
            .iter()
            .zip(classes)
            .filter(|(r, c)| self.class(r) == **c);
        hits.count() as f64 / rows.len() as f64
    }
}

fn gini(counts: &[usize], n: usize) -> f64 {
    let squares: f64 = counts.iter().map(|&c| (c as f64) * (c as f64)).sum();
    1.0 - squares / (n as f64 * n as f64)
}

impl Rows<'_> {
    fn counts(&self, rows: &[usize]) -> Vec<usize> {
        let mut counts = vec![0; self.count];
        rows.iter().for_each(|&r| counts[self.classes[r]] += 1);
        counts
    }

    fn grow(&self, tree: &mut Tree, rows: Vec<usize>, depth: usize) -> usize {
        let counts = self.counts(&rows);
        let impurity = gini(&counts, rows.len());
        let at = tree.nodes.len();
        tree.nodes.push(Node {
            split: None,
            impurity,
            samples: rows.len(),
            shares: counts
                .iter()
                .map(|&c| c as f64 / rows.len() as f64)
                .collect(),
        });
        if depth == self.params.max_depth || impurity <= f64::EPSILON {
            return at;
        }
        let Some((feature, threshold)) = self.best_split(&rows, &counts) else {
            return at;
        };
        let goes_left = |&&r: &&usize| f64::from(self.values[r][feature]) <= threshold;
        let (low, high): (Vec<usize>, Vec<usize>) = rows.iter().partition(|r| goes_left(r));
        let left = self.grow(tree, low, depth + 1);
        let right = self.grow(tree, high, depth + 1);
        tree.nodes[at].split = Some(TreeSplit {
            feature,
            threshold,
            left,
            right,
        });
        at
    }

    fn best_split(&self, rows: &[usize], counts: &[usize]) -> Option<(usize, f64)> {
        let features = self.values.first().map_or(0, Vec::len);
        let mut best: Option<(f64, usize, f64)> = None;
        let mut order: Vec<usize> = Vec::with_capacity(rows.len());
        for feature in 0..features {
            let value = |r: usize| self.values[r][feature];
            let mut ends = [f32::INFINITY, f32::NEG_INFINITY];
            for &r in rows {
                ends = [ends[0].min(value(r)), ends[1].max(value(r))];
            }
            if ends[1] <= ends[0] + SAME {
                continue;
            }
            order.clear();
            let two = rows.iter().all(|&r| ends.contains(&value(r)));
            if two {
                // Most columns of one-hot vectors: no need to sort.
                for end in ends {
                    order.extend(rows.iter().filter(|&&r| value(r) == end));
                }
            } else {
                order.extend(rows);
                order.sort_by(|&a, &b| value(a).total_cmp(&value(b)));
            }
            let mut left = vec![0usize; self.count];
            for at in 1..order.len() {
                left[self.classes[order[at - 1]]] += 1;
                let (below, above) = (value(order[at - 1]), value(order[at]));
                let small = at.min(order.len() - at) < self.params.min_leaf;
                if above <= below + SAME || small {
                    continue;
                }
                // Squares over sizes: the larger, the smaller the impurity that is left.
                let right = |c: usize| (counts[c] - left[c]) as f64;
                let squares = (0..self.count)
                    .map(|c| (left[c] as f64).powi(2))
                    .sum::<f64>();
                let others = (0..self.count).map(|c| right(c).powi(2)).sum::<f64>();
                let proxy = squares / at as f64 + others / (order.len() - at) as f64;
                // Sums in another order must not decide between equal splits.
                let better = best.is_none_or(|(p, _, _)| proxy > p * (1.0 + 1e-12));
                if better {
                    let middle = f64::from(below) / 2.0 + f64::from(above) / 2.0;
                    let bounded = middle == f64::from(above) || !middle.is_finite();
                    let threshold = if bounded { f64::from(below) } else { middle };
                    best = Some((proxy, feature, threshold));
                }
                if two {
                    break;
                }
            }
        }
        best.map(|(_, feature, threshold)| (feature, threshold))
    }
}
