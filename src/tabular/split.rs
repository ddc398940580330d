//! Training, validation and test rows, as the benchmark drew them with scikit-learn.

use super::{Encoding, Kind, Result, Table, TabularError};
use crate::stats::legacy_numpy::LegacyNumpy;

/// Row numbers, in the order in which the benchmark wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    pub train: Vec<usize>,
    pub validation: Vec<usize>,
    pub test: Vec<usize>,
    /// The seed that was taken in the end.
    pub seed: u32,
}

/// Seeds that are tried before a table is given up.
const MOST_SEEDS: u32 = 1000;

/// Splits each label's rows 60/20/20; labels follow each other in the order of their first rows. The seed is raised until every category of every
/// categorical feature is among the training rows.
pub fn split(table: &Table, seed: u32) -> Result<Split> {
    let labels = table.labels();
    let lone = (0..2).find(|&l| labels.iter().filter(|&&x| x == l).count() < 5);
    if let Some(label) = lone {
        let count = labels.iter().filter(|&&x| x == label).count();
        return Err(TabularError::Rows {
            what: format!("label {label}"),
            reason: format!("{count} rows; splitting needs at least 5 of each label"),
        });
    }
    for seed in seed..seed.saturating_add(MOST_SEEDS) {
        let drawn = draw(&labels, seed);
        if all_categories(table, &drawn.train) {
            return Ok(drawn);
        }
    }
    Err(TabularError::Rows {
        what: "split".into(),
        reason: format!(
            "no seed from {seed} on puts every category into the training rows; take rare categories out of the schema"
        ),
    })
}

fn draw(labels: &[usize], seed: u32) -> Split {
    let mut out = Split {
        train: Vec::new(),
        validation: Vec::new(),
        test: Vec::new(),
        seed,
    };
    let first = labels[0];
    for label in [first, 1 - first] {
        let rows: Vec<usize> = (0..labels.len()).filter(|&r| labels[r] == label).collect();
        let order = LegacyNumpy::new(seed).permutation(rows.len() as u32);
        let held_out = (0.4 * rows.len() as f64).ceil() as usize;
        out.train.extend(order[held_out..].iter().map(|&i| rows[i]));
        let again = LegacyNumpy::new(seed).permutation(held_out as u32);
        let half = (0.5 * held_out as f64).ceil() as usize;
        let row = |i: &usize| rows[order[*i]];
        out.validation.extend(again[..half].iter().map(row));
        out.test.extend(again[half..].iter().map(row));
    }
    out
}

fn all_categories(table: &Table, train: &[usize]) -> bool {
    let categorical = |f: &usize| table.schema.features[*f].kind == Kind::Categorical;
    (0..table.schema.features.len())
        .filter(categorical)
        .all(|feature| {
            let mut seen = vec![false; table.schema.features[feature].values.len()];
            let mut occurs = vec![false; seen.len()];
            for &row in train {
                seen[table.rows[row][feature] as usize] = true;
            }
            for row in &table.rows {
                occurs[row[feature] as usize] = true;
            }
            // A category that a schema lists and no row has cannot be asked for.
            seen.iter()
                .zip(&occurs)
                .all(|(seen, occurs)| *seen || !occurs)
        })
}

impl Split {
    /// Encoded training rows.
    pub fn training_rows(&self, encoding: &Encoding, table: &Table) -> Vec<Vec<f64>> {
        let row = |&r: &usize| encoding.encode(&table.rows[r]);
        self.train.iter().map(row).collect()
    }
}
