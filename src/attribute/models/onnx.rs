//! Models of users in ONNX: networks of dense layers with rectified units, linear models and ensembles of trees, as skl2onnx and PyTorch
//! write them; of classifiers of two classes the probability of the second. Anything else is refused by the name of its operation.

mod graph;
mod protobuf;

use std::path::Path;

use super::tree::NO_CHILD;
use super::{Dense, Forest, Linear, Link, Mlp, Model, Tree};
use crate::attribute::error::{AttributionError, Result};
use graph::{Graph, Node};

/// Operations that only change how values are stored.
const NOTHING_DONE: [&str; 8] = [
    "Cast",
    "Identity",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Dropout",
    "Contiguous",
];

/// What makes two probabilities and a class of the probability that a sigmoid gave.
const OF_A_CLASSIFIER: [&str; 2] = ["Sub", "Concat"];

/// Reads a model; `path` is for messages.
pub fn from_onnx(bytes: &[u8], path: &Path) -> Result<Model> {
    let fail = |reason: String| AttributionError::file(path, reason);
    let graph = Graph::parse(bytes)
        .ok_or_else(|| fail("expected an ONNX model, found something else".into()))?;
    let mut chain = Chain::default();
    let mut ensemble = None;
    let mut current = graph.input.clone();
    while current != graph.output {
        let node = graph
            .nodes
            .iter()
            .find(|n| n.inputs.contains(&current))
            .ok_or_else(|| fail(format!("no operation takes `{current}`")))?;
        let next = node.outputs.first().cloned().unwrap_or_default();
        if chain.link == Link::Logistic && OF_A_CLASSIFIER.contains(&node.operation.as_str()) {
            break;
        }
        match node.operation.as_str() {
            "TreeEnsembleRegressor" if chain.is_empty() => {
                ensemble = Some(trees(node, "target").ok_or_else(|| {
                    fail("TreeEnsembleRegressor: expected one target and branches `<=`".into())
                })?);
            }
            "TreeEnsembleClassifier" if chain.is_empty() => {
                ensemble = Some(trees(node, "class").ok_or_else(|| {
                    let expected = "two classes, probabilities in the leaves and branches `<=`";
                    fail(format!("TreeEnsembleClassifier: expected {expected}"))
                })?);
            }
            _ if ensemble.is_some() && !NOTHING_DONE.contains(&node.operation.as_str()) => {
                return Err(fail(format!(
                    "operation {} after an ensemble of trees is not supported",
                    node.operation
                )));
            }
            _ => chain.add(&graph, node, &current).ok_or_else(|| {
                fail(format!(
                    "operation {} (output `{next}`) is not one that foil reads here: expected MatMul, Gemm, Add, Sub, Mul, Div by constants, Relu, \
                     a last Sigmoid, Scaler, LinearRegressor, TreeEnsembleRegressor, or a LinearClassifier or TreeEnsembleClassifier of two classes, one after the other",
                    node.operation
                ))
            })?,
        }
        if current == next {
            return Err(fail(format!("operation {} feeds itself", node.operation)));
        }
        current = next;
    }
    match ensemble {
        Some(forest) => Ok(Model::Forest(forest)),
        None => chain
            .finish()
            .ok_or_else(|| fail("expected layers that end in one output".into())),
    }
}

/// Affine maps, rectified in between.
#[derive(Default)]
struct Chain {
    closed: Vec<Dense>,
    open: Option<Dense>,
    link: Link,
}

