//! Whether a counterfactual could be a row of the table: univariate and multivariate constraints.

use crate::tabular::{Encoding, Kind, Rule};

/// The rules that a realistic row obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealismRules {
    /// Groups have one 1 and 0 elsewhere, and the second-order rules hold as well.
    Paper,
    /// Groups have exactly one entry above 0; second-order rules, where there are any, replace this check.
    V1,
    /// Groups sum to 1; no ranges, no second-order rules.
    V2,
}

/// Parts of the two constraints; none where a table has nothing to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Realism {
    pub binary: Option<bool>,
    pub range: Option<bool>,
    pub one_hot: Option<bool>,
    pub second_order: Option<bool>,
    /// A number lies at an end of its range to the last digits: the code of v1 finds it inside or outside by rounding.
    pub at_an_end: bool,
}

/// Rounding that a value at the end of its range may show, in standard deviations.
const SLACK: f64 = 1e-12;

impl Realism {
    /// Checks a vector.
    pub fn of(encoding: &Encoding, rules: &[Rule], by: RealismRules, vector: &[f64]) -> Self {
        let zero_one = encoding.zero_one();
        // A vector with a hole is no row, wherever the hole is.
        let whole = vector.iter().all(|v| v.is_finite());
        let binary = whole
            && zero_one
                .iter()
                .all(|&c| vector[c] == 0.0 || vector[c] == 1.0);
        let groups = encoding.groups();
        let one_hot = whole && groups.iter().all(|group| group_holds(by, group, vector));
        let numerical = encoding.numerical();
        let range = numerical.iter().all(|&c| in_range(encoding, c, vector[c]));
        Self {
            binary: (!zero_one.is_empty()).then_some(binary),
            range: (!numerical.is_empty()).then_some(range),
            one_hot: (!zero_one.is_empty()).then_some(one_hot),
            second_order: (!rules.is_empty()).then(|| obeys(encoding, rules, vector)),
            at_an_end: numerical.iter().any(|&c| at_an_end(encoding, c, vector[c])),
        }
    }

    /// Univariate constraints.
    pub fn ruc(&self, by: RealismRules) -> bool {
        let range = by == RealismRules::V2 || self.range.unwrap_or(true);
        self.binary.unwrap_or(true) && range
    }

    /// Multivariate constraints.
    pub fn rmc(&self, by: RealismRules) -> bool {
        let (groups, rules) = (self.one_hot.unwrap_or(true), self.second_order);
        match by {
            RealismRules::Paper => groups && rules.unwrap_or(true),
            RealismRules::V1 => rules.unwrap_or(groups),
            RealismRules::V2 => groups,
        }
    }
}

fn group_holds(by: RealismRules, group: &[usize], vector: &[f64]) -> bool {
    match by {
        RealismRules::Paper => {
            let ones = group.iter().filter(|&&c| vector[c] == 1.0).count();
            ones == 1 && group.iter().all(|&c| vector[c] == 0.0 || vector[c] == 1.0)
        }
        RealismRules::V1 => group.iter().filter(|&&c| vector[c] > 0.0).count() == 1,
        RealismRules::V2 => group.iter().map(|&c| vector[c]).sum::<f64>() == 1.0,
    }
}

fn in_range(encoding: &Encoding, column: usize, value: f64) -> bool {
    let feature = encoding.columns[column].feature;
    let [min, max] = encoding.range[feature].map(|end| encoding.scaled(feature, end));
    value >= min - SLACK * min.abs().max(1.0) && value <= max + SLACK * max.abs().max(1.0)
}

fn at_an_end(encoding: &Encoding, column: usize, value: f64) -> bool {
    let feature = encoding.columns[column].feature;
    let ends = encoding.range[feature].map(|end| encoding.scaled(feature, end));
    ends.iter()
        .any(|end| (value - end).abs() <= SLACK * end.abs().max(1.0))
}

/// Whether second-order rules hold, in the features' own units.
fn obeys(encoding: &Encoding, rules: &[Rule], vector: &[f64]) -> bool {
    let value = |name: &str| -> f64 {
        let Some(feature) = encoding.schema.position(name) else {
            return f64::NAN;
        };
        let columns = &encoding.of_feature[feature];
        match encoding.schema.features[feature].kind {
            Kind::Numerical => encoding.unscaled(feature, vector[columns[0]]),
            Kind::Binary => vector[columns[0]],
            Kind::Categorical => columns
                .iter()
                .position(|&c| vector[c] == 1.0)
                .map_or(f64::NAN, |p| p as f64),
        }
    };
    rules.iter().all(|rule| rule.holds(&value))
}
