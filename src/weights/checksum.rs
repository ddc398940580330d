//! SHA-256 of files and of what they hold.

use sha2::{Digest, Sha256};

use super::error::{Result, WeightsError};
use crate::tensor::StateDict;

/// SHA-256 in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 over names, shapes and numbers, sorted by name: the same weights give the same value whatever file
/// format they came in.
pub fn content_sha256(dict: &StateDict) -> String {
    let mut hash = Sha256::new();
    hash.update(b"foil.weights/1\n");
    for (name, array) in dict.sorted() {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update((array.shape.len() as u64).to_le_bytes());
        for &size in &array.shape {
            hash.update((size as u64).to_le_bytes());
        }
        let mut block = Vec::with_capacity(4 * 4096);
        for numbers in array.data.chunks(4096) {
            block.clear();
            block.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
            hash.update(&block);
        }
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is known of a file's SHA-256 beforehand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    /// All of it.
    pub sha256: Option<String>,
    /// Its first digits, as torchvision puts them into file names.
    pub prefix: Option<String>,
}

impl Expected {
    pub fn is_known(&self) -> bool {
        self.sha256.is_some() || self.prefix.is_some()
    }

    pub fn admits(&self, found: &str) -> bool {
        self.sha256.as_deref().is_none_or(|all| all == found)
            && self
                .prefix
                .as_deref()
                .is_none_or(|prefix| found.starts_with(prefix))
    }

    /// An error that names expected and found.
    pub fn check(&self, file: &str, found: &str, todo: impl Into<String>) -> Result<()> {
        if self.admits(found) {
            return Ok(());
        }
        Err(WeightsError::Checksum {
            file: file.into(),
            expected: self.to_string(),
            found: found.into(),
            todo: todo.into(),
        })
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.sha256, &self.prefix) {
            (Some(all), _) => f.write_str(all),
            (None, Some(prefix)) => write!(f, "{prefix}…"),
            (None, None) => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Array;

    #[test]
    fn sha256_of_abc_is_the_published_one() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
    }

    #[test]
    fn content_does_not_depend_on_order_but_on_every_part() {
        let dict = |pairs: &[(&str, &[usize], &[f32])]| {
            let mut dict = StateDict::new();
            for (name, shape, data) in pairs {
                dict.insert(*name, Array::new(*shape, data.to_vec()).unwrap());
            }
            content_sha256(&dict)
        };
        let one = dict(&[("a", &[2], &[1.0, 2.0]), ("b", &[1], &[3.0])]);
        assert_eq!(one, dict(&[("b", &[1], &[3.0]), ("a", &[2], &[1.0, 2.0])]));
        assert_ne!(
            one,
            dict(&[("a", &[2, 1], &[1.0, 2.0]), ("b", &[1], &[3.0])])
        );
        assert_ne!(one, dict(&[("a", &[2], &[1.0, 2.0]), ("b", &[1], &[4.0])]));
        assert_ne!(one, dict(&[("a", &[2], &[1.0, 2.0]), ("c", &[1], &[3.0])]));
    }

    #[test]
    fn a_prefix_admits_what_begins_with_it() {
        let expected = Expected {
            sha256: None,
            prefix: Some("ba78".into()),
        };
        assert!(expected.admits(&sha256(b"abc")));
        let error = expected.check("f", &sha256(b"abd"), "Fetch it again");
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("ba78…") && error.contains("a52d159f"),
            "{error}"
        );
    }
}
