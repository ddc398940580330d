//! One method on one data set: make counterfactuals and score them.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::results::{ResultRow, Results};
use super::{Result, TabularStudyError};
use crate::explain::tabular::{Batch, Ended, Limits, Method, Space, Variant, explain_all};
use crate::metrics::tabular::{Edition, Judged, Scorer};
use crate::report::aligned::Aligned;
use crate::tabular::{DataSet, Network, Predictor, Prepared, Rule, SinglePrecision};

/// How methods are run.
#[derive(Clone, Copy, Debug)]
pub struct TaskSettings {
    pub variant: Variant,
    pub edition: Edition,
    /// Most factuals of a class.
    pub factuals: usize,
    pub seed: u64,
    pub budget: Option<Duration>,
}

/// One method on one data set.
pub struct Task<'a> {
    pub dataset: &'a str,
    pub method: Method,
    pub settings: TaskSettings,
}

impl Task<'_> {
    /// A checksum of everything that the result depends on.
    pub fn made_from(&self, prepared: &Prepared, network: &Network) -> String {
        let mut sum = Sha256::new();
        let settings = format!(
            "{} {} {} {:?} {}",
            env!("CARGO_PKG_VERSION"),
            self.dataset,
            self.method.name(),
            self.settings,
            prepared.encoding.schema.to_json()
        );
        sum.update(settings.as_bytes());
        for row in &prepared.rows {
            sum.update(bytemuck::cast_slice::<f64, u8>(row));
        }
        for part in [&network.w1, &network.b1, &network.w2, &network.b2.to_vec()] {
            sum.update(bytemuck::cast_slice::<f32, u8>(part));
        }
        let digest = sum.finalize();
        digest.iter().take(16).map(|b| format!("{b:02x}")).collect()
    }
}

