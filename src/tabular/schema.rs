//! What the columns of a table are: a JSON file, or one entry of a file of many data sets.
//!
//! ```json
//! {"class": "class", "majority_class": "2", "missing": "error",
//!  "features": [{"name": "age", "kind": "numerical", "min": 17, "max": 90},
//!               {"name": "job", "kind": "categorical", "categories": ["clerk", "farmer"]},
//!               {"name": "member", "kind": "binary", "values": ["no", "yes"], "immutable": true}],
//!  "rules": ["area == round(height * length, 4)"]}
//! ```

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Result, Rule, TabularError};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number; scaled to mean 0 and standard deviation 1.
    Numerical,
    /// One of three or more values; one encoded column for each.
    Categorical,
    /// One of at most two values; one encoded column of 0 or 1.
    Binary,
}

impl Kind {
    /// The word of the schema.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Numerical => "numerical",
            Kind::Categorical => "categorical",
            Kind::Binary => "binary",
        }
    }
}

/// One column of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    pub name: String,
    pub kind: Kind,
    /// Values of a categorical feature (sorted as text), or what a binary feature calls 0 and 1.
    pub values: Vec<String>,
    /// Smallest and largest realistic value of a numerical feature; without it those of all rows.
    pub range: Option<[f64; 2]>,
    /// Counterfactuals must leave it as it is.
    pub immutable: bool,
}

/// What to do with an empty cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// An error that names the cell (the default).
    #[default]
    Error,
    /// Leave the row out.
    DropRow,
}

/// All columns of a table, its class column, and rules over several features.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub features: Vec<Feature>,
    /// Name of the class column.
    pub class: String,
    /// The class that is label 1; without it the most frequent one, of equals the last in order of text.
    pub majority_class: Option<String>,
    pub missing: Missing,
    pub rules: Vec<Rule>,
}

/// Fields of the benchmark's own description that say nothing a table does not say itself.
const DESCRIPTIVE: [&str; 14] = [
    "type",
    "n_features",
    "data_file",
    "n_rows",
    "n_encoded_columns",
    "encoded_column_names",
    "class_counts",
    "class_meaning",
    "model_file",
    "hidden_neurons",
    "training",
    "grid_search_best_validation_auc",
    "binary_label_1_share",
    "binary_recoding_from_uci",
];

/// Collects the fields of one object and refuses those nobody asked for.
struct Fields<'a> {
    file: &'a str,
    place: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn of(file: &'a str, place: String, value: &'a Value) -> Result<Self> {
        match value.as_object() {
            Some(map) => Ok(Self { file, place, map }),
            None => Err(wrong(file, &place, "an object", value)),
        }
    }

    fn known(&self, known: &[&str]) -> Result<()> {
        let stranger = self.map.keys().find(|k| !known.contains(&k.as_str()));
        match stranger {
            None => Ok(()),
            Some(key) => Err(TabularError::Schema {
                file: self.file.into(),
                place: self.place.clone(),
                expected: format!("fields among {}", known.join(", ")),
                found: format!("`{key}`"),
            }),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(other) => Err(self.wrong(key, "a text", other)),
        }
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64().filter(|v| v.is_finite()) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, "a finite number", value)),
            },
        }
    }

    fn flag(&self, key: &str) -> Result<bool> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(key, "true or false", other)),
        }
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.map.get(key) else {
            return Ok(None);
        };
        let text = |item: &Value| match item {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(self.wrong(key, "a list of texts", other)),
        };
        match value.as_array() {
            Some(items) => items.iter().map(text).collect::<Result<_>>().map(Some),
            None => Err(self.wrong(key, "a list of texts", value)),
        }
    }

    fn wrong(&self, key: &str, expected: &str, found: &Value) -> TabularError {
        let dot = if self.place.is_empty() { "" } else { "." };
        wrong(
            self.file,
            &format!("{}{dot}{key}", self.place),
            expected,
            found,
        )
    }
}

fn wrong(file: &str, place: &str, expected: &str, found: &Value) -> TabularError {
    let mut text = found.to_string();
    if let Some((at, _)) = text.char_indices().nth(60) {
        text.truncate(at);
        text.push('…');
    }
    TabularError::Schema {
        file: file.into(),
        place: if place.is_empty() {
            "the file".into()
        } else {
            place.into()
        },
        expected: expected.into(),
        found: text,
    }
}

