//! MAPLE (\[maple\]): a random forest fitted to the model's responses says which training rows are near a point, and a ridge
//! regression of them, on the features that matter, is the explanation: weight = coefficient × (x − mean of the training rows).

use super::each;
use crate::attribute::models::{Forest, ForestSettings, Model};
use crate::attribute::rows::Rows;
use crate::attribute::small_matrix::Products;
use crate::stats::legacy_numpy::LegacyNumpy;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub forest: ForestSettings,
    /// Share of the rows kept for choosing the number of features.
    pub validation: f64,
    pub penalty: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            forest: ForestSettings::default(),
            validation: 0.2,
            penalty: 1e-3,
        }
    }
}

/// For each tree and leaf, the training rows in it.
#[derive(Clone, Debug)]
pub struct Neighbours {
    rows: usize,
    leaves: Vec<Vec<Vec<u32>>>,
}

impl Neighbours {
    /// From the leaf of each training row in each tree.
    pub fn new(leaf_of: &[Vec<usize>]) -> Self {
        let leaves = leaf_of
            .iter()
            .map(|ids| {
                let most = ids.iter().max().map_or(0, |m| m + 1);
                let mut members = vec![Vec::new(); most];
                for (row, &leaf) in ids.iter().enumerate() {
                    members[leaf].push(row as u32);
                }
                members
            })
            .collect();
        Self {
            rows: leaf_of.first().map_or(0, Vec::len),
            leaves,
        }
    }

    /// How near each training row is to a point in these leaves: the sum over trees of 1/(rows in the leaf) where they share it.
    pub fn weights(&self, leaf_of_point: impl IntoIterator<Item = usize>) -> Vec<f64> {
        let mut weights = vec![0.0; self.rows];
        for (leaves, leaf) in self.leaves.iter().zip(leaf_of_point) {
            let Some(members) = leaves.get(leaf) else {
                continue;
            };
            let share = 1.0 / members.len() as f64;
            for &row in members {
                weights[row as usize] += share;
            }
        }
        weights
    }
}

/// Sums of the root impurities of the trees whose root splits on each feature.
pub fn feature_scores(d: usize, roots: impl IntoIterator<Item = (Option<usize>, f64)>) -> Vec<f64> {
    let mut scores = vec![0.0; d];
    for (feature, impurity) in roots {
        if let Some(score) = feature.and_then(|f| scores.get_mut(f)) {
            *score += impurity;
        }
    }
    scores
}

/// A fitted explainer.
pub struct Maple {
    forest: Forest,
    neighbours: Neighbours,
    local: Local,
    means: Vec<f64>,
}

/// Local regressions on the features that are kept.
pub struct Local {
    pub x: Rows,
    pub response: Vec<f64>,
    /// Features by importance.
    pub order: Vec<usize>,
    pub kept: usize,
    pub penalty: f64,
}

impl Local {
    /// Keeps as many features as predict the validation rows best.
    pub fn choose(
        x: Rows,
        response: Vec<f64>,
        scores: &[f64],
        penalty: f64,
        validation: (&Rows, &[f64], &[Vec<f64>]),
    ) -> Self {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let mut local = Self {
            x,
            response,
            order,
            kept: 0,
            penalty,
        };
        use rayon::prelude::*;
        let (rows, expected, weights) = validation;
        // The squared error of each validation row with 1, 2, … features: all take the same products.
        let squares: Vec<Vec<f64>> = (0..rows.len())
            .into_par_iter()
            .map(|i| {
                let products = local.products(&weights[i]);
                let error = |kept: usize| {
                    let (intercept, found) = local.solve(products.as_ref(), kept);
                    let chosen = local.order[..kept].iter().zip(&found);
                    let value = intercept + chosen.map(|(&j, c)| c * rows.row(i)[j]).sum::<f64>();
                    (value - expected[i]).powi(2)
                };
                (1..=local.order.len()).map(error).collect()
            })
            .collect();
        let mut best = f64::INFINITY;
        let mut chosen = 1;
        for kept in 1..=scores.len() {
            let error = squares.iter().map(|own| own[kept - 1]).sum::<f64>();
            if error < best {
                (best, chosen) = (error, kept);
            }
        }
        local.kept = chosen;
        local
    }

