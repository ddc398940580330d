//! JSON files of golden data, with a record of what was read, so that nothing in them is overlooked.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value;

use super::{ConformanceError, Result};

/// A file; every value that no case reads is reported at the end.
pub struct Json {
    file: String,
    root: Value,
    seen: RefCell<BTreeSet<String>>,
}

/// A value with its place in the file.
#[derive(Clone)]
pub struct Node<'a> {
    json: &'a Json,
    value: &'a Value,
    path: String,
}

impl Json {
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self> {
        let root = serde_json::from_slice(bytes).map_err(|source| ConformanceError::Json {
            file: file.into(),
            source,
        })?;
        Ok(Self {
            file: file.into(),
            root,
            seen: RefCell::default(),
        })
    }

    pub fn root(&self) -> Node<'_> {
        Node {
            json: self,
            value: &self.root,
            path: String::new(),
        }
    }

    /// Places of values that were neither read nor skipped; a whole object or list nothing of which was read
    /// is named once.
    pub fn unread(&self) -> Vec<String> {
        let mut found = Vec::new();
        collect_unread(&self.root(), &self.seen.borrow(), &mut found);
        found
    }
}

/// True if all of `node` is unread; else its unread parts are in `found`.
fn collect_unread(node: &Node<'_>, seen: &BTreeSet<String>, found: &mut Vec<String>) -> bool {
    if seen.contains(&node.path) {
        return false;
    }
    let children = node.children();
    if children.is_empty() {
        let leaf = !matches!(node.value, Value::Array(_) | Value::Object(_));
        if leaf {
            found.push(node.path.clone());
        }
        return leaf;
    }
    let before = found.len();
    let mut all = true;
    for (_, child) in &children {
        all &= collect_unread(child, seen, found);
    }
    if all && !node.path.is_empty() {
        found.truncate(before);
        found.push(node.path.clone());
    }
    all
}

impl<'a> Node<'a> {
    pub fn path(&self) -> &str {
        &self.path
    }

    fn children(&self) -> Vec<(&'a str, Node<'a>)> {
        let node = |value: &'a Value, path: String| Node {
            json: self.json,
            value,
            path,
        };
        match self.value {
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| {
                    let dot = if self.path.is_empty() { "" } else { "." };
                    (
                        key.as_str(),
                        node(value, format!("{}{dot}{key}", self.path)),
                    )
                })
                .collect(),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(i, value)| ("", node(value, format!("{}[{i}]", self.path))))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// An error about this value.
    pub fn wrong(&self, expected: &str) -> ConformanceError {
        let text = self.value.to_string();
        let found = match text.char_indices().nth(60) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        };
        ConformanceError::Content {
            file: self.json.file.clone(),
            place: self.path.clone(),
            expected: expected.into(),
            found,
        }
    }

    fn read<T>(&self, expected: &str, value: Option<T>) -> Result<T> {
        self.skip();
        value.ok_or_else(|| self.wrong(expected))
    }

    /// Values below it that nothing has read: lists and plain values, not objects.
    pub fn unread_leaves(&self) -> Vec<Node<'a>> {
        if self.json.seen.borrow().contains(&self.path) {
            return Vec::new();
        }
        match self.is_object() {
            true => {
                let children = self.children();
                let leaves = children.iter().map(|(_, child)| child.unread_leaves());
                leaves.flatten().collect()
            }
            false => vec![self.clone()],
        }
    }

    /// Marks all of it as dealt with.
    pub fn skip(&self) {
        self.json.seen.borrow_mut().insert(self.path.clone());
    }

    pub fn is_object(&self) -> bool {
        self.value.is_object()
    }

    pub fn fields(&self) -> Result<Vec<(&'a str, Node<'a>)>> {
        match self.value {
            Value::Object(_) => Ok(self.children()),
            _ => Err(self.wrong("an object")),
        }
    }

    pub fn items(&self) -> Result<Vec<Node<'a>>> {
        match self.value {
            Value::Array(_) => Ok(self.children().into_iter().map(|(_, n)| n).collect()),
            _ => Err(self.wrong("a list")),
        }
    }

    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        self.children()
            .into_iter()
            .find(|(k, _)| *k == key)
            .map(|(_, n)| n)
    }

    pub fn at(&self, key: &str) -> Result<Node<'a>> {
        self.get(key).ok_or_else(|| ConformanceError::Content {
            file: self.json.file.clone(),
            place: self.path.clone(),
            expected: format!("a field `{key}`"),
            found: self
                .children()
                .iter()
                .map(|(k, _)| *k)
                .take(8)
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Skips the fields named, where they are present.
    pub fn skip_fields(&self, keys: &[&str]) {
        for key in keys {
            if let Some(node) = self.get(key) {
                node.skip();
            }
        }
    }

    pub fn f64(&self) -> Result<f64> {
        self.read("a number", self.value.as_f64())
    }

    /// A number, or null.
    pub fn f64_or_null(&self) -> Result<Option<f64>> {
        match self.value {
            Value::Null => {
                self.skip();
                Ok(None)
            }
            _ => self.f64().map(Some),
        }
    }

    pub fn usize(&self) -> Result<usize> {
        let value = self.value.as_u64().and_then(|v| usize::try_from(v).ok());
        self.read("a whole number", value)
    }

    pub fn bool(&self) -> Result<bool> {
        self.read("true or false", self.value.as_bool())
    }

    pub fn str(&self) -> Result<&'a str> {
        self.read("a text", self.value.as_str())
    }

    pub fn f64s(&self) -> Result<Vec<f64>> {
        self.list(Node::f64)
    }

    pub fn usizes(&self) -> Result<Vec<usize>> {
        self.list(Node::usize)
    }

    pub fn strs(&self) -> Result<Vec<&'a str>> {
        self.list(Node::str)
    }

    pub fn list<T>(&self, read: impl Fn(&Node<'a>) -> Result<T>) -> Result<Vec<T>> {
        let values = self.items()?.iter().map(read).collect();
        self.skip();
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_case_reads_are_named_once() {
        let text = br#"{"a": {"x": 1, "y": 2}, "b": {"z": [1, 2]}, "c": 3}"#;
        let json = Json::parse("f.json", text).unwrap();
        json.root().at("a").unwrap().at("x").unwrap().f64().unwrap();
        assert_eq!(json.unread(), ["a.y", "b", "c"]);
        json.root().at("b").unwrap().skip();
        json.root().skip_fields(&["c", "absent"]);
        assert_eq!(json.unread(), ["a.y"]);
    }

    #[test]
    fn a_value_of_another_type_is_an_error_that_names_the_place() {
        let json = Json::parse("f.json", br#"{"a": [1, "two"]}"#).unwrap();
        let error = json.root().at("a").unwrap().f64s().unwrap_err().to_string();
        assert_eq!(error, "f.json: `a[1]`: expected a number, found \"two\"");
    }
}
