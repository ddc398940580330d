//! What the trials say together: tables beside the published values, a CSV of all values, plots.

use std::fmt::Write;

use super::config::{Config, Panel};
use super::figure::{Line, figure};
use super::published::{FAULTS, PUBLISHED_TRIALS, faults, published};
use super::trial::{Found, Trial};
use crate::attribute::metrics::Metric;
use crate::attribute::{Variant, mean_and_std};

/// Mean ± standard deviation over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub mean: f64,
    /// With divisor n − 1; 0 for one seed.
    pub std: f64,
    pub seeds: usize,
}

/// All trials of a study.
pub struct Results<'a> {
    trials: Vec<(&'a Trial, Found)>,
}

impl<'a> Results<'a> {
    pub fn new(trials: Vec<(&'a Trial, Found)>) -> Self {
        Self { trials }
    }

    /// Of one explainer and metric in a panel at one correlation.
    pub fn cell(
        &self,
        panel: &Panel,
        rho: f64,
        variant: Variant,
        metric: Metric,
        explainer: &str,
    ) -> Option<Cell> {
        let own = self.trials.iter().filter(|(t, _)| {
            t.labels == panel.labels
                && t.model == panel.model
                && t.rho == rho
                && t.variant == variant
        });
        let values: Vec<f64> = own
            .filter_map(|(_, f)| Some(f.values.get(metric.name())?.get(explainer)?.0))
            .collect();
        let (mean, std) = match values.len() {
            0 => return None,
            1 => (values[0], 0.0),
            _ => mean_and_std(&values, 1),
        };
        Some(Cell {
            mean,
            std,
            seeds: values.len(),
        })
    }

    /// Every value, a line each.
    pub fn csv(&self) -> String {
        let mut text = String::from(
            "labels,model,rho,seed,variant,metric,explainer,value,monte_carlo_error\n",
        );
        for (trial, found) in &self.trials {
            for (metric, row) in &found.values {
                for (explainer, (value, error)) in row {
                    let _ = writeln!(
                        text,
                        "{},{},{},{},{},{metric},{explainer},{value},{error}",
                        trial.labels.name(),
                        trial.model.name(),
                        trial.rho,
                        trial.seed,
                        trial.variant.name()
                    );
                }
            }
        }
        text
    }

    /// All tables as text: a panel of one correlation has metrics down and the published values beside, others have correlations down.
    pub fn text(&self, config: &Config) -> String {
        let mut text = String::new();
        for panel in &config.panels {
            for &variant in &config.variants {
                let _ = writeln!(
                    text,
                    "{} ({} labels, {}), {}: mean ± std over {} seeds",
                    panel.name,
                    panel.labels.name(),
                    panel.model.name(),
                    variant.name(),
                    config.seeds
                );
                match panel.rho.len() {
                    1 => self.one_rho(&mut text, config, panel, variant),
                    _ => self.by_rho(&mut text, config, panel, variant),
                }
                text.push('\n');
            }
        }
        text
    }

    /// What the trials took together. It stands in no file of results, so that these do not depend on the machine.
    pub fn seconds(&self) -> f64 {
        self.trials.iter().map(|(_, f)| f.seconds).sum()
    }

    fn one_rho(&self, text: &mut String, config: &Config, panel: &Panel, variant: Variant) {
        let is_table_1 = panel.labels.name() == "nonlinear-additive"
            && panel.model.name() == "mlp"
            && panel.rho == [0.5]
            && config.dim == 5;
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(config.explainers.iter().map(|m| m.name().to_owned()));
        let (mut compared, mut agree, mut letters) = (0, 0, Vec::new());
        for &metric in &panel.metrics {
            let arrow = if metric.lower_is_better() {
                "↓"
            } else {
                "↑"
            };
            let mut ours = vec![format!("{} {arrow}", metric.name())];
            let mut theirs = vec!["  published".to_owned()];
            for method in &config.explainers {
                let cell = self.cell(panel, panel.rho[0], variant, metric, method.name());
                let Some(cell) = cell else {
                    ours.push("-".into());
                    theirs.push("-".into());
                    continue;
                };
                ours.push(format!("{:.3} ± {:.3}", cell.mean, cell.std));
                let Some((mean, std)) =
                    published(metric.name(), method.name()).filter(|_| is_table_1)
                else {
                    theirs.push("-".into());
                    continue;
                };
                let marks: String = faults(metric.name(), method.name()).into_iter().collect();
                letters.extend(marks.chars());
                compared += 1;
                // Both are means: four standard errors of their difference. One seed has no deviation of its own.
                let own = if cell.seeds > 1 { cell.std } else { std };
                let variance = std * std / PUBLISHED_TRIALS + own * own / cell.seeds as f64;
                let far = (cell.mean - mean).abs() > 4.0 * variance.sqrt();
                agree += usize::from(!far);
                let star = if far { "*" } else { "" };
                theirs.push(
                    format!("{star}{mean:.3} ± {std:.3} {marks}")
                        .trim_end()
                        .to_owned(),
                );
            }
            rows.push(ours);
            if is_table_1 {
                rows.push(theirs);
            }
        }
        text.push_str(&crate::report::table::aligned(&rows));
        if compared > 0 {
            let _ = writeln!(
                text,
                "{agree} of {compared} cells agree with the published ones within four standard errors of the two means; * does not."
            );
            letters.sort_unstable();
            letters.dedup();
            for (letter, fault) in FAULTS.iter().filter(|(l, _)| letters.contains(l)) {
                let _ = writeln!(text, "{letter}: {fault}");
            }
        }
    }

    fn by_rho(&self, text: &mut String, config: &Config, panel: &Panel, variant: Variant) {
        for &metric in &panel.metrics {
            let mut rows = vec![vec![format!("{}, rho", metric.name())]];
            rows[0].extend(config.explainers.iter().map(|m| m.name().to_owned()));
            for &rho in &panel.rho {
                let mut row = vec![rho.to_string()];
                row.extend(config.explainers.iter().map(|m| {
                    let cell = self.cell(panel, rho, variant, metric, m.name());
                    cell.map_or("-".into(), |c| format!("{:.3} ± {:.3}", c.mean, c.std))
                }));
                rows.push(row);
            }
            text.push_str(&crate::report::table::aligned(&rows));
        }
    }

    /// A plot of each metric against the correlation, for each panel with several and each variant: file name and content.
    pub fn figures(&self, config: &Config) -> Vec<(String, String)> {
        let mut made = Vec::new();
        for panel in config.panels.iter().filter(|p| p.rho.len() > 1) {
            for &variant in &config.variants {
                for &metric in &panel.metrics {
                    let line = |name: &str| Line {
                        name: name.into(),
                        points: panel
                            .rho
                            .iter()
                            .filter_map(|&rho| {
                                let cell = self.cell(panel, rho, variant, metric, name)?;
                                Some((rho, cell.mean, cell.std))
                            })
                            .collect(),
                    };
                    let lines: Vec<Line> =
                        config.explainers.iter().map(|m| line(m.name())).collect();
                    let title = format!(
                        "{}: {} labels, {}, {}",
                        metric.name(),
                        panel.labels.name(),
                        panel.model.name(),
                        variant.name()
                    );
                    let file = format!("{}-{}-{}.svg", panel.name, metric.name(), variant.name());
                    made.push((file, figure(&title, "rho", metric.name(), &lines)));
                }
            }
        }
        made
    }
}
