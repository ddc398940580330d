//! From rows to the vectors a network sees, and back.
//!
//! One column for each category of a categorical feature, one for a binary feature (0 or 1), one for a numerical feature:
//! z = (a − mean) / std with the population standard deviation of all rows. The order is the benchmark's: columns have names made of the
//! feature's number and the category. In tables without numbers the names are sorted as text (`10_a` stands before `1_a`); in mixed tables the
//! number has four digits and numerical columns come last.

use super::{Kind, Record, Result, Schema, Table, TabularError};

/// Which kinds of features a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kinds {
    Numerical,
    Categorical,
    Mixed,
}

impl Kinds {
    /// The benchmark's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Kinds::Numerical => "numerical",
            Kinds::Categorical => "categorical",
            Kinds::Mixed => "mixed",
        }
    }
}

/// One encoded column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub feature: usize,
    /// Which category it stands for; none for binary and numerical features.
    pub category: Option<usize>,
}

/// How rows of one table become vectors.
#[derive(Clone, Debug)]
pub struct Encoding {
    pub schema: Schema,
    pub columns: Vec<Column>,
    /// Columns of each feature, in the order of its categories.
    pub of_feature: Vec<Vec<usize>>,
    /// Mean and population standard deviation of each numerical feature over all rows (0 and 1 for others).
    pub mean: Vec<f64>,
    pub std: Vec<f64>,
    /// Realistic range of each feature in its own units: that of the schema, else of all rows.
    pub range: Vec<[f64; 2]>,
}

impl Encoding {
    /// The encoding of a table; its statistics are of all rows.
    pub fn new(table: &Table) -> Result<Self> {
        let schema = table.schema.clone();
        let columns = columns(&schema);
        let mut of_feature = vec![Vec::new(); schema.features.len()];
        for (at, column) in columns.iter().enumerate() {
            of_feature[column.feature].push((column.category, at));
        }
        let of_feature = of_feature
            .into_iter()
            .map(|mut list| {
                list.sort();
                list.into_iter().map(|(_, at)| at).collect()
            })
            .collect();
        let n = schema.features.len();
        let (mut mean, mut std, mut range) = (vec![0.0; n], vec![1.0; n], vec![[0.0, 1.0]; n]);
        for (i, feature) in schema.features.iter().enumerate() {
            if feature.kind != Kind::Numerical {
                continue;
            }
            let values = table.column(i);
            mean[i] = compensated_mean(&values);
            let squares: Vec<f64> = values.iter().map(|v| (v - mean[i]).powi(2)).collect();
            std[i] = compensated_mean(&squares).sqrt();
            if std[i] == 0.0 {
                return Err(TabularError::Rows {
                    what: format!("feature `{}`", feature.name),
                    reason: format!(
                        "all {} rows hold {}: a constant number cannot be scaled; leave the column out of the schema",
                        values.len(),
                        values[0]
                    ),
                });
            }
            let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or(0.0);
            range[i] = feature.range.unwrap_or([fold(f64::min), fold(f64::max)]);
        }
        Ok(Self {
            schema,
            columns,
            of_feature,
            mean,
            std,
            range,
        })
    }

    /// Number of encoded columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Which kinds of features there are.
    pub fn kinds(&self) -> Kinds {
        kinds(&self.schema)
    }

    /// The kind of the feature that an encoded column belongs to.
    pub fn kind(&self, column: usize) -> Kind {
        self.schema.features[self.columns[column].feature].kind
    }

    /// Columns of numerical features, ascending.
    pub fn numerical(&self) -> Vec<usize> {
        self.where_kind(|k| k == Kind::Numerical)
    }

    /// Columns of categorical and binary features, ascending.
    pub fn zero_one(&self) -> Vec<usize> {
        self.where_kind(|k| k != Kind::Numerical)
    }

