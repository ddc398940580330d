//! Loading a card's weights: found, checked, read, and finite.

use std::borrow::Cow;

use super::card::Card;
use super::checksum::{content_sha256, sha256};
use super::embedded;
use super::error::{Result, WeightsError};
use super::formats;
use super::locate::Location;
use super::registry::Registry;
use crate::tensor::StateDict;

/// Weights ready for a network.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub dict: StateDict,
    /// Of the published file; for imported weights of the file that was imported, not of its copy in the store.
    pub sha256: String,
    /// Where they came from, for people.
    pub source: String,
}

impl Loaded {
    /// See [`content_sha256`]: the same for the same weights in another file format.
    pub fn content_sha256(&self) -> String {
        content_sha256(&self.dict)
    }
}

/// The content of a card's file, its checksum already compared.
pub(super) struct Checked {
    pub bytes: Cow<'static, [u8]>,
    pub sha256: String,
    pub location: Location,
}

impl Registry {
    /// The weights of a card. Nothing is ever put in their place: a missing, changed or broken file is an error.
    pub fn load(&self, card: &Card) -> Result<Loaded> {
        if let Some(random) = card.random {
            return super::random::load(card, random);
        }
        let Checked {
            bytes,
            sha256,
            location,
        } = self.checked(card)?;
        let source = location.to_string();
        let mut dict = formats::read_bytes(&bytes, &source)?;
        drop(bytes);
        let mut published = sha256;
        match location {
            Location::Imported(_, record) => published = record.imported_sha256,
            Location::Embedded(_) => {}
            _ => dict = formats::convert(card.conversion(), dict)?,
        }
        dict.check_finite()?;
        Ok(Loaded {
            dict,
            sha256: published,
            source,
        })
    }

    /// The FID Inception for this many features: the shipped stem for 64 and 192, the whole network for 768 and
    /// 2048.
    pub fn fid(&self, features: usize) -> Result<Loaded> {
        self.load(&self.fid_card(features)?)
    }

    /// The card that [`Registry::fid`] loads.
    pub fn fid_card(&self, features: usize) -> Result<Card> {
        match features {
            64 | 192 => self.card("inception_v3_fid_stem"),
            768 | 2048 => self.card("inception_v3_fid"),
            _ => Err(WeightsError::Choice {
                what: "number of Inception features",
                given: features.to_string(),
                known: "64, 192, 768 or 2048".into(),
            }),
        }
    }

    /// Finds (or downloads) a card's file, compares its checksum and says where it is.
    pub fn get(&self, card: &Card) -> Result<Location> {
        match card.random {
            Some(random) => Ok(Location::Untrained(random.seed)),
            None => Ok(self.checked(card)?.location),
        }
    }

    pub(super) fn checked(&self, card: &Card) -> Result<Checked> {
        let found = self.locate(card)?;
        let (shown, location) = (found.location.to_string(), found.location);
        let bytes = match &location {
            Location::Embedded(file) => {
                let bytes = embedded::bytes(file).ok_or_else(|| WeightsError::Card {
                    file: "weights/registry.toml".into(),
                    reason: format!("{file} is not part of the program"),
                })?;
                Cow::Borrowed(bytes)
            }
            Location::Untrained(_) => {
                return Err(WeightsError::Card {
                    file: card.name.clone(),
                    reason: "an untrained network has no file".into(),
                });
            }
            Location::File(path) | Location::Imported(path, _) | Location::Hub(path) => {
                let read = std::fs::read(path);
                Cow::Owned(read.map_err(|error| WeightsError::io(path, "read it", error))?)
            }
        };
        let sha256 = sha256(&bytes);
        let todo = match &location {
            Location::Embedded(_) => "The program is damaged: install it again".into(),
            Location::Imported(..) => format!(
                "The file changed since it was imported: foil weights import FILE --as {}",
                card.name
            ),
            Location::Hub(_) => "Delete it from the hub's cache and fetch it again".into(),
            Location::File(_) | Location::Untrained(_) => {
                "It is not the published file, or was damaged: fetch it again, or give other \
                                  weights a card of their own"
                    .into()
            }
        };
        found.expected.check(&shown, &sha256, todo)?;
        Ok(Checked {
            bytes,
            sha256,
            location,
        })
    }
}
