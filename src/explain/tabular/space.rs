//! Where counterfactuals may lie: the realistic rows of a table that leave immutable features alone.

use std::sync::OnceLock;

use super::cfproto_numbers::Numbers;
use super::{ExplainError, Result};
use crate::tabular::{Encoding, Kind, Statistics};

/// What the user allows.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Names of features that must stay as they are.
    pub immutable: Vec<String>,
    /// Ranges of numerical features in their own units.
    pub ranges: Vec<(String, [f64; 2])>,
    /// How much a change of a feature weighs; 1 without a word.
    pub weights: Vec<(String, f64)>,
}

/// A table as searches see it.
pub struct Space<'a> {
    pub encoding: &'a Encoding,
    /// Encoded training rows.
    pub train: &'a [Vec<f64>],
    /// Statistics of the training rows.
    pub statistics: Statistics,
    /// Whether each feature may change.
    pub mutable: Vec<bool>,
    /// Lowest and highest allowed value of each encoded column.
    pub low: Vec<f64>,
    pub high: Vec<f64>,
    /// Weight of a change of each feature.
    pub weights: Vec<f64>,
    numbers: OnceLock<Numbers>,
}

impl<'a> Space<'a> {
    /// From training rows and the user's limits.
    pub fn new(encoding: &'a Encoding, train: &'a [Vec<f64>], limits: &Limits) -> Result<Self> {
        let features = &encoding.schema.features;
        let place = |option: &str, name: &str| {
            encoding
                .schema
                .position(name)
                .ok_or_else(|| ExplainError::Option {
                    option: option.into(),
                    reason: format!(
                        "no feature `{name}`; there are {}",
                        features
                            .iter()
                            .map(|f| f.name.as_str())
                            .collect::<Vec<_>>()
                            .join(", ")
                    ),
                })
        };
        let mut mutable: Vec<bool> = features.iter().map(|f| !f.immutable).collect();
        for name in &limits.immutable {
            mutable[place("--immutable", name)?] = false;
        }
        let mut range = encoding.range.clone();
        for (name, [low, high]) in &limits.ranges {
            let at = place("--range", name)?;
            let wrong = |reason: String| ExplainError::Option {
                option: format!("--range {name}={low}..{high}"),
                reason,
            };
            if features[at].kind != Kind::Numerical {
                return Err(wrong(format!(
                    "`{name}` is {}, not numerical",
                    features[at].kind.word()
                )));
            }
            if low > high {
                return Err(wrong("the lower end is above the upper end".into()));
            }
            range[at] = [*low, *high];
        }
        let mut weights = vec![1.0; features.len()];
        for (name, weight) in &limits.weights {
            let at = place("--weight", name)?;
            if *weight <= 0.0 || !weight.is_finite() {
                return Err(ExplainError::Option {
                    option: format!("--weight {name}={weight}"),
                    reason: "expected a number above 0".into(),
                });
            }
            weights[at] = *weight;
        }
        let (mut low, mut high) = (vec![0.0; encoding.width()], vec![1.0; encoding.width()]);
        for c in encoding.numerical() {
            let feature = encoding.columns[c].feature;
            low[c] = encoding.scaled(feature, range[feature][0]);
            high[c] = encoding.scaled(feature, range[feature][1]);
        }
        Ok(Self {
            encoding,
            train,
            statistics: Statistics::of(train),
            mutable,
            low,
            high,
            weights,
            numbers: OnceLock::new(),
        })
    }

    /// Categories as numbers, made when first asked for.
    pub fn numbers(&self) -> &Numbers {
        self.numbers.get_or_init(|| Numbers::new(self))
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.encoding.of_feature.len()
    }

    /// Columns of a feature.
    pub fn columns(&self, feature: usize) -> &[usize] {
        &self.encoding.of_feature[feature]
    }

    /// Kind of a feature.
    pub fn kind(&self, feature: usize) -> Kind {
        self.encoding.schema.features[feature].kind
    }

