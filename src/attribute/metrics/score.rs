//! All metrics of a set of weights.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::infidelity::{Moments, Replacements, perturbation, released_perturbation};
use super::monotonicity::{Order, Steps, walk};
use super::roar::{Removal, Retraining};
use super::{Conditional, Estimate, GROUPS, Games, Plan, Requests, jackknife};
use crate::attribute::data::Dataset;
use crate::attribute::error::{AttributionError, Result};
use crate::attribute::models::{Kind, Model};
use crate::attribute::rows::Rows;
use crate::attribute::subsets::{MOST_ENUMERATED, all};
use crate::attribute::{Variant, streams};
use crate::stats::random::Draws;

/// A metric by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    Faithfulness,
    Monotonicity,
    Roar,
    GtShapley,
    Infidelity,
    RoarFaithfulness,
    RoarMonotonicity,
}

impl Metric {
    /// The five of the paper's tables.
    pub const TABLE: [Self; 5] = [
        Self::Faithfulness,
        Self::Monotonicity,
        Self::Roar,
        Self::GtShapley,
        Self::Infidelity,
    ];
    pub const ALL: [Self; 7] = [
        Self::Faithfulness,
        Self::Monotonicity,
        Self::Roar,
        Self::GtShapley,
        Self::Infidelity,
        Self::RoarFaithfulness,
        Self::RoarMonotonicity,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Faithfulness => "faithfulness",
            Self::Monotonicity => "monotonicity",
            Self::Roar => "roar",
            Self::GtShapley => "gt-shapley",
            Self::Infidelity => "infidelity",
            Self::RoarFaithfulness => "roar-faithfulness",
            Self::RoarMonotonicity => "roar-monotonicity",
        }
    }

    /// Needs weights of the training rows, and trains models.
    pub fn retrains(self) -> bool {
        matches!(
            self,
            Self::Roar | Self::RoarFaithfulness | Self::RoarMonotonicity
        )
    }

    pub fn lower_is_better(self) -> bool {
        self == Self::Infidelity
    }
}

impl FromStr for Metric {
    type Err = AttributionError;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|m| m.name() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            AttributionError::setting("--metrics", format!("one of {names}"), format!("{text:?}"))
        })
    }
}

/// How metrics are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub variant: Variant,
    pub conditional: Conditional,
    /// Draws to begin with, where draws are needed. `as-released` has 100, and 1000 perturbations.
    pub draws: usize,
    /// Draws are doubled until the error of the value is at most this …
    pub standard_error: f64,
    /// … or so many were made.
    pub most_draws: usize,
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            variant: Variant::Correct,
            conditional: Conditional::Observational,
            draws: 1000,
            standard_error: 0.005,
            most_draws: 64_000,
            seed: 0,
        }
    }
}

/// What the released code has.
const RELEASED_DRAWS: usize = 100;
const RELEASED_PERTURBATIONS: usize = 1000;
const RELEASED_SHAPLEY_DRAWS: usize = 20_000;

/// Perturbations that are predicted at once.
const BLOCK: usize = 1024;

/// Weights so large or small that squares of them are not numbers, brought near one by a power of two: no metric asks for their scale.
fn moderate(weights: &Rows) -> Rows {
    let mut scaled = weights.clone();
    for i in 0..scaled.len() {
        let row = scaled.row_mut(i);
        let most = row.iter().fold(0.0f64, |m, w| m.max(w.abs()));
        if most > 0.0 && !(1e-100..1e100).contains(&most) {
            // In two steps: 2^1074 is no number.
            let half = 2f64.powi((-most.log2() / 2.0) as i32);
            row.iter_mut().for_each(|w| *w = *w * half * half);
        }
    }
    scaled
}

/// The points that are judged, and what they come from.
pub struct Scoring<'a> {
    pub data: &'a Dataset,
    pub model: &'a Model,
    pub points: &'a Rows,
    pub settings: Settings,
}

