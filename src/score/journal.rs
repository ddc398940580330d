//! Partial results on disk: one JSON line per finished image or pair, features in plain f32 rows beside it.
//!
//! Lines are appended batch by batch, after the rows they point to. A process killed at any moment leaves whole
//! lines and at most one torn one, which [`Journal::open`] drops together with rows that no line points to; the
//! run then goes on after the last whole record.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::metrics::lp::DifferenceSums;
use crate::metrics::votes::Vote;

/// What a classifier or oracle says of one counterfactual.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opinion {
    pub class: usize,
    /// Probability of the target and of the source class, where they are known.
    pub target: Option<f64>,
    pub source: Option<f64>,
}

/// All that is kept of one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRecord {
    pub pair: usize,
    /// Class of the original: as given, or as the classifier sees the original.
    pub source: Option<usize>,
    pub classifier: Option<Opinion>,
    pub oracles: Vec<Opinion>,
    /// What the oracles say together.
    #[serde(default)]
    pub committee: Option<Vote>,
    /// Class of the largest mean probability over the oracles.
    pub mean_probability: Option<usize>,
    /// Sums of pixel differences, pixels 0..255.
    pub difference: Option<DifferenceSums>,
    /// Size and age of the two files, to notice that they were changed before a resume.
    pub stamp: u64,
    pub lpips: Option<f64>,
    pub lpips_layers: Vec<f64>,
    /// LPIPS to each earlier counterfactual of the same original and group.
    pub to_earlier: Vec<f64>,
    /// Row of the features, and of the Inception logits.
    pub features: Option<usize>,
    pub logits: Option<usize>,
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    Original {
        original: usize,
        features: Option<usize>,
        class: Option<usize>,
    },
    Reference {
        reference: usize,
        features: Option<usize>,
        reason: Option<String>,
        stamp: u64,
    },
    Pair(Box<PairRecord>),
    Skipped {
        pair: usize,
        reason: String,
        stamp: u64,
    },
}

/// A number that changes when a file is replaced: a hash of its length and time of change.
pub fn stamp(files: &[&Path]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    for file in files {
        let meta = fs::metadata(file).ok();
        let age = meta.as_ref().and_then(|m| m.modified().ok());
        (meta.map(|m| m.len()), age).hash(&mut hash);
    }
    hash.finish()
}

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{path}: cannot {action}: {source}")]
    Io {
        path: PathBuf,
        action: &'static str,
        source: std::io::Error,
    },
    #[error(
        "{path} belongs to a run with other inputs or options ({difference}); resume with the same command, or give another --out"
    )]
    OtherRun { path: PathBuf, difference: String },
    #[error(
        "{path} holds an unfinished run; add --resume to continue it, or delete that folder to start anew"
    )]
    Unfinished { path: PathBuf },
    #[error("{path} is in use by another foil; wait for it, or give another --out")]
    Locked { path: PathBuf },
    #[error("{path}: record {line} is damaged: {reason}; delete its folder to start anew")]
    Damaged {
        path: PathBuf,
        line: usize,
        reason: String,
    },
}

fn io<'a>(
    path: &'a Path,
    action: &'static str,
) -> impl FnOnce(std::io::Error) -> JournalError + 'a {
    move |source| JournalError::Io {
        path: path.into(),
        action,
        source,
    }
}

/// A file of f32 rows of one width.
pub struct Rows {
    path: PathBuf,
    file: BufWriter<File>,
    width: usize,
    rows: usize,
}

impl Rows {
    fn open(path: PathBuf, width: usize, rows: usize) -> Result<Self, JournalError> {
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .map_err(io(&path, "open"))?;
        let (needed, found) = (
            (rows * width * 4) as u64,
            file.metadata().map_or(0, |m| m.len()),
        );
        if found < needed {
            return Err(JournalError::Damaged {
                reason: format!("expected at least {needed} bytes of features, found {found}"),
                line: rows,
                path,
            });
        }
        file.set_len(needed).map_err(io(&path, "cut"))?;
        let mut file = BufWriter::new(file);
        file.seek(SeekFrom::End(0)).map_err(io(&path, "seek in"))?;
        Ok(Self {
            path,
            file,
            width,
            rows,
        })
    }