    /// Whether an encoded column may change.
    pub fn column_mutable(&self, column: usize) -> bool {
        self.mutable[self.encoding.columns[column].feature]
    }

    /// Copies one feature of `from` into `to`.
    pub fn copy_feature(&self, feature: usize, from: &[f64], to: &mut [f64]) {
        self.columns(feature).iter().for_each(|&c| to[c] = from[c]);
    }

    /// Sets a categorical feature to one of its categories.
    pub fn set_category(&self, feature: usize, category: usize, x: &mut [f64]) {
        for (i, &c) in self.columns(feature).iter().enumerate() {
            x[c] = f64::from(u8::from(i == category));
        }
    }

    /// Whether a feature differs.
    pub fn differs(&self, feature: usize, a: &[f64], b: &[f64]) -> bool {
        self.columns(feature).iter().any(|&c| a[c] != b[c])
    }

    /// The features that differ.
    pub fn changed(&self, a: &[f64], b: &[f64]) -> Vec<usize> {
        (0..self.features())
            .filter(|&f| self.differs(f, a, b))
            .collect()
    }

    /// The allowed range of a numerical column for a factual, which may itself lie outside.
    pub fn box_of(&self, column: usize, factual: &[f64]) -> [f64; 2] {
        let x = factual[column];
        [self.low[column].min(x), self.high[column].max(x)]
    }

    /// The nearest realistic point: one category in each group (the largest entry), 0 or 1, numbers in range, immutable features and everything that has
    /// not moved as in the factual, and features that follow from others by a rule computed anew.
    pub fn realise(&self, factual: &[f64], point: &[f64]) -> Vec<f64> {
        let mut out = factual.to_vec();
        for feature in 0..self.features() {
            if !self.mutable[feature] {
                continue;
            }
            let columns = self.columns(feature);
            match self.kind(feature) {
                Kind::Numerical => {
                    let c = columns[0];
                    let [low, high] = self.box_of(c, factual);
                    out[c] = point[c].clamp(low, high);
                }
                Kind::Binary => out[columns[0]] = f64::from(u8::from(point[columns[0]] > 0.5)),
                Kind::Categorical => {
                    let mut best = 0;
                    for (i, &c) in columns.iter().enumerate() {
                        if point[c] > point[columns[best]] {
                            best = i;
                        }
                    }
                    self.set_category(feature, best, &mut out);
                }
            }
        }
        self.follow_rules(factual, &mut out);
        out
    }

    /// Computes features anew that follow from others, where their rule is broken.
    fn follow_rules(&self, factual: &[f64], x: &mut [f64]) {
        let schema = &self.encoding.schema;
        for rule in &schema.rules {
            let Some((name, formula)) = rule.definition() else {
                continue;
            };
            let Some(feature) = schema.position(name) else {
                continue;
            };
            let numerical = self.kind(feature) == Kind::Numerical;
            if !self.mutable[feature] || !numerical || self.obeys_one(rule, x) {
                continue;
            }
            let value = formula.value(&|name| self.value(name, x));
            if value.is_finite() {
                let c = self.columns(feature)[0];
                let [low, high] = self.box_of(c, factual);
                x[c] = self.encoding.scaled(feature, value).clamp(low, high);
            }
        }
    }

    fn obeys_one(&self, rule: &crate::tabular::Rule, x: &[f64]) -> bool {
        rule.holds(&|name| self.value(name, x))
    }

    /// Whether some rule is broken whatever values the numerical columns `free` have; true without any, because then `x` is all there is.
    pub fn refuses(&self, x: &[f64], free: &[usize]) -> bool {
        let features = &self.encoding.schema.features;
        let knows = |rule: &crate::tabular::Rule| {
            let names = rule.names();
            free.iter()
                .any(|&c| names.contains(&features[self.encoding.columns[c].feature].name.as_str()))
        };
        let rules = &self.encoding.schema.rules;
        free.is_empty() || rules.iter().any(|r| !knows(r) && !self.obeys_one(r, x))
    }

