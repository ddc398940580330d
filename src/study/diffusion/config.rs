//! The configuration of a study: one TOML file.
//!
//! ```toml
//! denoiser = "glyph_ddpm"             # cards, by name or path
//! robust = "glyph_robust"             # its gradient goes into the cone
//!
//! [generation]                        # see `foil generate`; every key may be left out
//! steps = "200"
//! skip = 100
//! sampler = "ddpm"                    # or { ddim = { eta = 0.0 } }
//! scale = 0.1
//! distance = "l1:0.15"
//! cone = 30.0
//! cone_rule = "projection"            # or "published"
//! without_x0 = "at-x0"                # what "no x0-prediction" means: as the public code, or "off" for equation (1)
//! seed = 1
//!
//! [scores]
//! protocol = "exact"                  # or "published"
//!
//! [originals]                         # folder of a folder per source, or glyphs drawn anew
//! folder = "imagenet/val"
//! per_source = 50
//!
//! [[classifier]]                      # explained one by one, and oracles of each other
//! name = "plain"
//! card = "glyph_resnet18"
//!
//! [[oracle]]                          # further networks that only judge
//! [[source]]                          # and [[target]]: classes
//! class = 293
//! name = "cheetah"
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::{Result, StudyError};
use crate::diffusion::{ConeRule, Sampler};
use crate::glyphs::CHARACTERS;
use crate::score::Protocol;
use crate::tensor::Kept;
use crate::weights::{Card, Registry};

/// Least images that have scores: FID needs a spread.
pub(super) const LEAST: usize = 2;

/// Most originals of a source.
const MOST: usize = 100_000;

/// How folders call a source with a target.
pub fn group_folder(source: &str, target: &str) -> String {
    format!("{source}_to_{target}")
}

/// A study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file it was read from: folders and cards in it are relative to its place.
    #[serde(skip)]
    pub file: PathBuf,
    pub denoiser: String,
    pub robust: String,
    #[serde(default)]
    pub generation: Generation,
    #[serde(default)]
    pub scores: Scoring,
    pub originals: Originals,
    #[serde(rename = "classifier")]
    pub classifiers: Vec<Named>,
    #[serde(default, rename = "oracle")]
    pub oracles: Vec<Named>,
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
    #[serde(rename = "target")]
    pub targets: Vec<Target>,
    /// Names of sources and targets that are "ideal".
    pub ideal: Vec<(String, String)>,
    /// Whether an image is also sent to the class it has.
    #[serde(default)]
    pub self_pairs: bool,
    /// The ablations: all four, unless said otherwise.
    #[serde(default = "all_setups", rename = "setup")]
    pub setups: Vec<Setup>,
}

/// How counterfactuals are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Generation {
    pub steps: String,
    pub skip: usize,
    /// `"ddpm"`, or `{ ddim = { eta = 0.0 } }`.
    #[serde(skip_serializing_if = "is_usual")]
    pub sampler: Sampler,
    pub scale: f64,
    pub distance: String,
    pub cone: f64,
    pub cone_rule: ConeRule,
    pub without_x0: WithoutX0,
    pub seed: u64,
    /// Images at once; results do not depend on it.
    #[serde(skip_serializing)]
    pub batch: usize,
    /// Runs blocks of the denoiser again on the way back: less memory, more time, the same results.
    #[serde(skip_serializing)]
    pub checkpointing: bool,
    /// Type that the denoiser's blocks are kept in: f32, f16 or bf16; what its card says, unless it is given.
    #[serde(
        with = "crate::nets::kept_by_name",
        skip_serializing_if = "Option::is_none"
    )]
    pub precision: Option<Kept>,
}

impl Default for Generation {
    fn default() -> Self {
        Self {
            steps: "200".into(),
            skip: 100,
            sampler: Sampler::Ddpm,
            scale: 0.1,
            distance: "l1:0.15".into(),
            cone: 30.0,
            cone_rule: ConeRule::Projection,
            without_x0: WithoutX0::AtX0,
            seed: 1,
            batch: 16,
            checkpointing: false,
            precision: None,
        }
    }
}

