//! `foil tabular score`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::files::{DataArgs, Model, factuals, read_counterfactuals};
use crate::cli::{print, say};
use crate::metrics::tabular::{Edition, Judged, Scorer};
use crate::report::aligned::Aligned;
use crate::study::tabular::{ResultRow, Results};
use crate::tabular::Network;

#[derive(Args)]
pub struct ScoreArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The model: a network (.safetensors), any model (.onnx) or a table of answers (.csv)
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The rows that were explained: a CSV with the same features
    #[arg(long, value_name = "FILE", conflicts_with = "select")]
    factuals: Option<PathBuf>,
    /// The rows that were explained: the benchmark's choice of at most N of each class
    #[arg(long, value_name = "N", default_value_t = 100)]
    select: usize,
    /// What `foil tabular explain` wrote, or any CSV with the features and a column `factual`; the first of a factual counts
    #[arg(long, value_name = "FILE")]
    counterfactuals: PathBuf,
    /// Formulas: paper, v1 (as published) or v2
    #[arg(long, value_enum, default_value_t = EditionArg::Paper)]
    edition: EditionArg,
    /// Name of the data set and of the method in the results
    #[arg(long, value_name = "DATASET/METHOD", default_value = "data/method")]
    name: String,
    /// Where to write the results, for `foil tabular rank`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Nothing on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// The edition on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub enum EditionArg {
    Paper,
    V1,
    V2,
}

impl EditionArg {
    pub fn edition(self) -> Edition {
        match self {
            EditionArg::Paper => Edition::Paper,
            EditionArg::V1 => Edition::V1,
            EditionArg::V2 => Edition::V2,
        }
    }
}

pub fn run(args: &ScoreArgs) -> anyhow::Result<()> {
    let prepared = args.data.prepare(args.quiet)?;
    let model = Model::open(&args.model, &prepared)?;
    let predictor = model.predictor();
    let chosen = factuals(args.factuals.as_deref(), args.select, &prepared, predictor)?;
    let given = read_counterfactuals(&args.counterfactuals, &prepared.encoding)?;
    let mut first: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (factual, vector) in given {
        if !chosen.iter().any(|(name, _)| *name == factual) {
            anyhow::bail!(
                "{}: there is no factual {factual}; give the --factuals or --select that the counterfactuals were made of",
                args.counterfactuals.display()
            );
        }
        first.entry(factual).or_insert(vector);
    }
    let rules = prepared.table.schema.rules.clone();
    let scorer = Scorer::new(&prepared.encoding, &prepared.rows, &prepared.train, rules)?;
    if scorer.mahalanobis().is_singular() && !args.quiet {
        say(&format!(
            "the covariance has rank {} of {}: MD is by its pseudo-inverse",
            scorer.mahalanobis().rank,
            prepared.encoding.width()
        ));
    }
    let edition = args.edition.edition();
    let labels = prepared.table.labels();
    let ones = labels.iter().sum::<usize>() as f64 / labels.len() as f64;
    let rows: Vec<ResultRow> = chosen
        .iter()
        .map(|(name, factual)| {
            let class = predictor.class(factual);
            let vector = first.get(name).map(Vec::as_slice);
            let judged = Judged {
                factual,
                class,
                counterfactual: vector,
                probability: vector.map_or(f64::NAN, |x| predictor.probability(x, 1)),
            };
            let scores = scorer.score(&judged, edition);
            ResultRow {
                row: *name,
                class,
                misclassified: args.factuals.is_none() && labels[*name] != class,
                prediction: predictor.probability(factual, class),
                share: if class == 1 { ones } else { 1.0 - ones },
                returned: vector.is_some(),
                coverage: scores.validity,
                ruc: scores.ruc,
                rmc: scores.rmc,
                sparsity: scores.sparsity,
                l2: scores.l2,
                madd: scores.madd,
                md: scores.md,
                seconds: 0.0,
                out_of_time: false,
                proven: None,
            }
        })
        .collect();
    let (dataset, method) = args.name.split_once('/').unwrap_or((&args.name, "method"));
    let numerical = prepared.encoding.numerical().len();
    let results = Results {
        schema: Results::schema(),
        version: env!("CARGO_PKG_VERSION").into(),
        dataset: dataset.into(),
        kinds: prepared.encoding.kinds().word().into(),
        method: method.into(),
        variant: "correct".into(),
        edition: edition.name().into(),
        seed: 0,
        budget: None,
        made_from: String::new(),
        neurons: predictor.network().map_or(0, Network::hidden),
        auc_test: prepared.auc(predictor, &prepared.split.test),
        rows_train: prepared.train.len(),
        columns_numerical: numerical,
        columns_categorical: prepared.encoding.width() - numerical,
        rows,
    };
    if let Some(out) = &args.out {
        results.write(out)?;
    }
    if args.json {
        return print(&format!("{}\n", serde_json::to_string_pretty(&results)?));
    }
    print(&shown(&results))
}

/// Shares over all factuals; means over those that are covered.
fn shown(results: &Results) -> String {
    let mean = |of: fn(&ResultRow) -> Option<f64>| {
        let values: Vec<f64> = results.rows.iter().filter_map(of).collect();
        match values.is_empty() {
            true => "-".to_string(),
            false => format!("{:.4}", values.iter().sum::<f64>() / values.len() as f64),
        }
    };
    let mut table = Aligned::new(&["metric", "value", "what"]);
    let mut row = |a: &str, b: String, c: &str| table.row(&[a.into(), b, c.into()]);
    row(
        "coverage",
        format!("{:.4}", results.coverage()),
        "share of factuals whose class changes",
    );
    row(
        "realistic",
        format!("{:.4}", results.realistic()),
        "the same, with RUC and RMC",
    );
    row(
        "RUC",
        format!("{:.4}", results.share(|r| r.ruc)),
        "every column is realistic",
    );
    row(
        "RMC",
        format!("{:.4}", results.share(|r| r.rmc)),
        "columns are realistic together",
    );
    row(
        "sparsity",
        mean(|r| r.sparsity),
        "share that stays as it is (covered ones only, as below)",
    );
    row("L2", mean(|r| r.l2), "Euclidean distance, encoded");
    row(
        "MADD",
        mean(|r| r.madd),
        "distance over the median absolute deviation",
    );
    row("MD", mean(|r| r.md), "Mahalanobis distance");
    format!(
        "{} factuals, edition {}\n{table}",
        results.rows.len(),
        results.edition
    )
}
