//! The axioms of Shapley values, on random models, points and backgrounds.

use super::{KernelShap, shapley_of_background};
use crate::attribute::data::{LabelFunction, Recipe};
use crate::attribute::explainers::coalition_means;
use crate::attribute::metrics::{Conditional, Games, Plan, Requests, ground_truth};
use crate::attribute::models::{Dense, ForestSettings, Kind, Linear, Link, Mlp, Model};
use crate::attribute::subsets::{all, shapley};
use crate::attribute::{Rows, Variant};
use crate::stats::random::{Draws, Stream};

const D: usize = 4;

fn normals(n: usize, seed: u64) -> Vec<f64> {
    let mut draws = Draws::new(seed, Stream(0), 0);
    (0..n).map(|_| draws.normal()).collect()
}

/// A network that ignores the last feature and takes the first two alike.
fn network(seed: u64) -> Mlp {
    let units = 7;
    let mut into = normals(units * D, seed);
    for unit in into.chunks_exact_mut(D) {
        unit[1] = unit[0];
        unit[D - 1] = 0.0;
    }
    Mlp {
        layers: vec![
            Dense {
                inputs: D,
                weights: into,
                bias: normals(units, seed + 1),
            },
            Dense {
                inputs: units,
                weights: normals(units, seed + 2),
                bias: vec![0.3],
            },
        ],
        link: Link::Identity,
    }
}

fn models(seed: u64) -> Vec<Model> {
    let x = Rows::new(normals(60 * D, seed + 3), D);
    let y: Vec<f64> = x
        .iter()
        .map(|r| (r[0] + r[1]).sin() + r[2] * r[0])
        .collect();
    let tree = |seed| crate::attribute::models::grow(&x, &y, None, &Default::default(), seed);
    let forest = ForestSettings {
        trees: 5,
        least_leaf: 3,
        features: 0.5,
    };
    vec![
        Model::Linear(Linear {
            coefficients: normals(D, seed + 4),
            intercept: 0.7,
            link: Link::Identity,
        }),
        Model::Linear(Linear {
            coefficients: normals(D, seed + 5),
            intercept: 0.1,
            link: Link::Logistic,
        }),
        Model::Tree(tree(seed)),
        Model::Forest(forest.grow(&x, &y, seed)),
        Model::Mlp(network(seed)),
    ]
}

fn close(a: &[f64], b: &[f64], what: &str) {
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() < 1e-10, "{what}: {a:?} {b:?}");
    }
}

#[test]
fn shares_add_up_to_what_the_point_changes() {
    for seed in 0..5 {
        let background = Rows::new(normals(23 * D, seed + 50), D);
        let x = normals(D, seed + 60);
        for model in models(seed) {
            let shares = shapley_of_background(&model, &x, &background);
            let base = model.predict(&background).iter().sum::<f64>() / 23.0;
            let change = model.predict_one(&x) - base;
            let sum: f64 = shares.iter().sum();
            assert!((sum - change).abs() < 1e-10, "{}", model.kind());
            // Each model's own way is the formula over all subsets, and so is the regression.
            let by_subsets = shapley(&coalition_means(&model, &x, &background), D);
            close(&shares, &by_subsets, model.kind());
            let points = Rows::new(x.clone(), D);
            let kernel = KernelShap::default().explain(&model, &background, &points, 0);
            close(&shares, &kernel.unwrap().values, model.kind());
        }
    }
}

#[test]
fn features_that_are_alike_share_alike_and_unused_ones_get_nothing() {
    for seed in 0..5 {
        let mut background = Rows::new(normals(16 * D, seed + 70), D);
        for i in 0..background.len() {
            let first = background.row(i)[0];
            background.row_mut(i)[1] = first;
        }
        let mut x = normals(D, seed + 80);
        x[1] = x[0];
        let shares = shapley_of_background(&Model::Mlp(network(seed)), &x, &background);
        assert!(
            (shares[0] - shares[1]).abs() < 1e-12,
            "symmetry: {shares:?}"
        );
        assert!(shares[D - 1].abs() < 1e-14, "dummy: {shares:?}");
    }
}

#[test]
fn shares_of_a_sum_of_models_are_sums_of_shares() {
    let (a, b) = (network(1), network(9));
    let mut both = a.clone();
    both.layers[0].weights.extend(&b.layers[0].weights);
    both.layers[0].bias.extend(&b.layers[0].bias);
    both.layers[1].weights.extend(&b.layers[1].weights);
    both.layers[1].inputs += b.layers[1].inputs;
    both.layers[1].bias[0] += b.layers[1].bias[0];
    let background = Rows::new(normals(19 * D, 90), D);
    let x = normals(D, 91);
    let of = |m: Mlp| shapley_of_background(&Model::Mlp(m), &x, &background);
    let sums: Vec<f64> = of(a).iter().zip(of(b)).map(|(x, y)| x + y).collect();
    close(&of(both), &sums, "linearity");
}

/// φⱼ of a linear model under a Gaussian, by the formula over subsets with conditional means written out for equal correlations:
/// E\[x_j | x_S\] = rho Σ_S x / (1 + (|S| − 1) rho).
#[test]
fn ground_truth_of_linear_models_is_the_closed_form() {
    let (d, rho) = (5, 0.6);
    let data = Recipe {
        test: 10,
        ..Recipe::gaussian(LabelFunction::Linear, d, rho, 4).unwrap()
    }
    .make();
    let coefficients = normals(d, 3);
    let model = Model::Linear(Linear {
        coefficients: coefficients.clone(),
        intercept: 0.2,
        link: Link::Identity,
    });
    let plan = Plan {
        model: &model,
        features: &data.features,
        conditional: Conditional::Observational,
        always_draw: false,
        seed: 0,
    };
    let x = &data.test.x;
    let games = Games::new(plan, x, &Requests::everything(x.len(), d), 10);
    assert_eq!(games.draws, 0);
    let truth = ground_truth(&games, d, Variant::Correct, None);
    for (i, x) in x.iter().enumerate() {
        let value = |s: u64| -> f64 {
            let known: f64 = (0..d).filter(|j| s >> j & 1 == 1).map(|j| x[j]).sum();
            let size = f64::from(s.count_ones());
            let other = if s == 0 {
                0.0
            } else {
                rho * known / (1.0 + (size - 1.0) * rho)
            };
            let of = |j: usize| if s >> j & 1 == 1 { x[j] } else { other };
            0.2 + (0..d).map(|j| coefficients[j] * of(j)).sum::<f64>()
        };
        let values: Vec<f64> = (0..=all(d)).map(value).collect();
        for (a, b) in truth.row(i).iter().zip(shapley(&values, d)) {
            assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
    }
}

#[test]
fn sixteen_features_are_counted_through() {
    let d = 16;
    let data = Recipe {
        train: 120,
        test: 2,
        ..Recipe::gaussian(LabelFunction::NonlinearAdditive, d, 0.3, 1).unwrap()
    }
    .make();
    let mlp = crate::attribute::models::MlpSettings {
        hidden: vec![6],
        epochs: 3,
        ..Default::default()
    };
    let network = mlp.train(&data.train.x, &data.train.y, Link::Identity, 0).0;
    let tree = Kind::Tree.train(&data.train, data.labels.task, 0);
    let background = data.train.x.head(20);
    for model in [Model::Mlp(network), tree] {
        let x = data.test.x.row(0);
        let shares = shapley_of_background(&model, x, &background);
        let base = model.predict(&background).iter().sum::<f64>() / 20.0;
        let change = model.predict_one(x) - base;
        assert!((shares.iter().sum::<f64>() - change).abs() < 1e-9);
    }
}