/// Studies of the ancestral chain are those of versions that knew no other.
fn is_usual(sampler: &Sampler) -> bool {
    *sampler == Sampler::Ddpm
}

/// What is done without x0-prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithoutX0 {
    /// The classifier sees the predicted clean image, and the gradient stops there: what the public code does.
    AtX0,
    /// The classifier sees the noisy image: equation (1) of the paper.
    Off,
}

/// How they are scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scoring {
    pub protocol: ProtocolName,
}

impl Scoring {
    pub fn protocol(&self) -> Protocol {
        match self.protocol {
            ProtocolName::Exact => Protocol::Exact,
            ProtocolName::Published => Protocol::Published,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    #[default]
    Exact,
    Published,
}

/// Where originals come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Originals {
    /// A folder with one folder per source.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// Glyphs of sources that name characters.
    #[serde(default)]
    pub glyphs: Option<Glyphs>,
    /// The first so many images of each source, by name.
    pub per_source: usize,
}

/// The glyph world of the originals; see `foil glyphs render`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Glyphs {
    pub seed: u64,
    pub pixel_noise: f32,
    pub scale: f64,
    pub scale_spread: f64,
    pub rotation_spread: f64,
    pub translation: f64,
}

/// A network under the name it has in the tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub name: String,
    pub card: String,
    /// An untrained network: as an oracle it should agree with nobody, and only the first table shows it.
    #[serde(default)]
    pub untrained: bool,
}

/// Originals of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Number in the tables.
    pub class: i64,
    pub name: String,
    /// What the classifiers call it, if not by that number: a class name or number.
    #[serde(default)]
    pub label: Option<String>,
    /// Below the folder of originals; the name, unless said otherwise.
    #[serde(default)]
    pub folder: Option<String>,
    /// Of glyphs.
    #[serde(default)]
    pub character: Option<char>,
}

/// A class that images are sent to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    pub class: i64,
    pub name: String,
    #[serde(default)]
    pub label: Option<String>,
}

/// An ablation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    pub cone_projection: bool,
    pub xzero_prediction: bool,
}

fn all_setups() -> Vec<Setup> {
    let both = [true, false];
    let all = both.map(|xzero_prediction| {
        both.map(|cone_projection| Setup {
            cone_projection,
            xzero_prediction,
        })
    });
    all.concat()
}

impl Setup {
    /// As folders call it.
    pub fn name(&self) -> &'static str {
        match (self.cone_projection, self.xzero_prediction) {
            (true, true) => "cone_x0",
            (false, true) => "no-cone_x0",
            (true, false) => "cone_no-x0",
            (false, false) => "no-cone_no-x0",
        }
    }
}

impl Source {
    pub fn label(&self) -> String {
        self.label.clone().unwrap_or(self.class.to_string())
    }
}

impl Target {
    pub fn label(&self) -> String {
        self.label.clone().unwrap_or(self.class.to_string())
    }
}

macro_rules! card {
    ($name:literal) => {
        (
            concat!("cards/", $name, ".toml"),
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/examples/cards/",
                $name,
                ".toml"
            )),
        )
    };
}

/// The configurations that ship with the program, by name.
pub const SHIPPED: [(&str, &str); 3] = [
    (
        "study.toml",
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/study.toml")),
    ),
    (
        "study-glyphs.toml",
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/examples/study-glyphs.toml"
        )),
    ),
    (
        "study-small.toml",
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/examples/study-small.toml"
        )),
    ),
];

/// The cards that `study.toml` names, for the program cannot know where the weights are.
pub const CARDS: [(&str, &str); 7] = [
    card!("guided_diffusion_256_uncond"),
    card!("madry_resnet50"),
    card!("alexnet"),
    card!("convnext_large"),
    card!("swin_b"),
    card!("resnet50_features"),
    card!("random_alexnet"),
];

