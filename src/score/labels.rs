//! Class names and indices.

use std::path::Path;

/// Class names in the order of the logits; may be empty.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    names: Vec<String>,
}

impl Labels {
    pub fn new(names: Vec<String>) -> Self {
        Self { names }
    }

    /// Reads one name per line, or a JSON array of names.
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("{file}: cannot read the labels: {e}"))?;
        let names: Vec<String> = if text.trim_start().starts_with('[') {
            serde_json::from_str(&text)
                .map_err(|e| format!("{file}: expected a JSON array of class names: {e}"))?
        } else {
            text.lines().map(|l| l.trim().to_string()).collect()
        };
        let names: Vec<String> = match names.iter().rposition(|n| !n.is_empty()) {
            Some(last) => names.into_iter().take(last + 1).collect(),
            None => return Err(format!("{file}: no class names found")),
        };
        Ok(Self { names })
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name of a class, or its number.
    pub fn name(&self, class: usize) -> String {
        self.names
            .get(class)
            .cloned()
            .unwrap_or_else(|| class.to_string())
    }

    /// The class that `text` names: a number, or a name (case, `_` and spaces do not matter).
    pub fn resolve(&self, text: &str, classes: Option<usize>) -> Result<usize, String> {
        let text = text.trim();
        if let Ok(class) = text.parse::<usize>() {
            let count = classes.or((!self.is_empty()).then_some(self.names.len()));
            return match count {
                Some(n) if class >= n => Err(format!(
                    "class {class} is out of range: there are {n} classes (0 to {})",
                    n.saturating_sub(1)
                )),
                _ => Ok(class),
            };
        }
        if self.is_empty() {
            return Err(format!(
                "class {text:?} is a name, but no class names are known; give its number"
            ));
        }
        let plain = |s: &str| s.to_lowercase().replace(['_', '-'], " ");
        let found: Vec<usize> = (0..self.names.len())
            .filter(|&i| plain(&self.names[i]) == plain(text))
            .collect();
        match found[..] {
            [class] => Ok(class),
            [] => Err(format!(
                "no class is called {text:?}{}; give one of {}, or its number",
                self.suggestion(&plain(text)),
                self.listed()
            )),
            _ => Err(format!(
                "{} classes are called {text:?} ({found:?}); give the number",
                found.len()
            )),
        }
    }

    /// The same for a command with an option for the names.
    pub fn resolve_with_option(&self, text: &str, classes: Option<usize>) -> Result<usize, String> {
        let advised = |why: String| match text.trim().parse::<usize>() {
            Ok(_) => why,
            Err(_) => format!("{why}, or other names with --labels FILE"),
        };
        self.resolve(text, classes).map_err(advised)
    }

    /// The first classes, and how many there are if more.
    fn listed(&self) -> String {
        const MOST: usize = 10;
        let mut shown: Vec<&str> = self.names.iter().map(String::as_str).take(MOST).collect();
        let more = format!("… ({} classes)", self.names.len());
        if self.names.len() > MOST {
            shown.push(&more);
        }
        shown.join(", ")
    }

    fn suggestion(&self, text: &str) -> String {
        let near: Vec<&str> = self
            .names
            .iter()
            .filter(|n| {
                let name = n.to_lowercase();
                text.split_whitespace()
                    .any(|w| w.len() > 2 && name.contains(w))
            })
            .map(String::as_str)
            .take(5)
            .collect();
        if near.is_empty() {
            String::new()
        } else {
            format!(" (near: {})", near.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        Labels::new(
            ["tabby", "Egyptian cat", "crane", "crane"]
                .map(String::from)
                .into(),
        )
    }

    #[test]
    fn a_class_is_found_by_number_and_by_name_whatever_its_case() {
        assert_eq!(labels().resolve("1", None), Ok(1));
        assert_eq!(labels().resolve("egyptian_cat", None), Ok(1));
    }

    #[test]
    fn unknown_ambiguous_and_out_of_range_classes_are_errors() {
        assert!(
            labels()
                .resolve("cat", None)
                .unwrap_err()
                .contains("Egyptian cat")
        );
        assert!(
            labels()
                .resolve("crane", None)
                .unwrap_err()
                .contains("2, 3")
        );
        assert!(labels().resolve("4", None).unwrap_err().contains("0 to 3"));
        // Which option names classes is for its command to say.
        for (labels, said) in [
            (Labels::default(), "number"),
            (labels(), "tabby, Egyptian cat"),
        ] {
            let error = labels.resolve("dog", None).unwrap_err();
            assert!(
                error.contains(said) && !error.contains("--labels"),
                "{error}"
            );
        }
        let advised = labels().resolve_with_option("dog", None).unwrap_err();
        assert!(advised.contains("--labels FILE"), "{advised}");
        let many = Labels::new((0..1000).map(|k| format!("c{k}")).collect());
        let error = many.resolve("dog", None).unwrap_err();
        assert!(error.contains("c9, … (1000 classes)"), "{error}");
    }
}
