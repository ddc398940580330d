//! Anything that gives class probabilities for encoded rows.

use std::collections::HashMap;
use std::path::Path;

use super::{Encoding, Network, Result, Schema, Table, TabularError};

/// A classifier of two classes. Methods that need gradients ask for its network.
pub trait Predictor: Sync {
    /// Number of encoded columns.
    fn width(&self) -> usize;

    /// Probabilities of class 0 and class 1 of each row of `rows` (row after row, each of `width` values).
    fn probabilities(&self, rows: &[f64]) -> Vec<[f64; 2]>;

    /// The network behind it, if it is one.
    fn network(&self) -> Option<&Network> {
        None
    }

    /// Probability of a class at one point.
    fn probability(&self, row: &[f64], class: usize) -> f64 {
        self.probabilities(row)[0][class]
    }

    /// The class of a point: 1 only if it is more likely.
    fn class(&self, row: &[f64]) -> usize {
        let [a, b] = self.probabilities(row)[0];
        usize::from(b > a)
    }
}

/// A network in single precision, as the benchmark ran it.
pub struct SinglePrecision<'a>(pub &'a Network);

impl Predictor for SinglePrecision<'_> {
    fn width(&self) -> usize {
        self.0.inputs()
    }

    fn probabilities(&self, rows: &[f64]) -> Vec<[f64; 2]> {
        let mut pass = self.0.single.pass();
        let mut narrow = vec![0.0f32; self.0.inputs()];
        let each = rows.chunks_exact(narrow.len().max(1));
        each.map(|row| {
            for (to, &from) in narrow.iter_mut().zip(row) {
                *to = from as f32;
            }
            self.0.single.forward(&narrow, &mut pass);
            pass.probabilities().map(f64::from)
        })
        .collect()
    }

    fn network(&self) -> Option<&Network> {
        Some(self.0)
    }
}

/// A classifier that is a table of rows with their probability of class 1: any model that was asked beforehand. A point
/// that is not in the table has the answer of the nearest row.
pub struct Lookup {
    width: usize,
    rows: Vec<Vec<f64>>,
    answers: Vec<f64>,
    exact: HashMap<Vec<u64>, f64>,
}

impl Lookup {
    /// Reads a CSV of the features and a column `probability` (of class 1).
    pub fn read(path: &Path, encoding: &Encoding) -> Result<Self> {
        let mut schema: Schema = encoding.schema.clone();
        schema.class = "probability".into();
        schema.majority_class = None;
        let table = Table::read(path, &schema)?;
        let mut answers = Vec::with_capacity(table.rows.len());
        for (row, &class) in table.class_of.iter().enumerate() {
            let text = &table.classes[class];
            let value = text.parse::<f64>().ok().filter(|p| (0.0..=1.0).contains(p));
            answers.push(value.ok_or_else(|| TabularError::Cell {
                file: path.display().to_string(),
                line: row as u64 + 2,
                column: schema.features.len() + 1,
                name: schema.class.clone(),
                expected: "a probability between 0 and 1".into(),
                found: text.clone(),
            })?);
        }
        Ok(Self::new(encoding.encode_all(&table.rows), answers))
    }

    /// From encoded rows and their probability of class 1.
    pub fn new(rows: Vec<Vec<f64>>, answers: Vec<f64>) -> Self {
        let keys = rows.iter().map(|row| key(row));
        let exact = keys.zip(answers.iter().copied()).collect();
        Self {
            width: rows.first().map_or(0, Vec::len),
            rows,
            answers,
            exact,
        }
    }

    fn answer(&self, point: &[f64]) -> f64 {
        if let Some(&p) = self.exact.get(&key(point)) {
            return p;
        }
        let distance = |row: &Vec<f64>| -> f64 {
            let squares = row.iter().zip(point).map(|(a, b)| (a - b) * (a - b));
            squares.sum()
        };
        let each = self.rows.iter().map(distance).zip(&self.answers);
        each.min_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(0.0, |(_, &p)| p)
    }
}

fn key(row: &[f64]) -> Vec<u64> {
    // −0 and 0 are one value.
    row.iter().map(|v| (v + 0.0).to_bits()).collect()
}

impl Predictor for Lookup {
    fn width(&self) -> usize {
        self.width
    }

    fn probabilities(&self, rows: &[f64]) -> Vec<[f64; 2]> {
        let each = rows
            .chunks_exact(self.width.max(1))
            .map(|row| self.answer(row));
        each.map(|p| [1.0 - p, p]).collect()
    }
}
