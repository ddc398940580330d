//! `foil metric`: every metric on plain arrays, for pipelines in any language.

mod closeness;
mod realism;
mod selection;
mod validity;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use crate::metrics::lpips::LpipsNet;
use crate::score::{Protocol, Score};
use crate::tensor::TypedArrays;

/// Computes one metric on the arrays of a .safetensors file and prints JSON.
#[derive(Args)]
pub struct MetricArgs {
    #[command(subcommand)]
    metric: Metric,
}

/// Options that every metric takes.
#[derive(Args)]
pub struct Common {
    /// The arrays, .safetensors.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Print JSON (it is always printed; this is for symmetry with other commands).
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ProtocolArg {
    Exact,
    Published,
}

impl From<ProtocolArg> for Protocol {
    fn from(arg: ProtocolArg) -> Self {
        match arg {
            ProtocolArg::Exact => Protocol::Exact,
            ProtocolArg::Published => Protocol::Published,
        }
    }
}

#[derive(Subcommand)]
enum Metric {
    /// LPIPS v0.1: `a`, `b`, u8 or f32 [n,3,h,w]; f32 in [-1,1] unless --range says otherwise.
    Lpips {
        #[command(flatten)]
        common: Common,
        /// Backbone: alex, vgg or squeeze.
        #[arg(long, default_value = "alex")]
        net: LpipsNet,
        /// Backbone weights (and heads, if it holds them) instead of the registry's.
        #[arg(long, value_name = "FILE")]
        weights: Option<PathBuf>,
        /// Range of f32 images.
        #[arg(long, value_name = "LO,HI", default_value = "-1,1", allow_hyphen_values = true, value_parser = super::score::parse_range)]
        range: [f64; 2],
        /// published: rescale each whole array to [-1,1] by its minimum and maximum first.
        #[arg(long, value_enum, default_value_t = ProtocolArg::Exact)]
        protocol: ProtocolArg,
        /// Write spatial maps, tensors `map` [n,h,w] and `layerK`, to this .safetensors.
        #[arg(long, value_name = "FILE")]
        maps: Option<PathBuf>,
    },
    /// Mean pairwise LPIPS of one set: `images`, u8 or f32 [n,3,h,w].
    LpipsDiversity {
        #[command(flatten)]
        common: Common,
        #[arg(long, default_value = "alex")]
        net: LpipsNet,
        #[arg(long, value_name = "FILE")]
        weights: Option<PathBuf>,
        #[arg(long, value_name = "LO,HI", default_value = "-1,1", allow_hyphen_values = true, value_parser = super::score::parse_range)]
        range: [f64; 2],
    },
    /// Fréchet distance of features: `real`, `fake` [n,d].
    Fid {
        #[command(flatten)]
        common: Common,
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Bootstrap replicates of the interval; 0 for none.
        #[arg(long, default_value_t = 200)]
        bootstrap: usize,
    },
    /// Kernel distance: `real`, `fake` [n,d]; subsets `real_indices`, `fake_indices` [s,m] if given.
    Kid(realism::KidArgs),
    /// Inception Score: `logits` [n,classes].
    InceptionScore {
        #[command(flatten)]
        common: Common,
        #[arg(long, default_value_t = 10)]
        splits: usize,
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Precision, recall, density, coverage: `real`, `fake` [n,d].
    PrecisionRecall {
        #[command(flatten)]
        common: Common,
        #[arg(long, value_name = "K", default_value_t = 5)]
        neighbours: usize,
        /// Count points on the rim of a ball as inside (torch-fidelity) instead of outside (prdc).
        #[arg(long)]
        inclusive: bool,
    },
    /// Target and original accuracy, oracles, committee: `classifier_logits` [n,c], `oracle_logits` [k,n,c], `labels`, `targets`.
    Validity {
        #[command(flatten)]
        common: Common,
    },
    /// L1, L1.5, L2 of `a - b`, any shape [n,…].
    Lp {
        #[command(flatten)]
        common: Common,
        /// published: one norm over the whole array.
        #[arg(long, value_enum, default_value_t = ProtocolArg::Exact)]
        protocol: ProtocolArg,
    },
    /// Elastic net of `a - b`: L1 + L2²; published: L1 + L2.
    ElasticNet {
        #[command(flatten)]
        common: Common,
        #[arg(long, value_enum, default_value_t = ProtocolArg::Exact)]
        protocol: ProtocolArg,
    },
    /// Jensen-Shannon divergence of rows: `p`, `q` [n,c] or [n] (binary).
    JensenShannon {
        #[command(flatten)]
        common: Common,
        /// published: a value outside [0,1] gives null instead of an error.
        #[arg(long, value_enum, default_value_t = ProtocolArg::Exact)]
        protocol: ProtocolArg,
    },
    /// Orthogonal and complementary sets: `original` [d] or [b,d], `perturbed` [n,d] or [b,n,d].
    OrthogonalSet(selection::OrthogonalSetArgs),
}

/// What a metric found, in the names of `scores.json`.
#[derive(Default)]
pub struct Found {
    scores: Map<String, Value>,
    more: Map<String, Value>,
}

impl Found {
    fn score(&mut self, name: impl Into<String>, score: &Score) {
        let value = serde_json::to_value(score).unwrap_or(Value::Null);
        self.scores.insert(name.into(), value);
    }

