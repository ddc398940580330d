//! Which counterfactual belongs to which original.
//!
//! A counterfactual at the relative path `P` (without extension) belongs to
//! 1. the original at `P`, or else, `P` lying in a folder that is named like an original, to that original: such a folder
//!    holds a *set* of counterfactuals;
//! 2. if a folder in `P` is named `SOURCE_to_TARGET`: the same two rules for `P` without that folder (originals that are
//!    not grouped);
//! 3. and then for `P` with `SOURCE` in that folder's place (originals by class).
//!
//! With several such folders the innermost is tried first; a name with several `_to_` is split at the first. The pair's
//! group is then `SOURCE->TARGET`, otherwise `all`.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::ImageError;
use super::files::{check_stems, examples, list_images, printable};

/// The group of pairs that state no other.
pub const ALL: &str = "all";

/// An original and one of its counterfactuals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Stable name: the counterfactual's relative path without extension, with `/` between its parts.
    pub name: String,
    /// File of the original.
    pub original: PathBuf,
    /// File of the counterfactual.
    pub counterfactual: PathBuf,
    /// Class of the original, if it is stated.
    pub source: Option<String>,
    /// Class that the counterfactual aims at, if it is stated.
    pub target: Option<String>,
    /// Group that the pair is scored in.
    pub group: String,
    /// What made the counterfactual, if it is stated.
    pub method: Option<String>,
}

/// Pairs, and the files that are in none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing {
    /// Sorted by group, original and counterfactual.
    pub pairs: Vec<Pair>,
    /// Originals without a counterfactual.
    pub unpaired_originals: Vec<PathBuf>,
    /// Counterfactuals without an original.
    pub unpaired_counterfactuals: Vec<PathBuf>,
}

/// The group of a change from `source` to `target`.
pub fn group_name(source: &str, target: &str) -> String {
    format!("{source}->{target}")
}

/// Sorts pairs by group, original and counterfactual.
pub fn sort(pairs: &mut [Pair]) {
    fn key(pair: &Pair) -> (&str, &Path, &Path) {
        (&pair.group, &pair.original, &pair.counterfactual)
    }
    pairs.sort_by(|a, b| key(a).cmp(&key(b)));
}

/// Pairs the images of two folders by their relative paths.
pub fn pair_folders(originals: &Path, counterfactuals: &Path) -> Result<Pairing, ImageError> {
    let (original_images, counterfactual_images) = list_apart(originals, counterfactuals)?;
    let by_stem: HashMap<PathBuf, &Path> = original_images
        .iter()
        .map(|path| (stem(originals, path), path.as_path()))
        .collect();
    let mut pairs = Vec::new();
    let mut unpaired_counterfactuals = Vec::new();
    for path in &counterfactual_images {
        let relative = stem(counterfactuals, path);
        match find(&relative, &by_stem) {
            Some(Match { original, change }) => {
                pairs.push(new_pair(&relative, original, path, change))
            }
            None => unpaired_counterfactuals.push(path.clone()),
        }
    }
    if pairs.is_empty() {
        return Err(no_pairs(
            originals,
            &original_images,
            counterfactuals,
            &counterfactual_images,
        ));
    }
    sort(&mut pairs);
    let paired: HashSet<&Path> = pairs.iter().map(|pair| pair.original.as_path()).collect();
    let unpaired_originals = original_images
        .iter()
        .filter(|path| !paired.contains(path.as_path()))
        .cloned()
        .collect();
    Ok(Pairing {
        pairs,
        unpaired_originals,
        unpaired_counterfactuals,
    })
}

