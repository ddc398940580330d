//! Model cards: what ties a network's layout, file, checksum, preprocessing, labels and licence together.
//!
//! A card is a TOML file:
//!
//! ```toml
//! name = "birds"                      # letters, digits, . _ -
//! architecture = "resnet50"           # see `nets::Architecture`
//! file = "birds.pth"                  # beside the card; any format of `weights::formats`
//! random = { seed = 0 }               # instead of a file: a classifier that was never trained (alexnet, plain_cnn)
//! sha256 = "…"                        # optional, 64 digits; checked at every load
//! labels = ["crow", "wren"]           # or a file (.txt one per line, .json list), or "imagenet1k"
//! role = "classifier"                 # the default; "generator" for bex_generator
//! licence = "CC0-1.0"
//! origin = "trained by us"
//! hub = { repo = "us/birds", file = "birds.safetensors", revision = "main" }   # optional
//! role = "denoiser"                   # optional, default classifier; encoder, autoencoder, invertible
//! diffusion = { schedule = "cosine", steps = 1000 }                            # of a denoiser, or of a classifier that knows its noise
//! denoiser = { num_groups = 8 }       # optional, what the weights of a denoiser do not say; see [`UnetConfig`]
//! [preprocessing]                     # optional, default torchvision's ImageNet
//! resize = { size = 232, filter = "bicubic" }
//! crop = [224, 224]
//! [unet]                              # optional, only for unet_encoder
//! [training]                          # optional, how `foil train` made it; see [`TrainingRecord`]
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

use super::checksum::Expected;
use super::embedded;
use super::error::{Result, WeightsError};
use super::preprocessing::Preprocessing;
use super::random::RandomWeights;
use crate::diffusion::Betas;
use crate::nets::{Architecture, UnetConfig, UnetEncoderConfig};

/// A network: layout, weights and how to feed it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub name: String,
    /// Other names that mean this card.
    #[serde(default)]
    pub aliases: Vec<String>,
    #[serde(deserialize_with = "architecture")]
    pub architecture: Architecture,
    #[serde(default)]
    pub role: Role,
    /// The weights: a file name, or a path relative to the card's folder.
    #[serde(default)]
    pub file: String,
    /// Random weights in place of a file: a network that was never trained.
    #[serde(default)]
    pub random: Option<RandomWeights>,
    /// Of `file`.
    #[serde(default)]
    pub sha256: Option<String>,
    /// First digits of the SHA-256 of `file`, where no more is published.
    #[serde(default)]
    pub sha256_prefix: Option<String>,
    /// Other published files with the same weights.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
    #[serde(default)]
    pub hub: Option<HubFile>,
    #[serde(default)]
    pub preprocessing: Preprocessing,
    /// Class names in index order; empty if there are none.
    #[serde(skip)]
    pub labels: Vec<String>,
    #[serde(default, rename = "labels")]
    pub(super) given_labels: Labels,
    #[serde(default)]
    pub licence: String,
    #[serde(default)]
    pub origin: String,
    /// What a user should know.
    #[serde(default)]
    pub notes: String,
    #[serde(default)]
    pub unet: UnetEncoderConfig,
    /// Of a denoiser.
    #[serde(default)]
    pub denoiser: UnetConfig,
    /// Of a denoiser, or the one whose noise a classifier knows.
    #[serde(default)]
    pub diffusion: Option<DiffusionConfig>,
    /// LPIPS heads that belong to this backbone: `alex`, `vgg` or `squeeze`.
    #[serde(default)]
    pub heads: Option<String>,
    /// Name for [`super::formats::convert`]; the card's name if left out.
    #[serde(default)]
    pub conversion: Option<String>,
    /// How `foil train` made it.
    #[serde(default)]
    pub training: Option<TrainingRecord>,
    /// The command that fetches the file, if there is one.
    #[serde(default)]
    pub fetch: Option<String>,
    /// The file is part of the program.
    #[serde(default)]
    pub embedded: bool,
    /// Where a user's card lies; none for the cards of the program.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
}

