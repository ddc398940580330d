//! Originals with their targets.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

use super::{GenerateArgs, usage};
use crate::explain::diffusion::Task;
use crate::images::list_images;
use crate::score::Labels;

impl GenerateArgs {
    /// Originals with their targets, in the order of their names, and the number of all images there. `fixed` is the target
    /// of all of them, instead of --target.
    pub(super) fn tasks_with(
        &self,
        labels: &Labels,
        fixed: Option<usize>,
    ) -> anyhow::Result<(Vec<Task>, usize)> {
        let files = list_images(&self.originals)?;
        let class = |text: &str| labels.resolve(text, None).map_err(usage);
        let all = match fixed {
            Some(target) => Some(target),
            None => { self.target.as_deref().map(class).transpose() }.context("--target")?,
        };
        let mut given = match &self.targets {
            Some(path) => Some(targets(path)?),
            None => None,
        };
        let mut tasks = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let below = file.strip_prefix(&self.originals).unwrap_or(file);
            if below.to_str().is_none() {
                let why = "its name is not UTF-8, so that no manifest can name it: rename it";
                return Err(usage(format!("--originals: {}: {why}", file.display())));
            }
            let plain = |path: &Path| path.to_string_lossy().replace('\\', "/");
            let target = match (all, &mut given) {
                (Some(target), _) => target,
                (None, Some(given)) => match given.remove(&plain(below)) {
                    Some(text) => class(&text).context("--targets")?,
                    None => continue,
                },
                (None, None) => return Err(usage("--target or --targets is needed")),
            };
            let name = plain(&below.with_extension(""));
            tasks.push(Task {
                original: file.clone(),
                noise: name.clone(),
                name,
                target,
                index,
            });
        }
        if let Some(file) = given.as_ref().and_then(|g| g.keys().next()) {
            let folder = self.originals.display();
            return Err(usage(format!(
                "--targets: there is no image {file} in {folder}"
            )));
        }
        let mut names: Vec<&str> = tasks.iter().map(|t| t.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            let why = format!(
                "--originals: two images are called {} but for their extension",
                twice[0]
            );
            return Err(usage(why));
        }
        Ok((tasks, files.len()))
    }
}

/// File and target of every line.
fn targets(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let shown = path.display().to_string();
    let mut reader = csv::Reader::from_path(path).with_context(|| shown.clone())?;
    let headers = reader.headers().with_context(|| shown.clone())?.clone();
    let column = |name: &str| {
        let found = headers.iter().position(|h| h.trim() == name);
        found.ok_or_else(|| usage(format!("{shown}: no column {name}")))
    };
    let (file, target) = (column("file")?, column("target")?);
    let mut all = BTreeMap::new();
    for (line, row) in reader.records().enumerate() {
        let row = row.with_context(|| shown.clone())?;
        let get = |k: usize| row.get(k).unwrap_or("").trim().to_owned();
        if all.insert(get(file), get(target)).is_some() {
            let why = format!("{shown}, line {}: {} is there twice", line + 2, get(file));
            return Err(usage(why));
        }
    }
    Ok(all)
}
