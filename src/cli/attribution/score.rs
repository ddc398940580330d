//! `foil attribution score`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::usage;
use crate::attribute::metrics::{Conditional, Estimate, Metric, Scoring, Settings};
use crate::attribute::models::{Kind, Model};
use crate::attribute::{AttributionError, Rows, Variant, data, models};
use crate::cli::{UsageError, print};

#[derive(Args)]
pub struct ScoreArgs {
    /// A folder of `foil attribution data`
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The model that was explained
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Weights of the first test rows (CSV; a line of names may come first)
    #[arg(long, value_name = "FILE")]
    weights: PathBuf,
    /// Weights of all training rows, for ROAR (then --weights has all test rows)
    #[arg(long, value_name = "FILE")]
    train_weights: Option<PathBuf>,
    /// Which of faithfulness, monotonicity, roar, gt-shapley, infidelity, roar-faithfulness, roar-monotonicity (default: the first five; roar ones only
    /// with --train-weights)
    #[arg(long, value_name = "M,M,…", value_delimiter = ',')]
    metrics: Vec<String>,
    /// What is assumed of unknown features; see `foil attribution metrics --why`
    #[arg(long, value_enum, default_value_t = Conditional::Observational)]
    conditional: Conditional,
    /// as-released repeats the faults of the benchmark's code
    #[arg(long, value_enum, default_value_t = Variant::Correct)]
    variant: Variant,
    /// Draws of each expectation to begin with, where there is no formula
    #[arg(long, default_value_t = 1000)]
    draws: usize,
    /// Draws are doubled until a value's Monte-Carlo error is at most this
    #[arg(long, value_name = "E", default_value_t = 0.005)]
    standard_error: f64,
    /// No more draws than this (default: 64000, or --draws if that is more)
    #[arg(long, value_name = "N")]
    most_draws: Option<usize>,
    /// Seed of draws and trainings
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ScoreArgs) -> anyhow::Result<()> {
    let mut metrics = Vec::new();
    for name in &args.metrics {
        metrics.push(name.parse::<Metric>().map_err(usage)?);
    }
    if metrics.is_empty() {
        let can = |m: &Metric| args.train_weights.is_some() || !m.retrains();
        metrics = Metric::TABLE.into_iter().filter(can).collect();
    }
    if let Some(metric) = metrics
        .iter()
        .find(|m| m.retrains() && args.train_weights.is_none())
    {
        let why = format!(
            "{} needs --train-weights: explain the training rows with `foil attribution explain --on train`",
            metric.name()
        );
        return Err(UsageError(why).into());
    }
    let usual = Settings::default().most_draws.max(args.draws);
    let most_draws = args.most_draws.unwrap_or(usual);
    refuse_what_cannot_be(args, most_draws)?;
    let data = data::read(&args.data).map_err(usage)?;
    let model = models::read(&args.model).map_err(usage)?;
    let model = model.for_data(data.dimension()).map_err(usage)?;
    let weights = read_weights(&args.weights)?;
    let train_weights = args
        .train_weights
        .as_deref()
        .map(read_weights)
        .transpose()?;
    let n = weights.len();
    if n > data.test.x.len() {
        let what = args.weights.display().to_string();
        let expected = format!("at most {} rows, as there are test rows", data.test.x.len());
        return Err(AttributionError::Mismatch {
            what,
            expected,
            found: n.to_string(),
            hint: String::new(),
        }
        .into());
    }
    let points = data.test.x.head(n);
    let settings = Settings {
        variant: args.variant,
        conditional: args.conditional,
        draws: args.draws,
        standard_error: args.standard_error,
        most_draws,
        seed: args.seed,
    };
    let scoring = Scoring {
        data: &data,
        model: &model,
        points: &points,
        settings,
    };
    let mut found: Vec<Scored> = Vec::new();
    for metric in metrics {
        let started = Instant::now();
        let estimate = match (&train_weights, metric.retrains()) {
            (Some(rest), true) => scoring.score_retrained(metric, kind_of(&model)?, &weights, rest),
            _ => scoring.score(metric, &weights),
        };
        found.push(Scored {
            metric,
            estimate: estimate.map_err(usage)?,
            seconds: started.elapsed().as_secs_f64(),
        });
    }
    match args.json {
        true => print(&as_json(args, n, &found)?),
        false => print(&as_text(args, n, &found)),
    }
}

