//! `foil metric`: every metric on plain arrays, for pipelines in any language.

mod closeness;
mod realism;
mod selection;
mod validity;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use super::UsageError;
use crate::metrics::lpips::LpipsNet;
use crate::score::{Protocol, Score};
use crate::tensor::{Backend, Device, Opened, Precision, TypedArrays};

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

/// Where a metric with kernels of its own is computed.
#[derive(Args)]
pub struct Where {
    /// Device: auto, cpu, wgpu, wgpu:N, wgpu:software or cuda[:N]; see `foil devices`.
    #[arg(long, value_name = "D", default_value = "auto")]
    device: Device,
}

impl Where {
    /// Opens the device and says which one it is.
    fn open(&self, metric: &str) -> anyhow::Result<Opened> {
        let opened = self.device.open(Precision::F32);
        let (device, opened, why) = opened.map_err(|e| UsageError(e.to_string()))?;
        super::say(&format!("{metric} on {device} ({why})"));
        Ok(opened)
    }
}

/// What a function of a device finds there, with the name of the device.
macro_rules! found_on {
    ($place:expr, $metric:literal, |$device:ident| $found:expr) => {
        match $place.open($metric)? {
            Opened::Cpu($device) => $found?.on(&$device),
            Opened::Gpu($device) => $found?.on(&$device),
        }
    };
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
        #[command(flatten)]
        place: Where,
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
        #[command(flatten)]
        place: Where,
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
        #[command(flatten)]
        place: Where,
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
        #[command(flatten)]
        place: Where,
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

    /// The same with the device it was found on.
    fn on(mut self, device: &impl Backend) -> Self {
        self.add("device", json!(device.describe()));
        self
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
            place,
        } => {
            let lpips = closeness::Setup {
                net: *net,
                weights: weights.as_deref(),
                range: *range,
                protocol: (*protocol).into(),
            };
            let arrays = common.arrays()?;
            let maps = maps.as_deref();
            let found = found_on!(place, "lpips", |device| closeness::lpips(
                &device, &arrays, &lpips, maps
            ));
            ("lpips", found)
        }
        Metric::LpipsDiversity {
            common,
            net,
            weights,
            range,
            place,
        } => {
            let lpips = closeness::Setup {
                net: *net,
                weights: weights.as_deref(),
                range: *range,
                protocol: Protocol::Exact,
            };
            let arrays = common.arrays()?;
            let found = found_on!(place, "lpips_diversity", |device| closeness::diversity(
                &device, &arrays, &lpips
            ));
            ("lpips_diversity", found)
        }
        Metric::Fid {
            common,
            seed,
            bootstrap,
            place,
        } => {
            let arrays = common.arrays()?;
            let found = found_on!(place, "fid", |device| realism::fid(
                &device, &arrays, *seed, *bootstrap
            ));
            ("fid", found)
        }
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
        Metric::Validity { common, place } => {
            let arrays = common.arrays()?;
            let found = found_on!(place, "validity", |device| validity::run(&device, &arrays));
            ("validity", found)
        }
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
        Metric::OrthogonalSet(args) => {
            let found = found_on!(args.place, "orthogonal_set", |device| selection::run(
                &device, args
            ));
            ("orthogonal_set", found)
        }
    };
    let mut all = Map::new();
    all.insert("schema".into(), json!("foil.metric/1"));
    all.insert("metric".into(), json!(name));
    all.insert("foil".into(), json!(env!("CARGO_PKG_VERSION")));
    all.insert("scores".into(), Value::Object(found.scores));
    all.extend(found.more);
    super::print(&format!("{}\n", serde_json::to_string_pretty(&all)?))
}
