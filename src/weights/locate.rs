//! Finding a card's file: the card's own folder → `$FOIL_WEIGHTS` → foil's store → hub cache → hub download.

use std::path::{Path, PathBuf};

use super::card::Card;
use super::checksum::Expected;
use super::error::{Result, WeightsError};
use super::hub;
use super::registry::Registry;
use super::store::Record;

/// Where the weights of a card are.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// Inside the program, under this file name.
    Embedded(String),
    /// A published file as it is.
    File(PathBuf),
    /// Brought into foil's store (or one like it) by `foil weights import`.
    Imported(PathBuf, Box<Record>),
    /// In the hub's cache, or just downloaded to it.
    Hub(PathBuf),
    /// Nowhere: random numbers of this seed.
    Untrained(u64),
}

impl Location {
    /// The file, if there is one outside of the program.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Location::Embedded(_) | Location::Untrained(_) => None,
            Location::File(path) | Location::Imported(path, _) | Location::Hub(path) => Some(path),
        }
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Location::Embedded(file) => write!(f, "embedded {file}"),
            Location::Untrained(seed) => write!(f, "untrained, seed {seed}"),
            Location::File(path) | Location::Imported(path, _) | Location::Hub(path) => {
                write!(f, "{}", path.display())
            }
        }
    }
}

/// A location and what its SHA-256 must be.
pub(super) struct Found {
    pub location: Location,
    pub expected: Expected,
}

impl Registry {
    /// Where the weights are now, without using the network; `None` if they are not on this machine.
    pub fn find(&self, card: &Card) -> Result<Option<Location>> {
        Ok(self.search(card)?.map(|found| found.location))
    }

    /// The weights' place, downloading them if the card names a hub file and the network may be used.
    pub(super) fn locate(&self, card: &Card) -> Result<Found> {
        if let Some(found) = self.search(card)? {
            return Ok(found);
        }
        if let (Some(wanted), None) = (&card.hub, &self.places.hub.offline) {
            let path = hub::download(&self.places.hub, wanted)?;
            return Ok(on_hub(card, path));
        }
        Err(WeightsError::Missing {
            name: card.name.clone(),
            help: self.help(card),
        })
    }

    fn search(&self, card: &Card) -> Result<Option<Found>> {
        if let Some(random) = card.random {
            return Ok(Some(Found {
                location: Location::Untrained(random.seed),
                expected: card.expected(),
            }));
        }
        if card.embedded {
            return Ok(Some(Found {
                location: Location::Embedded(card.file.clone()),
                expected: card.expected(),
            }));
        }
        if card.folder.is_some() {
            let path = card.beside(&card.file);
            if path.is_file() {
                return Ok(Some(plain(path, card.expected())));
            }
        }
        for folder in [&self.places.folder, &self.places.store]
            .into_iter()
            .flatten()
        {
            if let Some(found) = in_folder(card, folder)? {
                return Ok(Some(found));
            }
        }
        let cached = card
            .hub
            .as_ref()
            .and_then(|wanted| hub::cached(&self.places.hub, wanted));
        Ok(cached.map(|path| on_hub(card, path)))
    }

    /// Which file is needed and where it can be put.
    fn help(&self, card: &Card) -> String {
        let mut lines = Vec::new();
        for (at, (file, expected)) in card.files().enumerate() {
            let lead = if at == 0 { "Needed:" } else { "    or:" };
            let digits = if expected.is_known() {
                format!(" (sha256 {expected})")
            } else {
                String::new()
            };
            lines.push(format!("{lead} {}{digits}", file_name(file)));
        }
        if !card.origin.is_empty() {
            lines.push(format!("From: {}", card.origin));
        }
        lines.push("Put it into one of".into());
        if card.folder.is_some() {
            let path = card.beside(&card.file);
            lines.push(format!("  {} (where its card says)", path.display()));
        }
        lines.push(match &self.places.folder {
            Some(folder) => format!("  {} ($FOIL_WEIGHTS)", folder.display()),
            None => "  a folder of yours that $FOIL_WEIGHTS names".into(),
        });
        if let Some(store) = &self.places.store {
            lines.push(format!("  {} (foil's own store)", store.display()));
        }
        lines.push(format!(
            "or run: foil weights import FILE --as {}",
            card.name
        ));
        if let Some(fetch) = &card.fetch {
            lines.push(format!("This fetches and imports it: {fetch}"));
        }
        if let (Some(wanted), Some(why)) = (&card.hub, &self.places.hub.offline) {
            let address = hub::address(&self.places.hub, wanted);
            lines.push(format!("{address} was not asked: {why}"));
        }
        lines.join("\n")
    }
}

fn plain(path: PathBuf, expected: Expected) -> Found {
    Found {
        location: Location::File(path),
        expected,
    }
}

/// A file of the hub: the card's checksum, or else the one the hub states.
fn on_hub(card: &Card, path: PathBuf) -> Found {
    let mut expected = card.expected();
    if !expected.is_known() {
        expected.sha256 = hub::stated_sha256(&path);
    }
    Found {
        location: Location::Hub(path),
        expected,
    }
}

/// A published file under its own name, or what was imported as this card.
fn in_folder(card: &Card, folder: &Path) -> Result<Option<Found>> {
    for (file, expected) in card.files() {
        let path = folder.join(file_name(file));
        if path.is_file() {
            return Ok(Some(plain(path, expected)));
        }
    }
    let path = super::store::file_of(folder, &card.name);
    if !path.is_file() {
        return Ok(None);
    }
    let record = Record::read(&path, card)?;
    Ok(Some(Found {
        expected: Expected {
            sha256: Some(record.sha256.clone()),
            prefix: None,
        },
        location: Location::Imported(path, Box::new(record)),
    }))
}

fn file_name(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}