/// Days of work: a slip of the keyboard.
const MOST_DRAWS: usize = 100_000_000;

fn refuse_what_cannot_be(args: &ScoreArgs, most_draws: usize) -> anyhow::Result<()> {
    let wrong = |why: String| Err(UsageError(why).into());
    if args.draws < 10 || most_draws < args.draws || most_draws > MOST_DRAWS {
        return wrong(format!(
            "expected --draws of at least 10 and --most-draws between it and {MOST_DRAWS}, found {} and {most_draws}",
            args.draws
        ));
    }
    match args.standard_error > 0.0 {
        true => Ok(()),
        false => wrong(format!(
            "--standard-error: expected more than 0, found {}",
            args.standard_error
        )),
    }
}

/// A metric's value, and how long it took.
struct Scored {
    metric: Metric,
    estimate: Estimate,
    seconds: f64,
}

/// What is trained again is a model of the same kind.
fn kind_of(model: &Model) -> anyhow::Result<Kind> {
    match model {
        Model::Linear(_) => Ok(Kind::Linear),
        Model::Tree(_) => Ok(Kind::Tree),
        Model::Mlp(_) => Ok(Kind::Mlp),
        Model::Forest(_) => {
            let why = "roar trains a linear model, a tree or an mlp again; an ensemble of trees it cannot";
            Err(UsageError(why.into()).into())
        }
    }
}

fn read_weights(path: &Path) -> anyhow::Result<Rows> {
    let fail = |line: usize, why: String| anyhow::anyhow!("{}, line {line}: {why}", path.display());
    let text = std::fs::read_to_string(path)
        .map_err(|e| anyhow::anyhow!("{}: cannot read: {e}", path.display()))?;
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, l)| !l.trim().is_empty());
    let (mut columns, mut values) = (None, Vec::new());
    for (line, row) in lines {
        let fields = row.split(',').count();
        let named = row.split(',').all(|f| f.trim().parse::<f64>().is_err());
        if columns.is_none() && named {
            columns = Some(fields);
            continue;
        }
        let columns = *columns.get_or_insert(fields);
        let before = values.len();
        for field in row.split(',') {
            let number = field.trim().parse::<f64>().ok().filter(|v| v.is_finite());
            values.push(number.ok_or_else(|| {
                fail(
                    line + 1,
                    format!("expected a finite number, found {field:?}"),
                )
            })?);
        }
        if values.len() - before != columns {
            let why = format!(
                "expected {columns} weights, found {}",
                values.len() - before
            );
            return Err(fail(line + 1, why));
        }
    }
    if values.is_empty() {
        anyhow::bail!(
            "{}: expected a row of weights for each point (a line of names may come first), found none",
            path.display()
        );
    }
    Ok(Rows::new(values, columns.unwrap_or(1)))
}

fn as_text(args: &ScoreArgs, points: usize, found: &[Scored]) -> String {
    let mut text = format!(
        "{points} points, {} conditional, {}\n",
        args.conditional.name(),
        args.variant.name()
    );
    for Scored {
        metric,
        estimate: e,
        ..
    } in found
    {
        let arrow = if metric.lower_is_better() {
            "↓"
        } else {
            "↑"
        };
        let how = match (metric.retrains(), e.draws) {
            (true, _) => "retrained".to_owned(),
            (_, 0) => "exact".to_owned(),
            (_, n) => format!("± {:.4} from {n} draws", e.standard_error),
        };
        text.push_str(&format!(
            "{:<19} {:>8.4}  {how}\n",
            format!("{} {arrow}", metric.name()),
            e.value
        ));
    }
    text
}

fn as_json(args: &ScoreArgs, points: usize, found: &[Scored]) -> anyhow::Result<String> {
    let scores: serde_json::Map<String, serde_json::Value> = found
        .iter()
        .map(|scored| {
            let mut value = serde_json::to_value(scored.estimate)?;
            value["seconds"] = json!(scored.seconds);
            Ok((scored.metric.name().to_owned(), value))
        })
        .collect::<anyhow::Result<_>>()?;
    let document = json!({
        "schema": "foil.attribution.scores/1",
        "version": env!("CARGO_PKG_VERSION"),
        "points": points,
        "conditional": args.conditional,
        "variant": args.variant,
        "seed": args.seed,
        "scores": scores,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}
