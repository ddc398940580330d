//! The pairs of a run in their final order, with groups, sets and class indices.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::labels::Labels;
use crate::images::{self, ImageError, Pair, Pairing};

/// A pair with its place in the run.
#[derive(Clone, Debug)]
pub struct Planned {
    pub pair: Pair,
    /// Index into [`Work::originals`].
    pub original: usize,
    pub group: usize,
    /// Index of the first pair of the same set (same group, method and original).
    pub set: usize,
    pub source: Option<usize>,
    pub target: Option<usize>,
}

/// A group of pairs; consecutive in [`Work::pairs`].
#[derive(Clone, Debug)]
pub struct GroupPlan {
    pub name: String,
    pub method: Option<String>,
    pub source: Option<String>,
    pub target: Option<String>,
    pub pairs: std::ops::Range<usize>,
    /// Indices into [`Work::references`], if a reference folder is given.
    pub references: Option<Vec<usize>>,
}

/// All that is to be done, in order.
#[derive(Clone, Debug)]
pub struct Work {
    pub pairs: Vec<Planned>,
    pub originals: Vec<PathBuf>,
    pub groups: Vec<GroupPlan>,
    pub references: Vec<PathBuf>,
    /// The last pair that uses each original.
    pub last_use: Vec<usize>,
    /// True if the class of some original is not given.
    pub unknown_source: bool,
    /// True if an original has several counterfactuals in one group.
    pub has_sets: bool,
}

/// Why the work cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{place}: {reason}")]
    Label { place: String, reason: String },
    /// A wrong value of an option that applies to all pairs.
    #[error("{option}: {reason}")]
    Option { option: String, reason: String },
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// Sorts pairs into the order of the run and of `pairs.csv`: method, group, original, counterfactual.
pub fn order(pairing: &mut Pairing) {
    pairing.pairs.sort_by(|a, b| {
        let key = |p: &Pair| {
            (
                p.method.clone(),
                p.group.clone(),
                p.original.clone(),
                p.counterfactual.clone(),
            )
        };
        key(a).cmp(&key(b))
    });
}

impl Work {
    /// Plans pairs that [`order`] has sorted. `source` and `target` apply where a pair does not say its own.
    pub fn new(
        pairs: &[Pair],
        labels: &Labels,
        classes: Option<usize>,
        source: Option<&str>,
        target: Option<&str>,
        reference: Option<&Path>,
    ) -> Result<Self, PlanError> {
        let mut work = Self {
            pairs: Vec::with_capacity(pairs.len()),
            originals: Vec::new(),
            groups: Vec::new(),
            references: Vec::new(),
            last_use: Vec::new(),
            unknown_source: false,
            has_sets: false,
        };
        let mut original_index: HashMap<&Path, usize> = HashMap::new();
        for (index, pair) in pairs.iter().enumerate() {
            // Without a classifier nothing needs the numbers of classes; their names still title the groups.
            let resolve = |role: &str, own: Option<&str>, given: Option<&str>| match classes {
                None => Ok(None),
                Some(_) => own
                    .or(given)
                    .map(|l| labels.resolve_with_option(l, classes))
                    .transpose()
                    .map_err(|reason| match own {
                        Some(_) => PlanError::Label {
                            place: format!("{role} of {:?}", pair.name),
                            reason,
                        },
                        None => PlanError::Option {
                            option: format!("--{role}"),
                            reason,
                        },
                    }),
            };
            let source_class = resolve("source", pair.source.as_deref(), source)?;
            let target_class = resolve("target", pair.target.as_deref(), target)?;
            work.unknown_source |= source_class.is_none();
            let source = pair.source.as_deref().or(source);
            let target = pair.target.as_deref().or(target);
            let original = *original_index.entry(&pair.original).or_insert_with(|| {
                work.originals.push(pair.original.clone());
                work.last_use.push(index);
                work.originals.len() - 1
            });
            work.last_use[original] = index;
            let same_group = work
                .groups
                .last()
                .is_some_and(|g| g.name == pair.group && g.method == pair.method);
            if !same_group {
                work.groups.push(GroupPlan {
                    name: pair.group.clone(),
                    method: pair.method.clone(),
                    source: source.map(String::from),
                    target: target.map(String::from),
                    pairs: index..index,
                    references: None,
                });
            }
            let group = work.groups.len() - 1;
            let plan = &mut work.groups[group];
            plan.pairs.end = index + 1;
            if plan.source.as_deref() != source {
                plan.source = None;
            }
            if plan.target.as_deref() != target {
                plan.target = None;
            }
            let set = match work.pairs.last() {
                Some(last) if last.group == group && last.original == original => last.set,
                _ => index,
            };
            work.has_sets |= set != index;
            work.pairs.push(Planned {
                pair: pair.clone(),
                original,
                group,
                set,
                source: source_class,
                target: target_class,
            });
        }
        if let Some(folder) = reference {
            work.add_references(folder)?;
        }
        Ok(work)
    }

    /// All images of `folder`; a group with a folder of its own (named like its target or itself) uses only that.
    fn add_references(&mut self, folder: &Path) -> Result<(), PlanError> {
        self.references = images::list_images(folder)?;
        for group in &mut self.groups {
            let own = [group.target.as_deref(), Some(group.name.as_str())]
                .into_iter()
                .flatten()
                .map(|name| folder.join(name))
                .find(|path| self.references.iter().any(|r| r.starts_with(path)));
            let root = own.as_deref().unwrap_or(folder);
            let members: Vec<usize> = (0..self.references.len())
                .filter(|&i| self.references[i].starts_with(root))
                .collect();
            group.references = Some(members);
        }
        Ok(())
    }
}