impl Chain {
    fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.open.is_none()
    }

    /// None if the operation is not one of these.
    fn add(&mut self, graph: &Graph, node: &Node, input: &str) -> Option<()> {
        if self.link == Link::Logistic {
            return NOTHING_DONE
                .contains(&node.operation.as_str())
                .then_some(());
        }
        let first = node.inputs.first().is_some_and(|i| i == input);
        let other = node.inputs.iter().find(|i| *i != input);
        let constant = other.and_then(|name| graph.constant(name));
        match node.operation.as_str() {
            "MatMul" if first => {
                let (shape, values) = constant?;
                let &[inputs, outputs] = &shape[..] else {
                    return None;
                };
                self.then(turned(&values, inputs, outputs), vec![0.0; outputs])
            }
            "Gemm" if first => {
                let (shape, values) = graph.constant(node.inputs.get(1)?)?;
                let &[rows, columns] = &shape[..] else {
                    return None;
                };
                if node.int("transA").unwrap_or(0) != 0 {
                    return None;
                }
                let alpha = node.float("alpha").unwrap_or(1.0);
                let (mut weights, outputs) = match node.int("transB").unwrap_or(0) {
                    0 => (turned(&values, rows, columns), columns),
                    _ => (values, rows),
                };
                weights.iter_mut().for_each(|w| *w *= alpha);
                let beta = node.float("beta").unwrap_or(1.0);
                let bias = match node.inputs.get(2) {
                    Some(name) => graph.constant(name)?.1,
                    None => vec![0.0; outputs],
                };
                let bias = spread(&bias, outputs)?.iter().map(|b| b * beta).collect();
                self.then(weights, bias)
            }
            "Add" => self.scale(1.0, &constant?.1, false),
            "Sub" if first => self.scale(-1.0, &constant?.1, false),
            "Mul" => self.scale(1.0, &constant?.1, true),
            "Div" if first => {
                let inverse: Vec<f64> = constant?.1.iter().map(|v| 1.0 / v).collect();
                self.scale(1.0, &inverse, true)
            }
            "Relu" => {
                self.closed.push(self.open.take()?);
                Some(())
            }
            "Sigmoid" => {
                self.link = Link::Logistic;
                Some(())
            }
            "Scaler" if self.is_empty() => {
                let (offset, scale) = (node.floats("offset")?, node.floats("scale")?);
                let d = offset.len().max(scale.len());
                let (offset, scale) = (spread(&offset, d)?, spread(&scale, d)?);
                let diagonal = (0..d * d)
                    .map(|i| if i % (d + 1) == 0 { scale[i / d] } else { 0.0 })
                    .collect();
                let bias = offset.iter().zip(&scale).map(|(o, s)| -o * s).collect();
                self.then(diagonal, bias)
            }
            "LinearRegressor" => {
                let coefficients = node.floats("coefficients")?;
                let bias = node.floats("intercepts").unwrap_or_else(|| vec![0.0]);
                if bias.len() != 1 {
                    return None;
                }
                self.then(coefficients, bias)
            }
            "LinearClassifier" => {
                let (weights, bias) = second_class(node)?;
                self.then(weights, vec![bias])?;
                self.link = Link::Logistic;
                Some(())
            }
            other => NOTHING_DONE.contains(&other).then_some(()),
        }
    }

    /// An affine map after what is there; weights are outputs × inputs.
    fn then(&mut self, weights: Vec<f64>, bias: Vec<f64>) -> Option<()> {
        let outputs = bias.len();
        let inputs = weights.len().checked_div(outputs)?;
        if inputs == 0 || weights.iter().chain(&bias).any(|v| !v.is_finite()) {
            return None;
        }
        let next = Dense {
            inputs,
            weights,
            bias,
        };
        let Some(before) = self.open.take() else {
            let fits = self.closed.last().is_none_or(|l| l.outputs() == inputs);
            self.open = fits.then_some(next);
            return fits.then_some(());
        };
        if before.outputs() != inputs {
            return None;
        }
        let mut joined = vec![0.0; outputs * before.inputs];
        let mut bias = next.bias.clone();
        for o in 0..outputs {
            for k in 0..inputs {
                let w = next.weights[o * inputs + k];
                bias[o] += w * before.bias[k];
                for i in 0..before.inputs {
                    joined[o * before.inputs + i] += w * before.weights[k * before.inputs + i];
                }
            }
        }
        self.open = Some(Dense {
            inputs: before.inputs,
            weights: joined,
            bias,
        });
        Some(())
    }

    /// Adds a constant times `sign`, or multiplies by it, element by element.
    fn scale(&mut self, sign: f64, constant: &[f64], product: bool) -> Option<()> {
        let width = match (&self.open, self.closed.last()) {
            (Some(open), _) => open.outputs(),
            (None, Some(closed)) => closed.outputs(),
            (None, None) => constant.len(),
        };
        let constant = spread(constant, width)?;
        let mut diagonal = vec![0.0; width * width];
        let mut bias = vec![0.0; width];
        for (i, c) in constant.iter().enumerate() {
            diagonal[i * (width + 1)] = if product { *c } else { 1.0 };
            bias[i] = if product { 0.0 } else { sign * c };
        }
        self.then(diagonal, bias)
    }

    fn finish(mut self) -> Option<Model> {
        let last = self.open.take()?;
        if last.outputs() != 1 {
            return None;
        }
        if self.closed.is_empty() {
            return Some(Model::Linear(Linear {
                intercept: last.bias[0],
                coefficients: last.weights,
                link: self.link,
            }));
        }
        self.closed.push(last);
        Some(Model::Mlp(Mlp {
            layers: self.closed,
            link: self.link,
        }))
    }
}

