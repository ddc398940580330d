//! Exact interventional Shapley values ([shap]): the features of a point are put into rows of a background, v(S) is the mean prediction.
//!
//! Each subset's mean is computed once. Linear models have Shapley values in closed form; in a tree a point and a row part only at
//! nodes where they go different ways, and each leaf that is reached adds to known features by their number (interventional TreeSHAP).

use super::{check_enumerable, each};
use crate::attribute::error::Result;
use crate::attribute::models::{Link, Model, Tree};
use crate::attribute::rows::Rows;
use crate::attribute::subsets::{joining_weights, shapley};
use crate::stats::legacy_numpy::LegacyNumpy;

/// Rows of background taken of the training rows: 100, with the seed of `shap`'s masker.
#[derive(Clone, Copy, Debug)]
pub struct Shap {
    pub background: usize,
}

impl Default for Shap {
    fn default() -> Self {
        Self { background: 100 }
    }
}

impl Shap {
    /// Beyond 20 features an MLP has too many subsets: Kernel SHAP samples them.
    pub fn explain(&self, model: &Model, train: &Rows, points: &Rows, seed: u64) -> Result<Rows> {
        let rows = background(train, self.background);
        let by_formula = matches!(model, Model::Tree(_) | Model::Forest(_))
            || matches!(model, Model::Linear(m) if m.link == Link::Identity);
        if !by_formula && check_enumerable("shap", train.columns).is_err() {
            let sampled = super::KernelShap::default();
            return sampled.explain(model, &rows, points, seed);
        }
        Ok(each(points, |_, x| shapley_of_background(model, x, &rows)))
    }
}

/// At most `n` rows, chosen as `shap` chooses them (numpy's legacy generator, seed 0).
pub fn background(train: &Rows, n: usize) -> Rows {
    if train.len() <= n {
        return train.clone();
    }
    let order = LegacyNumpy::new(0).permutation(train.len() as u32);
    train.take(&order[..n])
}

/// Exact Shapley values of one point.
pub fn shapley_of_background(model: &Model, x: &[f64], background: &Rows) -> Vec<f64> {
    match model {
        Model::Linear(m) if m.link == Link::Identity => {
            let means = background.means();
            let parts = m.coefficients.iter().zip(x.iter().zip(&means));
            parts.map(|(c, (x, mean))| c * (x - mean)).collect()
        }
        Model::Tree(tree) => {
            let mut shares = vec![0.0; x.len()];
            add_tree(tree, x, background, 1.0, &mut shares);
            shares
        }
        Model::Forest(forest) => {
            let mut shares = vec![0.0; x.len()];
            for tree in &forest.trees {
                add_tree(tree, x, background, forest.scale, &mut shares);
            }
            shares
        }
        _ => shapley(&coalition_means(model, x, background), x.len()),
    }
}

/// The mean prediction for each subset of the point's features, at the subset's number.
pub fn coalition_means(model: &Model, x: &[f64], background: &Rows) -> Vec<f64> {
    let mut sums = vec![0.0; 1 << x.len()];
    model.coalitions(x, background, |subset, _, values| {
        sums[subset as usize] += in_lanes(values);
    });
    let n = background.len().max(1) as f64;
    sums.iter().map(|s| s / n).collect()
}

/// A sum in eight parts, which do not wait for each other.
fn in_lanes(values: &[f64]) -> f64 {
    let (whole, rest) = values.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for values in whole {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
    sums.iter().chain(rest).sum()
}

/// Which side a feature was taken from on the way to a node.
const UNDECIDED: u8 = 0;
const POINT: u8 = 1;
const ROW: u8 = 2;

struct Walk<'a> {
    tree: &'a Tree,
    x: &'a [f64],
    row: &'a [f64],
    /// Weight of a leaf for a feature of the point, by numbers of features from the point and from the row.
    taken: Vec<u8>,
    /// How many features came from the point, and from the row.
    from: [usize; 2],
    weights: &'a [Vec<f64>],
    scale: f64,
}

fn add_tree(tree: &Tree, x: &[f64], background: &Rows, scale: f64, shares: &mut [f64]) {
    // Of u features from the point and v from the row, one of the u joins u − 1 others: weights of a game of u + v players.
    let weights: Vec<Vec<f64>> = (0..=x.len()).map(joining_weights).collect();
    for row in background.iter() {
        let mut walk = Walk {
            tree,
            x,
            row,
            taken: vec![UNDECIDED; x.len()],
            from: [0, 0],
            weights: &weights,
            scale: scale / background.len() as f64,
        };
        walk.visit(0, shares);
    }
}

impl Walk<'_> {
    fn visit(&mut self, node: usize, shares: &mut [f64]) {
        let tree = self.tree;
        if tree.is_leaf(node) {
            let [u, v] = self.from;
            let weights = &self.weights[u + v];
            let value = self.scale * tree.value[node];
            for (share, side) in shares.iter_mut().zip(&self.taken) {
                match *side {
                    POINT => *share += value * weights[u - 1],
                    ROW => *share -= value * weights[u],
                    _ => {}
                }
            }
            return;
        }
        let child = |left: bool| {
            if left {
                tree.left[node]
            } else {
                tree.right[node]
            }
        };
        let feature = tree.feature[node];
        let ways = [tree.goes_left(node, self.x), tree.goes_left(node, self.row)];
        match self.taken[feature] {
            _ if ways[0] == ways[1] => self.visit(child(ways[0]), shares),
            POINT => self.visit(child(ways[0]), shares),
            ROW => self.visit(child(ways[1]), shares),
            _ => {
                for (k, side) in [POINT, ROW].into_iter().enumerate() {
                    self.taken[feature] = side;
                    self.from[k] += 1;
                    self.visit(child(ways[k]), shares);
                    self.from[k] -= 1;
                }
                self.taken[feature] = UNDECIDED;
            }
        }
    }
}
