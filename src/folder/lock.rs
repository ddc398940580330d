//! One process at a time in a folder of results: a lock of the operating system, which ends with its process however that ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::{FolderError, fail, make};

/// A folder that is ours until this is dropped. The files of its locks go then, and so does the folder itself if it was made for the
/// lock and is still empty.
pub struct Lock {
    held: Vec<(PathBuf, File)>,
    made: Option<PathBuf>,
}

/// Names of the files of locks.
const PREFIX: &str = ".foil-lock";

/// Whether a folder holds something besides locks of runs that are or were in it, and files that are being written.
pub fn is_filled(folder: &Path) -> bool {
    let other = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        !(name.starts_with(PREFIX) || name.starts_with('.') && name.ends_with(super::PART))
    };
    fs::read_dir(folder).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| other(&entry.file_name())))
    })
}

/// Removes the parts of files that killed processes left. Nobody else may be at work in the folder; folders below it that are locked
/// themselves belong to other runs. What cannot be removed harms nobody.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !path.join(PREFIX).exists() => sweep(&path),
            Ok(kind) if kind.is_file() && is_part(&name) => drop(fs::remove_file(path)),
            _ => {}
        }
    }
}

/// `.NAME.PROCESS.foil-part`, as [`super::write_whole`] calls them.
fn is_part(name: &str) -> bool {
    let inner = name.strip_prefix('.');
    let inner = inner.and_then(|n| n.strip_suffix(super::PART));
    let process = inner.and_then(|n| n.rsplit_once('.'));
    process.is_some_and(|(_, process)| process.parse::<u32>().is_ok())
}

impl Lock {
    /// Takes a folder, made if need be. The parts of one run share it, each alone as the part of its name.
    pub fn take(
        folder: &Path,
        part: Option<&str>,
        maker: &'static str,
    ) -> Result<Self, FolderError> {
        let new = !folder.exists();
        make(folder)?;
        let mut lock = Self {
            held: Vec::new(),
            made: new.then(|| folder.to_owned()),
        };
        lock.hold(folder.join(PREFIX), part.is_some(), folder, maker)?;
        if let Some(part) = part {
            lock.hold(
                folder.join(format!("{PREFIX}.{part}")),
                false,
                folder,
                maker,
            )?;
        } else {
            sweep(folder);
        }
        Ok(lock)
    }

    fn hold(
        &mut self,
        path: PathBuf,
        shared: bool,
        folder: &Path,
        maker: &'static str,
    ) -> Result<(), FolderError> {
        loop {
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            let file = opened.map_err(fail(&path))?;
            let taken = match shared {
                true => file.try_lock_shared(),
                false => file.try_lock(),
            };
            match taken {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(FolderError::Busy {
                        path: folder.to_owned(),
                        maker,
                    });
                }
                // A file system without locks: as without this module.
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(e)) => return Err(fail(&path)(e)),
            }
            // Whoever had the lock may have removed the file just before.
            if is_at(&file, &path) {
                self.held.push((path, file));
                return Ok(());
            }
        }
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |m: fs::Metadata| (m.dev(), m.ino());
    match (file.metadata(), path.metadata()) {
        (Ok(a), Ok(b)) => place(a) == place(b),
        _ => false,
    }
}

/// Files that are open stay there on other systems.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

impl Drop for Lock {
    fn drop(&mut self) {
        for (path, file) in self.held.drain(..).rev() {
            // Others may share it: the last one removes it.
            if file.try_lock().is_ok() {
                if let Some(folder) = path.parent().filter(|_| path.ends_with(PREFIX)) {
                    sweep(folder);
                }
                let _ = fs::remove_file(path);
            }
        }
        if let Some(folder) = &self.made {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKER: &str = "foil generate";

    fn take(folder: &Path, part: Option<&str>) -> Result<Lock, FolderError> {
        Lock::take(folder, part, MAKER)
    }

    #[test]
    fn a_folder_has_one_run_whose_parts_share_it() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let whole = take(&out, None).unwrap();
        for part in [None, Some("1of2")] {
            let refused = take(&out, part).err().unwrap();
            assert!(matches!(refused, FolderError::Busy { .. }), "{refused}");
        }
        drop(whole);
        assert!(!out.exists(), "nothing is left of a run that made nothing");
        let first = take(&out, Some("1of2")).unwrap();
        let second = take(&out, Some("2of2")).unwrap();
        for part in [None, Some("1of2"), Some("2of2")] {
            assert!(take(&out, part).is_err(), "{part:?}");
        }
        drop(first);
        assert!(take(&out, None).is_err(), "the second part goes on");
        drop(take(&out, Some("1of2")).unwrap());
        drop(second);
        drop(take(&out, None).unwrap());
    }

    #[test]
    fn parts_of_killed_writes_go_under_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let parts = [".a.json.7.foil-part", "images/b/.c.png.7.foil-part"];
        let kept = ["images/mine.foil-part", "other/.d.json.7.foil-part"];
        fs::create_dir_all(at("images/b")).unwrap();
        fs::create_dir(at("other")).unwrap();
        let put = |names: &[&str]| names.iter().for_each(|n| fs::write(at(n), "x").unwrap());
        // Another run has the folder `other`.
        let other = take(&at("other"), None).unwrap();
        put(&parts);
        put(&kept);
        let whole = take(root.path(), None).unwrap();
        for name in parts {
            assert!(!at(name).exists(), "{name}");
        }
        drop(whole);
        // A part of a run may not know what the others are writing: the last one to end removes them.
        let [first, second] = ["1of2", "2of2"].map(|p| take(root.path(), Some(p)).unwrap());
        put(&parts);
        drop(first);
        assert!(parts.iter().all(|name| at(name).exists()));
        drop(second);
        assert!(parts.iter().all(|name| !at(name).exists()));
        assert!(kept.iter().all(|name| at(name).exists()));
        drop(other);
    }

    /// What a killed process leaves.
    #[test]
    fn a_file_that_nobody_holds_keeps_nobody_out() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(PREFIX), "").unwrap();
        fs::write(root.path().join(".study.json.7.foil-part"), "").unwrap();
        assert!(!is_filled(root.path()));
        drop(take(root.path(), None).unwrap());
        assert!(root.path().exists() && !root.path().join(PREFIX).exists());
        fs::write(root.path().join("a.png"), "").unwrap();
        assert!(is_filled(root.path()));
    }
}