/// The diffusion a denoiser belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiffusionConfig {
    pub schedule: Betas,
    /// Of the full schedule.
    pub steps: usize,
}

/// How a network was trained, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRecord {
    /// The command line.
    pub command: String,
    /// The command that renders the same data again, or what else is known of them.
    pub data: String,
    /// Of the table of attributes and all pixels.
    pub data_sha256: String,
    /// Images it learnt from.
    pub images: usize,
    pub seed: u64,
    pub steps: usize,
    pub threads: usize,
    /// Time by the clock, and of all threads together on the processor.
    pub seconds: f64,
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Measured on held-out images, by name.
    #[serde(default)]
    pub results: BTreeMap<String, f64>,
}

/// What a network is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    #[default]
    Classifier,
    LpipsBackbone,
    FidFeatures,
    /// Reads attributes off images.
    Encoder,
    Autoencoder,
    /// Predicts the noise of images.
    Denoiser,
    Generator,
    /// Makes codes of images that can be drawn again.
    Invertible,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Classifier => "classifier",
            Role::LpipsBackbone => "lpips_backbone",
            Role::FidFeatures => "fid_features",
            Role::Encoder => "encoder",
            Role::Autoencoder => "autoencoder",
            Role::Denoiser => "denoiser",
            Role::Generator => "generator",
            Role::Invertible => "invertible",
        }
    }
}

/// Another published file with the weights of a card.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    pub file: String,
    #[serde(default)]
    pub sha256: Option<String>,
    #[serde(default)]
    pub sha256_prefix: Option<String>,
}

/// A file of a Hugging Face hub repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubFile {
    /// `owner/name`.
    pub repo: String,
    pub file: String,
    /// Branch, tag or commit.
    #[serde(default = "main")]
    pub revision: String,
}

fn main() -> String {
    "main".into()
}

/// Labels as a card gives them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Labels {
    List(Vec<String>),
    Named(String),
}

impl Default for Labels {
    fn default() -> Self {
        Labels::List(Vec::new())
    }
}

fn architecture<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Architecture, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

