//! CelebA's attribute file (`list_attr_celeba.txt`): a count, the names of the attributes, then a line per image with its
//! name and 1 or −1 for each attribute.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What can be wrong with an attribute file.
#[derive(Debug, thiserror::Error)]
pub enum AttributesError {
    #[error("{}: cannot read it: {source}; check the path", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}, line {line}: expected {expected}, found {found}; use CelebA's own list_attr_celeba.txt", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        expected: String,
        found: String,
    },
    #[error("{}: no attribute is called {name:?}; there are {known}", path.display())]
    Unknown {
        path: PathBuf,
        name: String,
        known: String,
    },
}

/// The attributes of all images.
#[derive(Clone, Debug)]
pub struct Attributes {
    path: PathBuf,
    pub names: Vec<String>,
    /// File names in the order of the file.
    pub images: Vec<String>,
    values: Vec<bool>,
    rows: HashMap<String, usize>,
}

impl Attributes {
    pub fn read(path: &Path) -> Result<Self, AttributesError> {
        let text = std::fs::read_to_string(path).map_err(|source| AttributesError::Io {
            path: path.into(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads the content of a file; `path` stands for it in messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, AttributesError> {
        let wrong = |line: usize, expected: String, found: String| AttributesError::Line {
            path: path.into(),
            line,
            expected,
            found,
        };
        let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
        let (_, first) = lines.next().unwrap_or((1, ""));
        let count: usize = first.trim().parse().map_err(|_| {
            wrong(
                1,
                "the number of images".into(),
                format!("{:?}", shown(first)),
            )
        })?;
        let (_, header) = lines.next().unwrap_or((2, ""));
        let names: Vec<String> = header.split_whitespace().map(Into::into).collect();
        if names.is_empty() {
            return Err(wrong(2, "names of attributes".into(), "nothing".into()));
        }
        let mut all = Self {
            path: path.into(),
            names,
            images: Vec::new(),
            values: Vec::new(),
            rows: HashMap::new(),
        };
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let mut words = line.split_whitespace();
            let image = words.next().unwrap_or_default();
            let before = all.values.len();
            for word in words {
                all.values.push(match word {
                    "1" => true,
                    "-1" => false,
                    other => {
                        let found = format!("{:?}", shown(other));
                        return Err(wrong(number, "1 or -1 for each attribute".into(), found));
                    }
                });
            }
            let found = all.values.len() - before;
            if found != all.names.len() {
                let expected = format!("{} values after the name", all.names.len());
                return Err(wrong(number, expected, format!("{found}")));
            }
            if all.rows.insert(image.into(), all.images.len()).is_some() {
                let found = format!("{:?} again", shown(image));
                return Err(wrong(number, "every image once".into(), found));
            }
            all.images.push(image.into());
        }
        if all.images.len() != count {
            let found = format!("{} lines", all.images.len());
            return Err(wrong(1, format!("{count} images, as it says"), found));
        }
        Ok(all)
    }

    /// Place of an attribute among the names.
    pub fn attribute(&self, name: &str) -> Result<usize, AttributesError> {
        let found = self.names.iter().position(|n| n == name);
        found.ok_or_else(|| AttributesError::Unknown {
            path: self.path.clone(),
            name: name.into(),
            known: self.names.join(", "),
        })
    }

    /// Whether an image has an attribute; none if the file does not name the image.
    pub fn has(&self, image: &str, attribute: usize) -> Option<bool> {
        let row = *self.rows.get(image)?;
        self.values.get(row * self.names.len() + attribute).copied()
    }
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_by_image_and_name() {
        let text = "2\nSmiling Heavy_Makeup \n000001.jpg -1  1\n000002.jpg  1 -1\n";
        let all = Attributes::parse(text, Path::new("a")).unwrap();
        let makeup = all.attribute("Heavy_Makeup").unwrap();
        assert_eq!(all.has("000001.jpg", makeup), Some(true));
        assert_eq!(all.has("000002.jpg", makeup), Some(false));
        assert_eq!(all.has("000003.jpg", makeup), None);
        assert!(
            all.attribute("Bald")
                .unwrap_err()
                .to_string()
                .contains("Smiling")
        );
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, words) in [
            ("", "line 1"),
            ("x\n", "number of images"),
            ("1\n\n", "line 2"),
            ("1\nA B\na.jpg 1\n", "line 3"),
            ("1\nA\na.jpg 0\n", "1 or -1"),
            ("2\nA\na.jpg 1\n", "2 images"),
            ("2\nA\na.jpg 1\na.jpg 1\n", "again"),
        ] {
            let error = Attributes::parse(text, Path::new("attr"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }
}
