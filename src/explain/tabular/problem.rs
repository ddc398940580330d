//! One factual to explain, and what came of it.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::{ExplainError, Result, Space};
use crate::tabular::{Network, Predictor};

/// When a search has to stop.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    budget: Option<Duration>,
}

impl Clock {
    /// Starts now; without a budget it never ends.
    pub fn start(budget: Option<Duration>) -> Self {
        Self {
            started: Instant::now(),
            budget,
        }
    }

    /// True once the time is up.
    pub fn is_over(&self) -> bool {
        self.budget.is_some_and(|b| self.started.elapsed() >= b)
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// A row whose class is to change.
pub struct Problem<'a> {
    pub space: &'a Space<'a>,
    pub predictor: &'a dyn Predictor,
    pub factual: &'a [f64],
    /// The wished class.
    pub target: usize,
    /// Number of the factual, for errors and random numbers.
    pub row: usize,
    /// How many counterfactuals are wished for.
    pub k: usize,
    pub seed: u64,
    pub clock: Clock,
}

impl<'a> Problem<'a> {
    /// The network, for methods that need gradients.
    pub fn network(&self, method: &'static str) -> Result<&'a Network> {
        self.predictor
            .network()
            .ok_or(ExplainError::NeedsNetwork { method })
    }

    /// Probability of the wished class.
    pub fn probability(&self, x: &[f64]) -> f64 {
        self.predictor.probability(x, self.target)
    }

    /// True if the model gives `x` the wished class.
    pub fn reached(&self, x: &[f64]) -> bool {
        let [a, b] = self.predictor.probabilities(x)[0];
        if self.target == 1 { b > a } else { a > b }
    }

    /// Whether a point can be handed out by a `correct` method: realistic, allowed, and of the wished class.
    pub fn accepts(&self, x: &[f64]) -> bool {
        self.space.allows(self.factual, x) && self.reached(x)
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The method did all it does.
    Complete,
    /// The time was up; what was found is the best so far.
    Budget,
}

/// What is known of the smallest change there is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// Cost of the counterfactual that was found; none if none was.
    pub found: Option<f64>,
    /// No counterfactual costs less than this.
    pub at_least: f64,
    pub optimal: bool,
}

/// What a method gives for one factual.
#[derive(Clone, Debug)]
pub struct Found {
    /// Encoded counterfactuals, the best first; empty if none was found.
    pub counterfactuals: Vec<Vec<f64>>,
    pub ended: Ended,
    pub proof: Option<Proof>,
}

impl Found {
    /// One counterfactual, or none.
    pub fn one(counterfactual: Option<Vec<f64>>, clock: &Clock) -> Self {
        Self::many(counterfactual.into_iter().collect(), clock)
    }

    /// Several.
    pub fn many(counterfactuals: Vec<Vec<f64>>, clock: &Clock) -> Self {
        let ended = if clock.is_over() {
            Ended::Budget
        } else {
            Ended::Complete
        };
        Self {
            counterfactuals,
            ended,
            proof: None,
        }
    }

    /// The best one.
    pub fn best(&self) -> Option<&[f64]> {
        self.counterfactuals.first().map(Vec::as_slice)
    }
}
