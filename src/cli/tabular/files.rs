//! Options that several commands share, and the files behind them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::attribute;
use crate::cli::{UsageError, say};
use crate::tabular::{
    Encoding, Kind, Lookup, Network, Predictor, Prepared, Schema, Table, TabularError, infer_schema,
};

/// A table and what its columns are.
#[derive(Args)]
pub struct DataArgs {
    /// The table: a CSV with a header and a class column
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// What its columns are (JSON); without it the program guesses and says what
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Name of the class column, where there is no schema (default: `class`, else the last column)
    #[arg(long, value_name = "NAME", conflicts_with = "schema")]
    pub class: Option<String>,
}

impl DataArgs {
    /// The schema, read or guessed.
    pub fn read_schema(&self, quiet: bool) -> anyhow::Result<Schema> {
        match &self.schema {
            Some(path) => Ok(Schema::read(path)?),
            None => {
                let schema = infer_schema(&self.data, self.class.as_deref())?;
                if !quiet {
                    let count =
                        |kind: Kind| schema.features.iter().filter(|f| f.kind == kind).count();
                    say(&format!(
                        "no --schema: guessed {} numerical, {} categorical and {} binary features, class `{}`; `foil tabular train --print-schema` shows all",
                        count(Kind::Numerical),
                        count(Kind::Categorical),
                        count(Kind::Binary),
                        schema.class
                    ));
                }
                Ok(schema)
            }
        }
    }

    /// The table with its encoding and split.
    pub fn prepare(&self, quiet: bool) -> anyhow::Result<Prepared> {
        let schema = self.read_schema(quiet)?;
        let prepared = Prepared::read(&self.data, &schema)?;
        if prepared.table.dropped > 0 && !quiet {
            say(&format!(
                "{} rows with empty cells are left out",
                prepared.table.dropped
            ));
        }
        Ok(prepared)
    }
}

/// A network, a table of answers, or what an ONNX file holds.
pub enum Model {
    Network(Network),
    Lookup(Lookup),
    Onnx(Onnx),
}

/// A model of another program, that gives the probability of class 1.
pub struct Onnx {
    model: attribute::models::Model,
    width: usize,
}

impl Onnx {
    /// Opens a file and asks it about all rows of the table: what is no probability is refused before a search begins.
    fn open(path: &Path, prepared: &Prepared) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| shown.clone())?;
        let model = attribute::models::from_onnx(&bytes, path)?;
        let width = prepared.encoding.width();
        let inputs = model.dimension();
        let model = model.for_data(width).map_err(|_| TabularError::Width {
            file: shown.clone(),
            expected: format!("{width} columns"),
            found: format!("{inputs} inputs"),
        })?;
        for (row, x) in prepared.rows.iter().enumerate() {
            let p = model.predict_one(x);
            if !(0.0..=1.0).contains(&p) {
                anyhow::bail!(
                    "{shown}: expected probabilities of class 1 (between 0 and 1, as a last Sigmoid gives them), found {p} for row {row} of the table"
                );
            }
        }
        Ok(Self { model, width })
    }
}

impl Predictor for Onnx {
    fn width(&self) -> usize {
        self.width
    }

    fn probabilities(&self, rows: &[f64]) -> Vec<[f64; 2]> {
        let mut out = vec![0.0; rows.len() / self.width.max(1)];
        self.model.predict_into(rows, &mut out);
        out.into_iter().map(|p| [1.0 - p, p]).collect()
    }
}

impl Model {
    /// Opens `.safetensors` as a network, `.onnx` as any model, and `.csv` as a table of rows with their `probability` of class 1.
    pub fn open(path: &Path, prepared: &Prepared) -> anyhow::Result<Self> {
        let extension = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        match extension {
            "safetensors" => {
                let network = Network::read(path)?;
                prepared.check(&path.display().to_string(), &network)?;
                Ok(Self::Network(network))
            }
            "csv" => Ok(Self::Lookup(Lookup::read(path, &prepared.encoding)?)),
            "onnx" => Ok(Self::Onnx(Onnx::open(path, prepared)?)),
            _ => Err(UsageError(format!(
                "--model {}: expected a network (.safetensors), a model (.onnx) or a table of rows with a column `probability` (.csv)",
                path.display()
            ))
            .into()),
        }
    }

    pub fn predictor(&self) -> &dyn Predictor {
        match self {
            Self::Network(network) => network,
            Self::Lookup(lookup) => lookup,
            Self::Onnx(model) => model,
        }
    }
}