impl Scoring<'_> {
    fn check(&self, weights: &Rows, points: usize, what: &str) -> Result<()> {
        let d = self.data.dimension();
        self.model.check_dimension(d)?;
        if weights.columns != d || weights.len() != points {
            return Err(AttributionError::Mismatch {
                what: what.into(),
                expected: format!("{points} rows of {d} weights"),
                found: format!("{} rows of {}", weights.len(), weights.columns),
                hint: ": explain the points of these data".into(),
            });
        }
        match weights.values.iter().position(|v| !v.is_finite()) {
            None => Ok(()),
            Some(at) => Err(AttributionError::mismatch(
                format!("{what}, row {}, feature {}", at / d + 1, at % d),
                "a finite number",
                weights.values[at].to_string(),
            )),
        }
    }

    /// A metric that does not retrain.
    pub fn score(&self, metric: Metric, weights: &Rows) -> Result<Estimate> {
        self.check(weights, self.points.len(), "weights")?;
        let weights = &moderate(weights);
        let released = self.settings.variant == Variant::AsReleased;
        let interventional = self.settings.conditional == Conditional::Interventional;
        match metric {
            Metric::Faithfulness if released && interventional => Ok(Estimate::exact(
                super::faithfulness_with_aliased_baseline(self.model, self.points, weights),
            )),
            Metric::Monotonicity if released && interventional => Ok(Estimate::exact(
                super::monotonicity_with_aliased_baseline(self.model, self.points, weights),
            )),
            Metric::Faithfulness => Ok(self.faithfulness(weights)),
            Metric::Monotonicity => Ok(self.monotonicity(weights)),
            Metric::GtShapley => Ok(self.gt_shapley(&[weights])?[0]),
            Metric::Infidelity => Ok(self.infidelity(weights)),
            _ => Err(AttributionError::Unsupported {
                what: metric.name().into(),
                reason: "needs weights of the training rows".into(),
            }),
        }
    }

    fn mean_over_points(&self, of: impl Fn(usize) -> f64) -> f64 {
        let n = self.points.len();
        (0..n).map(of).sum::<f64>() / n.max(1) as f64
    }

    /// Doubles draws until the error is small enough.
    fn estimate(
        &self,
        requests: &Requests,
        value: impl Fn(&Games, Option<usize>) -> f64,
    ) -> Estimate {
        let released = self.settings.variant == Variant::AsReleased;
        let plan = Plan {
            model: self.model,
            features: &self.data.features,
            conditional: self.settings.conditional,
            always_draw: released,
            seed: self.settings.seed,
        };
        let mut draws = match released {
            true => RELEASED_DRAWS,
            false => self.settings.draws,
        };
        loop {
            let games = Games::new(plan, self.points, requests, draws);
            let found = jackknife(games.draws, |without| value(&games, without));
            let enough = found.standard_error <= self.settings.standard_error;
            if released || enough || draws >= self.settings.most_draws {
                return found;
            }
            draws *= 2;
        }
    }

    fn faithfulness(&self, weights: &Rows) -> Estimate {
        let d = weights.columns;
        let mut requests = Requests::default();
        for i in 0..self.points.len() {
            (0..d).for_each(|j| requests.add(i, all(d) ^ (1 << j)));
        }
        self.estimate(&requests, |games, without| {
            self.mean_over_points(|i| super::faithfulness(games, i, weights.row(i), without))
        })
    }

    fn monotonicity(&self, weights: &Rows) -> Estimate {
        let released = self.settings.variant == Variant::AsReleased;
        // The paper's table fits "dec"; the released default is "inc".
        let how = match released {
            true => (Order::MostFirst, Steps::ByFeature),
            false => (Order::MostFirst, Steps::InOrder),
        };
        let mut requests = Requests::default();
        for i in 0..self.points.len() {
            requests.add(i, 0);
            for (_, known) in walk(weights.row(i), how.0) {
                requests.add(i, known);
            }
        }
        self.estimate(&requests, |games, without| {
            self.mean_over_points(|i| {
                let start = match released {
                    true => games.mean_prediction(),
                    false => games.value(i, 0, without),
                };
                super::monotonicity(games, i, weights.row(i), how, start, without)
            })
        })
    }

    /// GT-Shapley of several sets of weights, for which the ground truth is computed once. By formula where there is one, in both variants: the
    /// released 20,000 draws only approach it.
    pub fn gt_shapley(&self, all_weights: &[&Rows]) -> Result<Vec<Estimate>> {
        let d = self.data.dimension();
        if d > MOST_ENUMERATED {
            return Err(AttributionError::Unsupported {
                what: "gt-shapley".into(),
                reason: format!("{d} features have too many subsets (at most {MOST_ENUMERATED})"),
            });
        }
        for weights in all_weights {
            self.check(weights, self.points.len(), "weights")?;
        }
        let all_weights: Vec<Rows> = all_weights.iter().map(|w| moderate(w)).collect();
        let requests = Requests::everything(self.points.len(), d);
        let plan = Plan {
            model: self.model,
            features: &self.data.features,
            conditional: self.settings.conditional,
            always_draw: false,
            seed: self.settings.seed,
        };
        let released = self.settings.variant == Variant::AsReleased;
        let mut draws = match released {
            true => RELEASED_SHAPLEY_DRAWS,
            false => self.settings.draws,
        };
        loop {
            let games = Games::new(plan, self.points, &requests, draws);
            let groups = match games.draws {
                0 => 0,
                _ => GROUPS,
            };
            let truth = |without| super::ground_truth(&games, d, self.settings.variant, without);
            let all = truth(None);
            let without: Vec<Rows> = (0..groups).map(|g| truth(Some(g))).collect();
            let found: Vec<Estimate> = all_weights
                .iter()
                .map(|weights| {
                    jackknife(games.draws, |left_out| {
                        let truth = left_out.map_or(&all, |g| &without[g]);
                        super::distances(weights, truth).correlation
                    })
                })
                .collect();
            let worst = found.iter().fold(0.0f64, |m, e| m.max(e.standard_error));
            let enough = worst <= self.settings.standard_error;
            if released || enough || draws >= self.settings.most_draws {
                return Ok(found);
            }
            draws *= 2;
        }
    }

    fn infidelity(&self, weights: &Rows) -> Estimate {
        let released = self.settings.variant == Variant::AsReleased;
        let mut draws = match released {
            true => RELEASED_PERTURBATIONS,
            false => self.settings.draws,
        };
        loop {
            let found = self.infidelity_of(weights, draws);
            let enough = found.standard_error <= self.settings.standard_error;
            if released || enough || draws >= self.settings.most_draws {
                return found;
            }
            draws *= 2;
        }
    }

    fn infidelity_of(&self, weights: &Rows, draws: usize) -> Estimate {
        use rayon::prelude::*;
        let variant = self.settings.variant;
        let independent = self.settings.conditional == Conditional::Interventional;
        let d = weights.columns;
        let per_point: Vec<Vec<Moments>> = (0..self.points.len())
            .into_par_iter()
            .map_init(
                || Replacements::new(&self.data.features, independent),
                |replacements, i| {
                    let x = self.points.row(i);
                    let mut random = Draws::new(self.settings.seed, streams::INFIDELITY, i as u64);
                    let at_point = self.model.predict_one(x);
                    let mut moments = vec![Moments::default(); GROUPS];
                    for first in (0..draws).step_by(BLOCK) {
                        let mut rows = Rows::zeros(BLOCK.min(draws - first), d);
                        for k in 0..rows.len() {
                            let row = rows.row_mut(k);
                            match variant {
                                Variant::AsReleased => released_perturbation(&mut random, row),
                                Variant::Correct => perturbation(replacements, x, &mut random, row),
                            }
                        }
                        let mut out = vec![0.0; rows.len()];
                        self.model.predict_into(&rows.values, &mut out);
                        for (k, (row, value)) in rows.iter().zip(&out).enumerate() {
                            let parts = x.iter().zip(row).zip(weights.row(i));
                            let along: f64 = parts.map(|((x, r), w)| (x - r) * w).sum();
                            moments[(first + k) % GROUPS].add(at_point - value, along);
                        }
                    }
                    moments
                },
            )
            .collect();
        jackknife(draws, |without| {
            self.mean_over_points(|i| {
                let mut total = Moments::default();
                for (g, part) in per_point[i].iter().enumerate() {
                    if Some(g) != without {
                        total.count += part.count;
                        total.change += part.change;
                        total.both += part.both;
                        total.along += part.along;
                    }
                }
                // The released code divides 0 by 0 where all weights are 0; here they explain nothing in both variants.
                total.infidelity(Variant::Correct)
            })
        })
    }

    /// A metric that trains models again; the points are the test rows.
    pub fn score_retrained(
        &self,
        metric: Metric,
        kind: Kind,
        test_weights: &Rows,
        train_weights: &Rows,
    ) -> Result<Estimate> {
        let data = self.data;
        self.check(test_weights, data.test.x.len(), "weights of the test rows")?;
        self.check(
            train_weights,
            data.train.x.len(),
            "weights of the training rows",
        )?;
        let (test_weights, train_weights) = (&moderate(test_weights), &moderate(train_weights));
        let retraining = Retraining {
            kind,
            task: data.labels.task,
            train: &data.train,
            test: &data.test,
            train_weights,
            test_weights,
            seed: self.settings.seed,
        };
        let (variant, conditional) = (self.settings.variant, self.settings.conditional);
        let interventional = conditional == Conditional::Interventional;
        let baseline = data.test.x.means();
        let released = variant == Variant::AsReleased;
        let mean = Removal::Mean(&data.features, conditional);
        let removal = match (released, interventional) {
            (false, _) => mean,
            (true, true) => Removal::Baseline(&baseline),
            (true, false) if metric == Metric::Roar => {
                Removal::Draw(&data.features, self.settings.seed)
            }
            (true, false) => mean,
        };
        let nothing = Removal::Mean(&data.features, Conditional::Observational);
        let value = match metric {
            Metric::Roar => retraining.roar(removal, variant).area,
            Metric::RoarFaithfulness => retraining.faithfulness(removal, variant),
            Metric::RoarMonotonicity => retraining.monotonicity(removal, nothing, !released),
            _ => return self.score(metric, test_weights),
        };
        Ok(Estimate::exact(value))
    }
}
