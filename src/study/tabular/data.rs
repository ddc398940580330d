//! The data sets of a folder.

use std::path::{Path, PathBuf};

use super::{Result, TabularStudyError};
use crate::tabular::{DataSet, FitSettings, Grid, Network, Prepared, Rule, Schema};

/// A data set that can be studied.
pub struct StudySet {
    pub name: String,
    pub data: PathBuf,
    pub schema: Schema,
    /// The network's file, if there is one; else one is trained with `training`.
    pub model: Option<PathBuf>,
    pub training: FitSettings,
}

/// Finds the data sets of a folder: `schema.json` (or `datasets/schema.json`) holds one schema for each name; the rows are in `<name>.csv` beside it; networks
/// are in `models/<name>.safetensors`. Names whose rows are absent are given back as well.
pub fn find_sets(folder: &Path) -> Result<(Vec<StudySet>, Vec<String>)> {
    let places = [folder.to_path_buf(), folder.join("datasets")];
    let Some(place) = places.iter().find(|p| p.join("schema.json").is_file()) else {
        return Err(TabularStudyError::Input(format!(
            "{}: expected schema.json or datasets/schema.json with one schema for each data set, found neither; `foil tabular datasets` says what a folder holds",
            folder.display()
        )));
    };
    let file = place.join("schema.json");
    let named = |what: &str| {
        let what = what.to_string();
        move |source| TabularStudyError::Tabular {
            what,
            source: Box::new(source),
        }
    };
    let (mut sets, mut absent) = (Vec::new(), Vec::new());
    for (name, value) in Schema::read_many(&file).map_err(named("schema"))? {
        let data = place.join(format!("{name}.csv"));
        if !data.is_file() || value.get("features").is_none() {
            absent.push(name);
            continue;
        }
        let mut schema =
            Schema::from_json(&file.display().to_string(), &value).map_err(named(&name))?;
        if let (true, Some(known)) = (schema.rules.is_empty(), DataSet::named(&name)) {
            let rules = known.rules.iter().map(|r| Rule::parse(r));
            schema.rules = rules
                .collect::<std::result::Result<_, _>>()
                .map_err(named(&name))?;
        }
        let training = &value["training"];
        let number = |key: &str| training.get(key).and_then(serde_json::Value::as_f64);
        let model = folder.join("models").join(format!("{name}.safetensors"));
        sets.push(StudySet {
            model: model.is_file().then_some(model),
            training: FitSettings {
                learning_rate: number("learning_rate").unwrap_or(0.001) as f32,
                epochs: number("epochs").unwrap_or(100.0) as usize,
                hidden: number("hidden").unwrap_or(0.0) as usize,
                seed: 0,
            },
            name,
            data,
            schema,
        });
    }
    if sets.is_empty() {
        return Err(TabularStudyError::Input(format!(
            "{}: none of its data sets has a CSV beside it; expected e.g. {}",
            file.display(),
            place.join("Iris.csv").display()
        )));
    }
    Ok((sets, absent))
}

impl StudySet {
    /// Reads rows and network; trains one if there is none.
    pub fn open(&self) -> Result<(Prepared, Network)> {
        let named = |source| TabularStudyError::Tabular {
            what: self.name.clone(),
            source: Box::new(source),
        };
        let prepared = Prepared::read(&self.data, &self.schema).map_err(named)?;
        let network = match &self.model {
            Some(path) => {
                let network = Network::read(path).map_err(named)?;
                prepared
                    .check(&path.display().to_string(), &network)
                    .map_err(named)?;
                network
            }
            None => {
                let mut settings = self.training;
                if settings.hidden == 0 {
                    settings.hidden = prepared.encoding.width() + 1;
                }
                let labels = |rows: &[usize]| -> Vec<usize> {
                    rows.iter().map(|&r| prepared.table.label(r)).collect()
                };
                let validation: Vec<Vec<f64>> = prepared
                    .split
                    .validation
                    .iter()
                    .map(|&r| prepared.rows[r].clone())
                    .collect();
                let grid = Grid {
                    train: &prepared.train,
                    train_labels: &labels(&prepared.split.train),
                    validation: &validation,
                    validation_labels: &labels(&prepared.split.validation),
                };
                grid.fit(settings).network
            }
        };
        Ok((prepared, network))
    }
}