/// Factuals: the rows of a file, or the benchmark's choice; with their names in results.
pub fn factuals(
    file: Option<&Path>,
    select: usize,
    prepared: &Prepared,
    model: &dyn Predictor,
) -> anyhow::Result<Vec<(usize, Vec<f64>)>> {
    match file {
        Some(path) => {
            let table = Table::read_unlabelled(path, &prepared.table.schema)?;
            let rows = table.rows.iter().map(|r| prepared.encoding.encode(r));
            Ok(rows.enumerate().collect())
        }
        None => {
            let chosen = prepared.factuals(model, select).concat();
            Ok(chosen
                .into_iter()
                .map(|r| (r, prepared.rows[r].clone()))
                .collect())
        }
    }
}

/// Prefix of columns that hold encoded values.
const ENCODED: &str = "encoded:";

/// Writes counterfactuals in the features' own units; with `encoded` also what the method gave, which need not be a row of the table.
pub fn write_counterfactuals(
    path: &Path,
    encoding: &Encoding,
    rows: &[(usize, usize, Vec<f64>)],
    encoded: bool,
) -> anyhow::Result<()> {
    let shown = path.display().to_string();
    let mut writer = csv::Writer::from_path(path).with_context(|| shown.clone())?;
    let mut header = vec!["factual".to_string(), "number".into()];
    header.extend(encoding.schema.features.iter().map(|f| f.name.clone()));
    if encoded {
        header.extend(
            encoding
                .columns
                .iter()
                .map(|c| format!("{ENCODED}{}", c.name)),
        );
    }
    writer
        .write_record(&header)
        .with_context(|| shown.clone())?;
    for (factual, number, vector) in rows {
        let decoded = encoding.decode(vector);
        let mut cells = vec![factual.to_string(), number.to_string()];
        let features = encoding.schema.features.iter().zip(&decoded);
        cells.extend(features.map(|(f, v)| Table::shown(f, *v)));
        if encoded {
            cells.extend(vector.iter().map(f64::to_string));
        }
        writer.write_record(&cells).with_context(|| shown.clone())?;
    }
    writer.flush().with_context(|| shown)
}

/// Reads what `write_counterfactuals` wrote: the factual of each row, and the row encoded.
pub fn read_counterfactuals(
    path: &Path,
    encoding: &Encoding,
) -> anyhow::Result<Vec<(usize, Vec<f64>)>> {
    let shown = path.display().to_string();
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_path(path)
        .with_context(|| shown.clone())?;
    let names = reader.headers().with_context(|| shown.clone())?.clone();
    let place = |name: &str| names.iter().position(|n| n == name);
    let Some(factual) = place("factual") else {
        anyhow::bail!(
            "{shown}: expected a column `factual` with the number of the factual, found {}",
            names.iter().collect::<Vec<_>>().join(", ")
        );
    };
    let encoded: Option<Vec<usize>> = encoding
        .columns
        .iter()
        .map(|c| place(&format!("{ENCODED}{}", c.name)))
        .collect();
    let mut numbers = Vec::new();
    let mut vectors = Vec::new();
    for record in reader.records() {
        let record = record.with_context(|| shown.clone())?;
        let line = record.position().map_or(0, csv::Position::line);
        let number = record[factual].parse::<usize>();
        numbers.push(number.map_err(|_| {
            anyhow::anyhow!(
                "{shown}, line {line}: `factual`: expected a whole number, found {:?}",
                &record[factual]
            )
        })?);
        if let Some(columns) = &encoded {
            let value = |&at: &usize| {
                record[at].parse::<f64>().map_err(|_| {
                    anyhow::anyhow!(
                        "{shown}, line {line}, column {}: expected a number, found {:?}",
                        at + 1,
                        &record[at]
                    )
                })
            };
            vectors.push(
                columns
                    .iter()
                    .map(value)
                    .collect::<anyhow::Result<Vec<f64>>>()?,
            );
        }
    }
    if encoded.is_none() {
        let mut schema = encoding.schema.clone();
        // Counterfactuals need not be in range, and have no class.
        schema.class = "factual".into();
        schema.majority_class = None;
        let table = Table::read_unlabelled(path, &schema)?;
        vectors = table.rows.iter().map(|r| encoding.encode(r)).collect();
    }
    Ok(numbers.into_iter().zip(vectors).collect())
}