/// Runs a task; `done` hears how many factuals are finished, of how many.
pub fn run_task(
    task: &Task<'_>,
    prepared: &Prepared,
    network: &Network,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Results> {
    let settings = task.settings;
    let what = || format!("{} {}", task.dataset, task.method.name());
    let explained = |source| TabularStudyError::Explain {
        what: what(),
        source: Box::new(source),
    };
    let space =
        Space::new(&prepared.encoding, &prepared.train, &Limits::default()).map_err(explained)?;
    let chosen: Vec<usize> = prepared.factuals(network, settings.factuals).concat();
    let factuals: Vec<Vec<f64>> = chosen.iter().map(|&r| prepared.rows[r].clone()).collect();
    let batch = Batch {
        space: &space,
        predictor: network,
        method: task.method,
        variant: settings.variant,
        k: 1,
        seed: settings.seed,
        budget: settings.budget,
    };
    let found =
        explain_all(&batch, &factuals, None, &|n| done(n, factuals.len())).map_err(explained)?;
    let as_run = DataSet::named(task.dataset).map_or(&[][..], |d| d.rules_as_run);
    let rules: std::result::Result<Vec<Rule>, _> = as_run.iter().map(|r| Rule::parse(r)).collect();
    let rules = rules.map_err(|source| TabularStudyError::Tabular {
        what: what(),
        source: Box::new(source),
    })?;
    let scorer = Scorer::new(&prepared.encoding, &prepared.rows, &prepared.train, rules).map_err(
        |source| TabularStudyError::Metric {
            what: what(),
            source,
        },
    )?;
    let labels = prepared.table.labels();
    let ones = labels.iter().sum::<usize>() as f64 / labels.len() as f64;
    let single = SinglePrecision(network);
    let rows = chosen
        .iter()
        .zip(&factuals)
        .zip(&found)
        .map(|((&row, factual), (found, seconds))| {
            let class = network.class(factual);
            let best = found.best();
            let asked = |x: &[f64]| match settings.edition {
                Edition::Paper => network.probability(x, 1),
                _ => single.probability(x, 1),
            };
            let judged = Judged {
                factual,
                class,
                counterfactual: best,
                probability: best.map_or(f64::NAN, asked),
            };
            let scores = scorer.score(&judged, settings.edition);
            ResultRow {
                row,
                class,
                misclassified: labels[row] != class,
                prediction: network.probability(factual, class),
                share: if class == 1 { ones } else { 1.0 - ones },
                returned: best.is_some(),
                coverage: scores.validity,
                ruc: scores.ruc,
                rmc: scores.rmc,
                sparsity: scores.sparsity,
                l2: scores.l2,
                madd: scores.madd,
                md: scores.md,
                seconds: *seconds,
                out_of_time: found.ended == Ended::Budget,
                proven: found.proof.map(|p| p.optimal),
            }
        })
        .collect();
    let numerical = prepared.encoding.numerical().len();
    Ok(Results {
        schema: Results::schema(),
        version: env!("CARGO_PKG_VERSION").into(),
        dataset: task.dataset.into(),
        kinds: prepared.encoding.kinds().word().into(),
        method: task.method.name().into(),
        variant: settings.variant.name().into(),
        edition: settings.edition.name().into(),
        seed: settings.seed,
        budget: settings.budget.map(|b| b.as_secs_f64()),
        made_from: task.made_from(prepared, network),
        neurons: network.hidden(),
        auc_test: prepared.auc(network, &prepared.split.test),
        rows_train: prepared.train.len(),
        columns_numerical: numerical,
        columns_categorical: prepared.encoding.width() - numerical,
        rows,
    })
}

/// Coverage, realistic coverage and seconds of each method (means over all factuals).
pub fn summary(results: &[Results]) -> String {
    let mut methods: Vec<&str> = results.iter().map(|r| r.method.as_str()).collect();
    methods.sort_unstable();
    methods.dedup();
    let mut table = Aligned::new(&[
        "method",
        "data sets",
        "factuals",
        "coverage",
        "realistic",
        "seconds",
        "slowest",
    ]);
    for method in methods {
        let of: Vec<&Results> = results.iter().filter(|r| r.method == method).collect();
        let rows: Vec<&ResultRow> = of.iter().flat_map(|r| &r.rows).collect();
        let n = rows.len().max(1) as f64;
        let share = |holds: &dyn Fn(&ResultRow) -> bool| {
            rows.iter().filter(|r| holds(r)).count() as f64 / n
        };
        let seconds: f64 = rows.iter().map(|r| r.seconds).sum::<f64>() / n;
        let slowest = rows.iter().map(|r| r.seconds).fold(0.0, f64::max);
        table.row(&[
            method.to_string(),
            of.len().to_string(),
            rows.len().to_string(),
            format!("{:.3}", share(&|r| r.coverage)),
            format!("{:.3}", share(&|r| r.coverage && r.ruc && r.rmc)),
            format!("{seconds:.4}"),
            format!("{slowest:.3}"),
        ]);
    }
    table.to_string()
}

/// Coverage and realistic coverage of each method on each data set.
pub fn by_data_set(results: &[Results]) -> String {
    let sorted = |of: fn(&Results) -> &str| -> Vec<&str> {
        let mut names: Vec<&str> = results.iter().map(of).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let (sets, methods) = (sorted(|r| &r.dataset), sorted(|r| &r.method));
    let mut heading = vec!["coverage/realistic", "factuals"];
    heading.extend(&methods);
    let mut table = Aligned::new(&heading);
    for set in sets {
        let of: Vec<&Results> = results.iter().filter(|r| r.dataset == set).collect();
        let factuals = of.iter().map(|r| r.rows.len()).max().unwrap_or(0);
        let mut cells = vec![set.to_string(), factuals.to_string()];
        cells.extend(methods.iter().map(|method| {
            let found = of.iter().find(|r| r.method == *method);
            found.map_or("-".into(), |r| {
                format!("{:.2}/{:.2}", r.coverage(), r.realistic())
            })
        }));
        table.row(&cells);
    }
    table.to_string()
}