/// The score whose logistic is the probability of the second of two classes.
fn second_class(node: &Node) -> Option<(Vec<f64>, f64)> {
    let (weights, bias) = (node.floats("coefficients")?, node.floats("intercepts")?);
    let &[first, second] = &bias[..] else {
        return None;
    };
    let (one, two) = weights.split_at_checked(weights.len() / 2)?;
    match node.text("post_transform").as_deref() {
        Some("LOGISTIC") => Some((two.to_vec(), second)),
        Some("SOFTMAX") if one.len() == two.len() => {
            let apart = two.iter().zip(one).map(|(t, o)| t - o);
            Some((apart.collect(), second - first))
        }
        _ => None,
    }
}

fn turned(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns)
        .map(|at| values[at % rows * columns + at / rows])
        .collect()
}

/// One value for all, or one for each.
fn spread(values: &[f64], n: usize) -> Option<Vec<f64>> {
    match values {
        [one] => Some(vec![*one; n]),
        _ if values.len() == n => Some(values.to_vec()),
        _ => None,
    }
}

/// An ensemble whose leaves give a `target`, or the probability of the second `class`.
fn trees(node: &Node, what: &str) -> Option<Forest> {
    let index = |name: &str| -> Option<Vec<usize>> {
        let ints = node.ints(name)?;
        ints.iter().map(|&v| usize::try_from(v).ok()).collect()
    };
    let (tree_of, id) = (index("nodes_treeids")?, index("nodes_nodeids")?);
    let (yes, no) = (index("nodes_truenodeids")?, index("nodes_falsenodeids")?);
    let (feature, modes) = (index("nodes_featureids")?, node.strings("nodes_modes")?);
    let threshold = node.floats("nodes_values")?;
    let of = |list: &str| format!("{what}_{list}");
    let (target_tree, target_node) = (index(&of("treeids"))?, index(&of("nodeids"))?);
    let mut weights = node.floats(&of("weights"))?;
    if what == "class" {
        let labels = ["classlabels_int64s", "classlabels_ints"].map(|n| node.ints(n));
        let labels = labels.into_iter().flatten().map(|l| l.len()).max();
        let labels = labels.or_else(|| node.strings("classlabels_strings").map(<[_]>::len));
        let (class, plain) = (index("class_ids")?, node.text("post_transform"));
        if labels != Some(2) || class.len() != weights.len() || plain.is_some_and(|p| p != "NONE") {
            return None;
        }
        // One class alone stands for the second (the operation's definition).
        if class.contains(&1) {
            for (weight, _) in weights.iter_mut().zip(&class).filter(|(_, c)| **c != 1) {
                *weight = 0.0;
            }
        }
    }
    let n = tree_of.len();
    let lists = [
        id.len(),
        yes.len(),
        no.len(),
        feature.len(),
        modes.len(),
        threshold.len(),
    ];
    if lists != [n; 6]
        || node.int("n_targets").unwrap_or(1) != 1
        || target_tree.len() != weights.len()
        || target_node.len() != weights.len()
    {
        return None;
    }
    let dimension = feature
        .iter()
        .zip(modes)
        .filter(|(_, m)| *m != "LEAF")
        .map(|(f, _)| f + 1);
    let dimension = dimension.max().unwrap_or(1);
    let count = tree_of.iter().max()? + 1;
    let mut forest = Vec::with_capacity(count);
    for t in 0..count {
        let own: Vec<usize> = (0..n).filter(|&i| tree_of[i] == t).collect();
        // Nodes in the order of their ids, so that an id is a place.
        if own.iter().enumerate().any(|(at, &i)| id[i] != at) || own.is_empty() {
            return None;
        }
        let mut tree = Tree {
            dimension,
            left: Vec::new(),
            right: Vec::new(),
            feature: Vec::new(),
            threshold: Vec::new(),
            value: vec![0.0; own.len()],
            impurity: Vec::new(),
        };
        for (at, &i) in own.iter().enumerate() {
            let leaf = match modes[i].as_str() {
                "LEAF" => true,
                "BRANCH_LEQ" => false,
                _ => return None,
            };
            let child = |c: usize| (c > at && c < own.len()).then_some(c);
            tree.left.push(if leaf { NO_CHILD } else { child(yes[i])? });
            tree.right.push(if leaf { NO_CHILD } else { child(no[i])? });
            tree.feature.push(if leaf { NO_CHILD } else { feature[i] });
            tree.threshold.push(threshold[i]);
        }
        for k in 0..weights.len() {
            if target_tree[k] == t {
                *tree.value.get_mut(target_node[k])? += weights[k];
            }
        }
        forest.push(tree);
    }
    let scale = match node.text("aggregate_function").as_deref() {
        None | Some("SUM") => 1.0,
        Some("AVERAGE") => 1.0 / count as f64,
        _ => return None,
    };
    Some(Forest {
        trees: forest,
        base: node.floats("base_values").map_or(0.0, |v| v.iter().sum()),
        scale,
    })
}
