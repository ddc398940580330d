//! `foil attribution data`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::usage;
use crate::attribute::Variant;
use crate::attribute::data::{
    Component, Dataset, Features, LabelFunction, Labels, Multinomial, Normal, Recipe, Table, Task,
    write,
};
use crate::cli::{UsageError, print};

#[derive(Args)]
pub struct DataArgs {
    /// How features are distributed
    #[arg(long, value_enum, default_value_t = Family::Gaussian, conflicts_with = "like")]
    features: Family,
    /// What labels are made of: linear, piecewise-constant, nonlinear-additive or piecewise-linear
    #[arg(
        long,
        value_name = "L",
        default_value = "nonlinear-additive",
        conflicts_with = "like"
    )]
    labels: String,
    /// Correlation between any two features (gaussian, mixture)
    #[arg(long, default_value_t = 0.5, allow_hyphen_values = true, conflicts_with_all = ["like", "covariance"])]
    rho: f64,
    /// Number of features
    #[arg(long, default_value_t = 5, conflicts_with = "like")]
    dim: usize,
    /// Training rows (default 1000; with --like as many as the table has)
    #[arg(long, value_name = "N")]
    n: Option<usize>,
    /// Test rows (default 100; with --like a tenth of the training rows)
    #[arg(long, value_name = "N")]
    test: Option<usize>,
    /// Means, one for each feature (gaussian; default 0)
    #[arg(
        long,
        value_name = "M,M,…",
        value_delimiter = ',',
        allow_hyphen_values = true,
        conflicts_with = "like"
    )]
    mean: Vec<f64>,
    /// A CSV file of the covariance, a row for each feature (gaussian; instead of --rho)
    #[arg(long, value_name = "FILE", conflicts_with = "like")]
    covariance: Option<PathBuf>,
    /// Trials of multinomial features
    #[arg(long, default_value_t = 20)]
    trials: usize,
    /// Probabilities of multinomial features, one for each (default: all the same)
    #[arg(long, value_name = "P,P,…", value_delimiter = ',')]
    probabilities: Vec<f64>,
    /// Weights of linear labels (default D-1,…,1,0)
    #[arg(
        long,
        value_name = "W,W,…",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    weights: Vec<f64>,
    /// Standard deviation of the noise on labels, before they are normalised
    #[arg(long, default_value_t = 0.01)]
    noise: f64,
    /// Regression, or two classes
    #[arg(long, value_enum, default_value_t = TaskArg::Regression)]
    task: TaskArg,
    /// as-released: training and test labels each normalised by themselves, a branch that is never reached, one mixture component for all rows
    #[arg(long, value_enum, default_value_t = Variant::Correct)]
    variant: Variant,
    /// Make a synthetic twin of this CSV table: a Gaussian of its correlations, labelled by the nearest real row
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    /// The label's column of --like (default: the last)
    #[arg(long, value_name = "NAME", requires = "like")]
    target: Option<String>,
    /// Seed of all draws
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Folder for dataset.json, train.csv and test.csv
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Family {
    Gaussian,
    /// Two Gaussians with means +1 and -1
    Mixture,
    Multinomial,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TaskArg {
    Regression,
    Classification,
}

pub fn run(args: &DataArgs) -> anyhow::Result<()> {
    if args.n == Some(0) || args.test == Some(0) || args.noise < 0.0 {
        let why = "--n and --test: expected at least 1 row; --noise: expected 0 or more";
        return Err(UsageError(why.into()).into());
    }
    if args.out.join("dataset.json").exists() {
        let why = format!(
            "{} holds a data set: name another --out",
            args.out.display()
        );
        return Err(UsageError(why).into());
    }
    if let Some(like) = &args.like {
        return twin(args, like);
    }
    let features = features(args)?;
    let d = features.dimension();
    let task = match args.task {
        TaskArg::Regression => Task::Regression,
        TaskArg::Classification => Task::Classification,
    };
    let function: LabelFunction = args.labels.parse().map_err(usage)?;
    if args.features == Family::Multinomial && function != LabelFunction::Linear {
        let why =
            "--labels with --features multinomial: expected linear, which counts are made for";
        return Err(UsageError(why.into()).into());
    }
    let mut labels = Labels::new(function, d, task, args.variant).map_err(usage)?;
    if !args.weights.is_empty() {
        expect_length("--weights", &args.weights, d)?;
        labels.weights.clone_from(&args.weights);
    }
    let recipe = Recipe {
        features,
        labels,
        noise: args.noise,
        train: args.n.unwrap_or(1000),
        test: args.test.unwrap_or(100),
        seed: args.seed,
    };
    let made = recipe.make();
    write(&made, &args.out).map_err(usage)?;
    print(&described(&made, &args.out))
}

fn described(data: &Dataset, out: &Path) -> String {
    format!(
        "{}: {} training and {} test rows of {} {} features, {} labels\n",
        out.display(),
        data.train.x.len(),
        data.test.x.len(),
        data.dimension(),
        data.features.family(),
        data.labels.function.name()
    )
}

fn expect_length(option: &str, values: &[f64], d: usize) -> anyhow::Result<()> {
    match values.len() == d {
        true => Ok(()),
        false => {
            let found = values.len();
            let why =
                format!("{option}: expected {d} numbers, one for each feature, found {found}");
            Err(UsageError(why).into())
        }
    }
}

fn features(args: &DataArgs) -> anyhow::Result<Features> {
    let d = args.dim;
    let mean = match args.mean.is_empty() {
        true => vec![0.0; d],
        false => args.mean.clone(),
    };
    expect_length("--mean", &mean, d)?;
    if args.features != Family::Gaussian && (!args.mean.is_empty() || args.covariance.is_some()) {
        let why = "--mean and --covariance are for --features gaussian";
        return Err(UsageError(why.into()).into());
    }
    let covariance: Vec<f64> = match &args.covariance {
        Some(path) => square(path, d)?,
        None => (0..d * d)
            .map(|i| if i % (d + 1) == 0 { 1.0 } else { args.rho })
            .collect(),
    };
    match args.features {
        Family::Gaussian => {
            let normal = Normal::gaussian(mean, covariance).map_err(usage)?;
            Ok(Features::Normal(normal))
        }
        Family::Mixture => {
            let component = |mean: f64| Component {
                weight: 1.0,
                mean: vec![mean; d],
                covariance: covariance.clone(),
            };
            let parts = vec![component(1.0), component(-1.0)];
            Ok(Features::Normal(Normal::mixture(parts).map_err(usage)?))
        }
        Family::Multinomial => {
            let shares = match args.probabilities.is_empty() {
                true => vec![1.0 / d as f64; d],
                false => args.probabilities.clone(),
            };
            expect_length("--probabilities", &shares, d)?;
            let made = Multinomial::new(args.trials, shares).map_err(usage)?;
            Ok(Features::Multinomial(made))
        }
    }
}

fn square(path: &Path, d: usize) -> anyhow::Result<Vec<f64>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut values = Vec::new();
    for (line, row) in text.lines().filter(|l| !l.trim().is_empty()).enumerate() {
        let fields: Vec<&str> = row.split(',').map(str::trim).collect();
        if fields.len() != d {
            let why = format!(
                "{}, line {}: expected {d} numbers (--dim {d}), found {}",
                path.display(),
                line + 1,
                fields.len()
            );
            return Err(UsageError(why).into());
        }
        for field in fields {
            values.push(field.parse::<f64>().map_err(|_| {
                let why = format!(
                    "{}, line {}: expected a number, found {field:?}",
                    path.display(),
                    line + 1
                );
                UsageError(why)
            })?);
        }
    }
    if values.len() != d * d {
        let why = format!(
            "{}: expected {d} rows, found {}",
            path.display(),
            values.len() / d
        );
        return Err(UsageError(why).into());
    }
    Ok(values)
}

fn twin(args: &DataArgs, like: &Path) -> anyhow::Result<()> {
    let table = Table::read(like, args.target.as_deref()).map_err(usage)?;
    let (made, report) = table.twin(args.n, args.test, args.seed).map_err(usage)?;
    write(&made, &args.out).map_err(usage)?;
    let mut text = described(&made, &args.out);
    text.push_str("Jensen-Shannon distance of each feature's histogram from the table's:\n");
    for (name, distance) in &report.features {
        text.push_str(&format!("  {distance:.4}  {name}\n"));
    }
    text.push_str(&format!(
        "  {:.4}  mean of the features\n  {:.4}  labels\n",
        report.mean, report.target
    ));
    print(&text)
}