impl Config {
    /// A file, or else one that ships with the program. Folders in it are relative to the file.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let shipped = SHIPPED.iter().find(|(name, _)| *name == shown);
        let text = match (std::fs::read_to_string(path), shipped) {
            (Ok(text), _) => text,
            (Err(_), Some((_, text))) => (*text).to_owned(),
            (Err(error), None) => {
                let known = SHIPPED.map(|(name, _)| name).join(", ");
                return Err(StudyError::file(
                    path,
                    format!(
                        "cannot read the configuration: {error}; the program itself holds {known}"
                    ),
                ));
            }
        };
        let parsed = Self::parse(&text);
        let config = parsed.map_err(|what| StudyError::Config { file: shown, what })?;
        Ok(Self {
            file: path.into(),
            ..config
        })
    }

    /// A path of the configuration, which is relative to its file.
    pub fn below(&self, path: impl AsRef<Path>) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// The card that a name of the configuration means: one that is known, or a file.
    pub fn card(&self, registry: &Registry, name: &str) -> Result<Card> {
        Ok(match Path::new(name).extension() {
            Some(e) if e == "toml" => Card::read(&self.below(name))?,
            _ => registry.card(name)?,
        })
    }

    /// The same as the words that a card is opened by.
    pub fn card_name(&self, name: &str) -> String {
        match Path::new(name).extension() {
            Some(e) if e == "toml" => self.below(name).to_string_lossy().into_owned(),
            _ => name.to_owned(),
        }
    }

    /// That it makes no sense.
    pub(super) fn wrong(&self, what: impl ToString) -> StudyError {
        StudyError::Config {
            file: self.file.display().to_string(),
            what: what.to_string(),
        }
    }

    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        config.check()?;
        Ok(config)
    }

    /// What the types do not say.
    fn check(&self) -> std::result::Result<(), String> {
        let plain = |name: &str| {
            let known = |c: char| c.is_alphanumeric() || " _-.()".contains(c);
            !name.is_empty() && !name.starts_with('.') && name.chars().all(known)
        };
        let judges = self.classifiers.iter().chain(&self.oracles);
        let networks: Vec<&String> = judges.map(|n| &n.name).collect();
        let sources: Vec<&String> = self.sources.iter().map(|s| &s.name).collect();
        let targets: Vec<&String> = self.targets.iter().map(|t| &t.name).collect();
        for (what, names) in [
            ("classifier or oracle", &networks),
            ("source", &sources),
            ("target", &targets),
        ] {
            if names.is_empty() {
                return Err(format!("there is no {what}"));
            }
            for (i, name) in names.iter().enumerate() {
                if !plain(name) {
                    return Err(format!(
                        "{what} {name:?}: use letters, digits, spaces and _ - . ( )"
                    ));
                }
                if names[..i].contains(name) {
                    return Err(format!("two are named {what} {name:?}"));
                }
            }
        }
        if self.classifiers.is_empty() || self.setups.is_empty() {
            return Err("there is no classifier or no setup".into());
        }
        if let Some((i, twice)) =
            { self.setups.iter().enumerate() }.find(|(i, setup)| self.setups[..*i].contains(setup))
        {
            let number = i + 1;
            return Err(format!("setup {number}: {} is there twice", twice.name()));
        }
        if self.ideal.is_empty() {
            return Err("ideal: name one pair at least, the tables begin with them".into());
        }
        let mut folders = BTreeSet::new();
        for (source, target) in { sources.iter() }.flat_map(|s| targets.iter().map(move |t| (s, t)))
        {
            if !folders.insert(group_folder(source, target)) {
                return Err(format!(
                    "source {source:?} with target {target:?}: another pair has the same folder {}",
                    group_folder(source, target)
                ));
            }
        }
        for (source, target) in &self.ideal {
            if !sources.contains(&source) || !targets.contains(&target) {
                return Err(format!(
                    "ideal pair {source:?}, {target:?}: expected names of a source and a target"
                ));
            }
        }
        self.check_classes()?;
        self.check_ideal()?;
        match (&self.originals.folder, &self.originals.glyphs) {
            (Some(_), Some(_)) | (None, None) => {
                return Err("originals: give a folder, or glyphs".into());
            }
            (None, Some(_)) => {
                let unknown = |s: &&Source| !s.character.is_some_and(|c| CHARACTERS.contains(&c));
                if let Some(source) = self.sources.iter().find(unknown) {
                    return Err(format!(
                        "source {:?}: give its character, one of {}",
                        source.name,
                        CHARACTERS.iter().collect::<String>()
                    ));
                }
            }
            _ => {}
        }
        let g = &self.generation;
        let sound = g.cone > 0.0
            && g.cone < 90.0
            && (0.0..=1e6).contains(&g.scale)
            && (1..=4096).contains(&g.batch);
        if let Sampler::Ddim { eta } = g.sampler
            && !(0.0..=1.0).contains(&eta)
        {
            return Err(format!(
                "generation: sampler: eta is {eta}, expected a share from 0 to 1"
            ));
        }
        if !sound {
            return Err(
                "generation: expected a cone between 0 and 90 degrees, a scale from 0 to 1e6, a batch from 1 to 4096"
                    .into(),
            );
        }
        match self.originals.per_source {
            LEAST..=MOST => Ok(()),
            found => Err(format!(
                "originals: per_source is {found}, expected 2 (FID needs a spread) to {MOST}"
            )),
        }
    }

    /// The raw results and the tables know classes by their numbers.
    fn check_classes(&self) -> std::result::Result<(), String> {
        let sources: Vec<(i64, &String)> =
            self.sources.iter().map(|s| (s.class, &s.name)).collect();
        let targets: Vec<(i64, &String)> =
            self.targets.iter().map(|t| (t.class, &t.name)).collect();
        for (what, classes) in [("source", &sources), ("target", &targets)] {
            for (at, (class, name)) in classes.iter().enumerate() {
                if *class < 0 {
                    return Err(format!(
                        "{what} {name:?}: class is {class}, expected a number from 0 up"
                    ));
                }
                if let Some((_, other)) = classes[..at].iter().find(|(c, _)| c == class) {
                    return Err(format!(
                        "{what}s {other:?} and {name:?} have the class {class} both: tables tell them apart by it, so give each a \
                         number of its own (`label` says what the classifiers call them)"
                    ));
                }
            }
        }
        for (class, name) in &sources {
            let same = |(_, other): &&(i64, &String)| other == name;
            if let Some((other, _)) = targets.iter().find(same).filter(|(c, _)| c != class) {
                return Err(format!(
                    "{name:?} is a source of the class {class} and a target of the class {other}: give both the same number"
                ));
            }
        }
        Ok(())
    }

    /// The tables begin with the ideal pairs: they must be made, and not be left out of the tables.
    fn check_ideal(&self) -> std::result::Result<(), String> {
        for (source, target) in &self.ideal {
            let named = (
                self.sources.iter().find(|s| s.name == *source),
                self.targets.iter().find(|t| t.name == *target),
            );
            let (Some(s), Some(t)) = named else { continue };
            if !self.makes(s, t) {
                return Err(format!(
                    "ideal pair {source:?}, {target:?}: both have the label {:?}, and with `self_pairs = false` no image is sent to \
                     the class it has: name another target, or set `self_pairs = true`",
                    s.label()
                ));
            }
            if s.class == t.class && self.scores.protocol() == Protocol::Exact {
                return Err(format!(
                    "ideal pair {source:?}, {target:?}: both are the class {}, and the exact protocol leaves groups out of the \
                     tables whose target is their source: name another target, or score by `protocol = \"published\"`",
                    s.class
                ));
            }
        }
        Ok(())
    }

    /// Whether images of a source are sent to a target.
    pub fn makes(&self, source: &Source, target: &Target) -> bool {
        self.self_pairs || target.label() != source.label()
    }

    pub fn is_ideal(&self, source: &Source, target: &Target) -> bool {
        let is = |(s, t): &(String, String)| *s == source.name && *t == target.name;
        self.ideal.iter().any(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_studies_hold_what_the_paper_says() {
        let read = |name: &str| Config::read(Path::new(name)).unwrap();
        let paper = read("study.toml");
        assert_eq!(
            (paper.sources.len(), paper.targets.len(), paper.ideal.len()),
            (6, 11, 6)
        );
        assert_eq!((paper.classifiers.len(), paper.setups.len()), (7, 4));
        assert_eq!(paper.originals.per_source, 50);
        for name in ["study-glyphs.toml", "study-small.toml"] {
            let glyphs = read(name);
            assert_eq!((glyphs.classifiers.len(), glyphs.setups.len()), (5, 4));
        }
    }

    /// 256 x 256 pixels from −1 to 1, as the study fed all of them.
    #[test]
    fn the_study_of_the_paper_has_a_card_for_every_network() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/study.toml");
        let paper = Config::read(Path::new(file)).unwrap();
        let registry = Registry::open().unwrap();
        let mut named = Vec::new();
        for name in crate::study::diffusion::check::networks(&paper) {
            let card = paper.card(&registry, name).unwrap();
            let p = &card.preprocessing;
            assert_eq!(
                p.passes([256, 256]).unwrap(),
                [],
                "{name} takes images as they are"
            );
            for c in 0..3 {
                let ends = [0.0, 255.0].map(|v| (v * p.scale - p.mean[c]) / p.std[c]);
                let off = (ends[0] + 1.0).abs().max((ends[1] - 1.0).abs());
                assert!(off < 1e-5, "{name}: {ends:?}");
            }
            named.push(name);
        }
        for (card, _) in CARDS {
            assert!(named.contains(&card), "{card}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let (_, text) = SHIPPED[2];
        for (from, to, said) in [
            ("[generation]", "[generation]\nspeed = 3", "speed"),
            ("per_source", "per_source = 1 #", "per_source"),
            (
                "per_source",
                "per_source = 10000000000000000 #",
                "per_source",
            ),
            ("ideal = ", "ideal = [] #", "ideal"),
            (
                "[generation]",
                "[[setup]]\ncone_projection = true\nxzero_prediction = true\n[[setup]]\ncone_projection = \
                 true\nxzero_prediction = true\n[generation]",
                "twice",
            ),
            ("character = \"i\"", "character = \"?\"", "character"),
            ("[\"i\", \"odd\"]", "[\"i\", \"old\"]", "ideal pair"),
            ("class = 120", "class = 108", "the class 108 both"),
            ("class = 1\n", "class = 0\n", "the class 0 both"),
            ("class = 120", "class = -1", "from 0 up"),
            ("name = \"s\"", "name = \"odd\"", "the same number"),
            (
                "[\"i\", \"odd\"]",
                "[\"i\", \"even\"]",
                "`self_pairs = true`",
            ),
        ] {
            let wrong = text.replacen(from, to, 1);
            assert_ne!(wrong, text, "{from}");
            let error = Config::parse(&wrong).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        // With them it is made; the exact protocol's tables would leave it out if it were of one class.
        let own = text.replacen("self_pairs = false", "self_pairs = true", 1);
        let own = own.replacen("[\"i\", \"odd\"]", "[\"i\", \"even\"]", 1);
        Config::parse(&own).unwrap();
        let one = own.replacen("class = 0\n", "class = 108\n", 1);
        assert_ne!(one, own);
        let error = Config::parse(&one).unwrap_err();
        assert!(error.contains("protocol = \"published\""), "{error}");
    }
}