    /// Appends a row and returns its number.
    pub fn push(&mut self, row: &[f32]) -> Result<usize, JournalError> {
        assert_eq!(row.len(), self.width, "row width");
        let bytes: Vec<u8> = row.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.file
            .write_all(&bytes)
            .map_err(io(&self.path, "write to"))?;
        self.rows += 1;
        Ok(self.rows - 1)
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Forgets all rows from a number on.
    fn cut(&mut self, rows: usize) -> Result<(), JournalError> {
        if rows == self.rows {
            return Ok(());
        }
        let length = (rows * self.width * 4) as u64;
        self.file.flush().map_err(io(&self.path, "write to"))?;
        let file = self.file.get_ref();
        file.set_len(length).map_err(io(&self.path, "cut"))?;
        let end = self.file.seek(SeekFrom::Start(length));
        end.map_err(io(&self.path, "seek in"))?;
        self.rows = rows;
        Ok(())
    }

    /// Reads the given rows.
    pub fn read(&mut self, rows: &[usize]) -> Result<Vec<f32>, JournalError> {
        self.file.flush().map_err(io(&self.path, "write to"))?;
        let mut file = BufReader::new(File::open(&self.path).map_err(io(&self.path, "open"))?);
        let mut bytes = vec![0u8; self.width * 4];
        let mut values = Vec::with_capacity(rows.len() * self.width);
        let mut at = 0usize;
        for &row in rows {
            let jump = (row as i64 - at as i64) * bytes.len() as i64;
            file.seek_relative(jump).map_err(io(&self.path, "read"))?;
            file.read_exact(&mut bytes)
                .map_err(io(&self.path, "read"))?;
            values.extend(
                bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|b| f32::from_le_bytes(*b)),
            );
            at = row + 1;
        }
        Ok(values)
    }
}

/// The journal of one run.
pub struct Journal {
    lines: BufWriter<File>,
    path: PathBuf,
    /// Held for as long as the journal is open; the system releases it even when the process is killed.
    _lock: File,
    pub features: Rows,
    pub logits: Rows,
}

/// A state of the row files.
#[derive(Clone, Copy)]
pub struct Mark([usize; 2]);

/// Widths of the two row files (0 if unused).
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    pub features: usize,
    pub logits: usize,
}

impl Journal {
    /// Opens the journal in `folder`. `plan` describes the run; continuing needs the same one.
    /// Returns the records that are already there.
    pub fn open(
        folder: &Path,
        plan: &serde_json::Value,
        widths: Widths,
        resume: bool,
    ) -> Result<(Self, Vec<Record>), JournalError> {
        fs::create_dir_all(folder).map_err(io(folder, "create"))?;
        let lock_path = folder.join("lock");
        let lock = File::create(&lock_path).map_err(io(&lock_path, "create"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(JournalError::Locked {
                    path: folder.into(),
                });
            }
            Err(std::fs::TryLockError::Error(e)) => return Err(io(&lock_path, "lock")(e)),
        }
        let finished = folder.join("finished");
        let plan_path = folder.join("plan.json");
        let path = folder.join("records.jsonl");
        let mut records = Vec::new();
        let mut kept = 0;
        if resume && path.exists() {
            let text = fs::read(&plan_path).map_err(io(&plan_path, "read"))?;
            let found: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            if let Some(difference) = first_difference(plan, &found) {
                return Err(JournalError::OtherRun {
                    path: folder.into(),
                    difference,
                });
            }
            (records, kept) = read_records(&path)?;
        } else {
            // A new plan first, then an empty journal: a kill in between leaves nothing to resume from.
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(&finished);
            let text = serde_json::to_vec_pretty(plan).unwrap_or_default();
            write_atomically(&plan_path, &text).map_err(io(&plan_path, "write"))?;
        }
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .map_err(io(&path, "open"))?;
        file.set_len(kept).map_err(io(&path, "cut"))?;
        let mut lines = BufWriter::new(file);
        lines.seek(SeekFrom::End(0)).map_err(io(&path, "seek in"))?;
        let rows = |pick: fn(&Record) -> Option<usize>| {
            records.iter().filter_map(pick).max().map_or(0, |r| r + 1)
        };
        let features = rows(|r| match r {
            Record::Original { features, .. } | Record::Reference { features, .. } => *features,
            Record::Pair(p) => p.features,
            Record::Skipped { .. } => None,
        });
        let logits = rows(|r| match r {
            Record::Pair(p) => p.logits,
            _ => None,
        });
        let journal = Self {
            lines,
            path,
            _lock: lock,
            features: Rows::open(folder.join("features.f32"), widths.features, features)?,
            logits: Rows::open(folder.join("logits.f32"), widths.logits, logits)?,
        };
        Ok((journal, records))
    }

    /// True if `folder` holds something of a run that did not come to its end.
    pub fn is_unfinished(folder: &Path) -> bool {
        let records = fs::metadata(folder.join("records.jsonl"));
        records.is_ok_and(|file| file.len() > 0) && !folder.join("finished").exists()
    }

    /// Notes that every record is there and the results are written.
    pub fn finish(folder: &Path) -> std::io::Result<()> {
        File::create(folder.join("finished")).map(drop)
    }

    /// How many rows there are, to come back to.
    pub fn mark(&self) -> Mark {
        Mark([self.features.rows, self.logits.rows])
    }