    /// Intercept and a coefficient for each feature; zero for those that are not kept.
    pub fn coefficients(&self, weights: &[f64]) -> (f64, Vec<f64>) {
        let (intercept, found) = self.solve(self.products(weights).as_ref(), self.kept);
        let mut coefficients = vec![0.0; self.x.columns];
        for (&j, c) in self.order[..self.kept].iter().zip(found) {
            coefficients[j] = c;
        }
        (intercept, coefficients)
    }

    /// Of the rows that are near.
    fn products(&self, weights: &[f64]) -> Option<Products> {
        let d = self.x.columns;
        let near: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0.0).collect();
        let mut rows = Vec::with_capacity(near.len() * d);
        near.iter().for_each(|&i| rows.extend(self.x.row(i)));
        let response: Vec<f64> = near.iter().map(|&i| self.response[i]).collect();
        let weights: Vec<f64> = near.iter().map(|&i| weights[i]).collect();
        Products::of(&rows, d, &response, &weights)
    }

    /// Intercept and coefficients of the first features of the order; zeros where no row is near.
    fn solve(&self, products: Option<&Products>, kept: usize) -> (f64, Vec<f64>) {
        let chosen = &self.order[..kept];
        products.map_or((0.0, vec![0.0; kept]), |p| p.ridge(chosen, self.penalty))
    }
}

/// Rows for the forest and rows for validation, as scikit-learn's `train_test_split` with `random_state` 0 parts them.
pub fn split(rows: usize, validation: f64) -> (Vec<usize>, Vec<usize>) {
    let order = LegacyNumpy::new(0).permutation(rows as u32);
    let n = ((rows as f64 * validation).ceil() as usize).clamp(1, rows.max(2) - 1);
    (order[n..].to_vec(), order[..n].to_vec())
}

impl Maple {
    pub fn fit(settings: &Settings, model: &Model, train: &Rows, seed: u64) -> Self {
        let (forest_rows, validation_rows) = split(train.len(), settings.validation);
        let (x, validation) = (train.take(&forest_rows), train.take(&validation_rows));
        let (response, expected) = (model.predict(&x), model.predict(&validation));
        let forest = settings.forest.grow(&x, &response, seed);
        let leaf_of: Vec<Vec<usize>> = forest
            .trees
            .iter()
            .map(|tree| x.iter().map(|row| tree.leaf(row)).collect())
            .collect();
        let neighbours = Neighbours::new(&leaf_of);
        let roots = forest.trees.iter().map(|t| {
            let feature = (!t.is_leaf(0)).then(|| t.feature[0]);
            (feature, t.impurity[0])
        });
        let scores = feature_scores(train.columns, roots);
        let weights: Vec<Vec<f64>> = validation
            .iter()
            .map(|row| neighbours.weights(forest.trees.iter().map(|t| t.leaf(row))))
            .collect();
        let validation = (&validation, &expected[..], &weights[..]);
        let local = Local::choose(x, response, &scores, settings.penalty, validation);
        Self {
            forest,
            neighbours,
            local,
            means: train.means(),
        }
    }

    /// Features that local regressions use.
    pub fn kept(&self) -> usize {
        self.local.kept
    }

    pub fn explain(&self, points: &Rows) -> Rows {
        each(points, |_, x| {
            let leaves = self.forest.trees.iter().map(|t| t.leaf(x));
            let (_, coefficients) = self.local.coefficients(&self.neighbours.weights(leaves));
            let parts = coefficients.iter().zip(x.iter().zip(&self.means));
            parts.map(|(c, (x, m))| c * (x - m)).collect()
        })
    }
}