impl Schema {
    /// Reads a file of one schema.
    pub fn read(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| TabularError::Io {
            file: file.clone(),
            source,
        })?;
        Self::from_json(&file, &parse(&file, &text)?)
    }

    /// Reads a file that holds one schema for each data set, by name.
    pub fn read_many(path: &Path) -> Result<Vec<(String, Value)>> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| TabularError::Io {
            file: file.clone(),
            source,
        })?;
        let value = parse(&file, &text)?;
        let fields = Fields::of(&file, String::new(), &value)?;
        let all = fields.map.iter().map(|(k, v)| (k.clone(), v.clone()));
        Ok(all.collect())
    }

    /// A schema from its JSON; `file` stands for the source in messages.
    pub fn from_json(file: &str, value: &Value) -> Result<Self> {
        let fields = Fields::of(file, String::new(), value)?;
        let mut known = vec!["class", "majority_class", "missing", "features", "rules"];
        known.extend(DESCRIPTIVE);
        fields.known(&known)?;
        let Some(list) = value.get("features").and_then(Value::as_array) else {
            let found = value.get("features").unwrap_or(&Value::Null);
            return Err(fields.wrong("features", "a list of features", found));
        };
        let mut features = Vec::with_capacity(list.len());
        for (i, item) in list.iter().enumerate() {
            features.push(feature(file, format!("features[{i}]"), item)?);
        }
        let missing = match fields.text("missing")?.as_deref() {
            None | Some("error") => Missing::Error,
            Some("drop-row") => Missing::DropRow,
            Some(_) => {
                return Err(fields.wrong("missing", "error or drop-row", &value["missing"]));
            }
        };
        let texts = fields.texts("rules")?.unwrap_or_default();
        let rules = texts
            .iter()
            .map(|text| Rule::parse(text))
            .collect::<Result<_>>()?;
        let schema = Self {
            features,
            class: fields.text("class")?.unwrap_or_else(|| "class".into()),
            majority_class: fields.text("majority_class")?,
            missing,
            rules,
        };
        schema.check(file)?;
        Ok(schema)
    }

    fn check(&self, file: &str) -> Result<()> {
        let error = |place: String, expected: &str, found: String| TabularError::Schema {
            file: file.into(),
            place,
            expected: expected.into(),
            found,
        };
        if self.features.is_empty() {
            return Err(error(
                "features".into(),
                "at least one feature",
                "none".into(),
            ));
        }
        for (i, feature) in self.features.iter().enumerate() {
            let twice = self.features[..i].iter().any(|f| f.name == feature.name);
            if twice || feature.name == self.class {
                let expected = "names that differ from each other and from the class column";
                return Err(error(
                    format!("features[{i}].name"),
                    expected,
                    feature.name.clone(),
                ));
            }
        }
        for rule in &self.rules {
            for name in rule.names() {
                if !self.features.iter().any(|f| f.name == name) {
                    let found = format!("`{name}` in `{}`", rule.text());
                    return Err(error("rules".into(), "names of features", found));
                }
            }
        }
        Ok(())
    }

    /// The file that gives this schema.
    pub fn to_json(&self) -> Value {
        let features: Vec<Value> = self
            .features
            .iter()
            .map(|feature| {
                let mut item = json!({"name": feature.name, "kind": feature.kind.word()});
                match feature.kind {
                    Kind::Categorical => item["categories"] = json!(feature.values),
                    Kind::Binary => item["values"] = json!(feature.values),
                    Kind::Numerical => {
                        if let Some([min, max]) = feature.range {
                            item["min"] = json!(min);
                            item["max"] = json!(max);
                        }
                    }
                }
                if feature.immutable {
                    item["immutable"] = json!(true);
                }
                item
            })
            .collect();
        let rules: Vec<&str> = self.rules.iter().map(Rule::text).collect();
        let missing = match self.missing {
            Missing::Error => "error",
            Missing::DropRow => "drop-row",
        };
        let mut out = json!({"class": self.class});
        if let Some(majority) = &self.majority_class {
            out["majority_class"] = json!(majority);
        }
        out["missing"] = json!(missing);
        out["features"] = json!(features);
        out["rules"] = json!(rules);
        out
    }

    /// The place of a feature by its name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.features.iter().position(|f| f.name == name)
    }
}

fn parse(file: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| TabularError::Schema {
        file: file.into(),
        place: format!("line {}", e.line()),
        expected: "JSON".into(),
        found: e.to_string(),
    })
}

fn feature(file: &str, place: String, value: &Value) -> Result<Feature> {
    let fields = Fields::of(file, place, value)?;
    let known = [
        "name",
        "kind",
        "categories",
        "categories_in_encoded_order",
        "values",
        "min",
        "max",
        "immutable",
        "index",
        "mean",
        "std_ddof0",
        "encoded_columns",
    ];
    fields.known(&known)?;
    let null = Value::Null;
    let Some(name) = fields.text("name")? else {
        return Err(fields.wrong("name", "the column's name", &null));
    };
    let kind = match fields.text("kind")?.as_deref() {
        Some("numerical") => Kind::Numerical,
        Some("categorical") => Kind::Categorical,
        Some("binary") => Kind::Binary,
        _ => {
            let found = value.get("kind").unwrap_or(&null);
            return Err(fields.wrong("kind", "numerical, categorical or binary", found));
        }
    };
    let listed = match fields.texts("categories")? {
        Some(list) => Some(list),
        None => fields.texts("categories_in_encoded_order")?,
    };
    let mut values = match kind {
        Kind::Numerical => Vec::new(),
        Kind::Categorical => listed
            .filter(|list| list.len() > 1)
            .ok_or_else(|| fields.wrong("categories", "a list of two or more values", &null))?,
        Kind::Binary => {
            let words = fields.texts("values")?;
            words.unwrap_or_else(|| vec!["0".into(), "1".into()])
        }
    };
    if kind == Kind::Categorical {
        values.sort();
    }
    // 0 and 1 mean themselves, also where a constant column holds only one of them.
    if kind == Kind::Binary && values.iter().all(|v| v == "0" || v == "1") {
        values = vec!["0".into(), "1".into()];
    }
    let distinct = (1..values.len()).all(|i| !values[..i].contains(&values[i]));
    if !distinct || (kind == Kind::Binary && !(1..=2).contains(&values.len())) {
        let expected = "values that differ (two of a binary feature)";
        return Err(fields.wrong("values", expected, &json!(values)));
    }
    let range = match (fields.number("min")?, fields.number("max")?) {
        (None, None) => None,
        (Some(min), Some(max)) if min <= max && kind == Kind::Numerical => Some([min, max]),
        (min, max) => {
            let found = json!({"min": min, "max": max});
            return Err(fields.wrong("min", "min ≤ max of a numerical feature", &found));
        }
    };
    Ok(Feature {
        name,
        kind,
        values,
        range,
        immutable: fields.flag("immutable")?,
    })
}
