//! foil's own store: files brought in by `foil weights import`, each with a record that keeps its checksum.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::card::Card;
use super::checksum::sha256;
use super::error::{Result, WeightsError};
use super::formats;
use super::registry::Registry;
use super::verify;

/// What is known of an imported file; `NAME.imported.json` beside `NAME.imported.safetensors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub schema: String,
    pub name: String,
    pub architecture: String,
    /// Of the `.safetensors` file in the store.
    pub sha256: String,
    /// The file that was imported.
    pub imported_file: String,
    pub imported_sha256: String,
    /// Whether that is one of the published files of the card.
    pub published: bool,
    pub foil: String,
}

const SCHEMA: &str = "foil.weights.record/1";

/// What an import did.
#[derive(Clone, Debug)]
pub struct Imported {
    pub path: PathBuf,
    pub record: Record,
    /// Arrays in the stored file.
    pub tensors: usize,
    /// What the trial run of the network showed.
    pub proof: String,
    /// The import that was replaced, if it was of another file.
    pub replaced: Option<Record>,
}

/// Where a folder keeps the import of a card; no published file has such a name.
pub(super) fn file_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.imported.safetensors"))
}

impl Record {
    /// The record beside an imported file of `card`.
    pub(super) fn read(file: &Path, card: &Card) -> Result<Record> {
        let path = file.with_extension("json");
        let wrong = |reason: String| WeightsError::Record {
            file: path.display().to_string(),
            name: card.name.clone(),
            reason,
        };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            wrong(format!(
                "the record of {} cannot be read ({error})",
                file.display()
            ))
        })?;
        let record: Record = serde_json::from_str(&text)
            .map_err(|error| wrong(format!("not a record of imported weights ({error})")))?;
        if record.schema != SCHEMA {
            return Err(wrong(format!(
                "expected schema {SCHEMA}, found {:?}",
                record.schema
            )));
        }
        if record.architecture != card.architecture.name() {
            return Err(wrong(format!(
                "expected the architecture {}, found {:?}",
                card.architecture, record.architecture
            )));
        }
        Ok(record)
    }
}

impl Registry {
    /// Brings a file of any readable format into the store under a card's name.
    ///
    /// The file is read, brought to public tensor names, checked for NaN and infinities and run once in its
    /// network before anything is written. A file that is not one of those published for the card is refused
    /// unless `unpublished` is set, so that a name keeps its meaning.
    pub fn import(&self, file: &Path, card: &Card, unpublished: bool) -> Result<Imported> {
        if card.embedded {
            return Err(WeightsError::Misfit {
                file: file.display().to_string(),
                name: card.name.clone(),
                expected: "no file: its weights are part of the program".into(),
                found: "a file to import. Give other weights a card of their own".into(),
            });
        }
        let store = self.places.store.as_deref();
        let store = store.ok_or_else(|| WeightsError::Missing {
            name: card.name.clone(),
            help: "There is no folder to keep it in: set FOIL_HOME to a folder".into(),
        })?;
        let bytes =
            std::fs::read(file).map_err(|error| WeightsError::io(file, "read it", error))?;
        let imported_sha256 = sha256(&bytes);
        let shown = file.display().to_string();
        let published = published(card, &shown, &imported_sha256, unpublished)?;
        let dict = formats::convert(card.conversion(), formats::read_bytes(&bytes, &shown)?)?;
        drop(bytes);
        dict.check_finite()?;
        let proof = verify::trial(card, &dict, &shown)?;

        std::fs::create_dir_all(store)
            .map_err(|error| WeightsError::io(store, "create the store", error))?;
        let path = file_of(store, &card.name);
        let before = Record::read(&path, card).ok();
        let metadata = BTreeMap::from([
            ("imported_sha256".to_owned(), imported_sha256.clone()),
            ("licence".to_owned(), card.licence.clone()),
            ("network".to_owned(), card.name.clone()),
        ]);
        formats::write_safetensors(&dict, &path, &metadata)?;
        let written =
            std::fs::read(&path).map_err(|error| WeightsError::io(&path, "read it back", error))?;
        let file_name = file.file_name().unwrap_or(file.as_os_str());
        let record = Record {
            schema: SCHEMA.into(),
            name: card.name.clone(),
            architecture: card.architecture.name().into(),
            sha256: sha256(&written),
            imported_file: file_name.to_string_lossy().into_owned(),
            imported_sha256,
            published,
            foil: env!("CARGO_PKG_VERSION").into(),
        };
        write_record(&record, &path.with_extension("json"))?;
        let other = |old: &Record| old.imported_sha256 != record.imported_sha256;
        Ok(Imported {
            replaced: before.filter(other),
            tensors: dict.len(),
            path,
            record,
            proof,
        })
    }
}

/// Whether the file is one of those the card names; an error if it is not and must be.
fn published(card: &Card, shown: &str, found: &str, unpublished: bool) -> Result<bool> {
    let known: Vec<_> = card
        .files()
        .map(|(_, expected)| expected)
        .filter(|expected| expected.is_known())
        .collect();
    let published = known.iter().any(|expected| expected.admits(found));
    if published || known.is_empty() || unpublished {
        return Ok(published);
    }
    let expected: Vec<String> = known.iter().map(ToString::to_string).collect();
    Err(WeightsError::Checksum {
        file: shown.into(),
        expected: expected.join(" or "),
        found: found.into(),
        todo: format!(
            "It is not the published file of {}. Give other weights a card of their own, or import it all the same \
             with --unpublished",
            card.name
        ),
    })
}

/// Written beside its place and renamed, so that a record is never half there.
fn write_record(record: &Record, path: &Path) -> Result<()> {
    let part = path.with_extension(format!("json.{}.part", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&part)?;
        file.write_all(serde_json::to_string_pretty(record)?.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    };
    write().map_err(|error| {
        let _ = std::fs::remove_file(&part);
        WeightsError::io(path, "write it", error)
    })
}
