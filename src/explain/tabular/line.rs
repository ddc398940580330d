//! How far one number has to move until the class changes: exact, because a network of ReLUs is piecewise linear along a line.

use crate::tabular::Network;

/// The network's margin (wished logit minus the other) as a function of the hidden values.
pub struct Margin {
    /// Weight of each hidden value after its ReLU.
    pub weights: Vec<f64>,
    pub bias: f64,
    hidden: usize,
    w1: Vec<f64>,
    b1: Vec<f64>,
}

impl Margin {
    /// Of the class `target` over the other.
    pub fn new(network: &Network, target: usize) -> Self {
        let other = 1 - target;
        let wide = |v: &[f32]| -> Vec<f64> { v.iter().map(|&x| f64::from(x)).collect() };
        let each = network.w2.chunks_exact(2);
        Self {
            weights: each
                .map(|w| f64::from(w[target]) - f64::from(w[other]))
                .collect(),
            bias: f64::from(network.b2[target]) - f64::from(network.b2[other]),
            hidden: network.hidden(),
            w1: wide(&network.w1),
            b1: wide(&network.b1),
        }
    }

    /// Of one output alone: what the benchmark's MACE asked for.
    pub fn of_output(network: &Network, target: usize) -> Self {
        let mut margin = Self::new(network, target);
        let each = network.w2.chunks_exact(2);
        margin.weights = each.map(|w| f64::from(w[target])).collect();
        margin.bias = f64::from(network.b2[target]);
        margin
    }

    /// Weights of one input into the hidden layer.
    pub fn row(&self, column: usize) -> &[f64] {
        &self.w1[column * self.hidden..(column + 1) * self.hidden]
    }

    /// Hidden values before the ReLU.
    pub fn hidden(&self, x: &[f64]) -> Vec<f64> {
        let mut h = self.b1.clone();
        for (c, &value) in x.iter().enumerate() {
            if value != 0.0 {
                h.iter_mut()
                    .zip(self.row(c))
                    .for_each(|(h, w)| *h += value * w);
            }
        }
        h
    }

    /// The margin of hidden values.
    pub fn of_hidden(&self, hidden: &[f64]) -> f64 {
        let each = hidden.iter().zip(&self.weights).filter(|(h, _)| **h > 0.0);
        self.bias + each.map(|(h, v)| h * v).sum::<f64>()
    }

    /// The margin of a point.
    pub fn at(&self, x: &[f64]) -> f64 {
        self.of_hidden(&self.hidden(x))
    }

    /// The most that moving the hidden values by `by` can add to the margin, wherever they are.
    pub fn most_gain(&self, by: impl Iterator<Item = f64>) -> f64 {
        by.zip(&self.weights).map(|(d, v)| (d * v).max(0.0)).sum()
    }

    /// The smallest move of `column` (from `hidden`, within `[low, high]` as moves) that lifts the margin to `least`; none if no move does.
    pub fn nearest_move(
        &self,
        hidden: &[f64],
        column: usize,
        low: f64,
        high: f64,
        least: f64,
    ) -> Option<f64> {
        if self.of_hidden(hidden) >= least {
            return Some(0.0);
        }
        let up = self.one_way(hidden, column, high.max(0.0), 1.0, least);
        let down = self.one_way(hidden, column, (-low).max(0.0), -1.0, least);
        match (up, down) {
            (Some(a), Some(b)) if a <= b => Some(a),
            (Some(a), None) => Some(a),
            (_, Some(b)) => Some(-b),
            (None, None) => None,
        }
    }

    fn one_way(
        &self,
        hidden: &[f64],
        column: usize,
        far: f64,
        sign: f64,
        least: f64,
    ) -> Option<f64> {
        let rates: Vec<f64> = self.row(column).iter().map(|w| w * sign).collect();
        let mut bends: Vec<f64> = hidden
            .iter()
            .zip(&rates)
            .map(|(h, r)| -h / r)
            .filter(|t| *t > 0.0 && *t < far)
            .collect();
        bends.push(far);
        bends.sort_by(f64::total_cmp);
        let margin = |t: f64| -> f64 {
            let each = hidden.iter().zip(&rates).zip(&self.weights);
            self.bias
                + each
                    .map(|((h, r), v)| (h + t * r).max(0.0) * v)
                    .sum::<f64>()
        };
        let (mut start, mut before) = (0.0, margin(0.0));
        for end in bends {
            let after = margin(end);
            if after >= least {
                let share = if after > before {
                    (least - before) / (after - before)
                } else {
                    1.0
                };
                return Some(start + share.clamp(0.0, 1.0) * (end - start));
            }
            (start, before) = (end, after);
        }
        None
    }
}
