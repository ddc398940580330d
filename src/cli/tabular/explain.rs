//! `foil tabular explain`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::files::{DataArgs, Model, factuals, write_counterfactuals};
use crate::cli::progress::Bar;
use crate::cli::{UsageError, print};
use crate::explain::tabular::{
    Batch, Ended, ExplainError, Limits, Method, Space, Variant, explain_all,
};

#[derive(Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The model: a network (.safetensors), any model (.onnx) or a table of answers (.csv)
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// cadex, cfproto, cfproto-nograd, dice, growing-spheres, lore, mace, ml-explain, sedc or synas
    #[arg(long, value_name = "NAME", value_parser = method)]
    method: Method,
    /// Rows to explain: a CSV with the same features
    #[arg(long, value_name = "FILE", conflicts_with = "select")]
    factuals: Option<PathBuf>,
    /// Rows to explain: at most N of each class that the model gives, chosen as in the benchmark
    #[arg(long, value_name = "N", default_value_t = 100)]
    select: usize,
    /// The class to reach (default: the other one of each row)
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    target: Option<u8>,
    /// Features that must stay as they are
    #[arg(long, value_name = "F,..", value_delimiter = ',')]
    immutable: Vec<String>,
    /// Range of a numerical feature, in its own units
    #[arg(long, value_name = "F=LO..HI", value_parser = range, allow_hyphen_values = true)]
    range: Vec<(String, [f64; 2])>,
    /// Weight of a feature's change (default 1)
    #[arg(long, value_name = "F=W", value_parser = weight)]
    weight: Vec<(String, f64)>,
    /// Time for each row, such as 10s or 500ms; the best so far counts
    #[arg(long, value_name = "T", value_parser = duration)]
    budget: Option<Duration>,
    /// How many counterfactuals of each row, where the method can
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    k: usize,
    /// Random numbers of methods that draw
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// correct: what the method's paper means; as-benchmarked: with the mistakes of the benchmark
    #[arg(long, value_enum, default_value_t = VariantArg::Correct)]
    variant: VariantArg,
    /// Where to write the counterfactuals
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// The variant on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub enum VariantArg {
    Correct,
    AsBenchmarked,
}

impl VariantArg {
    pub fn variant(self) -> Variant {
        match self {
            VariantArg::Correct => Variant::Correct,
            VariantArg::AsBenchmarked => Variant::AsBenchmarked,
        }
    }
}

/// A method by its name.
pub fn method(text: &str) -> Result<Method, String> {
    Method::named(text).ok_or_else(|| {
        let known = Method::ALL.map(Method::name).join(", ");
        format!("expected one of {known}")
    })
}

fn range(text: &str) -> Result<(String, [f64; 2]), String> {
    let parts = text.split_once('=').and_then(|(name, ends)| {
        let (low, high) = ends.split_once("..")?;
        Some((name.to_string(), [low.parse().ok()?, high.parse().ok()?]))
    });
    parts.ok_or_else(|| "expected FEATURE=LOW..HIGH, such as age=18..65".into())
}

fn weight(text: &str) -> Result<(String, f64), String> {
    let parts = text
        .split_once('=')
        .and_then(|(name, w)| Some((name.to_string(), w.parse().ok()?)));
    parts.ok_or_else(|| "expected FEATURE=WEIGHT, such as age=2.5".into())
}

/// `10s`, `500ms`, `2m` or a number of seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        _ => f64::NAN,
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * factor;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("expected a time above 0, such as 10s, 500ms or 2m".into()),
    }
}

/// Options that make no sense are wrong usage.
pub fn usage(error: ExplainError) -> anyhow::Error {
    match error {
        ExplainError::Option { .. } | ExplainError::NeedsNetwork { .. } => {
            UsageError(error.to_string()).into()
        }
        other => other.into(),
    }
}

pub fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    if args.k == 0 || args.select == 0 {
        return Err(UsageError("--k and --select must be above 0".into()).into());
    }
    let prepared = args.data.prepare(args.quiet)?;
    let model = Model::open(&args.model, &prepared)?;
    let limits = Limits {
        immutable: args.immutable.clone(),
        ranges: args.range.clone(),
        weights: args.weight.clone(),
    };
    let space = Space::new(&prepared.encoding, &prepared.train, &limits).map_err(usage)?;
    let predictor = model.predictor();
    let mut chosen = factuals(args.factuals.as_deref(), args.select, &prepared, predictor)?;
    let target = args.target.map(usize::from);
    if args.factuals.is_none()
        && let Some(target) = target
    {
        // Of the program's own choice only rows of the other class are meant.
        chosen.retain(|(_, x)| predictor.class(x) != target);
    }
    let rows: Vec<Vec<f64>> = chosen.iter().map(|(_, x)| x.clone()).collect();
    let batch = Batch {
        space: &space,
        predictor,
        method: args.method,
        variant: args.variant.variant(),
        k: args.k,
        seed: args.seed,
        budget: args.budget,
    };
    let bar = Mutex::new(Bar::new(args.quiet));
    let done = |n: usize| {
        if let Ok(mut bar) = bar.lock() {
            bar.update(args.method.name(), n, rows.len());
        }
    };
    let found = explain_all(&batch, &rows, target, &done).map_err(usage)?;
    if let Ok(mut bar) = bar.lock() {
        bar.finish();
    }
    let mut out = Vec::new();
    for ((name, _), (found, _)) in chosen.iter().zip(&found) {
        let each = found.counterfactuals.iter().enumerate();
        out.extend(each.map(|(i, x)| (*name, i, x.clone())));
    }
    let encoded = args.variant.variant() == Variant::AsBenchmarked;
    write_counterfactuals(&args.out, &prepared.encoding, &out, encoded)?;
    let n = found.len();
    let with = found
        .iter()
        .filter(|(f, _)| !f.counterfactuals.is_empty())
        .count();
    let late = found
        .iter()
        .filter(|(f, _)| f.ended == Ended::Budget)
        .count();
    let proven = found
        .iter()
        .filter(|(f, _)| f.proof.is_some_and(|p| p.optimal))
        .count();
    let seconds = found.iter().map(|(_, s)| s).sum::<f64>() / n.max(1) as f64;
    let mut text = format!(
        "{}: {} of {n} rows have a counterfactual ({} in all), {seconds:.6} s a row\n",
        args.out.display(),
        with,
        out.len()
    );
    if late > 0 {
        text.push_str(&format!(
            "{late} rows ran out of time; what they have is the best so far\n"
        ));
    }
    if args.method == Method::Mace {
        text.push_str(&format!(
            "{proven} of {n} are proven to be of the fewest changed features\n"
        ));
    }
    print(&text)
}
