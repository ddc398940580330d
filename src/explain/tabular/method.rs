//! The ten methods by name, and many factuals at once.

use std::time::Duration;

use rayon::prelude::*;
use serde::Serialize;

use super::cfproto::Slopes;
use super::{
    CadexParams, CfprotoParams, Clock, DiceParams, ExplainError, Found, GrowingSpheresParams,
    LoreParams, MaceParams, MlExplainParams, Problem, Result, SedcParams, Space, SynasParams,
};
use super::{
    cadex, cfproto, dice, dice_published, growing_spheres, lore, mace, ml_explain, sedc, synas,
};
use crate::tabular::Predictor;

/// An algorithm of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    Cadex,
    Cfproto,
    CfprotoNograd,
    Dice,
    GrowingSpheres,
    Lore,
    Mace,
    MlExplain,
    Sedc,
    Synas,
}

impl Method {
    /// All of them, in alphabetical order.
    pub const ALL: [Method; 10] = [
        Method::Cadex,
        Method::Cfproto,
        Method::CfprotoNograd,
        Method::Dice,
        Method::GrowingSpheres,
        Method::Lore,
        Method::Mace,
        Method::MlExplain,
        Method::Sedc,
        Method::Synas,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Method::Cadex => "cadex",
            Method::Cfproto => "cfproto",
            Method::CfprotoNograd => "cfproto-nograd",
            Method::Dice => "dice",
            Method::GrowingSpheres => "growing-spheres",
            Method::Lore => "lore",
            Method::Mace => "mace",
            Method::MlExplain => "ml-explain",
            Method::Sedc => "sedc",
            Method::Synas => "synas",
        }
    }

    /// The method of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// How it searches: convex optimisation (CO), heuristic (HE) or a satisfiability solver (SS), as in the paper's Table 1.
    pub fn strategy(self) -> &'static str {
        match self {
            Method::Cadex | Method::Cfproto | Method::CfprotoNograd | Method::Dice => "CO",
            Method::MlExplain | Method::Synas => "CO",
            Method::GrowingSpheres | Method::Lore | Method::Sedc => "HE",
            Method::Mace => "SS",
        }
    }

    /// Whether it needs the gradient of a network (in the `correct` variant).
    pub fn needs_network(self) -> bool {
        !matches!(self, Method::GrowingSpheres | Method::Lore | Method::Sedc)
    }
}

/// What its paper means, or what the benchmark ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    #[default]
    Correct,
    AsBenchmarked,
}

impl Variant {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Correct => "correct",
            Variant::AsBenchmarked => "as-benchmarked",
        }
    }
}

/// Explains one factual with the method's default settings.
pub fn explain(method: Method, variant: Variant, problem: &Problem<'_>) -> Result<Found> {
    let correct = variant == Variant::Correct;
    match (method, correct) {
        (Method::Cadex, true) => cadex::correct(problem, CadexParams::default()),
        (Method::Cadex, false) => cadex::as_benchmarked(problem, CadexParams::default()),
        (Method::Cfproto, true) => {
            cfproto::correct(problem, CfprotoParams::default(), Slopes::Gradient)
        }
        (Method::Cfproto, false) => {
            cfproto::as_benchmarked(problem, CfprotoParams::default(), Slopes::Gradient)
        }
        (Method::CfprotoNograd, true) => {
            cfproto::correct(problem, CfprotoParams::default(), Slopes::Differences)
        }
        (Method::CfprotoNograd, false) => {
            cfproto::as_benchmarked(problem, CfprotoParams::default(), Slopes::Differences)
        }
        (Method::Dice, true) => dice::correct(problem, DiceParams::default()),
        (Method::Dice, false) => dice_published::as_benchmarked(problem, DiceParams::default()),
        (Method::GrowingSpheres, true) => Ok(growing_spheres::correct(
            problem,
            GrowingSpheresParams::default(),
        )),
        (Method::GrowingSpheres, false) => {
            growing_spheres::as_benchmarked(problem, GrowingSpheresParams::default())
        }
        (Method::Lore, true) => Ok(lore::correct(problem, LoreParams::default())),
        (Method::Lore, false) => lore::as_benchmarked(problem, LoreParams::default()),
        (Method::Mace, true) => mace::correct(problem, MaceParams::default()),
        (Method::Mace, false) => mace::as_benchmarked(problem, MaceParams::default()),
        (Method::MlExplain, true) => ml_explain::correct(problem, MlExplainParams::default()),
        (Method::MlExplain, false) => {
            ml_explain::as_benchmarked(problem, MlExplainParams::default())
        }
        (Method::Sedc, true) => Ok(sedc::correct(problem, SedcParams::default())),
        (Method::Sedc, false) => sedc::as_benchmarked(problem, SedcParams::default()),
        (Method::Synas, true) => synas::correct(problem, SynasParams::default()),
        (Method::Synas, false) => synas::as_benchmarked(problem, SynasParams::default()),
    }
}

/// What all factuals of a run share.
pub struct Batch<'a> {
    pub space: &'a Space<'a>,
    pub predictor: &'a dyn Predictor,
    pub method: Method,
    pub variant: Variant,
    pub k: usize,
    pub seed: u64,
    pub budget: Option<Duration>,
}

/// Explains factuals side by side on all cores, each with its own budget; every factual's wished class is the other one, unless `target` says which. Results
/// come with their seconds and do not depend on the number of threads. `done` hears how many are finished.
pub fn explain_all(
    batch: &Batch<'_>,
    factuals: &[Vec<f64>],
    target: Option<usize>,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Vec<(Found, f64)>> {
    let count = std::sync::atomic::AtomicUsize::new(0);
    factuals
        .par_iter()
        .enumerate()
        .map(|(row, factual)| {
            let class = batch.predictor.class(factual);
            let wished = target.unwrap_or(1 - class);
            if wished == class {
                return Err(ExplainError::AlreadyThere {
                    row,
                    class,
                    other: 1 - class,
                });
            }
            let problem = Problem {
                space: batch.space,
                predictor: batch.predictor,
                factual,
                target: wished,
                row,
                k: batch.k,
                seed: batch.seed,
                clock: Clock::start(batch.budget),
            };
            let found = explain(batch.method, batch.variant, &problem)?;
            let seconds = problem.clock.seconds();
            done(1 + count.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
            Ok((found, seconds))
        })
        .collect()
}
