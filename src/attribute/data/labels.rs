//! Label functions ([xai-bench] section 4.3) and their normalisation.

use std::f64::consts::PI;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::attribute::Variant;
use crate::attribute::error::{AttributionError, Result};
use crate::attribute::rows::{Rows, mean_and_std};

/// What a label is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelFunction {
    /// Σ wⱼxⱼ
    Linear,
    /// a(x₀) + b(x₁) + c(x₂), each a step function
    PiecewiseConstant,
    /// sin x₀ + |x₁| + x₂² + exp(−x₃)
    NonlinearAdditive,
    /// Weights 0..d where the features add up to more than 0, the same reversed elsewhere
    PiecewiseLinear,
    /// The label of the nearest row of a real table (a synthetic twin)
    NearestNeighbour,
}

impl LabelFunction {
    pub const NAMES: [(&'static str, Self); 4] = [
        ("linear", Self::Linear),
        ("piecewise-constant", Self::PiecewiseConstant),
        ("nonlinear-additive", Self::NonlinearAdditive),
        ("piecewise-linear", Self::PiecewiseLinear),
    ];

    pub fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, f)| *f == self);
        known.map_or("nearest-neighbour", |(name, _)| name)
    }

    /// Features that it reads at least.
    fn least_features(self) -> usize {
        match self {
            Self::PiecewiseConstant => 3,
            Self::NonlinearAdditive => 4,
            _ => 1,
        }
    }
}

impl FromStr for LabelFunction {
    type Err = AttributionError;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, f)| *f).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name).join(", ");
            AttributionError::setting("--labels", format!("one of {names}"), format!("{text:?}"))
        })
    }
}

/// Regression, or two classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    #[default]
    Regression,
    Classification,
}

/// A label function with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    pub function: LabelFunction,
    /// Of the linear function.
    pub weights: Vec<f64>,
    pub task: Task,
    pub variant: Variant,
}

impl Labels {
    /// Linear weights d − 1, …, 0, as in the released configuration (the paper prints them in the other order).
    pub fn new(function: LabelFunction, d: usize, task: Task, variant: Variant) -> Result<Self> {
        let least = function.least_features();
        if d < least {
            return Err(AttributionError::setting(
                format!("--dim with --labels {}", function.name()),
                format!("at least {least}"),
                d.to_string(),
            ));
        }
        Ok(Self {
            function,
            weights: (0..d).rev().map(|w| w as f64).collect(),
            task,
            variant,
        })
    }

    /// The label before noise, normalisation and threshold.
    pub fn raw(&self, x: &[f64]) -> f64 {
        let dot = |w: &mut dyn Iterator<Item = f64>| -> f64 { w.zip(x).map(|(w, x)| w * x).sum() };
        match self.function {
            LabelFunction::Linear => dot(&mut self.weights.iter().copied()),
            LabelFunction::PiecewiseConstant => self.piecewise_constant(x),
            LabelFunction::NonlinearAdditive if self.task == Task::Classification => {
                -100.0 * (2.0 * x[0]).sin() + 2.0 * x[1].abs() + x[2] + (-x[3]).exp() - 2.4
            }
            LabelFunction::NonlinearAdditive => {
                x[0].sin() + x[1].abs() + x[2] * x[2] + (-x[3]).exp()
            }
            LabelFunction::PiecewiseLinear => match x.iter().sum::<f64>() > 0.0 {
                true => dot(&mut (0..x.len()).map(|j| j as f64)),
                false => dot(&mut (0..x.len()).rev().map(|j| j as f64)),
            },
            LabelFunction::NearestNeighbour => f64::NAN,
        }
    }

    fn piecewise_constant(&self, x: &[f64]) -> f64 {
        let a = if x[0] < 0.0 { -1.0 } else { 1.0 };
        let b = match x[1] {
            v if v < -0.5 => -2.0,
            // The released condition for this interval can never hold.
            v if v < 0.0 => match self.variant {
                Variant::Correct => -1.0,
                Variant::AsReleased => 0.0,
            },
            v if v < 0.5 => 1.0,
            _ => 2.0,
        };
        let c = match (2.0 * (PI * x[2]).cos()).trunc() {
            0.0 => 1.0,
            c => c,
        };
        a + b + c
    }

    /// Raw labels of all rows.
    pub fn raw_of(&self, rows: &Rows) -> Vec<f64> {
        rows.iter().map(|row| self.raw(row)).collect()
    }
}

/// y = (raw − mean)/std, with the population's standard deviation (divisor n).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normalisation {
    pub mean: f64,
    pub std: f64,
}

impl Normalisation {
    /// Of a batch. Labels that are all the same are only centred (the released code divides by zero: `as-released`).
    pub fn of(raw: &[f64], variant: Variant) -> Self {
        let (mean, std) = mean_and_std(raw, 0);
        let std = match (std == 0.0, variant) {
            (true, Variant::Correct) => 1.0,
            _ => std,
        };
        Self { mean, std }
    }

    pub fn apply(self, raw: &[f64]) -> Vec<f64> {
        raw.iter().map(|y| (y - self.mean) / self.std).collect()
    }
}
