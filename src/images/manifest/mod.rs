//! Manifests: pairs listed in a file, one a row, as CSV with a header or as JSONL (one JSON object a line).
//!
//! Columns `original` and `counterfactual` are required; `source`, `target`, `group` and `method` are optional, and no
//! others are known, so that a misspelt one is not silently ignored. Relative paths start at the manifest's folder. The
//! group of a pair is its `group`, else `source->target` if both are given, else `all`.

mod csv_rows;
mod json_rows;

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::{fs, str};

use super::ImageError;
use super::files::printable;
use super::pairs::{ALL, Pair, Pairing, group_name, sort};

/// The columns, in the order of [`Row::values`].
const COLUMNS: [&str; 6] = [
    "original",
    "counterfactual",
    "source",
    "target",
    "group",
    "method",
];

/// How many missing files a message names.
const EXAMPLES: usize = 5;

/// One row, before its files are looked at. Empty values count as absent.
#[derive(Debug, Default)]
struct Row {
    line: u64,
    values: [Option<String>; COLUMNS.len()],
}

/// Reads the pairs listed in the manifest at `path`, and checks that their files are there.
pub fn read_manifest(path: &Path) -> Result<Pairing, ImageError> {
    let bytes = fs::read(path).map_err(|source| ImageError::UnreadableManifest {
        path: path.to_owned(),
        source,
    })?;
    let manifest = Manifest { path };
    let text = manifest.text(&bytes)?;
    let rows = match text.trim_start().chars().next() {
        None => return Err(manifest.no_rows("an empty file")),
        Some('{' | '[') => json_rows::read(&manifest, text)?,
        Some(_) => csv_rows::read(&manifest, text)?,
    };
    if rows.is_empty() {
        return Err(manifest.no_rows("only a header"));
    }
    let lines: Vec<u64> = rows.iter().map(|row| row.line).collect();
    let mut pairs = rows
        .into_iter()
        .map(|row| manifest.pair(row))
        .collect::<Result<Vec<_>, _>>()?;
    manifest.check_duplicates(&pairs, &lines)?;
    manifest.check_files(&pairs, &lines)?;
    make_names_unique(&mut pairs);
    sort(&mut pairs);
    Ok(Pairing {
        pairs,
        unpaired_originals: Vec::new(),
        unpaired_counterfactuals: Vec::new(),
    })
}

/// A manifest being read.
struct Manifest<'a> {
    path: &'a Path,
}