    fn add(&mut self, name: &str, value: Value) {
        self.more.insert(name.into(), value);
    }
}

impl Common {
    fn arrays(&self) -> anyhow::Result<TypedArrays> {
        let _ = self.json;
        Ok(TypedArrays::read(&self.input)?)
    }
}

pub fn run(args: &MetricArgs) -> anyhow::Result<()> {
    let (name, found) = match &args.metric {
        Metric::Lpips {
            common,
            net,
            weights,
            range,
            protocol,
            maps,
        } => {
            let lpips = closeness::Setup {
                net: *net,
                weights: weights.as_deref(),
                range: *range,
                protocol: (*protocol).into(),
            };
            let found = closeness::lpips(&common.arrays()?, &lpips, maps.as_deref())?;
            ("lpips", found)
        }
        Metric::LpipsDiversity {
            common,
            net,
            weights,
            range,
        } => {
            let lpips = closeness::Setup {
                net: *net,
                weights: weights.as_deref(),
                range: *range,
                protocol: Protocol::Exact,
            };
            (
                "lpips_diversity",
                closeness::diversity(&common.arrays()?, &lpips)?,
            )
        }
        Metric::Fid {
            common,
            seed,
            bootstrap,
        } => ("fid", realism::fid(&common.arrays()?, *seed, *bootstrap)?),
        Metric::Kid(args) => ("kid", realism::kid(args)?),
        Metric::InceptionScore {
            common,
            splits,
            seed,
        } => (
            "inception_score",
            realism::inception(&common.arrays()?, *splits, *seed)?,
        ),
        Metric::PrecisionRecall {
            common,
            neighbours,
            inclusive,
        } => (
            "precision_recall",
            realism::prdc(&common.arrays()?, *neighbours, *inclusive)?,
        ),
        Metric::Validity { common } => ("validity", validity::run(&common.arrays()?)?),
        Metric::Lp { common, protocol } => {
            ("lp", closeness::lp(&common.arrays()?, (*protocol).into())?)
        }
        Metric::ElasticNet { common, protocol } => (
            "elastic_net",
            closeness::elastic_net(&common.arrays()?, (*protocol).into())?,
        ),
        Metric::JensenShannon { common, protocol } => (
            "jensen_shannon",
            validity::jensen_shannon(&common.arrays()?, (*protocol).into())?,
        ),
        Metric::OrthogonalSet(args) => ("orthogonal_set", selection::run(args)?),
    };
    let mut all = Map::new();
    all.insert("schema".into(), json!("foil.metric/1"));
    all.insert("metric".into(), json!(name));
    all.insert("foil".into(), json!(env!("CARGO_PKG_VERSION")));
    all.insert("scores".into(), Value::Object(found.scores));
    all.extend(found.more);
    super::print(&format!("{}\n", serde_json::to_string_pretty(&all)?))
}
