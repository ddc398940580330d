//! What a study is made of: a TOML file.

use std::path::Path;

use serde::Deserialize;

use super::trial::Trial;
use super::{Result, StudyError};
use crate::attribute::Variant;
use crate::attribute::data::LabelFunction;
use crate::attribute::explainers::Method;
use crate::attribute::metrics::{Conditional, Metric};
use crate::attribute::models::Kind;

/// Configurations inside the program.
pub const SHIPPED: [(&str, &str); 2] = [
    (
        "attribution.toml",
        include_str!("../../../examples/study-attribution.toml"),
    ),
    (
        "attribution-small.toml",
        include_str!("../../../examples/study-attribution-small.toml"),
    ),
];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seeds: u64,
    #[serde(default = "default_train")]
    train: usize,
    #[serde(default = "default_test")]
    test: usize,
    #[serde(default = "default_dim")]
    dim: usize,
    #[serde(default)]
    conditional: Conditional,
    variants: Vec<Variant>,
    explainers: Vec<String>,
    panel: Vec<PanelFile>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PanelFile {
    name: String,
    labels: String,
    model: String,
    rho: Vec<f64>,
    metrics: Vec<String>,
}

fn default_train() -> usize {
    1000
}

fn default_test() -> usize {
    100
}

fn default_dim() -> usize {
    5
}

/// One table or one plot: a label function and a model, over correlations.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    pub name: String,
    pub labels: LabelFunction,
    pub model: Kind,
    pub rho: Vec<f64>,
    pub metrics: Vec<Metric>,
}

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub seeds: u64,
    pub train: usize,
    pub test: usize,
    pub dim: usize,
    pub conditional: Conditional,
    pub variants: Vec<Variant>,
    pub explainers: Vec<Method>,
    pub panels: Vec<Panel>,
}

impl Config {
    /// Reads a file, or one of the program's own by its name.
    pub fn read(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let shipped = SHIPPED.iter().find(|(name, _)| Path::new(name) == path);
        let text = match shipped {
            Some((_, text)) if !path.exists() => (*text).to_owned(),
            _ => std::fs::read_to_string(path).map_err(|e| StudyError::Config {
                file: file.clone(),
                reason: format!(
                    "cannot read: {e}; --print-config {} shows one",
                    SHIPPED[0].0
                ),
            })?,
        };
        Self::parse(&text).map_err(|reason| StudyError::Config { file, reason })
    }

    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        if file.seeds == 0 || file.variants.is_empty() || file.panel.is_empty() {
            return Err("expected at least one seed, one variant and one [[panel]]".into());
        }
        if file.train < 20 || file.test < 2 {
            return Err(format!(
                "expected train of at least 20 rows and test of at least 2, found {} and {}",
                file.train, file.test
            ));
        }
        let mut explainers = Vec::new();
        for name in &file.explainers {
            explainers.push(
                name.parse::<Method>()
                    .map_err(|e| format!("explainers: {e}"))?,
            );
        }
        let mut panels = Vec::new();
        for panel in &file.panel {
            let fail = |e: String| format!("panel {:?}: {e}", panel.name);
            let mut metrics = Vec::new();
            for name in &panel.metrics {
                metrics.push(name.parse::<Metric>().map_err(|e| fail(e.to_string()))?);
            }
            let labels: LabelFunction = panel.labels.parse().map_err(|e| fail(format!("{e}")))?;
            for &rho in &panel.rho {
                let recipe = crate::attribute::data::Recipe::gaussian(labels, file.dim, rho, 0);
                recipe.map_err(|e| fail(format!("rho = {rho}: {e}")))?;
            }
            panels.push(Panel {
                name: panel.name.clone(),
                labels,
                model: panel.model.parse().map_err(|e| fail(format!("{e}")))?,
                rho: panel.rho.clone(),
                metrics,
            });
        }
        Ok(Self {
            seeds: file.seeds,
            train: file.train,
            test: file.test,
            dim: file.dim,
            conditional: file.conditional,
            variants: file.variants,
            explainers,
            panels,
        })
    }

    /// All trials, each once, with all metrics that any panel asks of it.
    pub fn trials(&self) -> Vec<Trial> {
        let mut trials: Vec<Trial> = Vec::new();
        for seed in 0..self.seeds {
            for panel in &self.panels {
                for &rho in &panel.rho {
                    for &variant in &self.variants {
                        let trial = Trial {
                            labels: panel.labels,
                            model: panel.model,
                            rho,
                            seed,
                            variant,
                            conditional: self.conditional,
                            train: self.train,
                            test: self.test,
                            dim: self.dim,
                            explainers: self.explainers.clone(),
                            metrics: panel.metrics.clone(),
                        };
                        match trials.iter_mut().find(|t| t.same_data(&trial)) {
                            None => trials.push(trial),
                            Some(known) => {
                                let more: Vec<Metric> = panel
                                    .metrics
                                    .iter()
                                    .copied()
                                    .filter(|m| !known.metrics.contains(m))
                                    .collect();
                                known.metrics.extend(more);
                            }
                        }
                    }
                }
            }
        }
        trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_studies_are_sound_and_count_each_trial_once() {
        for (name, text) in SHIPPED {
            let config = Config::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let trials = config.trials();
            for (i, trial) in trials.iter().enumerate() {
                assert!(!trials[..i].iter().any(|t| t.same_data(trial)));
            }
        }
        let config = Config::parse(SHIPPED[0].1).unwrap();
        // Five correlations of three label functions on an MLP, and of two more models on one: 25 settings, ten seeds, two variants.
        assert_eq!(config.trials().len(), 25 * 10 * 2);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = SHIPPED[1].1;
        let cases = [
            ("nonlinear-additive", "curved", "one of linear"),
            ("\"shap\"", "\"shop\"", "one of random"),
            ("seeds", "seads", "seads"),
        ];
        for (from, to, words) in cases {
            let error = Config::parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let error = Config::parse(&text.replacen("rho = [", "rho = [-0.9, ", 1)).unwrap_err();
        assert!(error.contains("positive definite"), "{error}");
    }
}
