//! The result folder: which files in it are ours to write.
//!
//! `demo.json` lists what a demonstration writes and is the first file of it. Files that it does not list are somebody
//! else's: they are never replaced or removed, not even with `--force`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// Name of the list.
pub const LIST: &str = "demo.json";
const SCHEMA: &str = "foil.demo/1";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{}: expected an empty or new folder, found files in it: name another one with --out, or replace the files of an earlier demo with --force", path.display())]
    NotEmpty { path: PathBuf },
    #[error("{}: this file was not made by `foil demo` and would be replaced: move it away, or name another folder with --out", path.display())]
    NotOurs { path: PathBuf },
    #[error("{}: cannot write: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

#[derive(Serialize, Deserialize)]
struct List {
    schema: String,
    files: BTreeSet<String>,
}

/// Prepares `folder` for `files` (with `/` between parts): makes it and the folders in it, and removes what an earlier
/// demonstration wrote. Unless `replace`, the folder must be new or empty.
pub fn claim(folder: &Path, files: &[String], replace: bool) -> Result<(), FolderError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        |source| FolderError::Write { path, source }
    };
    let filled = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(fail(folder)(error)),
    };
    if filled && !replace {
        return Err(FolderError::NotEmpty {
            path: folder.to_owned(),
        });
    }
    let earlier = earlier(folder)?;
    for file in files {
        let path = folder.join(file);
        // A link counts as a file, wherever it leads.
        if path.symlink_metadata().is_ok() && !earlier.contains(file) {
            return Err(FolderError::NotOurs { path });
        }
    }
    for file in &earlier {
        let path = folder.join(file);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(fail(&path)(error));
            }
            _ => {}
        }
    }
    for file in files {
        let path = folder.join(file);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(fail(parent))?;
    }
    let list = List {
        schema: SCHEMA.into(),
        files: files.iter().cloned().collect(),
    };
    let mut text = serde_json::to_string_pretty(&list).unwrap_or_default();
    text.push('\n');
    let path = folder.join(LIST);
    fs::write(&path, text).map_err(fail(&path))
}

/// What an earlier demonstration wrote here. A list that is not ours, or names files outside of the folder, lists nothing.
fn earlier(folder: &Path) -> Result<BTreeSet<String>, FolderError> {
    let path = folder.join(LIST);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(source) => return Err(FolderError::Write { path, source }),
    };
    let list = serde_json::from_slice::<List>(&text)
        .ok()
        .filter(|list| list.schema == SCHEMA && list.files.iter().all(|f| inside(f)));
    match list {
        Some(list) => Ok(list.files),
        None => Err(FolderError::NotOurs { path }),
    }
}

/// True for a relative path that stays where it starts.
fn inside(file: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    file.split('/').all(plain) && !file.contains(['\\', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn only_files_of_an_earlier_demonstration_are_replaced() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().join("out");
        let (first, second) = (names(&["a.txt", "images/b.png"]), names(&["a.txt"]));
        claim(&at, &first, false).unwrap();
        for file in ["a.txt", "images/b.png", "images/mine.png"] {
            fs::write(at.join(file), "x").unwrap();
        }
        assert!(matches!(
            claim(&at, &second, false),
            Err(FolderError::NotEmpty { .. })
        ));
        claim(&at, &second, true).unwrap();
        // Ours of the earlier time are gone, others are not.
        assert!(!at.join("images/b.png").exists());
        assert!(at.join("images/mine.png").exists());
        // A file that this time would be written, but which is somebody else's.
        let refused = claim(&at, &names(&["images/mine.png"]), true).unwrap_err();
        assert!(refused.to_string().contains("mine.png"), "{refused}");
        assert_eq!(fs::read(at.join("images/mine.png")).unwrap(), b"x");
    }

    #[test]
    fn a_list_of_somebody_else_gives_no_right_to_delete() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().join("out");
        fs::create_dir(&at).unwrap();
        fs::write(root.path().join("precious"), "x").unwrap();
        for list in [
            r#"{"schema": "foil.demo/1", "files": ["../precious"]}"#,
            r#"{"schema": "other", "files": []}"#,
            "notes",
        ] {
            fs::write(at.join(LIST), list).unwrap();
            let refused = claim(&at, &names(&["a.txt"]), true);
            assert!(
                matches!(refused, Err(FolderError::NotOurs { .. })),
                "{list}"
            );
            assert_eq!(fs::read_to_string(at.join(LIST)).unwrap(), list);
        }
        assert!(root.path().join("precious").exists());
    }
}
