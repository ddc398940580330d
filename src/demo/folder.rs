//! The result folder: which files in it are ours to write.
//!
//! `demo.json` lists what a demonstration writes and is the first file of it. Files that it does not list are somebody
//! else's: they are never replaced or removed, not even with `--force`.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::folder::{Claim, FolderError, expect_empty, read_own, write_whole};

/// Name of the list.
pub const LIST: &str = "demo.json";
const SCHEMA: &str = "foil.demo/1";
const MAKER: &str = "foil demo";

#[derive(Serialize, Deserialize)]
struct List {
    schema: String,
    files: BTreeSet<String>,
}

/// Prepares `folder` for `files` (with `/` between parts): makes it and the folders in it, and removes what an earlier
/// demonstration wrote. Unless `replace`, the folder must be new or empty.
pub fn claim(folder: &Path, files: &[String], replace: bool) -> Result<(), FolderError> {
    if !replace {
        expect_empty(folder, MAKER)?;
    }
    let claim = Claim {
        folder,
        maker: MAKER,
        files,
        earlier: &earlier(folder)?,
    };
    claim.check()?;
    claim.clear()?;
    let list = List {
        schema: SCHEMA.into(),
        files: files.iter().cloned().collect(),
    };
    let mut text = serde_json::to_string_pretty(&list).unwrap_or_default();
    text.push('\n');
    write_whole(&folder.join(LIST), text.as_bytes())
}

/// What an earlier demonstration wrote here. A list that is not ours, or names files outside of the folder, is refused.
fn earlier(folder: &Path) -> Result<Vec<String>, FolderError> {
    let ours = |list: &List| list.schema == SCHEMA && list.files.iter().all(|f| inside(f));
    let list = read_own(&folder.join(LIST), MAKER, ours)?;
    Ok(list.map_or_else(Vec::new, |list| list.files.into_iter().collect()))
}

/// True for a relative path that stays where it starts.
fn inside(file: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    file.split('/').all(plain) && !file.contains(['\\', ':'])
}

#[cfg(test)]
mod tests {
    use std::fs;

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
