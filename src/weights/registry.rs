//! The networks that are known by name.

use std::path::Path;

use serde::Deserialize;

use super::card::{Card, wrong};
use super::embedded;
use super::error::{Result, WeightsError};
use super::places::Places;
use super::random::RandomWeights;

/// All known cards: those of the program and those in `$FOIL_WEIGHTS`.
#[derive(Clone, Debug)]
pub struct Registry {
    cards: Vec<Card>,
    shipped: Vec<Shipped>,
    pub(super) places: Places,
}

/// A file inside the program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shipped {
    pub file: String,
    pub sha256: String,
    pub licence: String,
    pub origin: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryFile {
    shipped: Vec<Shipped>,
    card: Vec<Card>,
}

impl Registry {
    /// The cards of the program and of `$FOIL_WEIGHTS`, with the places the environment names.
    pub fn open() -> Result<Registry> {
        Self::at(Places::from_env())
    }

    /// The same with given places.
    pub fn at(places: Places) -> Result<Registry> {
        const NAME: &str = "weights/registry.toml";
        let file: RegistryFile =
            toml::from_str(embedded::REGISTRY).map_err(|error| wrong(NAME, error))?;
        let mut registry = Registry {
            cards: Vec::with_capacity(file.card.len()),
            shipped: file.shipped,
            places,
        };
        for mut card in file.card {
            if card.embedded {
                let shipped = registry.shipped.iter().find(|s| s.file == card.file);
                card.sha256 = shipped.map(|s| s.sha256.clone());
            }
            card.finish(NAME)?;
            registry.add(card, NAME)?;
        }
        for (name, _, text) in embedded::GLYPHS {
            registry.add_glyph_network(name, text)?;
        }
        registry.read_folder()?;
        Ok(registry)
    }

    /// A network of the glyph world: its card is the file that `foil train` wrote.
    fn add_glyph_network(&mut self, file: &str, text: &str) -> Result<()> {
        let shown = format!("weights/{}", file.replace(".safetensors", ".toml"));
        let mut card: Card = toml::from_str(text).map_err(|error| wrong(&shown, error))?;
        let sha256 = card.sha256.clone();
        self.shipped.push(Shipped {
            file: file.to_owned(),
            sha256: sha256.ok_or_else(|| wrong(&shown, "it states no sha256"))?,
            licence: card.licence.clone(),
            origin: card.origin.clone(),
        });
        card.file = file.to_owned();
        card.embedded = true;
        card.finish(&shown)?;
        self.add(card, &shown)
    }

    fn read_folder(&mut self) -> Result<()> {
        let Some(folder) = self.places.folder.clone() else {
            return Ok(());
        };
        let unreadable =
            |error| WeightsError::io(&folder, "list the folder $FOIL_WEIGHTS names", error);
        let mut cards = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|e| e == "toml") {
                cards.push(path);
            }
        }
        cards.sort();
        for path in cards {
            self.add(Card::read(&path)?, &path.display().to_string())?;
        }
        Ok(())
    }

    fn add(&mut self, card: Card, from: &str) -> Result<()> {
        for name in [&card.name].into_iter().chain(&card.aliases) {
            if self.cards.iter().any(|known| known.is_named(name)) {
                let reason = format!("there is a card named {name:?} already; choose another name");
                return Err(wrong(from, reason));
            }
        }
        self.cards.push(card);
        Ok(())
    }

    /// The same without one card.
    #[cfg(test)]
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.cards.retain(|card| !card.is_named(name));
        self
    }

    /// All cards: the program's, then the user's by file name.
    pub fn cards(&self) -> impl Iterator<Item = &Card> {
        self.cards.iter()
    }

    /// The files inside the program.
    pub fn shipped(&self) -> &[Shipped] {
        &self.shipped
    }

    /// Where weights are looked for.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// A card by its name, or from the path of a `.toml` file.
    pub fn card(&self, name_or_path: &str) -> Result<Card> {
        if let Some(card) = self.cards.iter().find(|card| card.is_named(name_or_path)) {
            return Ok(card.clone());
        }
        if let Some(card) = self.untrained(name_or_path) {
            return Ok(card);
        }
        let path = Path::new(name_or_path);
        if path.extension().is_some_and(|e| e == "toml") {
            return Card::read(path);
        }
        if path.is_file() {
            return Err(wrong(
                name_or_path,
                "expected a .toml file that names architecture, weights and preprocessing. For a file of weights \
                 write such a card beside it, or import it: foil weights import FILE --as NAME",
            ));
        }
        let names = || {
            self.cards
                .iter()
                .flat_map(|card| [&card.name].into_iter().chain(&card.aliases))
        };
        let near = names()
            .map(|name| (distance(name_or_path, name), name))
            .filter(|(steps, name)| *steps <= 1 + name.len() / 5)
            .min();
        Err(WeightsError::UnknownName {
            name: name_or_path.into(),
            near: near.map_or(String::new(), |(_, name)| {
                format!("; did you mean {name:?}?")
            }),
            known: self
                .cards
                .iter()
                .map(|card| card.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// `random:7`: an untrained network with another seed.
    fn untrained(&self, name: &str) -> Option<Card> {
        let (name, seed) = name.split_once(':')?;
        let seed = seed.parse().ok()?;
        let card = self.cards.iter().find(|card| card.is_named(name))?;
        card.random.map(|_| Card {
            name: format!("{}:{seed}", card.name),
            random: Some(RandomWeights { seed }),
            ..card.clone()
        })
    }
}

/// Levenshtein distance, upper and lower case and `-` and `_` being the same.
fn distance(a: &str, b: &str) -> usize {
    let plain = |text: &str| -> Vec<char> {
        let same = |c: char| {
            if c == '-' {
                '_'
            } else {
                c.to_ascii_lowercase()
            }
        };
        text.chars().take(64).map(same).collect()
    };
    let (a, b) = (plain(a), plain(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("ConvNeXt-tiny", "convnext_tiny"), 0);
        assert_eq!(distance("", "abc"), 3);
    }
}