    fn where_kind(&self, holds: impl Fn(Kind) -> bool) -> Vec<usize> {
        (0..self.width()).filter(|&c| holds(self.kind(c))).collect()
    }

    /// Columns of each categorical feature.
    pub fn groups(&self) -> Vec<&[usize]> {
        let features = self.schema.features.iter().zip(&self.of_feature);
        features
            .filter(|(f, _)| f.kind == Kind::Categorical)
            .map(|(_, columns)| columns.as_slice())
            .collect()
    }

    /// The vector of one row.
    pub fn encode(&self, row: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.width()];
        for (i, feature) in self.schema.features.iter().enumerate() {
            let columns = &self.of_feature[i];
            match feature.kind {
                Kind::Numerical => out[columns[0]] = (row[i] - self.mean[i]) / self.std[i],
                Kind::Binary => out[columns[0]] = row[i],
                Kind::Categorical => out[columns[row[i] as usize]] = 1.0,
            }
        }
        out
    }

    /// Vectors of all rows.
    pub fn encode_all(&self, rows: &[Record]) -> Vec<Vec<f64>> {
        rows.iter().map(|row| self.encode(row)).collect()
    }

    /// The row of a vector: numbers scaled back, the largest entry of each group, binary entries rounded.
    pub fn decode(&self, vector: &[f64]) -> Record {
        let mut row = Vec::with_capacity(self.schema.features.len());
        for (i, feature) in self.schema.features.iter().enumerate() {
            let columns = &self.of_feature[i];
            row.push(match feature.kind {
                Kind::Numerical => self.unscaled(i, vector[columns[0]]),
                Kind::Binary => f64::from(u8::from(vector[columns[0]] > 0.5)),
                Kind::Categorical => largest(columns.iter().map(|&c| vector[c])) as f64,
            });
        }
        row
    }

    /// A scaled value of a numerical feature in its own units.
    pub fn unscaled(&self, feature: usize, z: f64) -> f64 {
        z * self.std[feature] + self.mean[feature]
    }

    /// A value of a numerical feature, scaled.
    pub fn scaled(&self, feature: usize, value: f64) -> f64 {
        (value - self.mean[feature]) / self.std[feature]
    }
}

/// Place of the first largest value.
pub fn largest(values: impl Iterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (at, value) in values.enumerate() {
        if value > best.1 {
            best = (at, value);
        }
    }
    best.0
}

fn kinds(schema: &Schema) -> Kinds {
    let numerical = |k: &Kind| *k == Kind::Numerical;
    let all: Vec<Kind> = schema.features.iter().map(|f| f.kind).collect();
    if all.iter().all(numerical) {
        Kinds::Numerical
    } else if all.iter().any(numerical) {
        Kinds::Mixed
    } else {
        Kinds::Categorical
    }
}

fn columns(schema: &Schema) -> Vec<Column> {
    let mixed = kinds(schema) == Kinds::Mixed;
    let (mut sorted, mut last) = (Vec::new(), Vec::new());
    for (feature, of) in schema.features.iter().enumerate() {
        let number = if mixed {
            format!("{feature:04}")
        } else {
            feature.to_string()
        };
        match of.kind {
            Kind::Numerical => last.push(Column {
                name: feature.to_string(),
                feature,
                category: None,
            }),
            Kind::Binary => sorted.push(Column {
                name: number,
                feature,
                category: None,
            }),
            Kind::Categorical => sorted.extend(of.values.iter().enumerate().map(|(i, v)| Column {
                name: format!("{number}_{v}"),
                feature,
                category: Some(i),
            })),
        }
    }
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    sorted.extend(last);
    sorted
}

/// Mean with Neumaier's compensation: the same to the last bits in any order of rows.
pub fn compensated_mean(values: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for &value in values {
        let next = sum + value;
        lost += match sum.abs() >= value.abs() {
            true => (sum - next) + value,
            false => (value - next) + sum,
        };
        sum = next;
    }
    (sum + lost) / values.len() as f64
}
