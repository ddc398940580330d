//! Result folders: which files in them are ours to write.
//!
//! A run says in the folder which files it makes before it makes them. Files that no earlier run of the same command made
//! are somebody else's: they are never replaced or removed, not even with `--force`.

mod lock;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::de::DeserializeOwned;

pub use lock::{Lock, is_filled};

/// Ends the names of files that are not whole yet.
const PART: &str = ".foil-part";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A folder that holds something already.
    #[error("{}: expected an empty or new folder, found files in it: name another one with --out, or replace the files of an earlier `{maker}` with --force", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// The command.
        maker: &'static str,
    },
    /// A file of somebody else in the place of one of ours.
    #[error("{}: this file was not made by `{maker}` and would be replaced: move it away, or name another folder with --out", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// The command.
        maker: &'static str,
    },
    /// A folder in the folder that leads elsewhere.
    #[error("{}: expected a folder of its own, found a link: files where it leads are not replaced; remove the link, or name another folder with --out", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A folder that another process is at work in.
    #[error("{}: another `{maker}` is at work in this folder: wait until it ends, or name another one with --out", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The command.
        maker: &'static str,
    },
    /// A file or folder that cannot be written.
    #[error("{}: cannot write: {source}: check the path, its permissions and the space left", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

fn fail(path: &Path) -> impl FnOnce(io::Error) -> FolderError + use<> {
    let path = path.to_owned();
    |source| FolderError::Write { path, source }
}

/// What a run is about to do to a folder. Files are relative paths with `/` between parts.
pub struct Claim<'a> {
    pub folder: &'a Path,
    /// The command, as one types it.
    pub maker: &'static str,
    /// What it will write.
    pub files: &'a [String],
    /// What an earlier run of it wrote, in the order in which it is to be removed.
    pub earlier: &'a [String],
}

impl Claim<'_> {
    /// Refuses to replace files of others, and to follow links. Changes nothing.
    pub fn check(&self) -> Result<(), FolderError> {
        for path in self.folders() {
            if path.is_symlink() {
                return Err(FolderError::Link { path });
            }
        }
        let ours: HashSet<&String> = self.earlier.iter().collect();
        for file in self.files {
            let path = self.folder.join(file);
            // A link counts as a file, wherever it leads.
            if !ours.contains(file) && path.symlink_metadata().is_ok() {
                let maker = self.maker;
                return Err(FolderError::NotOurs { path, maker });
            }
        }
        Ok(())
    }

    /// Removes what the earlier run wrote, and makes the folders of the new files.
    pub fn clear(&self) -> Result<(), FolderError> {
        for file in self.earlier {
            remove(&self.folder.join(file))?;
        }
        make(self.folder)?;
        self.folders().iter().try_for_each(|path| make(path))
    }

    /// All folders below the claimed one that hold files of ours, outer ones first.
    fn folders(&self) -> BTreeSet<PathBuf> {
        let files = self.files.iter().chain(self.earlier);
        let inner: BTreeSet<&str> = files
            .flat_map(|file| file.match_indices('/').map(|(at, _)| &file[..at]))
            .collect();
        inner.into_iter().map(|f| self.folder.join(f)).collect()
    }
}

/// Refuses a folder that holds something.
pub fn expect_empty(folder: &Path, maker: &'static str) -> Result<(), FolderError> {
    let filled = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(fail(folder)(error)),
    };
    match filled {
        false => Ok(()),
        true => Err(FolderError::NotEmpty {
            path: folder.to_owned(),
            maker,
        }),
    }
}

/// What a file of an earlier run says, if it is there; refuses one that is not `ours`.
pub fn read_own<T: DeserializeOwned>(
    path: &Path,
    maker: &'static str,
    ours: impl FnOnce(&T) -> bool,
) -> Result<Option<T>, FolderError> {
    let kind = match path.symlink_metadata() {
        Ok(kind) => kind,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(path)(error)),
    };
    let others = || FolderError::NotOurs {
        path: path.to_owned(),
        maker,
    };
    if !kind.is_file() {
        return Err(others());
    }
    let text = fs::read(path).map_err(fail(path))?;
    let said = serde_json::from_slice(&text).ok().filter(ours);
    said.map(Some).ok_or_else(others)
}

/// Makes a folder, if it is not there.
pub fn make(folder: &Path) -> Result<(), FolderError> {
    fs::create_dir_all(folder).map_err(fail(folder))
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> Result<(), FolderError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fail(path)(error)),
        _ => Ok(()),
    }
}

/// A new file in `folder` that goes unless it is moved to its place, with the permissions of any other: those of a temporary
/// one are for its owner alone.
pub fn beside(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Writes a file that is there as a whole or not at all; `.NAME.PROCESS.foil-part` beside it is the way there.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = std::process::id();
    let part = path.with_file_name(format!(".{name}.{process}{PART}"));
    fs::write(&part, bytes)
        .and_then(|()| fs::rename(&part, path))
        .map_err(fail(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    fn claim<'a>(folder: &'a Path, files: &'a [String], earlier: &'a [String]) -> Claim<'a> {
        Claim {
            folder,
            maker: "foil demo",
            files,
            earlier,
        }
    }

    #[test]
    fn only_files_of_an_earlier_run_are_replaced() {
        let root = tempfile::tempdir().unwrap();
        let (ours, none) = (names(&["a.txt", "images/b/c.png"]), names(&[]));
        claim(root.path(), &ours, &none).check().unwrap();
        claim(root.path(), &ours, &none).clear().unwrap();
        for file in ["a.txt", "images/b/c.png", "images/b/mine.png"] {
            fs::write(root.path().join(file), "x").unwrap();
        }
        let refused = claim(root.path(), &ours, &none).check();
        assert!(matches!(refused, Err(FolderError::NotOurs { .. })));
        let again = claim(root.path(), &ours, &ours);
        again.check().unwrap();
        again.clear().unwrap();
        assert!(!root.path().join("images/b/c.png").exists());
        assert!(root.path().join("images/b/mine.png").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_another_folder_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for folder in ["out", "else", "else/b"] {
            fs::create_dir(at(folder)).unwrap();
        }
        std::os::unix::fs::symlink(at("else"), at("out/images")).unwrap();
        let (out, files) = (at("out"), names(&["images/b/c.png"]));
        for earlier in [names(&[]), files.clone()] {
            let refused = claim(&out, &files, &earlier).check().unwrap_err();
            assert!(matches!(refused, FolderError::Link { .. }), "{refused}");
            assert!(refused.to_string().contains("out/images"), "{refused}");
        }
        // Neither is one in the place of a file.
        fs::remove_file(at("out/images")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("out/a.txt")).unwrap();
        let refused = claim(&out, &names(&["a.txt"]), &[]).check();
        assert!(matches!(refused, Err(FolderError::NotOurs { .. })));
        let read = read_own::<String>(&at("out/a.txt"), "foil demo", |_| true);
        assert!(matches!(read, Err(FolderError::NotOurs { .. })));
    }

    #[test]
    fn what_an_earlier_run_says_counts_only_if_it_is_ours() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("list.json");
        let read = || read_own::<String>(&path, "foil demo", |said| said == "ours");
        assert!(matches!(read(), Ok(None)));
        write_whole(&path, b"\"ours\"").unwrap();
        assert_eq!(read().unwrap().as_deref(), Some("ours"));
        for other in ["\"theirs\"", "notes", "[]"] {
            fs::write(&path, other).unwrap();
            assert!(
                matches!(read(), Err(FolderError::NotOurs { .. })),
                "{other}"
            );
        }
    }
}
