//! Source → target groups and their originals.

use std::path::{Path, PathBuf};

use super::config::{Config, Glyphs, Source, Target, group_folder};
use super::error::{Result, StudyError};
use crate::folder::{make, write_whole};
use crate::glyphs::{Atlas, CHARACTERS, Drawing, Model, World, dataset};
use crate::images::list_images;
use crate::weights::sha256;

/// Glyphs that are looked at for each that is wanted: one in 48 shows a certain character.
const TRIES: usize = 48 * 40;

/// Originals of a source, with what they are called.
#[derive(Clone, Debug, PartialEq)]
pub struct Original {
    pub path: PathBuf,
    /// What it is called among those of its source: its path there without extension.
    pub stem: String,
    /// `SOURCE/STEM`: what the noise belongs to.
    pub name: String,
    pub sha256: String,
}

/// One source with one target.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    pub source: &'a Source,
    pub target: &'a Target,
    pub originals: &'a [Original],
}

impl Original {
    fn new(source: &Source, path: PathBuf, stem: String) -> Result<Self> {
        let bytes = std::fs::read(&path)
            .map_err(|error| StudyError::file(&path, format!("cannot read: {error}")))?;
        Ok(Self {
            name: format!("{}/{stem}", source.name),
            sha256: sha256(&bytes),
            path,
            stem,
        })
    }
}

impl Group<'_> {
    /// As folders call it.
    pub fn folder(&self) -> String {
        group_folder(&self.source.name, &self.target.name)
    }

    /// What the counterfactual of an original is called.
    pub fn result(&self, original: &Original) -> String {
        format!("{}/{}", self.folder(), original.stem)
    }

    /// As the published CSV calls it.
    pub fn run_id(&self) -> String {
        let plain = |name: &str| name.replace(' ', "-");
        format!(
            "run_{}({})_to_{}({})",
            plain(&self.source.name),
            self.source.class,
            plain(&self.target.name),
            self.target.class
        )
    }
}

/// All groups in order: sources, and targets within them.
pub fn groups<'a>(config: &'a Config, originals: &'a [Vec<Original>]) -> Vec<Group<'a>> {
    let sources = config.sources.iter().zip(originals);
    sources
        .flat_map(|(source, originals)| {
            let wanted = move |t: &&Target| config.makes(source, t);
            let targets = config.targets.iter().filter(wanted);
            targets.map(move |target| Group {
                source,
                target,
                originals,
            })
        })
        .collect()
}

/// The originals of every source; glyphs are drawn into `out` if they are not there.
pub fn originals(config: &Config, out: &Path) -> Result<Vec<Vec<Original>>> {
    let count = config.originals.per_source;
    if let Some(glyphs) = &config.originals.glyphs {
        return drawn(config, glyphs, count, out);
    }
    let root = config.below(config.originals.folder.as_deref().unwrap_or(Path::new("")));
    let mut all = Vec::new();
    for source in &config.sources {
        let folder = root.join(source.folder.as_deref().unwrap_or(&source.name));
        let files = list_images(&folder)?;
        if files.len() < count {
            return Err(StudyError::file(
                &folder,
                format!(
                    "expected {count} images of {}, found {}: put more there, or lower per_source",
                    source.name,
                    files.len()
                ),
            ));
        }
        let mut own: Vec<Original> = Vec::new();
        for path in files.into_iter().take(count) {
            let below = path.strip_prefix(&folder).unwrap_or(&path);
            let stem = below.with_extension("");
            let stem = stem.to_str().ok_or_else(|| {
                StudyError::file(&path, "its name is not UTF-8: tables could not name it")
            })?;
            let stem = stem.replace('\\', "/");
            if own.iter().any(|other| other.stem == stem) {
                let what = "another original is called the same but for its extension: rename one";
                return Err(StudyError::file(&path, what));
            }
            own.push(Original::new(source, path, stem)?);
        }
        all.push(own);
    }
    Ok(all)
}

/// The first glyphs of a world that show the characters of the sources.
fn drawn(config: &Config, glyphs: &Glyphs, count: usize, out: &Path) -> Result<Vec<Vec<Original>>> {
    let atlas = Atlas::embedded()?;
    let model = Model {
        spurious: 0,
        label_noise: 0.0,
        scale: glyphs.scale,
        scale_spread: glyphs.scale_spread,
        rotation_spread: glyphs.rotation_spread,
        translation: glyphs.translation,
        ..Model::default()
    };
    model.check(atlas.font_count())?;
    let drawing = Drawing {
        pixel_noise: glyphs.pixel_noise,
        ..Drawing::default()
    };
    drawing.check()?;
    let world = World::new(model, glyphs.seed, &atlas)?;
    let mut all = Vec::new();
    for source in &config.sources {
        let folder = out.join(&source.name);
        make(&folder)?;
        let character = CHARACTERS.iter().position(|c| Some(*c) == source.character);
        let shown = (0..(TRIES * count) as u64)
            .filter(|&i| Some(world.example(i).attributes.character) == character)
            .take(count);
        let mut own = Vec::new();
        for (k, index) in shown.enumerate() {
            let path = folder.join(format!("{k:03}.png"));
            if !path.exists() {
                let (_, grey) = dataset::image(&atlas, &world, &drawing, index)
                    .ok_or_else(|| StudyError::file(&path, "no such glyph"))?;
                let bytes = dataset::png(&grey, drawing.size)
                    .map_err(|e| StudyError::file(&path, format!("cannot write: {e}")))?;
                write_whole(&path, &bytes)?;
            }
            own.push(Original::new(source, path, format!("{k:03}"))?);
        }
        if own.len() < count {
            let what = format!("only {} glyphs show {}", own.len(), source.name);
            return Err(StudyError::file(&folder, what));
        }
        all.push(own);
    }
    Ok(all)
}
