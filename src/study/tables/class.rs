//! Classes by number, by name, or both.

use std::fmt;

use serde::Deserialize;

/// A class as data or a user name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub number: Option<i64>,
    pub name: Option<String>,
}

/// Source and target.
pub type ClassPair = (Class, Class);

impl Class {
    /// A number, or else a name.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        match text.parse() {
            Ok(number) => Self {
                number: Some(number),
                name: None,
            },
            Err(_) => Self {
                number: None,
                name: Some(text.to_owned()),
            },
        }
    }

    /// The same class: by number where both have one, else by name.
    pub fn is(&self, other: &Class) -> bool {
        match (self.number, other.number) {
            (Some(a), Some(b)) => a == b,
            _ => match (&self.name, &other.name) {
                (Some(a), Some(b)) => plain(a) == plain(b),
                _ => false,
            },
        }
    }

    /// What identifies the class within one study.
    pub fn key(&self) -> String {
        match (self.number, &self.name) {
            (Some(number), _) => number.to_string(),
            (None, name) => plain(name.as_deref().unwrap_or_default()),
        }
    }
}

/// Names differ in case, hyphens and underscores without meaning other classes.
fn plain(name: &str) -> String {
    name.to_lowercase().replace(['-', '_'], " ")
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.number) {
            (Some(name), _) => f.write_str(name),
            (None, Some(number)) => write!(f, "{number}"),
            (None, None) => f.write_str("?"),
        }
    }
}

/// `source → target`.
pub fn arrow((source, target): &ClassPair) -> String {
    format!("{source} → {target}")
}

impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(i64),
            Name(String),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Number(number) => Self {
                number: Some(number),
                name: None,
            },
            Form::Name(name) => Self::parse(&name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_known_by_number_first_and_by_name_in_any_spelling() {
        let both = |number, name: &str| Class {
            number: Some(number),
            name: Some(name.into()),
        };
        assert!(both(207, "golden retriever").is(&Class::parse("207")));
        assert!(both(207, "golden retriever").is(&Class::parse("Golden_Retriever")));
        assert!(!both(207, "crane").is(&both(517, "crane")));
        assert!(!Class::parse("crane").is(&Class::parse("134")));
    }
}