impl Manifest<'_> {
    /// An error at a line and column.
    fn error(
        &self,
        line: impl Into<Option<u64>>,
        column: Option<&str>,
        expected: impl Into<String>,
        found: impl Into<String>,
        advice: &'static str,
    ) -> ImageError {
        let line = line.into().map(|line| format!(", line {line}"));
        let column = column.map(|column| format!(", column {column}"));
        ImageError::Manifest {
            path: self.path.to_owned(),
            place: line.unwrap_or_default() + &column.unwrap_or_default(),
            expected: expected.into(),
            found: found.into(),
            advice,
        }
    }

    fn no_rows(&self, found: &str) -> ImageError {
        self.error(
            None,
            None,
            "at least one pair",
            found,
            "list one pair a line",
        )
    }

    /// The bytes as text, without a byte order mark.
    fn text<'t>(&self, bytes: &'t [u8]) -> Result<&'t str, ImageError> {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
            let found = format!("the byte {:02X}", bytes[before.len()]);
            self.error(
                line,
                None,
                "UTF-8 text",
                found,
                "save the manifest as UTF-8",
            )
        })
    }

    /// The column's number, if its name is known.
    fn column(&self, line: u64, name: &str) -> Result<usize, ImageError> {
        COLUMNS
            .iter()
            .position(|known| *known == name)
            .ok_or_else(|| {
                let expected = format!("columns out of {}", COLUMNS.join(", "));
                let advice = "rename or remove the column";
                self.error(line, None, expected, format!("a column {name:?}"), advice)
            })
    }

    fn pair(&self, row: Row) -> Result<Pair, ImageError> {
        let line = row.line;
        let [original, counterfactual, source, target, group, method] = row.values;
        let required = |column: &str, value: Option<String>| {
            let advice = "give both files of the pair";
            value.ok_or_else(|| {
                self.error(
                    line,
                    Some(column),
                    "the path of an image",
                    "nothing",
                    advice,
                )
            })
        };
        let original = required(COLUMNS[0], original)?;
        let counterfactual = required(COLUMNS[1], counterfactual)?;
        let change = source.as_deref().zip(target.as_deref());
        let from_change = || change.map(|(source, target)| group_name(source, target));
        let group = group.or_else(from_change).unwrap_or_else(|| ALL.to_owned());
        Ok(Pair {
            name: printable(&tidy(Path::new(&counterfactual)).with_extension("")),
            original: self.resolve(&original),
            counterfactual: self.resolve(&counterfactual),
            source,
            target,
            group,
            method,
        })
    }

    /// The path of a file that the manifest names.
    fn resolve(&self, name: &str) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        tidy(&folder.join(name))
    }

    fn check_duplicates(&self, pairs: &[Pair], lines: &[u64]) -> Result<(), ImageError> {
        let mut seen = HashMap::new();
        for (pair, &line) in pairs.iter().zip(lines) {
            if let Some(first) = seen.insert(
                (
                    &pair.original,
                    &pair.counterfactual,
                    &pair.group,
                    &pair.method,
                ),
                line,
            ) {
                let found = format!(
                    "{} and {} again, as in line {first}",
                    pair.original.display(),
                    pair.counterfactual.display()
                );
                return Err(self.error(
                    line,
                    None,
                    "every pair once",
                    found,
                    "remove one of the rows",
                ));
            }
        }
        Ok(())
    }

    fn check_files(&self, pairs: &[Pair], lines: &[u64]) -> Result<(), ImageError> {
        let mut missing = Vec::new();
        let mut seen: HashSet<&Path> = HashSet::new();
        for (pair, &line) in pairs.iter().zip(lines) {
            for (column, file) in [
                (COLUMNS[0], &pair.original),
                (COLUMNS[1], &pair.counterfactual),
            ] {
                if seen.insert(file)
                    && let Err(error) = fs::metadata(file)
                {
                    missing.push((line, column, format!("{} ({error})", file.display())));
                }
            }
        }
        let Some(&(line, column, _)) = missing.first() else {
            return Ok(());
        };
        let names: Vec<&str> = missing
            .iter()
            .take(EXAMPLES)
            .map(|(_, _, name)| name.as_str())
            .collect();
        let found = match missing.len() {
            1 => names.join(""),
            count if count <= EXAMPLES => format!("{count} files missing: {}", names.join(", ")),
            count => format!("{count} files missing: {}, ...", names.join(", ")),
        };
        let advice = "correct the path; relative paths start at the manifest's folder";
        Err(self.error(line, Some(column), "a file that exists", found, advice))
    }
}

/// The path without `.` and repeated separators; `..` stays, since a link may stand before it.
fn tidy(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

/// Counterfactuals that share a name get their extension, and the same one for several originals their original too.
fn make_names_unique(pairs: &mut [Pair]) {
    let with_extension = |pair: &Pair| match pair.counterfactual.extension() {
        Some(extension) => format!("{}.{}", pair.name, extension.to_string_lossy()),
        None => pair.name.clone(),
    };
    let with_original = |pair: &Pair| format!("{} of {}", pair.name, printable(&pair.original));
    rename_shared(pairs, with_extension);
    rename_shared(pairs, with_original);
}

fn rename_shared(pairs: &mut [Pair], rename: impl Fn(&Pair) -> String) {
    let mut uses: HashMap<String, usize> = HashMap::new();
    for pair in pairs.iter() {
        *uses.entry(pair.name.clone()).or_default() += 1;
    }
    for pair in pairs.iter_mut().filter(|pair| uses[&pair.name] > 1) {
        pair.name = rename(pair);
    }
}
