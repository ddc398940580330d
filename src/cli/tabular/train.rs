//! `foil tabular train`.

use std::path::PathBuf;

use clap::Args;

use super::files::DataArgs;
use crate::cli::progress::Bar;
use crate::cli::{UsageError, print, say};
use crate::tabular::{FitSettings, Grid};

#[derive(Args)]
pub struct TrainArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Where to write the network
    #[arg(long, value_name = "FILE", required_unless_present = "print_schema")]
    out: Option<PathBuf>,
    /// Try the benchmark's 45 settings and keep the one with the best validation AUC
    #[arg(long, conflicts_with_all = ["hidden", "epochs", "learning_rate"])]
    grid: bool,
    /// Hidden values (default: one more than encoded columns)
    #[arg(long, value_name = "N")]
    hidden: Option<usize>,
    /// Passes over the training rows
    #[arg(long, value_name = "N", default_value_t = 100)]
    epochs: usize,
    /// Rate of RMSprop
    #[arg(long, value_name = "X", default_value_t = 0.001)]
    learning_rate: f32,
    /// First weights and order of rows
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print the schema, guessed or read, and stop
    #[arg(long)]
    print_schema: bool,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    if args.print_schema {
        let schema = args.data.read_schema(true)?;
        return print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&schema.to_json())?
        ));
    }
    let Some(out) = &args.out else {
        return Err(UsageError("--out is needed".into()).into());
    };
    if args.hidden == Some(0)
        || args.epochs == 0
        || args.learning_rate.is_nan()
        || args.learning_rate <= 0.0
    {
        return Err(
            UsageError("--hidden, --epochs and --learning-rate must be above 0".into()).into(),
        );
    }
    let prepared = args.data.prepare(args.quiet)?;
    let rows = |part: &[usize]| -> Vec<Vec<f64>> {
        part.iter().map(|&r| prepared.rows[r].clone()).collect()
    };
    let labels =
        |part: &[usize]| -> Vec<usize> { part.iter().map(|&r| prepared.table.label(r)).collect() };
    let (validation, of_train) = (
        rows(&prepared.split.validation),
        labels(&prepared.split.train),
    );
    let of_validation = labels(&prepared.split.validation);
    let grid = Grid {
        train: &prepared.train,
        train_labels: &of_train,
        validation: &validation,
        validation_labels: &of_validation,
    };
    let fit = if args.grid {
        let all = grid.settings(args.seed);
        let bar = std::sync::Mutex::new(Bar::new(args.quiet));
        let shown = |done: usize| {
            if let Ok(mut bar) = bar.lock() {
                bar.update("settings", done, all.len());
            }
        };
        let found = grid.search(&all, &shown);
        if let Ok(mut bar) = bar.lock() {
            bar.finish();
        }
        match found {
            Some((fit, _)) => fit,
            None => anyhow::bail!("no setting could be trained"),
        }
    } else {
        grid.fit(FitSettings {
            learning_rate: args.learning_rate,
            epochs: args.epochs,
            hidden: args.hidden.unwrap_or(prepared.encoding.width() + 1),
            seed: args.seed,
        })
    };
    fit.network.write(out)?;
    let auc = |part: &[usize]| prepared.auc(&fit.network, part);
    if !args.quiet {
        let classes = &prepared.table.classes;
        say(&format!(
            "class 1 is {:?}, class 0 is all others",
            classes[prepared.table.majority]
        ));
    }
    print(&format!(
        "{}: {} inputs, {} hidden values, {} epochs, rate {}\nAUC train {:.4}, validation {:.4}, test {:.4}\n",
        out.display(),
        fit.network.inputs(),
        fit.settings.hidden,
        fit.settings.epochs,
        fit.settings.learning_rate,
        auc(&prepared.split.train),
        auc(&prepared.split.validation),
        auc(&prepared.split.test)
    ))
}
