//! Arrays of images and classes from files: `.npy`, `.npz`, IDX (plain or gzip), `.safetensors`. `FILE::NAME` picks one of
//! several arrays.

use std::path::{Path, PathBuf};

use super::{Pixels, SamplesError};
use crate::images;
use crate::tensor::{Array, StateDict};
use crate::weights::formats;

/// What a file holds.
pub struct File {
    place: String,
    content: Content,
    /// The array the user picked.
    name: Option<String>,
    pub sha256: String,
}

enum Content {
    One(Array),
    Named(StateDict),
}

impl File {
    /// Opens `FILE` or `FILE::NAME`; `option` names it in messages.
    pub fn open(option: &str, given: &str) -> Result<Self, SamplesError> {
        let (path, name) = match given.rsplit_once("::") {
            Some((path, name)) => (PathBuf::from(path), Some(name.to_owned())),
            None => (PathBuf::from(given), None),
        };
        let place = format!("{option} {}", path.display());
        let wrong = |found: String| {
            SamplesError::input(
                &place,
                "an array file (.npy, .npz, IDX, IDX in gzip, .safetensors)",
                found,
                "give FILE, or FILE::NAME for one of several arrays",
            )
        };
        let bytes = std::fs::read(&path).map_err(|e| wrong(e.to_string()))?;
        let content = if images::is_idx(&bytes) {
            let idx = images::parse_idx(&bytes, &path).map_err(|e| wrong(e.to_string()))?;
            Content::One(Array {
                shape: idx.shape,
                data: idx.values.iter().map(|&v| f32::from(v)).collect(),
            })
        } else {
            let shown = path.display().to_string();
            let dict = formats::read_bytes(&bytes, &shown).map_err(|e| wrong(e.to_string()))?;
            Content::Named(dict)
        };
        Ok(Self {
            place,
            content,
            name,
            sha256: crate::weights::sha256(&bytes),
        })
    }

    /// The array that was picked, the first of `usual` names, or the only one.
    fn array(&self, usual: &[&str]) -> Result<&Array, SamplesError> {
        let dict = match (&self.content, &self.name) {
            (Content::One(array), None) => return Ok(array),
            (Content::One(_), Some(name)) => {
                return Err(SamplesError::input(
                    &self.place,
                    "a file of named arrays",
                    format!("an IDX file, which has no array {name:?}"),
                    "leave ::NAME out",
                ));
            }
            (Content::Named(dict), _) => dict,
        };
        let found = match &self.name {
            Some(name) => dict.get(name),
            None if dict.len() == 1 => dict.iter().next().map(|(_, array)| array),
            None => usual.iter().find_map(|name| dict.get(name)),
        };
        found.ok_or_else(|| {
            let names: Vec<&str> = dict.names().take(20).collect();
            let expected = match &self.name {
                Some(name) => format!("an array {name:?}"),
                None => format!("one array, or one of the names {}", usual.join(", ")),
            };
            SamplesError::input(
                &self.place,
                expected,
                format!("the arrays {}", names.join(", ")),
                "pick one with FILE::NAME",
            )
        })
    }

    /// Classes under one of the usual names, whichever array was picked; none if there are none.
    pub fn beside(&self, usual: &[&str]) -> Result<Option<Vec<i64>>, SamplesError> {
        let Content::Named(dict) = &self.content else {
            return Ok(None);
        };
        let found = usual.iter().find_map(|name| dict.get(name));
        found.map(|array| self.whole(array)).transpose()
    }

    /// Images.
    pub fn pixels(&self, usual: &[&str]) -> Result<Pixels, SamplesError> {
        let array = self.array(usual)?;
        let pixels = Pixels::new(&self.place, &array.shape, array.data.clone())?;
        Ok(match self.content {
            // IDX files of images hold bytes.
            Content::One(_) => pixels.as_eight_bit(),
            Content::Named(_) => pixels,
        })
    }

    /// Whole numbers, one for each image.
    pub fn classes(&self, usual: &[&str]) -> Result<Vec<i64>, SamplesError> {
        self.whole(self.array(usual)?)
    }

    fn whole(&self, array: &Array) -> Result<Vec<i64>, SamplesError> {
        let flat = array.shape.iter().filter(|&&n| n != 1).count() <= 1;
        if !flat {
            return Err(SamplesError::input(
                &self.place,
                "one class for each image, [n]",
                format!("an array of shape {:?}", array.shape),
                "give classes, not probabilities",
            ));
        }
        let whole = |(i, &v): (usize, &f32)| {
            if v.is_finite() && v.fract() == 0.0 && v.abs() < 1e7 {
                return Ok(v as i64);
            }
            Err(SamplesError::input(
                format!("{}, sample {i}", self.place),
                "the number of a class",
                v.to_string(),
                "correct it",
            ))
        };
        array.data.iter().enumerate().map(whole).collect()
    }
}

/// True if the path is a file of arrays, not a folder of images.
pub fn is_array_file(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let plain = text.rsplit_once("::").map_or(&*text, |(path, _)| path);
    Path::new(plain).is_file()
}
