//! `foil attribution train`.

use std::path::PathBuf;

use clap::Args;

use super::usage;
use crate::attribute::data::{Task, read};
use crate::attribute::models::{Kind, Link, MlpSettings, Model, train, write};
use crate::cli::{UsageError, print};

#[derive(Args)]
pub struct TrainArgs {
    /// A folder of `foil attribution data`
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// linear, tree (fully grown) or mlp (scikit-learn's defaults)
    #[arg(long, value_name = "M")]
    model: String,
    /// Units of each hidden layer of an mlp
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        default_value = "100"
    )]
    hidden: Vec<usize>,
    /// Seed of first weights and orders
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// File for the model (.safetensors)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let kind: Kind = args.model.parse().map_err(usage)?;
    if args.hidden.is_empty() || args.hidden.contains(&0) {
        let why = "--hidden: expected at least one unit in each layer";
        return Err(UsageError(why.into()).into());
    }
    let data = read(&args.data).map_err(usage)?;
    let model = match kind {
        Kind::Mlp => {
            let link = match data.labels.task {
                Task::Regression => Link::Identity,
                Task::Classification => Link::Logistic,
            };
            let settings = MlpSettings {
                hidden: args.hidden.clone(),
                ..MlpSettings::default()
            };
            Model::Mlp(
                settings
                    .train(&data.train.x, &data.train.y, link, args.seed)
                    .0,
            )
        }
        _ => train(kind, &data, args.seed),
    };
    write(&model, &args.out).map_err(usage)?;
    print(&format!(
        "{}: {}, mean squared error {:.4} on training rows, {:.4} on test rows\n",
        args.out.display(),
        kind.name(),
        model.squared_error(&data.train),
        model.squared_error(&data.test)
    ))
}
