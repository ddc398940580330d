//! Multilayer perceptrons with rectified units.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::Link;
use crate::attribute::rows::Rows;
use crate::attribute::subsets::Subset;
use crate::tensor::cpu::relu_rows::{HiddenLayer, LANES, Walk, hidden_layer};

/// y = W x + b; `weights` is outputs × inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    pub inputs: usize,
    pub weights: Vec<f64>,
    pub bias: Vec<f64>,
}

impl Dense {
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }
}

/// Layers with max(0, ·) between them; the last has one output.
#[derive(Clone, Debug, PartialEq)]
pub struct Mlp {
    pub layers: Vec<Dense>,
    pub link: Link,
}

impl Mlp {
    pub fn dimension(&self) -> usize {
        self.layers.first().map_or(0, |l| l.inputs)
    }

    /// The two layers of a network with one hidden layer.
    pub fn one_hidden(&self) -> Option<HiddenLayer<'_>> {
        let [first, last] = &self.layers[..] else {
            return None;
        };
        Some(HiddenLayer {
            columns: first.inputs,
            into: &first.weights,
            bias: &first.bias,
            out: &last.weights,
            out_bias: last.bias[0],
        })
    }

    pub fn predict_into(&self, rows: &[f64], out: &mut [f64]) {
        match self.one_hidden() {
            Some(layer) => hidden_layer(layer, rows, out),
            None => self.predict_deep(rows, out),
        }
        if self.link == Link::Logistic {
            out.iter_mut().for_each(|v| *v = self.link.of(*v));
        }
    }

    fn predict_deep(&self, rows: &[f64], out: &mut [f64]) {
        let n = out.len();
        let mut values = rows.to_vec();
        for (at, layer) in self.layers.iter().enumerate() {
            values = apply(layer, &values, n);
            if at + 1 < self.layers.len() {
                values.iter_mut().for_each(|v| *v = v.max(0.0));
            }
        }
        out.copy_from_slice(&values[..n]);
    }

    /// See [`super::Model::coalitions`]; false if the network is not of one hidden layer.
    pub fn coalitions(
        &self,
        point: &[f64],
        background: &Rows,
        visit: &mut impl FnMut(Subset, usize, &[f64]),
    ) -> bool {
        let Some(layer) = self.one_hidden() else {
            return false;
        };
        let (d, n) = (background.columns, background.len());
        let walk = Walk::new(layer);
        for first in (0..n).step_by(LANES) {
            let rows = LANES.min(n - first);
            let mut block = vec![[0.0; LANES]; d];
            for lane in 0..rows {
                for (column, value) in block.iter_mut().zip(background.row(first + lane)) {
                    column[lane] = *value;
                }
            }
            walk.coalitions(point, &block, |subset, values| match self.link {
                Link::Identity => visit(subset, first, &values[..rows]),
                Link::Logistic => {
                    let values = values.map(|v| self.link.of(v));
                    visit(subset, first, &values[..rows]);
                }
            });
        }
        true
    }
}

/// One layer on n rows.
pub(super) fn apply(layer: &Dense, rows: &[f64], n: usize) -> Vec<f64> {
    let outputs = layer.outputs();
    let mut out: Vec<f64> = (0..n).flat_map(|_| layer.bias.iter().copied()).collect();
    matmul(
        MatMut::from_row_major_slice_mut(&mut out, n, outputs),
        Accum::Add,
        MatRef::from_row_major_slice(rows, n, layer.inputs),
        MatRef::from_row_major_slice(&layer.weights, outputs, layer.inputs).transpose(),
        1.0,
        Par::Seq,
    );
    out
}
