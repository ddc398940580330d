//! The folder of a data set: `dataset.json` (distribution, labels, seed), `train.csv` and `test.csv` (features, then the label).

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{
    Component, Dataset, Features, LabelFunction, Labels, Multinomial, Normal, Normalisation, Split,
    Task,
};
use crate::attribute::Variant;
use crate::attribute::error::{AttributionError, Result};
use crate::attribute::rows::Rows;

const SCHEMA: &str = "foil.attribution.data/1";

#[derive(Serialize, Deserialize)]
struct Description {
    schema: String,
    version: String,
    features: Distribution,
    labels: LabelFunction,
    #[serde(default)]
    weights: Vec<f64>,
    task: Task,
    variant: Variant,
    noise: f64,
    seed: u64,
    normalisation: Normalisation,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "kebab-case")]
enum Distribution {
    Gaussian {
        mean: Vec<f64>,
        covariance: Vec<Vec<f64>>,
    },
    Mixture {
        components: Vec<Part>,
    },
    Multinomial {
        trials: usize,
        probabilities: Vec<f64>,
    },
}

#[derive(Serialize, Deserialize)]
struct Part {
    weight: f64,
    mean: Vec<f64>,
    covariance: Vec<Vec<f64>>,
}

/// Writes the folder.
pub fn write(dataset: &Dataset, folder: &Path) -> Result<()> {
    let fail =
        |path: &Path, e: std::io::Error| AttributionError::file(path, format!("cannot write: {e}"));
    std::fs::create_dir_all(folder).map_err(|e| fail(folder, e))?;
    let square = |c: &Component| c.covariance.chunks(c.mean.len()).map(Vec::from).collect();
    let features = match &dataset.features {
        Features::Normal(f) if f.components().len() == 1 => Distribution::Gaussian {
            mean: f.components()[0].mean.clone(),
            covariance: square(&f.components()[0]),
        },
        Features::Normal(f) => Distribution::Mixture {
            components: f
                .components()
                .iter()
                .map(|c| Part {
                    weight: c.weight,
                    mean: c.mean.clone(),
                    covariance: square(c),
                })
                .collect(),
        },
        Features::Multinomial(f) => Distribution::Multinomial {
            trials: f.trials(),
            probabilities: f.probabilities().to_vec(),
        },
    };
    let description = Description {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        features,
        labels: dataset.labels.function,
        weights: dataset.labels.weights.clone(),
        task: dataset.labels.task,
        variant: dataset.labels.variant,
        noise: dataset.noise,
        seed: dataset.seed,
        normalisation: dataset.normalisation,
    };
    let path = folder.join("dataset.json");
    let mut text = serde_json::to_string_pretty(&description)
        .map_err(|e| AttributionError::file(&path, e.to_string()))?;
    text.push('\n');
    std::fs::write(&path, text).map_err(|e| fail(&path, e))?;
    for (name, split) in [("train.csv", &dataset.train), ("test.csv", &dataset.test)] {
        let path = folder.join(name);
        std::fs::write(&path, table(split)).map_err(|e| fail(&path, e))?;
    }
    Ok(())
}

fn table(split: &Split) -> String {
    let mut names: Vec<String> = (0..split.x.columns).map(|j| format!("x{j}")).collect();
    names.push("y".into());
    let mut text = names.join(",");
    text.push('\n');
    for (row, y) in split.x.iter().zip(&split.y) {
        for value in row {
            text.push_str(&format!("{value},"));
        }
        text.push_str(&format!("{y}\n"));
    }
    text
}

/// Reads a folder that [`write()`] wrote, or one of that layout.
pub fn read(folder: &Path) -> Result<Dataset> {
    let path = folder.join("dataset.json");
    let text = std::fs::read_to_string(&path).map_err(|e| {
        let hint = "name a folder that `foil attribution data` wrote";
        AttributionError::file(&path, format!("cannot read: {e}; {hint}"))
    })?;
    let description: Description = serde_json::from_str(&text)
        .map_err(|e| AttributionError::file(&path, format!("expected {SCHEMA}: {e}")))?;
    if description.schema != SCHEMA {
        let found = format!("expected schema {SCHEMA:?}, found {:?}", description.schema);
        return Err(AttributionError::file(&path, found));
    }
    let features = match description.features {
        Distribution::Gaussian { mean, covariance } => {
            Features::Normal(Normal::gaussian(mean, covariance.concat())?)
        }
        Distribution::Mixture { components } => {
            let component = |part: Part| Component {
                weight: part.weight,
                mean: part.mean,
                covariance: part.covariance.concat(),
            };
            Features::Normal(Normal::mixture(
                components.into_iter().map(component).collect(),
            )?)
        }
        Distribution::Multinomial {
            trials,
            probabilities,
        } => Features::Multinomial(Multinomial::new(trials, probabilities)?),
    };
    let d = features.dimension();
    let [train, test] = ["train.csv", "test.csv"].map(|name| {
        let path = folder.join(name);
        let (_, mut rows) = super::numbers::numbers(&path, &super::Reading::default())?;
        if rows.columns != d + 1 {
            return Err(AttributionError::Mismatch {
                what: path.display().to_string(),
                expected: format!("{d} features and a label, as dataset.json says"),
                found: format!("{} columns", rows.columns),
                hint: String::new(),
            });
        }
        let y = rows.column(d);
        let features: Vec<f64> = rows.iter().flat_map(|r| r[..d].to_vec()).collect();
        rows = Rows::new(features, d);
        Ok(Split { x: rows, y })
    });
    let (train, test) = (train?, test?);
    if let Features::Multinomial(f) = &features {
        for row in train.x.iter().chain(test.x.iter()) {
            f.check(row)?;
        }
    }
    let labels = Labels {
        function: description.labels,
        weights: description.weights,
        task: description.task,
        variant: description.variant,
    };
    Ok(Dataset {
        features,
        labels,
        normalisation: description.normalisation,
        noise: description.noise,
        seed: description.seed,
        train,
        test,
    })
}
