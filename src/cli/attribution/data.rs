//! `foil attribution data`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::usage;
use crate::attribute::Variant;
use crate::attribute::data::{
    Categories, Component, Dataset, Features, LabelFunction, Labels, Multinomial, Normal, Reading,
    Recipe, Table, Task, write,
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
    /// Correlation between any two features (gaussian, mixture; default 0.5)
    #[arg(long, allow_hyphen_values = true, conflicts_with_all = ["like", "covariance"])]
    rho: Option<f64>,
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
    /// Trials of multinomial features (default 20)
    #[arg(long, value_name = "N", conflicts_with = "like")]
    trials: Option<usize>,
    /// Probabilities of multinomial features, one for each (default: all the same)
    #[arg(
        long,
        value_name = "P,P,…",
        value_delimiter = ',',
        conflicts_with = "like"
    )]
    probabilities: Vec<f64>,
    /// Weights of linear labels (default D-1,…,1,0)
    #[arg(
        long,
        value_name = "W,W,…",
        value_delimiter = ',',
        allow_hyphen_values = true,
        conflicts_with = "like"
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
    /// Columns of --like that are left out
    #[arg(
        long,
        value_name = "NAME,NAME,…",
        value_delimiter = ',',
        requires = "like"
    )]
    without: Vec<String>,
    /// A column of texts of --like and its categories, which become 0, 1, … (again for other columns)
    #[arg(long, value_name = "NAME=TEXT,TEXT,…", value_parser = categories, requires = "like")]
    categories: Vec<Categories>,
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

fn categories(text: &str) -> Result<Categories, String> {
    let (column, names) = text
        .split_once('=')
        .ok_or("expected a column's name, = and its categories with commas between them")?;
    let names: Vec<String> = names.split(',').map(|n| n.trim().to_owned()).collect();
    let twice = (1..names.len()).find(|&i| names[..i].contains(&names[i]));
    match twice {
        Some(i) => Err(format!("category {:?} stands there twice", names[i])),
        None => Ok(Categories {
            column: column.trim().to_owned(),
            names,
        }),
    }
}

pub fn run(args: &DataArgs) -> anyhow::Result<()> {
    let sensible = args.noise >= 0.0 && args.noise.is_finite();
    if args.n == Some(0) || args.test == Some(0) || !sensible {
        let why = "--n and --test: expected at least 1 row; --noise: expected 0 or more";
        return Err(UsageError(why.into()).into());
    }
    refuse_what_does_nothing(args)?;
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
    refuse_no_numbers(&made)?;
    write(&made, &args.out).map_err(usage)?;
    print(&described(&made, &args.out))
}

/// An option that the family or the labels do not take.
fn refuse_what_does_nothing(args: &DataArgs) -> anyhow::Result<()> {
    let wrong = |why: &str| Err(UsageError(why.into()).into());
    let gaussian = args.features == Family::Gaussian;
    if !gaussian && (!args.mean.is_empty() || args.covariance.is_some()) {
        return wrong("--mean and --covariance are for --features gaussian");
    }
    let counts = args.features == Family::Multinomial;
    if !counts && (args.trials.is_some() || !args.probabilities.is_empty()) {
        return wrong("--trials and --probabilities are for --features multinomial");
    }
    if counts && args.rho.is_some() {
        return wrong(
            "--rho is for --features gaussian or mixture: counts that add up have correlations of their own",
        );
    }
    if !args.weights.is_empty() && args.labels != "linear" {
        return wrong("--weights is for --labels linear");
    }
    match args.weights.iter().all(|w| w.is_finite()) {
        true => Ok(()),
        false => wrong("--weights: expected finite numbers"),
    }
}

/// Labels that are no numbers: the released code divides by a spread of zero.
fn refuse_no_numbers(data: &Dataset) -> anyhow::Result<()> {
    for (option, part) in [("--n", &data.train), ("--test", &data.test)] {
        if part.y.iter().any(|y| !y.is_finite()) {
            let rows = part.y.len();
            let why = format!(
                "{option} {rows} with --variant as-released: its labels are all the same, and it divides by their standard deviation; take more rows or --variant correct"
            );
            return Err(UsageError(why).into());
        }
    }
    Ok(())
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
    let rho = args.rho.unwrap_or(0.5);
    let covariance: Vec<f64> = match &args.covariance {
        Some(path) => square(path, d)?,
        None => (0..d * d)
            .map(|i| if i % (d + 1) == 0 { 1.0 } else { rho })
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
            let made = Multinomial::new(args.trials.unwrap_or(20), shares).map_err(usage)?;
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
    let reading = Reading {
        without: args.without.clone(),
        categories: args.categories.clone(),
        hint: ": name a column's categories with --categories, or leave it out with --without",
    };
    let table = Table::read(like, args.target.as_deref(), &reading).map_err(usage)?;
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
