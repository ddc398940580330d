//! `foil attribution explain`.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};

use super::usage;
use crate::attribute::explainers::{Approach, KernelShap, Lime, Method, Shap, Shapr};
use crate::attribute::{Rows, Variant, data, models};
use crate::cli::{UsageError, print, say};

#[derive(Args)]
pub struct ExplainArgs {
    /// A folder of `foil attribution data`
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// A model: a file of `foil attribution train`, other .safetensors of that layout, or .onnx
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// random, shap, kernel-shap, bf-shap, shapr, lime, maple, l2x or breakdown
    #[arg(long, value_name = "M")]
    method: String,
    /// Explain the first N rows (default: all)
    #[arg(long, value_name = "N")]
    points: Option<usize>,
    /// Which rows: test, or train (ROAR needs both)
    #[arg(long, value_enum, default_value_t = On::Test)]
    on: On,
    /// as-released repeats the faults of the benchmark's code
    #[arg(long, value_enum, default_value_t = Variant::Correct)]
    variant: Variant,
    /// How shapr estimates conditionals (default: empirical; as-released with --variant as-released)
    #[arg(long, value_enum)]
    approach: Option<Approach>,
    /// Rows of background (shap: 100 of the training rows; kernel-shap: the first 1000)
    #[arg(long, value_name = "N")]
    background: Option<usize>,
    /// Rows that lime draws for a point (5000), or subsets that kernel-shap looks at (2d + 2048)
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    /// Width of lime's kernel over the root of the number of features (0.5)
    #[arg(long, value_name = "W")]
    kernel_width: Option<f64>,
    /// Seed of what is random
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// CSV file for the weights, a row for each point
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// No words on standard error
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    Test,
    Train,
}

pub fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    let method: Method = args.method.parse().map_err(usage)?;
    let data = data::read(&args.data).map_err(usage)?;
    let model = models::read(&args.model).map_err(usage)?;
    let model = model.for_data(data.dimension()).map_err(usage)?;
    let rows = match args.on {
        On::Test => &data.test.x,
        On::Train => &data.train.x,
    };
    let points = match args.points {
        Some(n) if n == 0 || n > rows.len() => {
            let why = format!("--points: expected 1 to {}, found {n}", rows.len());
            return Err(UsageError(why).into());
        }
        Some(n) => rows.head(n),
        None => rows.clone(),
    };
    refuse_what_does_nothing(args, method)?;
    let started = Instant::now();
    let train = &data.train.x;
    let weights = match method {
        Method::Shap => {
            let shap = Shap {
                background: args.background.unwrap_or(Shap::default().background),
            };
            shap.explain(&model, train, &points, args.seed)
        }
        Method::KernelShap => {
            let usual = KernelShap::default();
            let background = args.background.unwrap_or(usual.background);
            let kernel = KernelShap {
                samples: args.samples,
                background,
            };
            kernel.explain(&model, train, &points, args.seed)
        }
        Method::Shapr => {
            let usual = Shapr::of(args.variant);
            let shapr = Shapr {
                approach: args.approach.unwrap_or(usual.approach),
                ..usual
            };
            shapr.explain(&model, train, &points, args.seed)
        }
        Method::Lime => {
            let usual = Lime::default();
            let lime = Lime {
                samples: args.samples.unwrap_or(usual.samples),
                relative_width: args.kernel_width.unwrap_or(usual.relative_width),
                ..usual
            };
            Ok(lime.explain(&model, train, &points, args.seed))
        }
        _ => method.explain(&model, train, &points, args.variant, args.seed),
    };
    let weights = weights.map_err(usage)?;
    let seconds = started.elapsed().as_secs_f64();
    let unwritable =
        |e: std::io::Error| anyhow::anyhow!("{}: cannot write: {e}", args.out.display());
    if let Some(folder) = args.out.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(unwritable)?;
    }
    std::fs::write(&args.out, csv(&weights)).map_err(unwritable)?;
    if !args.quiet {
        say(&format!(
            "{} points by {} in {seconds:.3} s ({:.2e} s each)",
            points.len(),
            method.name(),
            seconds / points.len() as f64
        ));
    }
    print(&format!(
        "{}: weights of {} points\n",
        args.out.display(),
        points.len()
    ))
}

fn refuse_what_does_nothing(args: &ExplainArgs, method: Method) -> anyhow::Result<()> {
    let wrong = |option: &str, of: &str| {
        Err(UsageError(format!(
            "{option} is for --method {of}, not {}",
            method.name()
        ))
        .into())
    };
    if args.approach.is_some() && method != Method::Shapr {
        return wrong("--approach", "shapr");
    }
    if args.background.is_some() && !matches!(method, Method::Shap | Method::KernelShap) {
        return wrong("--background", "shap or kernel-shap");
    }
    if args.samples.is_some() && !matches!(method, Method::Lime | Method::KernelShap) {
        return wrong("--samples", "lime or kernel-shap");
    }
    if args.kernel_width.is_some() && method != Method::Lime {
        return wrong("--kernel-width", "lime");
    }
    if method == Method::Lime && args.samples.is_some_and(|n| n < 2) {
        return Err(UsageError("--samples: expected at least 2".into()).into());
    }
    let positive = args.kernel_width.is_none_or(|w| w > 0.0) && args.background != Some(0);
    match positive {
        true => Ok(()),
        false => {
            Err(UsageError("--kernel-width and --background: expected more than 0".into()).into())
        }
    }
}

fn csv(weights: &Rows) -> String {
    let names: Vec<String> = (0..weights.columns).map(|j| format!("w{j}")).collect();
    let mut text = names.join(",");
    text.push('\n');
    for row in weights.iter() {
        let fields: Vec<String> = row.iter().map(f64::to_string).collect();
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}
