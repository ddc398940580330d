//! Rows of a JSONL manifest.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{COLUMNS, Manifest, Row};
use crate::images::ImageError;

/// Reads one row from every line that is not blank.
pub fn read(manifest: &Manifest, text: &str) -> Result<Vec<Row>, ImageError> {
    let lines = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty());
    lines
        .map(|(text, line)| read_row(manifest, text, line))
        .collect()
}

fn read_row(manifest: &Manifest, text: &str, line: u64) -> Result<Row, ImageError> {
    let object: Object = serde_json::from_str(text).map_err(|error| {
        let advice = "write one object a line, such as {\"original\": \"a.png\", \"counterfactual\": \"b.png\"}";
        manifest.error(line, None, "a JSON object", error.to_string(), advice)
    })?;
    let mut row = Row {
        line,
        ..Row::default()
    };
    let mut seen = [false; COLUMNS.len()];
    for (name, value) in object.0 {
        let column = manifest.column(line, &name)?;
        if std::mem::replace(&mut seen[column], true) {
            return Err(manifest.error(
                line,
                Some(&name),
                "every column once",
                "it twice",
                "remove one",
            ));
        }
        row.values[column] = match value {
            Value::Null => None,
            Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            // Labels are often numbers.
            Value::Number(number) if column >= 2 => Some(number.to_string()),
            other => {
                let found = other.to_string();
                return Err(manifest.error(
                    line,
                    Some(&name),
                    "a string",
                    found,
                    "quote the value",
                ));
            }
        };
    }
    Ok(row)
}

/// A JSON object with all of its keys, the repeated ones too.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}
