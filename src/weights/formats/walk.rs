//! Nested values of a pickle → flat names.
//!
//! Dictionaries, lists, tuples, TorchScript objects (`__torch__.…`) and saved `torch.nn.Module`
//! objects are walked; every other object is left alone. Depth, steps and lengths of names are
//! bounded, because a small hostile file can describe an endless or astronomically large tree.

use super::error::{Result, Source};
use super::values::{Id, Node, Pickle};
use crate::tensor::{Array, StateDict};

const MAX_DEPTH: usize = 100;
const MAX_STEPS: usize = 2_000_000;
const MAX_NAME: usize = 1024;

/// What counts as an array in one kind of file.
pub(super) trait Leaves<'a> {
    /// The array behind a value; `None` if the value is no array.
    fn leaf(&mut self, pickle: &Pickle<'a>, id: Id, name: &str) -> Result<Option<Array>>;
}

/// One walk over the values of a pickle.
pub(super) struct Walk<'w, 'a, L> {
    pub pickle: &'w Pickle<'a>,
    pub file: Source<'w>,
    /// Between the parts of a name: `.` for torch, `/` for numpy.
    pub separator: char,
    pub leaves: &'w mut L,
    pub out: &'w mut StateDict,
    pub steps: usize,
}

impl<'a, L: Leaves<'a>> Walk<'_, 'a, L> {
    /// Collects every array below `id`; their names begin with `prefix`.
    pub fn run(&mut self, id: Id, prefix: &str) -> Result<()> {
        self.visit(id, &mut prefix.to_owned(), 0)
    }

    fn visit(&mut self, id: Id, name: &mut String, depth: usize) -> Result<()> {
        self.spend(1)?;
        if depth > MAX_DEPTH {
            return Err(self
                .file
                .limit("values nested too deeply", MAX_DEPTH as u64));
        }
        let pickle = self.pickle;
        if !matches!(
            pickle.node(id),
            Node::List(_) | Node::Tuple(_) | Node::Dict(_) | Node::Call(_)
        ) {
            return Ok(());
        }
        if let Some(array) = self.leaves.leaf(pickle, id, name)? {
            let name = if name.is_empty() { "tensor" } else { name };
            return Ok(self.out.add(name, array)?);
        }
        if let Some(pairs) = pickle.pairs(id) {
            self.spend(pairs.len())?;
            for (at, &(key, value)) in pairs.iter().enumerate() {
                let part = self.key(key).unwrap_or_else(|| format!("key{at}"));
                self.child(&part, value, name, depth)?;
            }
            return Ok(());
        }
        if let Some(parts) = pickle.sequence(id) {
            for (at, &part) in parts.iter().enumerate() {
                self.child(&at.to_string(), part, name, depth)?;
            }
            return Ok(());
        }
        self.object(id, name, depth)
    }

    /// Objects whose tensors are reached through their state.
    fn object(&mut self, id: Id, name: &mut String, depth: usize) -> Result<()> {
        let pickle = self.pickle;
        let Some(call) = pickle.call(id) else {
            return Ok(());
        };
        let class = pickle.global(call.callable);
        // Typed lists of TorchScript: the first argument is the list.
        if class.is_some_and(|(module, _)| module == "torch.jit._pickle") {
            return match pickle.sequence(call.args) {
                Some(&[inner, ..]) => self.visit(inner, name, depth + 1),
                _ => Ok(()),
            };
        }
        let Some(state) = call.state else {
            return Ok(());
        };
        if class.is_some_and(|(module, _)| module.split('.').next() == Some("__torch__")) {
            return self.visit(state, name, depth + 1);
        }
        let Some(pairs) = pickle.pairs(state) else {
            return Ok(());
        };
        self.spend(pairs.len())?;
        if pickle.value(&pairs, "_parameters").is_some() {
            for part in ["_parameters", "_buffers", "_modules"] {
                if let Some(value) = pickle.value(&pairs, part) {
                    self.visit(value, name, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn child(&mut self, part: &str, value: Id, name: &mut String, depth: usize) -> Result<()> {
        let before = name.len();
        if !name.is_empty() {
            name.push(self.separator);
        }
        if name.len() + part.len() > MAX_NAME {
            return Err(self
                .file
                .limit("a tensor name that is too long", MAX_NAME as u64));
        }
        name.push_str(part);
        self.visit(value, name, depth + 1)?;
        name.truncate(before);
        Ok(())
    }

    /// A dictionary key as part of a name: text, integer, or a tuple of such.
    fn key(&self, id: Id) -> Option<String> {
        let simple = |id| match self.pickle.text(id) {
            Some(text) => Some(text.chars().take(MAX_NAME + 1).collect()),
            None => self.pickle.int(id).map(|value| value.to_string()),
        };
        simple(id).or_else(|| {
            let parts = self.pickle.sequence(id)?;
            if parts.len() > MAX_DEPTH {
                return None;
            }
            let parts: Option<Vec<String>> = parts.iter().map(|&part| simple(part)).collect();
            Some(parts?.join(&self.separator.to_string()))
        })
    }

    fn spend(&mut self, steps: usize) -> Result<()> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS {
            return Err(self
                .file
                .limit("more values than any network has", MAX_STEPS as u64));
        }
        Ok(())
    }
}
