//! What a study does: settings × explainers × runs.

use super::LatentStudyError;
use crate::explain::latent::{Method, NAMES, SETTINGS, Setting, Variant};

/// A study of explainers on the worlds inside the program.
#[derive(Clone, Debug)]
pub struct Plan {
    pub settings: Vec<Setting>,
    pub methods: Vec<Method>,
    /// Runs of explainers that draw random numbers; the others need one.
    pub runs: usize,
    /// Explanations of each sample.
    pub n: usize,
    /// Samples of each of the eight levels of confidence.
    pub samples: usize,
    /// Latents that samples are chosen from.
    pub validation: usize,
    pub variant: Variant,
}

/// One piece of a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    pub setting: Setting,
    pub method: Method,
    pub run: usize,
}

impl Unit {
    /// As files are named.
    pub fn name(&self) -> String {
        format!(
            "{}-{}-{}",
            self.setting.name(),
            self.method.name(),
            self.run
        )
    }
}

impl Plan {
    /// Explainers by name (`all` for all), with the paper's settings but for `iterations`, where a method has them.
    pub fn methods(
        names: &[String],
        variant: Variant,
        iterations: Option<usize>,
    ) -> Result<Vec<Method>, LatentStudyError> {
        let all = names.iter().any(|n| n == "all");
        let mut methods: Vec<Method> = Vec::new();
        let names: Vec<&str> = match all {
            true => NAMES.to_vec(),
            false => names.iter().map(String::as_str).collect(),
        };
        for name in names {
            let settings: Vec<(String, String)> = match iterations {
                Some(i) if ["dice", "dive", "latent-cf", "xgem"].contains(&name) => {
                    vec![("iterations".into(), i.to_string())]
                }
                _ => Vec::new(),
            };
            let method = Method::new(name, variant, &settings);
            let method =
                method.map_err(|e| LatentStudyError::Usage(format!("--explainers: {e}")))?;
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        Ok(methods)
    }

    /// Settings of the given numbers of tied typefaces and correlations.
    pub fn settings(
        spurious: &[usize],
        correlation: &[f64],
    ) -> Result<Vec<Setting>, LatentStudyError> {
        let mut settings = Vec::new();
        for &spurious in spurious {
            for &correlation in correlation {
                let setting = setting(spurious, correlation)?;
                if !settings.contains(&setting) {
                    settings.push(setting);
                }
            }
        }
        Ok(settings)
    }

    /// All pieces, in order.
    pub fn units(&self) -> Vec<Unit> {
        let mut units = Vec::new();
        for &setting in &self.settings {
            for &method in &self.methods {
                for run in 0..if is_random(&method) { self.runs } else { 1 } {
                    units.push(Unit {
                        setting,
                        method,
                        run,
                    });
                }
            }
        }
        units
    }

    pub fn check(&self) -> Result<(), LatentStudyError> {
        let refuse = |what: &str| Err(LatentStudyError::Usage(what.into()));
        if self.settings.is_empty() || self.methods.is_empty() {
            return refuse(
                "--spurious, --correlation and --explainers: expected one of each at least",
            );
        }
        if !(1..=1000).contains(&self.runs) {
            return refuse("--runs: expected 1 to 1000");
        }
        if !(1..=10_000).contains(&self.n) {
            return refuse("--n: expected 1 to 10000");
        }
        if self.validation > 1_000_000 {
            return refuse("--validation: expected at most 1000000");
        }
        if self.samples == 0 || self.samples > self.validation / 8 {
            return refuse(
                "--samples and --validation: expected one sample of each level at least, and a validation set of eight times as many latents",
            );
        }
        Ok(())
    }
}

/// Whether runs differ.
pub fn is_random(method: &Method) -> bool {
    matches!(
        method,
        Method::Is { .. } | Method::Dive(_) | Method::Gs(_) | Method::Xgem(_)
    )
}

/// The setting of these numbers, if the program holds its classifier.
pub fn setting(spurious: usize, correlation: f64) -> Result<Setting, LatentStudyError> {
    let found = { SETTINGS.into_iter() }
        .find(|s| s.spurious == spurious && (s.correlation() - correlation).abs() < 1e-9);
    found.ok_or_else(|| {
        let known = SETTINGS.map(|s| format!("{} with {}", s.spurious, s.correlation()));
        LatentStudyError::Usage(format!(
            "--spurious {spurious} --correlation {correlation}: expected a setting that the program holds a classifier of ({}); `foil latent` takes worlds of your own (--world DIR)",
            known.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explainers_without_random_numbers_run_once() {
        let plan = Plan {
            settings: Plan::settings(&[6, 10], &[0.5, 0.95]).unwrap(),
            methods: Plan::methods(&["all".into()], Variant::Correct, None).unwrap(),
            runs: 3,
            n: 10,
            samples: 100,
            validation: 10_000,
            variant: Variant::Correct,
        };
        plan.check().unwrap();
        // is, dive, gs and xgem three times; dice, stylex and latent-cf once.
        assert_eq!(plan.units().len(), 4 * (4 * 3 + 3));
        let mut names: Vec<String> = plan.units().iter().map(Unit::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 60);
        assert!(
            Plan {
                validation: 799,
                ..plan.clone()
            }
            .check()
            .is_err()
        );
        assert!(
            Plan {
                samples: usize::MAX,
                ..plan
            }
            .check()
            .is_err()
        );
    }

    #[test]
    fn a_setting_is_there_once() {
        let settings = Plan::settings(&[10, 6, 10], &[0.95, 0.95]).unwrap();
        let names: Vec<String> = settings.iter().map(|s| s.name()).collect();
        assert_eq!(names, ["10_95", "6_95"]);
    }

    #[test]
    fn settings_without_a_classifier_are_refused_with_those_there_are() {
        let message = Plan::settings(&[8], &[0.5]).unwrap_err().to_string();
        assert!(message.contains("10 with 0.95"), "{message}");
        assert!(Plan::methods(&["best".into()], Variant::Correct, None).is_err());
    }
}
