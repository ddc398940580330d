//! Values with their Monte-Carlo error.

use serde::Serialize;

/// Groups that draws are dealt to; leaving one out at a time shows how much the draws decide.
pub const GROUPS: usize = 10;

/// A value, the standard error that comes from draws, and how many draws each expectation took (0: by formula).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    pub standard_error: f64,
    pub draws: usize,
}

impl Estimate {
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            standard_error: 0.0,
            draws: 0,
        }
    }
}

/// The value of all draws, and the standard error by leaving out each group (Tukey's jackknife), which holds for values that are no
/// means, like correlations.
pub fn jackknife(draws: usize, value: impl Fn(Option<usize>) -> f64) -> Estimate {
    let all = value(None);
    if draws == 0 {
        return Estimate::exact(all);
    }
    let without: Vec<f64> = (0..GROUPS).map(|g| value(Some(g))).collect();
    let mean = without.iter().sum::<f64>() / GROUPS as f64;
    let squares: f64 = without.iter().map(|v| (v - mean).powi(2)).sum();
    Estimate {
        value: all,
        standard_error: (squares * (GROUPS - 1) as f64 / GROUPS as f64).sqrt(),
        draws,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_mean_of_groups_is_that_of_a_mean() {
        let groups: Vec<f64> = (0..GROUPS).map(|g| (g as f64 * 1.3).sin()).collect();
        let estimate = jackknife(10, |without| {
            let kept = (0..GROUPS).filter(|g| Some(*g) != without);
            let values: Vec<f64> = kept.map(|g| groups[g]).collect();
            values.iter().sum::<f64>() / values.len() as f64
        });
        let (_, std) = crate::attribute::mean_and_std(&groups, 1);
        assert!((estimate.standard_error - std / (GROUPS as f64).sqrt()).abs() < 1e-14);
    }
}