    /// A feature's value in its own units.
    fn value(&self, name: &str, x: &[f64]) -> f64 {
        let Some(feature) = self.encoding.schema.position(name) else {
            return f64::NAN;
        };
        let columns = self.columns(feature);
        match self.kind(feature) {
            Kind::Numerical => self.encoding.unscaled(feature, x[columns[0]]),
            Kind::Binary => x[columns[0]],
            Kind::Categorical => columns
                .iter()
                .position(|&c| x[c] == 1.0)
                .map_or(f64::NAN, |p| p as f64),
        }
    }

    /// Whether a point is realistic and leaves alone what it must.
    pub fn allows(&self, factual: &[f64], x: &[f64]) -> bool {
        let sound = |feature: usize| {
            let columns = self.columns(feature);
            let changed = self.differs(feature, factual, x);
            if changed && !self.mutable[feature] {
                return false;
            }
            match self.kind(feature) {
                Kind::Numerical => {
                    let c = columns[0];
                    !changed || (x[c] >= self.low[c] - 1e-12 && x[c] <= self.high[c] + 1e-12)
                }
                Kind::Binary => x[columns[0]] == 0.0 || x[columns[0]] == 1.0,
                Kind::Categorical => {
                    let ones = columns.iter().filter(|&&c| x[c] == 1.0).count();
                    let zeros = columns.iter().filter(|&&c| x[c] == 0.0).count();
                    ones == 1 && ones + zeros == columns.len()
                }
            }
        };
        let rules = &self.encoding.schema.rules;
        (0..self.features()).all(sound) && rules.iter().all(|r| self.obeys_one(r, x))
    }

    /// Weighted distance of two realistic points: |d| over the range of a numerical feature, 1 for another category, as a mean over features.
    pub fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        let part = |feature: usize| {
            let columns = self.columns(feature);
            let away = match self.kind(feature) {
                Kind::Numerical => {
                    let c = columns[0];
                    (a[c] - b[c]).abs() / (self.high[c] - self.low[c]).max(1e-12)
                }
                _ => f64::from(u8::from(self.differs(feature, a, b))),
            };
            self.weights[feature] * away
        };
        (0..self.features()).map(part).sum::<f64>() / self.features() as f64
    }

    /// Puts features back to the factual one by one, cheapest last, while the point stays what it has to be.
    pub fn put_back(&self, factual: &[f64], point: &mut Vec<f64>, holds: &dyn Fn(&[f64]) -> bool) {
        let single = |feature: usize| {
            let mut only = factual.to_vec();
            self.copy_feature(feature, point, &mut only);
            self.distance(factual, &only)
        };
        let mut order: Vec<(f64, usize)> = self
            .changed(factual, point)
            .into_iter()
            .map(|f| (single(f), f))
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, feature) in order {
            let mut tried = point.clone();
            self.copy_feature(feature, factual, &mut tried);
            let mut settled = tried.clone();
            self.follow_rules(factual, &mut settled);
            if holds(&settled) {
                *point = settled;
            }
        }
    }

    /// The training row nearest to the factual for which `holds`, with immutable features kept: a realistic point that is known to exist.
    pub fn nearest_row(&self, factual: &[f64], holds: &dyn Fn(&[f64]) -> bool) -> Option<Vec<f64>> {
        let mut order: Vec<(f64, usize)> = self
            .train
            .iter()
            .enumerate()
            .map(|(i, row)| (self.distance(factual, row), i))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        order.into_iter().find_map(|(_, i)| {
            let mut row = self.train[i].clone();
            for feature in (0..self.features()).filter(|&f| !self.mutable[f]) {
                self.copy_feature(feature, factual, &mut row);
            }
            holds(&row).then_some(row)
        })
    }
}
