//! breakDown ([staniak & biecek]): features are freed one after the other, always the one that moves the mean prediction least from
//! the point's ("down"); a feature's weight is what the prediction loses when it is freed.
//!
//! The released code returns the weights in the order of importance, not of features: `as-released`.

use super::each;
use crate::attribute::Variant;
use crate::attribute::models::Model;
use crate::attribute::rows::Rows;

#[derive(Clone, Copy, Debug)]
pub struct Breakdown {
    pub variant: Variant,
}

impl Breakdown {
    pub fn explain(&self, model: &Model, train: &Rows, points: &Rows) -> Rows {
        each(points, |_, x| {
            let (order, weights) = breakdown(model, x, train);
            match self.variant {
                Variant::AsReleased => weights,
                Variant::Correct => by_feature(&order, &weights),
            }
        })
    }
}

/// Weights put back to the columns of their features.
pub fn by_feature(order: &[usize], weights: &[f64]) -> Vec<f64> {
    let mut put = vec![0.0; weights.len()];
    for (&j, w) in order.iter().zip(weights) {
        put[j] = *w;
    }
    put
}

/// Features in order of importance, the last that is freed first, and their weights.
pub fn breakdown(model: &Model, x: &[f64], background: &Rows) -> (Vec<usize>, Vec<f64>) {
    let (d, n) = (x.len(), background.len());
    let mut current = Rows::from_rows((0..n).map(|_| x.to_vec()), d);
    let mut out = vec![0.0; n];
    let at_point = model.predict_one(x);
    let (mut left, mut last) = ((0..d).collect::<Vec<_>>(), at_point);
    let (mut order, mut weights) = (Vec::new(), Vec::new());
    let free = |rows: &mut Rows, j: usize, freed: bool| {
        for i in 0..n {
            rows.row_mut(i)[j] = if freed { background.row(i)[j] } else { x[j] };
        }
    };
    while !left.is_empty() {
        let mut best: Option<(f64, usize, f64)> = None;
        for (at, &j) in left.iter().enumerate() {
            free(&mut current, j, true);
            model.predict_into(&current.values, &mut out);
            free(&mut current, j, false);
            let mean = out.iter().sum::<f64>() / n as f64;
            let distance = (mean - at_point).abs();
            if best.is_none_or(|(least, _, _)| distance < least) {
                best = Some((distance, at, mean));
            }
        }
        let Some((_, at, mean)) = best else {
            break;
        };
        let j = left.remove(at);
        free(&mut current, j, true);
        order.push(j);
        weights.push(last - mean);
        last = mean;
    }
    order.reverse();
    weights.reverse();
    (order, weights)
}