    /// Forgets the rows that were pushed since.
    pub fn back_to(&mut self, Mark([features, logits]): Mark) -> Result<(), JournalError> {
        self.features.cut(features)?;
        self.logits.cut(logits)
    }

    /// Appends the records of a batch; their rows are already pushed.
    pub fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
        self.features
            .file
            .flush()
            .map_err(io(&self.features.path, "write to"))?;
        self.logits
            .file
            .flush()
            .map_err(io(&self.logits.path, "write to"))?;
        for record in records {
            let line = serde_json::to_string(record).map_err(|e| JournalError::Io {
                path: self.path.clone(),
                action: "encode a record for",
                source: e.into(),
            })?;
            writeln!(self.lines, "{line}").map_err(io(&self.path, "write to"))?;
        }
        self.lines.flush().map_err(io(&self.path, "write to"))
    }
}

fn read_records(path: &Path) -> Result<(Vec<Record>, u64), JournalError> {
    let mut reader = BufReader::new(File::open(path).map_err(io(path, "open"))?);
    let (mut records, mut kept) = (Vec::new(), 0u64);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader
            .read_until(b'\n', &mut line)
            .map_err(io(path, "read"))?;
        if read == 0 || line.last() != Some(&b'\n') {
            return Ok((records, kept));
        }
        let record = serde_json::from_slice(&line).map_err(|e| JournalError::Damaged {
            path: path.into(),
            line: records.len() + 1,
            reason: e.to_string(),
        })?;
        records.push(record);
        kept += read as u64;
    }
}

/// The first key in which two plans differ, for people.
fn first_difference(a: &serde_json::Value, b: &serde_json::Value) -> Option<String> {
    if a == b {
        return None;
    }
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return Some("the plan is unreadable".into());
    };
    let short = |v: Option<&serde_json::Value>| {
        let text = v.map_or("nothing".into(), ToString::to_string);
        text.chars().take(60).collect::<String>()
    };
    a.keys()
        .chain(b.keys())
        .find(|k| a.get(*k) != b.get(*k))
        .map(|k| format!("{k}: now {}, then {}", short(a.get(k)), short(b.get(k))))
}

/// Writes a file so that it is either the old one or the whole new one.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let mut file = crate::folder::beside(folder.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(pair: usize) -> Record {
        Record::Skipped {
            pair,
            reason: "x".into(),
            stamp: 0,
        }
    }

    /// What the umask lets any other file have, which a temporary one has not.
    #[cfg(unix)]
    #[test]
    fn whole_files_have_the_permissions_of_others() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let [whole, usual] = ["whole.json", "usual.json"].map(|name| folder.path().join(name));
        write_atomically(&whole, b"{}").unwrap();
        write_atomically(&whole, b"[]").unwrap();
        fs::write(&usual, b"[]").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&whole), mode(&usual));
        assert_eq!(fs::read(&whole).unwrap(), b"[]");
    }

    #[test]
    fn a_torn_last_line_and_rows_without_a_record_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let plan = serde_json::json!({"a": 1});
        let widths = Widths {
            features: 2,
            logits: 0,
        };
        let (mut journal, _) = Journal::open(folder.path(), &plan, widths, false).unwrap();
        let row = journal.features.push(&[1.0, 2.0]).unwrap();
        let record = Record::Original {
            original: 0,
            features: Some(row),
            class: None,
        };
        journal.append(&[record.clone(), skipped(0)]).unwrap();
        journal.features.push(&[3.0, 4.0]).unwrap();
        drop(journal);
        let path = folder.path().join("records.jsonl");
        let mut text = fs::read(&path).unwrap();
        text.extend(b"{\"skipped\":{\"pair\":1");
        fs::write(&path, text).unwrap();

        let (mut journal, records) = Journal::open(folder.path(), &plan, widths, true).unwrap();
        assert_eq!(records, [record, skipped(0)]);
        assert_eq!(journal.features.push(&[5.0, 6.0]).unwrap(), 1);
        assert_eq!(
            journal.features.read(&[1, 0]).unwrap(),
            [5.0, 6.0, 1.0, 2.0]
        );
    }

    #[test]
    fn another_plan_is_refused_with_the_key_that_differs() {
        let folder = tempfile::tempdir().unwrap();
        let widths = Widths {
            features: 0,
            logits: 0,
        };
        let plan = serde_json::json!({"lpips": "alex"});
        let (mut journal, _) = Journal::open(folder.path(), &plan, widths, false).unwrap();
        journal.append(&[skipped(0)]).unwrap();
        assert!(matches!(
            Journal::open(folder.path(), &plan, widths, true),
            Err(JournalError::Locked { .. })
        ));
        drop(journal);
        let other = serde_json::json!({"lpips": "vgg"});
        let error = Journal::open(folder.path(), &other, widths, true)
            .err()
            .unwrap();
        assert!(error.to_string().contains("lpips"), "{error}");
    }
}
