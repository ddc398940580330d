//! A folder of golden data: reads files and keeps account of which were used.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use super::check::Check;
use super::json::Json;
use super::real_weights::shipped;
use super::tensors::Tensors;
use super::{
    ConformanceError, Result, Source, attribution, bex, builtin, diffusion, hvilshoj, nets,
    tabular, vision, weights,
};

/// What belongs to an area.
pub struct Layout {
    /// Files, by path below the folder.
    pub files: &'static [&'static str],
    /// Folders of images that cases name.
    pub images: &'static [&'static str],
    /// Files of cases for parts that this program does not have.
    pub not_run: &'static [&'static str],
}

pub struct Folder {
    area: &'static str,
    source: Source,
    used: RefCell<BTreeSet<String>>,
    jsons: RefCell<BTreeMap<String, Rc<Json>>>,
    tensors: RefCell<BTreeMap<String, Rc<Tensors>>>,
}

impl Folder {
    pub fn open(area: &'static str, source: Source) -> Result<Self> {
        if let Source::Folder(path) = &source
            && !path.is_dir()
        {
            let folder = path.display().to_string();
            return Err(ConformanceError::NotAFolder { folder });
        }
        Ok(Self {
            area,
            source,
            used: RefCell::default(),
            jsons: RefCell::default(),
            tensors: RefCell::default(),
        })
    }

    pub fn describe(&self) -> String {
        match &self.source {
            Source::Folder(path) => path.display().to_string(),
            Source::Builtin => "the small set inside the program".into(),
        }
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// How messages name a file.
    pub fn name(&self, file: &str) -> String {
        match &self.source {
            Source::Folder(path) => path.join(file).display().to_string(),
            Source::Builtin => format!("(inside the program) {}/{file}", self.area),
        }
    }

    /// True if the file is there; it does not count as used.
    pub fn holds(&self, file: &str) -> bool {
        match &self.source {
            Source::Builtin => builtin::file(self.area, file).is_some(),
            Source::Folder(path) => path.join(file).is_file(),
        }
    }

    /// A file's content; none if it is absent.
    pub fn bytes(&self, file: &str) -> Result<Option<Cow<'static, [u8]>>> {
        let content = match &self.source {
            Source::Builtin => builtin::file(self.area, file).map(Cow::Borrowed),
            Source::Folder(path) => match std::fs::read(path.join(file)) {
                Ok(bytes) => Some(Cow::Owned(bytes)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
                Err(source) => {
                    let file = self.name(file);
                    return Err(ConformanceError::Io { file, source });
                }
            },
        };
        if content.is_some() {
            self.used.borrow_mut().insert(file.into());
        }
        Ok(content)
    }

    pub fn json(&self, file: &str) -> Result<Option<Rc<Json>>> {
        self.parsed(&self.jsons, file, Json::parse)
    }

    pub fn tensors(&self, file: &str) -> Result<Option<Rc<Tensors>>> {
        self.parsed(&self.tensors, file, Tensors::parse)
    }

    fn parsed<T>(
        &self,
        cache: &RefCell<BTreeMap<String, Rc<T>>>,
        file: &str,
        parse: impl Fn(&str, &[u8]) -> Result<T>,
    ) -> Result<Option<Rc<T>>> {
        if let Some(found) = cache.borrow().get(file) {
            return Ok(Some(found.clone()));
        }
        let Some(bytes) = self.bytes(file)? else {
            return Ok(None);
        };
        let parsed = Rc::new(parse(&self.name(file), &bytes)?);
        cache.borrow_mut().insert(file.into(), parsed.clone());
        Ok(Some(parsed))
    }

    /// Tells of every file whether it was used, is absent, is not needed, or is unknown; and names what is left
    /// unread in the files that were used.
    pub fn account_for_files(&self, check: &mut Check) -> Result<()> {
        for (file, json) in self.jsons.borrow().iter() {
            for place in json.unread() {
                check.unknown(format!("{file}: `{place}`"));
            }
        }
        for (file, tensors) in self.tensors.borrow().iter() {
            for name in tensors.unread() {
                check.unknown(format!("{file}: tensor `{name}`"));
            }
        }
        let layout = match self.area {
            "vision" => vision::LAYOUT,
            "weights" => weights::LAYOUT,
            "bex" => bex::LAYOUT,
            "diffusion" => diffusion::LAYOUT,
            "hvilshoj" => hvilshoj::LAYOUT,
            "attribution" => attribution::LAYOUT,
            "tabular" => tabular::LAYOUT,
            _ => nets::LAYOUT,
        };
        let present = self.list()?;
        let used = self.used.borrow();
        for file in &present {
            let stem = file.rsplit('/').next().unwrap_or(file).to_ascii_lowercase();
            let parent = file.rsplit_once('/').map_or("", |(parent, _)| parent);
            if used.contains(file) {
                check.used(file);
            } else if stem.starts_with("readme") || stem.contains("licen") {
                check.unused(file, "documentation");
            } else if layout.not_run.contains(&file.as_str()) {
                check.unused(
                    file,
                    "its cases are of a part that this program does not have",
                );
            } else if layout.files.contains(&file.as_str()) {
                check.unused(file, "the files its cases stand in are absent");
            } else if layout.images.contains(&parent) && stem.ends_with(".png") {
                check.unused(file, "no case names this image");
            } else {
                check.unknown(format!("{file}: not a file of this layout"));
            }
        }
        let lacking = match self.source {
            Source::Folder(_) => layout.files,
            // The set inside the program is small on purpose.
            Source::Builtin => &[],
        };
        for file in lacking {
            let shipped = self.area == "weights" && shipped(file).is_some();
            if !shipped && !present.iter().any(|p| p == file) {
                check.absent(*file);
            }
        }
        Ok(())
    }

    /// All files below the folder, with `/` between parts.
    fn list(&self) -> Result<Vec<String>> {
        match &self.source {
            Source::Builtin => Ok(builtin::files(self.area)),
            Source::Folder(root) => {
                let mut files = Vec::new();
                walk(root, "", &mut files)?;
                files.sort();
                Ok(files)
            }
        }
    }
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<String>) -> Result<()> {
    let io = |source| ConformanceError::Io {
        file: folder.display().to_string(),
        source,
    };
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let below = format!("{prefix}{name}");
        if path.is_dir() {
            walk(&path, &format!("{below}/"), files)?;
        } else {
            files.push(below);
        }
    }
    Ok(())
}