impl Card {
    /// Reads a user's card; its files are looked for beside it.
    pub fn read(path: &Path) -> Result<Card> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| WeightsError::io(path, "read the model card", error))?;
        let shown = path.display().to_string();
        let mut card: Card = toml::from_str(&text).map_err(|error| wrong(&shown, error))?;
        if card.embedded {
            return Err(wrong(&shown, "`embedded` is for the program's own cards"));
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        card.folder = Some(folder.unwrap_or(Path::new(".")).to_owned());
        card.finish(&shown)?;
        Ok(card)
    }

    /// Checks what the types do not, and reads the labels.
    pub(super) fn finish(&mut self, shown: &str) -> Result<()> {
        let plain = |text: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !text.is_empty() && !text.starts_with('.') && text.chars().all(allowed)
        };
        for name in [&self.name].into_iter().chain(&self.aliases) {
            if !plain(name) {
                let reason = format!("name {name:?}: use letters, digits, `.`, `_` and `-`");
                return Err(wrong(shown, reason));
            }
        }
        if self.file.trim().is_empty() != self.random.is_some() {
            let reason = match self.random {
                Some(_) => "`file` and `random`: give one of them",
                None => "`file` is empty; name the file of weights",
            };
            return Err(wrong(shown, reason));
        }
        for expected in [self.expected()]
            .into_iter()
            .chain(self.alternatives.iter().map(Alternative::expected))
        {
            check_digits(&expected).map_err(|reason| wrong(shown, reason))?;
        }
        if let Some(HubFile {
            repo,
            file,
            revision,
        }) = &self.hub
        {
            let path = |text: &str| text.split('/').all(plain);
            if repo.split('/').count() != 2 || !path(repo) || !path(file) || !path(revision) {
                let reason = format!(
                    "hub = {repo:?}, {file:?}, {revision:?}: expected `owner/name`, a file of it and a branch, tag \
                     or commit"
                );
                return Err(wrong(shown, reason));
            }
        }
        if let Some(training) = &self.training {
            for (name, text) in [("command", &training.command), ("data", &training.data)] {
                if text.trim().is_empty() {
                    let reason = format!("training.{name} is empty; say how it was trained");
                    return Err(wrong(shown, reason));
                }
            }
        }
        self.labels = self.read_labels(shown)?;
        if self.random.is_some() && (self.labels.is_empty() || self.role != Role::Classifier) {
            let reason =
                "`random` is for classifiers; give `labels`, which say how many classes it has";
            return Err(wrong(shown, reason));
        }
        Ok(())
    }

    fn read_labels(&self, shown: &str) -> Result<Vec<String>> {
        let labels = match &self.given_labels {
            Labels::List(list) => list.clone(),
            Labels::Named(name) if name == "imagenet1k" => {
                let bytes = embedded::bytes(embedded::LABELS).unwrap_or_default();
                serde_json::from_slice(bytes).map_err(|error| wrong(embedded::LABELS, error))?
            }
            Labels::Named(name) => {
                let path = self.beside(name);
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| WeightsError::io(&path, "read the labels", error))?;
                if path.extension().is_some_and(|e| e == "json") {
                    serde_json::from_str(&text).map_err(|error| {
                        wrong(
                            &path.display().to_string(),
                            format!("labels are a JSON list of strings: {error}"),
                        )
                    })?
                } else {
                    text.lines().map(|line| line.trim().to_owned()).collect()
                }
            }
        };
        if let Some(at) = labels.iter().position(|label| label.trim().is_empty()) {
            return Err(wrong(shown, format!("label {at} is empty")));
        }
        Ok(labels)
    }

    /// A path as a card means it: relative to its own folder.
    pub(super) fn beside(&self, file: &str) -> PathBuf {
        match &self.folder {
            Some(folder) => folder.join(file),
            None => PathBuf::from(file),
        }
    }

    pub(super) fn expected(&self) -> Expected {
        Expected {
            sha256: self.sha256.clone(),
            prefix: self.sha256_prefix.clone(),
        }
    }

    /// Every published file of this card with what is known of it.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, Expected)> {
        let others = self
            .alternatives
            .iter()
            .map(|other| (other.file.as_str(), other.expected()));
        [(self.file.as_str(), self.expected())]
            .into_iter()
            .chain(others)
    }

    pub(super) fn conversion(&self) -> &str {
        self.conversion.as_deref().unwrap_or(&self.name)
    }

    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

impl Alternative {
    fn expected(&self) -> Expected {
        Expected {
            sha256: self.sha256.clone(),
            prefix: self.sha256_prefix.clone(),
        }
    }
}

fn check_digits(expected: &Expected) -> std::result::Result<(), String> {
    let hex = |text: &str| {
        text.chars()
            .all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
    };
    if let Some(all) = expected
        .sha256
        .as_deref()
        .filter(|s| s.len() != 64 || !hex(s))
    {
        return Err(format!(
            "sha256 = {all:?}: expected 64 lower-case hexadecimal digits, found {} characters",
            all.chars().count()
        ));
    }
    let prefix = expected.prefix.as_deref();
    if let Some(prefix) = prefix.filter(|p| !(4..=64).contains(&p.len()) || !hex(p)) {
        return Err(format!(
            "sha256_prefix = {prefix:?}: expected 4 to 64 lower-case hexadecimal digits"
        ));
    }
    Ok(())
}

pub(super) fn wrong(file: &str, reason: impl ToString) -> WeightsError {
    WeightsError::Card {
        file: file.into(),
        reason: reason.to_string().trim_end().to_owned(),
    }
}