/// Lists both folders. If one lies inside the other, its images are not the other's.
fn list_apart(
    originals: &Path,
    counterfactuals: &Path,
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), ImageError> {
    let real = |path: &Path| {
        fs::canonicalize(path).map_err(|source| ImageError::UnreadableFolder {
            path: path.to_owned(),
            source,
        })
    };
    let (real_originals, real_counterfactuals) = (real(originals)?, real(counterfactuals)?);
    if real_originals == real_counterfactuals {
        return Err(ImageError::SameFolder {
            path: originals.to_owned(),
        });
    }
    let mut original_images = list_images(originals)?;
    let mut counterfactual_images = list_images(counterfactuals)?;
    if let Ok(inside) = real_counterfactuals.strip_prefix(&real_originals) {
        original_images.retain(|path| !path.starts_with(originals.join(inside)));
    }
    if let Ok(inside) = real_originals.strip_prefix(&real_counterfactuals) {
        counterfactual_images.retain(|path| !path.starts_with(counterfactuals.join(inside)));
    }
    check_stems(&original_images)?;
    check_stems(&counterfactual_images)?;
    Ok((original_images, counterfactual_images))
}

/// The path relative to `folder`, without extension.
fn stem(folder: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(folder).unwrap_or(path).with_extension("")
}

/// The original of a counterfactual, and the change (source, target) that the folders state.
struct Match<'a> {
    original: &'a Path,
    change: Option<(String, String)>,
}

fn find<'a>(relative: &Path, originals: &HashMap<PathBuf, &'a Path>) -> Option<Match<'a>> {
    let parts: Vec<&OsStr> = relative.iter().collect();
    let folders = &parts[..parts.len().saturating_sub(1)];
    let changes = folders
        .iter()
        .enumerate()
        .rev()
        .filter_map(|(i, folder)| Some((i, split(folder)?)));
    let changes: Vec<(usize, (String, String))> = changes.collect();
    if let Some((original, depth)) = longest_prefix(&parts, originals) {
        // The folder of a set is named like its original, not for a change.
        let is_set_folder = |i: usize| depth < parts.len() && i + 1 == depth;
        let change = changes
            .into_iter()
            .find(|&(i, _)| !is_set_folder(i))
            .map(|(_, change)| change);
        return Some(Match { original, change });
    }
    for (i, change) in changes {
        let mut without = parts.clone();
        without.remove(i);
        let source = OsString::from(&change.0);
        let mut by_class = parts.clone();
        by_class[i] = &source;
        let found =
            longest_prefix(&without, originals).or_else(|| longest_prefix(&by_class, originals));
        if let Some((original, _)) = found {
            return Some(Match {
                original,
                change: Some(change),
            });
        }
    }
    None
}

/// The original at the path of `parts` or at the path of a folder on the way to it, and how many parts that takes.
fn longest_prefix<'a>(
    parts: &[&OsStr],
    originals: &HashMap<PathBuf, &'a Path>,
) -> Option<(&'a Path, usize)> {
    (1..=parts.len()).rev().find_map(|depth| {
        let path: PathBuf = parts[..depth].iter().collect();
        originals.get(&path).map(|&original| (original, depth))
    })
}

/// Source and target of a folder's name `SOURCE_to_TARGET`.
fn split(folder: &OsStr) -> Option<(String, String)> {
    let (source, target) = folder.to_str()?.split_once("_to_")?;
    (!source.is_empty() && !target.is_empty()).then(|| (source.to_owned(), target.to_owned()))
}

fn new_pair(
    relative: &Path,
    original: &Path,
    counterfactual: &Path,
    change: Option<(String, String)>,
) -> Pair {
    let group = change.as_ref().map_or_else(
        || ALL.to_owned(),
        |(source, target)| group_name(source, target),
    );
    let (source, target) = change.unzip();
    Pair {
        name: printable(relative),
        original: original.to_owned(),
        counterfactual: counterfactual.to_owned(),
        source,
        target,
        group,
        method: None,
    }
}

fn no_pairs(
    originals: &Path,
    original_images: &[PathBuf],
    counterfactuals: &Path,
    counterfactual_images: &[PathBuf],
) -> ImageError {
    let describe = |folder: &Path, images: &[PathBuf]| {
        examples(
            images
                .iter()
                .map(|path| path.strip_prefix(folder).unwrap_or(path)),
        )
    };
    ImageError::NoPairs {
        originals: originals.to_owned(),
        counterfactuals: counterfactuals.to_owned(),
        original_names: describe(originals, original_images),
        counterfactual_names: describe(counterfactuals, counterfactual_images),
    }
}
